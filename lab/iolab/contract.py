"""The contract between the lab and an engine, as data: see docs/contract.md, which is the law.

Every document carries `"schema": 1`. Unknown fields are refused in both directions, because a field that one side
ignores is a setting that was not measured. Times are CLOCK_MONOTONIC nanoseconds unless a name says otherwise.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

SCHEMA: Literal[1] = 1

Protocol = Literal["http", "echo"]
Driver = Literal["epoll", "io_uring"]
# A count, a size or a time: what 63 bits hold, so that arithmetic on it cannot overflow a float.
Count = Annotated[int, Field(ge=0, lt=1 << 63)]


class Frozen(BaseModel):
    """The one setting all of the lab's data shares: it never changes, and it holds nothing it does not name."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True, allow_inf_nan=False
    )


class HttpWorkload(Frozen):
    """GET requests for `target`, answered by `reply_bytes` of body."""

    protocol: Literal["http"] = "http"
    reply_bytes: int = Field(default=1, ge=0, le=1 << 30)
    target: str = Field(default="/", pattern=r"^/[!-~]*$", max_length=2048)
    host: str | None = Field(default=None, pattern=r"^[!-~]+$", max_length=255)
    keep_alive: bool = True
    verify: Literal["bytes", "status"] = "bytes"


class EchoWorkload(Frozen):
    """Messages of `message_bytes` (without their frame) that must come back as they were sent."""

    protocol: Literal["echo"] = "echo"
    framing: Literal["raw", "prefix", "crlf"] = "raw"
    message_bytes: int = Field(default=64, ge=1, le=1 << 30)

    @model_validator(mode="after")
    def _length_fits_its_prefix(self) -> Self:
        if self.framing == "prefix" and self.message_bytes > 0xFFFF:
            raise ValueError("message_bytes: a two-byte prefix counts to 65535: use fewer, or another framing")
        return self


Workload = Annotated[HttpWorkload | EchoWorkload, Field(discriminator="protocol")]


class ServeSpec(Frozen):
    """What a server is told on the first line of its standard input."""

    schema_: Literal[1] = Field(default=SCHEMA, alias="schema")
    role: Literal["serve"] = "serve"
    model: str
    options: dict[str, str] = {}
    workload: Workload
    listen: str = "127.0.0.1:0"
    workers: int = Field(default=1, ge=1)
    cpus: tuple[int, ...] = ()
    connections_max: int = Field(default=16_384, ge=1)


class LoadSpec(Frozen):
    """What a load generator is told on the first line of its standard input: for so long, or so many requests."""

    schema_: Literal[1] = Field(default=SCHEMA, alias="schema")
    role: Literal["load"] = "load"
    driver: Driver = "epoll"
    workload: Workload
    connect: str
    connections: int = Field(ge=1)
    threads: int = Field(default=1, ge=1)
    cpus: tuple[int, ...] = ()
    warmup_ms: Count = 0
    duration_ms: int | None = Field(default=None, ge=1)
    requests: int | None = Field(default=None, ge=1)
    timeout_ms: int = Field(default=10_000, ge=1)
    interval_ms: int = Field(default=20, ge=1)

    @model_validator(mode="after")
    def _one_end(self) -> Self:
        if (self.duration_ms is None) == (self.requests is None):
            raise ValueError("give either duration_ms or requests")
        return self


class ServeReady(Frozen):
    """The server accepts connections. `model` names the options that are not default."""

    schema_: Literal[1] = Field(default=SCHEMA, alias="schema")
    event: Literal["ready"] = "ready"
    role: Literal["serve"] = "serve"
    model: str
    listen: str
    pid: Count
    build: str
    workers: int
    lacks: tuple[str, ...] = ()


class LoadReady(Frozen):
    """All connections of the generator are open."""

    schema_: Literal[1] = Field(default=SCHEMA, alias="schema")
    event: Literal["ready"] = "ready"
    role: Literal["load"] = "load"
    driver: Driver
    connections: int
    pid: Count
    build: str
    lacks: tuple[str, ...] = ()


class Measuring(Frozen):
    """The warm-up is over and the window begins."""

    schema_: Literal[1] = Field(default=SCHEMA, alias="schema")
    event: Literal["measuring"] = "measuring"
    role: Literal["load"] = "load"
    monotonic_ns: Count


class Measured(Frozen):
    """The window has ended."""

    schema_: Literal[1] = Field(default=SCHEMA, alias="schema")
    event: Literal["measured"] = "measured"
    role: Literal["load"] = "load"
    monotonic_ns: Count


class Failed(Frozen):
    """Sent instead of going on. `kind` is a word for programs, `message` one line for people."""

    schema_: Literal[1] = Field(default=SCHEMA, alias="schema")
    event: Literal["failed"] = "failed"
    role: Literal["serve", "load"]
    kind: str
    message: str


class Requests(Frozen):
    """Counts that must close: sent + in_flight_begin = correct + wrong + failed + in_flight_end."""

    sent: Count
    correct: Count
    wrong: Count
    failed: Count
    in_flight_begin: Count
    in_flight_end: Count


