"""The lab as a process: killed, stopped and resumed, with the fake and the real engine.

The promise: `kill -9` of the lab leaves no server or generator behind and loses no finished trial.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import FAKE_ENGINE, PATIENCE_S, wait_until
from iolab.judge import trial
from iolab.machine import proc
from iolab.measure import engine, follower, trial_run
from iolab.measure.agent import Agent
from iolab.plan.experiment import load_experiment, vs_plan
from iolab.plan.schedule import schedule
from iolab.plan.settings import Scalar
from iolab.results import store
from iolab.results.records import Result

LAB = Path(engine.__file__).resolve().parent.parent
FOREIGN = f"cmd:{sys.executable} -S {FAKE_ENGINE} forks {{port}}"

EXPERIMENT = """
name = "small"
question = "Does it survive?"
contestants = {contestants}
blocks = 6
[fixed]
workload.protocol = "echo"
load.connections = 4
load.rate = 1000
trial.warmup_ms = {warmup_ms}
trial.duration_ms = {duration_ms}
"""


# Every lab that a test starts; it ends with the test, even if the test fails.
STARTED: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def every_lab_ends() -> Iterator[None]:
    yield
    while STARTED:
        process = STARTED.pop()
        process.kill()
        process.communicate()


class Lab:
    """An `iolab run` of one experiment, in its own folder."""

    def __init__(
        self, folder: Path, engine_path: Path, contestants: list[str], trial_ms: int, pace: float = 1.0
    ) -> None:
        self.runs = folder / "runs"
        self.experiment = folder / "small.toml"
        filled = EXPERIMENT.format(contestants=json.dumps(contestants), warmup_ms=trial_ms, duration_ms=trial_ms)
        self.experiment.write_text(filled)
        self._environment = os.environ | {
            "PYTHONPATH": str(LAB),
            "IOLAB_ENGINE": str(engine_path),
            "FAKE_PACE": str(pace),
        }

    def start(self, pace: float | None = None) -> subprocess.Popen[str]:
        """Starts the lab as a session leader, as a terminal would.

        With a `pace`, the fake engine sleeps only that share of each trial.
        """
        process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "import sys; from iolab.__main__ import main; sys.exit(main())",
                "run",
                str(self.experiment),
                "--out",
                self.runs,
            ],
            env=self._environment if pace is None else self._environment | {"FAKE_PACE": str(pace)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        STARTED.append(process)
        return process

    @property
    def results(self) -> tuple[Result, ...]:
        """The current contents of the store."""
        folder = next(self.runs.glob("small-*"), None)
        return store.read_trials(folder).results if folder else ()


def is_alive(pid: int, born: str) -> bool:
    """Whether this process still runs: not a zombie, and not another process with the same id."""
    fields = born_and_state(pid)
    return fields is not None and fields[0] == born and fields[1] not in "ZX"


def born_and_state(pid: int) -> tuple[str, str] | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return fields[19], fields[0]


def children_of(process: subprocess.Popen[str]) -> dict[int, str]:
    """All descendants alive now, with their start times."""
    found = {pid: born_and_state(pid) for pid in proc.look(process.pid).pids[1:]}
    return {pid: fields[0] for pid, fields in found.items() if fields is not None}


def check_kill(lab: Lab, at: random.Random) -> None:
    """Kills a run at a random time in a random trial; no process is left, no finished trial is lost, and it resumes."""
    process = lab.start()
    target = at.randrange(1, 6)
    wait_until(lambda: len(lab.results) >= target or process.poll() is not None, f"{target} trials are stored")
    wait_until(lambda: len(children_of(process)) >= 2 or process.poll() is not None, "a server and a generator run")
    time.sleep(at.uniform(0, 0.1))
    children, kept = children_of(process), lab.results
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL, "the lab ended before it could be killed"
    wait_until(lambda: not any(is_alive(*child) for child in children.items()), f"all of {children} are gone")
    after = lab.results
    assert after[: len(kept)] == kept
    # The rest need not take real time.
    resumed = lab.start(pace=0)
    _, said = resumed.communicate(timeout=PATIENCE_S)
    # The run completes. On a busy machine exit code 3 says that nothing can be concluded.
    assert resumed.returncode in (0, 3), said
    assert f"{len(after)} of " in said
    places = [result.trial.place for result in lab.results]
    assert len(places) == len(set(places)), "a trial was counted twice"
    assert lab.results[: len(after)] == after
    plan = load_experiment(lab.experiment)
    assert {place.block for place in places} == set(range(plan.blocks))


@pytest.mark.parametrize("seed", range(2))
def test_a_killed_lab_leaves_nothing_behind_and_loses_no_finished_trial(
    tmp_path: Path, fake_path: Path, seed: int
) -> None:
    lab = Lab(tmp_path, fake_path, ["epoll", FOREIGN], trial_ms=100)
    check_kill(lab, random.Random(seed))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_stopped_lab_ends_its_children_keeps_its_trials_and_says_how_to_go_on(
    tmp_path: Path, fake_path: Path, number: signal.Signals, code: int
) -> None:
    lab = Lab(tmp_path, fake_path, ["epoll", FOREIGN], trial_ms=1_000)
    process = lab.start()
    wait_until(lambda: len(lab.results) >= 1 and len(children_of(process)) >= 2, "a trial is stored, another runs")
    children, kept = children_of(process), lab.results
    process.send_signal(number)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code, said
    assert not any(is_alive(*child) for child in children.items())
    assert lab.results == kept, "it did not wait for the trial to end"
    assert f"stopped by {number.name}; finished trials are kept in {lab.runs}/small-" in said
    assert f"to continue: iolab run {lab.experiment} --out {lab.runs}" in said


def test_two_labs_do_not_write_one_run(tmp_path: Path, fake_path: Path) -> None:
    lab = Lab(tmp_path, fake_path, ["epoll", "io_uring"], trial_ms=1_000)
    first = lab.start()
    wait_until(lambda: len(children_of(first)) >= 1, "the first lab measures")
    second = lab.start()
    _, said = second.communicate(timeout=PATIENCE_S)
    assert second.returncode == 1
    assert "another iolab is writing this run: wait for it, or stop it" in said


@pytest.mark.engine
def test_with_the_real_engine_a_killed_lab_leaves_nothing_behind(tmp_path: Path, real_engine: engine.Engine) -> None:
    lab = Lab(tmp_path, real_engine.path, ["epoll", "fork"], trial_ms=200)
    check_kill(lab, random.Random(1))


@pytest.mark.engine
@pytest.mark.parametrize("protocol", ["echo", "http"])
def test_the_real_engine_measures_each_of_its_models(real_engine: engine.Engine, protocol: str) -> None:
    """Does not judge figures: each trial must have one, with consistent counts and a server that was sampled.

    Requests take real time. If the machine is so busy that no request was answered within a window, or that the lab
    sampled too late, a longer window is used.
    """
    models = [m.name for m in real_engine.description.models if m.available and protocol in m.protocols]
    assert {"epoll", "thread"} <= set(models)
    for model in models:
        for duration_ms in (200, 2_000, 20_000):
            result = measured(real_engine, model, protocol, duration_ms)
            was_late = result.failure is not None and result.failure.kind == "lab_late"
            was_silent = result.report is not None and result.report.requests.correct == 0
            if not was_late and not was_silent:
                break
        check_measured(result)


def measured(real_engine: engine.Engine, model: str, protocol: str, duration_ms: int) -> Result:
    """One trial with one connection, because some models serve no more at a time."""
    setting: dict[str, Scalar] = {"protocol": protocol, "connections": 1, "warmup_ms": 100, "duration_ms": duration_ms}
    plan = vs_plan([model, model], setting)
    first = schedule(plan)[0]
    return trial.judged(plan.cell(first), trial_run.measure(Agent(real_engine), plan.cell(first), first))


def check_measured(result: Result) -> None:
    """Checks what holds for any trial of any model, even on a busy machine."""
    assert result.failure is None, result.failure
    assert result.report is not None
    assert result.server is not None
    report = result.report
    requests = report.requests
    assert requests.correct > 0
    assert (requests.wrong, requests.failed) == (0, 0), report.first_error
    begun, ended = requests.sent + requests.in_flight_begin, requests.correct + requests.in_flight_end
    assert begun == ended
    assert 0 < result.server.cpu_ns <= 1.2 * (os.cpu_count() or 1) * result.server.wall_ns
    assert 0 < result.server.rss_bytes_median <= result.server.rss_bytes_max
    assert {warning.word for warning in result.warnings}.isdisjoint({"counts_open", "bytes_open"})


@pytest.mark.engine
def test_a_capacity_agrees_with_its_runs_and_with_what_a_call_costs(tmp_path: Path, real_engine: engine.Engine) -> None:
    """2 ms of CPU time per call allow at most 500 calls per second, on any machine.

    The actual number depends on the load of the machine. tests/test_capacity_search.py tests the accuracy of a search
    with simulated servers.
    """
    plan = vs_plan(["epoll", "epoll"], {"protocol": "rpc", "work_ns": 2_000_000})
    first = schedule(plan)[0]
    with follower.running(Agent(real_engine).start(plan.cell(first))) as server:
        found = asked_for_capacity(tmp_path, f"tcp://{server.addresses[0]}")
    runs = found["runs"]
    assert found["finished"]
    assert runs[0]["purpose"] == "closed loop"
    costs_ns = [run["cpu_per_request_ns"] for run in runs if run["cpu_per_request_ns"] is not None]
    assert costs_ns, "the process of the server was found"
    # On a busy machine the lab may sample late and miss a part of a run's time, but not in all runs.
    assert max(costs_ns) >= 1.5e6, "it is the server's time that was read"
    assert "<svg" in Path(found["report"]).read_text()
    if found["capacity_per_s"] is None:
        return
    assert found["capacity_per_s"] <= 1.1 * 500
    if found["kind"] == "capacity":
        low_per_s, high_per_s = found["interval_per_s"]
        assert low_per_s <= found["capacity_per_s"] <= high_per_s
        assert runs[-1]["purpose"] == "recovery"
        # Sentences on other states of the machine, if any, come between these.
        capacity, *_, overload, recovery = found["sentences"]
        assert capacity.startswith("The capacity under p50<25ms is ")
        assert overload.startswith("At 1.5 times the capacity, the server answers ")
        assert recovery.startswith("After 0.5 s of overload, at 0.5 times the capacity, the server ")


def asked_for_capacity(folder: Path, url: str, *arguments: str) -> dict[str, Any]:
    """The result of `iolab capacity` for an rpc server, in short runs with even arrivals."""
    short = ("--protocol", "rpc", "--precision", "25%", "--probe", "500ms", "--arrivals", "even", "--slo", "p50<25ms")
    iolab = (sys.executable, "-c", "import sys; from iolab.__main__ import main; sys.exit(main())")
    done = subprocess.run(
        [*iolab, "capacity", "--json", "--out", str(folder), *short, url, *arguments],
        env=os.environ | {"PYTHONPATH": str(LAB)},
        capture_output=True,
        text=True,
        timeout=5 * PATIENCE_S,
        check=False,
    )
    found: dict[str, Any] = json.loads(done.stdout or "null") or pytest.fail(done.stderr)
    assert done.returncode == (0 if found["kind"] in ("capacity", "at least", "never") else 1), done.stderr
    return found
