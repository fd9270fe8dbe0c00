"""The operations of the lab on one host: describe it, start a server, put load on it, and read what both used.

The runner knows only the protocols below. This file has the host that the lab runs on; tests have one that takes no
time.
"""

from __future__ import annotations

import functools
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from iolab.contract.ready import ReadyLine
from iolab.contract.types import LoadSpec, PathReport, PathSpec, Served, ServeReady, Workload, updated
from iolab.machine import cgroups, facts, netstat, noise, port_owner, proc, resources, syscalls
from iolab.machine.netstat import ListenCounters
from iolab.measure import contestants, path, programs, protocol_probe, pythons, scratch
from iolab.measure.broken import Vitals
from iolab.measure.child import Ended
from iolab.measure.client import Client
from iolab.measure.engine import Engine, Load, LoadEvent, TrialFailed, ask_served, core_to_core_ns, served
from iolab.measure.observer import Observer, Sample, Window
from iolab.measure.path import RunningPath
from iolab.measure.processes import Place
from iolab.measure.protocol_probe import Mismatch
from iolab.plan.contestant import client_argv
from iolab.plan.needs import Needs
from iolab.plan.plan import Plan
from iolab.plan.settings import Cell
from iolab.results.records import ClientRun, MachineNoise

# How the engine's message begins when the kernel does not let it count.
UNCOUNTED = "syscalls cannot be counted"
# Listing this many sockets takes a fifth of a second.
SOCKETS_MAX = 20_000
# How long background load is sampled before anything is measured: twenty ticks of the kernel's accounts.
NOISE_S = 0.2


class Passed(NamedTuple):
    """An elapsed time, by CLOCK_MONOTONIC."""

    begin_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Calls:
    """A server's syscalls up to one instant (CLOCK_MONOTONIC); None if they cannot be counted: see `why_not`."""

    read_ns: int
    calls: int | None
    why_not: str = ""


class RunningServer(Protocol):
    """A server that accepts connections at `addresses`, seen from the network namespace `load_netns` if that is set."""

    @property
    def addresses(self) -> tuple[str, ...]: ...
    @property
    def load_netns(self) -> str | None: ...
    @property
    def ready(self) -> ServeReady | None: ...
    @property
    def line(self) -> ReadyLine | None: ...
    def check(self, wait_s: float = 0.0) -> None: ...
    def observer(self) -> Observer: ...
    def size(self) -> proc.Size: ...
    def memory(self) -> proc.Memory | None: ...
    def own_bytes(self) -> int | None: ...
    def calls(self) -> Calls: ...
    def vitals(self) -> Vitals: ...
    def last_words(self) -> tuple[str, ...]: ...
    def stop(self) -> bool: ...


class RunningLoad(Protocol):
    """A running load generator; its last event is the report."""

    def events(self, tick_s: float) -> Iterator[LoadEvent | None]: ...
    def rss_bytes(self) -> int: ...
    def spent(self) -> proc.Spent: ...
    def memory(self) -> proc.Memory | None: ...
    def stop(self) -> None: ...


class RunningClient(Protocol):
    """A running external client: its window is from its start to its end."""

    @property
    def begin_ns(self) -> int: ...
    @property
    def end_ns(self) -> int: ...
    @property
    def machine_bytes(self) -> int: ...
    @property
    def server_memory(self) -> proc.Memory | None: ...
    def ended(self, wait_s: float) -> bool: ...
    def run(self) -> ClientRun: ...
    def stop(self) -> None: ...


class Host(Protocol):
    """A machine to measure on. `start` and `load` raise TrialFailed."""

    def remove_leftovers(self) -> None: ...
    def describe(self) -> dict[str, Any]: ...
    def noise(self) -> MachineNoise: ...
    def programs(self, plan: Plan) -> dict[str, dict[str, str]]: ...
    def start(self, cell: Cell, *, count_calls: bool = False) -> RunningServer: ...
    def mismatch(self, connect: str, workload: Workload) -> Mismatch | None: ...
    def load(self, spec: LoadSpec) -> RunningLoad: ...
    def drive(self, cell: Cell, server: RunningServer) -> RunningClient: ...
    def rest(self, time_ms: int) -> Window: ...
    def memory_in_use(self) -> int: ...
    def core_to_core_ns(self, server: Sequence[int], load: Sequence[int]) -> float | None: ...


