"""Watches a server from beside it: samples its processes, their clocks and their memory, and returns them at the end.

The observer has its own clock, and its own thread for samples between the edges of the window, so the runner does not
poll it. With few processors a thread disturbs less than a process: it starts no interpreter, it sleeps between samples,
and its processor time counts as the lab's, not as foreign. The edges are read first, when the generator reports them.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

from iolab.contract.types import PathReport, Served
from iolab.machine import noise, proc
from iolab.machine.cgroups import Throttling
from iolab.machine.netstat import ListenCounters
from iolab.measure.engine import TrialFailed
from iolab.results.records import Growth, ProcessUsage, ServerUsage, Throttled

# The shortest time between two samples of a server's size.
SAMPLE_S = 0.1
# The sampler pauses this many times as long as a sample takes, so it uses at most 2 % of a processor however many
# processes the server has.
REST = 49
# The most samples of a series, however long the trial.
SAMPLES_MAX = 600
# After the window the server soon idles, so only a late first reading loses processor time. Up to this share of the
# window the server's own rate makes up for it; beyond it the trial is lost.
LATE_SHARE_MAX = 0.15
# A process serves if it uses more than this part of the server's processor time or, among many, than this part of an
# equal share. A process that only waits uses far less.
SERVING, SERVING_OF_EQUAL = 0.01, 0.1


@dataclass(frozen=True, slots=True)
class Sample:
    """The counters of a server, of the whole machine and of the lab itself, at one instant of the observer's clock."""

    server: proc.Usage
    machine: noise.Ticks
    lab_cpu_ns: int
    throttling: Throttling | None = None


class Window(Protocol):
    """The measured window, by CLOCK_MONOTONIC."""

    @property
    def begin_ns(self) -> int: ...
    @property
    def end_ns(self) -> int: ...


class Readings(Protocol):
    """The readings of a server, taken where it runs."""

    def look(self) -> proc.Tree: ...
    def sample(self, tree: proc.Tree) -> Sample: ...
    def size(self) -> proc.Size: ...
    def memory_each(self, tree: proc.Tree) -> Mapping[int, proc.Memory]: ...
    def connections_each(self, tree: proc.Tree) -> Mapping[int, int]: ...
    def listening(self) -> ListenCounters | None: ...
    def carried(self) -> PathReport | None: ...
    def ask(self) -> None: ...
    def served(self) -> Served | None: ...


@dataclass(frozen=True, slots=True)
class Observed:
    """Observations of a server in a trial: its processes before and after, the samples at the edges of the window, and
    its size along the trial. Figures of single processes are read once, at the end. `window` holds the sizes in the
    window, and `path` what a path carried in it.
    """

    first: proc.Tree
    before: Sample
    after: Sample
    last: proc.Tree
    window: tuple[proc.Size, ...]
    growth: Growth
    memory_each: Mapping[int, proc.Memory]
    connections_each: Mapping[int, int]
    listening: ListenCounters | None
    connections_taken: int | None
    path: PathReport | None


class Series:
    """Sizes of a server along a trial. When full, it drops every other sample and doubles its step."""

    def __init__(self, step_s: float, samples_max: int = SAMPLES_MAX) -> None:
        self.step_s = step_s
        self._samples_max = samples_max
        self._samples: list[tuple[int, proc.Size]] = []

    def add(self, at_ns: int, size: proc.Size) -> None:
        """Adds a sample, which must be later than all others."""
        if len(self._samples) == self._samples_max:
            del self._samples[1::2]
            self.step_s *= 2
        self._samples.append((at_ns, size))

    def since(self, at_ns: int) -> tuple[proc.Size, ...]:
        """The sizes since an instant."""
        return tuple(size for sampled_ns, size in self._samples if sampled_ns >= at_ns)

    def growth(self) -> Growth:
        """The whole series, as columns."""
        sizes = [size for _, size in self._samples]
        return Growth(
            times_ns=tuple(at_ns - self._samples[0][0] for at_ns, _ in self._samples),
            rss_bytes=tuple(size.rss_bytes for size in sizes),
            threads=tuple(size.threads for size in sizes),
            processes=tuple(size.processes for size in sizes),
            zombies=tuple(size.zombies for size in sizes),
            descriptors=tuple(size.descriptors for size in sizes),
        )


