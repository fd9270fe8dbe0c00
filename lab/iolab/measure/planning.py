"""How long a run takes, and how many blocks it has if a precision or a budget was requested instead of a number.

A pilot comes first: ordinary blocks, which count like all others. Its widest interval, and the time its blocks took,
determine the number of blocks once. The results are not consulted again before the end: a run that stops when it likes
its results finds differences that do not exist. The time is checked throughout: see `budget`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean, median
from typing import NamedTuple

from pydantic import ValidationError

from iolab.contract.types import updated
from iolab.errors import PlanError
from iolab.judge import precision, stats
from iolab.measure import limit_probe, rates
from iolab.measure.first_look import kind_of
from iolab.plan import mistakes
from iolab.plan.plan import BLOCKS_MAX, Aim, Choice, Plan
from iolab.plan.settings import TRIAL_OVERHEAD_MS, Cell
from iolab.results.records import Result
from iolab.results.remaining import begun

# Six blocks give an interval of barely known width; ten know its width to about a quarter.
PILOT = 10
# With this factor on the blocks that a pilot of ten suggests, more than four of five runs reach the requested
# half-width.
SPARE = 1.34
# A pilot that is narrow by chance is wrong more often than it claims. So it is enough only if it is narrower than
# requested by this factor, beyond chance; otherwise the run has at least this many times as many blocks.
SURE = 2
# Trials are expected to be as late as the median of this many latest ones, which shows servers that start more slowly.
LATEST = 10
# The part of a budget kept for unmeasured work: the start of the lab, the verdicts and the report. Verdicts and report
# took 2.9 s for 2 contestants and 6.5 s for 58, with other programs on both processors.
START_S, REPORT_S, REPORT_CONTESTANT_S = 1.0, 3.5, 0.06


class Others(NamedTuple):
    """What runs besides the blocks: how many server starts, and how long it takes by the plan."""

    starts: int
    planned_s: float

    def time_s(self, late_s: float = 0.0) -> float:
        """How long it takes if each start takes `late_s` longer than planned."""
        return self.planned_s + self.starts * late_s


class Late(NamedTuple):
    """How much longer than planned trials take: usually, and at most so far."""

    usual_s: float
    most_s: float

    def time_s(self, cells: Iterable[Cell]) -> float:
        """How long these trials take if each is as late as usual, and one as late as the most delayed so far."""
        times_s = [cell.trial_ms / 1_000 + self.usual_s for cell in cells]
        return math.fsum(times_s) + self.most_s - self.usual_s


def others(plan: Plan) -> Others:
    """First checks, measured capacities, and the counts of costs."""
    looks = {kind_of(cell) for comparison in plan.comparisons for cell in comparison.cells}
    capacities_ms = rates.trials_ms(plan)
    counts = counting(plan)
    planned_s = (TRIAL_OVERHEAD_MS * len(looks) + sum(capacities_ms)) / 1_000
    return Others(len(looks) + len(capacities_ms) + counts.starts, planned_s + counts.planned_s)


def probes(plan: Plan, results: Sequence[Result] = ()) -> Others:
    """An upper bound on the trials that show what limited the cells; with results, only for limits still open."""
    trials_ms = limit_probe.longest_ms(plan, results)
    return Others(len(trials_ms), sum(trials_ms) / 1_000)


def counting(plan: Plan) -> Others:
    """The counts of what a request costs."""
    return Others(_contestants(plan), plan.counting_s)


def report_s(plan: Plan) -> float:
    """How long the verdicts and the report take."""
    return REPORT_S + REPORT_CONTESTANT_S * _contestants(plan)


def _contestants(plan: Plan) -> int:
    """The number of contestants over all settings."""
    return sum(len(comparison.cells) for comparison in plan.comparisons)


def after(plan: Plan, results: Sequence[Result] = ()) -> Others:
    """What comes after the blocks, at most: the counts, and the trials that show what limited the cells."""
    counts, trials = counting(plan), probes(plan, results)
    return Others(counts.starts + trials.starts, counts.planned_s + trials.planned_s)


def aimed(plan: Plan, within: float | None, budget_ms: int | None) -> Plan:
    """The plan with a pilot in place of its blocks, if it has a precision or budget; raises PlanError with one line."""
    if within is None and budget_ms is None:
        return plan
    try:
        aim = Aim(within=within, budget_ms=budget_ms)
    except ValidationError as error:
        raise PlanError(mistakes.of_settings(error)) from None
    loads = ([cell.load.connections > 0 for cell in comparison.cells] for comparison in plan.comparisons)
    if within is not None and all(sum(each) < 2 for each in loads):
        raise PlanError("within: nothing is compared under a load here, so there is no interval: leave it out")
    pilot = max(PILOT, plan.blocks_min)
    if aim.budget_s is not None:
        pilot = min(pilot, _fitting(plan, aim.budget_s))
    return updated(plan, blocks=pilot, aim=aim)


def _fitting(plan: Plan, budget_s: float) -> int:
    """How many blocks fit in a budget by the plan; raises PlanError if they are too few for an interval."""
    block_s = plan.duration_s / plan.blocks
    others_s = others(plan).time_s() + probes(plan).time_s() + START_S + report_s(plan)
    fits = int((budget_s - others_s) / block_s)
    if fits < plan.blocks_min:
        least_s = math.ceil(plan.blocks_min * block_s + others_s)
        shorter = "" if plan.is_quick else ", or shorter trials, as with --quick"
        raise PlanError(
            f"budget_ms: {budget_s:g} s is too short: {plan.blocks_min} blocks, the fewest, and what belongs to them "
            f"take up to {least_s} s: use {least_s}s or more{shorter}"
        )
    return fits


def chosen(plan: Plan, results: Sequence[Result]) -> Plan:
    """The plan with the number of blocks chosen from the results of its pilot.

    A pure function of the results: a run killed before it has stored the choice makes the same one again.
    """
    aim, pilot = plan.aim, plan.blocks
    assert aim is not None, "only a plan with an aim has a pilot"
    block_s, others_s = _times_s(plan, results)
    affordable = None if aim.budget_s is None else max(0, int((aim.budget_s - others_s) / block_s))
    half_width, widest = precision.widest(plan, results) or (None, "")
    most = BLOCKS_MAX if affordable is None else min(affordable, BLOCKS_MAX)
    # Without a budget, an unreachable precision is not pursued for hours.
    blocks = pilot if affordable is None else most
    needed = None
    if aim.within is not None and half_width is not None:
        needed = blocks_needed(half_width, pilot, aim.within)
        if needed <= most:
            blocks = min(most, blocks_chosen(half_width, pilot, aim.within))
    blocks = max(pilot, blocks)
    choice = Choice(
        pilot=pilot,
        blocks=blocks,
        half_width=half_width,
        widest=widest,
        needed=needed,
        affordable=affordable,
        block_s=block_s,
        others_s=others_s,
    )
    return updated(plan, blocks=blocks, choice=choice)


def used_up(plan: Plan, results: Sequence[Result]) -> Plan:
    """The plan limited to the blocks that have begun, because its budget has no room for another block or a rerun.

    It keeps at least as many as an interval needs.
    """
    choice = plan.choice or chosen(plan, results).choice
    assert choice is not None, "a plan that was chosen for has a choice"
    blocks = min(plan.blocks, max(plan.blocks_min, begun(results)))
    choice = updated(choice, pilot=min(choice.pilot, blocks), blocks=blocks, is_used_up=True)
    return updated(plan, blocks=blocks, choice=choice)


def blocks_needed(half_width: float, pilot: int, within: float) -> int:
    """How many blocks most probably reach a half-width, from that of a pilot."""
    return max(pilot, math.ceil(SPARE * stats.blocks_for_width(half_width, pilot, within)))


def blocks_chosen(half_width: float, pilot: int, within: float) -> int:
    """How many blocks a run has to reach a half-width: never only a pilot that is barely narrow enough."""
    return pilot if half_width <= within / SURE else max(SURE * pilot, blocks_needed(half_width, pilot, within))


def lateness_of(plan: Plan, results: Iterable[Result]) -> list[float]:
    """How much longer than planned each trial took, for trials with a stored time."""
    return [result.took_s - plan.cell(result.trial).trial_ms / 1_000 for result in results if result.took_s is not None]


def late(lateness_s: Sequence[float]) -> Late:
    """How much longer than planned trials take: the mean so far, or the median of the latest if that is more."""
    if not lateness_s:
        return Late(0.0, 0.0)
    usual_s = max(0.0, fmean(lateness_s), median(lateness_s[-LATEST:]))
    return Late(usual_s, max(usual_s, *lateness_s))


def _times_s(plan: Plan, results: Sequence[Result]) -> tuple[float, float]:
    """How long a block took in a pilot, reruns included, and how long everything else takes at most."""
    late_s = late(lateness_of(plan, results))
    took_s = math.fsum(result.took_s or 0.0 for result in results)
    block_s = took_s / max(1, begun(results)) if took_s else plan.duration_s / plan.blocks
    measured_s = others(plan).time_s(late_s.usual_s) + probes(plan, results).time_s(late_s.usual_s)
    return block_s, measured_s + late_s.most_s - late_s.usual_s + START_S + report_s(plan)
