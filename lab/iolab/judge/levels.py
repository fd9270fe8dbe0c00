"""The level of each contestant: its median over the blocks that count, with its interval.

If the server was not the limit, its throughput is only a lower bound. If the generator was, latencies include its own
queue; CPU per request and memory stay exact.
"""

from __future__ import annotations

from collections.abc import Mapping

from iolab.contract.types import Frozen
from iolab.judge import stats
from iolab.judge.blocks import Row
from iolab.judge.bottleneck import Limit, bound_of
from iolab.metrics import COMPARED, Metric, value_of
from iolab.plan.plan import Comparison
from iolab.wording import Bound


class Level(Frozen):
    """One contestant alone: its median over blocks with the exact order-statistic interval.

    Figures are in the metric's base unit: requests per second, nanoseconds, bytes. `values` are in the order of the
    blocks used. `bound` is the metric's bound if the server was not the limit.
    """

    metric: Metric
    contestant: str
    median: float
    low: float | None
    high: float | None
    bound: Bound
    values: tuple[float, ...]


def levels_of(comparison: Comparison, used: Mapping[int, Row], limits: Mapping[str, Limit]) -> tuple[Level, ...]:
    """The levels of all measured contestants, for all compared metrics."""
    levels = []
    for metric in COMPARED:
        for slot, title in enumerate(comparison.titles):
            measured = (value_of(row[slot], metric) for row in used.values())
            values = tuple(value for value in measured if value is not None)
            if not values:
                continue
            bound = bound_of(limits, title, metric)
            median = stats.median_interval(values)
            levels.append(Level(metric=metric, contestant=title, bound=bound, values=values, **median._asdict()))
    return tuple(levels)
