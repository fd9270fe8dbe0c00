"""`trend`: along an axis a quantity rises, falls, stays flat, or has its peak at one value.

Rising and falling need every step between neighbours to be decided, and a peak its ratio to every other value. Flat is
decided by equivalence: the whole interval of every ratio must be within the allowed range, so "no difference found" is
not enough. One ratio beyond the range contradicts; among many one may be beyond it by chance, so its interval is
corrected for their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise, permutations

from iolab.judge.relations import quantities
from iolab.judge.relations.order import reversed_ones
from iolab.judge.relations.quantities import Evidence, Measure
from iolab.judge.relations.verdicts import (
    Judgement,
    Obstacle,
    TestVerdict,
    finite,
    hindered,
    more_for_ratio,
    more_words,
)
from iolab.plan.claims import Quantity, TrendTest
from iolab.plan.settings import Scalar

Values = Sequence[tuple[Scalar, Quantity]]
Pair = tuple[tuple[Scalar, Quantity], tuple[Scalar, Quantity]]


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
    """The verdict on a flat trend, from the ratio of every value to every other."""
    pairs = list(permutations(values, 2))
    # Each pair of values is one more test. This is the first step of Holm's correction, which decides for all.
    confidence = 1 - evidence.alpha / (len(pairs) // 2)
    measures, surest = (_compared(evidence, pairs, each) for each in (evidence.confidence, confidence))
    if isinstance(measures, str):
        return hindered(test, Obstacle("undecided", measures))
    if isinstance(surest, str):
        return hindered(test, Obstacle("undecided", surest))
    at = max(range(len(pairs)), key=lambda n: surest[n].least)
    if surest[at].least > test.within:
        return _ratio_of_ends(test, "contradicted", pairs[at], surest[at])
    at = max(range(len(pairs)), key=lambda n: measures[n].ratio.ratio)
    is_flat = all(each.most <= test.within for each in measures)
    return _ratio_of_ends(test, "confirmed" if is_flat else "undecided", pairs[at], measures[at])


def _compared(evidence: Evidence, pairs: Iterable[Pair], confidence: float) -> list[Measure] | str:
    """The ratio of each pair, or why one has none yet."""
    measures = [quantities.compare(evidence, above, below, confidence) for (_, above), (_, below) in pairs]
    known = [each for each in measures if not isinstance(each, str)]
    return known if len(known) == len(measures) else next(each for each in measures if isinstance(each, str))


def _ratio_of_ends(test: TrendTest, judgement: Judgement, pair: Pair, measure: Measure) -> TestVerdict:
    """The verdict on a flat trend, by the two most distant values."""
    more = more_for_ratio(measure.ratio, measure.blocks, test.within) if judgement == "undecided" else None
    where = f"{test.along}={pair[0][0]} / {test.along}={pair[1][0]}"
    reason = f"largest / smallest is {measure.words} ({where}), allowed {test.within:g}x{more_words(more)}"
    published = max(test.published) / min(test.published) if test.published else None
    return _verdict(test, judgement, measure, reason, published).model_copy(update={"blocks_more": more})


def _steps(test: TrendTest, evidence: Evidence, values: Values) -> TestVerdict:
    """The ratios that must all be above 1."""
    pairs = _pairs(test, values)
    if not pairs:
        return hindered(test, Obstacle("undecided", f"{test.along}={test.peak_at} was not measured with another value"))
    measures = _compared(evidence, pairs, evidence.confidence)
    if isinstance(measures, str):
        return hindered(test, Obstacle("undecided", measures))
    names = [f"{test.along}={more[0]} / {test.along}={less[0]}: " for more, less in pairs]
    lost = reversed_ones(measures, evidence.alpha)
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


def _pairs(test: TrendTest, values: Values) -> list[Pair]:
    """The pairs of values whose ratio must be above 1."""
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
        blocks=measure.blocks,
    )
