"""The runner on a simulated host: order, resuming, discarded blocks, failures, and the edges of the window."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from conftest import FakeHost, FakeLoad, FakeServer
from iolab.contract.types import LoadSpec, OpenLoop
from iolab.judge import verdict
from iolab.machine.cpus import Cpu
from iolab.measure import placement, runner, stopping
from iolab.measure.events import (
    CanTakePart,
    CapacityMeasured,
    Checked,
    Counted,
    Event,
    LeftOut,
    MachineBusy,
    MinuteOver,
    NothingUsable,
    Opened,
    PutBack,
    TrialBegan,
)
from iolab.measure.follower import load_spec
from iolab.measure.runner import ContestantFailed
from iolab.measure.stopping import Stopped
from iolab.plan.experiment import load_experiment, vs_plan
from iolab.plan.overrides import with_settings
from iolab.plan.plan import Plan
from iolab.plan.schedule import schedule
from iolab.plan.settings import Cell, Scalar
from iolab.results import layout, store
from iolab.results.records import Failure, MachineNoise, Result

SHORT: dict[str, Scalar] = {"protocol": "echo", "warmup_ms": 400, "duration_ms": 1_600}

# The fewest blocks that give an interval, by the number of contestants.
BLOCKS = {2: 6, 3: 7}


def short_plan(*contestants: str) -> Plan:
    return vs_plan(contestants, SHORT, blocks=BLOCKS[len(contestants)])


def run(plan: Plan, host: FakeHost, runs: Path, *, fresh: bool = False) -> tuple[tuple[Result, ...], list[Event]]:
    events: list[Event] = []
    folder = runner.run(plan, host, runs, events.append, fresh=fresh, clocks=host.clocks())
    assert host.running == [], "a server or a generator was left behind"
    return store.read_trials(folder).results, events


def test_every_trial_runs_once_in_the_order_of_the_schedule_with_a_fresh_server(tmp_path: Path) -> None:
    plan, host = short_plan("epoll", "io_uring"), FakeHost()
    results, events = run(plan, host, tmp_path)
    assert [result.trial for result in results] == list(schedule(plan))
    assert host.sweeps == [0], "what a killed lab has left is removed before the first server"
    expected = [plan.cell(trial).contestant.text for trial in schedule(plan)]
    assert host.started[2:] == expected, "the first two starts look at each contestant"
    assert sorted(host.started[:2]) == ["epoll", "io_uring"]
    assert [event.reply_bytes for event in events if isinstance(event, Checked)] == [64, 64]
    assert not any(result.discarded for result in results)


@pytest.mark.parametrize(
    ("others", "why"),
    [
        (MachineNoise(steal_share=0.05, foreign_cpu_cores=0.25), []),
        (MachineNoise(steal_share=0.0, foreign_cpu_cores=1.87), ["other programs use 1.9 of its processors"]),
        (MachineNoise(steal_share=0.2, foreign_cpu_cores=0.0), ["its hypervisor takes 20 % of it"]),
    ],
)
def test_a_busy_machine_is_reported_before_the_first_trial(
    tmp_path: Path, others: MachineNoise, why: list[str]
) -> None:
    host = FakeHost()
    host.others = others
    _, events = run(short_plan("epoll", "io_uring"), host, tmp_path)
    before = itertools.takewhile(lambda event: not isinstance(event, TrialBegan), events)
    assert [event.why for event in before if isinstance(event, MachineBusy)] == why
    _, again = run(short_plan("epoll", "io_uring"), host, tmp_path)
    assert not any(isinstance(event, MachineBusy) for event in again), "nothing is left to measure"


def test_without_a_usable_trial_in_three_blocks_the_cause_is_reported_once(tmp_path: Path) -> None:
    advice = "Other programs or the hypervisor used the machine: stop other programs, or measure elsewhere."
    checks, blocks = 2, 3
    busy = dict.fromkeys(range(checks, 100), "busy")
    _, events = run(short_plan("epoll", "io_uring"), FakeHost(busy), tmp_path / "busy")
    (at,) = (at for at, event in enumerate(events) if isinstance(event, NothingUsable))
    assert events[at] == NothingUsable(blocks, f"machine busy (6 of 6 trials): {advice}")
    assert sum(isinstance(event, TrialBegan) for event in events[:at]) == 2 * blocks
    one_good = {start: fault for start, fault in busy.items() if start != checks + 2 * blocks - 1}
    _, events = run(short_plan("epoll", "io_uring"), FakeHost(one_good), tmp_path / "good")
    assert not any(isinstance(event, NothingUsable) for event in events)


def test_the_time_left_falls_to_the_last_trial(tmp_path: Path) -> None:
    plan = short_plan("epoll", "io_uring")
    _, events = run(plan, FakeHost(), tmp_path)
    left = [event.left_s for event in events if isinstance(event, TrialBegan)]
    assert left == sorted(left, reverse=True)
    assert left[0] == pytest.approx(plan.duration_s)
    assert left[-1] == pytest.approx(plan.duration_s / 12, rel=0.1)


@pytest.mark.parametrize("at", range(2, 14))
def test_a_run_stopped_at_any_trial_goes_on_to_the_same_results(tmp_path: Path, at: int) -> None:
    plan = short_plan("epoll", "io_uring")
    whole, _ = run(plan, FakeHost(), tmp_path / "whole")
    host = FakeHost({at: "stopped"})
    with pytest.raises(KeyboardInterrupt):
        run(plan, host, tmp_path / "torn")
    assert host.running == []
    kept = store.read_trials(store.folder_of(plan, tmp_path / "torn")).results
    assert len(kept) == at - 2
    resumed, events = run(plan, FakeHost(), tmp_path / "torn")
    opened = next(event for event in events if isinstance(event, Opened))
    assert (opened.done, opened.planned) == (len(kept), 12)
    assert [result.trial for result in resumed] == [result.trial for result in whole]
    assert verdict.judge(plan, resumed) == verdict.judge(plan, whole)


@pytest.mark.parametrize(
    ("fault", "kind"), [("dies", "died"), ("not_started", "address_in_use"), ("very_late", "lab_late"), ("busy", None)]
)
def test_a_void_trial_stays_in_the_record_and_its_block_is_run_again(
    tmp_path: Path, fault: str, kind: str | None
) -> None:
    plan = short_plan("epoll", "io_uring")
    results, _ = run(plan, FakeHost({4: fault}), tmp_path)
    discarded = [result for result in results if result.discarded]
    assert len(discarded) == 1
    assert (discarded[0].failure and discarded[0].failure.kind) == kind
    assert kind or [warning.word for warning in discarded[0].warnings] == ["machine_busy"]
    again = [result for result in results if result.trial.attempt == 1]
    assert [result.trial.block for result in again] == [discarded[0].trial.block] * 2, (
        "both contestants, not half a block"
    )
    assert verdict.judge(plan, results)[0].blocks_used == 6


@pytest.mark.parametrize("fault", ["busy", "dies"])
def test_a_void_trial_of_many_is_run_again_in_its_own_block_wherever_the_run_is_stopped(
    tmp_path: Path, fault: str
) -> None:
    plan = vs_plan(["epoll", "io_uring", "thread", "prefork"], SHORT, blocks=8)
    looks = 4
    host = FakeHost({looks + 5: fault})
    whole, _ = run(plan, host, tmp_path / "whole")
    again = [place for place, result in enumerate(whole) if result.trial.attempt]
    assert [(whole[place].trial.block, place) for place in again] == [(1, 8)], "after the four of its block"
    assert verdict.judge(plan, whole)[0].not_judged == {}
    torn = FakeHost({looks + 5: fault, looks + 8: "stopped"})
    with pytest.raises(KeyboardInterrupt):
        run(plan, torn, tmp_path / "torn")
    resumed, _ = run(plan, FakeHost(), tmp_path / "torn")
    assert [result.trial for result in resumed] == [result.trial for result in whole]
    assert verdict.judge(plan, resumed) == verdict.judge(plan, whole)


def test_a_generator_that_does_not_name_its_window_is_run_no_more(tmp_path: Path) -> None:
    results, _ = run(short_plan("epoll", "io_uring", "thread"), FakeHost({5: "mute"}), tmp_path)
    (failure,) = (result.failure for result in results if result.failure is not None)
    assert (failure.kind, failure.final) == ("contract", True)
    assert failure.message == "the load generator said measured where measuring was due"


def test_a_contestant_that_answers_wrongly_is_not_compared_and_the_others_are(tmp_path: Path) -> None:
    plan = short_plan("epoll", "io_uring", "thread")
    clean = FakeHost()
    run(plan, clean, tmp_path / "clean")
    first = clean.started.index("io_uring")
    results, events = run(plan, FakeHost({first: "wrong", first + 1: "wrong"}), tmp_path / "wrong")
    failed = [result for result in results if result.failure is not None]
    assert [(r.failure.kind, r.failure.final) for r in failed if r.failure] == [("wrong_replies", True)]
    assert len(results) == 1 + 2 * 7
    assert {event.contestant for event in events if isinstance(event, Checked) and event.failure} == {"io_uring"}
    assert verdict.judge(plan, results)[0].blocks_used == 7


def test_a_first_look_that_fails_by_chance_is_taken_once_more(tmp_path: Path) -> None:
    results, _ = run(short_plan("epoll", "io_uring"), FakeHost({0: "not_started"}), tmp_path)
    assert len(results) == 12
    assert not any(result.failure for result in results)


def test_a_first_look_makes_as_many_requests_a_connection_as_a_trial(tmp_path: Path) -> None:
    asked: list[LoadSpec] = []

    class Recording(FakeHost):
        def load(self, spec: LoadSpec) -> FakeLoad:
            asked.append(spec)
            return super().load(spec)

    plan = vs_plan(("epoll", "io_uring"), {**SHORT, "requests_per_connection": 1}, blocks=BLOCKS[2])
    run(plan, Recording(), tmp_path)
    # The server may close each connection after one call, which would look like an error with more calls.
    assert {spec.requests_per_connection for spec in asked} == {1}


def test_a_contestant_this_machine_cannot_run_is_started_no_more(tmp_path: Path) -> None:
    plan = short_plan("epoll", "io_uring", "thread")
    host = FakeHost({5: "no_io_uring"})
    results, _ = run(plan, host, tmp_path)
    gone = host.started[5]
    assert gone not in host.started[6:]
    assert sum(result.failure is not None for result in results) == 1


def test_the_generator_has_an_account_of_its_window_beside_the_servers(tmp_path: Path) -> None:
    results, _ = run(short_plan("epoll", "io_uring"), FakeHost(), tmp_path)
    for result in results:
        assert result.report is not None
        assert result.server is not None
        used, cpu_ns = result.server, result.report.generator.cpu_ns
        assert (used.client_user_ns, used.client_faults_minor) == (round(cpu_ns / 3), 0)
        assert used.client_system_ns == cpu_ns - round(cpu_ns / 3)
        window_ms = used.wall_ns // 1_000_000
        assert (used.client_switches_voluntary, used.client_switches_involuntary) == (window_ms, window_ms // 10)


@pytest.mark.parametrize(("share", "probed"), [(95, False), (50, True)])
def test_a_cell_that_leaves_both_sides_idle_is_tried_with_twice_as_many_in_flight(
    tmp_path: Path, share: int, probed: bool
) -> None:
    plan, host = short_plan("epoll", "io_uring"), FakeHost()
    host.busy_percent = share
    run(plan, host, tmp_path)
    counts = store.read_trials(store.folder_of(plan, tmp_path)).counts
    assert len(host.started) == 2 + len(schedule(plan)) + (4 if probed else 0)
    assert host.connections[-2:] == ([50, 100] if probed else [50, 50])
    # The fake server is as fast with more connections.
    assert [count.limit and count.limit.gain for count in counts] == [pytest.approx(1.0) if probed else None] * 2


def test_a_late_first_reading_is_made_up_for_by_the_servers_own_rate(tmp_path: Path) -> None:
    results, _ = run(short_plan("epoll", "io_uring"), FakeHost({3: "late"}), tmp_path)
    usages = [result.server for result in results if result.server]
    assert len(usages) == 12
    for usage in usages:
        assert usage.cpu_ns == pytest.approx(0.95 * usage.wall_ns, rel=1e-6), "the fake server uses 0.95 of a processor"
        assert usage.wall_ns == 1_600_000_000
        assert (usage.rss_bytes_median, usage.rss_bytes_max, usage.pss_bytes) == (10 << 20, 12 << 20, 9 << 20)


def test_results_of_another_engine_are_set_aside_and_kept(tmp_path: Path) -> None:
    plan = short_plan("epoll", "io_uring")
    before, _ = run(plan, FakeHost(identity="one"), tmp_path)
    host = FakeHost(identity="two")
    _, events = run(plan, host, tmp_path)
    opened = next(event for event in events if isinstance(event, Opened))
    assert opened.set_aside is not None
    assert store.read_trials(opened.set_aside).results == before
    assert len(host.started) == 14


def test_a_finished_run_is_not_run_again_unless_it_is_asked_for(tmp_path: Path) -> None:
    plan = short_plan("epoll", "io_uring")
    run(plan, FakeHost(), tmp_path)
    idle, anew = FakeHost(), FakeHost()
    run(plan, idle, tmp_path)
    assert idle.started == []
    _, events = run(plan, anew, tmp_path, fresh=True)
    assert len(anew.started) == 14
    opened = next(event for event in events if isinstance(event, Opened))
    assert opened.set_aside is not None


@pytest.mark.parametrize(
    ("stopped_at", "executed", "repeat", "expected"),
    [
        # What is repeated: nothing if the run resumes with the same programs, everything otherwise.
        (None, {"cmd": {"./mine": "1"}}, False, None),
        (None, {"cmd": {"./mine": "1"}}, True, ""),
        (8, {"cmd": {"./mine": "1"}}, True, None),
        (8, {"cmd": {"./mine": "2"}}, True, "./mine has changed"),
        (8, {"cmd": {"./mine": "1", "x.conf": "1"}}, False, "x.conf is new"),
        (8, {"cmd": {"x.conf": "1"}}, False, "./mine is gone; x.conf is new"),
    ],
)
def test_a_run_goes_on_only_with_the_programs_it_began_with(
    tmp_path: Path, stopped_at: int | None, executed: dict[str, dict[str, str]], repeat: bool, expected: str | None
) -> None:
    plan = short_plan("epoll", "io_uring")
    first = FakeHost({} if stopped_at is None else {stopped_at: "stopped"})
    first.executed = {"cmd": {"./mine": "1"}}
    with suppress(KeyboardInterrupt):
        run(plan, first, tmp_path)
    kept = store.read_trials(store.folder_of(plan, tmp_path)).results
    now, events = FakeHost(), list[Event]()
    now.executed = executed
    runner.run(plan, now, tmp_path, events.append, repeat=repeat, clocks=now.clocks())
    opened = next(event for event in events if isinstance(event, Opened))
    assert opened.done == (len(kept) if expected is None else 0)
    assert opened.changed == (expected or "")
    if expected is None:
        assert opened.set_aside is None
    else:
        assert opened.set_aside is not None
        assert store.read_trials(opened.set_aside).results == kept
    assert (opened.ended is not None) is (stopped_at is None and expected is None)


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("damaged", [layout.MACHINE, layout.PLAN])
def test_an_earlier_run_that_cannot_be_read_is_set_aside(tmp_path: Path, damaged: str, fresh: bool) -> None:
    plan = short_plan("epoll", "io_uring")
    with suppress(KeyboardInterrupt):
        run(plan, FakeHost({8: "stopped"}), tmp_path)
    (store.folder_of(plan, tmp_path) / damaged).write_text('{"torn')
    _, events = run(plan, FakeHost(), tmp_path, fresh=fresh)
    (opened,) = (event for event in events if isinstance(event, Opened))
    assert opened.changed == "the earlier run cannot be read"
    assert opened.set_aside is not None
    assert store.read_trials(opened.set_aside).results


def test_a_run_that_fails_before_its_first_trial_gives_the_earlier_one_its_folder_back(tmp_path: Path) -> None:
    plan, events = short_plan("epoll", "io_uring"), list[Event]()
    before, _ = run(plan, FakeHost(), tmp_path)
    host = FakeHost({0: "no_io_uring", 1: "no_io_uring"})
    with pytest.raises(ContestantFailed):
        runner.run(plan, host, tmp_path, events.append, fresh=True, all_or_none=True, clocks=host.clocks())
    folder = store.folder_of(plan, tmp_path)
    assert store.read_trials(folder).results == before
    assert list(tmp_path.iterdir()) == [folder]
    assert events[-1] == PutBack(folder)


class LoggingHost(FakeHost):
    """A host whose server writes a file that its command names."""

    def __init__(self, log: Path, faults: dict[int, str] | None = None) -> None:
        super().__init__(faults)
        self.log = log

    def programs(self, plan: Plan) -> dict[str, dict[str, str]]:
        text = self.log.read_text() if self.log.exists() else None
        return {"cmd": {"./mine": "1"} | ({} if text is None else {"out.log": text})}

    def start(self, cell: Cell, *, count_calls: bool = False) -> FakeServer:
        with self.log.open("a") as file:
            file.write("started\n")
        return super().start(cell, count_calls=count_calls)


@pytest.mark.parametrize("is_there", [False, True])
def test_a_run_whose_server_writes_a_file_that_its_command_names_goes_on(tmp_path: Path, is_there: bool) -> None:
    plan, log = short_plan("epoll", "io_uring"), tmp_path / "out.log"
    if is_there:
        log.write_text("before\n")
    for stops in (8, 6):
        with pytest.raises(KeyboardInterrupt):
            run(plan, LoggingHost(log, {stops: "stopped"}), tmp_path / "runs")
    results, events = run(plan, LoggingHost(log), tmp_path / "runs")
    (opened,) = (event for event in events if isinstance(event, Opened))
    assert (opened.done, opened.changed) == (10, "")
    assert len(results) == 12
    machine = store.read_machine(store.folder_of(plan, tmp_path / "runs"))
    assert machine["identity"]["programs"] == {"cmd": {"./mine": "1", "out.log": "written by the server"}}
    # Nothing is left to run, and the mark stays.
    run(plan, idle := LoggingHost(log), tmp_path / "runs")
    assert idle.started == []
    assert store.read_machine(store.folder_of(plan, tmp_path / "runs")) == machine


class RebuiltHost(FakeHost):
    """A host whose program is rebuilt during the trial with this number."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at

    def programs(self, plan: Plan) -> dict[str, dict[str, str]]:
        return {"cmd": {"./mine": "2" if len(self.started) > self.at else "1"}}


