"""The table of all metrics: how each is named, measured, compared and printed. A new metric is a row here.

Plans, verdicts, the terminal, the page and the exports all use this table, and so does everything that needs the
quantiles of a report, which are the fields of the contract's `Latency`. Few metrics are compared in every comparison;
the others are for claims, published tables and exports.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, Protocol

from pydantic import AfterValidator

from iolab.contract.histogram import decoded
from iolab.contract.types import Errors, ErrorsByPhase, Latency, Report
from iolab.wording import Bound, nearest, number

# A quantile q needs this many requests beyond it: n (1 - q) >= 10.
BEYOND_QUANTILE_MIN = 10
# The quantiles of a report by their fields: "p99_9" is 0.999.
QUANTILES = {name: float(f"0.{name[1:].replace('_', '')}") for name in Latency.model_fields if name[1:2].isdigit()}
# Those computed from the report's histogram.
MORE_QUANTILES = {"p10": 0.10, "p25": 0.25, "p75": 0.75, "p95": 0.95}

# Whose figure: the server's, the load generator's, that of both, or the whole machine's.
Side = Literal["server", "client", "both", "machine"]


def _known(key: str) -> str:
    if key not in METRICS:
        meant = nearest(key, METRICS)
        known = (
            f"use one of {', '.join(COMPARED)}, or of docs/claims.md" if meant is None else f"did you mean {meant!r}?"
        )
        raise ValueError(f"there is no metric {key!r}: {known}")
    return key


# The key of a metric in the table.
Metric = Annotated[str, AfterValidator(_known)]


class UsedByProcess(Protocol):
    """The memory of one process of a server."""

    @property
    def pss_bytes(self) -> int | None: ...
    @property
    def anonymous_bytes(self) -> int | None: ...


class Series(Protocol):
    """Samples of a server during a trial."""

    @property
    def times_ns(self) -> Sequence[int]: ...
    @property
    def rss_bytes(self) -> Sequence[int]: ...
    @property
    def zombies(self) -> Sequence[int]: ...
    @property
    def descriptors(self) -> Sequence[int]: ...


class Used(Protocol):
    """A server's use of the machine in a trial."""

    @property
    def cpu_ns(self) -> int: ...
    @property
    def user_ns(self) -> int: ...
    @property
    def system_ns(self) -> int: ...
    @property
    def wall_ns(self) -> int: ...
    @property
    def rss_bytes_median(self) -> int: ...
    @property
    def rss_bytes_max(self) -> int: ...
    @property
    def pss_bytes(self) -> int | None: ...
    @property
    def context_switches_voluntary(self) -> int | None: ...
    @property
    def context_switches_involuntary(self) -> int | None: ...
    @property
    def run_delay_ns(self) -> int | None: ...
    @property
    def threads(self) -> int: ...
    @property
    def processes(self) -> int: ...
    @property
    def processes_each(self) -> Sequence[UsedByProcess]: ...
    @property
    def processes_serving(self) -> int | None: ...
    @property
    def threads_serving(self) -> int | None: ...
    @property
    def faults_minor(self) -> int | None: ...
    @property
    def faults_major(self) -> int | None: ...
    @property
    def listen_overflows(self) -> int | None: ...
    @property
    def listen_drops(self) -> int | None: ...
    @property
    def syn_cookies_sent(self) -> int | None: ...
    @property
    def growth(self) -> Series | None: ...
    @property
    def private_bytes(self) -> int | None: ...
    @property
    def client_rss_bytes(self) -> int | None: ...
    @property
    def client_pss_bytes(self) -> int | None: ...
    @property
    def client_private_bytes(self) -> int | None: ...
    @property
    def client_user_ns(self) -> int | None: ...
    @property
    def client_system_ns(self) -> int | None: ...
    @property
    def client_switches_voluntary(self) -> int | None: ...
    @property
    def client_switches_involuntary(self) -> int | None: ...
    @property
    def client_faults_minor(self) -> int | None: ...
    @property
    def client_faults_major(self) -> int | None: ...
    @property
    def machine_bytes(self) -> int | None: ...


