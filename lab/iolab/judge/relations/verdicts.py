"""The verdict on one test of a claim, and what the relations share: bounds, missing blocks, words."""

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
# A larger number of further blocks is not printed: another machine or another time of day would help more.
MORE_BLOCKS_MAX = 200
# Whether an interval meets a bound.
Met = Literal["met", "violated", "open"]


class TestVerdict(Frozen):
    """A test of a claim with its verdict and the reason in one sentence.

    `value`, `low` and `high` are the measured figure, in the unit of the `published` one: a ratio, or a metric's base
    unit. Missing figures are None; so is an end left open because the generator was the limit. `blocks` is the number
    of blocks, and `blocks_more` about how many more would decide, if known.
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
    """Why a test cannot be decided, and its verdict."""

    judgement: Judgement
    reason: str


def hindered(test: Test, obstacle: Obstacle, published: float | None = None) -> TestVerdict:
    """The verdict on a test that cannot be decided."""
    return TestVerdict(test=test, judgement=obstacle.judgement, reason=obstacle.reason, published=published)


def finite(end: float) -> float | None:
    """An end of an interval as stored: None if it is infinite."""
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
    parts = [f"at least {number(at_least, 6, least=0)}{unit}"] if at_least is not None else []
    parts += [f"at most {number(at_most, 6, least=0)}{unit}"] if at_most is not None else []
    return " and ".join(parts)


def blocks_more(low: float, high: float, blocks: int, distance: float, least: float) -> int | None:
    """About how many more blocks would exclude an edge at this distance from the estimate.

    An estimate on the edge would need infinitely many, so the distance is at least `least`.
    """
    half_width = (high - low) / 2
    if not math.isfinite(half_width):
        return None
    needed = max(blocks * (half_width / max(distance, least)) ** 2, blocks_min(1))
    return max(1, math.ceil(needed) - blocks)


def more_for_ratio(ratio: stats.Ratio, blocks: int, *edges: float | None) -> int | None:
    """About how many more blocks would exclude the nearest of these edges from a ratio's interval."""
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
