"""Run an experiment or a suite, or resume it, and write its report."""

from __future__ import annotations

from argparse import Namespace

from iolab.cli.parser import Parser, add_shared, named_value
from iolab.errors import BadInput

USAGE = "[FLAGS] EXPERIMENT"
EXAMPLES = (
    "iolab run echo-io_uring-epoll --quick",
    "iolab run published --quick",
    "iolab run published --only S3",
    "iolab run ./my-question.toml",
    "iolab run models --set load.connections=200",
)


def add(parser: Parser) -> None:
    """Declares the flags."""
    parser.add_argument(
        "experiment",
        metavar="EXPERIMENT",
        help="the name of an experiment or a suite (iolab list experiments has them), or the path of a .toml file",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        type=named_value,
        dest="settings",
        metavar="NAME=VALUE",
        help="change a setting, such as load.connections=200; may be given several times",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="PART",
        help="run only this part of a suite, such as S3; may be given several times",
    )
    add_shared(parser, "--quick", "--within", "--budget", "--fresh", "--out", "--json")


def run(options: Namespace) -> int:
    """Runs the experiment and prints its results."""
    from iolab import api
    from iolab.cli import suite
    from iolab.cli.watching import watched
    from iolab.plan import catalog

    if (found := catalog.suite_of(options.experiment)) is not None:
        asked = next((name for name in ("within", "budget_ms") if getattr(options, name) is not None), None)
        if asked is not None:
            raise BadInput(f"{asked}: is for one experiment, and {found.name} is a suite: name one of its experiments")
        return suite.run(found, options)
    if options.only:
        raise BadInput(f"only: is for suites, and {options.experiment} is an experiment: leave it out")
    return watched(
        lambda on_event: api.run(
            options.experiment,
            settings=dict(options.settings),
            quick=options.quick,
            within=options.within,
            budget_ms=options.budget_ms,
            fresh=options.fresh,
            out=options.out,
            on_event=on_event,
        ),
        as_json=options.as_json,
    )
