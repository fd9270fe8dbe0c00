"""One trial: a fresh server, one run of the generator, and what both used."""

from __future__ import annotations

from iolab.contract.types import Report, ServeReady
from iolab.machine.noise import noise
from iolab.measure.agent import Host
from iolab.measure.engine import TrialFailed
from iolab.measure.follower import death_first, follow, load_spec, running
from iolab.measure.observer import Observed, usage
from iolab.measure.progress import CLOCKS, Clocks
from iolab.plan.plan import Trial
from iolab.plan.settings import Cell
from iolab.results.records import MachineNoise, Result, ServerUsage


def measure(host: Host, cell: Cell, scheduled: Trial, clocks: Clocks = CLOCKS) -> Result:
    """One trial: a fresh server, one run of the generator, and what both used. A failure is a result too."""
    result = Result(trial=scheduled, started=clocks.wall())
    try:
        ready, report, seen, core_to_core_ns = _measure(host, cell, seed=scheduled.block + 1)
        server = usage(report, seen)
    except TrialFailed as failed:
        return result.model_copy(update={"failure": failed.failure})
    others = _others(report, seen, server, core_to_core_ns)
    told = {"ready": ready, "report": report, "server": server, "noise": others, "path": seen.path}
    return result.model_copy(update=told)


def _measure(
    host: Host, cell: Cell, seed: int
) -> tuple[ServeReady | None, Report, Observed, tuple[float, float] | None]:
    """Follows the generator to its report, with an observer beside the server.

    The core-to-core latency is measured while both sides rest, so it takes no time from the window. The trials of a
    block have one `seed`, so random arrivals are the same for all its contestants.
    """
    seen, core_to_core_ns = list[Observed](), list[float | None]()
    with (
        running(host.start(cell)) as server,
        death_first(server),
        server.observer() as observer,
        running(host.load(load_spec(cell, server, seed=seed))) as load,
    ):

        def ready() -> None:
            observer.ready()
            core_to_core_ns.append(host.core_to_core_ns(cell))

        def measured() -> None:
            seen.append(observer.end())
            core_to_core_ns.append(host.core_to_core_ns(cell))

        report = follow(load, ready=ready, measuring=observer.begin, measured=measured, tick=server.check)
        server.check()
    if not seen:
        raise TrialFailed("contract", "the load generator reported before it had measured", final=True)
    known = [ns for ns in core_to_core_ns if ns is not None]
    return server.ready, report, seen[0], (known[0], known[1]) if len(known) == 2 else None


def _others(
    report: Report, seen: Observed, server: ServerUsage, core_to_core_ns: tuple[float, float] | None
) -> MachineNoise:
    """What else the machine did between the two samples of the observer."""
    before, after = seen.before, seen.after
    cpu_ns = max(0, after.server.cpu_ns - before.server.cpu_ns)
    return noise(
        before.machine,
        after.machine,
        ours_ns=cpu_ns + report.generator.cpu_ns + after.lab_cpu_ns - before.lab_cpu_ns,
        wall_ns=after.server.read_ns - before.server.read_ns,
        cpu_ns=cpu_ns,
        run_delay_ns=server.run_delay_ns,
        core_to_core_ns=core_to_core_ns,
    )
