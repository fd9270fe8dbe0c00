"""Printed numbers. Rounding makes each a range, and a formula holds if the ranges of both sides overlap."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

from iolab.wording import number

Kind = Literal["count", "number", "time", "bytes", "share"]

# The value of each unit in seconds, bytes or parts of 1.
_TIMES = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("ms", "msec", "millis", "milliseconds"), 1e-3),
    **dict.fromkeys(("us", "µs", "μs", "usec", "microseconds"), 1e-6),
    **dict.fromkeys(("ns", "nsec", "nanoseconds"), 1e-9),
    **dict.fromkeys(("m", "min", "mins", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
}
_BYTES = {
    **dict.fromkeys(("b", "byte", "bytes"), 1.0),
    **{f"{letter}{unit}": 1024.0**power for power, letter in enumerate("kmgt", 1) for unit in ("", "b", "ib", "bytes")},
}
_NUMBERS = {"k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9}
UNITS: dict[Kind, dict[str, float]] = {
    # A length in bytes is exact if it has no other unit.
    "count": {**_NUMBERS, "byte": 1.0, "bytes": 1.0},
    "number": _NUMBERS,
    "time": _TIMES,
    "bytes": _BYTES,
    "share": {"%": 0.01, "core": 1.0, "cores": 1.0},
}
# The default unit of a number that is ambiguous without one: 95 of a processor may be percent or cores.
UNKNOWN = "?"
# Any other word after a number is not a unit, as in `14 each`.
_WORDS = {unit for units in UNITS.values() for unit in units}
# `12.3kreq/s`: the counted thing may follow the thousands without a space.
_SCALED = re.compile(r"([kmg])(?:req|reqs|requests|rps|qps|tps|ops|msg|msgs|messages|calls)")
# Every quantifier has a limit, so untrusted text cannot make a match slow.
NUMBER = r"(?:\d{1,3}(?:[,\u00a0\u202f]\d{3}){1,5}|\d{1,18})(?:\.\d{1,12})?(?:[eE][+-]?\d{1,2})?"
_UNIT = r"(?:[ \t]{0,3}(?P<%s>[a-zA-Zµμ]{1,12}|%%)(?!\w))?"
_FIGURE = re.compile(
    rf"(?P<number>{NUMBER}){_UNIT % 'unit'}"
    rf"(?:[ \t]{{0,3}}\(?(?:±|\+/?-)[ \t]{{0,3}}(?P<error>{NUMBER}){_UNIT % 'error_unit'})?"
)
# The rest of a number that cannot be parsed: `12,5`, `1.2.3`, `12:30`, `1h30m`, or too many digits.
_GOES_ON = re.compile(r"[.,:'’_]?\d|[hm]\d")
# The signs and words before a bound or an approximate number.
_BOUND = re.compile(r"(?<![-=])([<>≤≥])=?\s{0,3}$")
_NEAR = re.compile(r"(?:~|≈|\b(?:about|around|approx\.?|ca\.?))\s{0,3}$", re.IGNORECASE)
# A time in several units: `1m30s`, `1h 5m 2.5s`.
_LONG_TIME = re.compile(r"(?:(\d{1,4})h ?)?(?:(\d{1,4})m(?:in)? ?)?(\d{1,5}(?:\.\d{1,9})?)s\b")
_SEPARATORS = str.maketrans("", "", ",\u00a0\u202f")


@dataclass(frozen=True)
class Span:
    """The values a figure may stand for. Never negative; `high` is infinite if only a lower bound is known."""

    low: float
    high: float

    @classmethod
    def exactly(cls, value: float) -> Span:
        """The span of one exact value."""
        return cls(value, value)

    def __mul__(self, other: Span) -> Span:
        is_open = math.isinf(self.high) or math.isinf(other.high)
        return Span(self.low * other.low, math.inf if is_open else self.high * other.high)

    def __truediv__(self, other: Span) -> Span:
        return Span(_quotient(self.low, other.high), _quotient(self.high, other.low))

    def __add__(self, other: Span) -> Span:
        return Span(self.low + other.low, self.high + other.high)

    @property
    def middle(self) -> float:
        """The middle, for sentences; the lower end if there is no upper one."""
        return (self.low + self.high) / 2 if math.isfinite(self.high) else self.low

    def meets(self, other: Span, slack: float = 0.0) -> bool:
        """Whether both may stand for the same value; `slack` is the tolerance as a share."""
        return self.low <= other.high * (1 + slack) and other.low <= self.high * (1 + slack)


def _quotient(above: float, below: float) -> float:
    return above / below if below > 0 else math.inf


@dataclass(frozen=True)
class Figure:
    """A printed number: its value in seconds, bytes or units, its range, and its line."""

    value: float
    span: Span
    line: int
    text: str
    unit: str = ""


def figure(text: str, line: int, kind: Kind, default: str = "") -> Figure | None:
    """The first number in a text; None if there is none, it cannot be parsed, or its unit is of another kind.

    `default` is the unit of a number without one. A count is exact. Any other number is within one unit of its last
    digit, because some tools round and others truncate; a printed error (`1.2 ± 0.1 ms`) widens that.
    """
    found = _FIGURE.search(text)
    if not found:
        return None
    before, unit = text[: found.start()].rstrip(), (found["unit"] or found["error_unit"] or "").lower()
    if kind == "time" and (parts := _LONG_TIME.match(text, found.start())) and (parts[1] or parts[2]):
        value, step, written, unit = _long_time(parts), 10.0 ** -_decimals(parts[3], kind), parts[0], "s"
    elif (scale := _scale(unit, kind, default)) is None or _GOES_ON.match(text, found.end("number")):
        return None
    else:
        digits, written = found["number"].translate(_SEPARATORS), found[0]
        value, step = float(digits) * scale, _step(digits, kind, scale)
    if before.endswith(("-", "−", "–")) or _NEAR.search(before):
        return None
    span = Span(max(0.0, value - step / 2), value + step * (1 + 1e-9))
    if found["error"]:
        span = _widened(span, value, found["error"], (found["error_unit"] or unit).lower(), kind, default)
    if bound := _BOUND.search(before):
        span = Span(0.0, value) if bound[1] in "<≤" else Span(value, math.inf)
    return Figure(value, span, line, written.strip(), unit)


def _scale(unit: str, kind: Kind, default: str) -> float | None:
    """The value of a unit; None if it is of another kind or unknown."""
    if unit and unit not in _WORDS:
        scaled = _SCALED.fullmatch(unit) if kind in ("count", "number") else None
        unit = scaled[1] if scaled else ""
    unit = unit or default
    return UNITS[kind].get(unit, None if unit else 1.0)


def _widened(span: Span, value: float, error: str, unit: str, kind: Kind, default: str) -> Span:
    """A range widened by the error printed beside the number, in its unit or in percent."""
    scale = value * 0.01 if unit == "%" and kind != "share" else _scale(unit, kind, default)
    width = float(error.translate(_SEPARATORS)) * (scale or 0.0)
    return Span(max(0.0, min(span.low, value - width)), max(span.high, value + width))


def _long_time(parts: re.Match[str]) -> float:
    hours, minutes, seconds = (float(each or 0) for each in parts.groups())
    return hours * 3600 + minutes * 60 + seconds


def _step(digits: str, kind: Kind, scale: float) -> float:
    """The value of one unit in the last digit; 0 for a count."""
    mantissa, _, exponent = digits.lower().partition("e")
    is_exact = kind == "count" and scale == 1 and "." not in mantissa
    return 0.0 if is_exact else scale * 10.0 ** (int(exponent or 0) - _decimals(mantissa, kind))


def _decimals(digits: str, kind: Kind) -> int:
    """Digits after the point; negative for a rate such as 132000, which may be rounded to thousands."""
    whole, _, part = digits.partition(".")
    if part or kind != "number":
        return len(part)
    zeros = len(whole) - len(whole.rstrip("0"))
    return -min(zeros, 3) if zeros > 1 and whole.strip("0") else 0


def shown(value: float) -> str:
    """A number in a sentence: four digits, or all digits of a whole number."""
    if not math.isfinite(value):
        return "no number"
    if value >= 1000 or value == int(value):
        return f"{value:.0f}" if value < 1e15 else f"{value:.3g}"
    return number(value, 4)


def shown_time(seconds: float) -> str:
    """A time in a sentence, in a fitting unit."""
    for unit, worth in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= worth or unit == "us":
            return f"{shown(seconds / worth)} {unit}"
    raise AssertionError("unreachable")
