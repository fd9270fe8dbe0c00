"""Whether the next part of a run ends within its budget, if it has one.

The number of blocks follows from how long the pilot's blocks took. A later disturbance, reruns of discarded trials and
slower servers take more time than that, so the clock is checked before each trial. The decision depends on time alone,
never on results.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from iolab.measure import planning
from iolab.measure.planning import Late, Others, report_s
from iolab.measure.progress import Progress
from iolab.plan.plan import Plan, Trial
from iolab.plan.settings import Cell
from iolab.results.records import CostCount


class Budget:
    """The time that a run has taken and may still take. Without a budget there is always time.

    A resumed run has taken the time of its stored trials and `counts`, plus the time since `began_s`.
    """

    def __init__(self, progress: Progress, began_s: float, counts: Sequence[CostCount]) -> None:
        self._progress, self._began_s = progress, began_s
        took_s = [*(each.took_s for each in progress.results), *(each.took_s for each in counts)]
        self._earlier_s = math.fsum(each or 0.0 for each in took_s)
        self._after, self._counting = Others(0, 0.0), Others(0, 0.0)
        # The lateness of the first `_results_seen` results: a long run has thousands, and checks before each trial.
        self._lateness_s, self._results_seen = list[float](), 0
        self._foresee()

    @property
    def spent_s(self) -> float:
        """How long the run has taken so far."""
        return self._earlier_s + self._progress.clocks.monotonic_s() - self._began_s

    def has_time(self, rest: Sequence[Trial]) -> bool:
        """Whether the next block of all comparisons, or the next rerun, and everything after it end in time."""
        if self._budget_s is None:
            return True
        plan, late = self._progress.plan, self._late()
        needed_s = late.time_s([plan.cell(trial) for trial in _together(rest)])
        return self.spent_s + needed_s + self._after.time_s(late.usual_s) + report_s(plan) <= self._budget_s

    def has_time_for(self, cells: Sequence[Cell], *, then: int) -> bool:
        """Whether single trials of these cells, and `then` counts of costs after them, end in time."""
        if self._budget_s is None:
            return True
        late, counting = self._late(), self._counting
        later_s = then / max(1, counting.starts) * counting.time_s(late.usual_s) + report_s(self._progress.plan)
        return self.spent_s + late.time_s(cells) + later_s <= self._budget_s

    def chosen(self) -> Plan:
        """The plan with the number of blocks chosen by its pilot; call it at the pilot's end."""
        return planning.chosen(self._progress.plan, self._progress.results)

    def used_up(self) -> Plan:
        """The plan without the blocks and the reruns that there is no time for."""
        return planning.used_up(self._progress.plan, self._progress.results)

    def go_on(self, plan: Plan) -> None:
        """Continues with a plan whose number of blocks has changed."""
        self._progress.go_on(plan)
        self._foresee()

    @property
    def _budget_s(self) -> float | None:
        aim = self._progress.plan.aim
        return None if aim is None else aim.budget_s

    def _late(self) -> Late:
        results = self._progress.results
        self._lateness_s += planning.lateness_of(self._progress.plan, results[self._results_seen :])
        self._results_seen = len(results)
        return planning.late(self._lateness_s)

    def _foresee(self) -> None:
        """Computes what comes after the blocks. Takes long with many contestants, so it is not done before each
        block.
        """
        plan, results = self._progress.plan, self._progress.results
        if self._budget_s is not None:
            self._counting = planning.counting(plan)
            # A pilot is not cut short for work that may be left out at the end.
            self._after = self._counting if plan.is_pilot else planning.after(plan, results)


def _together(rest: Sequence[Trial]) -> list[Trial]:
    """The next trial and those it is useless without: of its block in all comparisons, or of its rerun."""
    first = rest[0]
    place = (first.comparison, first.attempt)
    return [
        trial
        for trial in rest
        if trial.block == first.block and (trial.attempt == 0 or (trial.comparison, trial.attempt) == place)
    ]
