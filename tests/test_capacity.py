"""`iolab capacity` on a simulated host: how runs are judged, stored, resumed and printed. No time passes.

tests/test_capacity_search.py tests the accuracy of the search.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import os
import re
import shutil
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from conftest import iolab
from iolab import api
from iolab.capacity import prober, search, table
from iolab.capacity.export import document
from iolab.capacity.limits import TIMES, Judged, Measurement, Word, judge, parse_limit
from iolab.capacity.placement import beside_server
from iolab.capacity.progress import Probe, SearchState, read_state, state_of
from iolab.capacity.records import Record, folder_of, read_records, writing
from iolab.capacity.recovery import recovery
from iolab.capacity.search import PlannedProbe
from iolab.capacity.sentences import overload_sentence, recovery_sentence, sentences, verdict
from iolab.capacity.spec import CapacitySpec, spec_of
from iolab.capacity.staircase import Staircase
from iolab.capacity.steps import CURVE, Step, load_spec
from iolab.capacity.target import Target, parse_url, with_tls
from iolab.cli import searching
from iolab.contract.types import Interval, LoadReady, LoadSpec, Measured, Measuring, Report, updated
from iolab.errors import PlanError
from iolab.machine import port_owner, proc
from iolab.machine.cpus import Cpu
from iolab.machine.task_cpus import Pair, Watched
from iolab.measure import agent, programs
from iolab.measure.engine import Engine, LoadEvent, TrialFailed
from iolab.measure.protocol_probe import Mismatch
from iolab.plan.settings import Cell
from iolab.report import capacity as page
from iolab.results import layout
from iolab.results.records import MachineNoise
from iolab.results.store import StoreError
from simulated_servers import MS, Server


def seen(**changes: Any) -> Measurement:
    times = dict.fromkeys(TIMES, 1 * MS)
    times |= changes.pop("times", {})
    return replace(Measurement(1_000.0, 1_000.0, 3_000, 0.0, times), **changes)


@pytest.mark.parametrize(
    ("limits", "measured", "judged"),
    [
        ("p99<5ms", seen(), Judged("holds")),
        ("p99<5ms", seen(times={"p99": 5 * MS}), Judged("breaks", "p99 was 5.00 ms")),
        ("p99<5ms p50<1ms", seen(), Judged("breaks", "p50 was 1.00 ms")),
        (
            "max<1s mean<2ms",
            seen(times={"max": 2e9, "mean": 3 * MS}),
            Judged("breaks", "max was 2.00 s, mean was 3.00 ms"),
        ),
        ("p99<5ms", seen(achieved_per_s=990.0), Judged("holds")),
        ("p99<5ms", seen(achieved_per_s=985.0), Judged("breaks", "only 98.5 % of the requested rate was answered")),
        # Requests sent so late that the limit allows them to be in flight are not missing; one more is.
        ("p99<5ms", seen(achieved_per_s=986.0, window_s=1.0), Judged("holds")),
        (
            "p99<5ms",
            seen(achieved_per_s=983.0, window_s=1.0),
            Judged("breaks", "only 98.3 % of the requested rate was answered"),
        ),
        ("errors<1%", seen(asked_per_s=10.0, achieved_per_s=9.0, window_s=1.0), Judged("holds")),
        ("p99<5ms", seen(replies=0), Judged("breaks", "no request was answered")),
        (
            "p99<5ms",
            seen(replies=0, window_s=0.0),
            Judged("generator", "it got no processor for the whole window"),
        ),
        # 1,000 replies are enough for a p99, 999 are not. Breaking a lower quantile is enough to break the limit.
        ("p99<5ms", seen(replies=1_000), Judged("holds")),
        ("p99<5ms", seen(replies=999), Judged("unjudged", "p99 needs 1,000 replies, there were 999")),
        (
            "p99<5ms",
            seen(replies=999, times={"p99": 9 * MS}),
            Judged("unjudged", "p99 needs 1,000 replies, there were 999"),
        ),
        ("p99<5ms", seen(replies=999, times={"p50": 6 * MS, "p99": 9 * MS}), Judged("breaks", "p99 was 9.00 ms")),
        # If the generator is the limit, a broken limit says nothing about the server, but a held one counts.
        ("p99<5ms", seen(generator="it was late"), Judged("holds")),
        ("p99<5ms", seen(generator="it was late", times={"p99": 9 * MS}), Judged("generator", "it was late")),
        ("p99<5ms", seen(generator="it was late", achieved_per_s=500.0), Judged("generator", "it was late")),
        # A pause of the machine: the requests beyond the limit are those that the generator sent late.
        (
            "p99<5ms",
            seen(late_ns={"p99": 7 * MS}, times={"p99": 9 * MS}),
            Judged("generator", "it sent 7.00 ms late (p99)"),
        ),
        ("p99<5ms", seen(late_ns={"p99": 2 * MS}, times={"p99": 9 * MS}), Judged("breaks", "p99 was 9.00 ms")),
        (
            "p99<5ms p50<1ms",
            seen(late_ns={"p99": 7 * MS}, times={"p99": 9 * MS, "p50": 2 * MS}),
            Judged("breaks", "p99 was 9.00 ms, p50 was 2.00 ms"),
        ),
        ("errors<0.1%", seen(errors_share=0.001), Judged("breaks", "0.10 % of requests failed")),
        # An allowed failure does not count as missing too.
        ("p99<5ms errors<5%", seen(errors_share=0.02, achieved_per_s=980.0), Judged("holds")),
        (
            "errors<5%",
            seen(errors_share=0.02, achieved_per_s=900.0),
            Judged("breaks", "only 90.0 % of the requested rate was answered"),
        ),
        (
            "errors<5%",
            seen(errors_share=1.0, achieved_per_s=0.0),
            Judged("breaks", "100.00 % of requests failed, only 0.0 % of the requested rate was answered"),
        ),
        (
            "errors<0.1%",
            seen(errors_share=0.5, generator="it was late"),
            Judged("breaks", "50.00 % of requests failed"),
        ),
    ],
)
def test_a_run_is_judged_by_its_limits_its_rate_and_how_many_replies_there_were(
    limits: str, measured: Measurement, judged: Judged
) -> None:
    assert judge([parse_limit(text) for text in limits.split()], measured) == judged


@pytest.mark.parametrize(
    ("text", "metric", "below", "canonical"),
    [
        ("p99<5ms", "p99", 5 * MS, "p99<5ms"),
        ("p50<1ms", "p50", 1 * MS, "p50<1ms"),
        ("p99.9<20ms", "p99.9", 20 * MS, "p99.9<20ms"),
        (" max < 1.5 s ", "max", 1.5e9, "max<1.5s"),
        ("mean<=800us", "mean", 0.8 * MS, "mean<800us"),
        ("p90<.5µs", "p90", 500, "p90<.5µs"),
        ("errors<0.1%", "errors", 0.001, "errors<0.1%"),
    ],
)
def test_a_limit_is_read_as_it_is_written(text: str, metric: str, below: float, canonical: str) -> None:
    limit = parse_limit(text)
    assert (limit.metric, limit.text) == (metric, canonical)
    assert limit.below == pytest.approx(below)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is not a limit: write it as in 'p99<5ms'"),
        ("p99>5ms", "'p99>5ms': only < is possible: write p99<5ms"),
        ("errors=1", "'errors=1': only < is possible: write errors<1%"),
        ("p99<5", "'p99<5': a unit is missing: write it as in p99<5ms"),
        ("errors<5", "'errors<5': a unit is missing: write it as in errors<5%"),
        ("p99<-5ms", "'p99<-5ms' is not a limit"),
        ("p99<5ms,p50<1ms", "is not a limit"),
        ("p98<5ms", "p98 is not measured: use one of p50, p90, p99, p99.9, p99.99, p99.999, mean, max, errors"),
        ("p99<5%", "p99 is a time: write us, ms or s"),
        ("errors<5ms", "errors is a share: write %"),
        ("p99<5min", "min is not a unit: use us, ms or s"),
        ("p99<0ms", "no figure is under 0"),
    ],
)
def test_what_is_no_limit_is_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(PlanError, match=re.escape(message)) as refused:
        parse_limit(text)
    assert "\n" not in str(refused.value)


# --- A search on a simulated host ---------------------------------------------------------------------------------

BEGIN_NS = 100 * 10**9
CAPACITY = Server(10_000).capacity_per_s


@dataclass
class SimulatedHost:
    """A host whose generator reports what `server` would do; it `stops` or `fails` at the run with that number."""

    server: Server
    stops: int | None = None
    fails: int | None = None
    runs: int = 0
    identity: str = "one"
    speaks: Mismatch | None = None

    def remove_leftovers(self) -> None:
        raise AssertionError("the server is there already")

    def describe(self) -> dict[str, Any]:
        return {"schema": 1, "identity": {"engine": self.identity}, "cpu": {"model": "simulated"}}

    def mismatch(self, connect: str, workload: object) -> Mismatch | None:
        return self.speaks

    def noise(self) -> MachineNoise:
        raise AssertionError("a search judges each run by itself")

    def programs(self, plan: object) -> dict[str, dict[str, str]]:
        raise AssertionError("nothing is executed")

    def start(self, cell: Cell, *, count_calls: bool = False) -> Any:
        raise AssertionError("the server is there already")

    def core_to_core_ns(self, server: Sequence[int], load: Sequence[int]) -> float | None:
        return None

    def drive(self, cell: Cell, server: object) -> Any:
        raise AssertionError("a search has a generator")

    def rest(self, time_ms: int) -> Any:
        raise AssertionError("a search has a load")

    def memory_in_use(self) -> int:
        raise AssertionError("no memory is asked for")

    def load(self, spec: LoadSpec) -> SimulatedLoad:
        self.runs += 1
        if self.runs == self.stops:
            signal.raise_signal(signal.SIGINT)
        if self.runs == self.fails:
            raise TrialFailed("connection_refused", "127.0.0.1:8080 refused the connection: is the server there?")
        return SimulatedLoad(self.server, spec)


class SimulatedLoad:
    """One run of the generator, without waiting."""

    def __init__(self, server: Server, spec: LoadSpec) -> None:
        self.server, self.spec = server, spec

    def events(self, tick_s: float) -> Iterator[LoadEvent | None]:
        yield LoadReady(driver=self.spec.driver, connections=self.spec.connections, pid=1, build="b")
        yield Measuring(monotonic_ns=BEGIN_NS)
        yield from slices(self.server, self.spec) if self.spec.slice_ms else ()
        yield Measured(monotonic_ns=BEGIN_NS + 10**9)
        yield report(self.server, self.spec)

    def rss_bytes(self) -> int:
        return 0

    def spent(self) -> proc.Spent:
        return proc.Spent(0, 0, 0, 0, 0, 0)

    def memory(self) -> None:
        """Not measured."""

    def stop(self) -> None:
        return


def report(server: Server, spec: LoadSpec) -> Report:
    """The generator's report of a run."""
    pace = spec.model_dump(mode="json")["pace"]
    stages = pace.get("stages", [])
    duration_ms = spec.duration_ms or 0
    window_ns = duration_ms * 1_000_000
    rate_per_s = max((stage["from_per_s"] for stage in stages), default=None)
    shown = server.run(PlannedProbe(rate_per_s, duration_ms), np.random.default_rng(0))
    done = shown.achieved_per_s * duration_ms / 1_000
    completed = [done * spec.interval_ms / duration_ms] * (duration_ms // spec.interval_ms)
    correct, asked = round(done), round((rate_per_s or 0.0) * duration_ms / 1_000)
    wrong = round((shown.replies or 1) * shown.errors_share)
    warmup: list[float] = [0.0] * ((spec.warmup_ms or 0) // spec.interval_ms)
    times = {name.replace(".", "_"): round(time_ns) for name, time_ns in shown.times_ns.items()}
    latency = {**times, "mean": shown.times_ns["mean"], "min": 1, "stdev": 1.0, "histogram": ""}
    in_time = {name: value if name == "histogram" else 0 for name, value in latency.items()}
    in_flight = {"in_flight_begin": 0, "in_flight_end": max(0, asked - correct - wrong)}
    schedule = {"due": asked, "unsent_begin": 0, "unsent_end": 0, "waited": 0, "asked_per_s": asked / window_ns * 1e9}
    fields: dict[str, Any] = {
        "build": "b",
        "driver": spec.driver,
        "workload": spec.workload,
        "connect": spec.connect,
        "connections": spec.connections,
        "connections_open": spec.connections,
        "threads": spec.threads,
        "cpus": spec.cpus,
        "pace": pace,
        "interrupted": False,
        "begin_ns": BEGIN_NS,
        "end_ns": BEGIN_NS + window_ns,
        "requests": {"sent": asked or correct, "correct": correct, "wrong": wrong, "failed": 0, **in_flight},
        "errors": {},
        "bytes": {"sent": 1, "received": 1},
        "rate_per_s": correct / duration_ms * 1_000,
        "latency_ns": latency,
        "views": {"service_ns": latency, "closed_ns": latency, "lateness_ns": in_time} if stages else None,
        "schedule": schedule if stages else None,
        "statuses": {},
        "intervals": {
            "begin_ns": BEGIN_NS - len(warmup) * spec.interval_ms * 1_000_000,
            "length_ns": spec.interval_ms * 1_000_000,
            "completed": [round(each) for each in [*warmup, *completed]],
        },
        "generator": {"cpu_ns": 1, "wall_ns": window_ns, "run_delay_ns": 0, "turn_ns_max": 1, "turns": 1}
        | {"rss_bytes_max": 1},
        "bound": {"by": "generator" if shown.generator else "rate", "why": shown.generator or "all went out"},
    }
    lacking: dict[str, Any] = {"idle": 0, "active": None, "pipeline": 1, "requests_per_connection": None, "unsound": []}
    return Report.model_validate(fields | {key: each for key, each in lacking.items() if key in Report.model_fields})


def slices(server: Server, spec: LoadSpec) -> Iterator[Interval]:
    """What a server completes in each slice, of the due and the waiting requests, and the latency."""
    stages, length_ms, at_ms = spec.model_dump(mode="json")["pace"]["stages"], spec.slice_ms or 0, 0
    most, waiting = server.rate_per_s * length_ms / 1_000, 0.0
    while at_ms < (spec.duration_ms or 0):
        begun_s = waiting / server.rate_per_s
        waiting += rate_at(stages, at_ms) * length_ms / 1_000
        completed = round(min(waiting, most * (server.collapses if waiting > 4 * most else 1.0)))
        waiting -= completed
        yield interval(at_ms, length_ms, completed, 1_000 / server.rate_per_s + 1_000 * begun_s)
        at_ms += length_ms


def rate_at(stages: list[dict[str, Any]], at_ms: int) -> float:
    """The rate at a time of the window."""
    ends_ms = itertools.accumulate(stage["duration_ms"] or math.inf for stage in stages)
    return next(float(stage["from_per_s"]) for stage, end_ms in zip(stages, ends_ms, strict=True) if at_ms < end_ms)


def interval(at_ms: int, length_ms: int, correct: int, took_ms: float, wrong: int = 0, failed: int = 0) -> Interval:
    """A slice in which all replies have the same latency."""
    begin_ns = BEGIN_NS + at_ms * 1_000_000
    names = ("min", "mean", "p50", "p90", "p99", "p99_9", "p99_99", "p99_999", "max")
    latency = dict.fromkeys(names, round(took_ms * MS)) | {"stdev": 0.0, "histogram": ""}
    counts = {"correct": correct, "wrong": wrong, "failed": failed, "rate_per_s": correct / length_ms * 1_000}
    times = {"begin_ns": begin_ns, "end_ns": begin_ns + length_ms * 1_000_000}
    return Interval.model_validate({"index": at_ms // length_ms, **times, **counts, "latency_ns": latency})


def asked(**changes: Any) -> CapacitySpec:
    at = Target("http", {}, "127.0.0.1:8080")
    return spec_of(at, {}, **({"url": "http://127.0.0.1:8080/", "limits": ("p99<5ms",)} | changes))


def answered(server: Server, runs: Path, **changes: Any) -> SearchState:
    """Runs the whole search against a server, and reads the result back from the folder."""
    told: list[SearchState] = []
    folder = prober.run(asked(**changes), SimulatedHost(server), runs, told.append)
    state = read_state(folder)
    assert len(told) == len(state.probes) + 1
    assert state.next is None
    return state


def test_after_the_capacity_come_the_curve_the_overload_and_the_recovery(tmp_path: Path) -> None:
    state = answered(Server(10_000), tmp_path)
    assert state.done is not None
    assert state.done.kind == "capacity"
    assert state.done.rate_per_s == pytest.approx(CAPACITY, rel=0.03)
    rates = [probe.step.rate_per_s for probe in state.probes if probe.step.purpose == "curve"]
    assert rates == [search.rounded(share * (state.done.rate_per_s or 0)) for share in CURVE]
    asks = [probe.step.rate_per_s or 0.0 for probe in state.curve]
    assert asks == sorted(asks)
    assert state.overload is not None
    assert state.overload.seen.achieved_per_s == pytest.approx(10_000, rel=0.01)
    assert state.recovery is not None
    assert state.recovery.goodput_per_s == pytest.approx(10_000, rel=0.02)
    # The backlog of one second drains with the capacity that the light rate leaves.
    waiting = 1 * (state.recovery.overload_per_s - 10_000)
    empty_s = waiting / (10_000 - state.recovery.afterwards_per_s)
    assert state.recovery.back_s is not None
    # The server is not back in the slice of 100 ms in which the backlog ends, but in the next one.
    assert empty_s <= state.recovery.back_s <= empty_s + 0.2
    capacity, overload, back = sentences(state)
    assert capacity.startswith("The capacity under p99<5ms is 9,")
    assert "At 1.5 times the capacity, the server answers 10,000/s (10" in overload
    assert "the server recovers within 1.0 s" in back


def test_a_long_run_beyond_the_capacity_has_its_length_in_seconds(tmp_path: Path) -> None:
    state = answered(Server(10_000), tmp_path)
    longer = tuple(
        replace(probe, step=updated(probe.step, duration_ms=600_000)) if probe == state.overload else probe
        for probe in state.probes
    )
    assert "in a run of 600 s" in overload_sentence(replace(state, probes=longer))


def test_a_server_that_collapses_is_not_back_while_it_is_watched(tmp_path: Path) -> None:
    state = answered(Server(10_000, collapses=0.3), tmp_path)
    assert state.recovery is not None
    assert state.recovery.back_s is None
    assert sentences(state)[-1].endswith("the server does not recover within 4 s.")


# Slices by sign: the number of correct replies, their latency in ms, the numbers of wrong replies and of failures.
SLICES = {
    ".": (50, 1.0, 0, 0),
    "x": (50, 80.0, 0, 0),
    "3": (3, 80.0, 0, 0),
    "0": (0, 0.0, 0, 0),
    "w": (40, 1.0, 10, 0),
    "f": (40, 1.0, 0, 10),
}


def check_back(overload: str, afterwards: str, back_s: float | None, length_ms: int = 100, **changes: Any) -> None:
    """Expects the time at which the server is back, after 0.5 s of light load, 1 s of overload and 4 s of light
    load."""
    spec = asked(**({"probe_ms": 1_000} | changes))
    step = Step(purpose="recovery", rate_per_s=1_500.0, duration_ms=1_000)
    signs = "." * (500 // length_ms) + overload + afterwards
    told = [interval(at * length_ms, length_ms, *SLICES[sign]) for at, sign in enumerate(signs)]
    # The window ends a little after its last slice.
    told.append(interval(len(signs) * length_ms, 1, *SLICES["0"]))
    said = report(Server(10_000), load_spec(spec, step, 0))
    seen = recovery(spec, Record(step=step, started="now", report=said, slices=tuple(told)))
    assert seen.back_s == (None if back_s is None else pytest.approx(back_s)), afterwards
    assert len(seen.slices) == len(signs)


@pytest.mark.parametrize("bad", ["x", "3", "0", "w", "f"])
@pytest.mark.parametrize("overload", ["x", "w", "f", "."])
def test_a_server_is_back_at_the_end_of_the_first_slice_from_which_on_its_limits_hold(bad: str, overload: str) -> None:
    check_back(10 * overload, 40 * ".", 0.1)
    check_back(10 * overload, 27 * bad + 13 * ".", 2.8)
    check_back(10 * overload, 40 * bad, None)


def test_neither_one_slow_slice_nor_one_lucky_one_decides() -> None:
    overload = 10 * "x"
    for afterwards, back_s in (
        (10 * "x" + "." + 10 * "x" + 19 * ".", 2.2),
        (10 * "x" + 10 * "." + "x" + 19 * ".", 1.1),
        (10 * "x" + 10 * "." + "x" + 5 * "." + "x" + 13 * ".", 1.1),
        (10 * "x" + 29 * "." + "x", 1.1),
        ("x" + 39 * ".", 0.2),
        (10 * "x" + ".x" + 28 * ".", 1.2),
        # A server with a longer relapse is back when the relapse ends, if it does.
        (10 * "x" + 10 * "." + 5 * "x" + 15 * ".", 2.6),
        (30 * "." + 10 * "x", None),
        (20 * "x.", None),
        # Too few slices to decide.
        (36 * "x" + 4 * ".", None),
        (35 * "x" + 5 * ".", 3.6),
    ):
        check_back(overload, afterwards, back_s)


def test_in_slices_too_errors_are_judged_by_their_limit_where_there_is_one() -> None:
    check_back(10 * "f", 10 * "f" + 30 * ".", 1.1, limits=("errors<1%",))
    check_back(10 * "x", 10 * "x" + 30 * ".", 0.1, limits=("errors<1%",))


@pytest.mark.parametrize(
    ("capacity_per_s", "probe_ms", "slice_ms"),
    [(10_000, 3_000, 100), (100, 3_000, 400), (10, 3_000, 1_200), (10_000, 60_000, 960), (10_000, 100, 100)],
)
def test_slices_have_requests_enough_or_are_at_least_enough_of_them(
    capacity_per_s: float, probe_ms: int, slice_ms: int
) -> None:
    step = Step(purpose="recovery", rate_per_s=1.5 * capacity_per_s, duration_ms=probe_ms)
    assert load_spec(asked(), step, 0).slice_ms == slice_ms


def test_a_recovery_in_which_the_generator_was_the_limit_says_so(tmp_path: Path) -> None:
    state = answered(Server(10_000), tmp_path)
    assert state.recovery is not None
    busy = replace(state, recovery=replace(state.recovery, generator="it was 99 % busy: give it more"))
    assert recovery_sentence(busy).endswith(" s (it was 99 % busy).")


def test_of_a_recovery_that_was_stored_without_slices_nothing_is_said(tmp_path: Path) -> None:
    state = answered(Server(10_000), tmp_path)
    records, _ = read_records(folder_of(state.spec, tmp_path))
    bare = [record.model_copy(update={"slices": ()}) for record in records]
    assert recovery_sentence(state_of(state.spec, bare)) == ""


def test_where_the_generator_is_the_limit_nothing_is_run_beyond_it(tmp_path: Path) -> None:
    state = answered(Server(1e9, generator_per_s=20_000), tmp_path)
    assert state.done is not None
    assert state.done.kind == "at least"
    assert state.recovery is None
    assert max(probe.step.rate_per_s or 0 for probe in state.probes if probe.step.purpose == "curve") < 20_000
    assert "is at least 1" in verdict(state)


def test_a_capacity_that_the_generator_limited_is_exported_as_a_lower_bound_alone(tmp_path: Path) -> None:
    state = answered(Server(1e9, generator_per_s=20_000), tmp_path)
    assert state.done is not None
    least = state.done.rate_per_s
    found = document(state)
    assert (found["capacity_per_s"], found["bound"], found["interval_per_s"]) == (least, "at least", [least, None])
    answer = api.query("select capacity_per_s, bound, low_per_s, high_per_s from capacities", out=tmp_path)
    assert answer.rows == [(least, "at least", least, None)]
    api.export(tmp_path / "tables", formats=("csv",), out=tmp_path)
    (row,) = csv.DictReader((tmp_path / "tables/capacities.csv").read_text().splitlines())
    assert (row["bound"], float(row["low_per_s"]), row["high_per_s"]) == ("at least", least, "")


def test_a_capacity_that_the_server_limited_is_exported_with_its_interval(tmp_path: Path) -> None:
    found = document(answered(Server(10_000), tmp_path))
    low, high = found["interval_per_s"]
    assert found["bound"] == "exact"
    assert low <= found["capacity_per_s"] <= high


@pytest.mark.parametrize(
    ("beyond", "said"),
    [
        (("breaks", "generator"), r"300 ns, it is at least [\d,]+/s, above which the generator was the limit\.$"),
        (("generator", "breaks"), r"^This is .* 100 ns; with .* 300 ns, it is [\d,]+/s \(95 % interval .*\)\.$"),
    ],
)
def test_a_state_of_the_machine_in_which_the_generator_was_the_limit_has_a_bound_and_no_interval(
    beyond: tuple[Word, Word], said: str
) -> None:
    def tried(rates: Sequence[float], beyond: Word) -> tuple[search.Trial, ...]:
        return tuple(search.Trial(rate, "holds" if rate < 10_000 else beyond, "it was busy") for rate in rates)

    rates = (8_000.0, 9_000.0, 9_500.0, 10_500.0, 11_000.0, 12_000.0)
    tracks = (
        search.Track(search.MachineState(core_to_core_ns=100.0), Staircase(0.0), tried(rates, beyond[0])),
        search.Track(search.MachineState(core_to_core_ns=300.0), Staircase(0.0), tried(rates[1:], beyond[1])),
    )
    done = search.answer(search.Search(asked().settings, tracks=tracks))
    state = SearchState(asked(), (), done)
    states = document(state)["states"]
    assert [each["bound"] for each in states] == [{"breaks": "exact", "generator": "at least"}[word] for word in beyond]
    (limited,) = (each for each in states if each["bound"] == "at least")
    assert limited["interval_per_s"] == [limited["capacity_per_s"], None]
    assert re.search(said, sentences(state)[1])


def test_without_a_capacity_there_is_no_curve(tmp_path: Path) -> None:
    state = answered(Server(100), tmp_path)
    assert {probe.step.purpose for probe in state.probes} <= {"closed loop", "search"}
    assert "p99<5ms does not hold at any rate: " in verdict(state)


def test_long_limits_make_long_warm_ups_and_probes() -> None:
    assert (asked().warmup_ms, asked().settings.probe_ms) == (500, 1_000)
    slow = asked(limits=("p99<2s", "p50<1ms", "errors<1%"))
    assert (slow.warmup_ms, slow.settings.probe_ms) == (4_000, 40_000)
    step = Step(purpose="search", rate_per_s=100.0, duration_ms=40_000)
    spec = load_spec(slow, step, 7).model_dump(mode="json")
    assert (spec["warmup_ms"], spec["duration_ms"], spec["interval_ms"]) == (4_000, 40_000, 160)
    assert spec["pace"]["seed"] == 8, "every run has arrivals of its own"


@pytest.mark.parametrize("stops", [1, 2, 9, 20])
def test_a_question_that_is_stopped_goes_on_where_it_was(stops: int, tmp_path: Path) -> None:
    whole = answered(Server(10_000), tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        prober.run(asked(), SimulatedHost(Server(10_000), stops=stops), tmp_path / "runs", lambda state: None)
    folder = folder_of(asked(), tmp_path / "runs")
    assert folder.exists() == (stops > 1), "a question without a run leaves nothing behind"
    if stops > 1:
        assert len(read_state(folder).probes) == stops - 1
        # A crash may leave a torn last line.
        with (folder / layout.PROBES).open("ab") as file:
            file.write(b'{"step":')
    host = SimulatedHost(Server(10_000))
    prober.run(asked(), host, tmp_path / "runs", lambda state: None)
    assert host.runs == len(whole.probes) - (stops - 1)
    assert document(read_state(folder)) == document(whole)


def test_the_runs_of_a_question_are_json_lines(tmp_path: Path) -> None:
    state = answered(Server(10_000), tmp_path)
    folder = folder_of(state.spec, tmp_path)
    lines = [json.loads(line) for line in (folder / layout.PROBES).read_bytes().splitlines()]
    assert {list(fields)[-1] for fields in lines} == {"crc32"}
    records = [record.model_dump(mode="json") for record in read_records(folder)[0]]
    assert [{key: value for key, value in fields.items() if key != "crc32"} for fields in lines] == records


def test_a_search_of_the_first_procedure_opens_with_a_fit_over_its_runs_and_is_measured_anew(tmp_path: Path) -> None:
    (stored,) = (Path(__file__).parent / "golden/stored").glob("capacity-*")
    folder = Path(shutil.copytree(stored, tmp_path / stored.name))
    state = read_state(folder)
    assert state.next is None
    assert len(state.probes) == 6
    assert state.done is not None
    assert state.done.kind == "capacity"
    assert state.done.rate_per_s == pytest.approx(CAPACITY, rel=0.03)
    assert verdict(state).startswith("The capacity under p99<5ms is 9,")
    assert page.write(folder).is_file()
    assert prober.run(asked(), SimulatedHost(Server(10_000)), tmp_path, lambda state: None) != folder


def test_a_search_of_the_first_procedure_keeps_its_curve_and_its_recovery(tmp_path: Path) -> None:
    state = answered(Server(10_000), tmp_path)
    earlier = state_of(state.spec.model_copy(update={"schema_": 1}), read_records(folder_of(state.spec, tmp_path))[0])
    assert earlier.next is None
    assert (earlier.done, earlier.curve, earlier.recovery) == (state.done, state.curve, state.recovery)


TWO = (Cpu(0, 0), Cpu(1, 1))
FOUR = tuple(Cpu(number, number // 2) for number in range(4))


@pytest.mark.parametrize(
    ("topology", "tasks", "load", "is_apart", "why"),
    [
        # For each thread, the CPUs on which the server may run and the CPU on which it last ran.
        (TWO, [({0}, 0)], (1,), True, "the generator runs on CPU 1, the server on CPU 0"),
        (TWO, [({0, 1}, 1)], (0,), True, "the generator runs on CPU 0; the server, which may move, ran on CPU 1"),
        (
            TWO,
            [({0, 1}, 0), ({0, 1}, 1)],
            (),
            False,
            "the server uses every processor, so the generator shares them: "
            "start the server on some of them, as with taskset -c 0",
        ),
        (
            TWO[:1],
            [({0, 1}, 1)],
            (),
            False,
            "there is only one processor: server and generator share it, which slows both",
        ),
        # No SMT sibling of a server's CPU, unless there is no other CPU.
        (FOUR, [({0}, 0)], (2,), True, "the generator runs on CPU 2, the server on CPU 0"),
        (FOUR[:2], [({0}, 0)], (1,), True, "the generator runs on CPU 1, the server on CPU 0"),
        # A server may use CPUs that this process may not.
        (
            TWO[1:],
            [({0}, 0)],
            (),
            False,
            "there is only one processor: server and generator share it, which slows both",
        ),
        (FOUR, [({0, 1, 2, 3, 4}, 0), ({0, 1, 2, 3, 4}, 4)], (2,), True, "the generator runs on CPU 2; the server, "),
    ],
)
def test_the_generator_runs_apart_from_a_server_on_this_machine_where_it_can(
    topology: Sequence[Cpu], tasks: Sequence[tuple[set[int], int]], load: tuple[int, ...], is_apart: bool, why: str
) -> None:
    found = beside_server(topology, [proc.Task(frozenset(may_run), cpu, 0) for may_run, cpu in tasks], 1)
    assert (found.load, found.is_apart) == (load, is_apart)
    assert found.why.startswith(why)


def test_a_server_that_spent_its_time_on_the_processors_of_the_generator_shared_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = iter([{"a": (0, 0), "b": (1, 0)}, {"a": (0, 90), "b": (1, 5)}, {"a": (1, 100), "c": (1, 50)}])

    def tasks(tree: proc.Tree) -> dict[str, proc.Task]:
        return {name: proc.Task(frozenset(), cpu, ran_ns) for name, (cpu, ran_ns) in next(looks).items()}

    monkeypatch.setattr(proc, "tasks", tasks)
    watched = Watched(proc.Tree((), (), 0, 0, 0, 0))
    watched.look()
    watched.look()
    assert dict(watched.ran_ns) == {0: 90, 1: 5}
    assert not watched.shares((1,))
    watched.look()
    assert dict(watched.ran_ns) == {0: 90, 1: 15}
    assert watched.shares((1,))
    assert not watched.shares((2,))


def test_a_server_shares_a_processor_where_the_generator_runs_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, load = proc.Tree((1,), (), 0, 0, 0, 0), proc.Tree((2,), (), 0, 0, 0, 0)
    # The CPU and run time of each at each reading. They swap CPUs in the second run but never share one.
    looks = {server: iter([(0, 0), (0, 100), (1, 200), (1, 300)]), load: iter([(1, 0), (1, 100), (0, 200), (1, 300)])}

    def tasks(tree: proc.Tree) -> dict[str, proc.Task]:
        cpu, ran_ns = next(looks[tree])
        return {"a": proc.Task(frozenset(), cpu, ran_ns)}

    monkeypatch.setattr(proc, "tasks", tasks)
    pair, shares = Pair(Watched(server), Watched(load)), list[float]()
    for _ in range(4):
        pair.look()
        shares.append(pair.shared_share)
    assert shares == pytest.approx([0, 0, 0, 1 / 3])
    assert dict(pair.shared_ns) == {1: 100}


def test_the_threads_of_a_process_say_where_they_may_run_and_where_they_ran() -> None:
    tasks = proc.tasks(proc.look(os.getpid()))
    own = tasks[f"/proc/{os.getpid()}/task/{os.getpid()}"]
    assert own.affinity == os.sched_getaffinity(0)
    assert own.cpu in own.affinity
    assert own.ran_ns > 0


def test_a_run_in_which_both_shared_a_processor_is_stored_as_that_and_the_generator_is_placed_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server moves to the generator's CPU in the third run, and stays there."""
    host, ran_ns = SimulatedHost(Server(10_000)), itertools.count()

    def tasks(tree: proc.Tree) -> dict[str, proc.Task]:
        return {"a": proc.Task(frozenset({0, 1}), int(host.runs >= 3), next(ran_ns))}

    monkeypatch.setattr(proc, "tasks", tasks)
    placed: list[str] = []
    folder = prober.run(
        asked(),
        host,
        tmp_path,
        lambda state: None,
        server_pid=os.getpid(),
        on_placed=placed.append,
        topology=lambda: TWO,
    )
    records = read_records(folder)[0]
    assert [at for at, record in enumerate(records, 1) if record.shares_cpu] == [3]
    assert [tuple(record.report.cpus) for record in records[:5]] == [(1,), (1,), (1,), (0,), (0,)]
    assert records[2].step == records[3].step
    assert [why.partition(";")[0] for why in placed] == [
        "the generator runs on CPU 1",
        "the generator runs on CPU 0",
    ]
    html = page.write(folder).read_text()
    assert "In 1 run server and generator shared a processor: bind the server" in html


def test_two_labs_do_not_write_one_question(tmp_path: Path) -> None:
    machine = SimulatedHost(Server(10_000)).describe()
    with (
        writing(asked(), machine, tmp_path),
        pytest.raises(StoreError, match="another iolab is writing this run"),
        writing(asked(), machine, tmp_path),
    ):
        pass


def test_runs_after_a_damaged_line_are_made_again(tmp_path: Path) -> None:
    whole = answered(Server(10_000), tmp_path)
    folder = folder_of(asked(), tmp_path)
    lines = (folder / layout.PROBES).read_bytes().splitlines(keepends=True)
    (folder / layout.PROBES).write_bytes(b"".join([*lines[:4], lines[4][:50] + b"\n", *lines[5:]]))
    records, faults = read_records(folder)
    assert len(records) == 4
    assert "line 5 is torn or altered" in faults[0]
    host = SimulatedHost(Server(10_000))
    prober.run(asked(), host, tmp_path, lambda state: None)
    assert host.runs == len(whole.probes) - 4
    assert document(read_state(folder)) == document(whole)


def test_a_server_that_is_started_again_ends_the_runs_and_what_was_measured_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, server = SimulatedHost(Server(10_000)), {"pid": 7}

    def of_process(pid: int) -> dict[str, Any]:
        # The server writes a log that its command names.
        return server | {
            "started": "now" if host.runs >= 3 else "then",
            "files": {"./mine": "1", "log": str(host.runs)},
        }

    monkeypatch.setattr(programs, "of_process", of_process)
    monkeypatch.setattr(proc, "look", lambda pid: proc.Tree((), (), 0, 0, 0, 0))
    monkeypatch.setattr(proc, "usage", lambda tree: proc.Usage(0, 0, None, None, None))
    with pytest.raises(TrialFailed, match=r"process 7 was started again: run the same command again"):
        prober.run(asked(), host, tmp_path, lambda state: None, server_pid=7)
    assert len(read_records(folder_of(asked(), tmp_path))[0]) == 3


@pytest.mark.parametrize(
    ("stops", "before", "now", "fresh", "kept"),
    [
        # A finished search is repeated; a stopped one resumes if nothing has changed.
        (None, "one", "one", False, ""),
        (6, "one", "one", False, None),
        (6, "one", "one", True, ""),
        (6, "one", "another", False, "engine was one, and is another now"),
    ],
)
def test_only_a_question_that_was_stopped_goes_on(
    tmp_path: Path, stops: int | None, before: str, now: str, fresh: bool, kept: str | None
) -> None:
    with suppress(KeyboardInterrupt):
        first = SimulatedHost(Server(10_000), stops=stops, identity=before)
        prober.run(asked(), first, tmp_path, lambda state: None)
    told: list[tuple[str, Path]] = []
    host = SimulatedHost(Server(10_000), identity=now)
    prober.run(asked(), host, tmp_path, lambda state: None, fresh=fresh, on_set_aside=lambda *each: told.append(each))
    assert [changed for changed, _ in told] == ([] if kept is None else [kept])
    assert all(read_records(folder)[0] for _, folder in told), "what was measured is kept"
    whole = len(read_state(folder_of(asked(), tmp_path)).probes)
    assert host.runs == (whole - (first.runs - 1) if kept is None else whole)


def test_a_damaged_answer_is_set_aside_and_has_its_folder_again_where_nothing_new_was_measured(tmp_path: Path) -> None:
    told: list[tuple[str, Path]] = []

    def ask(stops: int | None) -> None:
        host = SimulatedHost(Server(10_000), stops=stops)
        prober.run(asked(), host, tmp_path, lambda state: None, on_set_aside=lambda *each: told.append(each))

    with pytest.raises(KeyboardInterrupt):
        ask(3)
    folder = folder_of(asked(), tmp_path)
    (folder / layout.MACHINE).write_text('{"torn')
    with pytest.raises(KeyboardInterrupt):
        ask(1)
    aside = folder.with_name(f"{folder.name}.1")
    assert told == [("the earlier run cannot be read", aside), ("nothing was measured", folder)]
    assert read_records(folder)[0]


def test_another_process_at_the_same_address_is_another_server(tmp_path: Path) -> None:
    def ask(pid: int, stops: int | None) -> list[str]:
        told: list[str] = []
        with suppress(KeyboardInterrupt):
            host = SimulatedHost(Server(10_000), stops=stops)
            prober.run(
                asked(),
                host,
                tmp_path,
                lambda state: None,
                server_pid=pid,
                topology=lambda: TWO[:1],
                on_set_aside=lambda why, _: told.append(why),
            )
        return told

    assert ask(os.getpid(), 6) == []
    assert ask(os.getpid(), 3) == [], "the same process goes on"
    (why,) = ask(os.getppid(), None)
    assert why.startswith(f"another process is the server now (process {os.getppid()}, before process {os.getpid()})")


def test_runs_of_another_procedure_are_refused(tmp_path: Path) -> None:
    answered(Server(10_000), tmp_path)
    folder = folder_of(asked(), tmp_path)
    records, _ = read_records(folder)
    with pytest.raises(StoreError, match="another version of the search"):
        state_of(asked(precision=0.01), records)


def test_the_page_loads_nothing_runs_nothing_and_shows_every_run(tmp_path: Path) -> None:
    state = answered(Server(10_000), tmp_path, url="http://127.0.0.1:8080/<script>", limits=("p99<5ms", "errors<1%"))
    path = page.write(folder_of(state.spec, tmp_path))
    html = path.read_text()
    assert "<script" not in html
    assert "src=" not in html
    assert "http://127.0.0.1:8080/&lt;script&gt;" in html
    assert html.count("<svg") == 4
    assert html.count('<tr><th scope="row">') == len(state.probes) - 1
    for sentence in sentences(state):
        assert sentence.replace("<", "&lt;") in html
    assert page.write(folder_of(state.spec, tmp_path)).read_text() == html


def test_a_run_is_a_row_of_figures_with_the_reason_why_it_did_not_hold() -> None:
    def row(rate_per_s: float | None, measured: Measurement, **changes: Any) -> table.Row:
        purpose = "closed loop" if rate_per_s is None else "search"
        step = Step(purpose=purpose, rate_per_s=rate_per_s, duration_ms=1_000)
        probe = Probe(step, measured, judge((parse_limit("p99<5ms"),), measured), changes.get("cpu_ns"))
        (made,) = table.rows(SearchState(asked(), (probe,)))
        return made

    held = row(1_234.0, seen(achieved_per_s=1_230.0, asked_per_s=1_234.0), cpu_ns=12_345.0)
    assert (held.asked, held.achieved, held.errors, held.cpu) == ("1,234", "1,230", "0", "12.3")
    assert (held.word, held.why, held.purpose) == ("yes", "", "search")
    assert (held.times["p99"], held.times["p99.9"]) == ("1.00 ms", "–"), "3,000 requests have no p99.9"
    broke = row(10.5, seen(errors_share=0.001, times={"p99": 9 * MS}, core_to_core_ns=(50.0, 500.0)))
    assert (broke.asked, broke.errors, broke.cpu, broke.word) == ("10.5", "0.10 %", "–", "no")
    assert broke.why == "p99 was 9.00 ms, the core-to-core latency changed"
    # Advice follows a colon.
    late = row(1_000.0, seen(generator="it was late: give it a processor", times={"p99": 9 * MS}, shares_cpu=True))
    assert late.word == "no (generator)"
    assert late.why == "it was late, server and generator shared a processor"
    assert row(1_000.0, seen(replies=999)).word == "too few requests"
    closed = row(None, seen(times={"p99": 9 * MS}))
    assert (closed.asked, closed.word, closed.why, closed.purpose) == ("closed loop", "", "", "closed loop")


def test_terminal_and_page_have_the_same_rows(tmp_path: Path) -> None:
    state = answered(Server(10_000), tmp_path)
    printed_to = io.StringIO()
    searching.show_state(Console(file=printed_to, width=200), state)
    printed = printed_to.getvalue()
    html = page.write(folder_of(state.spec, tmp_path)).read_text()
    assert len(table.rows(state)) == len(state.probes) - 1, "the recovery is no row"
    for row in table.rows(state):
        figures = (row.asked, row.achieved, *(row.times[name] for name in searching.SHOWN), row.errors)
        assert re.search(r" +".join(map(re.escape, figures)), printed)
        cells = (*(row.times[name] for name in page.SHOWN), row.errors)
        row_html = "".join(f'<td class="n">{cell}</td>' for cell in (row.achieved, *cells))
        assert f'<tr><th scope="row">{row.asked}</th>{row_html}' in html


# --- The command line ---------------------------------------------------------------------------------------------


ASK = ("capacity", "--slo", "p99<5ms", "http://127.0.0.1:8080/", "--cpus", str(min(os.sched_getaffinity(0))))


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> SimulatedHost:
    """The host that the command line uses, with no server on its ports."""
    simulated = SimulatedHost(Server(10_000))
    monkeypatch.setattr(agent, "Agent", lambda engine: simulated)
    monkeypatch.setattr(port_owner, "find", lambda connect: None)
    return simulated


@pytest.mark.usefixtures("fake", "host")
def test_capacity_ends_with_a_table_a_verdict_and_the_path_of_the_report(tmp_path: Path) -> None:
    done = iolab(*ASK, "--out", tmp_path)
    assert done.exit_code == 0, done.stderr
    assert "asked/s" in done.stdout
    assert "closed loop" in done.stdout
    assert "The capacity under p99<5ms is 9," in done.stdout
    assert Path(done.stdout.strip().splitlines()[-1].removeprefix("report: ")).is_file()
    assert re.search(r"^  2 search [\d,]+/s: [\d,]+/s, p99 [\d.]+ .s: holds$", done.stderr, re.MULTILINE)
    again = iolab(*ASK, "--out", tmp_path)
    assert (again.exit_code, again.stdout) == (0, done.stdout)
    assert "the earlier run is kept as" in again.stderr
    runs = iolab("list", "runs", "--out", tmp_path).stdout
    assert "The capacity under p99<5ms is 9," in runs
    name = runs.splitlines()[-1].split()[3]
    assert iolab("report", name, "--out", tmp_path).stdout.replace(".1/report", "/report") == done.stdout
    rows = iolab("report", name, "--csv", "--out", tmp_path).stdout.splitlines()
    assert rows[0].startswith("purpose,rate_per_s,duration_ms,asked_per_s,achieved_per_s,replies,")
    assert rows[1].startswith("closed loop,,")


@pytest.mark.usefixtures("fake")
def test_json_has_every_run_and_the_sentences(tmp_path: Path, host: SimulatedHost) -> None:
    done = iolab(*ASK, "--out", tmp_path, "--json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["schema"], document["finished"], document["kind"]) == (1, True, "capacity")
    assert len(document["runs"]) == host.runs
    assert document["recovery"]["back_s"] == pytest.approx(1.0, abs=0.15)


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize(
    ("url", "kind", "write"),
    [
        ("http://127.0.0.1:8080/a", "speaks_echo", "tcp://127.0.0.1:8080 --protocol echo"),
        ("http://127.0.0.1:8080/a", "speaks_tls", "https://127.0.0.1:8080"),
        ("tcp://127.0.0.1:8080", "speaks_http", "http://127.0.0.1:8080/"),
        ("tcp://127.0.0.1:8080", "speaks_tls", "tls://127.0.0.1:8080"),
        ("tcp://127.0.0.1:8080", "speaks_line", "tcp://127.0.0.1:8080 --protocol line"),
        ("unix:/tmp/socket", "speaks_http", "--protocol http"),
    ],
)
def test_a_server_that_speaks_another_protocol_is_not_asked_for_its_capacity(
    tmp_path: Path, host: SimulatedHost, url: str, kind: str, write: str
) -> None:
    host.speaks = Mismatch(kind, "speaks another")
    done = iolab("capacity", "--slo", "p99<5ms", url, "--out", tmp_path)
    assert (done.exit_code, done.stdout, list(tmp_path.iterdir())) == (2, "", [])
    assert done.stderr.strip().splitlines()[-1].endswith(f" speaks another: write {write}")


@pytest.mark.usefixtures("fake", "host")
def test_what_is_sent_is_part_of_the_question(tmp_path: Path) -> None:
    sent = ("-m", "PUT", "-H", "Accept: text/plain", "-H", "X-A:b:c", "-d", "{}")
    workload = json.loads(iolab(*ASK, *sent, "--out", tmp_path, "--json").stdout)["question"]["workload"]
    assert (workload["method"], workload["body"]) == ("PUT", "{}")
    assert workload["headers"] == [["Accept", "text/plain"], ["X-A", "b:c"]]
    posted = json.loads(iolab(*ASK, "-d", "{}", "--out", tmp_path, "--json").stdout)["question"]["workload"]
    assert posted["method"] == "POST"


@pytest.mark.usefixtures("fake")
def test_a_stop_prints_what_is_known_and_how_to_go_on(tmp_path: Path, host: SimulatedHost) -> None:
    host.stops = 6
    done = iolab(*ASK, "--out", tmp_path)
    assert done.exit_code == 130
    assert "Not finished: it held at 9,457/s and it did not hold at 10,000/s." in done.stdout
    assert "stopped by SIGINT; to continue: iolab" in done.stderr
    assert iolab(*ASK, "--out", tmp_path).exit_code == 0


@pytest.mark.usefixtures("fake")
def test_a_stop_in_the_first_run_leaves_nothing_behind(tmp_path: Path, host: SimulatedHost) -> None:
    host.stops = 1
    done = iolab(*ASK, "--out", tmp_path)
    assert (done.exit_code, done.stdout, list(tmp_path.iterdir())) == (130, "", [])
    assert "stopped by SIGINT; to continue: iolab" in done.stderr


@pytest.mark.usefixtures("fake")
def test_a_server_that_goes_away_ends_it_with_one_line_and_keeps_what_there_is(
    tmp_path: Path, host: SimulatedHost
) -> None:
    host.fails = 4
    done = iolab(*ASK, "--out", tmp_path)
    assert done.exit_code == 1
    assert done.stderr.strip().splitlines()[-1] == (
        "iolab: 127.0.0.1:8080 refused the connection: is the server there?"
    )
    assert "Not finished: it held at 8,000/s" in done.stdout


@pytest.mark.usefixtures("fake")
def test_a_server_that_is_not_there_at_first_is_one_line(tmp_path: Path, host: SimulatedHost) -> None:
    host.fails = 1
    done = iolab(*ASK, "--out", tmp_path)
    assert (done.exit_code, done.stdout) == (1, "")


@pytest.mark.usefixtures("fake")
def test_a_run_in_which_the_server_went_away_says_nothing_of_it(
    tmp_path: Path, host: SimulatedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, lost = report, {"gone": True, "first_error": "refused"}
    monkeypatch.setattr(
        sys.modules[__name__],
        "report",
        lambda server, spec: whole(server, spec).model_copy(update=lost if host.runs == 4 else {}),
    )
    done = iolab(*ASK, "--out", tmp_path)
    assert done.exit_code == 1
    assert done.stderr.strip().splitlines()[-1] == (
        "iolab: the server went away (refused): start it again, and run the same command"
    )
    assert "Not finished: it held at 8,000/s" in done.stdout
    assert iolab(*ASK, "--out", tmp_path).exit_code == 0


@pytest.mark.usefixtures("fake")
def test_a_server_that_answers_nothing_correctly_is_reported_before_anything_is_kept(
    tmp_path: Path, host: SimulatedHost
) -> None:
    host.server = Server(10_000, errors_share=1.0)
    done = iolab(*ASK, "--out", tmp_path)
    assert done.exit_code == 1
    assert done.stderr.strip().splitlines()[-1].startswith("iolab: no request had a correct reply: request ")


@pytest.mark.usefixtures("fake")
def test_a_mere_upper_bound_ends_with_the_exit_code_of_a_failure(tmp_path: Path, host: SimulatedHost) -> None:
    host.server = Server(100)
    slow = ("capacity", "--slo", "p99.9<20ms", "http://127.0.0.1:8080/", "--out", tmp_path)
    done = iolab(*slow)
    assert done.exit_code == 1
    assert "The capacity under p99.9<20ms is below " in done.stdout


@pytest.mark.usefixtures("fake", "host")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--slo", "p98<5ms", "http://127.0.0.1:1/"], "p98 is not measured: use one of p50, "),
        (["--slo", "p99<5", "http://127.0.0.1:1/"], "'p99<5': a unit is missing: write it as in p99<5ms"),
        (["--slo", "p99<5ms", "127.0.0.1:1"], "'127.0.0.1:1' is not complete: write http://127.0.0.1:1 or tcp://"),
        (
            ["--slo", "p99<5ms", "ftp://127.0.0.1:1"],
            "ftp:// is not supported: write http://, https://, tcp://, tls:// or unix:/path",
        ),
        (["--slo", "p99<5ms", "http://me@127.0.0.1:1"], "leave out what is before the @"),
        (["--slo", "p99<5ms", "http://127.0.0.1:0/"], "has no host and port: write it as in http://127.0.0.1:8080"),
        (["--slo", "p99<5ms", "tls://127.0.0.1"], "'tls://127.0.0.1' is not an address: write tls://host:port"),
        (["--slo", "p99<5ms", "https://127.0.0.1:1", "--protocol", "rpc"], "--protocol rpc and https:// do not fit"),
        (
            ["--slo", "p99<5ms", "tls://127.0.0.1:1", "--protocol", "http"],
            "http goes with http:// and https://, others",
        ),
        (["--slo", "p99<5ms", "http://127.0.0.1:1", "--insecure"], "--insecure goes with https:// or tls://"),
        (["--slo", "p99<5ms", "unix:/tmp/a.sock", "--cacert", "/ca.pem"], "--cacert goes with https:// or tls://"),
        (["--slo", "p99<5ms", "tcp://127.0.0.1:1", "--server-name", "a"], "--server-name goes with https:// or tls://"),
        (["--slo", "p99<5ms", "https://127.0.0.1:1", "--cacert", "/no/ca.pem"], "there is no file '/no/ca.pem': name "),
        (
            ["--slo", "p99<5ms", "https://127.0.0.1:1", "--cacert", "/ca.pem", "--insecure"],
            "--cacert and --insecure do not fit: leave out --insecure",
        ),
        (["--slo", "p99<5ms", "tcp://127.0.0.1"], "'tcp://127.0.0.1' is not an address: write tcp://host:port"),
        (["--slo", "p99<5ms", "tcp://127.0.0.1:1/path"], "is not an address: write tcp://host:port"),
        (["--slo", "p99<5ms", "http://127.0.0.1:99999/"], "has no host and port"),
        (["--slo", "p99<5ms", "http://"], "has no host and port"),
        (["--slo", "p99<5ms", "unix:"], "'unix:' has no path"),
        (["--slo", "p99<5ms", "http://no such host/"], "cannot find 'no such host'"),
        (["--slo", "p99<5ms", "tcp://127.0.0.1:1", "--protocol", "http"], "--protocol http and tcp:// do not fit"),
        (["--slo", "p99<5ms", "http://127.0.0.1:1", "--protocol", "rpc"], "--protocol rpc and http:// do not fit"),
        (["--slo", "p99<5ms", "http://127.0.0.1:1", "--framing", "raw"], "--framing: is not a setting of http"),
        (
            ["--slo", "p99<5ms", "http://127.0.0.1:1", "-H", "Accept"],
            "'Accept' is not a header: write it as in 'Accept: text/plain'",
        ),
        (["--slo", "p99<5ms", "tcp://127.0.0.1:1", "-d", "text"], "--body: is not a setting of echo"),
        (["--slo", "p99<5ms", "http://127.0.0.1:1", "-c", "0"], "connections: "),
        (["--slo", "p99<5ms", "http://127.0.0.1:1", "-c", "1048577"], "connections: "),
        (["--slo", "p99<5ms", "http://127.0.0.1:1", "-t", "1025"], "threads: "),
        (["--slo", "p99<5ms", "http://127.0.0.1:1", "--precision", "50%"], "precision: "),
        (["--slo", "p99<5ms", "http://127.0.0.1:1", "--precision", "x"], "'x' is not a share: write it as in 5%"),
        (["--slo", "p99<5ms", "http://127.0.0.1:1", "--probe", "3"], "'3' is not a duration: write it as in 500ms"),
        (["--slo", "p99<5ms", "http://127.0.0.1:1", "--cpus", "x"], "'x' names no processors"),
        (["--slo", "p99<5ms", "http://127.0.0.1:1", "--server-pid", "0"], "there is no process 0"),
    ],
)
def test_bad_input_is_one_line_that_says_what_to_do(tmp_path: Path, arguments: list[str], message: str) -> None:
    done = iolab("capacity", *arguments, "--out", tmp_path)
    assert done.exit_code == 2, done.stdout + done.stderr
    assert done.stdout == ""
    assert message in done.stderr
    assert done.stderr.startswith("iolab capacity: ")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_without_a_limit_there_is_nothing_to_ask(fake: Engine) -> None:
    assert iolab("capacity", "http://127.0.0.1:1/").exit_code == 2


@pytest.mark.parametrize(
    ("url", "protocol", "target"),
    [
        ("http://127.0.0.1:8080", None, ("http", {"target": "/", "host": "127.0.0.1:8080"}, "127.0.0.1:8080")),
        ("http://127.0.0.1/a?b=c#d", None, ("http", {"target": "/a?b=c", "host": "127.0.0.1"}, "127.0.0.1:80")),
        ("http://[::1]:8080/", None, ("http", {"target": "/", "host": "[::1]:8080"}, "[::1]:8080")),
        ("HTTPS://127.0.0.1/a", None, ("http", {"target": "/a", "host": "127.0.0.1"}, "127.0.0.1:443")),
        ("https://[::1]:8443", None, ("http", {"target": "/", "host": "[::1]:8443"}, "[::1]:8443")),
        ("tls://127.0.0.1:7", "rpc", ("rpc", {}, "127.0.0.1:7")),
        ("tcp://127.0.0.1:7", None, ("echo", {}, "127.0.0.1:7")),
        ("tcp://127.0.0.1:7", "line", ("line", {}, "127.0.0.1:7")),
        ("unix:/tmp/a.sock", None, ("echo", {}, "unix:/tmp/a.sock")),
        ("unix:/tmp/a.sock", "http", ("http", {"host": "localhost"}, "unix:/tmp/a.sock")),
    ],
)
def test_a_url_names_what_is_asked_and_where(url: str, protocol: Any, target: tuple[str, dict[str, str], str]) -> None:
    found = parse_url(url, protocol)
    assert (found.protocol, found.workload, found.connect) == target
    assert (found.tls is not None) is url.lower().startswith(("https:", "tls:"))


def test_how_tls_is_spoken_is_part_of_the_question_and_of_every_run(tmp_path: Path) -> None:
    authorities = tmp_path / "ca.pem"
    authorities.touch()
    at = parse_url("https://127.0.0.1:8443/", None)
    plain = {"server_name": None, "cacert": None, "insecure": False}
    digests = {asked().digest}
    for flags, spoken in (
        ({}, {"server_name": "127.0.0.1", "cacert": None, "insecure": False}),
        ({"server_name": "a.example"}, {"server_name": "a.example", "cacert": None, "insecure": False}),
        ({"cacert": authorities}, {"server_name": "127.0.0.1", "cacert": str(authorities), "insecure": False}),
        ({"insecure": True}, {"server_name": "127.0.0.1", "cacert": None, "insecure": True}),
    ):
        spec = spec_of(with_tls(at, **(plain | flags)), {}, url="u", limits=("p99<5ms",))
        for purpose in ("closed loop", "recovery"):
            rate_per_s = 100.0 if purpose == "recovery" else None
            step = Step.model_validate({"purpose": purpose, "rate_per_s": rate_per_s, "duration_ms": 1_000})
            assert load_spec(spec, step, 0).model_dump()["tls"] == spoken
        digests.add(spec.digest)
    assert len(digests) == 5


def test_who_listens_is_found_on_every_kind_of_address(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    with (
        socket.create_server(("127.0.0.1", 0)) as four,
        socket.create_server(("0.0.0.0", 0)) as any_four,
        socket.socket(socket.AF_UNIX) as local,
    ):
        local.bind(str(path))
        local.listen()
        for at in (four, any_four):
            assert port_owner.find(f"127.0.0.1:{at.getsockname()[1]}") == os.getpid()
        assert port_owner.find(f"unix:{path}") == os.getpid()
        port = four.getsockname()[1]
        assert port_owner.find(f"127.0.0.2:{port}") is None
        assert port_owner.find(f"192.0.2.1:{port}") is None, "that may be another machine"
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        assert port_owner.find(f"127.0.0.1:{bound.getsockname()[1]}") is None, "nothing listens there"
