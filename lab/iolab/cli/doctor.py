"""Say whether this machine is fit to measure, and what would make it fitter. Changes nothing."""

from __future__ import annotations

from argparse import Namespace

from iolab.cli.parser import Parser

USAGE = ""
EXAMPLES = ("iolab doctor",)
COLOURS = {"ok": "green", "warn": "yellow", "bad": "red"}


def add(_parser: Parser) -> None:
    """Declares no flag."""


def run(_options: Namespace) -> int:
    """Prints every check in a line, with its advice."""
    from iolab.cli.streams import stdout
    from iolab.cli.terminal import say
    from iolab.measure import agent

    console, checks = stdout(), agent.examine()
    for check in checks:
        console.print(f"[{COLOURS[check.status]}]{check.status:>4}[/] ", end="")
        say(console, f"{check.what}: {check.found}" + (f". {check.advice}" if check.advice else ""))
    return 1 if any(check.status == "bad" for check in checks) else 0
