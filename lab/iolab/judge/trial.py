"""The rules within one trial: what discards it, and what raises a warning.

Pure functions over one report. No rule looks at which contestant is ahead or removes a value for being large, so
discarding a trial does not favour a contestant. Each limit is defined here, with its reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy  # loads scipy.stats on first use; that takes more than a second
from numpy.typing import NDArray

from iolab.contract.types import (
    Carried,
    EchoWorkload,
    HttpWorkload,
    LineWorkload,
    Report,
    RpcWorkload,
    Workload,
    percent,
)
from iolab.judge.bottleneck import Bottleneck, bottleneck, generator_share, server_share
from iolab.metrics import quantile_supported
from iolab.plan.settings import Cell
from iolab.results.records import MachineNoise, Result, TrialWarning, WarningWord

Floats = NDArray[np.float64]

# Intervals are judged in batches of five, as MSER-5 does: it evens out the beat of timers and schedulers.
BATCH = 5
# Throughput that moves by more than this within a window cannot be stated as one figure.
DRIFT_MAX = 0.05
# A difference between the two halves must also exceed this many standard errors of the batches.
DRIFT_ERRORS = 3.0
# A warm-up is too short only if the window itself moves by more than this. A quick run gives MSER some twenty batches;
# with so few, correlated noise of 10 to 20 % per interval looks like late settling.
UNSETTLED_MIN = 0.10
# Fewer batches than this show no trend.
BATCHES_MIN = 10
# Batches needed, in both halves together, to show whether throughput had settled.
SETTLED_BATCHES_MIN = 2 * BATCHES_MIN
# Allowed deviation from Little's law: the generator needs some time between a reply and the next send.
LITTLE_MAX = 0.02
# Above this share of failed requests a trial measures errors, not speed.
ERRORS_MAX = 0.001
# The longest iteration of the generator's loop after which its timestamps can still be trusted.
TURN_NS_MAX = 20_000_000
# If each request opens a connection, one iteration may serve all connections once; each takes up to this.
TURN_NS_A_CONNECTION = 50_000
# Run delay (time runnable without a processor) as a share of run time, and of the window. A generator that mostly waits
# for replies spends some microseconds of each wake-up this way; below the effect of interest that changes no figure.
RUN_DELAY_MAX, RUN_DELAY_WINDOW_MAX = 0.05, 0.02
# Each wake-up of a thread that waits for one reply has a run delay of its own: 1 to 4 microseconds on an idle virtual
# machine. That is part of the round trip. If replies take milliseconds, a thousandth of the median per wake-up changes
# no figure either. Both allowances hold up to this share of the window.
WAKE_NS_MAX, WAKE_LATENCY_MAX, WAKES_WINDOW_MAX = 5_000, 0.001, 0.06
# If an open loop sends later than this, the load is not the requested one. The engine has the same limits.
LATENESS_P99_NS_MAX, LATENESS_SHARE_MAX = 1_000_000, 0.1
# Below this share of the requested rate the server was overloaded. Poisson arrivals in a window of a few thousand
# requests stay within 2 or 3 % of their rate.
ACHIEVED_SHARE_MIN = 0.95
# Steal above which a trial gets a warning, and above which it is discarded. /proc/stat counts in ticks of 10 ms, so 2 %
# of a window of one second is two or three ticks. A few per cent of steal affects both sides of a pair alike, so it
# widens the interval and does not shift it.
STEAL_NOISY, STEAL_MAX = 0.01, 0.05
# The same for other programs, in cores. Their load is uneven: one may run on a server's processor.
FOREIGN_CORES_NOISY, FOREIGN_CORES_MAX = 0.05, 0.10
# Before the measurement other programs may use more: many become idle when their user waits.
FOREIGN_CORES_AT_REST = 0.25
# Both are differences of rounded counters in ticks of 10 ms. In a short window fewer than four ticks are no evidence,
# and fewer than two do not even raise a warning.
TICKS_SURE_NS = 40_000_000
# If packets are later than this share of their delay, the path is not the requested one.
PATH_LATE_MAX = 0.05
# With fewer packets the 99th percentile is one or two of them, which hardly change a figure.
PATH_PACKETS_MIN, PATH_LATE_FEW_MAX = 200, 0.20


def judged(cell: Cell, result: Result) -> Result:
    """The result with its warnings filled in; `cell` is `plan.cell(result.trial)`. A failed trial has none."""
    if result.failure is not None or not result.is_measured:
        return result
    found = _warnings_without_report(result) if result.report is None else _warnings(cell, result, result.report)
    return result.model_copy(update={"warnings": tuple(found)})


def machine_busy(noise: MachineNoise) -> str:
    """What uses the machine before the measurement, in words; empty if trials can be used."""
    if noise.steal_share > STEAL_MAX:
        return f"its hypervisor takes {percent(noise.steal_share)} of it"
    if noise.foreign_cpu_cores > FOREIGN_CORES_AT_REST:
        return f"other programs use {noise.foreign_cpu_cores:.1f} of its processors"
    return ""


def mser5(series: NDArray[np.float64]) -> tuple[int, int]:
    """MSER-5: the number of batches to cut from the front, and the number of all batches.

    The cut d minimises S²_d / (m - d)²; S²_d is the sum of squares about the mean of the kept batches.
    """
    batches = _batches(series)
    m = batches.size
    if m < 2:
        return 0, m
    kept = np.arange(m, 0, -1, dtype=np.float64)
    sums = np.cumsum(batches[::-1])[::-1]
    squares = np.cumsum((batches**2)[::-1])[::-1]
    spread = np.maximum(squares - sums**2 / kept, 0.0) / kept**2
    return int(np.argmin(spread[:-1])), m


def never_steady(series: NDArray[np.float64], warmup: int = 0) -> bool:
    """Whether throughput had not settled by the middle of the series. Its first `warmup` intervals are warm-up.

    The bare rule (a cut beyond the middle) also fires on a third of all flat noisy series, because the statistic is
    flat there. So the two halves must also differ by more than the allowed drift, and the halves of the window by more
    than a slightly short warm-up would explain.
    """
    cut, m = mser5(series)
    if m < SETTLED_BATCHES_MIN or cut <= m / 2:
        return False
    return _differ(_batches(series), DRIFT_MAX) and _differ(_batches(series[warmup:]), UNSETTLED_MIN)


def drift(series: NDArray[np.float64]) -> float:
    """How much throughput moved over a window, as a share of its level: by trend or halves; 0 if it may be chance."""
    batches = _batches(series)
    if batches.size < BATCHES_MIN or np.ptp(batches) == 0:
        return 0.0
    slope, _, low, high = scipy.stats.theilslopes(batches)
    trend = abs(slope) * batches.size / batches.mean() if low > 0 or high < 0 else 0.0
    first, second = np.array_split(batches, 2)
    halves = abs(second.mean() / first.mean() - 1) if first.mean() > 0 and _differ(batches, DRIFT_MAX) else 0.0
    return float(max(trend, halves))


def _differ(batches: Floats, least: float) -> bool:
    """Whether the two halves differ by more than `least`, as a share of the second, and by more than their noise."""
    if batches.size < 2:
        return False
    first, second = np.array_split(batches, 2)
    gap = abs(float(first.mean() - second.mean()))
    error = float(np.sqrt(sum(part.var(ddof=1) / part.size for part in (first, second) if part.size > 1)))
    return gap > least * float(second.mean()) and gap > DRIFT_ERRORS * error


def _batches(series: Floats) -> Floats:
    whole = series.size // BATCH * BATCH
    means: Floats = np.asarray(series[:whole], dtype=np.float64).reshape(-1, BATCH).mean(axis=1)
    return means


def _warnings(cell: Cell, result: Result, report: Report) -> Iterator[TrialWarning]:
    yield from _warnings_of_replies(cell, result, report)
    yield from _warnings_of_books(cell, result, report)
    yield from _warnings_of_generator(cell, result, report)
    yield from _warnings_of_rate(report)
    yield from _warnings_of_machine(result)
    yield from _warnings_of_path(cell, result)
    # A run of a number of requests has no warm-up and need not reach a steady state.
    if cell.load.requests is None:
        yield from _warnings_of_series(report)
    correct = report.requests.correct
    if not quantile_supported(correct, 0.5):
        yield TrialWarning(word="too_short", detail=f"{correct} requests in the window")
    elif not quantile_supported(correct, 0.99):
        yield TrialWarning(word="p99_not_supported", detail=f"{correct} requests, a p99 needs 1000")


def _warnings_without_report(result: Result) -> Iterator[TrialWarning]:
    """The warnings of a trial without a load from our generator: its latencies and bytes are unknown."""
    yield from _warnings_of_machine(result)
    client = result.client
    if client is None:
        return
    detail = (
        "replies not verified by iolab: the client reports no latency, so Little's law, the bytes, steadiness and the "
        "generator's lateness are not checked"
    )
    yield TrialWarning(word="replies_not_verified", detail=detail)
    ended = client.requests + client.failed
    if ended and client.failed / ended > ERRORS_MAX:
        yield TrialWarning(word="errors", detail=f"{client.failed} of {ended} requests failed")
    elif client.requests == 0:
        yield TrialWarning(word="errors", detail="no request was answered")


def _warnings_of_replies(cell: Cell, result: Result, report: Report) -> Iterator[TrialWarning]:
    """Was every connection open and every reply correct?"""
    requests = report.requests
    if report.interrupted:
        yield TrialWarning(word="interrupted", detail="the window was cut short")
    asked = report.connections + cell.load.idle
    if report.connections_open < asked and not _connections_end(cell, result):
        detail = f"{report.connections_open} of {asked} connections were open"
        yield TrialWarning(word="connections_missing", detail=detail)
    taken = None if result.server is None else result.server.connections_taken
    if taken is not None and taken < report.connections and _accepted_before(cell):
        detail = f"{taken} of {report.connections} connections were accepted when the window began"
        yield TrialWarning(word="connections_waiting", detail=detail)
    if requests.wrong or report.errors.wrong:
        yield TrialWarning(
            word="wrong_replies", detail=f"{max(requests.wrong, report.errors.wrong)} replies were wrong"
        )
    ended = requests.correct + requests.wrong + requests.failed
    if ended and requests.failed / ended > ERRORS_MAX:
        first = f", first: {report.first_error}" if report.first_error else ""
        yield TrialWarning(word="errors", detail=f"{requests.failed} of {ended} requests failed{first}")
    elif requests.correct == 0:
        yield TrialWarning(word="errors", detail="no request was answered")


def _warnings_of_books(cell: Cell, result: Result, report: Report) -> Iterator[TrialWarning]:
    """Do counts, bytes and Little's law agree? If not, a figure is wrong, however plausible it looks."""
    r = report.requests
    begun, ended = r.sent + r.in_flight_begin, r.correct + r.wrong + r.failed + r.in_flight_end
    if begun != ended:
        yield TrialWarning(word="counts_open", detail=f"{begun} requests began, {ended} are accounted for")
    bytes_fault = _bytes_fault(cell, report)
    if bytes_fault:
        yield TrialWarning(word="bytes_open", detail=bytes_fault)
    yield from _littles_law(cell, result)