class Errors(Frozen):
    """What went wrong, by kind."""

    connect: Count = 0
    reset: Count = 0
    closed: Count = 0
    timeout: Count = 0
    malformed: Count = 0
    wrong: Count = 0


class Bytes(Frozen):
    """Bytes on the wire of the measured window, with frames and heads."""

    sent: Count
    received: Count


class Latency(Frozen):
    """Service time in nanoseconds. `histogram` is a whole HdrHistogram (V2, deflated, base64)."""

    min: Count
    mean: float = Field(ge=0)
    p50: Count
    p90: Count
    p99: Count
    p99_9: Count
    p99_99: Count
    max: Count
    stdev: float = Field(ge=0)
    histogram: str


class Intervals(Frozen):
    """Completed requests in equal slices of time, warm-up included; slice k begins at begin_ns + k * length_ns."""

    begin_ns: Count
    length_ns: Annotated[Count, Field(ge=1)]
    completed: tuple[Count, ...]


class Generator(Frozen):
    """The generator's account of itself over the measured window.

    `cpu_ns`, `run_delay_ns` (time runnable without a processor) and `wall_ns` are sums over its threads, so `wall_ns`
    is the window times their number. `turn_ns_max` is the longest time one was busy, or not scheduled, between two
    waits.
    """

    cpu_ns: Count
    wall_ns: Count
    run_delay_ns: Count
    turn_ns_max: Count
    turns: Count
    rss_bytes_max: Count


class Report(Frozen):
    """The last event of a load generator: everything it saw in the measured window [begin_ns, end_ns)."""

    schema_: Literal[1] = Field(default=SCHEMA, alias="schema")
    event: Literal["report"] = "report"
    role: Literal["load"] = "load"
    build: str
    driver: Driver
    lacks: tuple[str, ...] = ()
    workload: Workload
    connect: str
    connections: int = Field(ge=1)
    connections_open: Count
    threads: int = Field(ge=1)
    cpus: tuple[int, ...] = ()
    interrupted: bool
    begin_ns: Count
    end_ns: Count
    requests: Requests
    errors: Errors
    first_error: str | None = None
    bytes: Bytes
    rate_per_s: float = Field(ge=0)
    latency_ns: Latency
    intervals: Intervals
    generator: Generator


class Option(Frozen):
    """An option of a model; the first value is the default."""

    name: str
    values: tuple[str, ...]
    about: str


class ModelAbout(Frozen):
    """What the engine says of one I/O model. `why_not` is null when it is available here.

    `holds` is how many connections one of its workers serves at the same time.
    """

    name: str
    about: str
    protocols: tuple[str, ...]
    options: tuple[Option, ...] = ()
    holds: Literal["one", "many"] = "many"
    available: bool
    why_not: str | None = None
    lacks: tuple[str, ...] = ()


class DriverAbout(Frozen):
    """What the engine says of one driver of its generator."""

    name: str
    about: str
    available: bool
    why_not: str | None = None
    lacks: tuple[str, ...] = ()


class Description(Frozen):
    """The document `iolab-engine describe` prints."""

    schema_: Literal[1] = Field(default=SCHEMA, alias="schema")
    build: str
    version: str
    models: tuple[ModelAbout, ...]
    drivers: tuple[DriverAbout, ...]
    protocols: tuple[str, ...]


ServeEvent = Annotated[ServeReady | Failed, Field(discriminator="event")]
LoadEvent = Annotated[LoadReady | Measuring | Measured | Report | Failed, Field(discriminator="event")]

_SERVE_EVENT: TypeAdapter[ServeReady | Failed] = TypeAdapter(ServeEvent)
_LOAD_EVENT: TypeAdapter[LoadReady | Measuring | Measured | Report | Failed] = TypeAdapter(LoadEvent)


class ContractError(ValueError):
    """A peer said something the contract does not know. The message is one line."""


def parse_serve_event(line: str | bytes) -> ServeReady | Failed:
    """Reads one JSON line of a server; raises ContractError with one line that names the field."""
    try:
        return _SERVE_EVENT.validate_json(line)
    except ValidationError as error:
        raise ContractError(f"the server broke the contract: {one_line(error)}") from None


def parse_load_event(line: str | bytes) -> LoadReady | Measuring | Measured | Report | Failed:
    """Reads one JSON line of a load generator; raises ContractError with one line that names the field."""
    try:
        return _LOAD_EVENT.validate_json(line)
    except ValidationError as error:
        raise ContractError(f"the load generator broke the contract: {one_line(error)}") from None


def percent(share: float, digits: int = 0) -> str:
    """A share for people: 0.02 is `2 %`."""
    return f"{100 * share:.{digits}f} %"


def one_line(error: ValidationError) -> str:
    """The first fault of a pydantic error as `field: what is wrong (and n more)`."""
    faults = error.errors(include_url=False, include_context=False)
    first = faults[0]
    where = "".join(f"{part}: " for part in [".".join(str(part) for part in first["loc"])] if part)
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{where}{first['msg'].removeprefix('Value error, ')}{more}".replace("\n", " ")
