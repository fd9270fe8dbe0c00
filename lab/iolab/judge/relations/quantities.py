"""The values of a quantity from stored results, block by block, and the ratio of two quantities.

Two quantities of the same comparisons are paired: each block gives one ratio, the mean of the logarithms over its
comparisons, because the settings of a block are measured close together. Otherwise the two samples are compared
unpaired, and drift between them is not removed. If the generator was the limit, a value is a bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from iolab.contract.types import updated
from iolab.judge import stats
from iolab.judge.blocks import Edges, Used, chosen_blocks, values_of
from iolab.judge.bottleneck import Bottleneck
from iolab.judge.relations.verdicts import Obstacle
from iolab.judge.verdict import ComparisonVerdict
from iolab.metrics import METRICS
from iolab.plan.claims import TITLE, Quantity
from iolab.plan.plan import Place, Plan, blocks_min
from iolab.plan.settings import Scalar
from iolab.results.records import Result
from iolab.wording import Bound, Interval

_OPPOSITE: dict[Bound, Bound] = {"exact": "exact", "at least": "at most", "at most": "at least", "unknown": "unknown"}


@dataclass(frozen=True, slots=True)
class Evidence:
    """The measurements of a run so far: its results, the blocks that count and the verdict of each comparison.

    `processors` is their number in the machine, None if the record lacks it. `confidence` is that of each interval; it
    is higher if a test is judged as one of many.
    """

    plan: Plan
    done: Mapping[Place, Result]
    used: Sequence[Used]
    verdicts: Sequence[ComparisonVerdict]
    processors: int | None = None
    confidence: float = stats.CONFIDENCE

    @property
    def alpha(self) -> float:
        """The allowed error probability of a test."""
        return 1 - self.confidence

    def chosen(self, leaf: Quantity) -> frozenset[int]:
        """The indices of the comparisons that measure a quantity."""
        return frozenset(
            index
            for index, comparison in enumerate(self.plan.comparisons)
            if leaf.contestant in comparison.titles and comparison.is_at(leaf.at)
        )

    def trials(self, leaf: Quantity) -> list[Result]:
        """All its trials, including discarded ones, in the order of the plan."""
        chosen = self.chosen(leaf)
        return [
            result
            for place, result in sorted(self.done.items())
            if place.comparison in chosen
            and self.plan.comparisons[place.comparison].titles[place.slot] == leaf.contestant
        ]


class Series(NamedTuple):
    """A quantity or its logarithm by block, and the comparisons it comes from.

    `edges` are the core-to-core latencies of its trials, by block and comparison.
    """

    values: Mapping[int, float]
    where: frozenset[int]
    edges: Mapping[int, Mapping[int, Sequence[Edges]]]
    bound: Bound


class Measure(NamedTuple):
    """A measured ratio. `least` and `most` are its certain ends, wider than the interval if it is a bound."""

    ratio: stats.Ratio
    bound: Bound
    blocks: int
    is_paired: bool

    @property
    def least(self) -> float:
        return self.ratio.low if self.bound in ("exact", "at least") else 0.0

    @property
    def most(self) -> float:
        return self.ratio.high if self.bound in ("exact", "at most") else math.inf

    @property
    def words(self) -> str:
        """`1.17x [1.16, 1.18]`, followed by `, not paired` if it is not."""
        figure = str(Interval(*self.ratio[:3], self.bound))
        return figure if self.is_paired else f"{figure}, not paired"


def compare(evidence: Evidence, of: Quantity, to: Quantity, confidence: float | None = None) -> Measure | str:
    """The ratio of two quantities, or why there is none yet."""
    confidence = evidence.confidence if confidence is None else confidence
    within = None
    if of.contestant and to.contestant and of.at == to.at:
        within = evidence.chosen(of) & evidence.chosen(to) or None
    above, below = (logarithms(evidence, each, within) for each in (of, to))
    bound = _quotient_bound(above.bound, below.bound)
    if above.where == below.where:
        x = paired(above, below)
        ratio = stats.ratio_of_pairs(x, confidence)
        return _too_few(len(x)) if ratio is None else Measure(ratio, bound, len(x), is_paired=True)
    blocks = min(len(above.values), len(below.values))
    if blocks < blocks_min(1):
        return _too_few(blocks)
    before, after = (np.exp(list(each.values.values())) for each in (below, above))
    ratio = stats.ratio_unpaired(before, after, confidence)
    return Measure(ratio, bound, blocks, is_paired=False)


def _too_few(blocks: int) -> str:
    return f"only {blocks} complete block{'' if blocks == 1 else 's'} so far"


def paired(above: Series, below: Series) -> tuple[float, ...]:
    """The logarithm of the ratio in each block that has both; see `judge.blocks.paired`."""
    common = sorted(above.values.keys() & below.values.keys())
    edges = {
        block: [[*above.edges[block][index], *below.edges[block][index]] for index in sorted(above.where)]
        for block in common
    }
    return tuple(above.values[block] - below.values[block] for block in chosen_blocks(common, edges))


def logarithms(evidence: Evidence, quantity: Quantity, within: frozenset[int] | None = None) -> Series:
    """The logarithm of a quantity in each block that measured all of it."""
    if quantity.of is not None and quantity.to is not None:
        above, below = (logarithms(evidence, each, within) for each in (quantity.of, quantity.to))
        common = sorted(above.values.keys() & below.values.keys())
        return Series(
            values={block: above.values[block] - below.values[block] for block in common},
            where=above.where | below.where,
            edges={block: _joined(above.edges[block], below.edges[block]) for block in common},
            bound=_quotient_bound(above.bound, below.bound),
        )
    series = levels(evidence, quantity, within, positive=True)
    # If the generator had a queue of its own, a ratio of latencies is meaningless.
    return series._replace(bound="unknown") if series.bound == "at most" else series


def levels(
    evidence: Evidence, leaf: Quantity, within: frozenset[int] | None = None, *, positive: bool = False
) -> Series:
    """The value of a quantity in each block that measured all of it: the mean over its comparisons.

    With `positive` it is the mean of the logarithms, and values of 0 are missing.
    """
    chosen = sorted(evidence.chosen(leaf) if within is None else within)
    seen = {
        index: values_of(
            evidence.used[index],
            leaf.metric,
            evidence.plan.comparisons[index].titles.index(leaf.contestant),
            leaf.side,
            evidence.processors,
            above_zero=positive,
        )
        for index in chosen
    }
    common = sorted(set.intersection(*(set(values) for values in seen.values()))) if seen else []
    number = math.log if positive else float
    return Series(
        values={block: float(np.mean([number(seen[index][block].value) for index in chosen])) for block in common},
        where=frozenset(chosen),
        edges={block: {index: [seen[index][block].core_to_core_ns] for index in chosen} for block in common},
        bound=METRICS[leaf.metric].limited if any(_is_limited(evidence, index, leaf) for index in chosen) else "exact",
    )


def _is_limited(evidence: Evidence, index: int, leaf: Quantity) -> bool:
    """Whether the generator was the limit. Any other limit is part of the claim's setting: latency-bound trials decide
    a claim about one request in flight.
    """
    limit = evidence.verdicts[index].limits.get(leaf.contestant)
    return limit is not None and limit.kind is Bottleneck.GENERATOR


def _quotient_bound(above: Bound, below: Bound) -> Bound:
    """The bound on a quotient of two figures that may be bounds."""
    turned = _OPPOSITE[below]
    if above == "exact":
        return turned
    return above if turned in ("exact", above) else "unknown"


def _joined(one: Mapping[int, Sequence[Edges]], other: Mapping[int, Sequence[Edges]]) -> dict[int, Sequence[Edges]]:
    return {index: [*one.get(index, ()), *other.get(index, ())] for index in {*one, *other}}


def along(evidence: Evidence, quantity: Quantity, axis: str) -> list[tuple[Scalar, Quantity]]:
    """A quantity at each value of an axis that measures all of it: numbers by size, others as in the file."""
    values = list(
        dict.fromkeys(
            comparison.setting[axis]
            for comparison in evidence.plan.comparisons
            if axis in comparison.setting
            and all(evidence.chosen(at_value(leaf, axis, comparison.setting[axis])) for leaf in quantity.leaves)
        )
    )
    if all(isinstance(value, int | float) for value in values):
        values.sort(key=float)
    return [(value, at_value(quantity, axis, value)) for value in values]


def at_value(quantity: Quantity, axis: str, value: Scalar) -> Quantity:
    """The same quantity at one value of an axis."""
    if quantity.of is not None and quantity.to is not None:
        return updated(quantity, of=at_value(quantity.of, axis, value), to=at_value(quantity.to, axis, value))
    return updated(quantity, at={**quantity.at, axis: value})


def in_each(evidence: Evidence, *quantities: Quantity) -> list[tuple[str, tuple[Quantity, ...]]]:
    """The quantities in each comparison that has all of them, with its name."""
    shared = frozenset.intersection(*(evidence.chosen(leaf) for each in quantities for leaf in each.leaves))
    found = []
    for index in sorted(shared):
        comparison = evidence.plan.comparisons[index]
        only = {TITLE: comparison.name}
        there = tuple(_with(each, only) for each in quantities)
        found.append((comparison.name, there))
    return found


def _with(quantity: Quantity, at: Mapping[str, Scalar]) -> Quantity:
    for axis, value in at.items():
        quantity = at_value(quantity, axis, value)
    return quantity


def obstacle(evidence: Evidence, quantities: Iterable[Quantity], *, bounds_decide: bool = False) -> Obstacle | None:
    """Why these quantities decide nothing; None if they may. A bound decides a direction but never a magnitude."""
    for leaf in (leaf for quantity in quantities for leaf in quantity.leaves):
        chosen = evidence.chosen(leaf)
        if not chosen:
            return nowhere(evidence)
        for index in sorted(chosen):
            found = _obstacle_at(evidence, evidence.verdicts[index], leaf)
            if found is not None:
                return found
        series = levels(evidence, leaf)
        if not series.values:
            return Obstacle("undecided", f"{leaf.metric} of {leaf.words} was not measured so far")
        if series.bound != "exact" and not bounds_decide:
            limited = next(index for index in sorted(chosen) if _is_limited(evidence, index, leaf))
            where = evidence.verdicts[limited].name
            return Obstacle("undecided", f"the generator was the limit of {leaf.contestant} at {where}")
    return None


def nowhere(evidence: Evidence) -> Obstacle:
    """The obstacle if no comparison measures the quantity; a quick run may leave it to the full one."""
    if evidence.plan.is_quick:
        return Obstacle("full run only", "the quick run does not measure it")
    return Obstacle("undecided", "no comparison measures it")


def _obstacle_at(evidence: Evidence, found: ComparisonVerdict, leaf: Quantity) -> Obstacle | None:
    """Why a comparison says nothing about a contestant; None if it does."""
    title = leaf.contestant
    if title in found.left_out:
        return Obstacle("not measurable here", f"{title} was left out of {found.name}: {found.left_out[title]}")
    # A discarded trial of another contestant discards the block too.
    discarded = next(filter(None, (_discarded_for(found, each) for each in (title, *found.titles))), None)
    if found.inconclusive is not None:
        return Obstacle("undecided", f"{found.name} is {found.inconclusive}" + (f"; {discarded}" if discarded else ""))
    failed = next((failure for failure in found.failures if failure.contestant == title), None)
    if failed is not None and found.level("throughput", title) is None:
        return Obstacle("undecided", f"{title} could not be measured at {found.name}: {failed.message}")
    if title in found.not_judged:
        return Obstacle("undecided", f"{title} is not judged at {found.name}: {found.not_judged[title]}")
    if not any(level.contestant == title for level in found.levels):
        return Obstacle("undecided", discarded or f"{found.name} has no measurement of {title} so far")
    return None


def _discarded_for(found: ComparisonVerdict, title: str) -> str | None:
    """Why the trials of a contestant were discarded, mostly; None if none was."""
    counts = {
        each.warning.word: each.trials for each in found.warnings if each.contestant == title and each.warning.discards
    }
    if not counts:
        return None
    word = max(counts, key=counts.__getitem__)
    return f"the trials of {title} at {found.name} were discarded: {word.replace('_', ' ')} in {counts[word]} of them"
