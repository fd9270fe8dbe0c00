"""The contract between the lab and an engine, as data; docs/contract.md is authoritative.

Every document has `"schema": 1`. Both sides refuse unknown fields, because a setting that one side ignores is not
measured. Times are CLOCK_MONOTONIC nanoseconds unless a name says otherwise.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from iolab.contract.literals import Arrivals, Driver, Framing, Opening, Phase, Saw, Verification, WorkerKind

SCHEMA: Literal[1] = 1

# The numbers of the contract. A test compares every limit and default here with the engine's schemas.
Count = Annotated[int, Field(ge=0, le=(1 << 64) - 1)]
Some = Annotated[int, Field(ge=1, le=(1 << 64) - 1)]
Pid = Annotated[int, Field(ge=0, le=(1 << 32) - 1)]
CONNECTIONS_MAX = 1 << 20
Connections = Annotated[int, Field(ge=1, le=CONNECTIONS_MAX)]
Threads = Annotated[int, Field(ge=1, le=1_024)]
Addresses = Annotated[tuple[str, ...], Field(min_length=1, max_length=64)]
# The addresses of up to 64 servers that are measured as one.
Targets = Annotated[tuple[str, ...], Field(min_length=1, max_length=64 * 64)]
RequestsAsked = Annotated[int, Field(ge=1, le=1_000_000_000_000)]
DurationMs = Annotated[int, Field(ge=1, le=86_400_000)]
RatePerS = Annotated[float, Field(ge=0, le=10_000_000)]

Record = TypeVar("Record", bound="Frozen")


class Frozen(BaseModel):
    """The base of all data of the lab: immutable, and without unknown fields."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True, allow_inf_nan=False
    )


class HttpWorkload(Frozen):
    """Requests for `target`, answered with a body of `reply_bytes`, or without a body if `reply_status` is 204.

    A reply must have `expect_status`; if that is None, 204 with a `reply_status` of 204, else any 2xx. Its body must be
    `expect_body`, or the body of the first reply.
    """

    protocol: Literal["http"] = "http"
    reply_bytes: int = Field(default=1, ge=0, le=1 << 24)
    reply_status: Literal[200, 204] = 200
    target: str = Field(default="/", pattern=r'^(/|http://)[!"$-~]*$', max_length=8_192)
    host: str | None = Field(default=None, max_length=259)
    keep_alive: bool = True
    verify: Literal["bytes", "status"] = "bytes"
    method: str = Field(default="GET", min_length=1)
    headers: tuple[tuple[str, str], ...] = Field(default=(), max_length=61)
    body: str = Field(default="", max_length=1 << 24)
    expect_status: int | None = Field(default=None, ge=200, le=599)
    expect_body: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _no_content_has_no_length(cls, given: object) -> object:
        if isinstance(given, dict) and given.get("reply_status") == 204:
            return {"reply_bytes": 0} | given
        return given

    @model_validator(mode="after")
    def _no_content_is_that_of_the_root(self) -> Self:
        if self.reply_status == 204 and self.reply_bytes > 0:
            raise ValueError("reply_bytes: a reply with the status 204 has no body: leave it out, or give 0")
        is_root = urlsplit(self.target).path in ("", "/")
        if self.reply_status == 204 and not is_root and self.expect_status is None:
            raise ValueError("reply_status: 204 is the status of / only: leave out target, or add expect_status")
        return self


class EchoWorkload(Frozen):
    """Messages of `message_bytes` (without their frame) that must come back unchanged."""

    protocol: Literal["echo"] = "echo"
    framing: Framing = "raw"
    message_bytes: int = Field(default=64, ge=0, le=1 << 24)

    @model_validator(mode="after")
    def _length_fits_its_framing(self) -> Self:
        if self.framing == "raw" and self.message_bytes == 0:
            raise ValueError("message_bytes: a raw message has at least 1 byte: use more, or another framing")
        if self.framing == "prefix" and self.message_bytes > 0xFFFF:
            raise ValueError("message_bytes: a two-byte prefix counts to 65535: use fewer, or another framing")
        if self.framing == "crlf" and self.message_bytes > 1 << 20:
            raise ValueError("message_bytes: a line has at most 1048576: use fewer, or another framing")
        return self


