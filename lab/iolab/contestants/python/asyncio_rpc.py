"""A server of iolab's protocol `rpc` on asyncio: `asyncio_rpc.py HOST PORT`. One loop, standard library only."""

from __future__ import annotations

import asyncio
import sys

from loop_server import serve


def compute(target: int) -> int:
    """The answer to `target`, as docs/protocols.md of iolab defines it. work.py says why it is in this file, too."""
    x = target
    for _ in range(target):
        x = ((x ^ (x >> 15)) * 1664525 + 1013904223) & 0xFFFFFFFF
    return x


if __name__ == "__main__":
    asyncio.run(serve(compute, *sys.argv[1:]))
