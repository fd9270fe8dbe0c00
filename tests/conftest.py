"""Shared by the tests: the fake engine, a simulated host, and a check that the tests leave nothing behind."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, redirect_stderr, redirect_stdout, suppress
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from markupsafe import Markup

import fake_engine
from iolab import cli
from iolab.contract.ready import ReadyLine
from iolab.contract.types import (
    Interval,
    LoadReady,
    LoadSpec,
    Measured,
    Measuring,
    PathReport,
    Report,
    Served,
    ServeReady,
    WorkerCounts,
    Workload,
)
from iolab.judge import stats
from iolab.machine import noise, proc
from iolab.machine.netstat import ListenCounters
from iolab.measure import agent, binary, contestants, observer
from iolab.measure.agent import Calls, Passed, RunningServer
from iolab.measure.broken import Vitals
from iolab.measure.engine import Engine, LoadEvent, TrialFailed, open_engine
from iolab.measure.observer import Observer, Sample
from iolab.measure.progress import Clocks
from iolab.measure.protocol_probe import Mismatch
from iolab.plan.plan import Plan
from iolab.plan.settings import Cell
from iolab.results.records import ClientRun, Failure, MachineNoise

FAKE_ENGINE = Path(fake_engine.__file__)
FAKE_SCRIPT = """#!/bin/sh
[ "$1" = distance ] && exit 1
[ -f "{folder}/$*" ] && command -p cat "{folder}/$*" && exit
exec {python} -I -S {engine} "$@"
"""
MS = 1_000_000
# Far longer than the slowest machine needs: only a hang takes this long.
PATIENCE_S = 120.0
# Marks the processes of these tests: an environment variable, which child processes inherit.
MARK = "IOLAB_TESTS"

# The same examples every time, and no deadline on slow machines.
settings.register_profile("iolab", deadline=None, derandomize=True, database=None)
settings.load_profile("iolab")

# A shell starts background commands with SIGINT ignored, and the processes of these tests would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Waits for `condition`; fails after PATIENCE_S seconds."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, f"not within {PATIENCE_S:.0f} s: {what}"
        time.sleep(0.01)


class Done(NamedTuple):
    """The exit code and output of a command."""

    exit_code: int
    stdout: str
    stderr: str


def iolab(*arguments: str | Path) -> Done:
    """Runs the command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = cli.main([str(argument) for argument in arguments])
        except SystemExit as ended:
            code = int(ended.code or 0)
    return Done(code, out.getvalue(), err.getvalue())


def is_alive(pid: int) -> bool:
    """Whether a process runs. A zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fails if the tests leave a process, a socket or a temporary file behind.

    Their processes carry a mark in the environment, so they are found even after their parents have exited. Each is
    killed by its id.
    """
    temporary = tmp_path_factory.mktemp("temporary")
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    sockets = open_sockets()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MARK, mark)
        patch.setenv("TMPDIR", str(temporary))
        patch.setattr(tempfile, "tempdir", None)
        yield
    processes = marked(f"{MARK}={mark}".encode())
    for pid in processes:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert processes == {}, "processes are left"
    assert open_sockets() == sockets, "sockets are left open"
    assert list(temporary.iterdir()) == [], "temporary files are left"


def marked(mark: bytes) -> dict[int, str]:
    """The other processes with this word in their environment, and their commands.

    Waits up to PATIENCE_S for them: a process whose parent was killed exits when its standard input closes.
    """
    found: dict[int, str] = {}

    def look() -> bool:
        found.clear()
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (path / "environ").read_bytes().split(b"\0") and int(path.name) != os.getpid():
                    found[int(path.name)] = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue  # it has ended, or it is another user's
        return not found

    end = time.monotonic() + PATIENCE_S
    while not look() and time.monotonic() < end:
        time.sleep(0.01)
    return found


