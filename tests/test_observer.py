"""The follower of a generator and the observer of a server: the order of their calls, and what they return."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence, Set
from contextlib import suppress

import pytest

from conftest import wait_until
from iolab.contract.types import LoadReady, Measured, Measuring, Served, WorkerCounts
from iolab.machine import noise, proc
from iolab.machine.cgroups import Throttling
from iolab.machine.netstat import ListenCounters
from iolab.measure.engine import LoadEvent, TrialFailed
from iolab.measure.follower import follow
from iolab.measure.observer import Observed, Observer, Sample, Series, pause_s, usage
from iolab.plan.experiment import vs_plan
from iolab.results.records import Throttled
from made import report

READY = LoadReady(driver="epoll", connections=1, pid=1, build="b")
REPORT = report(vs_plan(["epoll", "thread"], {"protocol": "echo"}).comparisons[0].cells[0])
MEASURING, MEASURED = Measuring(monotonic_ns=1), Measured(monotonic_ns=2)


class Load:
    """A generator that emits these events, with None for a pause."""

    def __init__(self, events: Sequence[LoadEvent | None]) -> None:
        self._events = events

    def events(self, tick_s: float) -> Iterator[LoadEvent | None]:
        return iter(self._events)

    def rss_bytes(self) -> int:
        return 0

    def spent(self) -> proc.Spent:
        return proc.Spent(0, 0, 0, 0, 0, 0)

    def memory(self) -> None:
        """Not measured."""

    def stop(self) -> None:
        """Nothing to stop."""


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([READY, MEASURING, MEASURED, REPORT], "ready measuring measured"),
        ([None, READY, None, MEASURING, None, None, MEASURED, REPORT], "tick ready tick measuring tick tick measured"),
        ([READY, REPORT], "ready"),
        ([REPORT], ""),
        ([MEASURING], ": the load generator said measuring where ready was due"),
        ([READY, MEASURED], "ready: the load generator said measured where measuring was due"),
        ([READY, READY], "ready: the load generator said ready where measuring was due"),
        (
            [READY, MEASURING, MEASURED, MEASURED],
            "ready measuring measured: the load generator said measured where report was due",
        ),
        ([READY, MEASURING], "ready measuring: the load generator ended without a report"),
    ],
)
def test_each_event_of_a_generator_is_followed_in_its_order(events: Sequence[LoadEvent | None], expected: str) -> None:
    called, failure = list[str](), ""
    try:
        follow(
            Load(events),
            ready=lambda: called.append("ready"),
            measuring=lambda: called.append("measuring"),
            measured=lambda: called.append("measured"),
            tick=lambda: called.append("tick"),
        )
    except TrialFailed as failed:
        failure = f": {failed.failure.message}" if failed.failure.final else "passing"
    assert " ".join(called) + failure == expected


class Server:
    """Records what is read of it. Its processes are `trees`, one after the other, and then the last one.

    The first process uses all CPU time. The server gains a thread with each sample.
    """

    def __init__(self, *trees: Sequence[int], threads: int = 1, polling: Set[str] = frozenset()) -> None:
        self.trees, self.threads, self.polling = list(trees), threads, polling
        self.read: list[str] = []
        self.sizes, self.cpu_ns = 0, 0

    def look(self) -> proc.Tree:
        self.read.append("look")
        pids = tuple(self.trees.pop(0) if len(self.trees) > 1 else self.trees[0])
        return proc.Tree(pids, pids[:1], 0, 0, 0, self.threads, faults_minor=self.cpu_ns)

    def sample(self, tree: proc.Tree) -> Sample:
        self.read.append(f"clocks of {len(tree.pids)}")
        self.cpu_ns += 1_000
        each_ns = {pid: self.cpu_ns if pid == tree.pids[0] else 0 for pid in tree.pids}
        usage = proc.Usage(0, self.cpu_ns, None, None, None, each_ns, {"1": self.cpu_ns, "2": 1}, self.polling)
        return Sample(usage, noise.Ticks(0, 0, 0), 0, Throttling(self.cpu_ns, 3, 4))

    def size(self) -> proc.Size:
        self.sizes += 1
        return proc.Size(self.sizes, 2 * self.sizes, self.sizes, 2, 1, 5)

    def memory_each(self, tree: proc.Tree) -> dict[int, proc.Memory]:
        self.read.append("memory")
        return dict.fromkeys(tree.pids, proc.Memory(7, 5, 5))

    def connections_each(self, tree: proc.Tree) -> dict[int, int]:
        self.read.append("connections")
        return {tree.pids[0]: 50}

    def carried(self) -> None:
        """It is on loopback."""

    def listening(self) -> ListenCounters | None:
        return ListenCounters(overflows=self.cpu_ns, drops=self.cpu_ns + 1)

    def ask(self) -> None:
        self.read.append("ask")

    def served(self) -> Served | None:
        self.read.append("served")
        return Served(workers=(WorkerCounts(connections=2), WorkerCounts(connections=3)), restarts=0)


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        # The processes of a small server are read again when the window begins: it may have started more in the
        # warm-up.
        (Server([1], [1, 2]), "look, look, clocks of 2, ask, clocks of 2, look"),
        # A server that started more within the window is read once more, with the new ones.
        (Server([1], [1, 2], [1, 2, 3]), "look, look, clocks of 2, ask, clocks of 2, look, clocks of 3"),
        (Server([1], threads=1_000), "look, clocks of 1, ask, clocks of 1, look"),
    ],
)
def test_the_clocks_are_read_first_at_both_edges_of_a_window(server: Server, expected: str) -> None:
    seen = observed(server)
    assert ", ".join(server.read) == f"{expected}, memory, connections, served"
    assert seen.connections_taken == 5


def observed(server: Server) -> Observed:
    """What the observer reads of a server from before its load to the end of a window."""
    with Observer(server, sample_s=60) as observer:
        observer.ready()
        observer.begin()
        return observer.end()


def test_each_process_is_accounted_for_and_those_that_serve_are_counted() -> None:
    used = usage(REPORT, observed(Server([1], [1, 2, 3])))
    assert [(each.pid, each.cpu_ns, each.pss_bytes, each.connections) for each in used.processes_each] == [
        *((1, 1_000, 7, 50), (2, 0, 7, None), (3, 0, 7, None)),
    ]
    assert (used.processes, used.processes_serving, used.threads_serving, used.pss_bytes, used.private_bytes) == (
        3,
        1,
        1,
        21,
        15,
    )
    assert [each.anonymous_bytes for each in used.processes_each] == [5, 5, 5]


@pytest.mark.parametrize(("polling", "thread_ns", "polling_ns"), [((), 1_000, 0), (("1",), 0, 1_000)])
def test_the_time_of_threads_that_poll_is_kept_apart(polling: tuple[str, ...], thread_ns: int, polling_ns: int) -> None:
    used = usage(REPORT, observed(Server([1], polling=frozenset(polling))))
    assert (used.cpu_ns, used.thread_cpu_ns_max, used.polling_ns) == (1_000, thread_ns, polling_ns)


def test_what_the_kernel_counts_is_of_the_window_or_of_the_whole_trial() -> None:
    used = usage(REPORT, observed(Server([1])))
    assert used.throttled == Throttled(periods=1_000, throttled=0, throttled_ns=0)
    assert (used.listen_overflows, used.listen_drops, used.syn_cookies_sent) == (2_000, 2_000, 0)
    # The first reading of the processes is one sample before the last.
    assert (used.faults_minor, used.faults_major) == (2_000, 0)
    assert usage(REPORT, observed(Server([1], threads=1_000))).faults_minor is None


def test_the_size_of_a_server_is_sampled_without_being_asked() -> None:
    server = Server([1])
    with Observer(server, sample_s=0.001) as observer:
        observer.ready()
        before = server.sizes
        observer.begin()
        wait_until(lambda: server.sizes >= before + 3, "sizes are sampled")
        seen = observer.end()
    assert list(seen.growth.threads) == list(range(1, server.sizes + 1)), "from before the load to the end"
    assert seen.growth.times_ns[0] == 0
    assert list(seen.growth.times_ns) == sorted(seen.growth.times_ns)
    assert 3 <= len(seen.window) < server.sizes
    assert usage(REPORT, seen).rss_bytes_max == 2 * server.sizes


@pytest.mark.parametrize(("took_s", "expected_s"), [(0.0, 0.1), (0.001, 0.1), (0.1, 4.9)])
def test_the_sampler_rests_in_proportion_to_what_a_sample_takes(took_s: float, expected_s: float) -> None:
    assert pause_s(0.1, took_s) == pytest.approx(expected_s)


@pytest.mark.parametrize(
    ("added", "kept", "step_s"),
    [
        (4, [0, 1, 2, 3], 1),
        (5, [0, 2, 4], 2),
        (7, [0, 4, 6], 4),
    ],
)
def test_a_series_stays_short_however_long_the_trial(added: int, kept: list[int], step_s: float) -> None:
    series = Series(1, samples_max=4)
    for at in range(added):
        series.add(10 * at, proc.Size(at, at, at, 1, 0, 0))
    assert (list(series.growth().threads), series.step_s) == (kept, step_s)


def test_an_observer_ends_with_a_trial_that_fails_within_its_window() -> None:
    with suppress(TrialFailed), Observer(Server([1])) as observer:
        observer.ready()
        observer.begin()
        raise TrialFailed("died", "the server ended")
    assert not [thread for thread in threading.enumerate() if thread.name == "observer"]
