"""The servers to compare: the engine's models, those of the registry, and any other as a command.

A command is an argument list that no shell sees; a server of the registry is a command too, with its own environment
and files. A reaper starts it (see `reaper`), which keeps it on its processors and ends it and all of its children with
the lab.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from iolab.contract.ready import ReadyLine
from iolab.contract.types import CONNECTIONS_MAX, Description, ModelAbout, ServeReady, ServeSpec, updated
from iolab.errors import PlanError
from iolab.machine import needs
from iolab.machine.cgroups import Throttling
from iolab.machine.needs import Facts
from iolab.measure import limits, path, pythons, registered
from iolab.measure.engine import Engine, TrialFailed, serve, variant
from iolab.measure.limits import Limits
from iolab.measure.path import RunningPath
from iolab.measure.processes import Instance, Place, Readiness, refuse_missing, remove, spawn, stop_all
from iolab.measure.registered import Absent, Command, Registered
from iolab.measure.scratch import Scratch
from iolab.plan import registry, settings
from iolab.plan.needs import Needs
from iolab.plan.plan import Plan
from iolab.plan.registry import Registry
from iolab.plan.settings import Cell
from iolab.results.records import Failure
from iolab.wording import instead

HOST = "127.0.0.1"
# Placeholders with the same value in every command.
PLACES = {"contestants": str(registry.OURS.parent), "python": pythons.PYTHON}
# The servers of the registry that can be started here, by the contestants' texts.
Prepared = Mapping[str, Registered]
NONE_PREPARED: Prepared = {}


@dataclass(frozen=True, slots=True)
class Server:
    """A server that accepts connections: one or several instances, which are measured as one, and their limits."""

    instances: tuple[Instance, ...]
    limits: Limits = limits.NONE

    @property
    def pids(self) -> tuple[int, ...]:
        """The roots of its process trees."""
        return tuple(each.pid for each in self.instances)

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses of all its instances."""
        return tuple(address for each in self.instances for address in each.addresses)

    @property
    def ready(self) -> ServeReady | None:
        """The ready event of an engine server, equal for all instances; None for any other."""
        return self.instances[0].ready

    @property
    def line(self) -> ReadyLine | None:
        """The ready line of any other server, with the addresses of all instances; None if it prints none."""
        line = self.instances[0].line
        return None if line is None else updated(line, listen=self.addresses)

    def check(self, wait_s: float = 0.0) -> None:
        """Raises TrialFailed if an instance has died, or dies within `wait_s`."""
        for at, each in enumerate(self.instances):
            each.check(wait_s if at == 0 else 0.0)

    def throttling(self) -> Throttling | None:
        """The use of its CPU quota so far; None without a quota."""
        return None if self.limits.groups is None else self.limits.groups.throttling()

    def stop(self) -> bool:
        """Ends it and everything it started; returns whether it ended when it was asked to. May be called again."""
        try:
            return stop_all(self.instances)
        finally:
            self.limits.undo()


def options(engine: Description, known: Registry) -> dict[str, list[str]]:
    """The option names of every model and of every server of the registry, by its name."""
    registry.refuse_names_of([model.name for model in engine.models], known)
    models = {model.name: [option.name for option in model.options] for model in engine.models}
    return models | {name: list(server.entry.options) for name, server in known.items()}


def refuse_unknown(plan: Plan, engine: Description, known: Registry) -> None:
    """Raises PlanError, before anything runs, for unknown names and options and for settings a server does not take."""
    names, models = options(engine, known), {model.name: model for model in engine.models}
    for cell in (cell for comparison in plan.comparisons for cell in comparison.cells):
        contestant, protocol = cell.contestant, cell.workload.protocol
        if contestant.kind == "command":
            continue
        name = contestant.name
        if name not in names:
            raise PlanError(f"there is no contestant {name!r}{instead(name, names)}")
        if name in models and protocol not in models[name].protocols:
            raise PlanError(f"{name} does not speak {protocol}: it speaks {', '.join(models[name].protocols)}")
        unknown = next((option for option in contestant.options if option not in names[name]), None)
        if unknown is not None:
            others = instead(unknown, names[name]) if names[name] else ": it has none"
            raise PlanError(f"{name} has no option {unknown!r}{others}")
        if name in known and (why := registry.refusal(known[name], cell)):
            raise PlanError(why)
        if name in models and cell.server.interpreter is not None:
            raise PlanError(f"{name} does not run on Python: leave server.interpreter out, or leave {name} out")


@dataclass(frozen=True, slots=True)
class Building:
    """Event: a server of the registry is built for the first time, which takes a while."""

    contestant: str
    command: str


