"""The servers that compete: the engine's models, those of the registry, and anybody's as a command.

A command is an argument list and never sees a shell; a server of the registry is a command too, with an environment
and files of its own. A reaper starts it (see `reaper`), so that it stays on its processors and dies with the lab, with
all that it forked.
"""

from __future__ import annotations

import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from iolab.contract.types import CONNECTIONS_MAX, Description, ModelAbout, ServeReady, ServeSpec
from iolab.errors import PlanError
from iolab.machine import needs, port_owner, proc
from iolab.machine.cgroups import Throttling
from iolab.machine.needs import Facts
from iolab.measure import limits, path, reaper, registered
from iolab.measure.child import Child, Ended, ending
from iolab.measure.engine import Engine, TrialFailed, serve, variant, with_environment
from iolab.measure.limits import Limits
from iolab.measure.path import RunningPath
from iolab.measure.registered import Absent, Command, Registered
from iolab.plan import registry, settings
from iolab.plan.needs import Needs
from iolab.plan.plan import Plan
from iolab.plan.registry import Registry
from iolab.plan.settings import Cell
from iolab.results.records import Failure
from iolab.wording import instead

HOST = "127.0.0.1"
# How long a command may take until it accepts a connection: an interpreter or a virtual machine has to start.
ACCEPTS_S_MAX = 15.0
POLL_S = 0.01
# What a shell reads between commands, and a program as an argument.
OPERATORS = frozenset({"&&", "||", "|", ";", "&", ">", ">>", "<"})
# How long its reaper may take until it has started it.
REAPER_S_MAX = 10.0
# The servers of the registry that can be started here, by the contestants' texts.
Prepared = Mapping[str, Registered]
NONE_PREPARED: Prepared = {}


@dataclass(frozen=True, slots=True)
class Server:
    """A server that accepts connections at `addresses`. `ready` is what ours said; a command says nothing.

    `child` is what the lab started, and `pid` the root of the server's process tree: behind a reaper, they differ.
    `scratch` is a folder that goes with it, and so do its `limits`.
    """

    child: Child
    pid: int
    addresses: tuple[str, ...]
    ready: ServeReady | None
    scratch: Path | None = None
    limits: Limits = limits.NONE

    def check(self, wait_s: float = 0.0) -> None:
        """Raises TrialFailed when it has died, or dies within `wait_s`."""
        if self.child.wait(wait_s) is not None:
            raise _died(self.child, "while it was measured", reaped=self.ready is None)

    def throttling(self) -> Throttling | None:
        """What its CPU quota has done so far; None without one."""
        return None if self.limits.groups is None else self.limits.groups.throttling()

    def stop(self) -> None:
        """Ends it and everything it started. May be called again."""
        self.child.stop()
        self.limits.undo()
        _remove(self.scratch)


def options(engine: Description, known: Registry) -> dict[str, list[str]]:
    """The names of the options of every model and of every server of the registry, by its name."""
    registry.refuse_names_of([model.name for model in engine.models], known)
    models = {model.name: [option.name for option in model.options] for model in engine.models}
    return models | {name: list(server.entry.options) for name, server in known.items()}


def refuse_unknown(plan: Plan, engine: Description, known: Registry) -> None:
    """Raises PlanError, before anything runs, for a name or an option that is unknown, and for what a server does not
    take.
    """
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


@dataclass(frozen=True, slots=True)
class Building:
    """A server of the registry is built for the first time, which takes a while."""

    contestant: str
    command: str


