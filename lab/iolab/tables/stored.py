"""A run's folder, read lazily: a query about claims needs no probe of a capacity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from iolab import runs
from iolab.capacity import progress
from iolab.capacity.progress import SearchState
from iolab.judge import results
from iolab.judge.results import Results
from iolab.plan.plan import Plan
from iolab.results import store
from iolab.results.export import StoredTrial
from iolab.results.store import Trials


@dataclass(frozen=True)
class Stored:
    """A stored run. Each part raises StoreError if it cannot be read."""

    folder: Path

    @property
    def name(self) -> str:
        """The name of the run: that of its folder."""
        return self.folder.resolve().name

    @cached_property
    def is_capacity(self) -> bool:
        """Whether it is a capacity search, which has a state and no plan."""
        return runs.is_capacity(self.folder)

    @cached_property
    def machine(self) -> dict[str, Any]:
        """The record of its machine."""
        return store.read_machine(self.folder)

    @cached_property
    def plan(self) -> Plan:
        return store.read_plan(self.folder)

    @cached_property
    def record(self) -> Trials:
        """Its trials, counts and minutes, without those of another plan."""
        read = store.read_trials(self.folder)
        return Trials(
            tuple(each for each in read.results if self.plan.holds(each.trial)),
            read.faults,
            tuple(each for each in read.counts if each.is_of(self.plan)),
            tuple(each for each in read.minutes if self.plan.holds(each.trial)),
        )

    @property
    def trials(self) -> Iterator[StoredTrial]:
        """Its trials in the order in which they were stored."""
        processors = results.processors_of(self.machine)
        return (StoredTrial(self.plan, result, processors) for result in self.record.results)

    @cached_property
    def results(self) -> Results:
        """Its verdicts."""
        return results.judged(self.plan, self.machine, self.record, self.folder)

    @cached_property
    def state(self) -> SearchState:
        """The result of a capacity search."""
        return progress.read_state(self.folder)

    def check(self) -> None:
        """Reads the record; raises StoreError if it cannot be read."""
        _ = self.machine, self.state if self.is_capacity else self.record

    def of_machine(self, *keys: str) -> Any:
        """A value of the record of its machine; None if absent."""
        found: Any = self.machine
        for key in keys:
            found = found.get(key) if isinstance(found, Mapping) else None
        return found
