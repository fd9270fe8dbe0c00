"""The two streams of a command as consoles that draw tables."""

from __future__ import annotations

import os
import sys

from rich.console import Console

from iolab.cli import terminal


def stdout() -> Console:
    """Standard output. A file has no width, so tables get the full WIDE_COLUMNS."""
    return Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else terminal.WIDE_COLUMNS)


def stderr() -> Console:
    """Standard error."""
    return Console(stderr=True)
