"""Find impossible figures and unsupported conclusions in outputs of load generators and tables of results."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from iolab.cli.parser import Parser, add_shared
from iolab.errors import BadInput

if TYPE_CHECKING:
    from iolab.lint import Linted

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
    """Prints the findings of all files; returns 1 if there are any, and 2 if a file cannot be checked."""
    checked, unread = _checked(options.files or ["-"])
    if checked and options.as_json:
        _print_json(checked)
    elif checked:
        _print(checked)
    return unread or (1 if any(each.findings for each in checked) else 0)


def _checked(files: Sequence[str]) -> tuple[list[Linted], int]:
    """The files that can be checked, and the exit code for the others; prints a line for each of those."""
    from iolab import cli
    from iolab.lint import lint_file

    checked: list[Linted] = []
    code = 0
    for file in files:
        try:
            checked.append(lint_file(file))
        except BadInput as error:
            code = cli.failed(str(error), error.code, "iolab lint")
    return checked, code


def _print_json(checked: Sequence[Linted]) -> None:
    described = [{"file": each.name, **finding._asdict()} for each in checked for finding in each.findings]
    read = [{"file": each.name, "outputs": list(each.outputs), "tables": each.tables} for each in checked]
    print(json.dumps({"findings": described, "read": read}, indent=2, ensure_ascii=False))


def _print(checked: Sequence[Linted]) -> None:
    from iolab.cli.aligned import seen

    found = [(each.name, finding) for each in checked for finding in each.findings]
    for certainty, heading in HEADINGS.items():
        lines = [f"{name}:{each.line}: {seen(each.message)}" for name, each in found if each.certainty == certainty]
        sys.stdout.write("\n".join([heading, *lines, ""]) + "\n" if lines else "")
    outputs, tables = sum(len(each.outputs) for each in checked), sum(each.tables for each in checked)
    print(f"{_many(len(found), 'finding')} in {_many(outputs, 'output')} and {_many(tables, 'table')}")


def _many(number: int, word: str) -> str:
    return f"{number or 'no'} {word}{'' if number == 1 else 's'}"
