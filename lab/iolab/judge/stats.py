"""The statistics of paired blocks: pure functions over arrays.

The unit is the trial, never the request. Each block gives one x = ln(B / A), and all statistics are over these x: the
Hodges-Lehmann estimate, and the interval from inverting the exact signed-rank test. They keep their 5 % of false alarms
under slow drift, spikes, two modes and heavy tails. Running A and then B, judged by Mann-Whitney, gives false alarms in
a third of all comparisons (tests/test_stats.py repeats this). No value is ever removed because of its size.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np
import scipy  # loads scipy.stats on first use; that takes more than a second
from numpy.typing import NDArray

from iolab.contract.types import percent
from iolab.plan.plan import ALPHA, blocks_min

Floats = NDArray[np.float64]

CONFIDENCE = 1 - ALPHA
# The smallest effect of interest: less than 2 % is no reason to replace a server.
EFFECT = 0.02
# Normal quantiles of the planning formulas: two-sided 5 % and 80 % power. Their sum is the 2.80 of the smallest effect.
Z_ALPHA, Z_POWER = 1.960, 0.842
# The efficiency of the signed-rank test against the t test on normal noise, 3 / pi.
EFFICIENCY = 0.955
# A plan has this many times the blocks of the formula.
SPARE = 1.15
BOOTSTRAP_RESAMPLES = 9_999
BLOCK_RESAMPLES = 4_999
# At most this many bytes of resamples are held at a time: all those of 1,000 blocks take hundreds of MB.
BATCH_BYTES_MAX = 16 << 20

Word = Literal["differs", "same", "not decided"]


class Ratio(NamedTuple):
    """A ratio with its interval and the two-sided p-value of "it is 1"."""

    ratio: float
    low: float
    high: float
    p_value: float


class Median(NamedTuple):
    """A median with its exact order-statistic interval; low and high are None if there are too few values."""

    median: float
    low: float | None
    high: float | None


def ratio_of_pairs(x: Sequence[float] | Floats, confidence: float = CONFIDENCE) -> Ratio | None:
    """The ratio of one set of blocks from its x = ln(B / A); None if there are too few for an interval."""
    x = np.asarray(x, dtype=np.float64)
    if signed_rank_quantile(x.size, (1 - confidence) / 2) == 0:
        return None
    estimate, low, high = hodges_lehmann(x, confidence)
    return Ratio(math.exp(estimate), math.exp(low), math.exp(high), signed_rank_p(x))


def hodges_lehmann(x: Floats, confidence: float = CONFIDENCE) -> tuple[Floats, Floats, Floats]:
    """Estimate, low and high of the centre of x, along the last axis (shape (..., n) gives three of shape (...)).

    The estimate is the median of the N = n (n + 1) / 2 Walsh averages; the interval ends at the k-th smallest and
    k-th largest of them, k from the exact signed-rank law.
    """
    n = x.shape[-1]
    first, second = np.triu_indices(n)
    walsh = np.sort((x[..., first] + x[..., second]) / 2, axis=-1)
    k = signed_rank_quantile(n, (1 - confidence) / 2)
    if k == 0:
        raise ValueError(f"{n} blocks give no interval at {percent(confidence)}")
    return np.median(walsh, axis=-1), walsh[..., k - 1], walsh[..., -k]


def signed_rank_quantile(n: int, probability: float) -> int:
    """The largest k with P(W <= k - 1) <= probability under the signed-rank law of n values; 0 if there is none."""
    cumulated = np.cumsum(_signed_rank_law(n))
    return int(np.searchsorted(cumulated, probability * (1 + 1e-12), side="right"))


def signed_rank_p(x: Floats) -> float:
    """The exact two-sided signed-rank p-value of "the centre is 0". Zeros have no direction and are left out.

    Ties share their mean rank; the law of untied ranks is then slightly conservative.
    """
    x = np.asarray(x, dtype=np.float64)
    x = x[x != 0]
    if x.size == 0:
        return 1.0
    ranks = scipy.stats.rankdata(np.abs(x))
    smaller = min(float(ranks[x > 0].sum()), float(ranks[x < 0].sum()))
    law = _signed_rank_law(x.size)
    return min(1.0, 2 * float(law[: math.floor(smaller) + 1].sum()))


@lru_cache(maxsize=256)
def _signed_rank_law(n: int) -> Floats:
    """P(W = w) for w = 0 … n (n + 1) / 2: each rank is in the sum or not, with equal odds."""
    law = np.zeros(n * (n + 1) // 2 + 1)
    law[0] = 1.0
    for rank in range(1, n + 1):
        shifted = np.zeros_like(law)
        shifted[rank:] = law[:-rank]
        law = (law + shifted) / 2
    law.setflags(write=False)
    return law


def bootstrap_interval(x: Sequence[float] | Floats, seed: int, confidence: float = CONFIDENCE) -> Median:
    """The BCa bootstrap of the median of x: only a cross-check, because it is unreliable at small n.

    If all values are equal there is no bootstrap distribution, and the interval is None, not a point.
    """
    x = np.asarray(x, dtype=np.float64)
    median = float(np.median(x))
    if x.size < 2 or np.ptp(x) == 0:
        return Median(median, None, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scipy warns of a degenerate distribution; it is the None below.
        interval = scipy.stats.bootstrap(
            (x,),
            np.median,
            method="BCa",
            n_resamples=BOOTSTRAP_RESAMPLES,
            batch=_batch(x),
            confidence_level=confidence,
            rng=np.random.default_rng(seed),
        ).confidence_interval
    if not (math.isfinite(interval.low) and math.isfinite(interval.high)):
        return Median(median, None, None)
    return Median(median, float(interval.low), float(interval.high))


def resampled(blocks: Floats, seed: int, figures_of: Callable[[Floats], Floats]) -> Floats:
    """Draws BLOCK_RESAMPLES sets of len(blocks) blocks, with replacement; returns a row of figures for each.

    `figures_of` gets an array of sets, each an array of blocks.
    """
    n, random, batch = len(blocks), np.random.default_rng(seed), _batch(blocks)
    counts = (min(batch, BLOCK_RESAMPLES - done) for done in range(0, BLOCK_RESAMPLES, batch))
    return np.concatenate([figures_of(blocks[random.integers(0, n, size=(count, n))]) for count in counts])


def _batch(blocks: Floats) -> int:
    """How many resamples of these blocks are drawn at a time. The index of a block is as large as a float."""
    return max(1, BATCH_BYTES_MAX // (blocks.nbytes + len(blocks) * blocks.itemsize))


def resampled_tail(blocks: int, alpha: float = 1 - CONFIDENCE) -> float:
    """The share of resampled figures beyond each end of an interval of confidence 1 - `alpha`.

    Percentiles are too narrow for few blocks: they are widened by sqrt(n / (n - 1)) and Student's t (Hesterberg 2015).
    """
    t = scipy.stats.t.ppf(alpha / 2, blocks - 1)
    return float(scipy.stats.norm.cdf(math.sqrt(blocks / (blocks - 1)) * t))


def student_half_widths(blocks: Floats, alpha: float) -> Floats:
    """The half-width of Student's interval of each column's mean at confidence 1 - `alpha`; a row is a block."""
    n = len(blocks)
    found: Floats = -scipy.stats.t.ppf(alpha / 2, n - 1) * blocks.std(axis=0, ddof=1) / math.sqrt(n)
    return found


def median_interval(values: Sequence[float] | Floats, confidence: float = CONFIDENCE) -> Median:
    """The median of one contestant's trials with its exact order-statistic interval."""
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    n = ordered.size
    rank = int(scipy.stats.binom.ppf((1 - confidence) / 2, n, 0.5)) if n else 0
    median = float(np.median(ordered)) if n else math.nan
    if rank == 0:
        return Median(median, None, None)
    return Median(median, float(ordered[rank - 1]), float(ordered[n - rank]))


