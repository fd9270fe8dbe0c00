"""Pack a stored run with its report into one file with checksums."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from iolab.cli.parser import Parser, add_shared

USAGE = "[FLAGS] RUN"
EXAMPLES = ("iolab bundle vs-0123", "iolab bundle models -o models.tar.gz", "iolab verify models.tar.gz")


def add(parser: Parser) -> None:
    """Declares the flags."""
    parser.add_argument("run", metavar="RUN", help="a stored run, named as for iolab report")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="file to write (default: RUN.tar.gz)")
    add_shared(parser, "--out")


def run(options: Namespace) -> int:
    """Writes the file, and prints its name and digest."""
    from iolab import api

    made = api.bundle(options.run, options.output, out=options.out)
    for fault in made.faults:
        print(f"iolab bundle: {fault.partition(';')[0]}: iolab verify will say so too", file=sys.stderr)
    print(f"{made.path}: SHA-256 {made.sha256}")
    return 0
