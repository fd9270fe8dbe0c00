"""The precision of a run that was given a precision or a time instead of a number of blocks.

The precision is the half-width of the interval of a ratio to the reference, in requests or CPU per request. The widest
interval of all comparisons counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from iolab.contract.types import Frozen, percent
from iolab.judge import stats
from iolab.judge.blocks import paired, used_blocks, values_of
from iolab.judge.estimates import pairs_of
from iolab.metrics import METRICS, RANKED_BY
from iolab.plan.plan import BLOCKS_MAX, Aim, Choice, Plan
from iolab.results.records import CostCount, Result
from iolab.results.remaining import begun, given_up
from iolab.wording import duration, number


class Width(NamedTuple):
    """The half-width of one ratio's interval, as a share (None if too few blocks count), and the ratio's name."""

    half_width: float | None
    what: str


class Precision(Frozen):
    """The requested precision and budget, and what was reached.

    `half_width` is that of the widest deciding ratio, named by `widest`. The `blocks` were chosen after a pilot of
    `pilot_blocks`, or had begun when the budget was used up. If `within` was not reached, about `blocks_needed` blocks
    would reach it. All trials and counts together took `trials_s`. What was not requested or is unknown is None.
    """

    within: float | None
    half_width: float | None
    widest: str
    is_reached: bool | None
    budget_s: float | None
    trials_s: float
    pilot_blocks: int
    blocks: int
    is_used_up: bool
    blocks_needed: int | None

    def document(self) -> dict[str, Any]:
        """The fields and the sentence as JSON."""
        return {**self.model_dump(mode="json"), "sentence": self.sentence}

    @property
    def sentence(self) -> str:
        """The fields in a sentence."""
        known = "unknown, because too few blocks count" if self.half_width is None else share_words(self.half_width)
        parts = [f"{known} ({self.widest})"] if self.widest else []
        if self.within is not None:
            more = f": about {self.blocks_needed:,} blocks would reach it" if self.blocks_needed else ""
            reached = "reached" if self.is_reached else f"not reached{more}"
            parts.append(f"{share_words(self.within)} was asked for and {reached}")
        why = "no time is left for another one" if self.is_used_up else f"chosen after a pilot of {self.pilot_blocks}"
        parts.append(f"{self.blocks} blocks, {why}")
        if self.budget_s is not None:
            parts.append(f"trials took {duration(self.trials_s)} of a budget of {duration(self.budget_s)}")
        return f"Precision: {'; '.join(parts)}."


def widest(plan: Plan, results: Iterable[Result]) -> Width | None:
    """The widest deciding ratio of a run so far; None if nothing is compared."""
    widths = list(_widths(plan, results))
    # A ratio without an interval may be wider than all others.
    return max(widths, key=lambda each: float("inf") if each.half_width is None else each.half_width, default=None)


def _widths(plan: Plan, results: Iterable[Result]) -> Iterator[Width]:
    done = {result.trial.place: result for result in results if plan.holds(result.trial)}
    gone = given_up(done)
    for at, comparison in enumerate(plan.comparisons):
        used, _, _ = used_blocks(plan, at, done)
        where = f", {comparison.name}" if len(plan.comparisons) > 1 else ""
        for slot, below in pairs_of(comparison, {slot for index, slot in gone if index == at}):
            for metric in RANKED_BY:
                above, under = (values_of(used, metric, each) for each in (slot, below))
                if used and not (above or under):
                    continue  # the load of these trials does not give this metric
                titles = f"{comparison.titles[slot]} / {comparison.titles[below]}"
                yield Width(stats.half_width(paired((above, under))), f"{METRICS[metric].noun} of {titles}{where}")


def aim_words(aim: Aim) -> str:
    """The requested precision and budget: `for ±2 % within 60 s`."""
    within = "" if aim.within is None else f"for {share_words(aim.within)}"
    budget = "" if aim.budget_s is None else f"within {duration(aim.budget_s)}"
    return " ".join(filter(None, (within, budget)))


def chosen_words(plan: Plan) -> str:
    """The number of blocks chosen after the pilot or by a used-up budget, and why; empty if none was chosen."""
    aim, choice = plan.aim, plan.choice
    if aim is None or choice is None:
        return ""
    if choice.is_used_up:
        return _used_up(plan, aim, choice)
    if aim.within is None:
        return _fitting(aim, choice)
    asked = share_words(aim.within)
    if choice.half_width is None or choice.needed is None:
        which = f" ({choice.widest})" if choice.widest else ""
        return f"the pilot has too few blocks that count to plan for {asked}{which}; {_fitting(aim, choice)}"
    seen = f"the pilot gives {share_words(choice.half_width)} ({choice.widest})"
    if choice.needed > choice.blocks:
        limit = f"{BLOCKS_MAX:,} blocks" if aim.budget_s is None else duration(aim.budget_s)
        takes = f"it takes about {choice.needed:,} blocks, {duration(choice.time_s(choice.needed))}"
        return f"{asked} cannot be reached in {limit}: {takes}; {seen}; {_fitting(aim, choice)}"
    if choice.blocks == choice.pilot:
        return f"{seen}: that is within {asked}, so there are no more blocks"
    time = duration(choice.time_s(choice.blocks))
    return f"{seen}; {choice.blocks} blocks should give {asked}, about {time} in all"


def _fitting(aim: Aim, choice: Choice) -> str:
    """The number of blocks if only the budget decides it, or nothing does."""
    if aim.budget_s is None:
        return f"the run keeps to the {choice.blocks} blocks of its pilot"
    budget = duration(aim.budget_s)
    if (choice.affordable or 0) < choice.pilot:
        return f"a block takes {choice.block_s:.1f} s, so no more than the pilot fits in {budget}"
    return f"{choice.blocks:,} blocks fit in {budget}"


def _used_up(plan: Plan, aim: Aim, choice: Choice) -> str:
    """How a used-up budget ends the run."""
    budget_s, takes_s = aim.budget_s or 0.0, choice.time_s(choice.blocks)
    if choice.blocks == plan.blocks_min and takes_s > budget_s:
        least = f"{choice.blocks} blocks, about {duration(takes_s)}"
        return f"{duration(budget_s)} is too short: an interval takes {least} here"
    end = f"the run ends with {choice.blocks:,} blocks"
    return f"no time is left in {duration(budget_s)} for another block or rerun: {end}"


def precision_of(plan: Plan, results: Iterable[Result], counts: Iterable[CostCount]) -> Precision | None:
    """The requested and reached precision; None if the number of blocks was given or is not chosen yet."""
    aim, choice, results = plan.aim, plan.choice, list(results)
    if aim is None or choice is None:
        return None
    half_width, what = widest(plan, results) or (None, "")
    is_reached = needed = None
    if aim.within is not None:
        is_reached = half_width is not None and half_width <= aim.within
        if half_width is not None and not is_reached:
            needed = stats.blocks_for_width(half_width, choice.blocks, aim.within)
    times_s = [each.took_s for each in results] + [each.took_s for each in counts]
    return Precision(
        within=aim.within,
        half_width=half_width,
        widest=what,
        is_reached=is_reached,
        budget_s=aim.budget_s,
        trials_s=round(math.fsum(took_s or 0.0 for took_s in times_s), 3),
        pilot_blocks=choice.pilot,
        blocks=min(choice.blocks, begun(results)),
        is_used_up=choice.is_used_up,
        blocks_needed=needed,
    )


def share_words(share: float) -> str:
    """A half-width as printed: `±2 %`, `±1.62 %`."""
    return f"±{number(100 * share)} %" if share < 1 else f"±{percent(share)}"