@pytest.mark.parametrize(("at", "kept"), [(0, None), (1, None), (2, 1), (8, 7), (13, 12)])
def test_a_program_that_is_built_again_during_a_run_ends_it(tmp_path: Path, at: int, kept: int | None) -> None:
    plan = short_plan("epoll", "io_uring")
    with pytest.raises(store.StoreError, match=r"^\./mine has changed since this run began: run it again") as failed:
        run(plan, RebuiltHost(at), tmp_path)
    assert "\n" not in str(failed.value)
    folder = store.folder_of(plan, tmp_path)
    assert folder.exists() == (kept is not None)
    if kept is not None:
        assert len(store.read_trials(folder).results) == kept, (
            "the trial in which it was built had begun with the old one"
        )
        assert store.ended(folder) is None


def test_a_signal_while_a_result_is_stored_waits_until_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = store.Writer.append

    def interrupted_append(writer: store.Writer, result: Result) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        append(writer, result)

    monkeypatch.setattr(store.Writer, "append", interrupted_append)
    plan = short_plan("epoll", "io_uring")
    with pytest.raises(Stopped) as stopped, stopping.stopping_on([signal.SIGTERM]):
        run(plan, FakeHost(), tmp_path)
    assert stopped.value.code == 143
    kept = store.read_trials(store.folder_of(plan, tmp_path))
    assert (len(kept.results), kept.faults) == (1, ())


