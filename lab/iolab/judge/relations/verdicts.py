"""The verdict on one test of a claim, and what the relations share: bounds, blocks that are missing, words."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from iolab.contract.types import Frozen
from iolab.judge import stats
from iolab.plan.claims import Test
from iolab.plan.plan import blocks_min
from iolab.wording import number

Judgement = Literal[
    "confirmed", "direction only", "contradicted", "undecided", "not measurable here", "stated", "full run only"
]
# Beyond so many more blocks the number itself says nothing: another machine or another hour would help.
MORE_BLOCKS_MAX = 200
# What the interval says of a bound.
Met = Literal["met", "violated", "open"]


class TestVerdict(Frozen):
    """A test of a claim, the word on it, and the reason in one sentence.

    `value`, `low` and `high` are the measured figure beside the `published` one, in the same unit: a ratio, or a
    metric's base unit. Each is None where there is none; an end is None where the generator was the limit.
    `blocks` is how many blocks it is from, and `blocks_more` about how many more would decide, where that is known.
    """

    __test__ = False  # pytest takes the name for a test of its own

    test: Test
    judgement: Judgement
    reason: str
    published: float | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    blocks: int | None = None
    blocks_more: int | None = None


class Obstacle(NamedTuple):
    """Why a test cannot be decided, and the word for that."""

    judgement: Judgement
    reason: str


def hindered(test: Test, obstacle: Obstacle, published: float | None = None) -> TestVerdict:
    """The verdict on a test that cannot be decided."""
    return TestVerdict(test=test, judgement=obstacle.judgement, reason=obstacle.reason, published=published)


def finite(end: float) -> float | None:
    """An end of an interval as it is stored: None where a limit elsewhere leaves it open."""
    return end if math.isfinite(end) else None


def met(low: float, high: float, at_least: float | None, at_most: float | None) -> Met:
    """Whether all of an interval is within the bounds, none of it, or some."""
    if (at_least is not None and high < at_least) or (at_most is not None and low > at_most):
        return "violated"
    if (at_least is not None and low < at_least) or (at_most is not None and high > at_most):
        return "open"
    return "met"


def bounds_words(at_least: float | None, at_most: float | None, unit: str = "") -> str:
    """`at least 0.6x and at most 0.9x`."""
    parts = [f"at least {number(at_least, 6)}{unit}"] if at_least is not None else []
    parts += [f"at most {number(at_most, 6)}{unit}"] if at_most is not None else []
    return " and ".join(parts)


def blocks_more(low: float, high: float, blocks: int, distance: float, least: float) -> int | None:
    """About how many blocks more would take an edge at this distance from the estimate out of the interval.

    An estimate on the edge would need endlessly many; `least` is the smallest distance that is asked for.
    """
    half_width = (high - low) / 2
    if not math.isfinite(half_width):
        return None
    needed = max(blocks * (half_width / max(distance, least)) ** 2, blocks_min(1))
    return max(1, math.ceil(needed) - blocks)


def more_for_ratio(ratio: stats.Ratio, blocks: int, *edges: float | None) -> int | None:
    """About how many blocks more would take the nearest of these edges out of a ratio's interval."""
    if ratio.low <= 0:
        return None
    centre = math.log(ratio.ratio)
    distance = min(abs(centre - math.log(edge)) for edge in edges if edge is not None)
    return blocks_more(math.log(ratio.low), math.log(ratio.high), blocks, distance, math.log1p(stats.EFFECT) / 4)


def more_words(more: int | None) -> str:
    """How many more blocks would decide, in words that end a reason."""
    if more is None:
        return ""
    if more > MORE_BLOCKS_MAX:
        return f" (it would take more than {MORE_BLOCKS_MAX} more blocks to decide)"
    return f" (about {more} more block{'' if more == 1 else 's'} would decide)"
