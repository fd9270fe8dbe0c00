"""Of all stored runs, those that cannot be read."""

from __future__ import annotations

import sys

from iolab.errors import StoreError


def left_out(error: StoreError) -> None:
    """Says that a run is not in the answer. It is no failure: nobody asked for this run by its name."""
    print(f"iolab: left out: {error}", file=sys.stderr)