def test_processors_are_chosen_where_a_plan_names_none_and_kept_where_it_does() -> None:
    plan = short_plan("epoll", "io_uring")
    topology = [Cpu(0, 0), Cpu(1, 1)]
    chosen, why = placement.placed(plan, topology)
    assert [(cell.server.cpus, cell.load.cpus) for cell in chosen.comparisons[0].cells] == [((0,), (1,))] * 2
    assert why == ("one core for each thread",)
    assert chosen.digest != plan.digest, "a run on other processors is another run"
    given, why = placement.placed(with_settings(plan, {"server.cpus": (1,), "load.cpus": "0"}), topology)
    assert [(cell.server.cpus, cell.load.cpus) for cell in given.comparisons[0].cells] == [((1,), (0,))] * 2
    assert why == ("as given",)


EXPERIMENTS = sorted((Path(__file__).parent.parent / "experiments").glob("*.toml"))


def test_a_share_of_capacity_is_measured_once_and_the_same_rate_for_all(tmp_path: Path) -> None:
    plan = with_settings(short_plan("epoll", "io_uring"), {"load.rate": "50% of capacity of the slowest"})
    asked = list[float | None]()

    class Host(FakeHost):
        def load(self, spec: LoadSpec) -> Any:
            asked.append(spec.pace.stages[0].from_per_s if isinstance(spec.pace, OpenLoop) else None)
            return super().load(spec)

    host, events = Host(), list[Event]()
    folder = runner.run(plan, host, tmp_path, events.append, clocks=host.clocks())
    # epoll serves 100,000 requests per second; io_uring serves more.
    assert [each.capacity_per_s for each in events if isinstance(each, CapacityMeasured)] == [100_000]
    assert set(asked) == {None, 50_000}
    assert store.read_machine(folder)["capacities_per_s"] == {"vs": 100_000}
    assert store.read_plan(folder).comparisons[0].cells[0].load.rate == "50% of capacity of the slowest"
    again = list[Event]()
    runner.run(plan, host, tmp_path, again.append, clocks=host.clocks())
    assert not [each for each in again if isinstance(each, CapacityMeasured)], "a resumed run goes on with it"