def _littles_law(cell: Cell, result: Result) -> Iterator[TrialWarning]:
    """Is throughput times mean latency the number of requests in flight?"""
    law = littles_law(cell, result)
    if law is not None and (law.share - 1 > LITTLE_MAX or (1 - law.share > LITTLE_MAX and not law.is_bound)):
        yield TrialWarning(word="littles_law", detail=law.words)


class LittlesLaw(NamedTuple):
    """Throughput times mean latency, and the requests in flight: equal to it, or an upper bound."""

    concurrency: float
    in_flight: int
    is_bound: bool

    @property
    def share(self) -> float:
        """The mean number of requests in flight as a share of the possible number."""
        return self.concurrency / self.in_flight

    @property
    def words(self) -> str:
        """Both sides."""
        most = "at most " if self.is_bound else ""
        return f"throughput x mean latency is {self.concurrency:.2f}, requests in flight are {most}{self.in_flight}"


def littles_law(cell: Cell, result: Result) -> LittlesLaw | None:
    """Both sides of Little's law in a trial; None if the law does not apply.

    The number of requests in flight is an upper bound if connections are reopened, because a connection has none in
    flight meanwhile, or if the run is a number of requests, because fewer are in flight towards its end. In an open
    loop a request waits from its due time, and there is no bound.
    """
    report = result.report
    assert report is not None, "a trial without a report has no latency"
    r, ends = report.requests, _connections_end(cell, result)
    # A connection that is being reopened does not count as open, but is in use.
    used = report.connections if ends else report.connections_open - cell.load.idle
    if r.correct == 0 or report.generator.wall_ns == 0 or used <= 0 or cell.load.rate is not None:
        return None
    # The latency sum includes all of a request in flight at the begin of the window, and nothing of one that failed or
    # is in flight at its end. Their ages correct for that, so the law is exact even if requests stall at an edge.
    ages_ns = report.age_end_ns + report.age_failed_ns - report.age_begin_ns
    latencies_ns = (r.correct + r.wrong) * report.latency_ns.mean + ages_ns
    # `wall_ns` sums the windows of all threads.
    concurrency = latencies_ns / (report.generator.wall_ns / report.threads)
    in_flight = min(cell.load.active or used, used) * cell.load.pipeline
    return LittlesLaw(concurrency, in_flight, is_bound=ends or cell.load.requests is not None)