@dataclass(frozen=True, slots=True)
class Agent:
    """The host that the lab runs on, with the servers of the registry that a plan needs.

    `unmet` are the needs of claims that this machine does not meet.
    """

    engine: Engine
    registered: contestants.Prepared = field(default_factory=dict)
    unmet: Mapping[Needs, str] = field(default_factory=dict)

    def remove_leftovers(self) -> None:
        """Removes what killed labs have left behind."""
        cgroups.remove_leftovers()
        scratch.remove_leftovers()

    def describe(self) -> dict[str, Any]:
        """The circumstances of a run, for its record."""
        described = facts.describe(self.engine.description)
        described["engine"]["sha256"] = self.engine.digest
        described["contestants"] = contestants.PLACES["contestants"]
        described["servers"] = {name: server.facts() for name, server in self.registered.items()}
        described["unmet"] = [{"needs": each.model_dump(), "why": why} for each, why in self.unmet.items()]
        return described

    def noise(self) -> MachineNoise:
        """The load of other programs over a short while in which nothing is measured."""
        began_ns, began, lab_ns = time.monotonic_ns(), noise.ticks(), proc.process_cpu_ns(os.getpid())
        time.sleep(NOISE_S)
        return noise.noise(
            began,
            noise.ticks(),
            ours_ns=proc.process_cpu_ns(os.getpid()) - lab_ns,
            wall_ns=time.monotonic_ns() - began_ns,
            cpu_ns=0,
            run_delay_ns=None,
        )

    def programs(self, plan: Plan) -> dict[str, dict[str, str]]:
        """The digests of what each command, client and server of the registry executes, by its text."""
        commands = {
            cell.contestant.text: cell.contestant
            for comparison in plan.comparisons
            for cell in comparison.cells
            if cell.contestant.kind == "command"
        }
        return {
            **{text: programs.of_command(each.argv(0, contestants.PLACES)) for text, each in commands.items()},
            **{text: programs.of_command(client_argv(text, contestants.PLACES)) for text in _clients(plan)},
            **{name: server.executed() for name, server in self.registered.items()},
            **pythons.executed(plan),
        }

    def start(self, cell: Cell, *, count_calls: bool = False) -> RunningServer:
        """Starts the path of a cell, if any, then its contestant, and waits until it accepts connections."""
        with ExitStack() as undo:
            over = None if cell.path is None else path.start(self.engine, PathSpec(**cell.path.model_dump()))
            if over is not None:
                undo.callback(over.stop)
            started = contestants.start(cell, self.engine, self.registered, path=over, count_calls=count_calls)
            undo.callback(started.stop)
            server = LocalServer(started, over)
            if count_calls and not server.counts_itself:
                server = server.with_counter()
            undo.pop_all()
            return server

    def mismatch(self, connect: str, workload: Workload) -> Mismatch | None:
        """The protocol mismatch of the server at an address; None if it answers the protocol of the workload."""
        return protocol_probe.mismatch(connect, workload)

    def load(self, spec: LoadSpec) -> RunningLoad:
        """Starts the load generator."""
        return Load(self.engine, spec)

    def drive(self, cell: Cell, server: RunningServer) -> RunningClient:
        """Starts the client that makes the load of a cell, on the generator's processors; raises TrialFailed."""
        first = server.addresses[0]
        host, _, port = ("", "", "") if first.startswith("unix:") else first.rpartition(":")
        values = contestants.values_of(cell, host)
        values |= {"address": first, "addresses": ",".join(server.addresses), "port": port}
        place = Place(host, cell.load.cpus, server.load_netns or "")
        return Client(client_argv(cell.load.driver, values), place, server.memory)

    def rest(self, time_ms: int) -> Window:
        """Sleeps and returns the window."""
        begin_ns = time.monotonic_ns()
        time.sleep(time_ms / 1_000)
        return Passed(begin_ns, time.monotonic_ns())

    def memory_in_use(self) -> int:
        """Memory of the machine in use, in bytes."""
        return resources.memory_in_use()

    def core_to_core_ns(self, server: Sequence[int], load: Sequence[int]) -> float | None:
        """The core-to-core latency from a server to its generator now; None if they share a processor."""
        if not server or not load or set(server) & set(load):
            return None
        return core_to_core_ns(self.engine, server[0], load[0])


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A server of this host, the account of its process tree, and the path to it unless it is on loopback."""

    server: contestants.Server
    path: RunningPath | None = None
    counter: syscalls.Counter | None = None
    uncounted: str = ""

    @property
    def counts_itself(self) -> bool:
        """Whether it counts its own syscalls, as the engine does if the kernel allows it."""
        return self.ready is not None and not any(lack.startswith(UNCOUNTED) for lack in self.ready.lacks)

    def with_counter(self) -> LocalServer:
        """The same server with a syscall counter that starts now, while it is idle; or with the reason for none."""
        try:
            return replace(self, counter=syscalls.Counter(lambda: self.look().pids))
        except syscalls.CannotCountError as error:
            return replace(self, uncounted=str(error))

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where it listens."""
        return self.server.addresses

    @property
    def load_netns(self) -> str | None:
        """The network namespace of its load; None if that is the lab's."""
        return None if self.path is None else self.path.load_netns

    @property
    def ready(self) -> ServeReady | None:
        """Its ready event, if it speaks the contract."""
        return self.server.ready

    @property
    def line(self) -> ReadyLine | None:
        """The ready line of a server that is not ours, if it prints one."""
        return self.server.line

    def check(self, wait_s: float = 0.0) -> None:
        """Raises TrialFailed if it or its path has died, or it dies within `wait_s`."""
        self.server.check(wait_s)
        if self.path is not None:
            self.path.check()

    def observer(self) -> Observer:
        """An observer of it for one window."""
        return Observer(self)

    def look(self) -> proc.Tree:
        """Lists its processes; slow with many tasks, so only for an idle server."""
        return proc.look(*self.server.pids)

    def sample(self, tree: proc.Tree) -> Sample:
        """Reads the counters, the server's CPU clocks first. The use of a path counts as the lab's."""
        usage, ticks = proc.usage(tree), noise.ticks()
        path_ns = 0 if self.path is None else self.path.cpu_ns()
        return Sample(usage, ticks, proc.process_cpu_ns(os.getpid()) + path_ns, self.server.throttling())

    def size(self) -> proc.Size:
        """Its size now."""
        return proc.size(*self.server.pids)

    def memory_each(self, tree: proc.Tree) -> Mapping[int, proc.Memory]:
        """The memory of each of its processes; slow, so only for an idle server."""
        return proc.memory_each(tree.pids)

    def connections_each(self, tree: proc.Tree) -> Mapping[int, int]:
        """How many connections each of its first processes holds; empty if it has too many sockets to list."""
        return port_owner.connections(tree.pids[: proc.EACH_MAX]) if self.size().descriptors <= SOCKETS_MAX else {}

    def listening(self) -> ListenCounters | None:
        """The counters of all listening sockets in its network namespace."""
        return netstat.listen_counters(self.server.pids[0])

    def carried(self) -> PathReport | None:
        """What the path has carried since the last call; None on loopback. Raises TrialFailed."""
        return None if self.path is None else self.path.carried()

    def memory(self) -> proc.Memory | None:
        """The memory of all its processes now; None if the kernel does not report it."""
        return proc.together(self.memory_each(self.look()).values())

    def own_bytes(self) -> int | None:
        """Its proportional memory without that of files; slow too."""
        return proc.own_bytes(self.look().pids)

    def ask(self) -> None:
        """Requests its counters, without waiting for the answer."""
        if self.server.ready is not None:
            for each in self.server.instances:
                ask_served(each.child)

    def served(self) -> Served | None:
        """The counters; None for a command, which has none. Raises TrialFailed if there is no answer in time."""
        if self.server.ready is None:
            return None
        first, *others = (served(each.child) for each in self.server.instances)
        return functools.reduce(_together, others, first)

    def calls(self) -> Calls:
        """Its syscalls so far; raises TrialFailed if it does not answer."""
        if self.counter is not None:
            return Calls(time.monotonic_ns(), self.counter.calls())
        self.ask()
        said = self.served()
        return Calls(time.monotonic_ns(), None if said is None else said.calls, self.uncounted)

    def vitals(self) -> Vitals:
        """Its use and limits after a failure; fewer figures if it has died."""
        pid, groups = self.server.pids[0], self.server.limits.groups
        return Vitals(
            descriptors=resources.descriptors(self.look().pids[: proc.EACH_MAX]),
            address_space_bytes=resources.address_space_bytes(pid),
            refused=self._refused(),
            processes_refused=0 if groups is None else groups.processes_refused(),
            memory_refused=0 if groups is None else groups.memory_refused(),
            tasks=resources.tasks(),
            ports=resources.ports(pid, self.addresses),
        )

    def last_words(self) -> tuple[str, ...]:
        """The last lines it wrote to standard error."""
        return next((said for each in self.server.instances if (said := each.child.last_words())), ())

    def _refused(self) -> Mapping[str, int]:
        """The connections it reports as refused, by limit; empty if it does not report."""
        refused = Counter[str]()
        with suppress(TrialFailed, Ended):
            for each in self.server.instances if self.server.ready is not None else ():
                while each.child.line(0) is not None:
                    # Discards the answer to an earlier request whose trial failed.
                    pass
            self.ask()
            said = self.served()
            for worker in () if said is None else said.workers:
                refused.update(worker.refused)
        return refused

    def stop(self) -> bool:
        """Ends it, everything it started, and its path; returns whether it ended when it was asked to."""
        try:
            return self.server.stop()
        finally:
            if self.counter is not None:
                self.counter.close()
            if self.path is not None:
                self.path.stop()


def _clients(plan: Plan) -> list[str]:
    """The commands of the external clients of a plan."""
    loads = (cell.load for comparison in plan.comparisons for cell in comparison.cells)
    return sorted({load.client for load in loads if load.client is not None})


def _together(one: Served, other: Served) -> Served:
    """The counters of two instances of a server, summed."""
    calls = None if one.calls is None or other.calls is None else one.calls + other.calls
    return updated(one, workers=one.workers + other.workers, restarts=one.restarts + other.restarts, calls=calls)