MACHINES = {
    "2 processors": [Cpu(number, number) for number in range(2)],
    "24 processors, 12 cores": [Cpu(number, number % 12) for number in range(24)],
    "64 processors, 32 cores, 2 nodes": [
        Cpu(number, number % 32, number % 32 // 16, number % 32 // 16) for number in range(64)
    ],
}


@pytest.mark.parametrize(
    ("settings", "server", "load"),
    [
        ({}, (1,), (2,)),
        ({"server.workers": 2, "load.threads": 2}, (1, 2), (3, 4)),
        ({"server.cpus": "0-1"}, (0, 1), (2,)),
        ({"server.cpus": "0", "load.threads": 2}, (0,), (1, 2)),
        # 12 is the SMT sibling of 0.
        ({"load.cpus": "12"}, (1,), (12,)),
        ({"load.cpus": "3", "server.cpus": "3"}, (3,), (3,)),
        ({"trial.processors": "shared"}, (1,), (1,)),
        ({"trial.processors": "shared", "server.cpus": "5"}, (5,), (5,)),
        ({"load.processes": 3}, (1,), (2, 3, 4)),
    ],
)
def test_each_side_has_the_processors_it_names_or_cores_beside_them(
    settings: dict[str, Any], server: tuple[int, ...], load: tuple[int, ...]
) -> None:
    plan = with_settings(short_plan("epoll", "io_uring"), settings)
    placed, _ = placement.placed(plan, MACHINES["24 processors, 12 cores"])
    assert {(cell.server.cpus, cell.load.cpus) for cell in placed.comparisons[0].cells} == {(server, load)}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_every_experiment_has_its_place_on_machines_small_and_large(path: Path, machine: str) -> None:
    """With `processors = "apart"`, no core serves both sides, and each worker has its own core if there are enough."""
    topology = MACHINES[machine]
    core_of = {cpu.id: (cpu.node, cpu.package, cpu.core) for cpu in topology}
    plan = load_experiment(path)
    placed, _ = placement.placed(plan, topology)
    cells = zip(cells_of(plan), cells_of(placed), strict=True)
    for asked, cell in cells:
        if cell.trial.processors == "shared":
            assert cell.server.cpus == cell.load.cpus
            continue
        server, load = ({core_of.get(number, number) for number in cpus} for cpus in (cell.server.cpus, cell.load.cpus))
        assert not server & load
        workers, threads = cell.server.workers_in_all, cell.load.threads_in_all
        is_chosen = not asked.server.cpus and not asked.load.cpus
        if is_chosen and workers + threads <= len(set(core_of.values())):
            assert (len(server), len(load)) == (workers, threads)


def cells_of(plan: Plan) -> list[Cell]:
    return [cell for comparison in plan.comparisons for cell in comparison.cells]


def test_who_is_left_out_is_never_started_and_stands_in_the_record(tmp_path: Path) -> None:
    plan, host = short_plan("epoll", "io_uring", "blocking"), FakeHost()
    events: list[Event] = []
    holds = Failure(kind="holds", message="holds 1", final=True)
    folder = runner.run(plan, host, tmp_path, events.append, left_out={(0, 2): holds}, clocks=host.clocks())
    assert "blocking" not in host.started + host.counted
    results = store.read_trials(folder).results
    assert [result.failure for result in results if result.trial.slot == 2] == [holds]
    assert [event for event in events if isinstance(event, LeftOut)] == [LeftOut("blocking", "vs", "holds 1")]
    assert verdict.judge(plan, results)[0].blocks_used == 7


def test_costs_are_seen_once_for_each_contestant_and_kept_apart_from_the_trials(tmp_path: Path) -> None:
    plan, host = short_plan("epoll", "io_uring"), FakeHost()
    results, events = run(plan, host, tmp_path)
    assert host.counted == ["epoll", "io_uring"]
    counts = [event.count for event in events if isinstance(event, Counted)]
    assert store.read_trials(store.folder_of(plan, tmp_path)).counts == tuple(counts)
    # Two million syscalls per second at 100,000 and 125,000 requests per second.
    assert [count.per_request for count in counts] == pytest.approx([20, 16], rel=0.01)
    assert [(count.own_bytes_before, count.own_bytes) for count in counts] == [(4 << 20, 9 << 20)] * 2
    assert len(results) == 12
    idle = FakeHost()
    run(plan, idle, tmp_path)
    assert idle.counted == []


def test_a_trial_whose_connections_were_not_all_accepted_is_void(tmp_path: Path) -> None:
    results, _ = run(short_plan("epoll", "io_uring"), FakeHost({4: "waiting"}), tmp_path)
    assert [[warning.detail for warning in result.warnings] for result in results if result.discarded] == [
        ["3 of 50 connections were accepted when the window began"]
    ]


@pytest.mark.parametrize(("final", "kept", "tried"), [(True, 2, 2), (False, 0, 6)])
def test_a_count_that_failed_by_chance_is_reported_and_tried_again_when_the_run_is_resumed(
    tmp_path: Path, final: bool, kept: int, tried: int
) -> None:
    plan = short_plan("epoll", "io_uring")
    host = FakeHost(uncountable=Failure(kind="died", message="it ended", final=final))
    _, events = run(plan, host, tmp_path)
    assert [event.count.why_not for event in events if isinstance(event, Counted)] == ["it ended"] * 2
    assert len(store.read_trials(store.folder_of(plan, tmp_path)).counts) == kept
    assert len(host.counted) == tried
    folder = store.folder_of(plan, tmp_path)
    assert (store.ended(folder) is not None) is final
    resumed = FakeHost()
    runner.run(plan, resumed, tmp_path, lambda event: None, repeat=not final, clocks=resumed.clocks())
    assert resumed.started == [], "only what was not counted is missing"
    assert len(resumed.counted) == 2 - kept
    assert store.ended(folder) is not None
    assert len(store.read_trials(store.folder_of(plan, tmp_path)).counts) == 2


@pytest.mark.parametrize(
    ("damaged", "lost"),
    [
        (lambda text: text[:-9], 1),
        (lambda text: text.replace(b'"calls"', b'"balls"', 1), 1),
        (lambda text: b"\xff\n" + text[9:], 1),
        (lambda text: b"", 2),
    ],
)
def test_a_count_that_an_ended_run_has_lost_is_counted_again_and_nothing_else_changes(
    tmp_path: Path, damaged: Callable[[bytes], bytes], lost: int
) -> None:
    plan = short_plan("epoll", "io_uring")
    run(plan, FakeHost(), tmp_path)
    folder = store.folder_of(plan, tmp_path)
    counts, trials, machine = folder / layout.COUNTS, (folder / layout.TRIALS).read_bytes(), store.read_machine(folder)
    counts.write_bytes(damaged(counts.read_bytes()))
    assert len(store.read_trials(folder).counts) == 2 - lost
    later = Changed()
    run(plan, later, tmp_path)
    assert (later.started, len(later.counted)) == ([], lost)
    assert len(store.read_trials(folder).counts) == 2
    assert (folder / layout.TRIALS).read_bytes() == trials
    assert store.read_machine(folder) == machine | {store.ENDED: store.read_machine(folder)[store.ENDED]}
    assert store.ended(folder) is not None


class Changed(FakeHost):
    """A host with the same identity whose other facts have changed."""

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"versions": {"python": "another"}}


