"""`line`: a quantity grows linearly along an axis, or along the time of each trial.

Each block gives a line by least squares; a value of the axis is weighted by how little it varies over the blocks.
Slope, intercept and R squared are the means over the blocks. Their intervals come from resampling whole blocks, with
the percentiles widened for few blocks (Hesterberg 2015: by sqrt(n / (n - 1)) and Student's t).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from iolab.contract.types import Report
from iolab.judge import stats
from iolab.judge.relations import quantities
from iolab.judge.relations.quantities import Evidence
from iolab.judge.relations.verdicts import (
    Judgement,
    Obstacle,
    TestVerdict,
    blocks_more,
    hindered,
    met,
    more_words,
)
from iolab.metrics import METRICS
from iolab.plan.claims import TIME, LineTest, Quantity
from iolab.plan.plan import blocks_min
from iolab.results.records import Result
from iolab.wording import number

Floats = NDArray[np.float64]

# Fewer points show no line.
POINTS_MIN = 3
# A slope below this is a rounding error.
SLOPE_MIN = 1e-12
# The metrics that are sampled along a trial, by the fields of the samples.
SAMPLED = {"rss": "rss_bytes", "threads": "threads", "processes": "processes"}
# A value that happens to vary little must not dominate the fit: its spread counts as at least this share of the median
# spread.
SPREAD_SHARE_MIN = 0.1


class End(NamedTuple):
    """A figure of the line with its interval."""

    value: float
    low: float
    high: float


class Line(NamedTuple):
    """A line fitted to `blocks` blocks."""

    slope: End
    intercept: End
    r_squared: End
    blocks: int


def decide(test: LineTest, evidence: Evidence) -> TestVerdict:
    """The verdict on a line."""
    obstacle = quantities.obstacle(evidence, (test.of,))
    if obstacle is not None:
        return hindered(test, obstacle, test.published_slope)
    lines = _in_time(test, evidence) if test.along == TIME else _along_axis(test, evidence)
    if isinstance(lines, Obstacle):
        return hindered(test, lines, test.published_slope)
    line = _pooled(lines, evidence.plan.seed, evidence.alpha)
    judgement, why = _judged(test, line)
    more = _more(test, line) if judgement == "undecided" else None
    published = "" if test.published_slope is None else f"published {_per(test, test.published_slope)}, "
    slope = f"{_per(test, line.slope.value)} [{slope_words(line.slope.low)}, {slope_words(line.slope.high)}]"
    return TestVerdict(
        test=test,
        judgement=judgement,
        reason=f"slope {published}measured {slope}, R squared {line.r_squared.value:.4f}: {why}{more_words(more)}",
        published=test.published_slope,
        value=line.slope.value,
        low=line.slope.low,
        high=line.slope.high,
        blocks=line.blocks,
        blocks_more=more,
    )


def _along_axis(test: LineTest, evidence: Evidence) -> list[Floats] | Obstacle:
    """The line of each block that measured all values of the axis."""
    values = quantities.along(evidence, test.of, test.along)
    if not all(isinstance(value, int | float) for value, _ in values):
        return Obstacle("undecided", f"the values of {test.along} are not numbers")
    if len(values) < POINTS_MIN:
        word: Judgement = "full run only" if evidence.plan.is_quick else "undecided"
        return Obstacle(word, f"a line needs three values of {test.along}, {len(values)} measured")
    series = [_values(evidence, quantity) for _, quantity in values]
    blocks = sorted(set.intersection(*(set(each) for each in series)))
    if len(blocks) < blocks_min(1):
        return Obstacle("undecided", f"only {len(blocks)} complete blocks so far")
    measured = np.array([[each[block] for each in series] for block in blocks])
    x = np.array([float(value) for value, _ in values])
    weights = _weights(measured)
    return [fitted(x, row, weights) for row in measured]


def _values(evidence: Evidence, quantity: Quantity) -> dict[int, float]:
    """The value of a quantity, or the ratio, by block."""
    if quantity.contestant:
        return dict(quantities.levels(evidence, quantity).values)
    series = quantities.logarithms(evidence, quantity)
    return {block: math.exp(value) for block, value in series.values.items()}


def _weights(measured: Floats) -> Floats:
    """The weight of each value of the axis: one over the variance of its blocks."""
    spreads = measured.std(axis=0, ddof=1)
    usual = float(np.median(spreads))
    least = SPREAD_SHARE_MIN * usual
    return np.ones_like(spreads) if usual == 0 else 1 / np.maximum(spreads, least) ** 2


def _in_time(test: LineTest, evidence: Evidence) -> list[Floats] | Obstacle:
    """The line of each trial that counts, over the seconds since its series began."""
    lines: list[Floats] = []
    for index in sorted(evidence.chosen(test.of)):
        slot = evidence.plan.comparisons[index].titles.index(test.of.contestant)
        series = (_series(row[slot], test.of.metric) for row in evidence.used[index].values())
        lines += [fitted(x, y, np.ones_like(y)) for x, y in series if y.size >= POINTS_MIN]
    if len(lines) < blocks_min(1):
        return Obstacle("undecided", f"only {len(lines)} complete trials with a series of {test.of.metric} so far")
    return lines


def _series(result: Result | None, metric: str) -> tuple[Floats, Floats]:
    """The seconds and the values of a series along a trial; empty if it has none."""
    nothing = np.empty(0), np.empty(0)
    if result is None or result.report is None:
        return nothing
    if metric == "throughput":
        return _rates(result.report)
    growth = None if result.server is None else result.server.growth
    if growth is None or metric not in SAMPLED:
        return nothing
    times, values = np.array(growth.times_ns, dtype=np.float64), getattr(growth, SAMPLED[metric])
    return times / 1e9, np.array(values, dtype=np.float64)


def _rates(report: Report) -> tuple[Floats, Floats]:
    """Requests per second in each interval of the window."""
    intervals = report.intervals
    first = max(0, -((intervals.begin_ns - report.begin_ns) // intervals.length_ns))
    last = max(first, (report.end_ns - intervals.begin_ns) // intervals.length_ns)
    rates = np.array(intervals.completed[first:last], dtype=np.float64) / intervals.length_ns * 1e9
    return np.arange(rates.size) * intervals.length_ns / 1e9, rates


def fitted(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Slope, intercept and R squared by weighted least squares."""
    total = weights.sum()
    centre_x, centre_y = (weights * x).sum() / total, (weights * y).sum() / total
    slope = (weights * (x - centre_x) * (y - centre_y)).sum() / (weights * (x - centre_x) ** 2).sum()
    intercept = centre_y - slope * centre_x
    spread = (weights * (y - centre_y) ** 2).sum()
    residue = (weights * (y - slope * x - intercept) ** 2).sum()
    return np.array([slope, intercept, 1 - residue / spread if spread > 0 else 1.0])


