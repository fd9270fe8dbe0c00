"""Compare two stored runs, or the contestants of one: what became slower, and whether that can be chance."""

from __future__ import annotations

import argparse
import json
import re
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from iolab import cli
from iolab.cli.parser import Parser, add_shared, one_of, usage_of
from iolab.errors import BadInput

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from iolab.judge.comparison import Change, RunComparison

USAGE = "[FLAGS] A [B]"
EXAMPLES = (
    "iolab compare vs --threshold 3%",
    "iolab compare baseline/vs-0123456789abcdef vs --threshold 3%",
    "iolab compare vs-0123456789abcdef.1 vs --junit changes.xml",
    "iolab compare models-0123456789abcdef.1 models --markdown > changes.md",
)
# The systems with annotations in their logs.
ANNOTATED = ("github",)
ALLOWED = ("machine", "engine", "plan")
SHARE = re.compile(r"(\d+(?:\.\d+)?) ?%")


def add(parser: Parser) -> None:
    """Declares the flags."""
    for name, count, what in (
        ("a", None, "the earlier run: a folder, or a name as iolab report takes it"),
        ("b", "?", "the later run; without it, each contestant of A is compared with its reference"),
    ):
        parser.add_argument(name, type=Path, nargs=count, metavar=name.upper(), help=what)
    parser.add_argument(
        "--threshold",
        type=threshold,
        default="2%",
        metavar="SHARE",
        help="a difference counts beyond this (default: %(default)s)",
    )
    parser.add_argument(
        "--allow",
        type=one_of(ALLOWED),
        action="append",
        default=[],
        metavar=usage_of(ALLOWED),
        help="compare runs that differ in this; may be repeated",
    )
    add_shared(parser, "--json")
    parser.add_argument("--markdown", action="store_true", help="print a table for a pull request")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="also write the changes as JUnit's XML")
    parser.add_argument(
        "--annotations",
        type=one_of(ANNOTATED),
        metavar=usage_of(ANNOTATED),
        help="also print regressions as annotations of a workflow",
    )
    add_shared(parser, "--out")


def threshold(text: str) -> float:
    """A share such as 3%, above 0 and below 100 %."""
    match = SHARE.fullmatch(text.strip())
    if match is None or not 0 < float(match[1]) < 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share such as 3%")
    return float(match[1]) / 100


def run(options: Namespace) -> int:
    """Compares and prints what changed; returns the exit code."""
    from iolab import api
    from iolab.report import changes
    from iolab.results.files import write_file

    printed = [flag for flag in ("--json", "--markdown", "--annotations") if _is_given(options, flag)]
    if len(printed) > 1:
        raise BadInput(f"{printed[0]} and {printed[1]} do not fit, as both are printed: leave one of them out")
    found = api.compare(
        options.a, options.b, threshold=options.threshold, allow=frozenset(options.allow), out=options.out
    )
    if options.junit is not None:
        write_file(options.junit, changes.junit(found))
    if options.as_json:
        print(json.dumps(changes.document(found), indent=2))
    elif options.markdown:
        sys.stdout.write(changes.markdown(found))
    else:
        _show(found)
    for line in changes.github(found) if options.annotations else ():
        print(line)
    return _code(found)


def _is_given(options: Namespace, flag: str) -> bool:
    return bool({"--json": options.as_json, "--markdown": options.markdown, "--annotations": options.annotations}[flag])


def _code(found: RunComparison) -> int:
    """The exit code; prints the reason on standard error if it is not 0."""
    from iolab.report import changes

    if found.regressions:
        return cli.failed(changes.headline(found), 1)
    if found.is_inconclusive:
        return cli.failed(changes.headline(found), cli.INCONCLUSIVE)
    return 0


def _show(found: RunComparison) -> None:
    """Prints the tables of all contestants, and the answer last."""
    from iolab.cli.streams import stdout
    from iolab.cli.terminal import prose
    from iolab.report import changes

    console = stdout()
    for line in changes.preamble(found):
        prose(console, line)
    for cell in found.cells:
        console.print()
        console.print(_table(console, cell))
    console.print()
    for line in (*changes.sentences(found), changes.headline(found)):
        prose(console, line)


def _table(console: Console, cell: tuple[Change, ...]) -> Table:
    """A row for each metric of one contestant."""
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    from iolab.metrics import METRICS
    from iolab.report import changes

    table = Table(
        title=escape(changes.heading(cell[0])),
        title_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
    )
    table.add_column("")
    for heading in ("A", "B", "B / A"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for change in cell:
        row = METRICS[change.metric]
        levels = (changes.level(of).removesuffix(row.unit).rstrip() for of in (change.level_a, change.level_b))
        figures = (row.short or row.heading, *levels, str(change.interval), changes.verdict(change))
        table.add_row(*map(escape, figures))
    return table
