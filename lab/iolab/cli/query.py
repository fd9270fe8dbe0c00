"""Query the stored runs in SQL."""

from __future__ import annotations

import sys
from argparse import Namespace

from iolab.cli.parser import Parser, add_shared
from iolab.errors import BadInput

USAGE = "[FLAGS] SQL [RUN ...]"
EXAMPLES = (
    'iolab query "show tables"',
    'iolab query "describe trials"',
    "iolab query \"select metric, ratio from ratios where word = 'differs'\" vs",
)


def add(parser: Parser) -> None:
    """Declares the flags."""
    parser.add_argument(
        "sql",
        metavar="SQL",
        help="one statement of DuckDB's SQL over the views runs, trials, warnings, costs, minutes, levels, ratios, "
        "limits, claims, claim_tests, capacities and probes; docs/query.md has their columns",
    )
    parser.add_argument("runs", nargs="*", metavar="RUN", help="runs to ask, named as for iolab report (default: all)")
    parser.add_argument("--csv", action="store_true", dest="as_csv", help="print the answer as CSV")
    add_shared(parser, "--json", "--out")


def run(options: Namespace) -> int:
    """Prints the answer."""
    from iolab import api
    from iolab.cli import aligned, selected
    from iolab.results import export

    if options.as_json and options.as_csv:
        raise BadInput("--json and --csv cannot be combined: use one of them")
    answer = api.query(options.sql, *options.runs, out=options.out, on_unreadable=selected.left_out)
    form = export.json_of if options.as_json else export.csv_of if options.as_csv else aligned.text_of
    sys.stdout.write(form(answer))
    return 0