class LineWorkload(Frozen):
    """Lines of `message_bytes`, including the line feed, that must come back unchanged."""

    protocol: Literal["line"] = "line"
    message_bytes: int = Field(default=12, ge=1, le=4096)


class RpcWorkload(Frozen):
    """Calls in JSON. An answer costs `target` steps of a documented loop, and then about `work_ns` more of it.

    The text of a call has `text_bytes` and comes back with the answer.
    """

    protocol: Literal["rpc"] = "rpc"
    target: int = Field(default=1_000, ge=0, le=10_000_000)
    text_bytes: int = Field(default=11, ge=0, le=1_000_000)
    work_ns: int = Field(default=0, ge=0, le=1_000_000_000)


Workload = Annotated[HttpWorkload | EchoWorkload | LineWorkload | RpcWorkload, Field(discriminator="protocol")]
# The workloads by the name of their protocol.
WORKLOADS: dict[str, type[HttpWorkload] | type[EchoWorkload] | type[LineWorkload] | type[RpcWorkload]] = {
    "http": HttpWorkload,
    "echo": EchoWorkload,
    "line": LineWorkload,
    "rpc": RpcWorkload,
}


class ServeSpec(Frozen):
    """The spec of a server: the first line of its standard input.

    Each further line requests a `served` event. An address is `127.0.0.1:8080`, `[::1]:8080` or `unix:/path`. The
    server enters the network namespace of the file `netns` before it opens a socket. With `count_calls` it counts its
    syscalls, which costs time.
    """

    schema_: Literal[1] = Field(default=SCHEMA, alias="schema")
    role: Literal["serve"] = "serve"
    model: str
    options: dict[str, str] = {}
    workload: Workload
    listen: Addresses
    workers: Threads = 1
    worker_kind: WorkerKind = "thread"
    cpus: tuple[Count, ...] = ()
    netns: str | None = None
    connections_max: Connections = 16_384
    count_calls: bool = False


class Stage(Frozen):
    """A linearly changing rate. Only the last stage may have no `duration_ms`; it lasts to the end."""

    from_per_s: RatePerS
    to_per_s: RatePerS
    duration_ms: DurationMs | None = None


class ClosedLoop(Frozen):
    """Each request is sent after the reply to the one before."""

    loop: Literal["closed"] = "closed"


class OpenLoop(Frozen):
    """Each request is sent when it is due. The stages begin with the window; the warm-up has the first rate."""

    loop: Literal["open"] = "open"
    arrivals: Arrivals = "poisson"
    seed: Count = 1
    stages: tuple[Stage, ...] = Field(min_length=1, max_length=1_000)


Pace = Annotated[ClosedLoop | OpenLoop, Field(discriminator="loop")]


class Tls(Frozen):
    """TLS to a server: the name its certificate must have, and a file of trusted certificate authorities.

    Without `cacert` those of the machine are trusted; `insecure` accepts any certificate.
    """

    server_name: str
    cacert: str | None = None
    insecure: bool = False


class Shard(Frozen):
    """One of several processes that load a server as one.

    Its threads, and its connections of all kinds, are consecutive among those of all processes. The rates in its spec
    are those of all together.
    """

    threads_before: int = Field(ge=0, le=1 << 18)
    threads: int = Field(ge=1, le=1 << 18)
    connections_before: int = Field(ge=0, le=1 << 28)


