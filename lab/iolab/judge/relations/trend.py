"""`trend`: along an axis a quantity rises, falls, stays flat, or has its peak at one value.

Rising and falling need every step between neighbours, and a peak every other value, to be decided. Flat is decided by
equivalence: all of the interval of largest / smallest is within what is allowed, so "no difference found" is not
enough. Which values are largest and smallest is chosen by the data, which widens that ratio: it errs to the careful
side.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from iolab.judge.relations import quantities
from iolab.judge.relations.order import reversed_ones
from iolab.judge.relations.quantities import Evidence, Measure
from iolab.judge.relations.verdicts import (
    Judgement,
    Obstacle,
    TestVerdict,
    finite,
    hindered,
    met,
    more_for_ratio,
    more_words,
)
from iolab.plan.claims import Quantity, TrendTest
from iolab.plan.settings import Scalar

Values = Sequence[tuple[Scalar, Quantity]]


def decide(test: TrendTest, evidence: Evidence) -> TestVerdict:
    """The verdict on a trend."""
    values = quantities.along(evidence, test.of, test.along)
    obstacle = quantities.obstacle(evidence, (test.of,), bounds_decide=test.shape != "flat")
    if obstacle is None and len(values) < 2:
        obstacle = Obstacle("undecided", f"{test.of.words} was measured at fewer than two values of {test.along}")
        if evidence.plan.is_quick:
            obstacle = Obstacle("full run only", f"the quick run has one value of {test.along}")
    if obstacle is not None:
        return hindered(test, obstacle)
    return _flat(test, evidence, values) if test.shape == "flat" else _steps(test, evidence, values)


def _flat(test: TrendTest, evidence: Evidence, values: Values) -> TestVerdict:
    """The largest over the smallest, by their medians."""
    centres = [_centre(evidence, quantity) for _, quantity in values]
    if any(centre is None for centre in centres):
        return hindered(test, Obstacle("undecided", "too few whole blocks so far"))
    known = [centre for centre in centres if centre is not None]
    largest, smallest = values[int(np.argmax(known))], values[int(np.argmin(known))]
    if largest[0] == smallest[0]:
        largest, smallest = values[0], values[1]
    measure = quantities.compare(evidence, largest[1], smallest[1])
    if isinstance(measure, str):
        return hindered(test, Obstacle("undecided", measure))
    words: dict[str, Judgement] = {"met": "confirmed", "violated": "contradicted", "open": "undecided"}
    judgement = words[met(measure.least, measure.most, None, test.within)]
    more = more_for_ratio(measure.ratio, measure.blocks, test.within) if judgement == "undecided" else None
    where = f"{test.along}={largest[0]} / {test.along}={smallest[0]}"
    reason = f"largest / smallest is {measure.words} ({where}), allowed {test.within:g}x{more_words(more)}"
    published = max(test.published) / min(test.published) if test.published else None
    return _verdict(test, judgement, measure, reason, published).model_copy(update={"blocks_more": more})


def _centre(evidence: Evidence, quantity: Quantity) -> float | None:
    values = list(quantities.logarithms(evidence, quantity).values.values())
    return float(np.median(values)) if values else None


def _steps(test: TrendTest, evidence: Evidence, values: Values) -> TestVerdict:
    """The ratios that must all be above 1."""
    pairs = _pairs(test, values)
    if not pairs:
        return hindered(test, Obstacle("undecided", f"{test.along}={test.peak_at} was not measured with another value"))
    measures: list[Measure] = []
    for (_, above), (_, below) in pairs:
        measure = quantities.compare(evidence, above, below)
        if isinstance(measure, str):
            return hindered(test, Obstacle("undecided", measure))
        measures.append(measure)
    names = [f"{test.along}={more[0]} / {test.along}={less[0]}: " for more, less in pairs]
    lost = reversed_ones(measures)
    if lost:
        at = lost[0]
        reason = f"not {_shape(test)}: {names[at]}{measures[at].words}"
        return _verdict(test, "contradicted", measures[at], reason, _published(test, values, pairs[at]))
    unsure = [n for n, each in enumerate(measures) if each.least <= 1]
    if not unsure:
        at = min(range(len(measures)), key=lambda n: measures[n].ratio.ratio)
        reason = f"{_shape(test)}; the smallest step is {names[at]}{measures[at].words}"
        return _verdict(test, "confirmed", measures[at], reason, _published(test, values, pairs[at]))
    at = unsure[0]
    more = more_for_ratio(measures[at].ratio, measures[at].blocks, 1.0) if measures[at].bound == "exact" else None
    reason = (
        f"{len(measures) - len(unsure)} of {len(measures)} steps are decided; "
        f"not decided: {names[at]}{measures[at].words}{more_words(more)}"
    )
    found = _verdict(test, "undecided", measures[at], reason, _published(test, values, pairs[at]))
    return found.model_copy(update={"blocks_more": more})


Pair = tuple[tuple[Scalar, Quantity], tuple[Scalar, Quantity]]


def _pairs(test: TrendTest, values: Values) -> list[Pair]:
    """What must be more, and than what."""
    if test.shape == "rising":
        return [(later, earlier) for earlier, later in pairwise(values)]
    if test.shape == "falling":
        return list(pairwise(values))
    peak = next((each for each in values if each[0] == test.peak_at), None)
    return [] if peak is None else [(peak, each) for each in values if each is not peak]


def _shape(test: TrendTest) -> str:
    return f"the peak is at {test.along}={test.peak_at}" if test.shape == "peak" else f"{test.shape} along {test.along}"


def _published(test: TrendTest, values: Values, pair: Pair) -> float | None:
    """The published ratio of the same step."""
    if len(test.published) != len(values):
        return None
    at = {value: published for (value, _), published in zip(values, test.published, strict=True)}
    return at[pair[0][0]] / at[pair[1][0]]


def _verdict(
    test: TrendTest, judgement: Judgement, measure: Measure, reason: str, published: float | None
) -> TestVerdict:
    return TestVerdict(
        test=test,
        judgement=judgement,
        reason=reason,
        published=published,
        value=measure.ratio.ratio,
        low=measure.least or None,
        high=finite(measure.most),
    )
