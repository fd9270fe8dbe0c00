"""The runs that find a capacity, and the load of each.

First the search, then the load curve at rates on both sides of the capacity, and finally a recovery: one run that
overloads the server for a while and then sends half of its capacity.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from iolab.capacity import search
from iolab.capacity.search import Done
from iolab.capacity.spec import CapacitySpec
from iolab.contract.types import Frozen, LoadSpec
from iolab.judge.trial import BATCH

# The rates of the curve as shares of the capacity, closer together where it bends.
CURVE = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5)
# The rate of the overload and the rate after it, as shares of the capacity.
OVERLOAD, AFTERWARDS = 1.5, 0.5
# The duration of the light load before and after the overload, as multiples of the overload. A server that keeps its
# capacity is back after one multiple: the excess of the overload equals the spare capacity afterwards.
BEFORE, WATCHED = 0.5, 4.0
# The largest number of intervals in a report, and the shortest interval.
INTERVALS, INTERVAL_MS_MIN = 250, 20
# Slices of a recovery: the least number of requests in one, which a median needs; the shortest slice; and the least
# number of slices after the overload, which takes precedence over the number of requests.
SLICE_REQUESTS, SLICE_MS_MIN, SLICES_MIN = 20, 100, 2 * BATCH
# A shorter overload would have too few slices.
OVERLOAD_MS_MIN = 500

Purpose = Literal["closed loop", "search", "curve", "recovery"]


class Step(Frozen):
    """A planned run: its purpose, rate (None: a closed loop) and duration.

    Rate and duration of a recovery are those of the overload.
    """

    purpose: Purpose
    rate_per_s: float | None
    duration_ms: int


def after_search(spec: CapacitySpec, done: Done) -> Iterator[Step]:
    """The runs after the search: the curve and the recovery, as far as the generator can go."""
    if done.rate_per_s is None or done.kind not in ("capacity", "at least"):
        return
    for share in CURVE:
        if share <= 1 or done.kind == "capacity":
            rate_per_s = curve_rate(done.rate_per_s, share)
            duration_ms = search.probe_duration_ms(spec.settings, rate_per_s)
            yield Step(purpose="curve", rate_per_s=rate_per_s, duration_ms=duration_ms)
    if done.kind == "capacity":
        overload_ms = max(OVERLOAD_MS_MIN, spec.settings.probe_ms)
        rate_per_s = curve_rate(done.rate_per_s, OVERLOAD)
        yield Step(purpose="recovery", rate_per_s=rate_per_s, duration_ms=overload_ms)


def curve_rate(capacity_per_s: float, share: float) -> float:
    """The rate of the curve at a share of the capacity."""
    return search.rounded(share * capacity_per_s)


def load_spec(spec: CapacitySpec, step: Step, number: int, cpus: Sequence[int] = ()) -> LoadSpec:
    """The load of one run, on these processors. The seed and the run's number seed its arrivals."""
    stages = [{"from_per_s": step.rate_per_s, "to_per_s": step.rate_per_s, "duration_ms": None}]
    arrivals, duration_ms = spec.arrivals, step.duration_ms
    if step.purpose == "recovery":
        # With even arrivals no slice is empty or crowded by chance.
        arrivals, stages = "even", _stages(step)
        duration_ms = round((BEFORE + 1 + WATCHED) * step.duration_ms)
    open_loop = {"loop": "open", "arrivals": arrivals, "seed": spec.seed + number, "stages": stages}
    return LoadSpec.model_validate(
        {
            "driver": spec.driver,
            "workload": spec.workload,
            "connect": (spec.connect,),
            "tls": spec.tls,
            "connections": spec.connections,
            "threads": spec.threads,
            "cpus": tuple(cpus),
            "warmup_ms": spec.warmup_ms,
            "duration_ms": duration_ms,
            "timeout_ms": spec.timeout_ms,
            "interval_ms": max(INTERVAL_MS_MIN, duration_ms // INTERVALS),
            "slice_ms": _slice_ms(step) if step.purpose == "recovery" else None,
            "pace": {"loop": "closed"} if step.rate_per_s is None else open_loop,
        }
    )


def recovery_rates(step: Step) -> tuple[float, float]:
    """The rates of the light load and the overload of a recovery."""
    assert step.rate_per_s is not None, "a recovery has a rate"
    return step.rate_per_s * AFTERWARDS / OVERLOAD, step.rate_per_s


def _stages(step: Step) -> list[dict[str, Any]]:
    """Light load, overload, and light load to the end of the run."""
    light_per_s, overload_per_s = recovery_rates(step)
    stages = ((light_per_s, round(BEFORE * step.duration_ms)), (overload_per_s, step.duration_ms), (light_per_s, None))
    return [{"from_per_s": rate, "to_per_s": rate, "duration_ms": length} for rate, length in stages]


def _slice_ms(step: Step) -> int:
    """The length of a slice of a recovery: enough requests at the light rate, if that leaves enough slices."""
    light_per_s, _ = recovery_rates(step)
    enough_ms = min(1_000 * SLICE_REQUESTS / light_per_s, WATCHED * step.duration_ms / SLICES_MIN)
    return max(SLICE_MS_MIN, math.ceil(enough_ms), math.ceil(WATCHED * step.duration_ms / INTERVALS))