def prepare(
    plan: Plan, known: Registry, on_event: Callable[[Building], None]
) -> tuple[dict[str, Registered], dict[str, str]]:
    """The servers of the registry that a plan names, built and ready to be started; and why others cannot be."""
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
    """What there is to know of every named contestant of a plan, with its options, by its text.

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
    """A server of the registry as the engine describes a model."""
    return ModelAbout(
        name=name, about=entry.about, protocols=entry.protocols, available=why_not is None, why_not=why_not
    )


def facts(plan: Plan, engine: Engine) -> Facts:
    """What this machine has of what a plan can need. A path is only tried where one is needed."""
    wanted = [*_needs_of_claims(plan)]
    wanted += [plan.needs_of(at, slot) for at, found in enumerate(plan.comparisons) for slot in range(len(found.cells))]
    limited = limits.reasons()
    return needs.here(
        path_why_not=path.why_not(engine) if any(each.path for each in wanted) else "",
        cpu_quota_why_not=limited["cpu_quota"],
        memory_limit_why_not=limited["memory_limit_bytes"],
        processes_limit_why_not=limited["processes_max"],
        models_why_not={each.name: each.why_not or "" for each in engine.description.models},
    )


def _needs_of_claims(plan: Plan) -> Iterator[Needs]:
    for claim in plan.claims:
        yield claim.needs
        yield from (test.needs for test in claim.tests)


def unmet_by_claims(plan: Plan, facts: Facts) -> dict[Needs, str]:
    """What claims and their tests need and this machine has not, each with what is missing."""
    return {wanted: why for wanted in _needs_of_claims(plan) if (why := needs.unmet(wanted, facts))}


def left_out(plan: Plan, variants: Mapping[str, ModelAbout], facts: Facts) -> dict[tuple[int, int], Failure]:
    """Who cannot take part in what, as (comparison, slot), and why: what is never measured as if it could."""
    return {
        (at, slot): failure
        for at, comparison in enumerate(plan.comparisons)
        for slot, cell in enumerate(comparison.cells)
        if (failure := _unmet(plan.needs_of(at, slot), cell, facts) or _unfit(cell, variants)) is not None
    }


def _unmet(wanted: Needs, cell: Cell, facts: Facts) -> Failure | None:
    """What a cell needs and this machine has not."""
    why = needs.unmet(wanted, facts) or needs.unmet_cpus((*cell.server.cpus, *cell.load.cpus), facts)
    return Failure(kind="unavailable", message=why, final=True) if why else None


def refuse_unfit(plan: Plan, variants: Mapping[str, ModelAbout], facts: Facts) -> None:
    """Raises PlanError for the first contestant that cannot take part: who was named by hand is to be compared."""
    for (at, slot), failure in left_out(plan, variants, facts).items():
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
    """How many connections the server of a cell serves at the same time; None when only the machine limits it."""
    return None if about.holds is None else about.holds * cell.server.workers


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
    _refuse_unapplied(cell)
    applied = limits.apply(cell.server)
    try:
        server = _start(cell, engine, prepared, path, applied.words, count_calls=count_calls)
    except BaseException:
        applied.undo()
        raise
    return replace(server, limits=applied)


def _start(
    cell: Cell,
    engine: Engine | None,
    prepared: Prepared,
    path: RunningPath | None,
    before: Sequence[str],
    *,
    count_calls: bool,
) -> Server:
    """Starts the contestant of a cell, with these words before its command."""
    if cell.contestant.kind == "command":
        return _start_command(cell, path, before)
    if cell.contestant.name in prepared:
        return _start_registered(cell, prepared[cell.contestant.name], path, before)
    if engine is None:
        raise TrialFailed("no_engine", f"{cell.contestant.text} needs the engine: run: make build", final=True)
    spec = ServeSpec(
        model=cell.contestant.name,
        options=cell.contestant.options,
        workload=cell.workload,
        listen=(f"{_host(path)}:0",) * cell.server.sockets,
        workers=cell.server.workers,
        worker_kind=cell.server.worker_kind,
        cpus=cell.server.cpus,
        netns=None if path is None else path.server_netns,
        # As many connections again, for those of the last run that are still closing.
        connections_max=min(max(16_384, 2 * cell.load.connections), CONNECTIONS_MAX),
        count_calls=count_calls,
    )
    child, ready = serve(engine, spec, cell.server.environment, before)
    return Server(child, child.pid, ready.listen, ready)


def _refuse_unapplied(cell: Cell) -> None:
    """Raises TrialFailed for settings of a server that nothing applies."""
    if cell.server.instances != settings.Server.model_fields["instances"].default:
        raise TrialFailed("cannot", "server.instances: the lab cannot set it: leave it out", final=True)


def free_port() -> int:
    """A port nobody listens on now. Another process may take it first: the command then fails, and is tried again."""
    with socket.create_server((HOST, 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _host(path: RunningPath | None) -> str:
    """The address that a server listens on."""
    return HOST if path is None else path.server_address


def _start_command(cell: Cell, path: RunningPath | None, before: Sequence[str]) -> Server:
    port = free_port()
    argv = cell.contestant.argv(port, {**settings.values_of(cell), "host": HOST})
    if shutil.which(argv[0]) is None:
        missing = "is not executable" if Path(argv[0]).exists() else "does not exist"
        raise TrialFailed("cannot_start", f"{argv[0]} {missing}: check the command after cmd:", final=True)
    return _start_reaped(cell, Command(argv, {}), path, port, before)


def _start_registered(cell: Cell, server: Registered, path: RunningPath | None, before: Sequence[str]) -> Server:
    port, scratch = free_port(), Path(tempfile.mkdtemp(prefix="iolab-"))
    try:
        return _start_reaped(cell, server.command(cell, _host(path), port, scratch), path, port, before, scratch)
    except BaseException:
        _remove(scratch)
        raise


def _start_reaped(
    cell: Cell,
    command: Command,
    path: RunningPath | None,
    port: int,
    before: Sequence[str],
    scratch: Path | None = None,
) -> Server:
    """Starts a command behind a reaper, and waits until it accepts connections; raises TrialFailed."""
    argv = command.argv
    words = [*before, *with_environment({**command.environment, **cell.server.environment}, argv)]
    cpus, netns = ",".join(map(str, cell.server.cpus)), "" if path is None else path.server_netns
    try:
        child = Child([sys.executable, "-I", "-S", reaper.__file__, cpus, netns, *words], b"")
    except OSError as error:
        # Such as a body that is too long for an argument.
        message = f"{argv[0]} cannot be started: {error.strerror or error}"
        raise TrialFailed("cannot_start", message, final=True) from None
    try:
        pid = _pid_reaped(child, argv[0])
        address = f"{_host(path)}:{port}"
        _wait_until_it_accepts(child, pid, address, argv, is_here=path is None)
    except BaseException:
        child.stop()
        raise
    return Server(child, pid, (address,), None, scratch)


def _remove(scratch: Path | None) -> None:
    if scratch is not None:
        shutil.rmtree(scratch, ignore_errors=True)


def _pid_reaped(child: Child, program: str) -> int:
    """The process id of the server, which its reaper says first."""
    try:
        line = child.line(REAPER_S_MAX)
    except Ended:
        said = child.last_words() or (f"{program} cannot be started",)
        raise TrialFailed("cannot_start", said[-1], final=True) from None
    if line is None:
        raise TrialFailed("hung", f"{program} was not started within {REAPER_S_MAX:.0f} s")
    return int(line)


def _wait_until_it_accepts(child: Child, pid: int, address: str, argv: Sequence[str], *, is_here: bool) -> None:
    """Waits for it; raises TrialFailed. At the end of a path the kernel's table says whether it listens."""
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + ACCEPTS_S_MAX
    while time.monotonic() < deadline:
        if not child.alive():
            raise _died(child, f"before it accepted a connection on port {port}", reaped=True, argv=argv)
        if _accepts(host, int(port)) if is_here else port_owner.is_listened_on(address, pid):
            return
        time.sleep(POLL_S)
    raise _not_there(child, pid, host, int(port))


