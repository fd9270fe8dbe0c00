"""Formats a ratio with its interval for tables, sentences, charts and claims; and other text for people.

The interval decides the digits: a wide one needs few, a narrow one many. Nothing here judges.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Literal, NamedTuple

Bound = Literal["exact", "at least", "at most", "unknown"]
# The sign before a figure that is a bound.
BOUND_SIGNS: dict[Bound, str] = {"exact": "", "at least": "≥ ", "at most": "≤ ", "unknown": "? "}
# A bound on a ratio is the opposite bound on its inverse.
_INVERSE: dict[Bound, Bound] = {"exact": "exact", "at least": "at most", "at most": "at least", "unknown": "unknown"}
# Stands for an unknown figure.
NOTHING = "–"
# The last digit is worth at most this share of the interval, so rounding moves an end by at most half of that.
STEP_SHARE_MAX = 0.25
# More significant digits than these are noise on any machine.
DIGITS_MAX = 4
# The spaces within a figure, where lines must not break: "≥ 1.03x [0.99, 1.13]".
_INSIDE = re.compile(r"(?<=[≥≤?]) (?=\d)|(?<=\dx) (?=\[)|(?<=,) (?=[\d,.]+\])")
_GLUE = "\u00a0"


class Interval(NamedTuple):
    """A ratio with its interval, and whether it is exact or a bound."""

    ratio: float
    low: float
    high: float
    bound: Bound = "exact"

    @property
    def inverse(self) -> Interval:
        """The comparison in the other direction."""
        return Interval(1 / self.ratio, 1 / self.high, 1 / self.low, _INVERSE[self.bound])

    @property
    def decimals(self) -> int:
        """Digits after the point: enough to show the width, and to round no end to 0, or to 1 if it is not 1.

        At most `DIGITS_MAX` significant digits: an end closer to 0 or 1 is then printed as 0 or 1.
        """
        most = max(0, DIGITS_MAX - 1 - math.floor(math.log10(self.ratio)))
        step = min((self.high - self.low) * STEP_SHARE_MAX, self.low)
        digits = min(most, max(0, math.ceil(-math.log10(step) - 1e-9))) if step > 0 else most
        while digits < most and any(end != 1 and round(end, digits) == 1 for end in (self.low, self.high)):
            digits += 1
        return digits

    @property
    def alone(self) -> str:
        """The ratio without its interval: `1.03x`."""
        return f"{BOUND_SIGNS[self.bound]}{self.ratio:,.{self.decimals}f}x"

    @property
    def ends(self) -> str:
        """The interval without the ratio: `[0.99, 1.13]`."""
        return f"[{self.low:,.{self.decimals}f}, {self.high:,.{self.decimals}f}]"

    def __str__(self) -> str:
        return f"{self.alone} {self.ends}"


def number(value: float, digits: int = 3, *, least: float = 1e-6) -> str:
    """A figure with this many significant digits, and all digits before the point: `0.0212`, `47.2`, `1,234`.

    It has no exponent. Below `least` it is 0: most figures are shares or percentages, where that is a rounding error.
    """
    if abs(value) < least:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 10**digits else f"{Decimal(f'{value:.{digits}g}'):,f}"


def one_in(share: float) -> str:
    """A usually small share, such as that of failed requests: `12 %`, or below 1 % `1 in 766,667`."""
    return f"{number(100 * share, 2)} %" if share >= 0.01 else f"1 in {number(1 / share)}"


def words_of(name: str) -> str:
    """A word of the record as printed: `machine busy`."""
    return name.replace("_", " ")


def gigabytes(size: int) -> str:
    """A size of memory as printed: `8.19 GB`."""
    return f"{number(size / 1e9)} GB"


def when(iso: str) -> str:
    """A stored time as printed: `2025-01-31 12:00 UTC`."""
    return f"{iso[:10]} {iso[11:16]} UTC"


def duration(seconds: float) -> str:
    """A duration as printed, in seconds, minutes or hours."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def instead(word: str, known: Iterable[str]) -> str:
    """Advice on an unknown word: the nearest known one, or all of them."""
    known = list(known)
    near = nearest(word, known)
    return f": use one of {', '.join(known)}" if near is None else f": did you mean {near!r}?"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word closest to this one; None if none is close."""
    import difflib  # needed only for mistakes

    return next(iter(difflib.get_close_matches(word, list(known), n=1)), None)


def listed(names: Sequence[str]) -> str:
    """`a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def wrapped(line: str, width: int) -> str:
    """The line wrapped at `width`; a figure with its interval stays in one line."""
    glued = _INSIDE.sub(_GLUE, line)
    lines = textwrap.wrap(glued, width, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace(_GLUE, " ")
