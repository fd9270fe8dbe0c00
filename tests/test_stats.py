"""The statistics against brute force, scipy, and simulated servers with known truth."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from iolab.judge import stats
from iolab.judge.stats import Ratio
from iolab.plan.plan import blocks_min

Floats = NDArray[np.float64]

logs = st.lists(st.floats(-1, 1).map(lambda x: round(x, 6)), min_size=6, max_size=25)


def test_the_signed_rank_quantile_is_that_of_counting_all_signs() -> None:
    for n in range(1, 13):
        sums = np.array([sum(chosen) for chosen in _subsets(range(1, n + 1))])
        for probability in (0.005, 0.025, 0.05, 0.2):
            wanted = max((k for k in range(1, sums.max() + 2) if np.mean(sums <= k - 1) <= probability), default=0)
            assert stats.signed_rank_quantile(n, probability) == wanted


def test_the_signed_rank_quantile_is_that_of_the_printed_tables() -> None:
    # Critical values of W at two-sided 5 % (the k-th average is one further in).
    for n, critical in {6: 0, 7: 2, 8: 3, 9: 5, 10: 8, 12: 13, 15: 25, 20: 52, 25: 89, 30: 137}.items():
        assert stats.signed_rank_quantile(n, 0.025) == critical + 1


@settings(max_examples=60, deadline=None)
@given(st.integers(5, 25), st.integers(0, 10_000))
def test_the_p_value_is_that_of_scipys_exact_wilcoxon(n: int, seed: int) -> None:
    x = np.random.default_rng(seed).normal(0.3, 1, n)
    assert stats.signed_rank_p(x) == pytest.approx(scipy.stats.wilcoxon(x, method="exact").pvalue, rel=1e-9)


@pytest.mark.parametrize("n", [6, 7, 8, 9])
def test_interval_and_p_value_agree_on_every_pattern_of_signs(n: int) -> None:
    """All sizes and averages differ, so the test depends only on which of them are negative."""
    sizes = np.sqrt([2, 3, 5, 7, 11, 13, 17, 19, 23][:n])
    left_out = 0
    for signs in itertools.product((-1, 1), repeat=n):
        ratio = stats.ratio_of_pairs(sizes * signs)
        assert ratio is not None
        assert (ratio.low > 1 or ratio.high < 1) == (ratio.p_value <= 0.05)
        left_out += ratio.p_value <= 0.05
    # The exact test uses as much of its 5 % as whole patterns allow.
    assert left_out / 2**n <= 0.05
    assert left_out == 2 * sum(
        sum(chosen) < stats.signed_rank_quantile(n, 0.025) for chosen in _subsets(range(1, n + 1))
    )


@settings(max_examples=60, deadline=None)
@given(logs)
def test_the_estimate_is_the_median_of_all_averages_of_two(x: list[float]) -> None:
    averages = sorted((a + b) / 2 for a, b in itertools.combinations_with_replacement(x, 2))
    ratio = stats.ratio_of_pairs(x)
    assert ratio is not None
    assert ratio.ratio == pytest.approx(math.exp(float(np.median(averages))))
    assert ratio.low <= ratio.ratio <= ratio.high


@settings(max_examples=60, deadline=None)
@given(logs)
def test_exchanging_the_servers_inverts_the_ratio(x: list[float]) -> None:
    ratio, inverse = stats.ratio_of_pairs(x), stats.ratio_of_pairs([-value for value in x])
    assert ratio is not None
    assert inverse is not None
    assert inverse.ratio == pytest.approx(1 / ratio.ratio)
    assert (inverse.low, inverse.high) == pytest.approx((1 / ratio.high, 1 / ratio.low))
    assert inverse.p_value == pytest.approx(ratio.p_value)


def test_five_blocks_give_no_interval_and_six_do() -> None:
    assert stats.ratio_of_pairs([0.1] * 5) is None
    assert stats.ratio_of_pairs([0.1] * 6) is not None
    assert [blocks_min(rivals) for rivals in (0, 1, 2, 3, 4, 7)] == [1, 6, 7, 7, 8, 9]


def test_equal_pairs_are_no_evidence_at_all() -> None:
    assert stats.ratio_of_pairs([0.0] * 8) == Ratio(1.0, 1.0, 1.0, 1.0)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(0, 1_000))
def test_the_interval_of_a_median_has_the_coverage_it_says(n: int, seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=n)
    median = stats.median_interval(values)
    assert median.median == np.median(values)
    if median.low is None or median.high is None:
        assert n < 6
        return
    rank = int(np.sum(values <= median.low))
    outside = [2 * float(scipy.stats.binom.cdf(r - 1, n, 0.5)) for r in (rank, rank + 1)]
    assert outside[0] <= 0.05 < outside[1]


@settings(max_examples=40, deadline=None)
@given(st.integers(3, 12), st.integers(3, 12), st.integers(0, 1_000))
def test_the_unpaired_interval_leaves_out_one_when_mann_whitney_does(m: int, n: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    a, b = np.exp(generator.normal(0, 0.1, m)), np.exp(generator.normal(0.1, 0.1, n))
    ratio = stats.ratio_unpaired(a, b)
    exact = scipy.stats.mannwhitneyu(np.log(a), np.log(b), method="exact").pvalue
    assert (ratio.low > 1 or ratio.high < 1) == (exact <= 0.05)
    assert ratio.low <= ratio.ratio <= ratio.high


def test_two_runs_of_two_trials_have_no_unpaired_interval() -> None:
    assert stats.ratio_unpaired([1.0, 1.1], [2.0, 2.1])[1:3] == (0.0, math.inf)


def test_holm_multiplies_the_smallest_most_and_never_turns_back() -> None:
    assert stats.holm([0.01, 0.04, 0.03]) == pytest.approx((0.03, 0.06, 0.06))
    assert stats.holm([0.04, 0.9]) == pytest.approx((0.08, 0.9))
    assert stats.holm([0.6, 0.7]) == (1.0, 1.0)
    assert stats.holm([]) == ()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1), max_size=30))
def test_benjamini_hochberg_is_scipys(p_values: list[float]) -> None:
    expected = scipy.stats.false_discovery_control(p_values) if p_values else []
    assert stats.benjamini_hochberg(p_values) == pytest.approx(tuple(expected))


@pytest.mark.parametrize(
    ("ratio", "p_adjusted", "word"),
    [
        (Ratio(1.10, 1.05, 1.15, 0.01), 0.01, "differs"),
        (Ratio(0.90, 0.85, 0.95, 0.01), 0.01, "differs"),
        (Ratio(1.10, 1.05, 1.15, 0.01), 0.06, "not decided"),
        (Ratio(1.10, 0.99, 1.22, 0.07), 0.07, "not decided"),
        (Ratio(1.005, 0.99, 1.019, 0.5), 0.5, "same"),
        (Ratio(1.010, 1.005, 1.015, 0.01), 0.01, "same"),
        (Ratio(1.015, 1.005, 1.025, 0.01), 0.01, "not decided"),
        (Ratio(1.000, 0.90, 1.10, 0.9), 0.9, "not decided"),
    ],
)
def test_chance_and_size_must_both_speak_before_a_ratio_differs(ratio: Ratio, p_adjusted: float, word: str) -> None:
    assert stats.word(ratio, p_adjusted) == word


@pytest.mark.parametrize(
    ("ratio", "blocks", "more"),
    [
        # The half-width must shrink from 10 % to 5 %, the distance to 1: four times the blocks.
        (Ratio(math.exp(0.05), math.exp(-0.05), math.exp(0.15), 0.3), 10, 30),
        # A ratio of 1 must fit within 2 %: a half-width of 4 % needs about four times the blocks.
        (Ratio(1.0, 1 / 1.04, 1.04, 0.9), 10, 30),
        # At the edge of the effect, a quarter of it is required, not infinitely many blocks.
        (Ratio(1.0199, 1.0199 / 1.02, 1.0199 * 1.02, 0.1), 10, 150),
        # Never "0 more": an undecided ratio needs at least one.
        (Ratio(1.03, 1.029, 1.031, 0.06), 10, 1),
    ],
)
def test_undecided_says_about_how_many_blocks_would_decide(ratio: Ratio, blocks: int, more: int) -> None:
    assert stats.blocks_to_decide(ratio, blocks) == pytest.approx(more, rel=0.05)


def test_holms_price_is_asked_for_in_blocks() -> None:
    sure = Ratio(1.5, 1.4, 1.6, 2 / 2**6)
    assert stats.blocks_to_decide(sure, 6, rivals=4) == 2


def test_plan_and_smallest_effect_are_two_sides_of_one_formula() -> None:
    x = np.random.default_rng(3).normal(0, 0.03, 40)
    effect = stats.smallest_effect(x)
    assert stats.blocks_for(x, effect) == pytest.approx(1.15 * 40, abs=1)
    assert effect == pytest.approx(math.expm1(2.802 * stats.spread(x) / math.sqrt(0.955 * 40)))
    assert stats.blocks_for(x, 10.0) == 6


def test_the_spread_is_robust_and_falls_back_when_half_is_equal() -> None:
    x = np.random.default_rng(4).normal(0, 1, 5_000)
    assert stats.spread(x) == pytest.approx(1, abs=0.05)
    assert stats.spread(np.concatenate([x, [1e6]])) == pytest.approx(1, abs=0.05)
    assert stats.spread([0.0, 0.0, 0.0, 1.0]) == pytest.approx(0.5)


def medians(sets: Floats) -> Floats:
    return np.asarray(np.median(sets, axis=1))


def means(sets: Floats) -> Floats:
    return np.asarray(sets.mean(axis=1))


@pytest.mark.parametrize("figures_of", [medians, means])
@pytest.mark.parametrize("shape", [(6, 6), (7, 3), (333, 3), (500, 6)])
def test_resamples_in_batches_are_those_that_are_drawn_at_once(
    figures_of: Callable[[Floats], Floats], shape: tuple[int, int]
) -> None:
    blocks = np.random.default_rng(1).normal(100, 1, shape)
    drawn = np.random.default_rng(5).integers(0, len(blocks), size=(stats.BLOCK_RESAMPLES, len(blocks)))
    assert np.array_equal(stats.resampled(blocks, 5, figures_of), figures_of(blocks[drawn]))


def test_resampling_many_blocks_takes_little_memory() -> None:
    blocks = np.random.default_rng(1).normal(100, 1, (1_000, 6))
    tracemalloc.start()
    stats.resampled(blocks, 5, medians)
    stats.bootstrap_interval(blocks[:, 0], 5)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 2 * stats.BATCH_BYTES_MAX


def test_the_bootstrap_is_scipys_and_is_repeatable() -> None:
    x = np.random.default_rng(5).normal(0.1, 0.05, 20)
    first, second = stats.bootstrap_interval(x, seed=7), stats.bootstrap_interval(x, seed=7)
    assert first == second
    assert first.low is not None
    assert first.high is not None
    assert first.low < first.median < first.high
    assert stats.bootstrap_interval([0.1] * 6, seed=7) == (0.1, None, None)


# --- Simulated servers --------------------------------------------------------------------------------------------

SETS, BLOCKS = 1_000, 20
WEATHER = ("white", "drift", "spikes", "two modes", "heavy tails")


def simulated_logs(
    weather: str,
    truth: float,
    generator: np.random.Generator,
    *,
    sets: int = SETS,
    blocks: int = BLOCKS,
    own_noise: float = 0.02,
) -> Floats:
    """x = ln(B / A) of comparisons on a simulated machine; B is first in a random half of the blocks."""
    shape = (sets, 2 * blocks)
    noise = generator.normal(0, own_noise, shape)
    if weather == "drift":
        steps = generator.normal(0, 0.03, shape)
        for trial in range(1, 2 * blocks):
            steps[:, trial] += 0.9 * steps[:, trial - 1]
        noise += steps
    elif weather == "spikes":
        noise -= np.where(generator.random(shape) < 0.05, generator.exponential(0.3, shape), 0)
    elif weather == "two modes":
        noise += np.where(generator.random(shape) < 0.5, 0.10, 0.0)
    elif weather == "heavy tails":
        noise += 0.02 * generator.standard_t(2, shape)
    pairs = noise.reshape(sets, blocks, 2)
    b_first = generator.random((sets, blocks)) < 0.5
    difference: Floats = np.where(b_first, pairs[..., 0] - pairs[..., 1], pairs[..., 1] - pairs[..., 0])
    return difference + math.log(truth)


@pytest.mark.parametrize("weather", WEATHER)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_server_and_itself_rarely_differ(weather: str, seed: int) -> None:
    _, low, high = stats.hodges_lehmann(simulated_logs(weather, 1.0, np.random.default_rng(seed)))
    assert np.mean((low > 0) | (high < 0)) <= 0.064


@pytest.mark.parametrize("weather", WEATHER)
@pytest.mark.parametrize("truth", [1.05, 0.80])
def test_the_interval_covers_the_truth(weather: str, truth: float) -> None:
    estimate, low, high = stats.hodges_lehmann(simulated_logs(weather, truth, np.random.default_rng(3)))
    assert np.mean((low <= math.log(truth)) & (math.log(truth) <= high)) >= 0.93
    assert float(np.median(estimate)) == pytest.approx(math.log(truth), abs=0.01)


def test_five_percent_are_found_in_twenty_blocks_of_two_percent_noise() -> None:
    _, low, _ = stats.hodges_lehmann(simulated_logs("white", 1.05, np.random.default_rng(4)))
    assert np.mean(low > 0) >= 0.95


def test_the_simulated_drift_does_fool_what_we_do_not_use() -> None:
    """All of A, then all of B, by Mann-Whitney: the same drift fools it, so the tests above can fail."""
    generator = np.random.default_rng(5)
    series = generator.normal(0, 0.02, (SETS, 2 * BLOCKS))
    drift = generator.normal(0, 0.03, series.shape)
    for trial in range(1, 2 * BLOCKS):
        drift[:, trial] += 0.9 * drift[:, trial - 1]
    series += drift
    p = scipy.stats.mannwhitneyu(series[:, :BLOCKS], series[:, BLOCKS:], axis=1, method="asymptotic").pvalue
    assert np.mean(p <= 0.05) > 0.3


def _subsets(items: range) -> list[tuple[int, ...]]:
    return [chosen for size in range(len(items) + 1) for chosen in itertools.combinations(items, size)]
