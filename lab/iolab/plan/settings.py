"""Everything that decides what one trial measures, with limits and defaults: a cell, and the table of settings."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import cached_property
from typing import Annotated, Any, NamedTuple, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic.fields import FieldInfo

from iolab.contract.literals import Arrivals, Driver, Opening, Processors, Verification, WorkerKind
from iolab.contract.types import (
    CONNECTIONS_MAX,
    WORKLOADS,
    Connections,
    Count,
    Frozen,
    HttpWorkload,
    RequestsAsked,
    Threads,
    Workload,
    updated,
)
from iolab.plan.contestant import Contestant, canonical_client

Scalar = bool | int | float | str

# The tables of settings, by their names in a file: see TABLES.
TABLE_NAMES = ("workload", "load", "server", "path", "trial")


def dotted(tables: Any) -> Any:
    """The settings of tables by dotted names. A name outside the tables is kept, for a message about it."""
    if not isinstance(tables, Mapping):
        return tables
    found: dict[str, Any] = {}
    for name, value in tables.items():
        is_table = name in TABLE_NAMES and isinstance(value, Mapping)
        found |= {f"{name}.{key}": each for key, each in value.items()} if is_table else {name: value}
    return found


# Values by the dotted names of settings, such as load.connections; in a file also as tables.
Setting = Annotated[dict[str, Scalar], BeforeValidator(dotted)]
# A trial is at most a day, the engine's limit: a typing mistake must not become a week of measuring.
TRIAL_MS_MAX = 24 * 3_600_000
# Trials at least this long are stored minute by minute and continued after an interruption, because losing one is
# costly.
LONG_MS, MINUTE_MS = 300_000, 60_000
# What a trial costs besides warm-up and window: starting two processes, opening connections, stopping both.
TRIAL_OVERHEAD_MS = 60
OVERHEAD_MS_A_CONNECTION = 0.1
QUICK_INTERVAL_MS = 10
RATE_PER_S_MAX = 10_000_000
# A share of a capacity that is measured before the comparison; the same rate for all contestants.
SHARE_OF_CAPACITY = re.compile(r"(\d+(?:\.\d+)?) ?% of capacity of the slowest")
RATE = re.compile(r"(\d+(?:\.\d+)?)([kM]?)")
SIZE = re.compile(r"(\d+(?:\.\d+)?) ?(B|KB|MB|GB|KiB|MiB|GiB)")
BYTES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def cpu_numbers(text: str) -> tuple[int, ...]:
    """Parses processors such as `0,2` or `0-3`, each once; raises ValueError."""
    cpus: list[int] = []
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            cpus += range(int(first), int(last or first) + 1)
    except ValueError:
        raise ValueError(f"{text!r} names no processors: write 0,2 or 0-3") from None
    return tuple(dict.fromkeys(cpus))


def _cpus(value: object) -> object:
    return cpu_numbers(value) if isinstance(value, str) else value


def _rate(value: object) -> object:
    """Parses a rate into a number, or a share of a capacity into its canonical text."""
    if not isinstance(value, str):
        return value
    if (share := SHARE_OF_CAPACITY.fullmatch(value.strip())) is not None:
        return f"{Decimal(share[1]).normalize():f}% of capacity of the slowest"
    if (rate := RATE.fullmatch(value.strip())) is not None:
        return float(rate[1]) * {"": 1, "k": 1_000, "M": 1_000_000}[rate[2]]
    raise ValueError(f"{value!r} is not a rate: write 20000, 20k, or 50% of capacity of the slowest")


def _bytes(value: object) -> object:
    if not isinstance(value, str):
        return value
    if (size := SIZE.fullmatch(value.strip())) is None:
        raise ValueError(f"{value!r} is not a size: write a number of bytes, 512MB or 512MiB")
    return round(float(size[1]) * BYTES[size[2]])


CpuSet = Annotated[tuple[Count, ...], BeforeValidator(_cpus, json_schema_input_type=str)]
RatePerS = Annotated[float, Field(gt=0, le=RATE_PER_S_MAX)]
ShareOfCapacity = Annotated[str, Field(pattern="of capacity of the slowest$")]
Rate = Annotated[RatePerS | ShareOfCapacity, BeforeValidator(_rate)]
Bytes = Annotated[int, BeforeValidator(_bytes), Field(ge=1 << 20, le=1 << 50)]
ClientCommand = Annotated[str, Field(pattern="^cmd:"), AfterValidator(canonical_client)]
# A twin of `make interpreters`, the python3 on PATH, or a version on PATH.
InterpreterName = Annotated[str, Field(pattern=r"^(gil|nogil|system|3\.\d{1,2}t?)$")]


# The values of each axis, by the dotted name of its setting.
Axes = Annotated[dict[str, Annotated[tuple[Scalar, ...], Field(min_length=1)]], BeforeValidator(dotted)]


class Load(Frozen):
    """What the load generator does."""

    connections: int = Field(
        default=50, ge=0, le=CONNECTIONS_MAX, description="connections open at the same time; 0: no load"
    )
    active: Connections | None = Field(
        default=None, description="connections that are busy at the same time; all by default"
    )
    idle: int = Field(default=0, ge=0, le=1 << 20, description="additional connections that are opened and never used")
    pipeline: int = Field(default=1, ge=1, le=10_000, description="requests in flight on a connection")
    requests_per_connection: RequestsAsked | None = Field(
        default=None, description="close a connection after this many requests and reopen it; never by default"
    )
    requests: RequestsAsked | None = Field(
        default=None, description="end the trial after this many requests, without a warm-up"
    )
    rate: Rate | None = Field(
        default=None,
        description="requests per second (open loop), or a share of capacity; by default a closed loop",
    )
    arrivals: Arrivals = Field(default="poisson", description="random or evenly spaced send times at a rate")
    threads: Threads = Field(default=1, description="threads of the generator")
    processes: int = Field(default=1, ge=1, le=256, description="processes of the generator")
    driver: Driver | ClientCommand = Field(
        default="epoll",
        description="how the generator waits for replies; or cmd: and an external client that makes the load",
    )
    probes: int = Field(default=0, ge=0, le=100, description="extra low-rate connections on a separate thread")
    spin_us: int = Field(default=0, ge=0, le=1_000_000, description="busy-wait this long before a send is due")
    connect_per_s: float | None = Field(
        default=None,
        gt=0,
        le=RATE_PER_S_MAX,
        description="connections opened per second; as fast as possible by default",
    )
    verify: Verification = Field(
        default="whole", description="check whole replies, or only what the first receive returns"
    )
    open: Opening = Field(
        default="before", description="open all connections before the run, or each when its first request is due"
    )
    details: bool = Field(default=False, description="measure the parts of each request: connect, write, wait, read")
    cpus: CpuSet = Field(default=(), description="processors of the generator; chosen for this machine by default")

    @model_validator(mode="after")
    def _can_be_generated(self) -> Self:
        busy = self.active or self.connections
        if self.active is not None and self.active > self.connections:
            raise ValueError(f"{self.active} active connections are more than {self.connections} connections")
        if self.rate is not None and self.active is not None:
            raise ValueError("a rate uses whichever connections are free: leave out active")
        if self.connections and self.threads > busy:
            raise ValueError(f"{self.threads} generator threads cannot share {busy} connections")
        if self.client is not None:
            return self
        if self.pipeline > 1 and self.driver != "epoll":
            raise ValueError(f"a pipeline needs the driver epoll, not {self.driver}")
        if self.details and (self.pipeline > 1 or self.driver != "epoll"):
            raise ValueError("details need the driver epoll and a pipeline of 1")
        return self

    @property
    def client(self) -> str | None:
        """The command of an external client that makes the load; None if the generator does."""
        return self.driver if self.driver.startswith("cmd:") else None

    @property
    def threads_in_all(self) -> int:
        """How many threads make the load; for an external client, at most one for each connection."""
        return self.threads * self.processes if self.client is None else max(1, self.connections)

    @property
    def rate_per_s(self) -> float | None:
        """The rate of an open loop; None for a closed loop, and while the rate is a share of an unknown capacity."""
        return self.rate if isinstance(self.rate, float) else None


class Server(Frozen):
    """How a server is run."""

    workers: Threads = Field(default=1, description="workers of the server")
    worker_kind: WorkerKind = Field(default="thread", description="run each worker as a thread or as a process")
    sockets: int = Field(default=1, ge=1, le=64, description="listening sockets; connections use them in turn")
    instances: int = Field(
        default=1, ge=1, le=64, description="copies of the server, each with its own address, measured as one"
    )
    interpreter: InterpreterName | None = Field(
        default=None,
        description="Python interpreter of the server: gil, nogil, system or a version; python3 by default",
    )
    cpus: CpuSet = Field(default=(), description="processors of the server; chosen for this machine by default")
    cpu_quota: float | None = Field(
        default=None, ge=0.01, le=1_024, description="processors that the server may use (cgroup)"
    )
    memory_limit_bytes: Bytes | None = Field(
        default=None, description="memory that the server may use (cgroup), such as 512MB"
    )
    nice: int | None = Field(default=None, ge=-20, le=19, description="nice value of the server")
    processes_max: int | None = Field(
        default=None, ge=1, le=4_194_304, description="processes and threads that the server may have"
    )
    descriptors_max: int | None = Field(
        default=None, ge=8, le=1 << 30, description="open files of each process of the server"
    )
    environment: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str] = Field(
        default={}, description="environment variables of the server"
    )

    @property
    def workers_in_all(self) -> int:
        """The workers of all its instances."""
        return self.workers * self.instances


class Path(Frozen):
    """The network path between server and load, unless it is loopback."""

    delay_ms: float = Field(default=0.0, ge=0, le=10_000, description="delay of every packet, one way")
    rate_bits_per_s: float | None = Field(default=None, ge=1e3, le=1e10, description="rate; unlimited by default")
    queue_packets: int = Field(default=100, ge=1, le=100_000, description="packets that may wait in each direction")
    loss: float = Field(default=0.0, ge=0, le=1, description="share of packets that are lost, 0 to 1")
    mtu: int = Field(default=1_500, ge=576, le=65_535, description="largest packet")
    syn_cookies: bool = Field(default=True, description="whether the kernel sends SYN cookies when a backlog is full")
    seed: int = Field(default=1, ge=0, lt=1 << 63, description="decides which packets are lost")


class Times(Frozen):
    """How long a trial takes. The warm-up is whole intervals, so that the window begins on the edge of one."""

    warmup_ms: int = Field(default=1_000, ge=100, le=TRIAL_MS_MAX, description="load before the measured window")
    duration_ms: int = Field(
        default=3_000,
        ge=100,
        le=TRIAL_MS_MAX,
        description="length of the measured window; with load.requests, the time planned for them",
    )
    interval_ms: int = Field(default=20, ge=5, le=10_000, description="slices of time in which requests are counted")
    timeout_ms: int = Field(default=10_000, ge=1, le=TRIAL_MS_MAX, description="timeout of a reply")
    start_ms: int = Field(
        default=15_000,
        ge=100,
        le=3_600_000,
        description="how long a server of the registry or a command may take to start",
    )
    processors: Processors = Field(
        default="apart", description="separate processors for server and generator, or one that both share"
    )

    @model_validator(mode="after")
    def _window_on_an_edge(self) -> Self:
        if self.warmup_ms % self.interval_ms or self.duration_ms % self.interval_ms:
            raise ValueError(f"warmup_ms and duration_ms must be multiples of interval_ms ({self.interval_ms})")
        return self

    @property
    def is_long(self) -> bool:
        """Whether a trial is stored minute by minute."""
        return self.duration_ms >= LONG_MS

    def rest(self, done_s: float) -> Times:
        """The rest of a long trial that was cut off after `done_s`: at least a minute, in whole intervals."""
        left_ms = max(self.duration_ms - round(1_000 * done_s), MINUTE_MS)
        return updated(self, duration_ms=min(self.duration_ms, -(-left_ms // self.interval_ms) * self.interval_ms))


class Cell(Frozen):
    """Everything that decides what one trial measures. Two cells with the same key are the same measurement.

    CPU sets are numbers of logical processors; empty means not pinned. Without a path the load is on loopback.
    """

    contestant: Contestant
    workload: Workload
    load: Load = Load()
    server: Server = Server()
    path: Path | None = None
    trial: Times = Times()

    @model_validator(mode="after")
    def _one_port_of_a_command(self) -> Self:
        if self.contestant.kind == "command" and self.server.sockets > 1:
            raise ValueError(
                "server.sockets: a command is given one {port}, so it listens on one socket: use sockets 1"
            )
        return self

    @cached_property
    def key(self) -> str:
        """16 hexadecimal digits over the values that differ from defaults, so that a new setting changes no key."""
        document = self.model_dump(mode="json", exclude_defaults=True)
        document["workload"] = {"protocol": self.workload.protocol, **document["workload"]}
        return digest_of(document)

    @property
    def trial_ms(self) -> int:
        """The expected time of one trial of this cell, overhead included."""
        warmup_ms = self.trial.warmup_ms if self.makes_window else 0
        opening_ms = round(OVERHEAD_MS_A_CONNECTION * (self.load.connections + self.load.idle))
        return warmup_ms + self.trial.duration_ms + TRIAL_OVERHEAD_MS + opening_ms

    @property
    def makes_window(self) -> bool:
        """Whether a trial has a warm-up and a window: not with a count of requests, an external client or no load."""
        return self.load.requests is None and self.load.client is None and self.load.connections > 0

    @property
    def held(self) -> int:
        """How many connections the server must serve at the same time; one if each ends and makes room."""
        ends = self.load.requests_per_connection is not None
        ends |= isinstance(self.workload, HttpWorkload) and not self.workload.keep_alive
        return self.load.idle + (1 if ends else self.load.connections)


# The records of each table; the workload has one for each protocol.
TABLES: Mapping[str, tuple[type[Frozen], ...]] = dict(
    zip(TABLE_NAMES, (tuple(WORKLOADS.values()), (Load,), (Server,), (Path,), (Times,)), strict=True)
)
# Settings of the whole question, whose names no short form may take.
OF_THE_QUESTION = frozenset({"blocks", "seed"})


class Known(NamedTuple):
    """A setting: its table, its key there, and its field in each record that has it (for a workload, by protocol)."""

    table: str
    key: str
    fields: tuple[tuple[type[Frozen], FieldInfo], ...]

    @property
    def field(self) -> FieldInfo:
        """Its first field, the only one except for a workload."""
        return self.fields[0][1]


def _settings() -> Iterator[tuple[str, Known]]:
    for table, kinds in TABLES.items():
        for key in dict.fromkeys(key for kind in kinds for key in kind.model_fields):
            fields = tuple((kind, kind.model_fields[key]) for kind in kinds if key in kind.model_fields)
            yield f"{table}.{key}", Known(table, key, fields)


# Every setting by its dotted name; files, flags, messages and the reference are made from this.
SETTINGS: Mapping[str, Known] = dict(_settings())


def _short(name: str) -> str:
    table, key = SETTINGS[name].table, SETTINGS[name].key
    alike = [other for other in SETTINGS.values() if other.key == key]
    return f"{table}_{key}" if len(alike) > 1 or key in OF_THE_QUESTION else key


# The short form of each dotted name, for flags and titles: the key, or table_key if several tables have it.
SHORT: Mapping[str, str] = {name: _short(name) for name in SETTINGS}
DOTTED: Mapping[str, str] = {short: name for name, short in SHORT.items()}


def nested(settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The tables for settings by dotted names."""
    tables: dict[str, dict[str, Any]] = {}
    for name, value in settings.items():
        table, _, key = name.partition(".")
        tables.setdefault(table, {})[key] = value
    return tables