class ByClient(Protocol):
    """The figures that another client than our generator reports, and the resources it used."""

    @property
    def requests(self) -> int: ...
    @property
    def failed(self) -> int: ...
    @property
    def elapsed_s(self) -> float: ...
    @property
    def clients_s(self) -> Sequence[float]: ...
    @property
    def wall_ns(self) -> int: ...
    @property
    def cpu_ns(self) -> int: ...


class Finished(Protocol):
    """The parts of a finished trial that metrics use: with our load, another client's, or none."""

    @property
    def report(self) -> Report | None: ...
    @property
    def client(self) -> ByClient | None: ...
    @property
    def server(self) -> Used | None: ...


Read = Callable[[Report, Used | None], float | None]
ReadClient = Callable[[ByClient, Used], float | None]
ReadHeld = Callable[[Used], float | None]


@dataclass(frozen=True, slots=True)
class Row:
    """One metric.

    `read` gives the value of a trial in the base unit that the `column` of exports names; `sides` has the functions for
    sides other than the server, if the record has their values. `of_client` reads it from a trial with another client
    than our generator, and `held` from the resources used alone, in any trial, even one without a load. It is printed
    in `unit`, divided by `scale`.
    `heading` is the title of a column, `short` the one for a narrow terminal. Sentences use `noun`: with a `verb` "A
    serves 2x the requests of B", else "the memory of A is 2x that of B"; the comparative of less is `fewer`.

    `is_compared`: judged in every comparison. `limited`: the bound that a figure becomes if the server was not the
    limit, or "exact". `is_ranked`: orders many contestants. `is_time`: drawn with the quantiles; in a closed loop it
    mirrors the requests. `of_failures`: defined even if no request was answered. `per_processor`: divided by the
    machine's number of processors.
    """

    key: str
    title: str
    unit: str
    scale: float
    heading: str
    column: str
    noun: str
    read: Read
    sides: Mapping[Side, Read] = field(default_factory=dict)
    of_client: Mapping[Side, ReadClient] = field(default_factory=dict)
    held: Mapping[Side, ReadHeld] = field(default_factory=dict)
    short: str = ""
    verb: str = ""
    fewer: str = "less"
    more_is_better: bool = False
    limited: Bound = "exact"
    is_compared: bool = False
    is_ranked: bool = False
    is_time: bool = False
    of_failures: bool = False
    per_processor: bool = False

    @property
    def known_sides(self) -> tuple[Side, ...]:
        """The sides that the record has values of, the server first."""
        return tuple(dict.fromkeys(("server", *self.sides, *self.held, *self.of_client)))

    @property
    def better(self) -> str:
        """The side of a chart with the better contestants."""
        return "right" if self.more_is_better else "left"

    @property
    def best(self) -> str:
        """The title of the first place in a ranking, such as `Most requests`."""
        superlative = "Most" if self.more_is_better else "Lowest" if self.is_time else "Least"
        return f"{superlative} {self.noun}"

    def clause(self, more: str, ratio: object, less: str) -> str:
        """A clause on which contestant has more, and by how much."""
        if self.verb:
            return f"{more} {self.verb} {ratio} the {self.noun} of {less}"
        return f"the {self.noun} of {more} is {ratio} that of {less}"

    def shown(self, value: float) -> str:
        """A value as printed, with its unit."""
        return f"{number(value / self.scale, least=0)} {self.unit}".rstrip()


def value_of(
    trial: Finished | None, metric: Metric, side: Side = "server", processors: int | None = None
) -> float | None:
    """One trial's value of a metric; None if it was not measured or has too few requests for its quantile.

    A share of the machine needs its number of `processors`.
    """
    if trial is None:
        return None
    row = METRICS[metric]
    value = _value_of(trial, row, side) if trial.report is not None else _value_without_report(trial, row, side)
    if value is None or not row.per_processor:
        return value
    return value / processors if processors else None