def _pooled(lines: Sequence[Floats], seed: int, alpha: float) -> Line:
    """The mean line, with the intervals from resampled blocks."""
    blocks = np.array(lines)
    n, mean = len(blocks), blocks.mean(axis=0)
    tail = stats.resampled_tail(n, alpha)
    if tail * stats.BLOCK_RESAMPLES < 1:
        # At such a high confidence, as for one test of many, the percentile is beyond all resampled lines.
        half_widths = stats.student_half_widths(blocks, alpha)
        lows, highs = mean - half_widths, mean + half_widths
    else:
        means = stats.resampled(blocks, seed, lambda sets: sets.mean(axis=1))
        lows, highs = np.quantile(means, tail, axis=0), np.quantile(means, 1 - tail, axis=0)
    ends = [End(*map(float, each)) for each in zip(mean, lows, highs, strict=True)]
    return Line(ends[0], ends[1], ends[2], n)


def _judged(test: LineTest, line: Line) -> tuple[Judgement, str]:
    """The verdict and its reason: every bound must hold; then the published slope is compared."""
    checks = [
        ("slope", met(line.slope.low, line.slope.high, test.slope_at_least, test.slope_at_most)),
        ("intercept", met(line.intercept.low, line.intercept.high, test.intercept_at_least, test.intercept_at_most)),
        ("R squared", met(line.r_squared.low, line.r_squared.high, test.r_squared_at_least, None)),
    ]
    violated = [name for name, found in checks if found == "violated"]
    if violated:
        return "contradicted", f"{violated[0]} is beyond its bound"
    unsure = [name for name, found in checks if found == "open"]
    if unsure:
        return "undecided", f"the interval does not show whether {unsure[0]} is within its bound"
    if test.published_slope is None:
        return "confirmed", "within all bounds"
    if test.slope_at_least is None and test.slope_at_most is None:
        if line.slope.low <= 0 <= line.slope.high:
            return "undecided", "the interval contains 0, so not even the direction is known"
        if (line.slope.low > 0) != (test.published_slope > 0):
            return "contradicted", "the direction is the opposite one"
    margin = abs(test.published_slope) * test.tolerance
    if line.slope.low <= test.published_slope + margin and line.slope.high >= test.published_slope - margin:
        return "confirmed", "direction and magnitude agree"
    return "direction only", "the slope is different here"


def _more(test: LineTest, line: Line) -> int | None:
    """How many more blocks would decide the slope; more blocks do not change R squared."""
    edges = [each for each in (test.slope_at_least, test.slope_at_most) if each is not None] or [0.0]
    end = line.slope
    if all(end.high < edge or end.low > edge for edge in edges):
        return None
    distance = min(abs(end.value - edge) for edge in edges)
    return blocks_more(end.low, end.high, line.blocks, distance, stats.EFFECT / 4 * abs(end.value) or 1e-9)


def _per(test: LineTest, slope: float) -> str:
    unit = METRICS[test.of.metric].column if test.of.contestant else "ratio"
    return f"{slope_words(slope)} ({unit} per {'s' if test.along == TIME else test.along})"


def slope_words(slope: float) -> str:
    """A slope for people. It may be small: that of a ratio along nanoseconds is less than a millionth."""
    return number(slope, least=SLOPE_MIN)
