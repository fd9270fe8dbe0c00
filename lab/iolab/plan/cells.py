"""Turns settings as written into cells: which contestant runs with which, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

from pydantic import Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from iolab.contract.types import WORKLOADS, Frozen
from iolab.plan import mistakes
from iolab.plan.contestant import Contestant, client_takes
from iolab.plan.needs import Needs
from iolab.plan.settings import DOTTED, SETTINGS, SHORT, TABLES, Cell, Load, Server, cell_of
from iolab.wording import instead, nearest

Table = dict[str, Any]


class Entrant(Frozen):
    """A contestant in an experiment: a server and its own settings.

    Plain text is the server. `server_settings` is the table `server`, whose name is taken.
    """

    name: str = Field(default="", max_length=80, description="name in reports; by default that of its server")
    server: Contestant = Field(description="a model, a name of the registry, or cmd: and a command")
    workload: Table = Field(default={}, description="its own settings of the table workload")
    load: Table = Field(default={}, description="its own settings of the table load")
    server_settings: Table = Field(default={}, description="its own settings of the table server")
    path: Table = Field(default={}, description="its own settings of the table path")
    trial: Table = Field(default={}, description="its own settings of the table trial")
    needs: Needs = Field(default=Needs(), description="what this contestant needs")

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: object) -> object:
        return {"server": value} if isinstance(value, str | Contestant) else value

    @property
    def title(self) -> str:
        """Its name in tables and sentences."""
        return self.name or self.server.title

    @property
    def settings(self) -> dict[str, Any]:
        """Its own settings, by dotted names."""
        return {
            f"{table}.{key}": value
            for table in TABLES
            for key, value in getattr(self, "server_settings" if table == "server" else table).items()
        }

    @classmethod
    def of(cls, contestant: str | Contestant | Self) -> Self:
        """Parses a contestant given as text; raises PlanError."""
        if isinstance(contestant, cls):
            return contestant
        return cls(server=Contestant.parse(contestant) if isinstance(contestant, str) else contestant)


class Fault(NamedTuple):
    """A mistake in a setting, given by its dotted name, in a table, or in the whole (empty name).

    `with_unit` is the message for a flag: times have a unit and no value, which was rounded after it was given. `meant`
    is the dotted name of a setting that was written without its table.
    """

    name: str
    why: str
    with_unit: str = ""
    meant: str = ""

    @property
    def for_flag(self) -> str:
        """The message for a flag."""
        return self.with_unit or self.why


def cell_or_faults(contestant: Contestant, settings: Mapping[str, Any]) -> Cell | list[Fault]:
    """The cell of a contestant with settings by dotted names, or all mistakes in them."""
    protocol = settings.get("workload.protocol")
    faults = [_unknown(name, protocol) for name in settings if name not in SETTINGS]
    if protocol not in WORKLOADS:
        return faults if any("protocol" in each.why for each in faults) else [*faults, _protocol(protocol)]
    faults += _of_another(settings, str(protocol))
    wrong = {fault.name for fault in faults}
    try:
        cell = cell_of(contestant, {name: value for name, value in settings.items() if name not in wrong})
    except ValidationError as error:
        return faults + faults_of(error)
    return faults or _untold(cell) or _untold_client(cell) or cell


def _untold(cell: Cell) -> list[Fault]:
    """The server settings that the arguments of a command do not use."""
    if cell.contestant.kind != "command":
        return []
    faults = [
        Fault(f"server.{key}", f"the command does not take it: write {{{key}}} in its arguments, or leave it out")
        for key in ("workers", "worker_kind")
        if getattr(cell.server, key) != Server.model_fields[key].default
        and not any(map(cell.contestant.takes, (key, f"server.{key}")))
    ]
    if cell.server.interpreter is not None:
        why = "a command cannot say which interpreter runs it: make it an entry of contestants.toml that does"
        faults.append(Fault("server.interpreter", why))
    return faults


def _untold_client(cell: Cell) -> list[Fault]:
    """The load settings that the arguments of an external client do not use."""
    client, load = cell.load.client, cell.load
    if client is None:
        return []
    return [
        Fault(f"load.{key}", f"the client does not take it: write {{{key}}} in its arguments, or leave it out")
        for key, field in Load.model_fields.items()
        if key not in ("driver", "cpus", "connections")
        and getattr(load, key) != field.default
        and not any(client_takes(client, name) for name in (SHORT[f"load.{key}"], f"load.{key}"))
    ]


def faults_of(error: ValidationError) -> list[Fault]:
    """The faults of a cell, one for each setting: pydantic reports a fault for each type of a union."""
    found: dict[str, Fault] = {}
    for each in error.errors(include_url=False):
        name = _name(each)
        unit = " ms" if name.endswith("_ms") else ""
        # A mistake in a client's command is a better message than "not a driver".
        if name not in found or (name == "load.driver" and each["type"] == "value_error"):
            found[name] = Fault(name, mistakes.words(each), mistakes.words(each, unit))
    return list(found.values())


def _name(fault: ErrorDetails) -> str:
    """The dotted name of the setting with a fault. The place of a workload's setting includes its protocol, no key."""
    table, *rest = map(str, fault["loc"] or ("",))
    keys = rest[1:] if table == "workload" else rest
    return ".".join([table, *keys[:1]])


def _of_another(settings: Iterable[str], protocol: str) -> list[Fault]:
    """The workload settings that this protocol does not have."""
    known = WORKLOADS[protocol].model_fields
    return [
        Fault(name, f"is not a setting of {protocol}: leave it out")
        for name in settings
        if name in SETTINGS and SETTINGS[name].table == "workload" and SETTINGS[name].key not in known
    ]


def _protocol(protocol: object) -> Fault:
    if protocol is None:
        return Fault("workload.protocol", f"must be one of {', '.join(WORKLOADS)}")
    return Fault("workload.protocol", f"there is no protocol {protocol!r}{instead(str(protocol), WORKLOADS)}")


def _unknown(name: str, protocol: object) -> Fault:
    """What to write instead of an unknown setting."""
    table, dot, key = name.partition(".")
    if dot and table in TABLES:
        return Fault(name, f"there is no such setting{instead(key, _keys(table, protocol))}")
    if (meant := mistakes.setting_of(name)) is not None:
        return Fault(name, f"write it as {meant}", meant=meant)
    near = nearest(name, (*SETTINGS, *DOTTED))
    if near is not None:
        return Fault(name, f"there is no such setting: did you mean {DOTTED.get(near, near)!r}?")
    return Fault(name, f"there is no such table of settings{instead(table, TABLES)}")


def _keys(table: str, protocol: object) -> Sequence[str]:
    kinds = (WORKLOADS[str(protocol)],) if table == "workload" and protocol in WORKLOADS else TABLES[table]
    return sorted({key for kind in kinds for key in kind.model_fields})