def _value_of(trial: Finished, row: Row, side: Side) -> float | None:
    report = trial.report
    if report is None or report.end_ns <= report.begin_ns or (report.requests.correct == 0 and not row.of_failures):
        return None
    return (row.read if side == "server" else row.sides[side])(report, trial.server)


def _value_without_report(trial: Finished, row: Row, side: Side) -> float | None:
    """The value of a metric in a trial without a load from our generator."""
    if trial.server is None:
        return None
    if side in row.held:
        return row.held[side](trial.server)
    read = row.of_client.get(side)
    return None if read is None or trial.client is None else read(trial.client, trial.server)


def quantile_supported(requests: int, quantile: float) -> bool:
    """Whether there are enough requests for this quantile: 1,000 for a p99, 10,000 for a p99.9."""
    return requests * min(quantile, 1 - quantile) >= BEYOND_QUANTILE_MIN - 1e-6


def quantile_ns(report: Report, name: str) -> float | None:
    """A quantile of the latency by name; None if there are too few requests for it."""
    return _quantile_of(report.latency_ns, name, report.requests.correct)


def _quantile_of(times: Latency, name: str, requests: int) -> float | None:
    quantile = QUANTILES.get(name) or MORE_QUANTILES[name]
    if not quantile_supported(requests, quantile):
        return None
    if name in QUANTILES:
        value = getattr(times, name)
    else:
        histogram = decoded(times.histogram)
        value = None if histogram is None else histogram.at(quantile)
    return None if value is None else float(value)


def _per_ns(report: Report) -> float:
    return report.requests.correct / (report.end_ns - report.begin_ns)


def _server_cores(report: Report, server: Used | None) -> float | None:
    return None if server is None else server.cpu_ns / server.wall_ns


def _client_cores(report: Report, server: Used | None) -> float:
    """The generator's cores used; its `wall_ns` counts the window once for each thread."""
    return report.generator.cpu_ns / (report.generator.wall_ns / report.threads)


def _both_cores(report: Report, server: Used | None) -> float | None:
    cores = _server_cores(report, server)
    return None if cores is None else cores + _client_cores(report, server)


def _per_request(cores: Read) -> Read:
    """The processor time per request, from the cores used."""

    def read(report: Report, server: Used | None) -> float | None:
        used = cores(report, server)
        return None if used is None else used / _per_ns(report)

    return read


def _of_server(get: Callable[[Used], float | None]) -> Read:
    def read(report: Report, server: Used | None) -> float | None:
        value = None if server is None else get(server)
        return None if value is None else float(value)

    return read


def _of_server_per_request(get: Callable[[Used], float | None]) -> Read:
    """A figure per request: the server's rate of it in its own window over the rate of requests."""

    def read(report: Report, server: Used | None) -> float | None:
        value = None if server is None else get(server)
        return None if server is None or value is None else value / server.wall_ns / _per_ns(report)

    return read


