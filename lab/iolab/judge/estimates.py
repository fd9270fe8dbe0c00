"""The ratio of each contestant to its reference, paired over blocks, and one word on it."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from iolab.contract.types import Frozen
from iolab.judge import stats
from iolab.judge.blocks import Used, paired, values_of
from iolab.judge.bottleneck import Limit, bound_of
from iolab.metrics import COMPARED, METRICS, Metric
from iolab.plan.plan import ALPHA, Comparison, Plan
from iolab.wording import Bound, Interval


class Estimate(Frozen):
    """`metric` of `contestant` / `reference`, paired over `blocks` blocks.

    The p-values are adjusted over all ratios of the run that may be called different: `p_bh` after Benjamini and
    Hochberg, which decides the word, and `p_holm` after Holm, so all ratios with a value of at most 0.05 hold together.
    Both are None for other ratios. `low` and `high` are the unadjusted 95 % interval of this ratio. `bootstrap_low` and
    `bootstrap_high` are the cross-check (None if it is degenerate); `bootstrap_agrees` says whether it agrees with the
    interval on excluding 1.
    `effect_min` is the smallest relative effect these blocks would have found. `blocks_more` is set if undecided.
    `bound` is "at least", "at most" or "unknown" if the server was not the limit of both sides.
    """

    metric: Metric
    contestant: str
    reference: str
    ratio: float
    low: float
    high: float
    p_value: float
    p_bh: float | None
    p_holm: float | None
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
        """The ratio as it is printed."""
        return Interval(self.ratio, self.low, self.high, self.bound)

    @property
    def size(self) -> float:
        """The size of the difference, without its direction; 0 is none."""
        return abs(math.log(self.ratio))

    @property
    def differs_alone(self) -> bool:
        """Whether it would be called different if it were the only ratio."""
        alone = stats.Ratio(self.ratio, self.low, self.high, self.p_value)
        return self.p_bh is not None and stats.word(alone, self.p_value) == "differs"


class PairedRatio(NamedTuple):
    """The ratio of a metric of two contestants, from x = ln(contestant / reference) of each block, without its word.

    `may_decide`: the ratio may get one.
    """

    metric: Metric
    contestant: str
    reference: str
    ratio: stats.Ratio
    x: tuple[float, ...]
    bound: Bound
    may_decide: bool


def ratios_of(
    comparison: Comparison,
    used: Used,
    gone: Set[int],
    limits: Mapping[str, Limit],
    *,
    undecided: Container[str],
    decided: bool,
) -> tuple[PairedRatio, ...]:
    """Every ratio of a comparison that has enough blocks, metric by metric."""
    titles = comparison.titles
    # If server and generator share a processor, a latency is mostly the wait for the processor.
    shared = any(cell.trial.processors == "shared" for cell in comparison.cells)
    found: list[PairedRatio] = []
    for metric in COMPARED:
        values = [values_of(used, metric, slot) for slot in range(len(titles))]
        for slot, below in pairs_of(comparison, gone):
            x = paired((values[slot], values[below]))
            ratio = stats.ratio_of_pairs(x)
            if ratio is None:
                continue
            names = titles[slot], titles[below]
            bound = ratio_bound(metric, *(bound_of(limits, each, metric) != "exact" for each in names))
            may_decide = decided and not any(each in undecided for each in names)
            may_decide &= bound != "unknown" and not (METRICS[metric].is_time and shared)
            found.append(PairedRatio(metric, *names, ratio, x, bound, may_decide))
    return tuple(found)


def estimates_of(plan: Plan, found: Sequence[Sequence[PairedRatio]]) -> list[tuple[Estimate, ...]]:
    """The ratios of every comparison of a plan with their words.

    The p-values are corrected over all ratios that may get a word, because they are read on one page. The others are
    left out: one far from 1 would let more of these pass by chance.
    """
    p_values = [each.ratio.p_value for ratios in found for each in ratios if each.may_decide]
    p_bh = stats.benjamini_hochberg(p_values)
    # One more ratio that differs would have to pass 5 % divided by this.
    rivals = max(1.0, len(p_values) / (sum(p_value <= ALPHA for p_value in p_bh) + 1))
    corrected = zip(p_bh, stats.holm(p_values), strict=True)
    return [
        tuple(_estimate(each, next(corrected) if each.may_decide else None, rivals, seed=plan.seed) for each in ratios)
        for ratios in found
    ]


def pairs_of(comparison: Comparison, gone: Set[int]) -> Iterable[tuple[int, int]]:
    """Each slot that takes part, with its reference: in a ladder the nearest rung below that takes part."""
    for slot in range(1, len(comparison.cells)):
        below = comparison.reference(slot)
        while comparison.ladder and below in gone and below > 0:
            below = comparison.reference(below)
        if slot not in gone and below not in gone:
            yield slot, below


def _estimate(of: PairedRatio, corrected: tuple[float, float] | None, rivals: float, *, seed: int) -> Estimate:
    """A ratio with its word by its corrected p-values; `rivals` is how many ratios the correction allows for."""
    ratio = of.ratio
    p_bh, p_holm = corrected or (None, None)
    word = "not decided" if p_bh is None else bounded_word(stats.word(ratio, p_bh), ratio, of.bound)
    bootstrap = stats.bootstrap_interval(of.x, seed)
    low = None if bootstrap.low is None else math.exp(bootstrap.low)
    high = None if bootstrap.high is None else math.exp(bootstrap.high)
    leaves_out_one = ratio.low > 1 or ratio.high < 1
    agrees = low is None or high is None or (low > 1 or high < 1) == leaves_out_one
    is_open = p_bh is not None and word == "not decided" and of.bound == "exact"
    return Estimate(
        metric=of.metric,
        contestant=of.contestant,
        reference=of.reference,
        ratio=ratio.ratio,
        low=ratio.low,
        high=ratio.high,
        p_value=ratio.p_value,
        p_bh=p_bh,
        p_holm=p_holm,
        word=word,
        bound=of.bound,
        blocks=len(of.x),
        blocks_more=stats.blocks_to_decide(ratio, len(of.x), rivals) if is_open else None,
        effect_min=stats.smallest_effect(of.x),
        bootstrap_low=low,
        bootstrap_high=high,
        bootstrap_agrees=agrees,
        x=of.x,
    )


def ratio_bound(metric: Metric, contestant_limited: bool, reference_limited: bool) -> Bound:
    """Whether a ratio is exact or a bound. If a side is limited, a ratio of latencies is unknown."""
    limited = METRICS[metric].limited
    if limited == "exact" or not (contestant_limited or reference_limited):
        return "exact"
    if limited == "at most" or (contestant_limited and reference_limited):
        return "unknown"
    return "at least" if contestant_limited else "at most"


def bounded_word(word: stats.Word, ratio: stats.Ratio, bound: Bound) -> stats.Word:
    """The word a bound leaves: "at least 1.1x" still differs, "at least 0.9x" or "at least the same" does not."""
    survives = (
        bound == "exact"
        or (bound == "at least" and word == "differs" and ratio.ratio > 1)
        or (bound == "at most" and word == "differs" and ratio.ratio < 1)
    )
    return word if survives else "not decided"
