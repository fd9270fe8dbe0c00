"""Rates that are a share of a capacity, such as "50% of capacity of the slowest": measured once, before the first
block.

The capacity of a contestant is the median rate of short closed-loop trials. All contestants of a comparison get the
same rate, from the lowest of their capacities. It is stored with the run, so that a resumed run keeps it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from statistics import median

from iolab.measure.agent import Host
from iolab.measure.trial_run import measure
from iolab.plan.plan import Plan
from iolab.plan.schedule import block_trials
from iolab.plan.settings import Cell, changed

TRIALS = 3
CLOSED_LOOP = {
    "load.rate": None,
    "load.requests": None,
    "trial.warmup_ms": 200,
    "trial.duration_ms": 400,
    "trial.interval_ms": 20,
}
# The key of machine.json with the capacities, by the names of their comparisons.
RECORDED = "capacities_per_s"


def is_share(cell: Cell) -> bool:
    """Whether the rate of a cell is a share of a capacity."""
    return isinstance(cell.load.rate, str)


def at_rate(cell: Cell, capacity_per_s: float | None) -> Cell:
    """The cell with its share of the capacity as a rate; unchanged if it has no share or the capacity is unknown."""
    if capacity_per_s is None or not isinstance(cell.load.rate, str):
        return cell
    share = float(cell.load.rate.partition("%")[0]) / 100
    return changed(cell, {"load.rate": float(max(1, round(share * capacity_per_s)))})


def capacity_per_s(host: Host, plan: Plan, comparison: int, gone: Collection[tuple[int, int]]) -> float | None:
    """The lowest capacity of the contestants that take part in a comparison; None if there is none."""
    slowest = [
        median(rates)
        for trial in block_trials(plan, comparison, 0, 0)
        if (comparison, trial.slot) not in gone
        if (rates := _rates(host, plan, comparison, trial.slot))
    ]
    return min(slowest, default=None)


def _rates(host: Host, plan: Plan, comparison: int, slot: int) -> list[float]:
    """The rates of a contestant in closed-loop trials, without failed ones."""
    cell = changed(plan.comparisons[comparison].cells[slot], CLOSED_LOOP)
    (scheduled,) = (each for each in block_trials(plan, comparison, 0, 0) if each.slot == slot)
    results = (measure(host, cell, scheduled) for _ in range(TRIALS))
    return [result.report.rate_per_s for result in results if result.report is not None and result.failure is None]


def trials_ms(plan: Plan) -> list[int]:
    """The length of each trial that measures the capacities of a plan."""
    cells = [cell for at in wanted(plan, {}) for cell in plan.comparisons[at].cells]
    return [changed(cell, CLOSED_LOOP).trial_ms for cell in cells for _ in range(TRIALS)]


def wanted(plan: Plan, known: Mapping[str, float]) -> list[int]:
    """The comparisons whose capacity is still to be measured."""
    return [
        at
        for at, comparison in enumerate(plan.comparisons)
        if comparison.name not in known and any(map(is_share, comparison.cells))
    ]