class Observer:
    """Watches one server through one window: `ready`, `begin` and `end`, in this order.

    Use it as a context manager, from before the load begins.
    """

    def __init__(self, server: Readings, sample_s: float = SAMPLE_S) -> None:
        self._server = server
        self._series = Series(sample_s)
        self._is_over = threading.Event()
        self._sampler = threading.Thread(target=self._sample_sizes, name="observer", daemon=True)

    def __enter__(self) -> Observer:
        self._listening = self._server.listening()
        self._sample_size()
        self._sampler.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def ready(self) -> None:
        """Lists the processes while the server is idle before its load: with many processes this takes long."""
        self._first = self._server.look()

    def begin(self) -> None:
        """The window begins."""
        # A small server is listed again, because it may have started more processes in the warm-up.
        if self._first.is_small:
            self._first = self._server.look()
        self._before = self._server.sample(self._first)
        self._begin_ns = time.monotonic_ns()
        # The server answers when it gets to it; the answer is read after the window, so nothing waits.
        self._server.ask()
        # Drops what the path carried before the window.
        self._server.carried()

    def end(self) -> Observed:
        """Returns all observations, once the window is over and the server is idle again."""
        server, first = self._server, self._first
        # Clocks first: requests in flight at the end are still being served.
        after = server.sample(first)
        path = server.carried()
        last = server.look()
        if not set(last.pids) <= set(first.pids):
            after = server.sample(last)
        growth = self.growth()
        return Observed(
            first=first,
            before=self._before,
            after=after,
            last=last,
            window=self._series.since(self._begin_ns),
            growth=growth,
            memory_each=server.memory_each(last),
            connections_each=server.connections_each(last),
            listening=self.listening(),
            connections_taken=_taken(server.served()),
            path=path,
        )

    def growth(self) -> Growth:
        """The size of the server so far and now; this ends the sampling."""
        self._stop()
        self._sample_size()
        return self._series.growth()

    def listening(self) -> ListenCounters | None:
        """The counts of listening sockets in the server's network since before the load; None if unknown."""
        now = self._server.listening()
        return None if now is None or self._listening is None else now.since(self._listening)

    def _sample_sizes(self) -> None:
        took_s = 0.0
        while not self._is_over.wait(pause_s(self._series.step_s, took_s)):
            began_s = time.monotonic()
            self._sample_size()
            took_s = time.monotonic() - began_s

    def _sample_size(self) -> None:
        size = self._server.size()
        self._series.add(time.monotonic_ns(), size)

    def _stop(self) -> None:
        self._is_over.set()
        if self._sampler.is_alive():
            self._sampler.join()


def pause_s(step_s: float, took_s: float) -> float:
    """How long the sampler pauses after a sample that took `took_s`."""
    return max(step_s, REST * took_s)


def usage(window: Window, seen: Observed) -> ServerUsage:
    """What the server used over a window; raises TrialFailed if the first reading came too late."""
    begin, end = seen.before.server, seen.after.server
    made_up = _made_up(window, begin.read_ns)
    cpu_ns = round(made_up * max(0, end.cpu_ns - begin.cpu_ns))
    # The kernel's split is as coarse as its tick.
    user_ns = max(0, seen.last.user_ns - seen.first.user_ns)
    system_ns = max(0, seen.last.system_ns - seen.first.system_ns)
    user_share = user_ns / max(1, user_ns + system_ns)
    delay_ns = _grown(begin.run_delay_ns, end.run_delay_ns)
    voluntary = _grown(begin.switches_voluntary, end.switches_voluntary)
    involuntary = _grown(begin.switches_involuntary, end.switches_involuntary)
    each, memory = _each(seen, made_up), proc.together(seen.memory_each.values())
    threads_ns = _threads_ns(begin.tasks_ns, end.tasks_ns)
    working_ns, polling_ns = _apart(threads_ns or {}, end.polling)
    return ServerUsage(
        cpu_ns=cpu_ns,
        wall_ns=max(1, window.end_ns - window.begin_ns),
        user_ns=round(user_share * cpu_ns),
        system_ns=cpu_ns - round(user_share * cpu_ns),
        rss_bytes_max=max(size.rss_bytes_max for size in seen.window),
        rss_bytes_median=round(statistics.median(size.rss_bytes for size in seen.window)),
        pss_bytes=memory and memory.pss_bytes,
        private_bytes=memory and memory.private_bytes,
        connections_taken=seen.connections_taken,
        context_switches_voluntary=None if voluntary is None else max(0, voluntary),
        context_switches_involuntary=None if involuntary is None else max(0, involuntary),
        threads=seen.last.threads,
        processes=len(seen.last.pids),
        # Tasks that ended in between took their run delay with them, which leaves it unknown.
        run_delay_ns=delay_ns if delay_ns is not None and delay_ns >= 0 else None,
        processes_each=each,
        processes_serving=_serving([process.cpu_ns for process in each]) if len(each) == len(seen.last.pids) else None,
        threads_serving=None if threads_ns is None else _serving(list(threads_ns.values())),
        thread_cpu_ns_max=None if threads_ns is None else round(made_up * max(working_ns, default=0)),
        polling_ns=None if threads_ns is None else min(cpu_ns, round(made_up * sum(polling_ns))),
        # A server of many tasks was listed only before the warm-up.
        faults_minor=max(0, seen.last.faults_minor - seen.first.faults_minor) if seen.first.is_small else None,
        faults_major=max(0, seen.last.faults_major - seen.first.faults_major) if seen.first.is_small else None,
        listen_overflows=seen.listening and seen.listening.overflows,
        listen_drops=seen.listening and seen.listening.drops,
        syn_cookies_sent=seen.listening and seen.listening.syn_cookies_sent,
        throttled=_throttled(seen.before.throttling, seen.after.throttling),
        growth=seen.growth,
    )


