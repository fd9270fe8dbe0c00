"""How far a search for a capacity has come: what the stored runs show, and which run comes next.

Both follow from the records alone, by pure functions. So a search that was stopped is resumed by replaying its record,
and a report needs no engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from iolab.capacity import limits, search
from iolab.capacity.limits import Judged, Measurement
from iolab.capacity.measurement import measurement
from iolab.capacity.records import Record, read_records, read_spec
from iolab.capacity.recovery import Recovery, recovery
from iolab.capacity.search import Done, PlannedProbe
from iolab.capacity.spec import CapacitySpec
from iolab.capacity.steps import OVERLOAD, Purpose, Step, after_search, curve_rate
from iolab.errors import StoreError


@dataclass(frozen=True, slots=True)
class Probe:
    """One run, its figures, and whether it held the limits."""

    step: Step
    seen: Measurement
    judged: Judged
    cpu_per_request_ns: float | None


@dataclass(frozen=True, slots=True)
class SearchState:
    """What is known so far. `done` is the end of the search; `next` is the next run, None if none is left."""

    spec: CapacitySpec
    probes: tuple[Probe, ...]
    done: Done | None = None
    recovery: Recovery | None = None
    next: Step | None = None

    @property
    def curve(self) -> tuple[Probe, ...]:
        """Every run in an open loop of one rate, the slowest first."""
        steady = [probe for probe in self.probes if probe.step.purpose in ("search", "curve")]
        return tuple(sorted(steady, key=lambda probe: probe.step.rate_per_s or 0.0))

    @property
    def overload(self) -> Probe | None:
        """The run of the curve at OVERLOAD times the capacity."""
        if self.done is None or self.done.rate_per_s is None:
            return None
        rate_per_s = curve_rate(self.done.rate_per_s, OVERLOAD)
        return next((p for p in self.probes if p.step.purpose == "curve" and p.step.rate_per_s == rate_per_s), None)


def state_of(spec: CapacitySpec, records: Sequence[Record]) -> SearchState:
    """What the stored runs show, and which run is next; raises StoreError if they are of another version."""
    probes: list[Probe] = []
    bisection = search.Bisection(spec.settings)
    while isinstance(planned := search.next_step(bisection), PlannedProbe):
        purpose: Purpose = "closed loop" if planned.rate_per_s is None else "search"
        step = Step(purpose=purpose, rate_per_s=planned.rate_per_s, duration_ms=planned.duration_ms)
        if len(probes) == len(records):
            return SearchState(spec, tuple(probes), next=step)
        probes.append(_probe(spec, records[len(probes)], step))
        bisection = search.observe(bisection, probes[-1].seen)
    recovered = None
    for step in after_search(spec, planned):
        if len(probes) == len(records):
            return SearchState(spec, tuple(probes), planned, next=step)
        record = records[len(probes)]
        probes.append(_probe(spec, record, step))
        if step.purpose == "recovery" and record.slices:
            recovered = recovery(spec, record)
    return SearchState(spec, tuple(probes), planned, recovered)


def read_state(folder: Path) -> SearchState:
    """The state of a stored search; raises StoreError."""
    return state_of(read_spec(folder), read_records(folder)[0])


def _probe(spec: CapacitySpec, record: Record, step: Step) -> Probe:
    if record.step != step:
        raise StoreError("the stored runs are of another version of the search: measure again with --fresh")
    seen = measurement(record.report)
    is_known = record.server_cpu_ns is not None and record.report.requests.correct > 0
    cpu_ns = (record.server_cpu_ns or 0) / record.report.requests.correct if is_known else None
    return Probe(step, seen, limits.judge(spec.parsed, seen), cpu_ns)
