"""Answer a whole question: run an experiment, or go on with it, and write its report."""

from __future__ import annotations

from argparse import Namespace

from iolab.cli.parser import Parser, add_shared

USAGE = "[FLAGS] EXPERIMENT"
EXAMPLES = ("iolab run echo-io_uring-epoll --quick", "iolab run ./my-question.toml")


def add(parser: Parser) -> None:
    """Declares the flags."""
    parser.add_argument(
        "experiment",
        metavar="EXPERIMENT",
        help="the name of an experiment (iolab list experiments has them), or the path of a .toml file",
    )
    add_shared(parser, "--quick", "--fresh", "--out", "--json")


def run(options: Namespace) -> int:
    """Runs the experiment and prints its results."""
    from iolab import api
    from iolab.cli.watching import watched

    return watched(
        lambda on_event: api.run(
            options.experiment, quick=options.quick, fresh=options.fresh, out=options.out, on_event=on_event
        ),
        as_json=options.as_json,
    )
