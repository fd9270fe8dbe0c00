"""`crossing`: one contestant is better up to some value of an axis, and the other one from there on.

Every value gives a ratio. If the first ratios are decided for one contestant and the last for the other, they cross
between the last of the former and the first of the latter; undecided values in between widen this bracket. The axis may
also be a list of metrics, such as quantiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from iolab.contract.types import updated
from iolab.judge import stats
from iolab.judge.relations import quantities
from iolab.judge.relations.quantities import Evidence, Measure
from iolab.judge.relations.verdicts import Judgement, Obstacle, TestVerdict, hindered, more_for_ratio, more_words
from iolab.metrics import METRICS
from iolab.plan.claims import CrossingTest, Quantity
from iolab.plan.settings import Scalar
from iolab.wording import Interval


class Point(NamedTuple):
    """A value of the axis and the ratio there; above 1, `of` is better."""

    value: Scalar
    measure: Measure
    sign: int

    @property
    def words(self) -> str:
        return f"{self.measure.words} at {self.value}"


def decide(test: CrossingTest, evidence: Evidence) -> TestVerdict:
    """The verdict on a crossing."""
    asked = _asked(test, evidence)
    obstacle = next((found for _, of, to in asked if (found := _obstacle(evidence, of, to)) is not None), None)
    if not asked:
        obstacle = _obstacle(evidence, test.of, test.to) or Obstacle(
            "undecided", f"nothing is measured along {test.along[0]}"
        )
    elif obstacle is None and len(asked) < 2:
        word: Judgement = "full run only" if evidence.plan.is_quick else "undecided"
        obstacle = Obstacle(word, f"it is measured at {asked[0][0]} only")
    if obstacle is not None:
        return hindered(test, obstacle)
    points = _points(asked, evidence)
    return hindered(test, Obstacle("undecided", points)) if isinstance(points, str) else _judged(test, points)


def _obstacle(evidence: Evidence, of: Quantity, to: Quantity) -> Obstacle | None:
    return quantities.obstacle(evidence, (of, to), bounds_decide=True)


def _asked(test: CrossingTest, evidence: Evidence) -> list[tuple[Scalar, Quantity, Quantity]]:
    """The two quantities at every value of the axis, or for every metric."""
    if test.metrics:
        return [(key, _by(test.of, key), _by(test.to, key)) for key in test.metrics]
    of, to = (dict(quantities.along(evidence, each, test.along[0])) for each in (test.of, test.to))
    return [(value, of[value], to[value]) for value in of if value in to]


def _by(quantity: Quantity, metric: str) -> Quantity:
    """The same quantity with another metric."""
    if quantity.of is not None and quantity.to is not None:
        return updated(quantity, of=_by(quantity.of, metric), to=_by(quantity.to, metric))
    return updated(quantity, metric=metric)


def _points(asked: Sequence[tuple[Scalar, Quantity, Quantity]], evidence: Evidence) -> list[Point] | str:
    measured: list[tuple[Scalar, Measure]] = []
    for value, of, to in asked:
        # Above 1, `of` is better.
        first, second = (of, to) if METRICS[of.leaves[0].metric].more_is_better else (to, of)
        measure = quantities.compare(evidence, first, second)
        if isinstance(measure, str):
            return f"{measure} at {value}"
        measured.append((value, measure))
    adjusted = stats.holm([measure.ratio.p_value for _, measure in measured])
    return [
        Point(value, measure, 0 if p > evidence.alpha else 1 if measure.least > 1 else -1 if measure.most < 1 else 0)
        for (value, measure), p in zip(measured, adjusted, strict=True)
    ]


def _judged(test: CrossingTest, points: Sequence[Point]) -> TestVerdict:
    first, last, of, to = points[0], points[-1], test.of.words, test.to.words
    better = [n for n, point in enumerate(points) if point.sign > 0]
    worse = [n for n, point in enumerate(points) if point.sign < 0]
    if first.sign < 0 or last.sign > 0 or (better and worse and worse[0] < better[-1]):
        wrong = first if first.sign < 0 else last if last.sign > 0 else points[worse[0]]
        ahead = of if wrong.sign > 0 else to
        return _verdict(test, "contradicted", f"{ahead} is better at {wrong.value}: {wrong.words}", wrong)
    if first.sign > 0 and last.sign < 0:
        bracket = points[better[-1]].value, points[worse[0]].value
        reason = f"{of} is better up to {bracket[0]}, {to} from {bracket[1]} on ({first.words}, {last.words})"
        if test.between is None or _overlap([point.value for point in points], bracket, test.between):
            return _verdict(test, "confirmed", reason, last)
        return _verdict(
            test, "direction only", f"{reason}; published between {test.between[0]} and {test.between[1]}", last
        )
    unsure = first if first.sign == 0 else last
    exact = unsure.measure.bound == "exact"
    more = more_for_ratio(unsure.measure.ratio, unsure.measure.blocks, 1.0) if exact else None
    found = _verdict(test, "undecided", f"not decided: {unsure.words}{more_words(more)}", unsure)
    return found.model_copy(update={"blocks_more": more})


def _overlap(values: Sequence[Scalar], found: tuple[Scalar, Scalar], published: tuple[Scalar, Scalar]) -> bool:
    """Whether two brackets overlap; metrics are compared by their order."""
    numbers = [float(end) for end in (*found, *published) if isinstance(end, int | float)]
    if len(numbers) < 4:
        numbers = [float(values.index(end)) if end in values else float("nan") for end in (*found, *published)]
    low, high, published_low, published_high = numbers
    return low < published_high and published_low < high


def _verdict(test: CrossingTest, judgement: Judgement, reason: str, of: Point) -> TestVerdict:
    """The verdict with the ratio at the deciding value; above 1, `of` is better."""
    figure = Interval(*of.measure.ratio[:3])
    return TestVerdict(
        test=test,
        judgement=judgement,
        reason=reason,
        value=figure.ratio,
        low=figure.low,
        high=figure.high,
        blocks=of.measure.blocks,
    )