class LoadSpec(Frozen):
    """The spec of a load generator: the first line of its standard input. Give either `duration_ms` or `requests`.

    Connections use the addresses of `connect`, and come from those of `sources`, in turn. In a closed loop `active` of
    them are busy at the same time, all if None; `idle` more are never used. With `open` "as_needed", each connection is
    opened when its first request is due, and a run of a number of requests ends with the last of their replies. A
    `held` generator waits for a line before its warm-up, which may give the time to begin, and again before it closes
    its connections.
    """

    schema_: Literal[1] = Field(default=SCHEMA, alias="schema")
    role: Literal["load"] = "load"
    driver: Driver = "epoll"
    workload: Workload
    connect: Targets
    tls: Tls | None = None
    sources: tuple[str, ...] = Field(default=(), max_length=256)
    connections: Connections
    idle: int = Field(default=0, ge=0, le=1 << 20)
    open: Opening = "before"
    connect_per_s: float | None = Field(default=None, gt=0, le=10_000_000)
    pace: Pace = ClosedLoop()
    active: Connections | None = None
    pipeline: int = Field(default=1, ge=1, le=10_000)
    requests_per_connection: RequestsAsked | None = None
    probes: int = Field(default=0, ge=0, le=100)
    spin_us: int = Field(default=0, ge=0, le=1_000_000)
    threads: Threads = 1
    processes: int = Field(default=1, ge=1, le=256)
    place: Shard | None = None
    cpus: tuple[Count, ...] = ()
    netns: str | None = None
    warmup_ms: int | None = Field(default=None, ge=0, le=86_400_000)
    duration_ms: DurationMs | None = None
    requests: RequestsAsked | None = None
    timeout_ms: DurationMs = 10_000
    verify: Verification = "whole"
    details: bool = False
    interval_ms: DurationMs = 20
    slice_ms: int | None = Field(default=None, ge=100, le=86_400_000)
    held: bool = False

    @model_validator(mode="after")
    def _one_end(self) -> Self:
        if (self.duration_ms is None) == (self.requests is None):
            raise ValueError("give either duration_ms or requests")
        return self


class PathSpec(Frozen):
    """The spec of a path: the first line of its standard input. It holds for both directions.

    Each further line requests a report of what was carried since the last one. `loss` is a share, 0 to 1.
    """

    schema_: Literal[1] = Field(default=SCHEMA, alias="schema")
    role: Literal["path"] = "path"
    delay_ms: float = Field(default=0.0, ge=0, le=10_000)
    rate_bits_per_s: float | None = Field(default=None, ge=1_000, le=10_000_000_000)
    queue_packets: int = Field(default=100, ge=1, le=100_000)
    loss: float = Field(default=0.0, ge=0, le=1)
    mtu: int = Field(default=1_500, ge=576, le=65_535)
    syn_cookies: bool = True
    seed: Count = 1


class ServeReady(Frozen):
    """The server accepts connections. `model` includes the options that are not default.

    `holds` is the number of connections one worker serves at a time, None if only `connections_max` and the system
    limit it. `defects` are sentences on known defects of the chosen options. `parser` names what parses requests and
    builds replies. `moves_connections`: an open connection may move from one thread to another. Earlier engines
    reported neither of the last two.
    """

    schema_: Literal[1] = Field(default=SCHEMA, alias="schema")
    event: Literal["ready"] = "ready"
    role: Literal["serve"] = "serve"
    model: str
    listen: tuple[str, ...] = Field(min_length=1)
    pid: Pid
    build: str
    workers: Some
    worker_kind: WorkerKind = "thread"
    holds: Some | None = None
    lacks: tuple[str, ...] = ()
    defects: tuple[str, ...] = ()
    parser: str | None = None
    moves_connections: bool | None = None


class WorkerCounts(Frozen):
    """The connections one worker has accepted so far, and those it refused, by reason."""

    connections: Count
    refused: dict[str, Count] = {}


class Served(Frozen):
    """What a server has done so far. `calls` is None unless syscalls are counted and the kernel permits it."""

    schema_: Literal[1] = Field(default=SCHEMA, alias="schema")
    event: Literal["served"] = "served"
    role: Literal["serve"] = "serve"
    workers: tuple[WorkerCounts, ...]
    restarts: Count
    calls: Count | None = None