def prepare(
    plan: Plan, known: Registry, on_event: Callable[[Building], None]
) -> tuple[dict[str, Registered], dict[str, str]]:
    """The servers of the registry that a plan names, built and ready to start; and why the others cannot run."""
    ready, absent = dict[str, Registered](), dict[str, str]()
    cells = (cell for comparison in plan.comparisons for cell in comparison.cells)
    names = {cell.contestant.name for cell in cells if cell.contestant.kind == "named"}
    for server in (known[name] for name in sorted(names & set(known))):
        if registered.must_be_built(server) and not registered.missing(server):
            on_event(Building(server.name, server.entry.build[0]))
        try:
            ready[server.name] = registered.prepare(server)
        except Absent as why:
            absent[server.name] = str(why)
    return ready, absent


def variants(plan: Plan, engine: Engine, known: Registry, absent: Mapping[str, str]) -> dict[str, ModelAbout]:
    """The description of every named contestant of a plan, with its options, by its text.

    Raises PlanError, before anything runs, for a value that an option does not take.
    """
    named = {
        cell.contestant.text: cell.contestant
        for comparison in plan.comparisons
        for cell in comparison.cells
        if cell.contestant.kind == "named"
    }
    return {
        text: _about(known[name].entry, name, absent.get(name)) if name in known else variant(engine, contestant)
        for text, contestant in named.items()
        for name in [contestant.name]
    }


def _about(entry: registry.Entry, name: str, why_not: str | None) -> ModelAbout:
    """A server of the registry, described like a model of the engine."""
    return ModelAbout(
        name=name, about=entry.about, protocols=entry.protocols, available=why_not is None, why_not=why_not
    )


def facts(plan: Plan, engine: Engine) -> Facts:
    """What this machine has of the features a plan may need. Paths and limits of processes are tried only if needed."""
    wanted = [*_needs_of_claims(plan)]
    wanted += [plan.needs_of(at, slot) for at, found in enumerate(plan.comparisons) for slot in range(len(found.cells))]
    is_limited = any(each.processes_limit for each in wanted)
    processes_why_not = limits.why_not("processes_max", str(engine.path)) if is_limited else ""
    return needs.here(
        path_why_not=path.why_not(engine) if any(each.path for each in wanted) else "",
        cpu_quota_why_not=limits.why_not("cpu_quota"),
        memory_limit_why_not=limits.why_not("memory_limit_bytes"),
        processes_limit_why_not=processes_why_not,
        models_why_not={each.name: each.why_not or "" for each in engine.description.models},
    )


def _needs_of_claims(plan: Plan) -> Iterator[Needs]:
    for claim in plan.claims:
        yield claim.needs
        yield from (test.needs for test in claim.tests)


def unmet_by_claims(plan: Plan, facts: Facts) -> dict[Needs, str]:
    """The needs of claims and their tests that this machine does not meet, each with what is missing."""
    return {wanted: why for wanted in _needs_of_claims(plan) if (why := needs.unmet(wanted, facts))}


def left_out(
    plan: Plan, variants: Mapping[str, ModelAbout], facts: Facts, prepared: Prepared = NONE_PREPARED
) -> dict[tuple[int, int], Failure]:
    """The contestants that cannot take part, by comparison and slot, and why. They are not measured."""
    found = dict[tuple[int, int], Failure]()
    for at, comparison in enumerate(plan.comparisons):
        for slot, cell in enumerate(comparison.cells):
            unmet = _unmet(plan.needs_of(at, slot), cell, facts) or _unfit(cell, variants)
            failure = unmet or _without_python(cell, prepared.get(cell.contestant.name))
            if failure is not None:
                found[at, slot] = failure
    return found


def _unmet(wanted: Needs, cell: Cell, facts: Facts) -> Failure | None:
    """What a cell needs and this machine lacks."""
    why = needs.unmet(wanted, facts) or needs.unmet_cpus((*cell.server.cpus, *cell.load.cpus), facts)
    return Failure(kind="unavailable", message=why, final=True) if why else None


def _without_python(cell: Cell, server: Registered | None) -> Failure | None:
    """The failure of a cell without its interpreter, or with one that cannot import what its server needs."""
    entry = None if server is None else server.listed.entry
    packages, install = ((), "") if entry is None else (entry.packages, entry.install)
    why = pythons.why_not(cell.server.interpreter, packages, install)
    return Failure(kind="unavailable", message=why, final=True) if why else None


def refuse_unfit(
    plan: Plan, variants: Mapping[str, ModelAbout], facts: Facts, prepared: Prepared = NONE_PREPARED
) -> None:
    """Raises PlanError for the first contestant that cannot take part: all contestants named by hand must run."""
    for (at, slot), failure in left_out(plan, variants, facts, prepared).items():
        cell = plan.comparisons[at].cells[slot]
        if failure.kind == "unavailable":
            raise PlanError(f"{cell.contestant.text} cannot run here: {failure.message}")
        holds = _holds(cell, variants[cell.contestant.text])
        raise PlanError(
            f"{cell.contestant.text} {failure.message} at a time, of {cell.load.connections} connections: "
            f"use --connections {holds}, or another model"
        )


