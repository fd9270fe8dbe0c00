"""The state of a search for a capacity: what the stored runs show, and which run comes next.

Pure functions compute both from the records. So a stopped search resumes by replaying its record, and a report needs no
engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from iolab.capacity import limits, search
from iolab.capacity.limits import Judged, Measurement
from iolab.capacity.measurement import measurement
from iolab.capacity.records import Record, read_records, read_spec
from iolab.capacity.recovery import Recovery, recovery
from iolab.capacity.search import Done, PlannedProbe
from iolab.capacity.spec import CapacitySpec
from iolab.capacity.staircase import Staircase
from iolab.capacity.steps import Purpose, Step, after_search
from iolab.errors import StoreError


@dataclass(frozen=True, slots=True)
class Probe:
    """One run, its figures, whether it held the limits, and the processors of the generator (none: not bound)."""

    step: Step
    seen: Measurement
    judged: Judged
    cpu_per_request_ns: float | None
    cpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchState:
    """The runs so far. `done` is the end of the search; `next` is the next run, None if none is left."""

    spec: CapacitySpec
    probes: tuple[Probe, ...]
    done: Done | None = None
    recovery: Recovery | None = None
    next: Step | None = None

    @property
    def curve(self) -> tuple[Probe, ...]:
        """Every open-loop run at one rate, the lowest rate first."""
        steady = [probe for probe in self.probes if probe.step.purpose in ("search", "curve")]
        return tuple(sorted(steady, key=lambda probe: probe.step.rate_per_s or 0.0))

    @property
    def overload(self) -> Probe | None:
        """The run of the curve at the highest rate, if that is beyond the capacity."""
        if self.done is None or self.done.rate_per_s is None or self.done.kind != "capacity":
            return None
        fastest = next((probe for probe in reversed(self.curve) if probe.step.purpose == "curve"), None)
        return None if fastest is None or (fastest.step.rate_per_s or 0.0) <= self.done.rate_per_s else fastest


def state_of(spec: CapacitySpec, records: Sequence[Record]) -> SearchState:
    """The state after the stored runs; raises StoreError if they are from another version of the search."""
    if spec.schema_ == 1:
        return _earlier(spec, records)
    probes: list[Probe] = []
    progress = search.Search(spec.settings)
    while isinstance(planned := search.next_step(progress), PlannedProbe):
        purpose: Purpose = "closed loop" if planned.rate_per_s is None else "search"
        step = Step(purpose=purpose, rate_per_s=planned.rate_per_s, duration_ms=planned.duration_ms)
        if len(probes) == len(records):
            return SearchState(spec, tuple(probes), next=step)
        probes.append(_probe(spec, records[len(probes)], step))
        progress = search.observe(progress, probes[-1].seen)
    for step in after_search(spec, planned):
        if len(probes) == len(records):
            return SearchState(spec, tuple(probes), planned, next=step)
        probes.append(_probe(spec, records[len(probes)], step))
    return SearchState(spec, tuple(probes), planned, _recovery(spec, records))


def _earlier(spec: CapacitySpec, records: Sequence[Record]) -> SearchState:
    """The state of a search made by the first procedure, with the present fit. It is not resumed."""
    probes = tuple(_probe(spec, record, record.step) for record in records)
    tried = tuple(
        search.Trial(probe.step.rate_per_s or 0.0, probe.judged.word, probe.judged.why)
        for probe in probes
        if probe.step.purpose == "search" and probe.judged.word != "unjudged"
    )
    track = search.Track(search.MachineState(), Staircase(0.0), tried)
    found = search.answer(search.Search(spec.settings, tracks=(track,)))
    return SearchState(spec, probes, found, _recovery(spec, records))


def _recovery(spec: CapacitySpec, records: Sequence[Record]) -> Recovery | None:
    """The recovery, if the last run is one."""
    last = records[-1] if records else None
    return recovery(spec, last) if last is not None and last.step.purpose == "recovery" and last.slices else None


def read_state(folder: Path) -> SearchState:
    """The state of a stored search; raises StoreError."""
    return state_of(read_spec(folder), read_records(folder)[0])


def _probe(spec: CapacitySpec, record: Record, step: Step) -> Probe:
    if record.step != step:
        raise StoreError("the stored runs are of another version of the search: measure again with --fresh")
    seen = replace(measurement(record.report), core_to_core_ns=record.core_to_core_ns, shares_cpu=record.shares_cpu)
    is_known = record.server_cpu_ns is not None and record.report.requests.correct > 0
    cpu_ns = (record.server_cpu_ns or 0) / record.report.requests.correct if is_known else None
    return Probe(step, seen, limits.judge(spec.parsed, seen), cpu_ns, tuple(record.report.cpus))
