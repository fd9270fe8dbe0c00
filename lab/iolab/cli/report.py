"""Write the report of a stored run again, and print its verdicts."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from iolab.cli.parser import Parser, add_shared
from iolab.errors import BadInput

USAGE = "[FLAGS] RUN"
EXAMPLES = ("iolab report vs-0123", "iolab report vs-0123456789abcdef --csv > trials.csv")


def add(parser: Parser) -> None:
    """Declares the flags."""
    parser.add_argument(
        "run",
        type=Path,
        metavar="RUN",
        help="a run's folder; or its name in --out, or the beginning of it (iolab list runs has the names); "
        "or the name of an experiment, for its newest run",
    )
    add_shared(parser, "--json")
    parser.add_argument(
        "--csv", action="store_true", dest="as_csv", help="print its trials as a table, with units in the headings"
    )
    parser.add_argument(
        "--markdown",
        action="store_true",
        dest="as_markdown",
        help="print it as Markdown, as for a comment on a pull request",
    )
    add_shared(parser, "--out")


def run(options: Namespace) -> int:
    """Writes the report and prints the results."""
    from iolab import runs

    given = [f"--{name}" for name in ("json", "csv", "markdown") if getattr(options, f"as_{name}")]
    if len(given) > 1:
        raise BadInput(f"{' and '.join(given)} cannot be combined: use one of them")
    folder = runs.find(options.run, options.out)
    if runs.is_capacity(folder):
        if options.as_markdown:
            raise BadInput("as_markdown: a search for a capacity has no Markdown: leave it out")
        return _capacity(folder, as_json=options.as_json, as_csv=options.as_csv)

    from iolab import api
    from iolab.cli import suite
    from iolab.cli.watching import show
    from iolab.report import markdown
    from iolab.results import export
    from iolab.results.export import Table

    if runs.is_suite(folder):
        if options.as_csv:
            raise BadInput("as_csv: a suite has no trials of its own: name the run of one of its experiments")
        whole = api.open_suite(folder)
        if options.as_markdown:
            sys.stdout.write(markdown.of_suite(whole))
            return 0
        api.write_report(whole)
        suite.show(whole, as_json=options.as_json)
        return 0
    found = api.open_run(folder)
    if options.as_csv:
        sys.stdout.write(export.csv_of(Table.of(found.rows())))
        return 0
    if options.as_markdown:
        sys.stdout.write(markdown.of_run(found))
        return 0
    api.write_report(found)
    return show(found, as_json=options.as_json)


def _capacity(folder: Path, *, as_json: bool, as_csv: bool) -> int:
    from iolab.capacity.export import rows
    from iolab.capacity.progress import read_state
    from iolab.cli.capacity import show
    from iolab.results import export
    from iolab.results.export import Table

    if as_csv:
        sys.stdout.write(export.csv_of(Table.of(rows(read_state(folder)))))
    else:
        show(folder, as_json=as_json)
    return 0