def _accepts(host: str, port: int) -> bool:
    """Whether something at an address of this machine accepts a connection."""
    with suppress(OSError), socket.create_connection((host, port), timeout=POLL_S * 10):
        return True
    return False


def _not_there(child: Child, pid: int, host: str, port: int) -> TrialFailed:
    """Why a server that runs does not listen on its port, as far as its sockets show."""
    elsewhere = port_owner.addresses(proc.look(pid).pids)
    if any(address.endswith(f":{port}") for address in elsewhere):
        message = f"it listens on {', '.join(elsewhere)}, not on {host}: let it listen there"
    elif elsewhere:
        message = (
            f"it listens on {', '.join(elsewhere)}, not on {port}, the port it was given: let it listen on {{port}}"
        )
    else:
        message = (
            f"it listens nowhere {ACCEPTS_S_MAX:.0f} s after its start, which is the limit: "
            "let it listen on {port}, and sooner if it starts slowly"
        )
        return TrialFailed("hung", message, final=True, said=child.last_words())
    return TrialFailed("wrong_address", message, final=True, said=child.last_words())


def _died(child: Child, when: str, *, reaped: bool, argv: Sequence[str] = ()) -> TrialFailed:
    """How a server ended, and its last words. The reaper of a command says how, because it ends with a code itself.

    `argv` is given of a command that has not served yet.
    """
    try:
        line = child.line(0) if reaped else None
        code = child.wait(0) if line is None else int(line)
        how = ending(code)
    except Ended as ended:
        code, how = ended.code, str(ended)
    advice = _advice(argv, code) if argv else ""
    return TrialFailed("died", f"the server {how} {when}{advice}", said=child.last_words())


def _advice(argv: Sequence[str], code: int | None) -> str:
    """What to do about a command that ended before it served."""
    operator = next((word for word in argv if word in OPERATORS), None)
    if operator is not None:
        return f": no shell reads the command, so {operator} is an argument: write cmd:sh -c '…'"
    return ": if it goes into the background, keep it in the foreground" if code == 0 else ""