def test_a_server_of_many_tasks_is_measured_without_what_is_slow_to_read(tmp_path: Path) -> None:
    results, _ = run(short_plan("epoll", "io_uring"), FakeHost({4: "large"}), tmp_path)
    assert not any(result.discarded for result in results)
    servers = [result.server for result in results if result.server is not None]
    unread = [server for server in servers if server.context_switches_voluntary is None]
    assert [(server.run_delay_ns, server.context_switches_involuntary) for server in unread] == [(None, None)]
    assert (unread[0].cpu_ns, unread[0].rss_bytes_median) == (servers[0].cpu_ns, servers[0].rss_bytes_median)


@pytest.mark.parametrize(("kind", "named"), [("unavailable", [CanTakePart(("io_uring",))]), ("holds", [])])
def test_a_contestant_that_was_left_out_and_can_take_part_now_is_named(
    tmp_path: Path, kind: str, named: list[CanTakePart]
) -> None:
    plan, host = short_plan("epoll", "io_uring", "thread"), FakeHost()
    left_out = {(0, 1): Failure(kind=kind, message="not here", final=True)}
    events: list[Event] = []
    runner.run(plan, host, tmp_path, events.append, left_out=left_out, clocks=host.clocks())
    assert not any(isinstance(event, CanTakePart) for event in events)
    _, events = run(plan, FakeHost(), tmp_path)
    assert [event for event in events if isinstance(event, CanTakePart)] == named


