"""One trial: a fresh server, one run of the generator, and what both used."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from iolab.contract.types import ClosedLoop, FirstFailure, Interval, LoadSpec, Report, updated
from iolab.machine import proc
from iolab.machine.noise import noise
from iolab.measure import broken
from iolab.measure.agent import Host, RunningLoad, RunningServer
from iolab.measure.client import limit_s as client_limit_s
from iolab.measure.engine import TrialFailed
from iolab.measure.follower import TICK_S, death_first, follow, load_spec, running
from iolab.measure.observer import Observed, Observer, usage
from iolab.measure.progress import CLOCKS, Clocks
from iolab.plan.plan import Trial
from iolab.plan.settings import MINUTE_MS, Cell
from iolab.results.records import Break, Failure, MachineNoise, Minute, Result, ServerUsage

# A server that has recovered answers within this time; the next client would not wait longer.
PROBE_TIMEOUT_MS = 3_000
OnMinute = Callable[[Minute], None]
OnSlice = Callable[[Interval, RunningLoad], None]


@dataclass(frozen=True, slots=True)
class Run:
    """The results of a run of the generator: its report, the observations of the server, and memory at the end of the
    window: the generator's (None if unknown) and all that is in use on the machine. `spent` is the generator's use at
    both edges of the window.
    """

    report: Report
    seen: Observed
    core_to_core_ns: tuple[float, float] | None
    client: proc.Memory | None
    machine_bytes: int
    spent: tuple[proc.Spent, proc.Spent]


def measure(
    host: Host,
    cell: Cell,
    scheduled: Trial,
    clocks: Clocks = CLOCKS,
    on_minute: OnMinute | None = None,
) -> Result:
    """One trial: a fresh server, one run of its load, and what both used. A failure is a result too.

    The trials of a block share a seed, so random arrivals are the same for all contestants. `on_minute`, if given, is
    called with each minute of the generator's load.
    """
    result = Result(trial=scheduled, started=clocks.wall())
    before_bytes = host.memory_in_use()
    try:
        with running(host.start(cell)) as server, server.observer() as observer:
            said = {"ready": server.ready, "ready_line": server.line}
            if cell.load.connections == 0:
                figures = _rested(host, cell, server, observer)
            elif cell.load.client is not None:
                figures = _driven(host, cell, server, observer)
            else:
                figures = _loaded(host, cell, result, server, observer, on_minute)
    except TrialFailed as failed:
        return result.model_copy(update={"failure": failed.failure})
    used = figures["server"]
    grown = {"machine_bytes": used.machine_bytes - before_bytes}
    return result.model_copy(update=said | figures | {"server": used.model_copy(update=grown)})


def _loaded(
    host: Host, cell: Cell, result: Result, server: RunningServer, observer: Observer, on_minute: OnMinute | None
) -> dict[str, Any]:
    """The results of a run of the generator, by the fields of the record. `machine_bytes` is all memory in use."""

    def on_slice(each: Interval, load: RunningLoad) -> None:
        if on_minute is not None:
            on_minute(_minute(result, each, server, load))

    spec = load_spec(cell, server, seed=result.trial.block + 1)
    if on_minute is not None:
        spec = updated(spec, slice_ms=MINUTE_MS)
    with _looked_at(host, cell, server, observer):
        run = _run(host, cell, spec, server, observer, on_slice)
    used, memory = usage(run.report, run.seen), run.client
    of_client = {
        "client_rss_bytes": run.report.generator.rss_bytes_max,
        "client_pss_bytes": memory and memory.pss_bytes,
        "client_private_bytes": memory and memory.private_bytes,
        "machine_bytes": run.machine_bytes,
        **_spent(run),
    }
    return {
        "report": run.report,
        "server": used.model_copy(update=of_client),
        "noise": _others(run.seen, used, run.report.generator.cpu_ns, run.core_to_core_ns),
        "path": run.seen.path,
        "failure": _failed_requests(host, cell, server, observer, run.report),
    }


def _spent(run: Run) -> dict[str, int | None]:
    """The generator's use in its window, by the fields of the record. Its own clock gives the processor time; the
    kernel's ticks only split it into user and system.
    """
    begin, end = run.spent
    grown: dict[str, int | None] = {
        name: None if before is None or after is None else max(0, after - before)
        for name, before, after in zip(begin._fields, begin, end, strict=True)
    }
    user_ns, system_ns = grown["user_ns"] or 0, grown["system_ns"] or 0
    own_ns = round(run.report.generator.cpu_ns * user_ns / max(1, user_ns + system_ns))
    # Without a tick in the window, the split is unknown.
    seen = user_ns + system_ns > 0
    grown["user_ns"] = own_ns if seen else None
    grown["system_ns"] = run.report.generator.cpu_ns - own_ns if seen else None
    return {f"client_{name}": value for name, value in grown.items()}


def _driven(host: Host, cell: Cell, server: RunningServer, observer: Observer) -> dict[str, Any]:
    """The figures of an external client, which runs to its end and reports them itself."""
    observer.ready()
    observer.begin()
    with death_first(server), running(host.drive(cell, server)) as client:
        limit_s, waited_s = client_limit_s(cell), 0.0
        while not client.ended(TICK_S):
            server.check()
            waited_s += TICK_S
            if waited_s > limit_s:
                message = f"the client did not end within {limit_s:g} s: make trial.timeout_ms longer"
                raise TrialFailed("hung", message, final=True)
        server.check()
        run = client.run()
        seen = observer.end()
    used, memory = usage(client, seen), client.server_memory
    # Read while the client ran: its connections are closed once it has ended.
    of_client = {
        "pss_bytes": memory and memory.pss_bytes,
        "private_bytes": memory and memory.private_bytes,
        "client_rss_bytes": run.rss_bytes_max,
        "client_pss_bytes": run.pss_bytes_max,
        "client_private_bytes": run.private_bytes_max,
        "machine_bytes": client.machine_bytes,
    }
    return {
        "client": run,
        "server": used.model_copy(update=of_client),
        "noise": _others(seen, used, run.cpu_ns),
        "path": seen.path,
    }


def _rested(host: Host, cell: Cell, server: RunningServer, observer: Observer) -> dict[str, Any]:
    """What a server uses without a load, over the time of a window."""
    observer.ready()
    observer.begin()
    window = host.rest(cell.trial.duration_ms)
    server.check()
    seen = observer.end()
    used = usage(window, seen)
    none = {"client_rss_bytes": 0, "client_pss_bytes": 0, "client_private_bytes": 0}
    used = used.model_copy(update=none | {"machine_bytes": host.memory_in_use()})
    return {"server": used, "noise": _others(seen, used, 0), "path": seen.path}


def _run(host: Host, cell: Cell, spec: LoadSpec, server: RunningServer, observer: Observer, on_slice: OnSlice) -> Run:
    """Follows the generator to its report, with an observer beside the server.

    The core-to-core latency is measured while both sides are idle, so it takes no time from the window.
    """
    seen, core_to_core_ns = list[Observed](), list[float | None]()
    memory = list[tuple[proc.Memory | None, int]]()
    spent = list[proc.Spent]()
    with death_first(server), running(host.load(spec)) as load:

        def ready() -> None:
            observer.ready()
            core_to_core_ns.append(host.core_to_core_ns(cell.server.cpus, cell.load.cpus))

        def measuring() -> None:
            observer.begin()
            spent.append(load.spent())

        def measured() -> None:
            seen.append(observer.end())
            spent.append(load.spent())
            memory.append((load.memory(), host.memory_in_use()))
            core_to_core_ns.append(host.core_to_core_ns(cell.server.cpus, cell.load.cpus))

        report = follow(
            load,
            ready=ready,
            measuring=measuring,
            interval=lambda each: on_slice(each, load),
            measured=measured,
            tick=server.check,
        )
        server.check()
    if not seen:
        raise TrialFailed("contract", "the load generator reported before it had measured", final=True)
    known = [ns for ns in core_to_core_ns if ns is not None]
    core_to_core = (known[0], known[1]) if len(known) == 2 else None
    return Run(report, seen[0], core_to_core, *memory[0], spent=(spent[0], spent[-1]))


def _minute(result: Result, each: Interval, server: RunningServer, load: RunningLoad) -> Minute:
    """The record of one minute of a long trial."""
    size = server.size()
    return Minute(
        trial=result.trial,
        started=result.started,
        number=each.index + 1,
        seconds=(each.end_ns - each.begin_ns) / 1e9,
        correct=each.correct,
        wrong=each.wrong,
        failed=each.failed,
        p50_ns=each.latency_ns.p50,
        p99_ns=each.latency_ns.p99,
        max_ns=each.latency_ns.max,
        rss_bytes=size.rss_bytes,
        threads=size.threads,
        processes=size.processes,
        zombies=size.zombies,
        descriptors=size.descriptors,
        generator_rss_bytes=load.rss_bytes(),
        lab_rss_bytes=proc.rss_bytes(os.getpid()),
    )


@contextmanager
def _looked_at(host: Host, cell: Cell, server: RunningServer, observer: Observer) -> Iterator[None]:
    """Adds to a failure how the server broke, examined before it is stopped.

    A final failure is the fault of the spec or of the machine.
    """
    try:
        yield
    except TrialFailed as failed:
        if not failed.failure.final:
            how = _how(host, cell, server, observer, failed.first)
            failed.failure = failed.failure.model_copy(update={"how": how})
        raise


def _failed_requests(
    host: Host, cell: Cell, server: RunningServer, observer: Observer, report: Report
) -> Failure | None:
    """The failure of a trial that counts requests, if some failed or were answered wrongly; None for other trials."""
    requests = report.requests
    faulty = requests.failed + requests.wrong
    if cell.load.requests is None or not faulty or report.interrupted:
        return None
    message = f"{faulty} of {requests.correct + faulty} requests failed"
    first = f", first: {report.first_error}" if report.first_error else ""
    how = _how(host, cell, server, observer, report.first_failure)
    return Failure(kind="errors", message=message + first, said=server.last_words(), how=how)


def _how(host: Host, cell: Cell, server: RunningServer, observer: Observer, first: FirstFailure | None) -> Break:
    """How a server broke: examines the kernel's figures and the server, then sends one more request."""
    growth, listening, vitals = observer.growth(), observer.listening(), server.vitals()
    return broken.how(first, growth, vitals, listening, recovered=_answers(host, cell, server))


