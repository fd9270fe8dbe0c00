"""The commands that repeat a run, or one trial of it by hand, as argument lists; `folded` makes text to paste."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from iolab.contract.types import EchoWorkload, HttpWorkload, LineWorkload, RpcWorkload, Workload
from iolab.plan.contestant import client_argv
from iolab.plan.plan import Plan
from iolab.plan.registry import filled
from iolab.plan.settings import SETTINGS, SHORT, Cell, Load, settings_of, values_of

PORT = 8080
# The record of a run's machine, and the servers of the registry in it, by name.
Machine = Mapping[str, Any]
Servers = Mapping[str, Mapping[str, Any]]
NO_RECORD: Machine = {}
# Settings for which `iolab vs` has other flags, or none. A repeated run has its own times.
OTHERWISE = frozenset(
    {
        *("load.connections", "load.threads", "load.driver", "load.cpus"),
        *("server.workers", "server.worker_kind", "server.sockets", "server.cpus", "server.environment"),
        *("trial.warmup_ms", "trial.duration_ms", "trial.interval_ms"),
    }
)
# The width of a line of code on a phone.
COLUMNS = 38


class ByHand(NamedTuple):
    """One trial by hand: the server in one terminal, the load in another, and the differences from the run."""

    title: str
    server: tuple[str, ...]
    load: tuple[str, ...]
    note: str


def again(plan: Plan) -> tuple[str, ...]:
    """The command that runs the whole plan again, with its seed."""
    words = _vs_words(plan) if plan.name == "vs" else ["iolab", "run", plan.name, *_aim_words(plan)]
    words += [word for name, value in plan.overrides.items() for word in ("--set", f"{name}={value}")]
    # A plan as short as a quick one has the same digest with the flag.
    return (*words, "--quick") if plan.quick().digest == plan.digest else tuple(words)


def servers_of(machine: Machine) -> Servers:
    """The servers of the registry in the record of a machine; older runs have none."""
    servers: Servers = machine.get("servers", {})
    return servers


def by_hand(plan: Plan, index: int, machine: Machine = NO_RECORD) -> tuple[ByHand, ...]:
    """Each contestant of one comparison by hand, as on the recorded machine."""
    comparison, servers, places = plan.comparisons[index], servers_of(machine), _places(machine)
    return tuple(
        ByHand(
            title,
            tuple(_server_words(cell, servers, places)),
            tuple(_load_words(cell, places)),
            _note(cell, servers),
        )
        for title, cell in zip(comparison.titles, comparison.cells, strict=True)
    )


def _places(machine: Machine) -> dict[str, str]:
    """The placeholders that the lab fills in besides settings. The folder of its servers is that of the measured run.

    A page is the same wherever it is made. Older runs do not record the folder; it defaults to a checkout's.
    """
    return {"host": "127.0.0.1", "python": "python3", "contestants": machine.get("contestants", "contestants")}


def _note(cell: Cell, servers: Servers) -> str:
    """A note on parts that only a run does: fill in the rest of an entry, start several instances, use all sockets."""
    if cell.contestant.kind == "named" and cell.contestant.name in servers:
        return "The run also fills in what is still in braces, and writes the files that the registry's entry lists."
    if cell.server.instances > 1:
        return f"The run starts {cell.server.instances} of this server, and spreads the connections over all of them."
    if cell.server.sockets == 1:
        return ""
    return f"By hand all connections reach the first of {cell.server.sockets} sockets; the run spreads them over all."


def folded(words: Sequence[str]) -> str:
    """One command over several lines, with a backslash at the end of each but the last; a flag stays with its value."""
    units: list[str] = []
    for word in words:
        is_value = bool(units) and units[-1].startswith("--") and " " not in units[-1] and not word.startswith("--")
        units[-1:] = [f"{units[-1]} {shlex.quote(word)}"] if is_value else [*units[-1:], shlex.quote(word)]
    lines = [units[0]]
    for unit in units[1:]:
        if len(lines[-1]) + len(unit) < COLUMNS:
            lines[-1] += f" {unit}"
        else:
            lines.append(f"  {unit}")
    return " \\\n".join(lines)


def _vs_words(plan: Plan) -> list[str]:
    cells = plan.comparisons[0].cells
    cell, workload = cells[0], cells[0].workload
    words = ["iolab", "vs", *(each.contestant.text for each in cells), "--protocol", workload.protocol]
    words += ["--reply-bytes", str(workload.reply_bytes)] if isinstance(workload, HttpWorkload) else []
    words += _message_words(workload)
    words += ["--work-ns", str(workload.work_ns)] if isinstance(workload, RpcWorkload) else []
    words += ["--connections", str(cell.load.connections), *_worker_words(cell), "--threads", str(cell.load.threads)]
    words += ["--sockets", str(cell.server.sockets)] if cell.server.sockets > 1 else []
    words += _other_words(cell)
    words += ["--driver", cell.load.driver, *_blocks_words(plan), "--seed", str(plan.seed)]
    for flag, cpus in (("--server-cpus", cell.server.cpus), ("--load-cpus", cell.load.cpus)):
        words += [flag, _list(cpus)] if cpus else []
    return words


def _blocks_words(plan: Plan) -> list[str]:
    """The flags for the number of blocks, or for the precision or budget that chooses it."""
    return ["--blocks", str(plan.blocks)] if plan.aim is None else _aim_words(plan)


def _aim_words(plan: Plan) -> list[str]:
    aim = plan.aim
    within = [] if aim is None or aim.within is None else ["--within", f"{100 * aim.within:.12g}%"]
    budget = [] if aim is None or aim.budget_ms is None else ["--budget", f"{aim.budget_ms}ms"]
    return [*within, *budget]


def _other_words(cell: Cell) -> list[str]:
    """The flags of `iolab vs` for settings that differ from their defaults: each is named like its setting."""
    defaults = settings_of(Cell(contestant=cell.contestant, workload=cell.workload))
    words = ["--no-keep-alive"] if isinstance(cell.workload, HttpWorkload) and not cell.workload.keep_alive else []
    path = []
    for name, value in settings_of(cell).items():
        if SETTINGS[name].table == "path":
            path += [f"{SETTINGS[name].key}={value}"] if value != SETTINGS[name].field.default else []
        elif value != defaults[name] and name not in OTHERWISE:
            words += [f"--{SHORT[name].replace('_', '-')}", f"{value:.12g}" if isinstance(value, float) else str(value)]
    return words + (["--path", ",".join(path) or "delay_ms=0"] if cell.path is not None else [])


def _server_words(cell: Cell, servers: Servers, places: Mapping[str, str]) -> list[str]:
    """The command of a server, on its processors and with the environment that the run adds."""
    environment: Mapping[str, str] = {}
    pinned = ["taskset", "--cpu-list", _list(cell.server.cpus)] if cell.server.cpus else []
    if cell.contestant.kind == "command":
        words = [*cell.contestant.argv(PORT, {**values_of(cell), **places})]
    elif (registered := servers.get(cell.contestant.name)) is not None:
        values = {**values_of(cell), **places, "port": str(PORT)}
        values |= registered.get("options", {}) | cell.contestant.options
        words = [filled(word, values) for word in registered["start"]]
        environment = {name: filled(value, values) for name, value in registered.get("environment", {}).items()}
    else:
        # The engine pins itself.
        pinned, words = [], _serve_words(cell)
    added = [f"{name}={value}" for name, value in {**environment, **cell.server.environment}.items()]
    return [*pinned, *(["env", *added] if added else []), *words]


def _serve_words(cell: Cell) -> list[str]:
    """The command of an engine server."""
    words = ["iolab", "serve", "--model", cell.contestant.name]
    for name, value in cell.contestant.options.items():
        words += ["--option", f"{name}={value}"]
    workload = cell.workload
    words += ["--protocol", workload.protocol]
    if isinstance(workload, HttpWorkload):
        words += ["--reply-bytes", str(workload.reply_bytes)]
        words += ["--reply-status", str(workload.reply_status)] if workload.reply_status != 200 else []
    words += _message_words(workload)
    if isinstance(workload, RpcWorkload) and workload.work_ns:
        words += ["--work", f"{Decimal(workload.work_ns) / 1_000:f}us"]
    for number in range(cell.server.sockets):
        words += ["--listen", f"127.0.0.1:{PORT + number}"]
    words += _worker_words(cell)
    return words + (["--cpus", _list(cell.server.cpus)] if cell.server.cpus else [])


def _load_words(cell: Cell, places: Mapping[str, str]) -> list[str]:
    if cell.load.connections == 0:
        return []
    if cell.load.client is not None:
        address = f"127.0.0.1:{PORT}"
        values = {**values_of(cell), **places, "port": str(PORT), "address": address, "addresses": address}
        return list(client_argv(cell.load.client, values))
    workload = cell.workload
    if isinstance(workload, HttpWorkload):
        words = ["iolab", "load", f"http://127.0.0.1:{PORT}{workload.target}", "--verify", workload.verify]
        words += [] if workload.keep_alive else ["--no-keepalive"]
        words += ["--expect-status", str(workload.reply_status)] if workload.reply_status != 200 else []
    else:
        words = ["iolab", "load", f"tcp://127.0.0.1:{PORT}"]
        words += [] if isinstance(workload, EchoWorkload) else ["--protocol", workload.protocol]
        words += _message_words(workload)
    load, times = cell.load, cell.trial
    words += ["--connections", str(load.connections), "--threads", str(load.threads), "--driver", load.driver]
    words += _pattern_words(load)
    if load.requests is None:
        words += ["--warmup", f"{times.warmup_ms}ms", "--duration", f"{times.duration_ms}ms"]
    words += ["--timeout", f"{times.timeout_ms}ms"]
    return words + (["--cpus", _list(load.cpus)] if load.cpus else [])


def _pattern_words(load: Load) -> list[str]:
    """The flags of `iolab load` for rarely used settings that differ from their defaults."""
    flags = {
        "--active": load.active,
        "--idle": load.idle or None,
        "--pipeline": None if load.pipeline == 1 else load.pipeline,
        "--requests-per-connection": load.requests_per_connection,
        "--requests": load.requests,
        # A share of a capacity becomes a number only once the capacity is measured.
        "--rate": "RATE" if isinstance(load.rate, str) else None if load.rate is None else f"{load.rate:.12g}",
        "--arrivals": None if load.rate is None else load.arrivals,
        "--connect-rate": None if load.connect_per_s is None else f"{load.connect_per_s:.12g}",
        "--processes": None if load.processes == 1 else load.processes,
        "--probes": load.probes or None,
        "--spin": f"{load.spin_us}us" if load.spin_us else None,
    }
    words = [word for flag, value in flags.items() if value is not None for word in (flag, str(value))]
    return words + (["--details"] if load.details else [])


def _message_words(workload: Workload) -> list[str]:
    """The flags of a workload that both sides take."""
    if isinstance(workload, EchoWorkload):
        return ["--framing", workload.framing, "--message-bytes", str(workload.message_bytes)]
    if isinstance(workload, LineWorkload):
        return ["--message-bytes", str(workload.message_bytes)]
    if isinstance(workload, RpcWorkload):
        return ["--target", str(workload.target), "--text-bytes", str(workload.text_bytes)]
    return []


def _worker_words(cell: Cell) -> list[str]:
    kind = ["--worker-kind", cell.server.worker_kind] if cell.server.worker_kind != "thread" else []
    return ["--workers", str(cell.server.workers), *kind]


def _list(cpus: tuple[int, ...]) -> str:
    return ",".join(map(str, cpus))