def test_the_core_to_core_latency_is_measured_before_and_after_each_window(tmp_path: Path) -> None:
    results, _ = run(short_plan("epoll", "io_uring"), FakeHost(core_to_core_series_ns=(50.0, 60.0)), tmp_path)
    assert {result.noise.core_to_core_ns for result in results if result.noise is not None} == {(50.0, 60.0)}


def test_a_record_of_an_earlier_version_opens_with_the_keys_of_now(tmp_path: Path) -> None:
    results, _ = run(short_plan("epoll", "io_uring"), FakeHost({4: "waiting"}), tmp_path)
    stored = next(result for result in results if result.warnings)
    text = stored.model_dump_json()
    for now, then in (("warnings", "doubts"), ("core_to_core_ns", "apart_ns")):
        assert f'"{now}":' in text
        text = text.replace(f'"{now}":', f'"{then}":')
    assert Result.model_validate_json(text) == stored


def test_a_trial_that_counts_requests_and_breaks_keeps_its_report_and_is_not_run_again(tmp_path: Path) -> None:
    plan = vs_plan(["epoll", "io_uring"], {"protocol": "echo", "requests": 1_000}, blocks=BLOCKS[2])
    results, _ = run(plan, FakeHost({5: "wrong"}), tmp_path)
    assert len(results) == 2 * BLOCKS[2]
    (broken,) = [result for result in results if result.discarded]
    assert broken.report is not None
    assert broken.failure is not None
    assert broken.failure.kind == "errors"
    assert broken.failure.message == "2 of 1000 requests failed, first: a pretended wrong reply"
    assert broken.failure.said == ("its last words",)
    how = broken.failure.how
    assert how is not None
    assert (how.request, how.connection, how.phase, how.saw) == (7, 3, "receive", "wrong")
    assert (how.ran_out, how.recovered) == ("processes", False)


