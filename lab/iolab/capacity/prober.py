"""Makes the runs of a search for a capacity, each stored before the next begins.

`progress` decides which run is next. This module places and follows the generator. For a server on this machine it
reads the CPU time and the core-to-core latency to the generator at the edges of the window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from iolab.capacity.placement import Placement, beside_server
from iolab.capacity.progress import SearchState, read_state, state_of
from iolab.capacity.records import Record, folder_of, writing
from iolab.capacity.spec import CapacitySpec
from iolab.capacity.steps import Step, load_spec
from iolab.contract.types import Interval, Report, one_line
from iolab.errors import PlanError
from iolab.machine import cpus, proc
from iolab.machine.cpus import Cpu
from iolab.machine.task_cpus import Watched
from iolab.measure import earlier_run, follower, programs, protocol_probe, stopping
from iolab.measure.agent import Host
from iolab.measure.engine import TrialFailed
from iolab.measure.progress import CLOCKS, Clocks
from iolab.results import layout, store

# Called with the state of a search; with the reason why an earlier run is set aside, and its new folder; and with a
# sentence on the generator's processors, at first and whenever they are chosen again.
OnState = Callable[[SearchState], None]
OnSetAside = Callable[[str, Path], None]
OnPlaced = Callable[[str], None]


def refuse_mismatch(spec: CapacitySpec, host: Host) -> None:
    """Raises PlanError, with the address to use, if the server does not speak the protocol of the spec."""
    if spec.tls is not None or (seen := host.mismatch(spec.connect, spec.workload)) is None:
        return
    place = spec.url.partition("://")[2].partition("/")[0]
    is_http = spec.workload.protocol == "http"
    schemes = {"speaks_http": f"http://{place}/", "speaks_tls": f"{'https' if is_http else 'tls'}://{place}"}
    flags = protocol_probe.remedy(seen.kind, as_flags=True).removeprefix(": use ")
    if spec.connect.startswith("unix:"):
        write = flags
    else:
        write = schemes.get(seen.kind) or (f"tcp://{place} {flags}" if flags else "")
    # Without a sign of another protocol the server may just be slow; the runs will show.
    if write:
        raise PlanError(f"the server at {spec.connect} {seen.message}: write {write}")


def run(
    spec: CapacitySpec,
    host: Host,
    runs: Path,
    on_state: OnState,
    *,
    server_pid: int | None = None,
    fresh: bool = False,
    on_set_aside: OnSetAside = lambda changed, folder: None,
    on_placed: OnPlaced = lambda why: None,
    topology: Callable[[], Sequence[Cpu]] = cpus.topology,
    clocks: Clocks = CLOCKS,
) -> Path:
    """Makes the remaining runs of a search and returns its folder.

    Raises StoreError or TrialFailed; the runs made until then are kept. `on_state` gets the state at first and after
    each run. A search is measured again if it is finished or unreadable, if the machine, the engine or the known server
    process has changed, or with `fresh`. The earlier search is kept under a new name, which `on_set_aside` gets.
    """
    machine = host.describe()
    machine["identity"]["server"] = None if server_pid is None else programs.of_process(server_pid)
    folder = folder_of(spec, runs)
    changed, is_finished = earlier_run.earlier(folder, machine["identity"], _is_finished)
    with (
        earlier_run.moved_aside(
            folder,
            is_old=fresh or bool(changed) or bool(is_finished),
            put_back=lambda: on_set_aside(earlier_run.NOTHING_MEASURED, folder),
        ) as set_aside,
        writing(spec, machine, runs) as writer,
    ):
        if set_aside is not None:
            on_set_aside(changed, set_aside)
        on_state(state := state_of(spec, writer.records))
        is_settled, placement = server_pid is None, None
        while state.next is not None:
            _refuse_another(machine["identity"]["server"])
            if placement is None or writer.records[-1].shares_cpu:
                placement = _placed(spec, server_pid, topology())
                on_placed(placement.why)
            server = None if server_pid is None else _Server(host, server_pid, placement)
            record = _measured(host, spec, state.next, len(writer.records), placement.load, server, clocks.wall())
            with stopping.signals_held():
                writer.append(record)
            if not is_settled:
                _settle(folder, machine)
                is_settled = True
            on_state(state := state_of(spec, writer.records))
    return folder


def _refuse_another(server: Mapping[str, Any] | None) -> None:
    """Raises TrialFailed if the known process of the server has changed."""
    if server is None:
        return
    if changed := programs.changes({"server": server}, {"server": programs.of_process(server["pid"])}):
        raise TrialFailed("changed", f"{changed}: run the same command again to measure the new server")


def _settle(folder: Path, machine: Mapping[str, Any]) -> None:
    """After a run, marks files of the server's command that the server itself writes; their changes do not count."""
    server = machine["identity"]["server"]
    server["files"] = programs.settled(server["files"], programs.of_process(server["pid"])["files"])
    store.write_machine(folder, machine)


