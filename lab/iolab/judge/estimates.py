"""The ratio of each contestant to its reference, paired over blocks, and one word on it."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Set

from iolab.contract.types import Frozen
from iolab.judge import stats
from iolab.judge.blocks import Used, paired, values_of
from iolab.judge.bottleneck import Limit, bound_of
from iolab.metrics import COMPARED, METRICS, Metric
from iolab.plan.plan import Comparison, Plan
from iolab.wording import Bound, Interval


class Estimate(Frozen):
    """`metric` of `contestant` / `reference`, paired over `blocks` blocks.

    `p_holm` is adjusted over the contestants of the comparison. `bootstrap_low` and `bootstrap_high` are the
    cross-check (None where it is degenerate), and `bootstrap_agrees` says whether it leaves out 1 just as the interval
    does.
    `effect_min` is the smallest relative effect these blocks would have found. `blocks_more` is given when undecided.
    `bound` says what a limit elsewhere leaves of the ratio: "at least" it, "at most" it, or "unknown".
    """

    metric: Metric
    contestant: str
    reference: str
    ratio: float
    low: float
    high: float
    p_value: float
    p_holm: float
    word: stats.Word
    bound: Bound
    blocks: int
    blocks_more: int | None
    effect_min: float
    bootstrap_low: float | None
    bootstrap_high: float | None
    bootstrap_agrees: bool
    x: tuple[float, ...]

    @property
    def interval(self) -> Interval:
        """The ratio as it is written."""
        return Interval(self.ratio, self.low, self.high, self.bound)

    @property
    def size(self) -> float:
        """How large the difference is, the same in both directions: 0 is none."""
        return abs(math.log(self.ratio))


def estimates_of(
    plan: Plan,
    index: int,
    used: Used,
    gone: Set[int],
    limits: Mapping[str, Limit],
    *,
    undecided: Container[str],
    decided: bool,
) -> tuple[Estimate, ...]:
    comparison = plan.comparisons[index]
    titles = comparison.titles
    # Where server and generator share a processor, a latency is mostly the time until the other gives it up.
    shared = any(cell.trial.processors == "shared" for cell in comparison.cells)
    estimates: list[Estimate] = []
    for metric in COMPARED:
        times = METRICS[metric].is_time
        values = [values_of(used, metric, slot) for slot in range(len(titles))]
        found: list[tuple[str, str, stats.Ratio, tuple[float, ...]]] = []
        for slot, below in pairs_of(comparison, gone):
            x = paired((values[slot], values[below]))
            ratio = stats.ratio_of_pairs(x)
            if ratio is not None:
                found.append((titles[slot], titles[below], ratio, x))
        adjusted = stats.holm([ratio.p_value for _, _, ratio, _ in found])
        for (title, reference, ratio, x), p_holm in zip(found, adjusted, strict=True):
            limited = (bound_of(limits, each, metric) != "exact" for each in (title, reference))
            bound = ratio_bound(metric, *limited)
            estimate = _estimate(metric, title, reference, ratio, p_holm, x, bound, seed=plan.seed, rivals=len(found))
            may_decide = decided and title not in undecided and reference not in undecided and not (times and shared)
            estimates.append(estimate if may_decide else estimate.model_copy(update={"word": "not decided"}))
    return tuple(estimates)


def pairs_of(comparison: Comparison, gone: Set[int]) -> Iterable[tuple[int, int]]:
    """Each slot that takes part with the slot it is compared with: in a ladder the nearest rung below that is there."""
    for slot in range(1, len(comparison.cells)):
        below = comparison.reference(slot)
        while comparison.ladder and below in gone and below > 0:
            below = comparison.reference(below)
        if slot not in gone and below not in gone:
            yield slot, below


def _estimate(
    metric: Metric,
    contestant: str,
    reference: str,
    ratio: stats.Ratio,
    p_holm: float,
    x: tuple[float, ...],
    bound: Bound,
    *,
    seed: int,
    rivals: int,
) -> Estimate:
    word = bounded_word(stats.word(ratio, p_holm), ratio, bound)
    bootstrap = stats.bootstrap_interval(x, seed)
    low = None if bootstrap.low is None else math.exp(bootstrap.low)
    high = None if bootstrap.high is None else math.exp(bootstrap.high)
    leaves_out_one = ratio.low > 1 or ratio.high < 1
    agrees = low is None or high is None or (low > 1 or high < 1) == leaves_out_one
    more = stats.blocks_to_decide(ratio, len(x), rivals) if word == "not decided" and bound == "exact" else None
    return Estimate(
        metric=metric,
        contestant=contestant,
        reference=reference,
        ratio=ratio.ratio,
        low=ratio.low,
        high=ratio.high,
        p_value=ratio.p_value,
        p_holm=p_holm,
        word=word,
        bound=bound,
        blocks=len(x),
        blocks_more=more,
        effect_min=stats.smallest_effect(x),
        bootstrap_low=low,
        bootstrap_high=high,
        bootstrap_agrees=agrees,
        x=x,
    )


def ratio_bound(metric: Metric, contestant_limited: bool, reference_limited: bool) -> Bound:
    """What is left of a ratio when a side is only a bound. A quotient of two latencies is then nothing."""
    limited = METRICS[metric].limited
    if limited == "exact" or not (contestant_limited or reference_limited):
        return "exact"
    if limited == "at most" or (contestant_limited and reference_limited):
        return "unknown"
    return "at least" if contestant_limited else "at most"


def bounded_word(word: stats.Word, ratio: stats.Ratio, bound: Bound) -> stats.Word:
    """A bound may only take away: "at least 1.1 x" still differs, "at least 0.9 x" or "at least the same" does not."""
    survives = (
        bound == "exact"
        or (bound == "at least" and word == "differs" and ratio.ratio > 1)
        or (bound == "at most" and word == "differs" and ratio.ratio < 1)
    )
    return word if survives else "not decided"
