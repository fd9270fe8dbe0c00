"""`level`: an absolute value is about a published one, at least, or at most a bound.

The whole interval of the median over blocks must be within the bounds. Without bounds, a published value from another
machine gives at most "direction only", unless the value does not depend on the machine.
"""

from __future__ import annotations

import math

from iolab.judge import stats
from iolab.judge.relations import quantities
from iolab.judge.relations.quantities import Evidence
from iolab.judge.relations.verdicts import (
    Judgement,
    Obstacle,
    TestVerdict,
    blocks_more,
    bounds_words,
    finite,
    hindered,
    met,
    more_words,
)
from iolab.metrics import METRICS
from iolab.plan.claims import LevelTest
from iolab.wording import BOUND_SIGNS, Bound, Interval, number


def decide(test: LevelTest, evidence: Evidence) -> TestVerdict:
    """The verdict on a level."""
    obstacle = quantities.obstacle(evidence, (test.of,), bounds_decide=True)
    if obstacle is not None:
        return hindered(test, obstacle, test.published)
    found = _measured(test, evidence)
    if isinstance(found, str):
        return hindered(test, Obstacle("undecided", found), test.published)
    value, low, high, blocks, bound = found
    least = low if bound in ("exact", "at least") else -math.inf
    most = high if bound in ("exact", "at most") else math.inf
    judgement, why = _judged(test, least, most)
    more = _more(test, value, low, high, blocks) if judgement == "undecided" and bound == "exact" else None
    shown = _shown(test, value, low, high)
    published = "" if test.published is None else f"published {_one(test, test.published)}, "
    return TestVerdict(
        test=test,
        judgement=judgement,
        reason=f"{published}measured {BOUND_SIGNS[bound]}{shown}: {why}{more_words(more)}",
        published=test.published,
        value=value,
        low=finite(least),
        high=finite(most),
        blocks=blocks,
        blocks_more=more,
    )


def _measured(test: LevelTest, evidence: Evidence) -> tuple[float, float, float, int, Bound] | str:
    """The value with its interval, the number of blocks, and whether the generator makes it a bound."""
    if test.of.of is not None and test.of.to is not None:
        measure = quantities.compare(evidence, test.of.of, test.of.to)
        return measure if isinstance(measure, str) else (*measure.ratio[:3], measure.blocks, measure.bound)
    series = quantities.levels(evidence, test.of)
    median = stats.median_interval(list(series.values.values()), evidence.confidence)
    if median.low is None or median.high is None:
        return f"only {len(series.values)} complete blocks so far"
    return median.median, median.low, median.high, len(series.values), series.bound


def _judged(test: LevelTest, low: float, high: float) -> tuple[Judgement, str]:
    if test.at_least is not None or test.at_most is not None:
        return _within(test, low, high)
    assert test.published is not None, "without bounds a level has a published value"
    if not test.comparable:
        return "direction only", "the published figure is from another machine"
    if not _agrees(test, low, high):
        return "contradicted", "the magnitude differs"
    if (high - low) / 2 > abs(test.published) * test.tolerance:
        return "undecided", "the interval is wider than the tolerance"
    return "confirmed", "the magnitude agrees"


def _within(test: LevelTest, low: float, high: float) -> tuple[Judgement, str]:
    least, most = (None if bound is None else bound / _scale(test) for bound in (test.at_least, test.at_most))
    bounds = f"{bounds_words(least, most)} {_unit(test)}".rstrip()
    found = met(low, high, test.at_least, test.at_most)
    if found == "violated":
        return "contradicted", f"it is not {bounds}"
    if found == "open":
        return "undecided", f"the interval does not show whether it is {bounds}"
    if test.published is None or not test.comparable:
        return "confirmed", f"it is {bounds}"
    if _agrees(test, low, high):
        return "confirmed", f"it is {bounds}, and the magnitude agrees"
    return "direction only", f"it is {bounds}, but the magnitude differs"


def _agrees(test: LevelTest, low: float, high: float) -> bool:
    assert test.published is not None, "a magnitude agrees with a published one"
    margin = abs(test.published) * test.tolerance
    return low <= test.published + margin and high >= test.published - margin


def _more(test: LevelTest, value: float, low: float, high: float, blocks: int) -> int | None:
    edges = [abs(value - edge) for edge in (test.at_least, test.at_most) if edge is not None]
    distance = min(edges, default=abs(test.published or 0.0) * test.tolerance)
    return blocks_more(low, high, blocks, distance, stats.EFFECT / 4 * abs(value) or 1e-9)


def _scale(test: LevelTest) -> float:
    return METRICS[test.of.metric].scale if test.of.contestant else 1.0


def _unit(test: LevelTest) -> str:
    return METRICS[test.of.metric].unit if test.of.contestant else "x"


def _one(test: LevelTest, value: float) -> str:
    return METRICS[test.of.metric].shown(value) if test.of.contestant else f"{number(value)}x"


def _shown(test: LevelTest, value: float, low: float, high: float) -> str:
    """The value with its interval: `97.9 [97.1, 98.4] ms`."""
    if not test.of.contestant:
        return str(Interval(value, low, high))
    row = METRICS[test.of.metric]
    shown, ends = row.shown(value), [row.shown(end) for end in (low, high)]
    return shown if low == high else f"{shown} [{ends[0]}, {ends[1]}]"