def _sum(*counts: int | None) -> int | None:
    """The sum of counts; None if one is unknown."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _switches(server: Used) -> int | None:
    return _sum(server.context_switches_voluntary, server.context_switches_involuntary)


def _client_switches(server: Used) -> int | None:
    return _sum(server.client_switches_voluntary, server.client_switches_involuntary)


def _memory_per_connection(report: Report, server: Used | None) -> float | None:
    if server is None or server.pss_bytes is None or report.connections_open == 0:
        return None
    return server.pss_bytes / report.connections_open


def _faults(server: Used) -> int | None:
    return _sum(server.faults_minor, server.faults_major)


def _client_faults(server: Used) -> int | None:
    return _sum(server.client_faults_minor, server.client_faults_major)


def _pss_of_processes(server: Used) -> list[int]:
    return [each.pss_bytes for each in server.processes_each if each.pss_bytes is not None]


def _pss_largest(server: Used) -> float | None:
    return max(_pss_of_processes(server), default=None)


def _pss_mean(server: Used) -> float | None:
    return _mean(_pss_of_processes(server))


def _anonymous_mean(server: Used) -> float | None:
    return _mean([each.anonymous_bytes for each in server.processes_each if each.anonymous_bytes is not None])


def _mean(sizes: Sequence[int]) -> float | None:
    return sum(sizes) / len(sizes) if sizes else None


def _rss_growth(server: Used) -> float | None:
    """The growth of resident memory in bytes per second, from before the load to the end."""
    series = server.growth
    if series is None or len(series.times_ns) < 2:
        return None
    return (series.rss_bytes[-1] - series.rss_bytes[0]) / (series.times_ns[-1] - series.times_ns[0]) * 1e9


def _most(get: Callable[[Series], Sequence[int]]) -> ReadHeld:
    return lambda server: None if server.growth is None else max(get(server.growth), default=None)


def _held(server: ReadHeld, others: Mapping[Side, ReadHeld] | None = None) -> dict[str, Any]:
    """The fields of a row for resources of each side, which need no report of a load."""
    held: dict[Side, ReadHeld] = {"server": server, **(others or {})}
    sides: dict[Side, Read] = {side: _of_server(get) for side, get in held.items()}
    return {"read": sides.pop("server"), "sides": sides, "held": held}


def _memory(server: ReadHeld, client: ReadHeld) -> dict[str, Any]:
    """The fields of a row for the memory of each side, of both, and of the whole machine."""

    def both(used: Used) -> float | None:
        sizes = (server(used), client(used))
        return None if sizes[0] is None or sizes[1] is None else sizes[0] + sizes[1]

    return _held(server, {"client": client, "both": both, "machine": lambda used: used.machine_bytes})


def _by_client(get: Callable[[ByClient, Used], float | None]) -> Mapping[Side, ReadClient]:
    """The server's value in trials with another client than our generator."""
    return {"server": get}


def _client_throughput(client: ByClient, server: Used) -> float | None:
    return client.requests / client.elapsed_s if client.requests else None


def _cores_by_client() -> Mapping[Side, ReadClient]:
    """Cores used while another client than our generator ran, including its start."""
    return {
        "server": lambda client, server: server.cpu_ns / server.wall_ns,
        "client": lambda client, server: client.cpu_ns / client.wall_ns,
        "both": lambda client, server: server.cpu_ns / server.wall_ns + client.cpu_ns / client.wall_ns,
    }


def _per_client_request(get: Callable[[ByClient, Used], float | None]) -> ReadClient:
    def read(client: ByClient, server: Used) -> float | None:
        value = get(client, server)
        return None if value is None or not client.requests else value / client.requests

    return read


def _memory_row(key: str, title: str, heading: str, column: str, get: ReadHeld) -> Row:
    """A row of the memory of one side alone, for published tables and exports."""
    return Row(
        key=key,
        title=title,
        unit="MiB",
        scale=float(1 << 20),
        heading=heading,
        column=column,
        noun=title.lower(),
        **_held(get),
    )


def _spent(server: Callable[[Used], float | None], client: Callable[[Used], float | None]) -> dict[str, Any]:
    """The fields of a row for a cost per request, of the server and of the generator."""
    return {
        "read": _of_server_per_request(server),
        "sides": {"client": _of_server_per_request(client)},
        "of_client": _by_client(_per_client_request(lambda client, used: server(used))),
    }


def _time_row(key: str, what: str, **spent: Any) -> Row:
    """A row of one kind of processor time per request."""
    return Row(
        key=key,
        title=f"{what[0].upper()}{what[1:]} per request",
        unit="µs",
        scale=1e3,
        heading=f"{what} µs/request",
        column=f"{key}_ns",
        noun=f"{what} per request",
        **spent,
    )


def _events_row(key: str, what: str, heading: str, **spent: Any) -> Row:
    """A row of events per request."""
    return Row(
        key=key,
        title=f"{what[0].upper()}{what[1:]} per request",
        unit="",
        scale=1.0,
        heading=f"{heading}/request",
        column=key,
        noun=f"{what} per request",
        fewer="fewer",
        **spent,
    )


CPU_SIDES: dict[Side, Read] = {"client": _client_cores, "both": _both_cores}