def ratio_unpaired(a: Sequence[float] | Floats, b: Sequence[float] | Floats, confidence: float = CONFIDENCE) -> Ratio:
    """b / a from runs that share no blocks: Mann-Whitney with the Hodges-Lehmann shift of the logarithms.

    Drift is not removed, and callers must say so. If n is too small for an interval, it is (0, infinity).
    """
    return ratio_of_samples(
        np.log(np.asarray(a, dtype=np.float64)), np.log(np.asarray(b, dtype=np.float64)), confidence
    )


def ratio_of_samples(log_a: Floats, log_b: Floats, confidence: float = CONFIDENCE) -> Ratio:
    """`ratio_unpaired` for two samples of logarithms: of values, or of ratios to a common reference."""
    shifts = np.sort((log_b[:, None] - log_a[None, :]).ravel())
    cumulated = np.cumsum(_mann_whitney_law(log_a.size, log_b.size))
    k = int(np.searchsorted(cumulated, (1 - confidence) / 2 * (1 + 1e-12), side="right"))
    low, high = (math.exp(shifts[k - 1]), math.exp(shifts[-k])) if k else (0.0, math.inf)
    p_value = float(scipy.stats.mannwhitneyu(log_a, log_b, alternative="two-sided").pvalue)
    return Ratio(math.exp(float(np.median(shifts))), low, high, p_value)


def drift_within(x: Floats) -> float:
    """The difference between the two halves of a series: the absolute Hodges-Lehmann shift."""
    half = x.size // 2
    return abs(float(np.median(x[-half:, None] - x[None, :half])))


@lru_cache(maxsize=256)
def _mann_whitney_law(m: int, n: int) -> Floats:
    """P(U = u) for u = 0 … m n, from the generating function prod (1 - q^(n+i)) / (1 - q^i), i = 1 … m."""
    law = np.zeros(m * n + 1)
    law[0] = 1.0
    for i in range(1, m + 1):
        times = law.copy()
        times[n + i :] -= law[: max(law.size - n - i, 0)]
        for first in range(i):
            times[first::i] = np.cumsum(times[first::i])
        law = times * (i / (n + i))
    law.setflags(write=False)
    return law


