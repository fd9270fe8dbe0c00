"""Printed numbers. Rounding makes each a range, and a formula holds if the ranges of its two sides meet."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["count", "number", "time", "bytes", "share"]

# What a unit is worth, in seconds, bytes or parts of 1.
_TIMES = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("ms", "msec", "millis", "milliseconds"), 1e-3),
    **dict.fromkeys(("us", "µs", "μs", "usec", "microseconds"), 1e-6),
    **dict.fromkeys(("ns", "nsec", "nanoseconds"), 1e-9),
    **dict.fromkeys(("m", "min", "minutes"), 60.0),
    **dict.fromkeys(("h", "hours"), 3600.0),
}
_BYTES = {
    **dict.fromkeys(("b", "byte", "bytes"), 1.0),
    **{f"{letter}{unit}": 1024.0**power for power, letter in enumerate("kmgt", 1) for unit in ("", "b", "ib", "bytes")},
}
_COUNTS = {"k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9}
UNITS: dict[Kind, dict[str, float]] = {
    "count": _COUNTS,
    "number": _COUNTS,
    "time": _TIMES,
    "bytes": _BYTES,
    "share": {"%": 0.01},
}
# A word after a number that is none of these is no unit, as in `14 each`.
_WORDS = {unit for units in UNITS.values() for unit in units}
# Every quantifier has a limit: text from outside cannot make a match slow.
NUMBER = r"(?:\d{1,3}(?:[,\u00a0\u202f]\d{3}){1,5}|\d{1,18})(?:\.\d{1,12})?"
_FIGURE = re.compile(rf"(?P<number>{NUMBER})(?:[ \t]{{0,3}}(?P<unit>[a-zA-Zµμ]{{1,12}}|%)(?!\w))?")
_SEPARATORS = str.maketrans("", "", ",\u00a0\u202f")


@dataclass(frozen=True)
class Span:
    """All values that a figure may stand for. Never negative."""

    low: float
    high: float

    @classmethod
    def exactly(cls, value: float) -> Span:
        """One value."""
        return cls(value, value)

    def __mul__(self, other: Span) -> Span:
        return Span(self.low * other.low, self.high * other.high)

    def __truediv__(self, other: Span) -> Span:
        return Span(_quotient(self.low, other.high), _quotient(self.high, other.low))

    def __add__(self, other: Span) -> Span:
        return Span(self.low + other.low, self.high + other.high)

    @property
    def middle(self) -> float:
        """Its middle, for sentences."""
        return (self.low + self.high) / 2 if math.isfinite(self.high) else self.low

    def meets(self, other: Span, slack: float = 0.0) -> bool:
        """Whether both may stand for the same value, `slack` being a share of it."""
        return self.low <= other.high * (1 + slack) and other.low <= self.high * (1 + slack)


def _quotient(above: float, below: float) -> float:
    return above / below if below > 0 else math.inf


@dataclass(frozen=True)
class Figure:
    """A number as printed: its value in seconds, bytes or units, what it may stand for, and where it is."""

    value: float
    span: Span
    line: int
    text: str
    unit: str = ""


def figure(text: str, line: int, kind: Kind, default: str = "") -> Figure | None:
    """The first number in a text; None where there is none, or its unit is none of this kind.

    `default` is the unit of a number without one. A count is exact. Any other number is within a unit of its last
    digit, because some tools round and others cut off.
    """
    found = _FIGURE.search(text)
    if not found or text[: found.start()].rstrip().endswith("-"):
        return None
    unit = (found["unit"] or "").lower()
    if unit not in _WORDS:
        unit = default
    scale = UNITS[kind].get(unit, 1.0 if not unit or kind in ("count", "number") else None)
    if scale is None:
        return None
    digits = found["number"].translate(_SEPARATORS)
    value = float(digits) * scale
    is_exact = kind == "count" and scale == 1 and "." not in digits
    step = 0.0 if is_exact else scale * 10.0 ** -_decimals(digits, kind)
    span = Span(max(0.0, value - step / 2), value + step * (1 + 1e-9))
    return Figure(value, span, line, found[0].strip(), (found["unit"] or "").lower())


def _decimals(digits: str, kind: Kind) -> int:
    """Digits after the point; below zero for a rate such as 132000, which may be rounded to thousands."""
    whole, _, part = digits.partition(".")
    if part or kind != "number":
        return len(part)
    zeros = len(whole) - len(whole.rstrip("0"))
    return -min(zeros, 3) if zeros > 1 and whole.strip("0") else 0


def shown(value: float) -> str:
    """A number in a sentence: four digits, or all of a whole one."""
    if not math.isfinite(value):
        return "no number"
    if value >= 1000 or value == int(value):
        return f"{value:.0f}" if value < 1e15 else f"{value:.3g}"
    return f"{value:.4g}"


def shown_time(seconds: float) -> str:
    """A time in a sentence, in the unit that suits it."""
    for unit, worth in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= worth or unit == "us":
            return f"{shown(seconds / worth)} {unit}"
    raise AssertionError("unreachable")