def _connections_end(cell: Cell, result: Result) -> bool:
    """Whether connections end within the trial and are reopened.

    An HTTP server that serves one connection at a time closes it after its reply, even if keep-alive was requested.
    Other servers may close them too, such as one that speaks HTTP/1.0: then more connections are made than requested,
    and no request fails.
    """
    workload, report = cell.workload, result.report
    if cell.load.requests_per_connection is not None or not isinstance(workload, HttpWorkload):
        return cell.load.requests_per_connection is not None
    holds_one = result.ready is not None and result.ready.holds == 1
    asked = cell.load.connections + cell.load.idle + cell.load.probes
    are_ended = report is not None and report.connections_made > asked and not any(dict(report.errors).values())
    return not workload.keep_alive or holds_one or are_ended


def _accepted_before(cell: Cell) -> bool:
    """Whether the server must have accepted all connections when the window begins.

    A run of a number of requests begins with the first request, and if connections end, others may wait in the backlog.
    """
    ends = cell.load.requests_per_connection is not None
    return cell.load.requests is None and cell.load.open == "before" and not ends


def _bytes_fault(cell: Cell, report: Report) -> str | None:
    """What is wrong with the byte counts, allowing for requests in flight at the edges; None if they are right."""
    r, workload = report.requests, report.workload
    size = _message_bytes(workload)
    if size is not None:
        slack = (r.in_flight_begin + r.in_flight_end + r.wrong + r.failed) * size
        for what, counted, messages in (
            ("received", report.bytes.received, r.correct + r.wrong),
            ("sent", report.bytes.sent, r.sent),
        ):
            if abs(counted - messages * size) > slack:
                return f"{counted} bytes {what} for {messages} messages of {size}"
        return None
    each = _reply_bytes_min(workload, named=cell.contestant.kind == "named")
    if report.bytes.received < (r.correct - r.in_flight_begin) * each:
        return f"{report.bytes.received} bytes received for {r.correct} replies of at least {each}"
    return None


