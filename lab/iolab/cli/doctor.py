"""Say which differences this machine can show, what limits it, and what would improve it. Changes nothing."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import TYPE_CHECKING

from iolab.cli.parser import Parser, add_shared

if TYPE_CHECKING:
    from rich.console import Console

    from iolab.machine.check import Check

USAGE = "[FLAGS]"
EXAMPLES = ("iolab doctor", "iolab doctor --no-noise", "iolab doctor --json")
COLOURS = {"ok": "green", "warn": "yellow", "bad": "red"}
# The width of a status before the finding.
INDENT = 5


def add(parser: Parser) -> None:
    """Declares the flags."""
    parser.add_argument(
        "--no-noise",
        action="store_false",
        dest="with_noise",
        help="put no load on this machine: show limits only, not which differences it can show",
    )
    add_shared(parser, "--json")


def run(options: Namespace) -> int:
    """Prints every check with its meaning and its fix; returns 1 if this machine cannot measure at all."""
    from iolab import api
    from iolab.cli.streams import stderr, stdout
    from iolab.cli.terminal import say
    from iolab.wording import duration

    def on_noise(seconds: float) -> None:
        say(stderr(), f"measuring noise for about {duration(seconds)}: one server against itself, in short trials")

    found = api.doctor(noise=options.with_noise, on_noise=on_noise)
    if options.as_json:
        print(json.dumps(found.facts(), indent=2, ensure_ascii=False))
    else:
        _show(stdout(), found.checks)
    return 0 if found.is_fit else 1


def _show(console: Console, checks: tuple[Check, ...]) -> None:
    """Prints the checks under their topics, and the conclusion."""
    from iolab.cli.terminal import say

    topic = ""
    for check in checks:
        if check.topic != topic:
            topic = check.topic
            say(console, topic)
        _show_check(console, check)
    findings = sum(check.status != "ok" for check in checks)
    fit = "cannot measure" if any(check.status == "bad" for check in checks) else "can measure"
    say(console, f"This machine {fit}: {findings or 'no'} finding{'' if findings == 1 else 's'}.")


def _show_check(console: Console, check: Check) -> None:
    """Prints one check: prose wrapped to the terminal, a command in one line for copying."""
    from iolab.cli.terminal import fitted, say
    from iolab.machine.check import CANNOT

    lines = fitted(console, f"{check.what}: {check.found}", indent=INDENT)
    lines += fitted(console, check.means, indent=INDENT) if check.means else []
    if check.fix.startswith(CANNOT):
        lines += fitted(console, check.fix, indent=INDENT)
    elif check.fix:
        lines.append(f"fix: {check.fix}")
    console.print(f"[{COLOURS[check.status]}]{check.status:>{INDENT - 1}}[/] ", end="")
    say(console, lines[0])
    for line in lines[1:]:
        say(console, f"{'':{INDENT}}{line}")