def open_sockets() -> set[str]:
    """The TCP sockets of this process. Socket pairs do not count: a runtime keeps some, and they have no address."""
    links = set()
    for entry in os.listdir("/proc/self/fd"):
        try:
            links.add(os.readlink(f"/proc/self/fd/{entry}"))
        except OSError:
            continue  # the descriptor of the folder itself
    tables = [table for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")) if table.exists()]
    return links & {f"socket:[{line.split()[9]}]" for table in tables for line in table.read_text().splitlines()[1:]}


@pytest.fixture(scope="session")
def fake_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fake engine as one executable file, run by the Python of these tests with nothing that it does not need.

    The shell answers what the lab requests most often without starting Python: it refuses the core-to-core latency, and
    prints the descriptions of the engine and of the models without options from files.
    """
    folder = tmp_path_factory.mktemp("engine")
    (folder / "describe").write_text(json.dumps(fake_engine.description()) + "\n")
    for name in fake_engine.RATES:
        (folder / f"describe --model {name}").write_text(json.dumps(fake_engine.model(name, {})) + "\n")
    path = folder / "iolab-engine"
    path.write_text(FAKE_SCRIPT.format(folder=folder, python=sys.executable, engine=FAKE_ENGINE))
    path.chmod(0o755)
    return path


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, fake_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """The fake engine, chosen by IOLAB_ENGINE. Its figures are the same in every run of a test."""
    monkeypatch.setenv("IOLAB_ENGINE", str(fake_path))
    monkeypatch.setenv("FAKE_RUNS", str(tmp_path_factory.mktemp("fake") / "runs"))
    return open_engine()


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that looks idle, whatever runs on it."""
    monkeypatch.setattr(noise, "ticks", lambda: noise.Ticks(0, 0, 0))
    # On an idle machine the lab samples in time. Here it may be late, which does not change the fake's figures.
    monkeypatch.setattr(observer, "LATE_SHARE_MAX", 0.99)


@pytest.fixture(autouse=True)
def nothing_waits_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test can see what survives a power failure. The tests of fsync patch it themselves."""
    monkeypatch.setattr(os, "fsync", lambda file: None)


@pytest.fixture(autouse=True)
def ports_stay_free(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Binds each port that the lab picks for a server, so that no other process gets it before the server listens.

    Linux allows both binds while this one does not listen and both sockets have SO_REUSEADDR, as in all test servers.
    """
    with ExitStack() as bound:

        def free_ports(count: int) -> tuple[int, ...]:
            sockets = [bound.enter_context(socket.socket()) for _ in range(count)]
            for each in sockets:
                each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                each.bind((contestants.HOST, 0))
            return tuple(each.getsockname()[1] for each in sockets)

        monkeypatch.setattr(contestants, "free_ports", free_ports)
        yield


@pytest.fixture
def private() -> Iterator[Path]:
    """A folder for this user alone, with a short path: the path of a Unix socket has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="iolab-") as folder:
        yield Path(folder)


@pytest.fixture
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundredth of the bootstrap's resamples, for tests that read no bootstrapped interval."""
    monkeypatch.setattr(stats, "BOOTSTRAP_RESAMPLES", 99)


@pytest.fixture
def no_charts(monkeypatch: pytest.MonkeyPatch, few_resamples: None) -> None:
    """Reports without charts, which take most of the time of a page. The tests of the report draw them."""
    for name in ("ratios", "evidence", "strips", "quantiles", "bars", "timeline"):
        monkeypatch.setattr(f"iolab.report.charts.{name}", lambda *figures: None)
    monkeypatch.setattr("iolab.report.drawing.inline", lambda chart, title, description: Markup("<svg></svg>"))


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch, fake: Engine, no_charts: None) -> FakeHost:
    """The host that the command line uses: it starts no process, so a run takes no time."""
    host = FakeHost(engine=fake)
    monkeypatch.setattr(agent, "Agent", lambda engine, registered=None, unmet=None: host)
    return host