def _message_bytes(workload: Workload) -> int | None:
    """The length of each message on the wire, both ways; None if replies have another length."""
    if isinstance(workload, EchoWorkload):
        return workload.message_bytes + (0 if workload.framing == "raw" else 2)
    return workload.message_bytes if isinstance(workload, LineWorkload) else None


def _reply_bytes_min(workload: Workload, *, named: bool) -> int:
    """The least number of bytes in a reply: 0 for HTTP replies of a command, which may have any body."""
    if isinstance(workload, RpcWorkload):
        return workload.text_bytes
    return workload.reply_bytes if isinstance(workload, HttpWorkload) and named else 0


def _warnings_of_generator(cell: Cell, result: Result, report: Report) -> Iterator[TrialWarning]:
    """Could the generator measure what it reports?"""
    shared = cell.trial.processors == "shared"
    # A path needs processor time too. If no processor is free, it uses the generator's.
    path_ns = 0 if result.path is None else result.path.cpu_ns
    for word, detail in _lateness(report):
        by_path = word == "generator_starved" and report.generator.run_delay_ns <= path_ns
        yield TrialWarning(word="processor_shared" if shared or by_path else word, detail=detail)
    if bottleneck(cell, result) is Bottleneck.GENERATOR:
        server = server_share(cell, result)
        beside = "unknown" if server is None else percent(server)
        detail = f"generator {percent(generator_share(cell, report))} busy, server {beside}"
        yield TrialWarning(word="generator_saturated", detail=detail)


def _lateness(report: Report) -> Iterator[tuple[WarningWord, str]]:
    """How the generator was late, if it was."""
    generator, views = report.generator, report.views
    late_ns = 0 if views is None else views.lateness_ns.p99
    if is_late(report):
        yield "generator_late", f"it was away for {generator.turn_ns_max / 1e6:.0f} ms at a time"
    elif late_ns > max(LATENESS_P99_NS_MAX, LATENESS_SHARE_MAX * report.latency_ns.p50):
        yield "generator_late", f"1 % of its requests were sent {late_ns / 1e6:.1f} ms late or later"
    wake_ns = max(WAKE_NS_MAX, WAKE_LATENCY_MAX * report.latency_ns.p50)
    wakes_ns = min(wake_ns * generator.turns, WAKES_WINDOW_MAX * generator.wall_ns)
    allowed_ns = max(RUN_DELAY_MAX * generator.cpu_ns, RUN_DELAY_WINDOW_MAX * generator.wall_ns, wakes_ns)
    if generator.run_delay_ns > allowed_ns:
        share = generator.run_delay_ns / max(generator.cpu_ns, 1)
        yield "generator_starved", f"it waited for a processor for {percent(share)} of its run time"


