"""Stored runs that cannot be read."""

from __future__ import annotations

import sys

from iolab.errors import StoreError


def left_out(error: StoreError) -> None:
    """Prints that a run is left out. The exit code stays 0, because the user did not name this run."""
    print(f"iolab: left out: {error}", file=sys.stderr)