@pytest.fixture
def real_engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """The engine of this checkout. Skips if it was not built; an outdated engine is an error."""
    monkeypatch.delenv("IOLAB_ENGINE", raising=False)
    try:
        binary.find()
    except binary.EngineError as error:
        pytest.skip(f"the engine is not built: {error}")
    return open_engine()


class FakeHost:
    """A host with simulated servers and generators, on a clock that only they advance.

    `faults` maps the number of a start to its fault, a word of `FAULTS` below. `core_to_core_series_ns` are the
    core-to-core latencies in order, repeated without end.
    """

    FAULTS = (
        "not_started",
        "no_io_uring",
        "dies",
        "wrong",
        "busy",
        "late",
        "very_late",
        "stopped",
        "waiting",
        "large",
        "mute",
        "cut",
        "load_dies",
        "dies_late",
    )

    def __init__(
        self,
        faults: dict[int, str] | None = None,
        identity: str = "one",
        uncountable: Failure | None = None,
        core_to_core_series_ns: Sequence[float] = (50.0,),
        engine: Engine | None = None,
    ) -> None:
        self.engine = engine
        self.faults = faults or {}
        self.core_to_core_series_ns = cycle(core_to_core_series_ns)
        self.uncountable = uncountable
        assert set(self.faults.values()) <= set(self.FAULTS)
        self.identity = identity
        self.others = MachineNoise(steal_share=0.0, foreign_cpu_cores=0.0)
        self.speaks: Mismatch | None = None
        self.executed: dict[str, dict[str, str]] = {}
        # For each removal of leftovers, how many servers had been started.
        self.sweeps: list[int] = []
        self.started: list[str] = []
        self.counted: list[str] = []
        self.running: list[object] = []
        # The CPU usage of each server, and the number of connections of each load.
        self.busy_percent = 95
        self.connections: list[int] = []
        self.now_ns = 1_000_000_000

    def remove_leftovers(self) -> None:
        self.sweeps.append(len(self.started))

    def describe(self) -> dict[str, Any]:
        return {"schema": 1, "identity": {"engine": self.identity}}

    def noise(self) -> MachineNoise:
        return self.others

    def programs(self, plan: Plan) -> dict[str, dict[str, str]]:
        return self.executed

    def mismatch(self, connect: str, workload: Workload) -> Mismatch | None:
        return self.speaks

    def start(self, cell: Cell, *, count_calls: bool = False) -> FakeServer:
        if count_calls:
            self.counted.append(cell.contestant.text)
            if self.uncountable is not None:
                raise TrialFailed(**self.uncountable.model_dump(exclude={"how"}))
            return FakeServer(self, cell, "")
        fault = self.faults.get(len(self.started), "")
        self.started.append(cell.contestant.text)
        self.now_ns += max(0, cell.trial_ms - cell.trial.warmup_ms - cell.trial.duration_ms) * MS
        if fault == "not_started":
            raise TrialFailed("address_in_use", "the port is taken")
        if fault == "no_io_uring":
            raise TrialFailed("io_uring_forbidden", "io_uring is forbidden here", final=True)
        return FakeServer(self, cell, fault)

    def load(self, spec: LoadSpec) -> FakeLoad:
        server = self.running[-1]
        assert isinstance(server, FakeServer), "a load needs a server"
        return FakeLoad(self, spec, server)

    def drive(self, cell: Cell, server: RunningServer) -> FakeClient:
        return FakeClient(self)

    def rest(self, time_ms: int) -> Passed:
        begin_ns, self.now_ns = self.now_ns, self.now_ns + time_ms * MS
        return Passed(begin_ns, self.now_ns)

    def memory_in_use(self) -> int:
        # Each process takes 50 MiB.
        return (4 << 30) + (50 << 20) * len(self.running)

    def core_to_core_ns(self, server: Sequence[int], load: Sequence[int]) -> float | None:
        return next(self.core_to_core_series_ns)

    def clocks(self) -> Clocks:
        return Clocks(monotonic_s=lambda: self.now_ns / 1e9, wall=lambda: "2026-01-01T00:00:00+00:00")


