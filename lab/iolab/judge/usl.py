"""The Universal Scalability Law (Gunther, 1993): N workers serve X(N) = λN / (1 + σ(N - 1) + κN(N - 1)).

λ is the rate of one worker alone. σ is contention, the share of the work that workers do one after the other. κ is
coherence, the cost of each pair of workers to both; above some number of workers it lowers the rate.

N / X is a sum of three terms with non-negative coefficients 1/λ, σ/λ and κ/λ, so the fit is weighted least squares of
N / X over the medians of the blocks. It has one solution and needs no starting point. The intervals come from
resampling whole blocks, widened for few blocks like those of `relations/line.py`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from iolab.contract.types import Frozen
from iolab.judge import stats

Floats = NDArray[np.float64]

# The terms of each candidate. The solution is the candidate without a negative coefficient that has the least residue:
# a minimum over non-negative coefficients is also the minimum over its non-zero ones.
TERMS = ([0], [0, 1], [0, 2], [0, 1, 2])
# A count that happens to vary little must not dominate the fit: its spread counts as at least this share of the median
# spread.
SPREAD_SHARE_MIN = 0.1


class End(Frozen):
    """A coefficient with its 95 % interval."""

    value: float
    low: float
    high: float


class Law(Frozen):
    """The law of one server: λ in requests per second, σ and κ as shares."""

    per_worker_per_s: End
    contention: End
    coherence: End

    def rate_per_s(self, workers: Floats) -> Floats:
        """The rate of this many workers."""
        lost = 1 + self.contention.value * (workers - 1) + self.coherence.value * workers * (workers - 1)
        return self.per_worker_per_s.value * workers / lost

    @property
    def peak_workers(self) -> float | None:
        """The number of workers with the highest rate, at least 1; None if no peak is known."""
        if self.contention.low >= 1:
            return 1.0
        if self.coherence.low <= 0:
            return None
        return max(1.0, math.sqrt(max(0.0, 1 - self.contention.value) / self.coherence.value))


def fitted(workers: Floats, rates_per_s: Floats, seed: int) -> Law:
    """The law fitted to the rates of whole blocks: a row for each block, a column for each worker count."""
    medians = np.median(rates_per_s, axis=0)
    weights = medians / (workers * _spreads(rates_per_s))
    resampled = solved(workers, stats.resampled(rates_per_s, seed, lambda sets: np.median(sets, axis=1)), weights)
    tail = stats.resampled_tail(len(rates_per_s))
    lows, highs = np.quantile(resampled, tail, axis=0), np.quantile(resampled, 1 - tail, axis=0)
    values = solved(workers, medians[None], weights)[0]
    rate, contention, coherence = (
        End(value=float(value), low=float(low), high=float(high))
        for value, low, high in zip(values, lows, highs, strict=True)
    )
    return Law(per_worker_per_s=rate, contention=contention, coherence=coherence)


def solved(workers: Floats, rates_per_s: Floats, weights: Floats) -> Floats:
    """λ, σ and κ of each row of rates, by least squares of N / X with a weight for each worker count."""
    columns = np.stack([np.ones_like(workers), workers - 1, workers * (workers - 1)], axis=1) * weights[:, None]
    wanted = workers / rates_per_s * weights
    best, least = np.zeros((len(wanted), 3)), np.full(len(wanted), np.inf)
    for terms in TERMS:
        part = columns[:, terms]
        found = wanted @ np.linalg.pinv(part).T
        residue = ((wanted - found @ part.T) ** 2).sum(axis=1)
        is_better = (found >= 0).all(axis=1) & (residue < least)
        least[is_better] = residue[is_better]
        best[is_better] = 0
        best[np.ix_(is_better, terms)] = found[is_better]
    return np.stack([1 / best[:, 0], best[:, 1] / best[:, 0], best[:, 2] / best[:, 0]], axis=1)


def _spreads(rates_per_s: Floats) -> Floats:
    """The spread of each worker count over the blocks, as a share of its rate."""
    spreads = np.log(rates_per_s).std(axis=0, ddof=1)
    usual = float(np.median(spreads))
    return np.ones_like(spreads) if usual == 0 else np.maximum(spreads, SPREAD_SHARE_MIN * usual)
