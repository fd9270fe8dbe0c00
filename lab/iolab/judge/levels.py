"""The level of each contestant: its median over the blocks that count, with its interval.

Where the generator was the limit, a server's throughput is known only as "at least this", latencies are the
generator's own queue, and only CPU per request stays safe.
"""

from __future__ import annotations

from collections.abc import Mapping

from iolab.contract.types import Frozen
from iolab.judge import stats
from iolab.judge.blocks import Row
from iolab.metrics import COMPARED, METRICS, Metric, value_of
from iolab.plan.plan import Comparison
from iolab.wording import Bound


class Level(Frozen):
    """One contestant alone: its median over blocks with the exact order-statistic interval.

    Figures are in the metric's base unit: requests per second, nanoseconds, bytes. `values` are in the order of the
    blocks used. `bound` is "at least" where the generator was the limit.
    """

    metric: Metric
    contestant: str
    median: float
    low: float | None
    high: float | None
    bound: Bound
    values: tuple[float, ...]


def limited_by_generator(counts: Mapping[str, int]) -> bool:
    """Whether the generator limited this contestant in most of its trials, and with them their median."""
    return counts.get("generator", 0) * 2 > sum(counts.values())


def levels_of(
    comparison: Comparison, used: Mapping[int, Row], bottlenecks: Mapping[str, Mapping[str, int]]
) -> tuple[Level, ...]:
    levels = []
    for metric in COMPARED:
        for slot, title in enumerate(comparison.titles):
            measured = (value_of(row[slot], metric) for row in used.values())
            values = tuple(value for value in measured if value is not None)
            if not values:
                continue
            bound = METRICS[metric].limited if limited_by_generator(bottlenecks[title]) else "exact"
            median = stats.median_interval(values)
            levels.append(Level(metric=metric, contestant=title, bound=bound, values=values, **median._asdict()))
    return tuple(levels)