class LoadReady(Frozen):
    """All connections of the generator are open."""

    schema_: Literal[1] = Field(default=SCHEMA, alias="schema")
    event: Literal["ready"] = "ready"
    role: Literal["load"] = "load"
    driver: Driver
    connections: Some
    pid: Pid
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


class FirstFailure(Frozen):
    """The first request that went wrong: what its connection was doing, and what the client saw.

    Requests and connections are numbered from 1 over the run; several threads take the numbers in turn. `request` is 0
    if none had begun, because a connection could not be opened at the start.
    """

    at_ns: Count
    request: Count
    connection: Count
    phase: Phase
    saw: Saw


class Failed(Frozen):
    """The last event of a program that failed. `kind` is a word for programs, `message` one line for people.

    A load generator that could not open its connections reports a `first_failure`.
    """

    schema_: Literal[1] = Field(default=SCHEMA, alias="schema")
    event: Literal["failed"] = "failed"
    role: Literal["serve", "load", "path"]
    kind: str
    message: str
    first_failure: FirstFailure | None = None


class PathEnd(Frozen):
    """One end of a path: its address, and the file of its network namespace."""

    address: str
    netns: str


class PathReady(Frozen):
    """A path carries packets."""

    schema_: Literal[1] = Field(default=SCHEMA, alias="schema")
    event: Literal["ready"] = "ready"
    role: Literal["path"] = "path"
    server: PathEnd
    load: PathEnd
    pid: Pid
    build: str
    lacks: tuple[str, ...] = ()


class Carried(Frozen):
    """The packets of one direction.

    `dropped` found the queue full; `lost` are the requested loss. The kernel dropped the `overrun` ones because the
    path was too late to read them. The `overflowed` ones were dropped because too many bytes were in transit.
    """

    packets: Count
    bytes: Count
    dropped: Count
    lost: Count
    overrun: Count
    overflowed: Count = 0
    late_ns_p99: Count
    late_ns_max: Count


class PathReport(Frozen):
    """What a path has carried since its last report. `cpu_ns` includes the kernels' work on arriving packets."""

    schema_: Literal[1] = Field(default=SCHEMA, alias="schema")
    event: Literal["report"] = "report"
    role: Literal["path"] = "path"
    to_server: Carried
    to_load: Carried
    wall_ns: Count
    cpu_ns: Count


class Requests(Frozen):
    """Counts that must balance: sent + in_flight_begin = correct + wrong + failed + in_flight_end."""

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
    tls: Count = 0
    status: Count = 0
    wrong: Count = 0


class ErrorsByPhase(Frozen):
    """The requests that went wrong by phase: connect + send + receive + close = wrong + failed."""

    connect: Count = 0
    send: Count = 0
    receive: Count = 0
    close: Count = 0


class Bytes(Frozen):
    """Bytes of the measured window, with frames and heads; with TLS, before encryption."""

    sent: Count
    received: Count
    bodies: Count | None = None


class Latency(Frozen):
    """A distribution of times in nanoseconds. `histogram` is an HdrHistogram (V2, deflated, base64)."""

    min: Count
    mean: float = Field(ge=0)
    p50: Count
    p90: Count
    p99: Count
    p99_9: Count
    p99_99: Count
    # Reports of earlier versions lack it.
    p99_999: Count | None = None
    max: Count
    stdev: float = Field(ge=0)
    histogram: str


class Views(Frozen):
    """Further distributions of an open loop, besides the response time.

    `service_ns` is from the send. `closed_ns` is the same for requests that found a free connection, all that a closed
    loop would have measured. `lateness_ns` is the generator's own delay.
    """

    service_ns: Latency
    closed_ns: Latency
    lateness_ns: Latency


class Times(Frozen):
    """The parts of the service time, each with a value for every reply.

    `connect_ns` is 0 if the connection was already open; `processing_ns` is the service time without it.
    """

    connect_ns: Latency
    write_ns: Latency
    wait_ns: Latency
    read_ns: Latency
    processing_ns: Latency


