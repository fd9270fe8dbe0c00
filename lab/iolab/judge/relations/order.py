"""`order`: each contestant has more of a metric than the one after it, in every selected comparison.

All neighbours must differ for the order to hold, so each ratio needs only its own interval. One reversed ratio
contradicts the order, and among many one may be reversed by chance, so reversed ratios are corrected after Holm.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from iolab.judge import stats
from iolab.judge.relations import quantities
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
from iolab.plan.claims import OrderTest, Quantity


class Neighbours(NamedTuple):
    """Two neighbours in the order, their place in it, and the ratio of the first to the second."""

    place: int
    more: str
    less: str
    where: str
    measure: Measure

    @property
    def words(self) -> str:
        """The ratio, its two quantities, and where."""
        return f"{self.more} / {self.less}{f' at {self.where}' if self.where else ''}: {self.measure.words}"


def decide(test: OrderTest, evidence: Evidence) -> TestVerdict:
    """The verdict on an order."""
    obstacle = quantities.obstacle(evidence, test.contestants, bounds_decide=True)
    if obstacle is not None:
        return hindered(test, obstacle)
    found = _neighbours(test, evidence)
    if isinstance(found, str):
        return hindered(test, Obstacle("undecided", found))
    lost = reversed_ones([each.measure for each in found], evidence.alpha)
    won = [each for each in found if each.measure.least > 1]
    weakest = min(found, key=lambda each: each.measure.ratio.ratio)
    unsure = [each for each in found if each not in won]
    if lost:
        return _verdict(test, "contradicted", found[lost[0]], f"the other way round: {found[lost[0]].words}")
    if not unsure:
        names = " > ".join(each.words for each in test.contestants)
        every = "" if len(found) == 1 else f" in all {len(found)} ratios"
        return _verdict(test, "confirmed", weakest, f"{names}{every}; the smallest is {weakest.words}")
    more = max((_more(each) or 0 for each in unsure), default=0) or None
    reason = f"{len(won)} of {len(found)} ratios are decided; not decided: {unsure[0].words}{more_words(more)}"
    return _verdict(test, "undecided", unsure[0], reason).model_copy(update={"blocks_more": more})


def reversed_ones(measures: list[Measure], alpha: float) -> list[int]:
    """The indices of the ratios below 1, after correction for their number."""
    adjusted = stats.holm([each.ratio.p_value for each in measures])
    return [n for n, each in enumerate(measures) if each.most < 1 and adjusted[n] <= alpha]


def _more(each: Neighbours) -> int | None:
    return more_for_ratio(each.measure.ratio, each.measure.blocks, 1.0) if each.measure.bound == "exact" else None


def _neighbours(test: OrderTest, evidence: Evidence) -> list[Neighbours] | str:
    """Every pair of neighbours: in each comparison that has both, else across comparisons."""
    found = []
    for place, (more, less) in enumerate(pairwise(test.contestants)):
        for where, (above, below) in _places(evidence, more, less):
            measure = quantities.compare(evidence, above, below)
            if isinstance(measure, str):
                return measure
            found.append(Neighbours(place, more.words, less.words, where, measure))
    return found


def _places(evidence: Evidence, more: Quantity, less: Quantity) -> list[tuple[str, tuple[Quantity, ...]]]:
    shared = quantities.in_each(evidence, more, less) if more.at == less.at else []
    if not shared:
        return [("", (more, less))]
    return shared if len(shared) > 1 else [("", shared[0][1])]


def _verdict(test: OrderTest, judgement: Judgement, of: Neighbours, reason: str) -> TestVerdict:
    published = test.published[of.place] / test.published[of.place + 1] if test.published else None
    return TestVerdict(
        test=test,
        judgement=judgement,
        reason=reason,
        published=published,
        value=of.measure.ratio.ratio,
        low=of.measure.least or None,
        high=finite(of.measure.most),
        blocks=of.measure.blocks,
    )
