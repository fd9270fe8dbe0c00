"""A path in a trial: what is started where, what its record contains, and which trials it discards.

Tests that need a real path are skipped with the reason on a machine without one. They do not check how late it was:
that depends on the machine.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import PATIENCE_S, FakeHost
from iolab.contract.types import Carried, PathReport, PathSpec
from iolab.judge.trial import judged
from iolab.measure import first_look, path, trial_run
from iolab.measure.agent import Agent
from iolab.measure.engine import Engine, TrialFailed
from iolab.measure.examination import examine
from iolab.plan import settings
from iolab.plan.contestant import Contestant
from iolab.plan.experiment import vs_plan
from iolab.plan.plan import Plan, Trial
from iolab.plan.schedule import schedule
from iolab.plan.settings import Cell
from iolab.results.records import Result
from made import result

MS = 1_000_000
NO_PATH = "Trials over a path are not measurable here."
QUIET = {"packets": 1_000, "bytes": 90_000, "dropped": 0, "lost": 0, "overrun": 0, "late_ns_p99": 0, "late_ns_max": 0}


def carried(**changes: int) -> PathReport:
    """A path that carried everything in time, except for `changes` on the way to the server."""
    to_server, to_load = Carried(**(QUIET | changes)), Carried(**QUIET)
    return PathReport(to_server=to_server, to_load=to_load, wall_ns=3_000 * MS, cpu_ns=100 * MS)


def plan_over(**fields: Any) -> Plan:
    """Two servers over the same path."""
    plan = vs_plan(["epoll", "poll"], {"workload.protocol": "echo", "load.connections": 4})
    cells = tuple(cell.model_copy(update={"path": settings.Path(**fields)}) for cell in plan.comparisons[0].cells)
    return plan.model_copy(update={"comparisons": (plan.comparisons[0].model_copy(update={"cells": cells}),)})


@pytest.mark.parametrize(
    ("delay_ms", "changes", "words"),
    [
        pytest.param(24.5, {}, [], id="in time"),
        pytest.param(24.5, {"late_ns_p99": MS}, [], id="late by 4 %"),
        pytest.param(24.5, {"late_ns_p99": 2 * MS}, ["path_late"], id="late by 8 %"),
        pytest.param(24.5, {"packets": 199, "late_ns_p99": 4 * MS}, [], id="one of few packets late by 16 %"),
        pytest.param(24.5, {"packets": 199, "late_ns_p99": 5 * MS}, ["path_late"], id="one of few late by 20.4 %"),
        pytest.param(0.0, {"late_ns_p99": 2 * MS}, [], id="no delay to be late for"),
        pytest.param(24.5, {"late_ns_max": 200 * MS}, [], id="one late packet is none of the 99th percentile"),
        pytest.param(0.0, {"overrun": 1}, ["path_late"], id="the machine was too slow to take packets in"),
        pytest.param(24.5, {"overflowed": 3}, ["path_full"], id="more was on its way than the path keeps"),
        pytest.param(24.5, {"lost": 100}, [], id="losses are what was asked for"),
        pytest.param(24.5, {"dropped": 7}, ["path_dropped"], id="drops are shown"),
    ],
)
def test_a_trial_over_a_late_path_is_discarded(delay_ms: float, changes: dict[str, int], words: list[str]) -> None:
    plan = plan_over(delay_ms=delay_ms)
    trial = schedule(plan)[0]
    made = judged(plan.cell(trial), result(plan, trial).model_copy(update={"path": carried(**changes)}))
    assert [warning.word for warning in made.warnings if warning.word.startswith("path_")] == words
    assert made.discarded == (words in (["path_late"], ["path_full"]))


@pytest.mark.parametrize(
    ("delay_ms", "word"),
    [
        pytest.param(100, "processor_shared", id="no longer than the path worked"),
        pytest.param(101, "generator_starved", id="longer than the path worked"),
    ],
)
def test_a_generator_that_waits_for_the_path_shares_its_processor(delay_ms: int, word: str) -> None:
    plan = plan_over()
    trial = schedule(plan)[0]
    made = result(plan, trial)
    assert made.report is not None
    generator = made.report.generator.model_copy(
        update={"cpu_ns": 500 * MS, "wall_ns": 1_000 * MS, "turns": 1, "run_delay_ns": delay_ms * MS}
    )
    report = made.report.model_copy(update={"generator": generator})
    found = judged(plan.cell(trial), made.model_copy(update={"path": carried(), "report": report}))
    assert [
        warning.word for warning in found.warnings if warning.word in ("processor_shared", "generator_starved")
    ] == [word]


def test_the_detail_of_a_warning_has_the_figures() -> None:
    plan = plan_over(delay_ms=24.5)
    trial = schedule(plan)[0]
    report = carried(late_ns_p99=3 * MS, dropped=8, lost=2)
    made = judged(plan.cell(trial), result(plan, trial).model_copy(update={"path": report}))
    details = {warning.word: warning.detail for warning in made.warnings}
    assert details["path_late"] == "packets were late by 3.00 ms (p99) over a delay of 24.5 ms"
    assert details["path_dropped"] == "8 of 2010 packets were dropped at its queue"


def test_the_record_of_a_trial_has_what_its_path_carried_in_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    reports = [carried(packets=1), carried(packets=2)]
    monkeypatch.setattr("conftest.FakeServer.carried", lambda server: reports.pop(0))
    plan = plan_over(delay_ms=24.5)
    trial = schedule(plan)[0]
    measured = trial_run.measure(FakeHost(), plan.cell(trial), trial)
    assert measured.failure is None
    assert measured.path == carried(packets=2), "what came before the window is none of it"
    assert Result.model_validate_json(measured.model_dump_json()) == measured


@pytest.fixture
def host(real_engine: Engine) -> Agent:
    """This machine, if it can have a path."""
    if why := path.why_not(real_engine):
        pytest.skip(why)
    return Agent(real_engine)


def cell_over(contestant: str, **fields: Any) -> Cell:
    values = {"workload.protocol": "http", "load.connections": 2, "trial.warmup_ms": 200, "trial.duration_ms": 400}
    cell = settings.cell_of(Contestant.parse(contestant), values)
    return cell.model_copy(update={"path": settings.Path(**fields)})


COMMAND = f"cmd:{sys.executable} -S -m http.server {{port}}"


@pytest.mark.parametrize("contestant", ["epoll", COMMAND])
def test_a_trial_over_a_path_takes_at_least_its_delay_both_ways(host: Agent, quiet: None, contestant: str) -> None:
    cell = cell_over(contestant, delay_ms=10.0)
    measured = trial_run.measure(host, cell, Trial(comparison=0, block=0, position=0, slot=0, cell=cell.key))
    assert measured.failure is None, measured.failure
    assert measured.report is not None
    assert measured.report.requests.correct > 0
    assert measured.report.latency_ns.min >= 20 * MS
    assert measured.path is not None
    for direction in (measured.path.to_server, measured.path.to_load):
        assert direction.packets > 0
        assert direction.lost == direction.dropped == 0
    assert measured.server is not None
    assert measured.server.listen_overflows == 0, "the counters are those of the path's own namespace"


def test_a_contestant_is_looked_at_over_loopback(host: Agent) -> None:
    checked = first_look.check(host, cell_over(COMMAND, delay_ms=1_000.0, loss=1.0), "http.server")
    assert checked.failure is None, checked.failure


def test_the_namespaces_end_with_the_path(host: Agent) -> None:
    with path.running_path(host.engine, PathSpec()) as running:
        files = [Path(running.server_netns), Path(running.load_netns)]
        inodes = {os.stat(file).st_ino for file in files}
        assert len(inodes | {os.stat("/proc/self/ns/net").st_ino}) == 3, "three networks, none of them shared"
        running.check()
    assert not any(file.exists() for file in files)


def test_a_path_that_dies_is_named(host: Agent) -> None:
    with path.running_path(host.engine, PathSpec()) as running:
        os.kill(running.child.pid, signal.SIGKILL)
        assert running.child.wait(PATIENCE_S) is not None
        with pytest.raises(TrialFailed, match="the path was ended by SIGKILL while it was used"):
            running.check()


def test_a_path_that_cannot_be_made_says_why(fake: Engine) -> None:
    assert path.why_not(fake) == "no path can be made here: this is a fake"
    checks = examine(with_noise=False, on_noise=lambda seconds: None).checks
    (found,) = (each for each in checks if each.what == "network path")
    assert (found.status, found.found, found.means) == ("warn", path.why_not(fake), NO_PATH)
    with pytest.raises(TrialFailed) as failed:
        path.start(fake, PathSpec())
    assert (failed.value.failure.kind, failed.value.failure.final) == ("unavailable", True)


def test_settings_of_a_path_become_its_spec() -> None:
    asked = settings.Path(delay_ms=24.5, rate_bits_per_s=1e6, queue_packets=3, loss=0.1, mtu=600, syn_cookies=False)
    spec = PathSpec(**asked.model_dump())
    assert spec.model_dump(exclude={"schema_", "role"}) == asked.model_dump()
