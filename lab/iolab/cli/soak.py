"""Load one server for minutes or hours, and report errors and what grows."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping

from iolab.cli.parser import Parser, add_shared, milliseconds
from iolab.cli.settings import TRIAL, Setting
from iolab.cli.vs import GROUPS as OF_VS
from iolab.cli.vs import add_groups, asked

USAGE = "[FLAGS] CONTESTANT"
EXAMPLES = (
    "iolab soak epoll --duration 30m",
    "iolab soak epoll --duration 21h --protocol line --connections 2",
    "iolab soak 'cmd:./mine --port {port}' --protocol http --duration 8h",
)
DURATION_MS = 30 * 60_000

# The settings of vs, without blocks, because there is one trial.
GROUPS: Mapping[str, Mapping[str, Setting]] = {
    **{title: settings for title, settings in OF_VS.items() if title != "the trials"},
    "the trial": {
        "warmup_ms": Setting("load before the window", "1s", milliseconds, "TIME", ("--warmup",)),
        "duration_ms": Setting("measured window, up to 24h", "30m", milliseconds, "TIME", ("--duration",)),
        **TRIAL,
    },
}
SETTINGS = {key: setting for settings in GROUPS.values() for key, setting in settings.items()}


def add(parser: Parser) -> None:
    """Declares the flags."""
    parser.add_argument("contestant", metavar="CONTESTANT", help="the server, as for vs")
    add_groups(parser, GROUPS)
    add_shared(parser.add_argument_group("the run"), "--fresh", "--out")


def run(options: Namespace) -> int:
    """Runs the trial and prints its errors and what grew, even if the server broke."""
    from iolab import api
    from iolab.cli.streams import stdout
    from iolab.cli.terminal import say
    from iolab.cli.watching import followed
    from iolab.judge import endurance

    settings = {"duration_ms": DURATION_MS} | asked(options, SETTINGS)
    found = followed(
        lambda on_event: api.soak(
            options.contestant, **settings, fresh=options.fresh, out=options.out, on_event=on_event
        )
    )
    if isinstance(found, int):
        return found
    for result in found.trials:
        for line in endurance.lines(result, [each for each in found.minutes if each.trial == result.trial]):
            say(stdout(), line)
    say(stdout(), f"record: {found.folder}")
    return 0 if found.trials[-1].failure is None else 1
