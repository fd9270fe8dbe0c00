"""Decodes the histograms of a report: HdrHistogram's format V2, deflated, in base64."""

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

# The cookies of the outer and the inner format, without the word size in bits 4 to 7.
_DEFLATED, _PLAIN = 0x1C849304, 0x1C849303
_WORD_SIZE = 0xF0
_OUTER, _INNER = struct.Struct(">ii"), struct.Struct(">iiiiqqd")
# The longest number: its ninth byte has eight data bits.
_NUMBER_BYTES_MAX = 9


class Histogram(NamedTuple):
    """The non-empty buckets: the largest value of each, and the number of values up to it."""

    values: tuple[int, ...]
    counts_up_to: tuple[int, ...]

    @property
    def total(self) -> int:
        """The number of values."""
        return self.counts_up_to[-1] if self.counts_up_to else 0

    def at(self, quantile: float) -> int | None:
        """The value that this share of all values does not exceed, as the engine computes it; None without values."""
        if not self.total:
            return None
        rank = max(1, ceil(quantile * self.total - 1e-6))
        return self.values[bisect_left(self.counts_up_to, rank)]


@lru_cache(maxsize=512)
def decoded(text: str) -> Histogram | None:
    """The histogram in a report's text; None if there is none."""
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
    """The largest value and the count of each non-empty bucket. A negative number is a run of empty ones."""
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
    """ZigZag LEB128: seven bits per byte, the lowest first; odd numbers are negative."""
    number = shift = 0
    for byte in packed:
        last = shift == 7 * (_NUMBER_BYTES_MAX - 1)
        number |= (byte if last else byte & 0x7F) << shift
        if byte & 0x80 and not last:
            shift += 7
            continue
        yield (number >> 1) ^ -(number & 1)
        number = shift = 0
