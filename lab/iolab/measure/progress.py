"""The progress of a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from iolab.judge.validity import discarded_for
from iolab.measure.events import Counted, LeftOut, MinuteOver, NothingUsable, OnEvent, TrialEnded
from iolab.measure.stopping import signals_held
from iolab.plan.plan import Plan, Trial
from iolab.results import store
from iolab.results.records import WARNINGS, CostCount, Minute, Result
from iolab.results.remaining import given_up, remaining

# The run warns if none of its first blocks, this many, has a usable trial.
FIRST_BLOCKS = 3


@dataclass(frozen=True, slots=True)
class Clocks:
    """The two clocks of a run: one for intervals in seconds, one for labels."""

    monotonic_s: Callable[[], float] = time.monotonic
    wall: Callable[[], str] = field(default=lambda: datetime.now(UTC).isoformat(timespec="seconds"))


CLOCKS = Clocks()


class Progress:
    """The state of a run: its results, and its pace compared with the plan's estimate."""

    def __init__(
        self, plan: Plan, writer: store.Writer, on_event: OnEvent, clocks: Clocks, *, all_or_none: bool
    ) -> None:
        self.plan, self.on_event, self.clocks, self.all_or_none = plan, on_event, clocks, all_or_none
        self.results = list(writer.trials.results)
        self._minutes = list(writer.trials.minutes)
        self._writer = writer
        self._lap_begin_s = clocks.monotonic_s()
        self._expected_s, self._took_s = 0.0, 0.0
        for result in self.results:
            self._keep_pace(result)
        self._rest_known: tuple[Trial, ...] = ()
        self._rest_after = -1
        self._has_looked_back = False

    @property
    def planned(self) -> int:
        """How many results there will be if nothing more has to be run again."""
        return len(self.results) + len(self.rest())

    def is_wanted(self, scheduled: Trial) -> bool:
        """Whether its contestant is still in its comparison; a final failure removes it."""
        gone = given_up({result.trial.place: result for result in self.results})
        return (scheduled.comparison, scheduled.slot) not in gone

    def left_s(self) -> float:
        """How long the rest should take at the pace so far."""
        pace = self._took_s / self._expected_s if self._expected_s else 1.0
        return pace * sum(self.plan.cell(rest).trial_ms for rest in self.rest()) / 1_000

    def lap_s(self) -> float:
        """The time since the last call, to the millisecond, so that no time between two trials is lost."""
        begin_s, self._lap_begin_s = self._lap_begin_s, self.clocks.monotonic_s()
        return round(self._lap_begin_s - begin_s, 3)

    def rest(self) -> tuple[Trial, ...]:
        """The trials left to run, computed once after each result: with many contestants that takes milliseconds."""
        if self._rest_after != len(self.results):
            self._rest_known, self._rest_after = remaining(self.plan, self.results), len(self.results)
        return self._rest_known

    def names(self, scheduled: Trial) -> tuple[str, str]:
        """The title of the trial's contestant and the name of its comparison."""
        comparison = self.plan.comparisons[scheduled.comparison]
        return comparison.titles[scheduled.slot], comparison.name

    def keep(self, result: Result) -> None:
        """Stores a result, with signals held back, and reports it."""
        with signals_held():
            self._writer.append(result)
        self.results.append(result)
        title, comparison = self.names(result.trial)
        if result.failure is not None and result.failure.left_out:
            self.on_event(LeftOut(title, comparison, result.failure.message))
            return
        self._keep_pace(result)
        self.on_event(TrialEnded(result, title, comparison, len(self.results), self.planned))

    def go_on(self, plan: Plan) -> None:
        """Stores the plan with the number of blocks chosen after the pilot, and continues with it."""
        with signals_held():
            self._writer.choose(plan)
        self.plan, self._rest_after = plan, -1

    def minutes_of(self, scheduled: Trial) -> tuple[Minute, ...]:
        """The stored minutes of a long trial, including those of trials that were cut off."""
        return tuple(minute for minute in self._minutes if minute.trial == scheduled)

    def keep_minute(self, minute: Minute) -> None:
        """Stores a minute of a running trial, with signals held back, and reports it."""
        with signals_held():
            self._writer.append_minute(minute)
        self._minutes.append(minute)
        self.on_event(MinuteOver(minute, self.names(minute.trial)[0]))

    def look_back(self, upcoming: Trial) -> None:
        """Reports, after the first blocks, that no trial is usable so far: the rest will hardly be better."""
        if self._has_looked_back or upcoming.block < FIRST_BLOCKS:
            return
        self._has_looked_back = True
        if why := _why_unusable(self.results):
            self.on_event(NothingUsable(FIRST_BLOCKS, why))

    def keep_count(self, count: CostCount, *, passing: bool) -> None:
        """Stores a count of syscalls and reports it.

        A `passing` failure is reported but not stored, so that a resumed run counts again.
        """
        if not passing:
            with signals_held():
                self._writer.append(count)
        comparison = self.plan.comparisons[count.comparison]
        self.on_event(Counted(comparison.titles[count.slot], comparison.name, count))

    def _keep_pace(self, result: Result) -> None:
        if result.took_s is not None and result.failure is None and self.plan.holds(result.trial):
            self._took_s += result.took_s
            self._expected_s += self.plan.cell(result.trial).trial_ms / 1_000


def _why_unusable(results: Sequence[Result]) -> str:
    """The most common reason for which trials were discarded or failed; empty if one is usable."""
    if not all(result.discarded for result in results):
        return ""
    reason = discarded_for(results)
    if reason is None:
        return ""
    if not reason.is_warning:
        return reason.line
    return f"{reason.title} ({reason.trials} of {len(results)} trials): {WARNINGS[reason.word].advice}"
