"""From the results of a comparison to its verdict: levels, ratios, one word each, and one sentence.

Pure: results in, verdict out, the same for the same input.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from iolab.contract.types import Frozen
from iolab.judge.asymmetries import Asymmetry, asymmetries_of
from iolab.judge.blocks import Row, Used, core_to_core_of, is_same_topology, used_blocks
from iolab.judge.bottleneck import Limit, bottleneck, limits_of
from iolab.judge.costs import Calls, Cost, costs_of
from iolab.judge.estimates import Estimate, PairedRatio, estimates_of, ratios_of
from iolab.judge.levels import Level, levels_of
from iolab.judge.rankings import Ranking, rankings_of
from iolab.judge.replies import different_work, reply_bytes_of, unequal_replies, unequal_work_of
from iolab.judge.sentences import sentence_of, worth_naming
from iolab.judge.validity import (
    FailureCount,
    WarningCount,
    failures_of,
    inconclusive_of,
    left_out_of,
    too_many_discarded,
    warnings_of,
)
from iolab.metrics import Metric
from iolab.plan.plan import Comparison, Place, Plan
from iolab.plan.settings import Setting
from iolab.results.records import CostCount, Result
from iolab.results.remaining import given_up


class ComparisonVerdict(Frozen):
    """The verdict on one comparison.

    `titles` are the contestants, the reference first, and `texts` what was typed for them; in a ladder each is compared
    with the one before it. `left_out` says why a contestant could not take part; `not_judged` says why one gets no
    word: too many of its trials are discarded, or its replies are different work. A comparison of many has `rankings`
    once it has enough blocks. `bottlenecks` counts what limited each contestant's trials under our generator, by the
    words of `Bottleneck`; `limits` has its overall limit. `reply_bytes` is the measured size of its replies, headers
    included. `unequal_work` is a sentence if those sizes differ too much for a verdict. `asymmetries` are the other
    differences between the contestants. The core-to-core latency changed in `blocks_topology_changed` of the blocks
    used; see `paired`. If `inconclusive` is a sentence, the words do not count.
    """

    name: str
    setting: Setting
    titles: tuple[str, ...]
    texts: tuple[str, ...]
    ladder: bool
    sentence: str
    inconclusive: str | None
    levels: tuple[Level, ...]
    estimates: tuple[Estimate, ...]
    rankings: tuple[Ranking, ...]
    costs: tuple[Cost, ...]
    left_out: dict[str, str]
    not_judged: dict[str, str]
    bottlenecks: dict[str, dict[str, int]]
    limits: dict[str, Limit]
    reply_bytes: dict[str, float]
    unequal_work: str | None
    asymmetries: tuple[Asymmetry, ...]
    blocks_planned: int
    blocks_used: int
    blocks_discarded: int
    blocks_topology_changed: int
    warnings: tuple[WarningCount, ...]
    failures: tuple[FailureCount, ...]

    @property
    def topology_changed(self) -> str:
        """The number of blocks in which the core-to-core latency changed, in words; empty if it is 0."""
        return f"{self.blocks_topology_changed} of {self.blocks_used} blocks" if self.blocks_topology_changed else ""

    def estimate(self, metric: Metric, contestant: str, reference: str | None = None) -> Estimate | None:
        """The ratio of one contestant to `reference`, or to the one it is compared with; None if there is none."""
        found = (e for e in self.estimates if e.metric == metric and e.contestant == contestant)
        return next((e for e in found if reference in (None, e.reference)), None)

    def named_difference(self, contestant: str, reference: str) -> Estimate | None:
        """The largest decided difference in latency or memory to `reference`, if a sentence should name it."""
        of = {e.metric: e for e in self.estimates if (e.contestant, e.reference) == (contestant, reference)}
        return worth_naming(of) if "throughput" in of else None

    def level(self, metric: Metric, contestant: str) -> Level | None:
        """The level of one contestant; None if nothing was measured."""
        return next((le for le in self.levels if le.metric == metric and le.contestant == contestant), None)

    def ranking(self, metric: Metric) -> Ranking | None:
        """The ranking by a metric; None if there is none."""
        return next((each for each in self.rankings if each.metric == metric), None)


class _Basis(NamedTuple):
    """The data for the verdict on a comparison.

    `used` are the blocks that count, `discarded` is the number of discarded ones, `gone` are the slots with a final
    failure, and `mine` the results of the comparison in the order of the plan.
    """

    used: Used
    discarded: int
    inconclusive: str | None
    gone: Set[int]
    mine: Sequence[Result]
    limits: Mapping[str, Limit]
    reply_bytes: dict[str, float]
    different: dict[str, str]
    not_judged: dict[str, str]


def judge(plan: Plan, results: Iterable[Result], counts: Iterable[CostCount] = ()) -> tuple[ComparisonVerdict, ...]:
    """A verdict for every comparison of the plan, in its order, from the results and counts so far."""
    done = {result.trial.place: result for result in results if plan.holds(result.trial)}
    calls = {(count.comparison, count.slot): count for count in counts if count.is_of(plan)}
    bases = [_basis(plan, index, done, calls) for index in range(len(plan.comparisons))]
    ratios = [_ratios(comparison, each) for comparison, each in zip(plan.comparisons, bases, strict=True)]
    judged = zip(bases, estimates_of(plan, ratios), strict=True)
    return tuple(_judge_comparison(plan, index, calls, *each) for index, each in enumerate(judged))


def _basis(plan: Plan, index: int, done: Mapping[Place, Result], calls: Calls) -> _Basis:
    comparison = plan.comparisons[index]
    used, complete, discarded = used_blocks(plan, index, done)
    gone = {slot for at, slot in given_up(done) if at == index}
    mine = [result for place, result in sorted(done.items()) if place.comparison == index]
    counted = {slot: count for (at, slot), count in calls.items() if at == index}
    reply_bytes = reply_bytes_of(comparison, used)
    different = different_work(reply_bytes)
    return _Basis(
        used=used,
        discarded=discarded,
        inconclusive=inconclusive_of(mine, complete, discarded),
        gone=gone,
        mine=mine,
        limits=limits_of(plan, index, used, mine, counted),
        reply_bytes=reply_bytes,
        different=different,
        not_judged=too_many_discarded(comparison, used, gone, mine) | different,
    )


def _ratios(comparison: Comparison, basis: _Basis) -> tuple[PairedRatio, ...]:
    decided = basis.inconclusive is None
    return ratios_of(comparison, basis.used, basis.gone, basis.limits, undecided=basis.not_judged, decided=decided)


def _judge_comparison(
    plan: Plan, index: int, calls: Calls, basis: _Basis, estimates: tuple[Estimate, ...]
) -> ComparisonVerdict:
    comparison, used, inconclusive = plan.comparisons[index], basis.used, basis.inconclusive
    levels = levels_of(comparison, used, basis.limits)
    warnings = warnings_of(comparison, basis.mine) + unequal_replies(comparison, basis.reply_bytes, len(used))
    failures, left_out = failures_of(comparison, basis.mine), left_out_of(comparison, basis.mine)
    absent = {comparison.titles[slot]: "failed" for slot in sorted(basis.gone)} | basis.not_judged | left_out
    ranked = comparison.ranked and inconclusive is None
    rankings = rankings_of(comparison, used, levels, absent) if ranked else ()
    unequal_work = unequal_work_of(basis.reply_bytes, basis.different)
    sentence = sentence_of(
        comparison, levels, estimates, rankings, basis.limits, inconclusive, failures, left_out, basis.different
    )
    return ComparisonVerdict(
        name=comparison.name,
        setting=comparison.setting,
        titles=comparison.titles,
        texts=tuple(cell.contestant.text for cell in comparison.cells),
        ladder=comparison.ladder,
        sentence=f"{unequal_work} {sentence}" if unequal_work else sentence,
        inconclusive=inconclusive,
        levels=levels,
        estimates=estimates,
        rankings=rankings,
        costs=costs_of(index, comparison, used, calls),
        left_out=left_out,
        not_judged=basis.not_judged,
        bottlenecks=_bottlenecks(plan, comparison, used),
        limits=basis.limits,
        reply_bytes=basis.reply_bytes,
        unequal_work=unequal_work,
        asymmetries=asymmetries_of(comparison, used, basis.mine),
        blocks_planned=plan.blocks,
        blocks_used=len(used),
        blocks_discarded=basis.discarded,
        blocks_topology_changed=sum(not is_same_topology(map(core_to_core_of, row)) for row in used.values()),
        warnings=warnings,
        failures=failures,
    )


def _bottlenecks(plan: Plan, comparison: Comparison, used: Mapping[int, Row]) -> dict[str, dict[str, int]]:
    counted: dict[str, dict[str, int]] = {}
    for slot, title in enumerate(comparison.titles):
        kinds = Counter(
            bottleneck(plan.cell(result.trial), result)
            for row in used.values()
            if (result := row[slot]) is not None and result.report is not None
        )
        counted[title] = {str(kind): count for kind, count in sorted(kinds.items())}
    return counted
