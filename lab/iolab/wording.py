"""How a ratio and its interval are written: one function for tables, sentences, charts and claims.

The interval decides the digits: a wide one needs few, a narrow one many. Here too is how sentences list names and say
which word was meant. Pure text; nothing here judges.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Literal, NamedTuple

Bound = Literal["exact", "at least", "at most", "unknown"]
# The sign in front of a figure that is a bound.
BOUND_SIGNS: dict[Bound, str] = {"exact": "", "at least": "≥ ", "at most": "≤ ", "unknown": "? "}
# A bound on a ratio is the opposite bound on its inverse.
_INVERSE: dict[Bound, Bound] = {"exact": "exact", "at least": "at most", "at most": "at least", "unknown": "unknown"}
# The last digit is worth at most this share of the interval, so rounding moves neither end by more than half of that.
STEP_SHARE_MAX = 0.25
# More significant digits than these are noise on any machine.
DIGITS_MAX = 4
# The spaces within a figure, where no line may end: "≥ 1.03x [0.99, 1.13]".
_INSIDE = re.compile(r"(?<=[≥≤?]) (?=\d)|(?<=\dx) (?=\[)|(?<=,) (?=[\d,.]+\])")
_GLUE = "\u00a0"


class Interval(NamedTuple):
    """A ratio with its interval, and what a limit elsewhere leaves of it."""

    ratio: float
    low: float
    high: float
    bound: Bound = "exact"

    @property
    def inverse(self) -> Interval:
        """The same comparison seen from the other side."""
        return Interval(1 / self.ratio, 1 / self.high, 1 / self.low, _INVERSE[self.bound])

    @property
    def decimals(self) -> int:
        """Digits after the point: as many as keep the width, both ends above 0, and an end that is not 1 off 1.

        `DIGITS_MAX` comes first: an end that is nearer to 0 or 1 than those digits show is written as 0 or 1.
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
    """A figure with so many digits that matter, and all of its whole ones: `0.0212`, `47.2`, `1,234`.

    It never has an exponent. What is smaller than `least` is 0, because most figures are shares or percentages, of
    which that is a rounding error.
    """
    if abs(value) < least:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 10**digits else f"{Decimal(f'{value:.{digits}g}'):,f}"


def one_in(share: float) -> str:
    """A share that is seldom large, such as that of failed requests: `12 %`, and below 1 % `1 in 766,667`."""
    return f"{number(100 * share, 2)} %" if share >= 0.01 else f"1 in {number(1 / share)}"


def gigabytes(size: int) -> str:
    """A size of memory for people: `8.19 GB`."""
    return f"{number(size / 1e9)} GB"


def when(iso: str) -> str:
    """A stored time for people."""
    return f"{iso[:10]} {iso[11:16]} UTC"


def duration(seconds: float) -> str:
    """A length of time for people."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def instead(word: str, known: Iterable[str]) -> str:
    """What to write instead of a word that is none of these: the nearest of them, or all."""
    known = list(known)
    near = nearest(word, known)
    return f": use one of {', '.join(known)}" if near is None else f": did you mean {near!r}?"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The word of these that may have been meant; None where none is near."""
    import difflib  # only a mistake needs it

    return next(iter(difflib.get_close_matches(word, list(known), n=1)), None)


def listed(names: Sequence[str]) -> str:
    """`a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def wrapped(line: str, width: int) -> str:
    """The line in lines of at most `width`; a figure with its interval stays together."""
    glued = _INSIDE.sub(_GLUE, line)
    lines = textwrap.wrap(glued, width, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace(_GLUE, " ")