def _unfit(cell: Cell, variants: Mapping[str, ModelAbout]) -> Failure | None:
    about = variants.get(cell.contestant.text)
    if about is None:
        return None
    if not about.available:
        return Failure(kind="unavailable", message=about.why_not or "this machine lacks what it needs", final=True)
    holds = _holds(cell, about)
    if holds is not None and holds < cell.held:
        return Failure(kind="holds", message=f"holds {holds}", final=True)
    return None


def _holds(cell: Cell, about: ModelAbout) -> int | None:
    """How many connections the server of a cell serves at the same time; None if only the machine limits it."""
    return None if about.holds is None else about.holds * cell.server.workers_in_all


def start(
    cell: Cell,
    engine: Engine | None,
    prepared: Prepared = NONE_PREPARED,
    *,
    path: RunningPath | None = None,
    count_calls: bool = False,
) -> Server:
    """Starts the contestant of a cell under its limits, on free ports of loopback or of a path's end.

    Raises TrialFailed.
    """
    applied = limits.apply(cell.server)
    place = Place(_host(path), cell.server.cpus, "" if path is None else path.server_netns, applied.words)
    with ExitStack() as undo:
        undo.callback(applied.undo)
        if cell.contestant.kind == "command" or cell.contestant.name in prepared:
            instances = _start_commands(cell, prepared.get(cell.contestant.name), place)
        else:
            instances = _start_models(cell, engine, place, count_calls=count_calls)
        undo.callback(stop_all, instances)
        for each in instances:
            pythons.refuse_other(cell.server.interpreter, each.line.interpreter if each.line else None)
        undo.pop_all()
        return Server(instances, applied)


def _start_models(cell: Cell, engine: Engine | None, place: Place, *, count_calls: bool) -> tuple[Instance, ...]:
    """Starts the instances of a model of the engine; raises TrialFailed."""
    if engine is None:
        raise TrialFailed("no_engine", f"{cell.contestant.text} needs the engine: run: make build", final=True)
    spec = ServeSpec(
        model=cell.contestant.name,
        options=cell.contestant.options,
        workload=cell.workload,
        listen=(f"{place.host}:0",) * cell.server.sockets,
        workers=cell.server.workers,
        worker_kind=cell.server.worker_kind,
        cpus=cell.server.cpus,
        netns=place.netns or None,
        # Twice the connections, because those of the last run may still be closing.
        connections_max=min(max(16_384, 2 * cell.load.connections), CONNECTIONS_MAX),
        count_calls=count_calls,
    )
    started = list[Instance]()
    with ExitStack() as undo:
        for _ in range(cell.server.instances):
            child, ready = serve(engine, spec, cell.server.environment, place.before)
            started.append(Instance(child, child.pid, ready.listen, ready, began_s=time.monotonic()))
            undo.callback(started[-1].stop)
        undo.pop_all()
    return tuple(started)


def _start_commands(cell: Cell, server: Registered | None, place: Place) -> tuple[Instance, ...]:
    """Starts the instances of a command or of a server of the registry, all at once, and waits until all are ready.

    Raises TrialFailed.
    """
    with ExitStack() as undo:
        started = list[tuple[Instance, Readiness]]()
        for port in free_ports(cell.server.instances):
            scratch = None if server is None else Scratch.make()
            undo.callback(remove, scratch)
            command = _command(cell, server, place.host, port, scratch)
            keeps_stdout = server is not None and server.listed.entry.ready == "line"
            instance = spawn(command, place, scratch=scratch, keeps_stdout=keeps_stdout)
            undo.callback(instance.stop)
            limit_s = cell.trial.start_ms / 1_000
            started.append((instance, Readiness(place, port, cell.server.sockets, limit_s, command.argv)))
        ready = tuple(readiness.wait(instance) for instance, readiness in started)
        undo.pop_all()
    return ready


def _command(cell: Cell, server: Registered | None, host: str, port: int, scratch: Scratch | None) -> Command:
    """The command that starts the contestant of a cell on a port; raises TrialFailed."""
    if server is not None and scratch is not None:
        command = server.command(cell, host, port, scratch.folder)
    else:
        argv = cell.contestant.argv(port, values_of(cell, host))
        refuse_missing(argv[0], "cmd:")
        command = Command(argv, {})
    return Command(command.argv, {**command.environment, **cell.server.environment})


def values_of(cell: Cell, host: str) -> dict[str, str]:
    """The placeholders of a command and their values, except its port; raises TrialFailed without its interpreter."""
    python = pythons.program(cell.server.interpreter)
    return settings.values_of(cell) | PLACES | {"host": host, "python": python}


def free_ports(count: int) -> tuple[int, ...]:
    """Free ports. If another process takes one first, the command fails and is tried again."""
    with ExitStack() as closing:
        listeners = [closing.enter_context(socket.create_server((HOST, 0))) for _ in range(count)]
        return tuple(listener.getsockname()[1] for listener in listeners)


def _host(path: RunningPath | None) -> str:
    """The address that a server listens on."""
    return HOST if path is None else path.server_address
