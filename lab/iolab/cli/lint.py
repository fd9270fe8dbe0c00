"""List what cannot be true in the output of a load generator or a table of results, and what it does not show."""

from __future__ import annotations

import json
import sys
from argparse import Namespace

from iolab.cli.parser import Parser, add_shared

USAGE = "[FLAGS] [FILE...]"
EXAMPLES = ("iolab lint results.md", "hey -z 10s http://localhost:8080/ | iolab lint")
HEADINGS = {"impossible": "cannot be true:", "inconclusive": "cannot be concluded:"}


def add(parser: Parser) -> None:
    """Declares the flags."""
    parser.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="outputs of ab, hey, wrk, wrk2, oha, k6 or h2load, or pages with tables in Markdown, CSV or TSV; "
        "each file is one comparison (default: standard input)",
    )
    add_shared(parser, "--json")


def run(options: Namespace) -> int:
    """Prints the findings of all files; returns 1 where there are any."""
    from iolab.lint import lint_file

    checked = [lint_file(file) for file in options.files or ["-"]]
    found = [(each.name, finding) for each in checked for finding in each.findings]
    if options.as_json:
        described = [{"file": name, **finding._asdict()} for name, finding in found]
        read = [{"file": each.name, "outputs": list(each.outputs), "tables": each.tables} for each in checked]
        print(json.dumps({"findings": described, "read": read}, indent=2, ensure_ascii=False))
        return 1 if found else 0
    for certainty, heading in HEADINGS.items():
        lines = [f"{name}:{each.line}: {each.message}" for name, each in found if each.certainty == certainty]
        sys.stdout.write("\n".join([heading, *lines, ""]) + "\n" if lines else "")
    outputs, tables = sum(len(each.outputs) for each in checked), sum(each.tables for each in checked)
    print(f"{_many(len(found), 'finding')} in {_many(outputs, 'output')} and {_many(tables, 'table')}")
    return 1 if found else 0


def _many(number: int, word: str) -> str:
    return f"{number or 'no'} {word}{'' if number == 1 else 's'}"
