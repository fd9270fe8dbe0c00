"""Check a file of iolab bundle: every checksum, and its report byte for byte."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from iolab.cli.parser import Parser

USAGE = "FILE"
EXAMPLES = ("iolab verify vs-0123456789abcdef.tar.gz",)


def add(parser: Parser) -> None:
    """Declares the argument."""
    parser.add_argument("file", type=Path, metavar="FILE", help="a file that iolab bundle wrote")


def run(options: Namespace) -> int:
    """Prints what was checked; returns 1 if something differs."""
    from iolab import api
    from iolab.cli.aligned import seen

    found = api.verify(options.file)
    for difference in found.differences:
        print(f"differs: {seen(difference)}")
    if not found.differences:
        count = len(found.manifest.files)
        print(f"{options.file}: the checksums of {count} files and of their records are right.")
        print("Its report and its commands, made again from its record, are the same byte for byte.")
    if not found.is_of_this_version:
        print(f"They were made by {seen(str(found.manifest.made_by))}.")
    return 1 if found.differences else 0