class Probe(Frozen):
    """The figures of the extra low-rate connections; the other figures do not include them."""

    connections: Some
    requests: Requests
    latency_ns: Latency
    service_ns: Latency
    lateness_ns: Latency


class Schedule(Frozen):
    """The requests that were due: due + unsent_begin = sent + unsent_end. `waited` ones found no free connection."""

    due: Count
    unsent_begin: Count
    unsent_end: Count
    waited: Count
    asked_per_s: float = Field(ge=0)


class Bound(Frozen):
    """What limited the rate, with the reason in one line."""

    by: Literal["server", "generator", "rate", "unclear"]
    why: str


class Interval(Frozen):
    """A slice of the measured window, reported when it is over."""

    schema_: Literal[1] = Field(default=SCHEMA, alias="schema")
    event: Literal["interval"] = "interval"
    role: Literal["load"] = "load"
    index: Count
    begin_ns: Count
    end_ns: Count
    correct: Count
    wrong: Count
    failed: Count
    rate_per_s: float = Field(ge=0)
    latency_ns: Latency


class Intervals(Frozen):
    """Completed requests in equal slices of time, including the warm-up; slice k begins at begin_ns + k * length_ns."""

    begin_ns: Count
    length_ns: Some
    completed: tuple[Count, ...]


class Generator(Frozen):
    """The generator's own use of the machine in the measured window.

    `cpu_ns`, `run_delay_ns` (time runnable without a processor) and `wall_ns` are sums over its threads, so `wall_ns`
    is the window times their number. `turn_ns_max` is the longest time a thread was away: busy or not scheduled between
    two waits, or woken late.
    """

    cpu_ns: Count
    wall_ns: Count
    run_delay_ns: Count
    turn_ns_max: Count
    turns: Count
    rss_bytes_max: Count


class Report(Frozen):
    """The last event of a load generator: its measurements in the window [begin_ns, end_ns).

    `latency_ns` counts from when a request was due, or in a closed loop from its send; a closed loop has no `views` and
    no `schedule`. `unsound` are sentences on why the run is invalid, `labels` phrases to print beside the figures. If
    the server was `gone` at the end, `rate_per_s` is over the time until `last_reply_ns`, which is None without a
    complete reply. `connections_made` counts the whole run. `elapsed_ns` is from the first connect to the last reply;
    `finish_ns`, in a run of a number of requests, is from the begin of the first one.
    """

    schema_: Literal[1] = Field(default=SCHEMA, alias="schema")
    event: Literal["report"] = "report"
    role: Literal["load"] = "load"
    build: str
    driver: Driver
    lacks: tuple[str, ...] = ()
    workload: Workload
    connect: tuple[str, ...] = Field(min_length=1)
    tls: Tls | None = None
    connections: Some
    idle: Count = 0
    open: Opening = "before"
    connections_open: Count
    connections_made: Count = 0
    threads: Some
    processes: Some = 1
    cpus: tuple[Count, ...] = ()
    pace: Pace = ClosedLoop()
    active: Some | None = None
    pipeline: Some = 1
    requests_per_connection: Some | None = None
    requests_asked: Count | None = None
    spin_us: Count = 0
    verify: Verification = "whole"
    labels: tuple[str, ...] = ()
    interrupted: bool
    begin_ns: Count
    end_ns: Count
    requests: Requests
    errors: Errors
    errors_by_phase: ErrorsByPhase = ErrorsByPhase()
    first_error: str | None = None
    first_failure: FirstFailure | None = None
    bytes: Bytes
    rate_per_s: float = Field(ge=0)
    gone: bool = False
    last_reply_ns: Count | None = None
    elapsed_ns: Count | None = None
    finish_ns: Count | None = None
    latency_ns: Latency
    views: Views | None = None
    times: Times | None = None
    schedule: Schedule | None = None
    probe: Probe | None = None
    unanswered_ns_max: Count = 0
    age_begin_ns: Count = 0
    age_end_ns: Count = 0
    age_failed_ns: Count = 0
    statuses: dict[str, Count] = {}
    intervals: Intervals
    generator: Generator
    bound: Bound | None = None
    unsound: tuple[str, ...] = ()