def is_late(report: Report) -> bool:
    """Whether an iteration of the generator's loop took longer than its work explains."""
    opens = isinstance(report.workload, HttpWorkload) and not report.workload.keep_alive
    work_ns = TURN_NS_A_CONNECTION * report.connections // report.threads if opens else 0
    return report.generator.turn_ns_max > max(TURN_NS_MAX, work_ns)


def _warnings_of_rate(report: Report) -> Iterator[TrialWarning]:
    """Was the requested rate served?"""
    schedule = report.schedule
    if schedule is None or schedule.asked_per_s == 0:
        return
    if report.rate_per_s < ACHIEVED_SHARE_MIN * schedule.asked_per_s:
        detail = f"{report.rate_per_s:,.0f} of {schedule.asked_per_s:,.0f} requests per second were answered"
        yield TrialWarning(word="rate_missed", detail=detail)


def _warnings_of_machine(result: Result) -> Iterator[TrialWarning]:
    """Was the machine busy with other work?"""
    noise = result.noise
    if noise is None:
        return
    steal, foreign = noise.steal_share, noise.foreign_cpu_cores
    window_ns = _window_ns(result)
    grain = TICKS_SURE_NS / window_ns
    detail = f"{percent(steal, 1)} stolen by the hypervisor, {foreign:.2f} cores used by other programs"
    if steal > max(STEAL_MAX, grain) or foreign > max(FOREIGN_CORES_MAX, grain):
        yield TrialWarning(word="machine_busy", detail=detail)
    elif steal > max(STEAL_NOISY, grain / 2) or foreign > max(FOREIGN_CORES_NOISY, grain / 2):
        yield TrialWarning(word="machine_noisy", detail=detail)


def _window_ns(result: Result) -> int:
    if result.report is not None:
        return max(1, result.report.end_ns - result.report.begin_ns)
    return 1 if result.server is None else result.server.wall_ns


def _warnings_of_path(cell: Cell, result: Result) -> Iterator[TrialWarning]:
    """Was the path the requested one, and did it drop packets?"""
    if cell.path is None or result.path is None:
        return
    directions = (result.path.to_server, result.path.to_load)
    late_ms = max(each.late_ns_p99 for each in directions) / 1e6
    if cell.path.delay_ms and any(_is_path_late(each, cell.path.delay_ms) for each in directions):
        detail = f"packets were late by {late_ms:.2f} ms (p99) over a delay of {cell.path.delay_ms:g} ms"
        yield TrialWarning(word="path_late", detail=detail)
    elif overrun := sum(each.overrun for each in directions):
        yield TrialWarning(word="path_late", detail=f"the path was too slow for {overrun} packets")
    if overflowed := sum(each.overflowed for each in directions):
        detail = f"the path dropped {overflowed} packets because too many were in transit"
        yield TrialWarning(word="path_full", detail=detail)
    if dropped := sum(each.dropped for each in directions):
        packets = dropped + sum(each.packets + each.lost for each in directions)
        yield TrialWarning(word="path_dropped", detail=f"{dropped} of {packets} packets were dropped at its queue")


def _is_path_late(direction: Carried, delay_ms: float) -> bool:
    share = PATH_LATE_MAX if direction.packets >= PATH_PACKETS_MIN else PATH_LATE_FEW_MAX
    return direction.late_ns_p99 > share * delay_ms * 1e6


def _warnings_of_series(report: Report) -> Iterator[TrialWarning]:
    """Was throughput steady within the window, and had it settled before?"""
    series = np.asarray(report.intervals.completed, dtype=np.float64)
    first = max(0, (report.begin_ns - report.intervals.begin_ns) // report.intervals.length_ns)
    last = max(first, (report.end_ns - report.intervals.begin_ns) // report.intervals.length_ns)
    cut, batches = mser5(series[:last])
    if batches < SETTLED_BATCHES_MIN:
        detail = f"{batches} batches of {BATCH} intervals, {SETTLED_BATCHES_MIN} are needed"
        yield TrialWarning(word="steadiness_unseen", detail=detail)
    if never_steady(series[:last], first):
        yield TrialWarning(word="never_steady", detail=f"it settled only in batch {cut} of {batches}")
        return
    moved = drift(series[first:last])
    if moved > DRIFT_MAX:
        yield TrialWarning(word="not_steady", detail=f"throughput moved by {percent(moved)} within the window")
