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
    add_shared(parser, "--out")


def run(options: Namespace) -> int:
    """Writes the report and prints the results."""
    from iolab import runs

    if options.as_json and options.as_csv:
        raise BadInput("--json and --csv do not fit: leave one of them out")
    folder = runs.find(options.run, options.out)
    if runs.is_capacity(folder):
        return _capacity(folder, as_json=options.as_json, as_csv=options.as_csv)

    from iolab import api
    from iolab.cli.watching import show
    from iolab.results import export

    found = api.open_run(folder)
    if options.as_csv:
        sys.stdout.write(export.csv_of(found.rows()))
        return 0
    api.write_report(found)
    return show(found, as_json=options.as_json)


def _capacity(folder: Path, *, as_json: bool, as_csv: bool) -> int:
    from iolab.capacity.export import rows
    from iolab.capacity.progress import read_state
    from iolab.cli.capacity import show
    from iolab.results import export

    if as_csv:
        sys.stdout.write(export.csv_of(rows(read_state(folder))))
    else:
        show(folder, as_json=as_json)
    return 0