def _latency(key: str, title: str, noun: str, read: Read, *, is_compared: bool = False) -> Row:
    return Row(
        key=f"latency_{key}",
        title=f"Latency {title}",
        unit="µs",
        scale=1e3,
        heading=f"{title} µs",
        column=f"latency_{key}_ns",
        noun=noun,
        read=read,
        limited="at most",
        is_compared=is_compared,
        is_time=True,
    )


def _latency_quantile(key: str, noun: str = "", *, is_compared: bool = False) -> Row:
    title = key.replace("_", ".")
    return _latency(
        key, title, noun or f"{title} latency", lambda report, _: quantile_ns(report, key), is_compared=is_compared
    )


def _of_times(prefix: str, what: str, get: Callable[[Report], Latency | None]) -> tuple[Row, ...]:
    """Rows of another distribution than the latency: its mean, quantiles, minimum and maximum."""

    def read(report: Report, name: str) -> float | None:
        times = get(report)
        if times is None:
            return None
        if name in ("mean", "min", "max"):
            return float(getattr(times, name))
        return _quantile_of(times, name, report.requests.correct)

    def row(name: str) -> Row:
        title = name.replace("_", ".")
        return Row(
            key=f"{prefix}_{name}",
            title=f"{what[0].upper()}{what[1:]} {title}",
            unit="µs",
            scale=1e3,
            heading=f"{what} {title} µs",
            column=f"{prefix}_{name}_ns",
            noun=f"{title} {what}",
            read=lambda report, _: read(report, name),
            limited="at most",
            is_time=True,
        )

    return tuple(map(row, ("mean", "min", "p50", "p90", "p99", "p99_9", "max")))


def _count(key: str, title: str, noun: str, read: Read, *, of_failures: bool = False) -> Row:
    return Row(
        key=key,
        title=title,
        unit="",
        scale=1.0,
        heading=title,
        column=key,
        noun=noun,
        read=read,
        fewer="fewer",
        of_failures=of_failures,
    )


def _held_count(key: str, title: str, noun: str, get: ReadHeld, *, of_failures: bool = False) -> Row:
    """A row of a count of the server's own resources."""
    return replace(_count(key, title, noun, _of_server(get), of_failures=of_failures), **_held(get))


def _time_to_finish(report: Report, server: Used | None) -> float | None:
    """None unless the load is a number of requests: other loads end with their window, however fast the server is."""
    return None if report.finish_ns is None else float(report.finish_ns)


def _errors(kind: str) -> Row:
    def read(report: Report, server: Used | None) -> float:
        return float(getattr(report.errors, kind))

    return _count(f"errors_{kind}", f"Errors: {kind}", f"errors of kind {kind}", read, of_failures=True)


def _errors_in(phase: str) -> Row:
    def read(report: Report, server: Used | None) -> float:
        return float(getattr(report.errors_by_phase, phase))

    return _count(f"errors_in_{phase}", f"Errors in phase: {phase}", f"errors in phase {phase}", read, of_failures=True)


def _error_share(report: Report, server: Used | None) -> float | None:
    r = report.requests
    ended = r.correct + r.wrong + r.failed
    return (r.wrong + r.failed) / ended if ended else None


def _client_error_share(client: ByClient, server: Used) -> float | None:
    ended = client.requests + client.failed
    return client.failed / ended if ended else None


def _client_time(key: str, what: str, of: Callable[[Sequence[float]], float]) -> Row:
    """A row of the times that another client than our generator reports for its processes or threads."""
    return Row(
        key=key,
        title=f"Time of {what}",
        unit="s",
        scale=1e9,
        heading=f"seconds, {what}",
        column=f"{key}_ns",
        noun=f"time of {what}",
        read=lambda report, server: None,
        of_client=_by_client(lambda client, server: of(client.clients_s) * 1e9 if client.clients_s else None),
    )


