"""A search for a capacity as data for other programs: a JSON document, or a table with one row per run."""

from __future__ import annotations

from typing import Any

from iolab.capacity.fit import Fit
from iolab.capacity.progress import Probe, SearchState
from iolab.capacity.search import Estimate
from iolab.capacity.sentences import sentences
from iolab.capacity.spec import CapacitySpec
from iolab.wording import Bound


def document(state: SearchState) -> dict[str, Any]:
    """A search as one JSON document. Times are in nanoseconds, shares are fractions."""
    done, seen = state.done, state.recovery
    return {
        "schema": 1,
        "question": state.spec.model_dump(mode="json"),
        "finished": state.next is None,
        "kind": None if done is None else done.kind,
        **(_figures(None, None, None) if done is None else _figures(done.rate_per_s, done.bound, done.fit)),
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
    """One row per run, in the order they ran."""
    table = []
    for run in document(state)["runs"]:
        times = {f"latency_{name.replace('.', '_')}_ns": time for name, time in run["times_ns"].items()}
        table.append({key: value for key, value in run.items() if key != "times_ns"} | times)
    return table


def _state_document(estimate: Estimate) -> dict[str, Any]:
    return {
        "shares_cpu": estimate.machine.shares_cpu,
        "core_to_core_ns": estimate.machine.core_to_core_ns,
        **_figures(estimate.rate_per_s, estimate.bound, estimate.fit),
        "runs": estimate.probes,
    }


def _figures(rate_per_s: float | None, bound: Bound | None, fit: Fit | None) -> dict[str, Any]:
    """A capacity and its interval. The interval of a bound has one end, the bound; the other is unknown."""
    ends: dict[Bound | None, list[float | None]] = {"at least": [rate_per_s, None], "at most": [None, rate_per_s]}
    if bound == "exact" and fit is not None:
        ends["exact"] = [fit.low_per_s, fit.high_per_s]
    return {"capacity_per_s": rate_per_s, "bound": bound, "interval_per_s": ends.get(bound)}


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