def test_a_server_that_dies_is_looked_at_before_it_is_stopped(tmp_path: Path) -> None:
    results, _ = run(short_plan("epoll", "io_uring"), FakeHost({5: "dies"}), tmp_path)
    (failure,) = [result.failure for result in results if result.failure]
    assert failure.kind == "died"
    assert failure.how is not None
    assert failure.how.ran_out == "processes"


def test_a_long_trial_is_stored_minute_by_minute_and_continued_where_it_was_cut_off(tmp_path: Path) -> None:
    plan = vs_plan(["epoll", "io_uring"], {"protocol": "echo", "duration_ms": 300_000}, blocks=BLOCKS[2])
    with pytest.raises(KeyboardInterrupt):
        run(plan, FakeHost({2: "cut"}), tmp_path)
    folder = store.folder_of(plan, tmp_path)
    kept = store.read_trials(folder)
    assert kept.results == ()
    assert [(minute.number, minute.seconds, minute.failed) for minute in kept.minutes] == [(1, 60, 1), (2, 60, 1)]
    first = kept.minutes[0]
    assert (first.rss_bytes, first.generator_rss_bytes) == (10 << 20, 3 << 20)
    assert first.lab_rss_bytes > 0

    results, events = run(plan, FakeHost(), tmp_path)
    continued = next(result for result in results if result.trial == first.trial)
    assert [(piece.seconds, piece.correct, piece.failed) for piece in continued.pieces] == [(120, 2_000, 2)]
    assert continued.report is not None
    assert continued.report.end_ns - continued.report.begin_ns == 180 * 1_000_000_000
    assert continued.answered == continued.report.requests.correct + 2_000
    assert continued.unanswered == 2
    assert not any(result.pieces for result in results if result.trial != first.trial)
    assert len([event for event in events if isinstance(event, MinuteOver)]) == 3 + 11 * 5


@pytest.mark.parametrize(
    ("duration_ms", "interval_ms"),
    [(3_000, 20), (190_000, 20), (300_000, 40), (24 * 3_600_000, 8_660)],
)
def test_the_series_of_a_trial_stays_short_however_long_it_is(duration_ms: int, interval_ms: int) -> None:
    plan = vs_plan(["epoll", "io_uring"], {"protocol": "echo", "duration_ms": duration_ms})
    cell = plan.comparisons[0].cells[0]
    spec = load_spec(cell, FakeServer(FakeHost(), cell, ""))
    assert spec.interval_ms == interval_ms