_ROWS = (
    Row(
        key="throughput",
        title="Throughput",
        unit="requests/s",
        scale=1.0,
        heading="Requests/s",
        short="requests/s",
        column="rate_per_s",
        noun="requests",
        verb="serves",
        fewer="fewer",
        read=lambda report, server: _per_ns(report) * 1e9,
        of_client=_by_client(_client_throughput),
        more_is_better=True,
        limited="at least",
        is_compared=True,
        is_ranked=True,
    ),
    Row(
        key="cpu_per_request",
        title="CPU per request",
        unit="µs",
        scale=1e3,
        heading="CPU µs/request",
        short="CPU µs",
        column="cpu_per_request_ns",
        noun="CPU per request",
        verb="uses",
        read=_per_request(_server_cores),
        sides={side: _per_request(cores) for side, cores in CPU_SIDES.items()},
        of_client={
            "server": _per_client_request(lambda client, server: server.cpu_ns),
            "client": _per_client_request(lambda client, server: client.cpu_ns),
            "both": _per_client_request(lambda client, server: server.cpu_ns + client.cpu_ns),
        },
        is_compared=True,
        is_ranked=True,
    ),
    _latency_quantile("p50", "median latency", is_compared=True),
    _latency_quantile("p99", is_compared=True),
    Row(
        key="rss",
        title="Resident memory",
        unit="MiB",
        scale=float(1 << 20),
        heading="RSS MiB",
        column="rss_median_bytes",
        noun="memory",
        **_memory(lambda server: server.rss_bytes_median, lambda server: server.client_rss_bytes),
        is_compared=True,
    ),
    _latency("min", "min", "shortest latency", lambda report, server: float(report.latency_ns.min)),
    *map(_latency_quantile, ("p10", "p25", "p75", "p90", "p95", "p99_9", "p99_99", "p99_999")),
    _latency("max", "max", "longest latency", lambda report, server: float(report.latency_ns.max)),
    _latency("mean", "mean", "mean latency", lambda report, server: report.latency_ns.mean),
    *_of_times(
        "service", "service time", lambda report: report.views.service_ns if report.views else report.latency_ns
    ),
    *_of_times("lateness", "lateness", lambda report: report.views.lateness_ns if report.views else None),
    *_of_times("connect", "connect time", lambda report: report.times.connect_ns if report.times else None),
    *_of_times("write", "write time", lambda report: report.times.write_ns if report.times else None),
    *_of_times("wait", "wait time", lambda report: report.times.wait_ns if report.times else None),
    *_of_times("read", "read time", lambda report: report.times.read_ns if report.times else None),
    Row(
        key="time_to_finish",
        title="Time to finish",
        unit="s",
        scale=1e9,
        heading="seconds",
        column="time_to_finish_ns",
        noun="time to finish",
        read=_time_to_finish,
        of_client=_by_client(lambda client, server: client.elapsed_s * 1e9),
        limited="at most",
    ),
    Row(
        key="time_elapsed",
        title="Time from the first connect to the last reply",
        unit="s",
        scale=1e9,
        heading="seconds with connects",
        column="elapsed_ns",
        noun="time from the first connect to the last reply",
        read=lambda report, server: None if report.elapsed_ns is None else float(report.elapsed_ns),
        of_client=_by_client(lambda client, server: float(client.wall_ns)),
        limited="at most",
    ),
    _client_time("client_time_mean", "the mean client", statistics.fmean),
    _client_time("client_time_max", "the slowest client", max),
    Row(
        key="time_per_request",
        title="Time per request, across all connections",
        unit="µs",
        scale=1e3,
        heading="µs/request",
        column="time_per_request_ns",
        noun="time per request across all connections",
        read=lambda report, server: 1 / _per_ns(report),
        of_client=_by_client(_per_client_request(lambda client, server: client.elapsed_s * 1e9)),
        limited="at most",
    ),
    Row(
        key="transfer_rate",
        title="Transfer rate",
        unit="KiB/s",
        scale=1024.0,
        heading="KiB/s",
        column="received_bytes_per_s",
        noun="bytes received",
        read=lambda report, server: report.bytes.received / (report.end_ns - report.begin_ns) * 1e9,
        more_is_better=True,
        limited="at least",
    ),
    Row(
        key="reply_bytes",
        title="Bytes per reply",
        unit="bytes",
        scale=1.0,
        heading="bytes/reply",
        column="reply_bytes",
        noun="reply size",
        read=lambda report, server: report.bytes.received / report.requests.correct,
    ),
    Row(
        key="cores_used",
        title="Cores used",
        unit="cores",
        scale=1.0,
        heading="cores",
        column="cores_used",
        noun="processor time",
        read=_server_cores,
        sides=CPU_SIDES,
        of_client=_cores_by_client(),
    ),
    Row(
        key="share_of_machine",
        title="Share of all processors",
        unit="%",
        scale=0.01,
        heading="% of machine",
        column="share_of_machine",
        noun="share of all processors",
        read=_server_cores,
        sides=CPU_SIDES,
        of_client=_cores_by_client(),
        per_processor=True,
    ),
    _time_row(
        "user_time_per_request", "user time", **_spent(lambda used: used.user_ns, lambda used: used.client_user_ns)
    ),
    _time_row(
        "kernel_time_per_request",
        "kernel time",
        **_spent(lambda used: used.system_ns, lambda used: used.client_system_ns),
    ),
    _events_row("context_switches_per_request", "context switches", "switches", **_spent(_switches, _client_switches)),
    # A thread that gives up its processor to wait is woken once, so wake-ups are the voluntary switches.
    _events_row(
        "wakeups_per_request",
        "wake-ups",
        "wake-ups",
        **_spent(lambda used: used.context_switches_voluntary, lambda used: used.client_switches_voluntary),
    ),
    _events_row(
        "preemptions_per_request",
        "preemptions",
        "preemptions",
        **_spent(lambda used: used.context_switches_involuntary, lambda used: used.client_switches_involuntary),
    ),
    Row(
        key="run_delay_per_request",
        title="Wait for a processor per request",
        unit="µs",
        scale=1e3,
        heading="run delay µs/request",
        column="run_delay_per_request_ns",
        noun="wait for a processor per request",
        read=_of_server_per_request(lambda server: server.run_delay_ns),
        of_client=_by_client(_per_client_request(lambda client, server: server.run_delay_ns)),
    ),
    Row(
        key="rss_max",
        title="Largest resident memory",
        unit="MiB",
        scale=float(1 << 20),
        heading="max RSS MiB",
        column="rss_max_bytes",
        noun="largest memory",
        read=_of_server(lambda server: server.rss_bytes_max),
        sides={"client": lambda report, server: float(report.generator.rss_bytes_max)},
        held={"server": lambda server: server.rss_bytes_max, "client": lambda server: server.client_rss_bytes},
    ),
    Row(
        key="pss",
        title="Proportional memory",
        unit="MiB",
        scale=float(1 << 20),
        heading="PSS MiB",
        column="pss_bytes",
        noun="proportional memory",
        **_memory(lambda server: server.pss_bytes, lambda server: server.client_pss_bytes),
    ),
    Row(
        key="private",
        title="Private memory",
        unit="MiB",
        scale=float(1 << 20),
        heading="private MiB",
        column="private_bytes",
        noun="private memory",
        **_memory(lambda server: server.private_bytes, lambda server: server.client_private_bytes),
    ),
    _memory_row(
        "machine_memory",
        "Memory of the whole machine",
        "machine MiB",
        "machine_bytes",
        lambda server: server.machine_bytes,
    ),
    _memory_row(
        "client_rss",
        "Resident memory of the clients",
        "clients' RSS MiB",
        "client_rss_bytes",
        lambda server: server.client_rss_bytes,
    ),
    _memory_row(
        "client_pss",
        "Proportional memory of the clients",
        "clients' PSS MiB",
        "client_pss_bytes",
        lambda server: server.client_pss_bytes,
    ),
    _memory_row(
        "client_private",
        "Private memory of the clients",
        "clients' private MiB",
        "client_private_bytes",
        lambda server: server.client_private_bytes,
    ),
    Row(
        key="pss_largest_process",
        title="Proportional memory of the largest process",
        unit="MiB",
        scale=float(1 << 20),
        heading="largest PSS MiB",
        column="pss_largest_process_bytes",
        noun="proportional memory of the largest process",
        **_held(_pss_largest),
    ),
    Row(
        key="pss_mean_process",
        title="Proportional memory of the mean process",
        unit="MiB",
        scale=float(1 << 20),
        heading="mean PSS MiB",
        column="pss_mean_process_bytes",
        noun="proportional memory of the mean process",
        **_held(_pss_mean),
    ),
    Row(
        key="anonymous_mean_process",
        title="Anonymous memory of the mean process",
        unit="MiB",
        scale=float(1 << 20),
        heading="mean anonymous MiB",
        column="anonymous_mean_process_bytes",
        noun="anonymous memory of the mean process",
        read=_of_server(_anonymous_mean),
    ),
    Row(
        key="rss_growth",
        title="Growth of resident memory",
        unit="KiB/s",
        scale=1024.0,
        heading="growth KiB/s",
        column="rss_growth_bytes_per_s",
        noun="growth of memory",
        **_held(_rss_growth),
    ),
    _events_row("faults_per_request", "page faults", "faults", **_spent(_faults, _client_faults)),
    Row(
        key="bytes_per_connection",
        title="Proportional memory per connection",
        unit="KiB",
        scale=1024.0,
        heading="KiB/connection",
        column="pss_per_connection_bytes",
        noun="proportional memory per connection",
        read=_memory_per_connection,
    ),
    _held_count("threads", "Threads", "threads", lambda server: server.threads),
    _held_count("processes", "Processes", "processes", lambda server: server.processes),
    _held_count(
        "processes_serving",
        "Processes that serve",
        "processes that serve",
        lambda server: server.processes_serving,
    ),
    _held_count("threads_serving", "Threads that serve", "threads that serve", lambda server: server.threads_serving),
    _held_count("zombies", "Zombies", "zombies", _most(lambda series: series.zombies), of_failures=True),
    _held_count("descriptors", "Open descriptors", "descriptors", _most(lambda series: series.descriptors)),
    _held_count(
        "listen_overflows",
        "Overflows of accept's queue",
        "overflows of accept's queue",
        lambda server: server.listen_overflows,
        of_failures=True,
    ),
    _held_count(
        "listen_drops",
        "Handshake packets dropped by listeners",
        "handshake packets dropped by listeners",
        lambda server: server.listen_drops,
        of_failures=True,
    ),
    _held_count(
        "syn_cookies",
        "SYN cookies sent",
        "SYN cookies",
        lambda server: server.syn_cookies_sent,
        of_failures=True,
    ),
    _count("connections", "Open connections", "open connections", lambda report, _: float(report.connections_open)),
    replace(
        _count("requests", "Requests", "requests answered", lambda report, _: float(report.requests.correct)),
        of_client=_by_client(lambda client, server: float(client.requests)),
    ),
    replace(
        _count("failed", "Failed requests", "failed requests", lambda r, _: float(r.requests.failed), of_failures=True),
        of_client=_by_client(lambda client, server: float(client.failed)),
    ),
    _count("wrong", "Wrong replies", "wrong replies", lambda r, _: float(r.requests.wrong), of_failures=True),
    *map(_errors, Errors.model_fields),
    *map(_errors_in, ErrorsByPhase.model_fields),
    _count(
        "connections_made",
        "Connections made",
        "connections made",
        lambda report, _: float(report.connections_made),
        of_failures=True,
    ),
    Row(
        key="error_share",
        title="Share of failed requests",
        unit="%",
        scale=0.01,
        heading="% failed",
        column="error_share",
        noun="share of failed requests",
        read=_error_share,
        of_client=_by_client(_client_error_share),
        of_failures=True,
    ),
)
METRICS: dict[str, Row] = {row.key: row for row in _ROWS}
# The metrics judged in every comparison.
COMPARED: dict[str, Row] = {row.key: row for row in _ROWS if row.is_compared}
RANKED_BY = tuple(row.key for row in _ROWS if row.is_ranked)