def _answers(host: Host, cell: Cell, server: RunningServer) -> bool:
    """Whether a server answers one request on a new connection."""
    spec = load_spec(
        cell,
        server,
        connections=1,
        idle=0,
        active=None,
        probes=0,
        pipeline=1,
        pace=ClosedLoop(),
        requests_per_connection=None,
        threads=1,
        processes=1,
        warmup_ms=0,
        duration_ms=None,
        requests=1,
        timeout_ms=min(cell.trial.timeout_ms, PROBE_TIMEOUT_MS),
    )
    try:
        with running(host.load(spec)) as load:
            return follow(load).requests.correct == 1
    except TrialFailed:
        return False


def _others(
    seen: Observed, server: ServerUsage, client_cpu_ns: int, core_to_core_ns: tuple[float, float] | None = None
) -> MachineNoise:
    """The load of other programs between the two samples of the observer."""
    before, after = seen.before, seen.after
    cpu_ns = max(0, after.server.cpu_ns - before.server.cpu_ns)
    return noise(
        before.machine,
        after.machine,
        ours_ns=cpu_ns + client_cpu_ns + after.lab_cpu_ns - before.lab_cpu_ns,
        wall_ns=after.server.read_ns - before.server.read_ns,
        cpu_ns=cpu_ns,
        run_delay_ns=server.run_delay_ns,
        core_to_core_ns=core_to_core_ns,
    )