class FakeServer:
    """Uses nearly a whole CPU and 10 MiB. With the fault `busy`, other programs use a whole CPU too."""

    addresses = ("127.0.0.1:1",)
    load_netns: str | None = None
    path: PathReport | None = None
    line: ReadyLine | None = None

    def __init__(self, host: FakeHost, cell: Cell, fault: str) -> None:
        self.host, self.cell, self.fault = host, cell, fault
        self.late_ns = {"late": 30 * MS, "very_late": 500 * MS}.get(fault, 0)
        self.ready = ServeReady(model=cell.contestant.text, listen=self.addresses, pid=1, build="b", workers=1)
        self.asked = False
        host.running.append(self)

    def check(self, wait_s: float = 0.0) -> None:
        if self.fault == "dies":
            raise TrialFailed("died", "the server ended while it was measured")

    def observer(self) -> Observer:
        return Observer(self)

    def look(self) -> proc.Tree:
        tasks = proc.TASKS_READ_MAX + 1 if self.fault == "large" else 1
        # A quarter is user time, the rest system time.
        own_ns = self.host.now_ns * 19 // 80
        return proc.Tree(tuple(range(tasks)), (0,), 0, own_ns, 3 * own_ns, tasks)

    def sample(self, tree: proc.Tree) -> Sample:
        now_ns = self.host.now_ns + self.late_ns
        self.late_ns = 0
        is_large = tree.threads > proc.TASKS_READ_MAX
        switching: tuple[int | None, int | None, int | None] = (None, None, None) if is_large else (0, 10, 1)
        usage = proc.Usage(now_ns, now_ns * self.host.busy_percent // 100, *switching)
        # The machine has two CPUs; the generator uses 0.6 of one.
        idle_ns = now_ns * (200 - self.host.busy_percent - (60 if self.cell.load.connections else 0)) // 100
        idle_ns = 0 if self.fault == "busy" else idle_ns
        return Sample(usage, noise.Ticks(2 * now_ns, idle_ns, 0), 0)

    def size(self) -> proc.Size:
        return proc.Size(10 << 20, 12 << 20, 1, 1, 0, 8)

    def memory_each(self, tree: proc.Tree) -> dict[int, proc.Memory]:
        return {tree.pids[0]: proc.Memory(9 << 20, 7 << 20, 4 << 20)}

    def connections_each(self, tree: proc.Tree) -> dict[int, int]:
        return {tree.pids[0]: self.cell.load.connections}

    def listening(self) -> ListenCounters | None:
        return ListenCounters()

    def carried(self) -> PathReport | None:
        return self.path

    def memory(self) -> proc.Memory | None:
        return proc.Memory(9 << 20, 7 << 20, 4 << 20)

    def own_bytes(self) -> int | None:
        # 5 MiB for connections, as soon as there is a load.
        return 9 << 20 if any(isinstance(process, FakeLoad) for process in self.host.running) else 4 << 20

    def ask(self) -> None:
        self.asked = True

    def served(self) -> Served:
        assert self.asked, "it answers when it is asked"
        taken = 3 if self.fault == "waiting" else self.cell.load.connections
        return Served(workers=(WorkerCounts(connections=taken),), restarts=0)

    def vitals(self) -> Vitals:
        return Vitals(refused={"processes": 7})

    def last_words(self) -> tuple[str, ...]:
        return ("its last words",)

    def calls(self) -> Calls:
        # Two million syscalls a second: twenty per request of the reference.
        return Calls(self.host.now_ns, self.host.now_ns // 500)

    def stop(self) -> bool:
        self.host.running.remove(self)
        return self.fault != "deaf"


def fake_minute(index: int, slice_ms: int) -> Interval:
    """An interval of a long trial, with one failed request."""
    counts: dict[str, float] = {
        "index": index,
        "begin_ns": index * slice_ms * MS,
        "end_ns": (index + 1) * slice_ms * MS,
    }
    counts |= {"correct": 1_000, "wrong": 0, "failed": 1, "rate_per_s": 17.0}
    times = dict.fromkeys(("min", "mean", "p50", "p90", "p99", "p99_9", "p99_99", "max", "stdev"), 1_000)
    return Interval.model_validate(counts | {"latency_ns": times | {"histogram": ""}})


class FakeLoad:
    """Emits the events of the fake engine, at its times."""

    def __init__(self, host: FakeHost, spec: LoadSpec, server: FakeServer) -> None:
        self.host, self.spec, self.server = host, spec, server
        host.connections.append(spec.connections)
        host.running.append(self)

    def events(self, tick_s: float) -> Iterator[LoadEvent | None]:
        spec, fault = self.spec, self.server.fault
        if fault == "stopped":
            raise KeyboardInterrupt
        yield LoadReady(driver=spec.driver, connections=spec.connections, pid=2, build="b")
        self.host.now_ns += (spec.warmup_ms or 0) * MS
        begin_ns = self.host.now_ns
        if fault != "mute":
            yield Measuring(monotonic_ns=begin_ns)
        for passed in range(1, (spec.duration_ms or 0) // 100 + 1):
            self.host.now_ns += 100 * MS
            yield None
            if spec.slice_ms is not None and passed * 100 % spec.slice_ms == 0:
                yield fake_minute(passed * 100 // spec.slice_ms - 1, spec.slice_ms)
                if passed * 100 == 2 * spec.slice_ms:
                    self._interrupt()
        yield Measured(monotonic_ns=self.host.now_ns)
        rate = fake_engine.RATES.get(self.server.cell.contestant.name, 50_000)
        wrong = min(2, spec.requests or 2) if fault == "wrong" else 0
        said = fake_engine.report(spec.model_dump(mode="json", exclude_none=True), rate, begin_ns, wrong)
        yield Report.model_validate({"schema": 1} | said)

    def _interrupt(self) -> None:
        """The fault at the second interval of a long trial."""
        if self.server.fault == "cut":
            raise KeyboardInterrupt
        if self.server.fault == "load_dies":
            raise TrialFailed("load_died", "the load generator was ended by SIGKILL")
        if self.server.fault == "dies_late":
            self.server.fault = "dies"

    def rss_bytes(self) -> int:
        return 3 << 20

    def spent(self) -> proc.Spent:
        # A third is user time.
        now_ns = self.host.now_ns
        return proc.Spent(now_ns // 5, now_ns * 2 // 5, now_ns // MS, now_ns // (10 * MS), 100, 0)

    def memory(self) -> proc.Memory | None:
        return proc.Memory(2 << 20, 1 << 20, 1 << 20)

    def stop(self) -> None:
        self.host.running.remove(self)


class FakeClient:
    """A foreign load client: two clients send 30,000 requests within 300 ms and use one CPU between them."""

    def __init__(self, host: FakeHost) -> None:
        self.host, self.begin_ns = host, host.now_ns
        self.end_ns = self.begin_ns + 300 * MS
        self.machine_bytes = host.memory_in_use() + (70 << 20)
        self.server_memory = proc.Memory(11 << 20, 8 << 20, 5 << 20)
        host.running.append(self)

    def ended(self, wait_s: float) -> bool:
        self.host.now_ns += 100 * MS
        return self.host.now_ns >= self.end_ns

    def run(self) -> ClientRun:
        return ClientRun(
            requests=30_000,
            elapsed_s=0.25,
            clients_s=(0.2, 0.25),
            wall_ns=300 * MS,
            cpu_ns=300 * MS,
            rss_bytes_max=40 << 20,
            pss_bytes_max=30 << 20,
            private_bytes_max=20 << 20,
            processes_max=3,
            threads_max=3,
            stdout="done",
        )

    def stop(self) -> None:
        self.host.running.remove(self)
