"""CPU work in steps: the answer of the protocol `rpc`, for servers and clients in Python.

A step is x = ((x xor (x >> 15)) * 1664525 + 1013904223) mod 2^32; crates/proto/src/work.rs gives the reasons. Both are
tested against one table of answers, crates/proto/testdata/work.txt.
"""

from __future__ import annotations


def compute(target: int) -> int:
    """The result of `target` steps from `target`, a whole number below 2^32."""
    x = target
    for _ in range(target):
        x = ((x ^ (x >> 15)) * 1664525 + 1013904223) & 0xFFFFFFFF
    return x
