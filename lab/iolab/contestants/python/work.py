"""The work of a call in a module of its own, for `python-rpc[work=imported]`.

On a free-threaded CPython 3.13, the large numbers in an imported function are objects whose references all threads
count, so threads that work at the same time wait for each other. The servers here therefore define the work in their
main programs, where such numbers are never counted. This copy shows what the difference is.
"""

from __future__ import annotations


def compute(target: int) -> int:
    """The answer to `target`, as docs/protocols.md of iolab defines it."""
    x = target
    for _ in range(target):
        x = ((x ^ (x >> 15)) * 1664525 + 1013904223) & 0xFFFFFFFF
    return x
