"""Write the stored runs as files for other tools: CSV, JSON or Parquet."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from iolab.cli.parser import Parser, add_shared
from iolab.errors import BadInput

USAGE = "[FLAGS] [RUN ...]"
EXAMPLES = ("iolab export --parquet", "iolab export --csv --json -o tables models")
FORMATS = ("csv", "json", "parquet")


def add(parser: Parser) -> None:
    """Declares the flags."""
    parser.add_argument(
        "runs", nargs="*", metavar="RUN", help="runs to write, named as for iolab report (default: all)"
    )
    for form, about in zip(FORMATS, ("CSV", "a JSON array of objects", "Parquet"), strict=True):
        parser.add_argument(f"--{form}", action="append_const", dest="formats", const=form, help=f"write {about}")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("export"),
        metavar="FOLDER",
        help="folder to write to: one file for each view of docs/query.md (default: %(default)s)",
    )
    add_shared(parser, "--out")


def run(options: Namespace) -> int:
    """Writes the files, and prints each with its number of rows."""
    from iolab import api
    from iolab.cli import selected

    if not options.formats:
        raise BadInput("a format is missing: add --csv, --json or --parquet")
    formats = tuple(dict.fromkeys(options.formats))
    written = api.export(
        options.output, *options.runs, formats=formats, out=options.out, on_unreadable=selected.left_out
    )
    for path, rows in written.items():
        print(f"{path}: {rows} {'row' if rows == 1 else 'rows'}")
    return 0