class Option(Frozen):
    """An option of a model; the first value is the default.

    The `values` of a numeric option are just its default; its limits are `min` and `max`, which are None for words.
    `defects` describes values with a known defect, which reproduce published servers.
    """

    name: str
    values: tuple[str, ...]
    min: Count | None = None
    max: Count | None = None
    defects: dict[str, str] = {}
    about: str


class ModelAbout(Frozen):
    """One I/O model of the engine, or one variant of it. `why_not` is None if it is available here.

    `needs` says what it needs besides any Linux, or is empty. `holds` is the number of connections one of its workers
    serves at a time, None if only the system limits it.
    """

    name: str
    about: str
    needs: str = ""
    protocols: tuple[str, ...]
    options: tuple[Option, ...] = ()
    holds: Some | None = None
    available: bool
    why_not: str | None = None
    lacks: tuple[str, ...] = ()


class DriverAbout(Frozen):
    """One driver of the engine's generator."""

    name: Driver
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


ServeEvent = Annotated[ServeReady | Served | Failed, Field(discriminator="event")]
LoadEvent = Annotated[LoadReady | Measuring | Interval | Measured | Report | Failed, Field(discriminator="event")]

PathEvent = Annotated[PathReady | PathReport | Failed, Field(discriminator="event")]

_SERVE_EVENT: TypeAdapter[ServeReady | Served | Failed] = TypeAdapter(ServeEvent)
_LOAD_EVENT: TypeAdapter[LoadReady | Measuring | Interval | Measured | Report | Failed] = TypeAdapter(LoadEvent)
_PATH_EVENT: TypeAdapter[PathReady | PathReport | Failed] = TypeAdapter(PathEvent)


class ContractError(ValueError):
    """A peer sent something that violates the contract. The message is one line."""


def parse_serve_event(line: str | bytes) -> ServeReady | Served | Failed:
    """Parses one JSON line of a server; raises ContractError with one line that names the field."""
    try:
        return _SERVE_EVENT.validate_json(line)
    except ValidationError as error:
        raise ContractError(f"the server broke the contract: {one_line(error)}") from None


def parse_load_event(line: str | bytes) -> LoadReady | Measuring | Interval | Measured | Report | Failed:
    """Parses one JSON line of a load generator; raises ContractError with one line that names the field."""
    try:
        return _LOAD_EVENT.validate_json(line)
    except ValidationError as error:
        raise ContractError(f"the load generator broke the contract: {one_line(error)}") from None


def parse_path_event(line: str | bytes) -> PathReady | PathReport | Failed:
    """Parses one JSON line of a path; raises ContractError with one line that names the field."""
    try:
        return _PATH_EVENT.validate_json(line)
    except ValidationError as error:
        raise ContractError(f"the path broke the contract: {one_line(error)}") from None


def percent(share: float, digits: int = 0) -> str:
    """A share as printed: 0.02 is `2 %`."""
    return f"{100 * share:.{digits}f} %"


def one_line(error: ValidationError) -> str:
    """The first fault of a pydantic error as `field: message (and n more)`."""
    faults = error.errors(include_url=False, include_context=False)
    first = faults[0]
    where = "".join(f"{part}: " for part in [".".join(str(part) for part in first["loc"])] if part)
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{where}{first['msg'].removeprefix('Value error, ')}{more}".replace("\n", " ")


def updated(record: Record, **changes: object) -> Record:
    """A copy with other values, validated again; pydantic's own copy is not."""
    values = {name: getattr(record, name) for name in type(record).model_fields}
    return type(record)(**(values | changes))
