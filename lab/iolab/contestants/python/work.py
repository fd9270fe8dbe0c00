"""The work of a call in a separate module, for `python-rpc[work=imported]`.

Measured with `iolab run rpc-gil` on CPython 3.13.5 without the GIL: a server with this work has 0.57 [0.51, 0.63] of
the throughput of the same server with the work in its main program, at a target of 1000. Reference counts are the
likely cause: by `sys.getrefcount` the large numbers of a function in the main program are immortal, and these are not,
so all threads update the counts of the same objects. The servers here define the work in their main programs.
"""

from __future__ import annotations


def compute(target: int) -> int:
    """The answer to `target`, as docs/protocols.md of iolab defines it."""
    x = target
    for _ in range(target):
        x = ((x ^ (x >> 15)) * 1664525 + 1013904223) & 0xFFFFFFFF
    return x
