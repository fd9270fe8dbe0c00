"""`ratio`: one quantity is about, at least or at most a given multiple of another.

Bounds come first: the whole interval must be within them. Then the magnitude: machines differ, so another magnitude
does not contradict the claim. Without bounds, the measured ratio must be on the same side of 1 as the published one.
"""

from __future__ import annotations

import math

from iolab.contract.types import percent
from iolab.judge import stats
from iolab.judge.relations import quantities
from iolab.judge.relations.quantities import Evidence, Measure
from iolab.judge.relations.verdicts import (
    Judgement,
    Obstacle,
    TestVerdict,
    bounds_words,
    finite,
    hindered,
    met,
    more_for_ratio,
    more_words,
)
from iolab.plan.claims import RatioTest
from iolab.wording import number


def decide(test: RatioTest, evidence: Evidence) -> TestVerdict:
    """The verdict on a ratio."""
    has_bounds = test.at_least is not None or test.at_most is not None
    obstacle = quantities.obstacle(evidence, (test.of, test.to), bounds_decide=has_bounds)
    if obstacle is not None:
        return hindered(test, obstacle, test.published)
    measure = quantities.compare(evidence, test.of, test.to)
    if isinstance(measure, str):
        return hindered(test, Obstacle("undecided", measure), test.published)
    judgement, why = _within(test, measure) if has_bounds else _beside(test, measure.ratio)
    edges = (test.at_least, test.at_most) if has_bounds else (1.0,)
    # More blocks tell nothing more about a ratio that the generator limits.
    is_open = judgement == "undecided" and measure.bound == "exact"
    more = more_for_ratio(measure.ratio, measure.blocks, *edges) if is_open else None
    published = "" if test.published is None else f"published {number(test.published)}x, "
    return TestVerdict(
        test=test,
        judgement=judgement,
        reason=f"{published}measured {measure.words}: {why}{more_words(more)}",
        published=test.published,
        value=measure.ratio.ratio,
        low=measure.least if measure.least > 0 else None,
        high=finite(measure.most),
        blocks=measure.blocks,
        blocks_more=more,
    )


def _within(test: RatioTest, measure: Measure) -> tuple[Judgement, str]:
    """Bounds, and then the published magnitude."""
    bounds = bounds_words(test.at_least, test.at_most, "x")
    found = met(measure.least, measure.most, test.at_least, test.at_most)
    if found == "violated":
        return "contradicted", f"it is not {bounds}"
    if found == "open" and measure.bound != "exact":
        return "undecided", f"the generator was the limit, so it is not known whether it is {bounds}"
    if found == "open":
        outside = test.published is not None and not _agrees(measure.ratio, test.published, test.tolerance)
        too = ", and the published ratio is outside" if outside else ""
        return "undecided", f"the interval does not show whether it is {bounds}{too}"
    if test.published is None:
        return "confirmed", f"it is {bounds}"
    if measure.bound != "exact":
        return "direction only", f"it is {bounds}, and the generator was the limit, so no more is known"
    if _agrees(measure.ratio, test.published, test.tolerance):
        return "confirmed", f"it is {bounds}, and the magnitude agrees"
    return "direction only", f"it is {bounds}, and {_size(measure.ratio, test.published)}"


def _beside(test: RatioTest, ratio: stats.Ratio) -> tuple[Judgement, str]:
    """Direction first, magnitude second. A published ratio of 1 claims "the same", which has no direction."""
    assert test.published is not None, "without bounds a ratio has a published value"
    if abs(math.log(test.published)) <= math.log1p(stats.EFFECT):
        word = stats.word(ratio, ratio.p_value)
        if word == "same":
            return "confirmed", f"the same, within {percent(stats.EFFECT)}"
        return ("contradicted", "it differs") if word == "differs" else ("undecided", "neither the same nor different")
    if ratio.low <= 1 <= ratio.high:
        return "undecided", "the interval contains 1, so not even the direction is known"
    if (ratio.low > 1) != (test.published > 1):
        return "contradicted", "the direction is the opposite one"
    if _agrees(ratio, test.published, test.tolerance):
        return "confirmed", "direction and magnitude agree"
    return "direction only", _size(ratio, test.published)


def _agrees(ratio: stats.Ratio, published: float, tolerance: float) -> bool:
    return ratio.low <= published * (1 + tolerance) and ratio.high >= published * (1 - tolerance)


def _size(ratio: stats.Ratio, published: float) -> str:
    size = "larger" if abs(math.log(ratio.ratio)) > abs(math.log(published)) else "smaller"
    return f"the effect is {size} here, on another machine, kernel and generator"
