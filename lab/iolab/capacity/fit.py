"""The rate at which half of the probes hold, with its interval, fitted over all probes of a search.

The model is a logistic curve of the logarithm of the rate with a lapse rate: a share of the probes breaks at any rate,
because the machine paused. So a pause far below the capacity hardly moves the estimate. The interval is a profile
likelihood: the rates at which some width of the curve and some lapse rate make the probes almost as likely as the best
fit does. Probes that contradict each other widen it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# The widths of the curve, in units of the logarithm of the rate. With a narrower curve, a few probes that happen to
# agree would look exact; a wider one would say nothing about a capacity.
WIDTHS = np.geomspace(0.01, 0.2, 7)
# The shares of probes that break at any rate, and their prior probabilities: pauses are rare on most machines.
LAPSES, LAPSE_CHANCES = np.array([0.0, 0.03, 0.1, 0.25]), np.array([0.6, 0.2, 0.15, 0.05])
# How far the log-likelihood may be below its maximum within the interval. The chi-squared law says 1.92, but only holds
# for many probes. With this value, at least 93 % of the intervals of simulated searches contain the true capacity.
DROP = 3.0
# The grid's rates per factor of e, and its margin beyond the rates of the probes, as a logarithm.
GRID_PER_E, MARGIN = 400, 0.3


@dataclass(frozen=True, slots=True)
class Fit:
    """The rate at which half of the probes hold, and its 95 % interval."""

    rate_per_s: float
    low_per_s: float
    high_per_s: float

    @property
    def half_width(self) -> float:
        """Half of the interval as a share of its middle."""
        return (self.high_per_s - self.low_per_s) / (self.high_per_s + self.low_per_s)


def fitted(held_per_s: Sequence[float], broken_per_s: Sequence[float]) -> Fit | None:
    """The fit over the rates that held and those that broke; None if either is missing."""
    if not held_per_s or not broken_per_s:
        return None
    held, broken = np.log(held_per_s), np.log(broken_per_s)
    first, last = min(held.min(), broken.min()) - MARGIN, max(held.max(), broken.max()) + MARGIN
    thresholds = np.arange(first, last, 1 / GRID_PER_E)
    likelihood = _log_likelihood(thresholds, held, broken) + np.log(LAPSE_CHANCES)
    profile = likelihood.max(axis=(1, 2))
    within = thresholds[profile >= profile.max() - DROP]
    # Many rates between the highest that held and the lowest that broke are equally likely, so the estimate is the mean
    # weighted by the likelihood, not one of its maxima.
    weights = np.exp(likelihood - likelihood.max()).sum(axis=(1, 2))
    middle = float(np.average(thresholds, weights=weights))
    # Each end is between two rates of the grid; the interval takes the outer one.
    low, high = float(within[0]) - 1 / GRID_PER_E, float(within[-1]) + 1 / GRID_PER_E
    return Fit(*(float(np.exp(log)) for log in (min(max(middle, low), high), low, high)))


def _log_likelihood(thresholds: Floats, held: Floats, broken: Floats) -> Floats:
    """The log-likelihood of all probes, by threshold, width and lapse rate."""
    total = np.zeros((len(thresholds), len(WIDTHS), len(LAPSES)))
    for rates, is_held in ((held, True), (broken, False)):
        for rate, count in zip(*np.unique(rates, return_counts=True), strict=True):
            scaled = (rate - thresholds[:, None]) / WIDTHS
            holds = (1 - LAPSES) / (1 + np.exp(np.clip(scaled, -40, 40)))[..., None]
            total += count * np.log(np.maximum(holds if is_held else 1 - holds, 1e-12))
    return total