def spread(x: Sequence[float] | Floats) -> float:
    """The robust standard deviation s_x = 1.4826 MAD; the plain one if more than half of the values are equal."""
    x = np.asarray(x, dtype=np.float64)
    mad = 1.4826 * float(np.median(np.abs(x - np.median(x))))
    return mad if mad > 0 or x.size < 2 else float(np.std(x, ddof=1))


def smallest_effect(x: Sequence[float] | Floats) -> float:
    """The smallest relative effect these blocks would find in 80 % of cases: 0.03 means 3 %."""
    x = np.asarray(x, dtype=np.float64)
    return math.expm1((Z_ALPHA + Z_POWER) * spread(x) / math.sqrt(EFFICIENCY * x.size))


def smallest_effect_of_samples(a: Floats, b: Floats) -> float:
    """`smallest_effect` for two samples of logarithms that share no blocks."""
    error = math.hypot(spread(a) / math.sqrt(a.size), spread(b) / math.sqrt(b.size))
    return math.expm1((Z_ALPHA + Z_POWER) * error / math.sqrt(EFFICIENCY))


def blocks_for(x: Sequence[float] | Floats, effect: float) -> int:
    """The blocks a plan needs to find a relative effect in 80 % of cases, from a pilot's x, with 15 % to spare."""
    needed = ((Z_ALPHA + Z_POWER) * spread(x) / math.log1p(effect)) ** 2 / EFFICIENCY
    return max(blocks_min(1), math.ceil(SPARE * needed))


def effect_for(x: Sequence[float] | Floats, blocks: int) -> float:
    """The relative effect that a plan of `blocks` finds in 80 % of cases: the inverse of `blocks_for`."""
    return math.expm1((Z_ALPHA + Z_POWER) * spread(x) * math.sqrt(SPARE / (EFFICIENCY * blocks)))


def half_width(x: Sequence[float] | Floats) -> float | None:
    """The half-width of the interval as a share: 0.02 for 1.02x [1.00, 1.04]; None if there are too few blocks."""
    x = np.asarray(x, dtype=np.float64)
    if signed_rank_quantile(x.size, ALPHA / 2) == 0:
        return None
    _, low, high = hodges_lehmann(x)
    return math.expm1(float(high - low) / 2)


def blocks_for_width(seen: float, blocks: int, within: float) -> int:
    """About how many blocks give a half-width of `within`, if `blocks` gave `seen`: m = n (seen / within)²."""
    return math.ceil(blocks * (math.log1p(seen) / math.log1p(within)) ** 2)


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Holm's adjusted p-values, in the order given."""
    adjusted = [0.0] * len(p_values)
    running = 0.0
    for place, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        running = max(running, (len(p_values) - place) * p_values[index])
        adjusted[index] = min(1.0, running)
    return tuple(adjusted)


def benjamini_hochberg(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p-values, in the order given: they bound the expected share of false discoveries.

    If all null hypotheses are true, the chance that any is rejected at 5 % is 5 %, as with Holm.
    """
    adjusted = [0.0] * len(p_values)
    running = 1.0
    ordered = sorted(range(len(p_values)), key=lambda index: -p_values[index])
    for place, index in zip(range(len(p_values), 0, -1), ordered, strict=True):
        running = min(running, len(p_values) / place * p_values[index])
        adjusted[index] = running
    return tuple(adjusted)


def word(ratio: Ratio, p_adjusted: float, effect: float = EFFECT) -> Word:
    """The word on a ratio: it "differs" only if the difference is both significant and large enough."""
    if ratio.low > 1 / (1 + effect) and ratio.high < 1 + effect:
        return "same"
    leaves_out_one = (ratio.low > 1 or ratio.high < 1) and p_adjusted <= ALPHA
    if leaves_out_one and abs(math.log(ratio.ratio)) > math.log1p(effect):
        return "differs"
    return "not decided"


def blocks_to_decide(ratio: Ratio, blocks: int, rivals: float = 1, effect: float = EFFECT) -> int:
    """About how many more blocks would decide: m = n (half-width / wanted)² - n, at least 1.

    `wanted` is the half-width that excludes 1, or for a ratio within the effect the one that fits inside it. A ratio on
    the edge of the effect would need infinitely many blocks, so `wanted` is at least a quarter of the effect.
    """
    half_width = (math.log(ratio.high) - math.log(ratio.low)) / 2
    distance = abs(math.log(ratio.ratio))
    limit = math.log1p(effect)
    if distance > limit:
        # Correction for `rivals` asks for a p-value that many times smaller, so the interval that excludes 1 is wider.
        half_width *= NormalDist().inv_cdf(1 - ALPHA / (2 * rivals)) / Z_ALPHA
    wanted = distance if distance > limit else max(limit - distance, limit / 4)
    needed = max(blocks * (half_width / wanted) ** 2, blocks_min(rivals))
    return max(1, math.ceil(needed) - blocks)
