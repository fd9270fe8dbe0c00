"""One trial: a fresh server, one run of the generator, and what both used."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from iolab.contract.types import LoadReady, Measured, Measuring, Report, ServeReady
from iolab.machine import proc
from iolab.machine.noise import noise
from iolab.measure.agent import Host, RunningLoad, RunningServer, Sample
from iolab.measure.engine import LoadEvent, TrialFailed
from iolab.measure.follower import TICK_S, death_first, load_spec, running
from iolab.measure.progress import CLOCKS, Clocks
from iolab.plan.plan import Trial
from iolab.plan.settings import Cell
from iolab.results.records import Result, ServerUsage

# Soon after the window the server idles, so it is a late first reading that loses processor time. Up to this share of
# the window it is made up for by the server's own rate; beyond it the trial is lost.
LATE_SHARE_MAX = 0.15
Told = TypeVar("Told", LoadReady, Measuring, Measured, Report)


def measure(host: Host, cell: Cell, scheduled: Trial, clocks: Clocks = CLOCKS) -> Result:
    """One trial: a fresh server, one run of the generator, and what both used. A failure is a result too."""
    result = Result(trial=scheduled, started=clocks.wall())
    try:
        ready, report, server, seen = _measure(host, cell)
    except TrialFailed as failed:
        return result.model_copy(update={"failure": failed.failure})
    before, after = seen.before, seen.after
    wall_ns = after.server.read_ns - before.server.read_ns
    cpu_ns = max(0, after.server.cpu_ns - before.server.cpu_ns)
    lab_ns = after.lab_cpu_ns - before.lab_cpu_ns
    return result.model_copy(
        update={
            "ready": ready,
            "report": report,
            "server": server,
            "noise": noise(
                before.machine,
                after.machine,
                ours_ns=cpu_ns + report.generator.cpu_ns + lab_ns,
                wall_ns=wall_ns,
                cpu_ns=cpu_ns,
                run_delay_ns=server.run_delay_ns,
                apart_ns=seen.apart_ns,
            ),
        }
    )


@dataclass(frozen=True, slots=True)
class _Seen:
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
    apart_ns: tuple[float, float] | None


def _measure(host: Host, cell: Cell) -> tuple[ServeReady | None, Report, ServerUsage, _Seen]:
    with (
        running(host.start(cell)) as server,
        death_first(server),
        running(host.load(load_spec(cell, server.addresses))) as load,
    ):
        report, seen = _window(server, load, lambda: host.apart_ns(cell))
    return server.ready, report, _usage(report, seen), seen


def _window(server: RunningServer, load: RunningLoad, apart_ns: Callable[[], float | None]) -> tuple[Report, _Seen]:
    """Follows the generator to its report. It waits while it is ready and when it has measured, so what is read there
    takes no time from the window.
    """
    events = load.events(TICK_S)
    memory = []
    _next(events, LoadReady, server.check)
    first, apart_before_ns = server.look(), apart_ns()
    _next(events, Measuring, server.check)
    # What is looked at quickly is looked at again: in the warm-up it may have started more.
    first = server.look() if first.is_small else first
    before = server.sample(first)
    # Answered as soon as the server comes to it, and read when the window is over, so as to wait for nothing.
    server.ask()

    def tick() -> None:
        server.check()
        if first.is_small:
            memory.append(server.memory(first))

    _next(events, Measured, tick)
    # The clocks first: requests that were in flight at the end are still being served.
    after = server.sample(first)
    last = server.look()
    if not set(last.pids) <= set(first.pids):
        after = server.sample(last)
    memory.append(server.memory(last))
    apart_after_ns = apart_ns()
    seen = _Seen(
        first,
        before,
        after,
        last,
        tuple(memory),
        server.pss_bytes(last),
        _taken(server),
        None if apart_before_ns is None or apart_after_ns is None else (apart_before_ns, apart_after_ns),
    )
    report = _next(events, Report, server.check)
    server.check()
    return report, seen


def _next(events: Iterator[LoadEvent | None], kind: type[Told], tick: Callable[[], None]) -> Told:
    """The next event, which is to be of this kind; `tick` is called whenever there has been none for a while."""
    for event in events:
        if isinstance(event, kind):
            return event
        if event is not None:
            raise TrialFailed(
                "contract", f"the load generator said {event.event} where {kind.__name__.lower()} was due", final=True
            )
        tick()
    raise TrialFailed("contract", "the load generator ended without a report", final=True)


def _taken(server: RunningServer) -> int | None:
    """How many connections a server that was asked has accepted; None of one that does not say."""
    said = server.served()
    return None if said is None else sum(worker.connections for worker in said.workers)


def _usage(report: Report, seen: _Seen) -> ServerUsage:
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


def _grown(before: int | None, after: int | None) -> int | None:
    """By how much a counter has grown; None where it was not read at both edges."""
    return None if before is None or after is None else after - before


def _made_up(report: Report, read_ns: int) -> float:
    """By what to multiply what was counted from a late first reading on; raises TrialFailed when it is too late."""
    wall_ns = max(1, report.end_ns - report.begin_ns)
    late_ns = max(0, read_ns - report.begin_ns)
    if late_ns > LATE_SHARE_MAX * wall_ns:
        raise TrialFailed(
            "lab_late", f"the lab got no processor for {late_ns / 1e6:.0f} ms: close what uses the machine"
        )
    return wall_ns / (wall_ns - late_ns)