def settings_of(cell: Cell) -> dict[str, Any]:
    """All settings of a cell by dotted names; those of a path only if there is one."""
    tables = {name: getattr(cell, name) for name in TABLES}
    return {
        f"{name}.{key}": getattr(table, key)
        for name, table in tables.items()
        if table is not None
        for key in type(table).model_fields
    }


def values_of(cell: Cell) -> dict[str, str]:
    """The values for the placeholders of a command line, by the short and the dotted names of settings.

    Settings that the protocol lacks have their defaults. `body` is a reply body of the requested size.
    """
    defaults = {f"workload.{key}": each for kind in WORKLOADS.values() for key, each in kind() if key != "protocol"}
    texts = {name: _text(value) for name, value in (defaults | settings_of(cell)).items()}
    short = {SHORT[name]: text for name, text in texts.items()}
    return short | texts | {"body": "x" * int(texts["workload.reply_bytes"])}


def _text(value: object) -> str:
    """A value as an argument of a command."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return "" if value is None else f"{value:.12g}" if isinstance(value, float) else str(value)


def changed(cell: Cell, settings: Mapping[str, object]) -> Cell:
    """A validated copy of a cell with other settings, given by dotted names."""
    tables = {table: _as_it_is(getattr(cell, table)) | values for table, values in nested(settings).items()}
    return Cell.model_validate({**_as_it_is(cell), **tables})


def _as_it_is(record: Frozen | None) -> dict[str, Any]:
    return {} if record is None else {name: getattr(record, name) for name in type(record).model_fields}


def cell_of(contestant: Contestant, settings: Mapping[str, Any]) -> Cell:
    """The cell of a contestant with settings by dotted names; raises pydantic's ValidationError."""
    return Cell.model_validate({"contestant": contestant, "workload": {}, **nested(settings)})


def whole_intervals_ms(time_ms: int) -> int:
    """A time of a trial, rounded up to whole intervals of the default length."""
    interval_ms: int = Times.model_fields["interval_ms"].default
    return math.ceil(time_ms / interval_ms) * interval_ms


def digest_of(document: object) -> str:
    """16 hexadecimal digits that are always the same for equal JSON documents."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
