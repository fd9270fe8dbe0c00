"""A search for a capacity as data for other programs: a JSON document, or a table with one row a run."""

from __future__ import annotations

from typing import Any

from iolab.capacity.progress import Probe, SearchState
from iolab.capacity.search import Estimate, rounded
from iolab.capacity.sentences import sentences
from iolab.capacity.spec import CapacitySpec


def document(state: SearchState) -> dict[str, Any]:
    """A whole search as one JSON document. Times are in nanoseconds, shares are fractions."""
    done, seen = state.done, state.recovery
    return {
        "schema": 1,
        "question": state.spec.model_dump(mode="json"),
        "finished": state.next is None,
        "kind": None if done is None else done.kind,
        "capacity_per_s": None if done is None else done.rate_per_s,
        "interval_per_s": None if done is None or done.fit is None else [done.fit.low_per_s, done.fit.high_per_s],
        "states": [_state_document(estimate) for estimate in (() if done is None else done.estimates)],
        "sentences": list(sentences(state)),
        "runs": [_probe_document(probe) for probe in state.probes],
        "recovery": None
        if seen is None
        else {
            "overload_per_s": seen.overload_per_s,
            "overload_s": seen.end_s - seen.begin_s,
            "afterwards_per_s": seen.afterwards_per_s,
            "goodput_per_s": seen.goodput_per_s,
            "back_s": seen.back_s,
            "watched_s": seen.watched_s,
        },
    }


def rows(state: SearchState) -> list[dict[str, Any]]:
    """One row a run, in the order in which they ran."""
    table = []
    for run in document(state)["runs"]:
        times = {f"latency_{name.replace('.', '_')}_ns": time for name, time in run["times_ns"].items()}
        table.append({key: value for key, value in run.items() if key != "times_ns"} | times)
    return table


def _state_document(estimate: Estimate) -> dict[str, Any]:
    return {
        "shares_cpu": estimate.machine.shares_cpu,
        "core_to_core_ns": estimate.machine.core_to_core_ns,
        "capacity_per_s": rounded(estimate.fit.rate_per_s),
        "interval_per_s": [estimate.fit.low_per_s, estimate.fit.high_per_s],
        "runs": estimate.probes,
    }


def command(spec: CapacitySpec) -> tuple[str, ...]:
    """The command of a search: the server and the limits. Its other settings are in the spec."""
    return ("iolab", "capacity", *(word for limit in spec.limits for word in ("--slo", limit)), spec.url)


def _probe_document(probe: Probe) -> dict[str, Any]:
    return {
        "purpose": probe.step.purpose,
        "rate_per_s": probe.step.rate_per_s,
        "duration_ms": probe.step.duration_ms,
        "asked_per_s": probe.seen.asked_per_s,
        "achieved_per_s": probe.seen.achieved_per_s,
        "replies": probe.seen.replies,
        "errors_share": probe.seen.errors_share,
        "times_ns": dict(probe.seen.times_ns),
        "cpu_per_request_ns": probe.cpu_per_request_ns,
        "cpus": " ".join(map(str, probe.cpus)),
        "core_to_core_ns": None if probe.seen.core_to_core_ns is None else max(probe.seen.core_to_core_ns),
        "shares_cpu": probe.seen.shares_cpu,
        "word": probe.judged.word,
        "why": probe.judged.why or None,
    }