def _each(seen: Observed, made_up: float) -> tuple[ProcessUsage, ...]:
    """What each process that lived at the end used, as far as processes have figures of their own."""
    before, after, memory = seen.before.server.each_ns, seen.after.server.each_ns, seen.memory_each
    return tuple(
        ProcessUsage(
            pid=pid,
            cpu_ns=round(made_up * max(0, after[pid] - before.get(pid, 0))),
            pss_bytes=memory[pid].pss_bytes if pid in memory else None,
            anonymous_bytes=memory[pid].anonymous_bytes if pid in memory else None,
            connections=seen.connections_each.get(pid),
        )
        for pid in seen.last.pids
        if pid in after
    )


def _serving(each_ns: Sequence[int]) -> int:
    """How many of the processes or threads with these processor times did more than wait."""
    least_ns = sum(each_ns) * min(SERVING, SERVING_OF_EQUAL / max(1, len(each_ns)))
    return sum(ns > least_ns for ns in each_ns)


def _threads_ns(before: Mapping[str, int] | None, after: Mapping[str, int] | None) -> dict[str, int] | None:
    """The processor time of each thread that lived at the end; None if there were too many to read."""
    if before is None or after is None:
        return None
    return {task: max(0, ns - before.get(task, 0)) for task, ns in after.items()}


def _apart(threads_ns: Mapping[str, int], polling: Set[str]) -> tuple[list[int], list[int]]:
    """The times of the threads that work, and of those that poll."""
    working = [ns for task, ns in threads_ns.items() if task not in polling]
    return working, [ns for task, ns in threads_ns.items() if task in polling]


def _throttled(before: Throttling | None, after: Throttling | None) -> Throttled | None:
    """The use of a quota between two readings; None without one."""
    if before is None or after is None:
        return None
    return Throttled(
        periods=after.periods - before.periods,
        throttled=after.throttled - before.throttled,
        throttled_ns=after.throttled_ns - before.throttled_ns,
    )


def _taken(said: Served | None) -> int | None:
    """How many connections a server has accepted; None if it does not report."""
    return None if said is None else sum(worker.connections for worker in said.workers)


def _grown(before: int | None, after: int | None) -> int | None:
    """The growth of a counter; None if it was not read at both edges."""
    return None if before is None or after is None else after - before


def _made_up(window: Window, read_ns: int) -> float:
    """The factor that makes up for a late first reading; raises TrialFailed if it was too late.

    Only this function compares two clocks: on one host both are CLOCK_MONOTONIC. The lengths of the two windows alone
    cannot tell a late first reading from a late last one, which loses nothing.
    """
    wall_ns = max(1, window.end_ns - window.begin_ns)
    late_ns = max(0, read_ns - window.begin_ns)
    if late_ns > LATE_SHARE_MAX * wall_ns:
        raise TrialFailed("lab_late", f"the lab got no processor for {late_ns / 1e6:.0f} ms: stop other programs")
    return wall_ns / (wall_ns - late_ns)
