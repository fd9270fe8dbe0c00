"""Watches a server beside it: its processes, their clocks and their memory, handed over as samples at the end.

The observer has its own clock, and its own thread for samples between the edges, so the runner does not poll it. A
thread disturbs less than a process where processors are few: it starts no interpreter, it sleeps between samples, and
its processor time counts as the lab's, not as foreign. The edges of the window are read first, when the generator
names them.
"""

from __future__ import annotations

import statistics
import threading
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

from iolab.contract.types import Report, Served
from iolab.machine import noise, proc
from iolab.measure.engine import TrialFailed
from iolab.results.records import ServerUsage

# Memory is sampled this often.
SAMPLE_S = 0.1
# Soon after the window the server idles, so it is a late first reading that loses processor time. Up to this share of
# the window it is made up for by the server's own rate; beyond it the trial is lost.
LATE_SHARE_MAX = 0.15


@dataclass(frozen=True, slots=True)
class Sample:
    """The counters of a server, of the whole machine and of the lab itself, at one instant of the observer's clock."""

    server: proc.Usage
    machine: noise.Ticks
    lab_cpu_ns: int


class Readings(Protocol):
    """What can be read of a server where it runs."""

    def look(self) -> proc.Tree: ...
    def sample(self, tree: proc.Tree) -> Sample: ...
    def memory(self, tree: proc.Tree) -> proc.Memory: ...
    def pss_bytes(self, tree: proc.Tree) -> int | None: ...
    def ask(self) -> None: ...
    def served(self) -> Served | None: ...


@dataclass(frozen=True, slots=True)
class Observed:
    """What was seen of a server in a trial: its processes before and after, the samples at the edges of the window, and
    its memory. The proportional size is read once, at the end.
    """

    first: proc.Tree
    before: Sample
    after: Sample
    last: proc.Tree
    memory: tuple[proc.Memory, ...]
    pss_bytes: int | None
    connections_taken: int | None


class Observer:
    """Watches one server through one window: `ready`, `begin` and `end`, in this order. Use it as a context manager."""

    def __init__(self, server: Readings, sample_s: float = SAMPLE_S) -> None:
        self._server, self._sample_s = server, sample_s
        self._memory: list[proc.Memory] = []
        self._is_over = threading.Event()
        self._sampler: threading.Thread | None = None

    def __enter__(self) -> Observer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def ready(self) -> None:
        """The server rests before its load: its processes are looked for, which takes long where they are many."""
        self._first = self._server.look()

    def begin(self) -> None:
        """The window begins."""
        # What is looked at quickly is looked at again: in the warm-up it may have started more.
        if self._first.is_small:
            self._first = self._server.look()
        self._before = self._server.sample(self._first)
        # Answered as soon as the server comes to it, and read when the window is over, so as to wait for nothing.
        self._server.ask()
        if self._first.is_small:
            self._sampler = threading.Thread(target=self._sample_memory, name="observer", daemon=True)
            self._sampler.start()

    def end(self) -> Observed:
        """The window is over and the server rests again: hands over all that was seen."""
        server, first = self._server, self._first
        # The clocks first: requests that were in flight at the end are still being served.
        after = server.sample(first)
        self._stop()
        last = server.look()
        if not set(last.pids) <= set(first.pids):
            after = server.sample(last)
        memory = (*self._memory, server.memory(last))
        return Observed(first, self._before, after, last, memory, server.pss_bytes(last), _taken(server.served()))

    def _sample_memory(self) -> None:
        while not self._is_over.wait(self._sample_s):
            self._memory.append(self._server.memory(self._first))

    def _stop(self) -> None:
        self._is_over.set()
        if self._sampler is not None:
            self._sampler.join()


def usage(report: Report, seen: Observed) -> ServerUsage:
    """What the server used over the window that a report is of; raises TrialFailed when it was seen too late."""
    begin, end = seen.before.server, seen.after.server
    cpu_ns = round(_made_up(report, begin.read_ns) * max(0, end.cpu_ns - begin.cpu_ns))
    # The kernel's split is as coarse as its tick.
    user_ns = max(0, seen.last.user_ns - seen.first.user_ns)
    system_ns = max(0, seen.last.system_ns - seen.first.system_ns)
    user_share = user_ns / max(1, user_ns + system_ns)
    delay_ns = _grown(begin.run_delay_ns, end.run_delay_ns)
    voluntary = _grown(begin.switches_voluntary, end.switches_voluntary)
    involuntary = _grown(begin.switches_involuntary, end.switches_involuntary)
    return ServerUsage(
        cpu_ns=cpu_ns,
        wall_ns=max(1, report.end_ns - report.begin_ns),
        user_ns=round(user_share * cpu_ns),
        system_ns=cpu_ns - round(user_share * cpu_ns),
        rss_bytes_max=max(memory.rss_bytes_max for memory in seen.memory),
        rss_bytes_median=round(statistics.median(memory.rss_bytes for memory in seen.memory)),
        pss_bytes=seen.pss_bytes,
        connections_taken=seen.connections_taken,
        context_switches_voluntary=None if voluntary is None else max(0, voluntary),
        context_switches_involuntary=None if involuntary is None else max(0, involuntary),
        threads=seen.last.threads,
        processes=len(seen.last.pids),
        # The delay of tasks that ended in between is gone with them: then it is unknown.
        run_delay_ns=delay_ns if delay_ns is not None and delay_ns >= 0 else None,
    )


def _taken(said: Served | None) -> int | None:
    """How many connections a server that was asked has accepted; None of one that does not say."""
    return None if said is None else sum(worker.connections for worker in said.workers)


def _grown(before: int | None, after: int | None) -> int | None:
    """By how much a counter has grown; None where it was not read at both edges."""
    return None if before is None or after is None else after - before


def _made_up(report: Report, read_ns: int) -> float:
    """By what to multiply what was counted from a late first reading on; raises TrialFailed when it is too late.

    This is the one place where two clocks are compared: on one host both are CLOCK_MONOTONIC. From the lengths of the
    two windows alone a late first reading looks like a late last one, which loses nothing.
    """
    wall_ns = max(1, report.end_ns - report.begin_ns)
    late_ns = max(0, read_ns - report.begin_ns)
    if late_ns > LATE_SHARE_MAX * wall_ns:
        raise TrialFailed(
            "lab_late", f"the lab got no processor for {late_ns / 1e6:.0f} ms: close what uses the machine"
        )
    return wall_ns / (wall_ns - late_ns)