def _is_finished(folder: Path) -> bool:
    return (folder / layout.QUESTION).is_file() and read_state(folder).next is None


def _placed(spec: CapacitySpec, server_pid: int | None, topology: Sequence[Cpu]) -> Placement:
    """The generator's processors: the given ones, or others than the server's if it is on this machine."""
    tasks = () if server_pid is None else tuple(proc.tasks(proc.look(server_pid)).values())
    if spec.cpus:
        ran = tuple(sorted({task.cpu for task in tasks}))
        return Placement(spec.cpus, ran, f"the generator runs {cpus.cpu_words(spec.cpus)}, as given")
    return beside_server(topology, tasks, spec.threads) if tasks else Placement((), (), "")


@dataclass(slots=True)
class _Server:
    """A server on this machine during one run. Its processes are listed while it is idle."""

    host: Host
    pid: int
    placement: Placement
    readings: list[proc.Usage] = field(default_factory=list)
    core_to_core_ns: list[float] = field(default_factory=list)
    watched: Watched | None = None

    def ready(self) -> None:
        self.watched = Watched(proc.look(self.pid))
        self._measure_latency()

    def read(self) -> None:
        """Reads its CPU time at an edge of the window."""
        if self.watched is not None:
            self.readings.append(proc.usage(self.watched.tree))
            self.watched.look()

    def measured(self) -> None:
        self.read()
        self._measure_latency()

    def tick(self) -> None:
        if self.watched is not None and self.watched.tree.is_small:
            self.watched.look()

    def _measure_latency(self) -> None:
        # Between the same two processors before and after: a server that moves among its own processors does not change
        # the machine's state.
        if (ns := self.host.core_to_core_ns(self.placement.server, self.placement.load)) is not None:
            self.core_to_core_ns.append(ns)

    def fields(self, report: Report) -> dict[str, Any]:
        """The fields on the server for the run's record."""
        edges = tuple(self.core_to_core_ns)
        shares = self.placement.is_apart and self.watched is not None and self.watched.shares(self.placement.load)
        return {
            "server_cpu_ns": _used(report, self.readings),
            "core_to_core_ns": edges if len(edges) == 2 else None,
            "shares_cpu": shares,
        }


def _measured(
    host: Host,
    spec: CapacitySpec,
    step: Step,
    number: int,
    load_cpus: Sequence[int],
    server: _Server | None,
    started: str,
) -> Record:
    """One run."""
    slices = list[Interval]()
    try:
        load_asked = load_spec(spec, step, number, load_cpus)
    except ValidationError as error:
        # A rate or a duration above the generator's limits: 10,000,000/s, or a day.
        raise TrialFailed("bad_number", f"the next run cannot be made: {one_line(error)}", final=True) from None
    with follower.running(host.load(load_asked)) as load:
        if server is None:
            report = follower.follow(load, interval=slices.append)
        else:
            report = follower.follow(
                load,
                ready=server.ready,
                measuring=server.read,
                interval=slices.append,
                measured=server.measured,
                tick=server.tick,
            )
    _refuse(report)
    of_server = {} if server is None else server.fields(report)
    return Record(step=step, started=started, report=report, slices=tuple(slices), **of_server)


def _refuse(report: Report) -> None:
    """Raises TrialFailed if there was nothing to measure: such a run says nothing about the server."""
    if report.interrupted:
        raise TrialFailed("interrupted", "the load generator was interrupted")
    if report.gone:
        first = f" ({report.first_error})" if report.first_error else ""
        raise TrialFailed("gone", f"the server went away{first}: start it again, and run the same command")
    if report.requests.correct == 0 and report.schedule is None:
        first = f" ({report.first_error})" if report.first_error else ""
        raise TrialFailed("errors", f"no request had a correct reply{first}: request what the server has", final=True)


def _used(report: Report, readings: Sequence[proc.Usage]) -> int | None:
    """CPU time in the window, scaled from the time between two readings taken close to its edges."""
    if len(readings) != 2:
        return None
    before, after = readings
    share = (report.end_ns - report.begin_ns) / max(1, after.read_ns - before.read_ns)
    return round(share * max(0, after.cpu_ns - before.cpu_ns))
