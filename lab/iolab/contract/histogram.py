"""The histograms of a report: HdrHistogram's format V2, deflated, in base64, read without loss."""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate
from math import ceil, log2
from typing import NamedTuple

# The first four bytes outside and inside, apart from the word size in bits 4 to 7.
_DEFLATED, _PLAIN = 0x1C849304, 0x1C849303
_WORD_SIZE = 0xF0
_OUTER, _INNER = struct.Struct(">ii"), struct.Struct(">iiiiqqd")
# What a number takes at most: its ninth byte is whole.
_NUMBER_BYTES_MAX = 9


class Histogram(NamedTuple):
    """The buckets that are not empty: the largest value of each, and how many values are in it and in those below."""

    values: tuple[int, ...]
    counts_up_to: tuple[int, ...]

    @property
    def total(self) -> int:
        """How many values there are."""
        return self.counts_up_to[-1] if self.counts_up_to else 0

    def at(self, quantile: float) -> int | None:
        """The value that this share of all values does not exceed, as the engine says it; None of no values."""
        if not self.total:
            return None
        rank = max(1, ceil(quantile * self.total - 1e-6))
        return self.values[bisect_left(self.counts_up_to, rank)]


@lru_cache(maxsize=512)
def decoded(text: str) -> Histogram | None:
    """The histogram of a report's text; None where it holds none."""
    try:
        outer = base64.b64decode(text, validate=True)
        if not outer or _OUTER.unpack_from(outer)[0] & ~_WORD_SIZE != _DEFLATED:
            return None
        inner = zlib.decompress(outer[_OUTER.size :])
        cookie, length, _, digits, lowest, _, _ = _INNER.unpack_from(inner)
    except (binascii.Error, struct.error, zlib.error):
        return None
    if cookie & ~_WORD_SIZE != _PLAIN:
        return None
    buckets = list(_buckets(inner[_INNER.size : _INNER.size + length], digits, lowest))
    return Histogram(tuple(value for value, _ in buckets), tuple(accumulate(count for _, count in buckets)))


def _buckets(counts: bytes, digits: int, lowest: int) -> Iterator[tuple[int, int]]:
    """The largest value and the count of each bucket that is not empty. A negative number is a run of empty ones."""
    unit = int(log2(max(1, lowest)))
    half_bits = ceil(log2(2 * 10**digits)) - 1
    half = 1 << half_bits
    index = 0
    for number in _numbers(counts):
        if number <= 0:
            index += -number or 1
            continue
        shift = max(0, (index >> half_bits) - 1)
        within = (index & (half - 1)) + (half if index >= half else 0)
        yield ((within + 1) << (shift + unit)) - 1, number
        index += 1


def _numbers(packed: bytes) -> Iterator[int]:
    """ZigZag LEB128: seven bits a byte, the lowest first; an odd number is a negative one."""
    number = shift = 0
    for byte in packed:
        last = shift == 7 * (_NUMBER_BYTES_MAX - 1)
        number |= (byte if last else byte & 0x7F) << shift
        if byte & 0x80 and not last:
            shift += 7
            continue
        yield (number >> 1) ^ -(number & 1)
        number = shift = 0
