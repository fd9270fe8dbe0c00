"""What follows a generator and what watches a server beside it: who is called when, and what is handed over."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress

import pytest

from conftest import wait_until
from iolab.contract.types import LoadReady, Measured, Measuring, Served, WorkerCounts
from iolab.machine import noise, proc
from iolab.measure.engine import LoadEvent, TrialFailed
from iolab.measure.follower import follow
from iolab.measure.observer import Observer, Sample
from iolab.plan.experiment import vs_plan
from made import report

READY = LoadReady(driver="epoll", connections=1, pid=1, build="b")
REPORT = report(vs_plan(["epoll", "thread"], {"protocol": "echo"}).comparisons[0].cells[0])
MEASURING, MEASURED = Measuring(monotonic_ns=1), Measured(monotonic_ns=2)


class Load:
    """A generator that says what it is told to, and None while there is nothing."""

    def __init__(self, events: Sequence[LoadEvent | None]) -> None:
        self._events = events

    def events(self, tick_s: float) -> Iterator[LoadEvent | None]:
        return iter(self._events)

    def stop(self) -> None:
        """Nothing is to be ended."""


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
    """Writes down what is read of it. Its processes are `trees`, one after the other, and the last for ever."""

    def __init__(self, *trees: Sequence[int], threads: int = 1) -> None:
        self.trees, self.threads = list(trees), threads
        self.read: list[str] = []
        self.sizes = 0

    def look(self) -> proc.Tree:
        self.read.append("look")
        pids = tuple(self.trees.pop(0) if len(self.trees) > 1 else self.trees[0])
        return proc.Tree(pids, pids[:1], 0, 0, 0, self.threads)

    def sample(self, tree: proc.Tree) -> Sample:
        self.read.append(f"clocks of {len(tree.pids)}")
        return Sample(proc.Usage(0, 0, None, None, None), noise.Ticks(0, 0, 0), 0)

    def memory(self, tree: proc.Tree) -> proc.Memory:
        self.sizes += 1
        return proc.Memory(self.sizes, self.sizes)

    def pss_bytes(self, tree: proc.Tree) -> int | None:
        self.read.append("pss")
        return 7

    def ask(self) -> None:
        self.read.append("ask")

    def served(self) -> Served | None:
        self.read.append("served")
        return Served(workers=(WorkerCounts(connections=2), WorkerCounts(connections=3)), restarts=0)


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        # A small server is looked at again when the window begins: in the warm-up it may have started more.
        (Server([1], [1, 2]), "look, look, clocks of 2, ask, clocks of 2, look, pss, served"),
        # One that has started more within the window is read once more, with them.
        (Server([1], [1, 2], [1, 2, 3]), "look, look, clocks of 2, ask, clocks of 2, look, clocks of 3, pss, served"),
        (Server([1], threads=1_000), "look, clocks of 1, ask, clocks of 1, look, pss, served"),
    ],
)
def test_the_clocks_are_read_first_at_both_edges_of_a_window(server: Server, expected: str) -> None:
    with Observer(server) as observer:
        observer.ready()
        observer.begin()
        seen = observer.end()
    assert ", ".join(server.read) == expected
    assert (seen.connections_taken, seen.pss_bytes) == (5, 7)


def test_the_memory_of_a_small_server_is_sampled_though_nobody_asks_for_it() -> None:
    server = Server([1])
    with Observer(server, sample_s=0.001) as observer:
        observer.ready()
        observer.begin()
        wait_until(lambda: server.sizes >= 3, "memory is sampled")
        seen = observer.end()
    assert [memory.rss_bytes for memory in seen.memory] == list(range(1, server.sizes + 1))
    assert len(seen.memory) >= 4, "the last one is read when the window is over"


def test_the_memory_of_a_server_of_many_tasks_is_read_once() -> None:
    server = Server([1], threads=1_000)
    before = threading.active_count()
    with Observer(server, sample_s=0.001) as observer:
        observer.ready()
        observer.begin()
        assert threading.active_count() == before
        assert len(observer.end().memory) == 1


def test_an_observer_ends_with_a_trial_that_fails_within_its_window() -> None:
    with suppress(TrialFailed), Observer(Server([1])) as observer:
        observer.ready()
        observer.begin()
        raise TrialFailed("died", "the server ended")
    assert not [thread for thread in threading.enumerate() if thread.name == "observer"]
