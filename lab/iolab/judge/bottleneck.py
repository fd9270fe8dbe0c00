"""What limited a trial, and what limited a cell: a contestant at one setting of a run.

A trial is judged by the processor time of both sides and by the resources that ran out. The most frequent limit of its
trials is the limit of a cell. If idle processors leave it open, further trials decide: twice as many requests in
flight, and the cheapest server under the same load. Only figures that the server limited are ranked; others are bounds.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from statistics import median
from typing import NamedTuple

from iolab.contract.types import Frozen, Report, percent
from iolab.judge.blocks import Row
from iolab.metrics import METRICS, Metric
from iolab.plan.plan import Plan
from iolab.plan.settings import Cell, digest_of
from iolab.results.records import CostCount, LimitProbe, RanOut, Result, ServerUsage
from iolab.wording import Bound

# A generator above this share of its processors may be the limit; a server above SERVER_BUSY surely is.
GENERATOR_BUSY = 0.80
SERVER_BUSY = 0.90
# A quota was the limit if it was used up in half of its periods. A server throttled now and then is not limited by it.
QUOTA_PERIODS = 0.5
# A client first retries a dropped handshake packet after this time (RFC 6298).
HANDSHAKE_RETRY_S = 1.0
# The backlog was the limit if such retries took this share of all connections' time.
RETRIES_SHARE = 0.10
# A path that carried this share of its rate was full.
PATH_FULL = 0.85
# A server often keeps a descriptor or two to refuse with.
DESCRIPTORS_SPARE = 2
# Below this share of the highest rate the generator reached under the same load, it was not the limit.
CEILING_SHARE = 0.80
# If nothing else limits, twice as many requests in flight double the rate. Below this gain something else limits: the
# noise of a median of short trials is only a few per cent.
GAIN_MIN = 1.10


class Bottleneck(StrEnum):
    """What limited a trial or a cell.

    `server`: the throughput is the server's. `both`: the generator was busy too; the throughput is the server's except
    for what the server left idle. `generator`: the server could have done more. `shared`: together they used up the
    processors that they share. `latency`: neither was busy; the round trip and the few requests in flight decided.
    `rate`: neither was busy in an open loop; the requested rate decided. `resource`: a resource other than processors
    ran out. `invalid`: the trial failed or is discarded, and no resource explains it.
    """

    SERVER = "server"
    GENERATOR = "generator"
    BOTH = "both"
    SHARED = "shared"
    LATENCY = "latency"
    RATE = "rate"
    RESOURCE = "resource"
    INVALID = "invalid"

    @property
    def is_ranked(self) -> bool:
        """Whether the throughput is the server's, or that of server and generator on the processors they share."""
        return self in (Bottleneck.SERVER, Bottleneck.BOTH, Bottleneck.SHARED)


class Finding(NamedTuple):
    """What limited one trial: its kind, the figures in words, and the name of the resource if it was one."""

    kind: Bottleneck
    words: str
    resource: str = ""


class Limit(Frozen):
    """What limited a cell. `reason` has the figures that prove it, `resource` the name of the resource that ran out."""

    kind: Bottleneck
    reason: str
    resource: str = ""

    @property
    def label(self) -> str:
        """The kind as an adjective: `latency-bound`, `resource-bound (backlog)`."""
        if self.kind is Bottleneck.INVALID:
            return "invalid"
        return f"{self.kind}-bound ({self.resource})" if self.resource else f"{self.kind}-bound"

    def bound(self, metric: Metric) -> Bound:
        """Whether a figure is exact or a bound under this limit. If neither side is busy, latencies are exact."""
        row = METRICS[metric]
        if self.kind.is_ranked or (row.is_time and self.kind in (Bottleneck.LATENCY, Bottleneck.RATE)):
            return "exact"
        return row.limited


def bound_of(limits: Mapping[str, Limit], contestant: str, metric: Metric) -> Bound:
    """Whether a contestant's figure is exact or a bound; exact if its limit is unknown."""
    limit = limits.get(contestant)
    return "exact" if limit is None else limit.bound(metric)


def bottleneck(cell: Cell, result: Result) -> Bottleneck:
    """What limited a trial."""
    return finding(cell, result).kind


def finding(cell: Cell, result: Result) -> Finding:
    """What limited a trial, with its figures, by the first rule that applies."""
    return next(found for rule in _RULES if (found := rule(cell, result)) is not None)


def generator_share(cell: Cell, report: Report) -> float:
    """The generator's processor time as a share of what its threads could use; it may slightly exceed 1.

    `wall_ns` counts the window once for each thread; with fewer processors than threads, only those count.
    """
    wall_ns = report.generator.wall_ns
    if cell.load.cpus:
        wall_ns = wall_ns * min(report.threads, len(cell.load.cpus)) // report.threads
    return report.generator.cpu_ns / wall_ns if wall_ns else 0.0


def server_share(cell: Cell, result: Result) -> float | None:
    """The server's processor time as a share of its processors (its workers if it is not pinned); None if unknown.

    If one thread has a larger share of a processor, that share counts, because other threads cannot do its work. A
    polling thread of the kernel is always busy, so its time does not count.
    """
    used = result.server
    if used is None or (used.polling_ns is None and _asks_for_polling(cell)):
        return None
    cores = min(len(cell.server.cpus) or cell.server.workers_in_all, cell.server.cpu_quota or math.inf)
    return max(_working_ns(used) / (cores * used.wall_ns), (used.thread_cpu_ns_max or 0) / used.wall_ns)


def _working_ns(used: ServerUsage) -> int:
    """The server's processor time without the kernel threads that poll for it."""
    return used.cpu_ns - (used.polling_ns or 0)


def _asks_for_polling(cell: Cell) -> bool:
    """Whether a model of the engine uses a polling kernel thread."""
    return cell.contestant.options.get("submit") == "sqpoll"


def _shared_share(cell: Cell, result: Result, report: Report) -> float:
    """The processor time of server and generator together, as a share of the processors they share."""
    generator, server = report.generator, result.server
    cores = generator.cpu_ns * report.threads / generator.wall_ns if generator.wall_ns else 0.0
    cores += 0.0 if server is None else _working_ns(server) / server.wall_ns
    return cores / (len({*cell.server.cpus, *cell.load.cpus}) or 1)


def _unusable(cell: Cell, result: Result) -> Finding | None:
    """A trial that failed or is discarded: limited by a resource that ran out, or invalid."""
    failure, words = result.failure, [each for each in result.warnings if each.discards]
    if failure is None and not words:
        return None
    why = failure.line if failure is not None else f"{words[0].word.replace('_', ' ')}: {words[0].detail}"
    ran_out = _ran_out(cell, result)
    return Finding(Bottleneck.INVALID, why) if ran_out is None else Finding(Bottleneck.RESOURCE, why, ran_out)


def _ran_out(cell: Cell, result: Result) -> RanOut | None:
    """The resource that ran out in a trial that cannot be used; None if none is known.

    A busy machine or a starved generator does not count.
    """
    failure, used, report = result.failure, result.server, result.report
    if failure is not None and failure.how is not None and failure.how.ran_out is not None:
        return failure.how.ran_out
    words = {each.word for each in result.warnings if each.discards}
    if not words & {"errors", "connections_missing", "connections_waiting"} or used is None:
        return None
    first = "" if report is None else report.first_error or ""
    if "Cannot assign requested address" in first:
        return "ports"
    allowed = cell.server.descriptors_max
    if "Too many open files" in first or (
        allowed is not None
        and used.growth is not None
        and max(used.growth.descriptors, default=0) >= allowed - DESCRIPTORS_SPARE
    ):
        return "descriptors"
    connected = words & {"connections_missing", "connections_waiting"} or (report and report.errors_by_phase.connect)
    return "backlog" if connected and _dropped(result) else None


def _dropped(result: Result) -> int:
    """Handshake packets that the server's listeners dropped."""
    used = result.server
    return 0 if used is None else max(used.listen_overflows or 0, used.listen_drops or 0)


def _quota(cell: Cell, result: Result) -> Finding | None:
    """A CPU quota that was used up in at least QUOTA_PERIODS of its periods."""
    throttled = None if result.server is None else result.server.throttled
    quota = cell.server.cpu_quota
    if throttled is None or quota is None or throttled.periods == 0:
        return None
    share = throttled.throttled / throttled.periods
    if share < QUOTA_PERIODS:
        return None
    words = f"the quota of {quota:g} CPU was used up in {percent(share)} of its periods"
    return Finding(Bottleneck.RESOURCE, words, "quota")


def _backlog(cell: Cell, result: Result) -> Finding | None:
    """Connections that waited for the retry of a handshake packet while the server was idle."""
    report, dropped = result.report, _dropped(result)
    if report is None or not dropped or (server_share(cell, result) or 0.0) >= SERVER_BUSY:
        return None
    warmup_s = cell.trial.warmup_ms / 1e3 if cell.makes_window else 0.0
    connected_s = report.connections * (warmup_s + (report.end_ns - report.begin_ns) / 1e9)
    share = min(1.0, dropped * HANDSHAKE_RETRY_S / connected_s)
    if share < RETRIES_SHARE:
        return None
    words = f"listeners dropped {dropped} handshake packets; retries took {percent(share)} of all connections' time"
    return Finding(Bottleneck.RESOURCE, words, "backlog")


def _path(cell: Cell, result: Result) -> Finding | None:
    """A path at its configured rate, or one that used up the processor it shares with the generator."""
    carried, report = result.path, result.report
    if cell.path is None or carried is None or report is None or not carried.wall_ns:
        return None
    rate = cell.path.rate_bits_per_s
    bits_per_s = max(each.bytes for each in (carried.to_server, carried.to_load)) * 8e9 / carried.wall_ns
    if rate is not None and bits_per_s >= PATH_FULL * rate:
        words = f"the path carried {percent(bits_per_s / rate)} of its rate"
        return Finding(Bottleneck.RESOURCE, words, "path")
    generator = generator_share(cell, report)
    busy = carried.cpu_ns / carried.wall_ns + generator
    if carried.cpu_ns and busy >= SERVER_BUSY and generator <= GENERATOR_BUSY:
        words = f"the path and the generator used {percent(busy)} of their processor"
        return Finding(Bottleneck.RESOURCE, words, "path")
    return None


def _processors(cell: Cell, result: Result) -> Finding | None:
    """The limit by the processor time of both sides, or of the generator alone if the server's is unknown.

    On shared processors each side gets what the other leaves, so their sum counts.
    """
    report = result.report
    assert report is not None, "a trial that did not fail has a report"
    neither = Bottleneck.LATENCY if cell.load.rate is None else Bottleneck.RATE
    if cell.trial.processors == "shared":
        share = _shared_share(cell, result, report)
        words = f"server and generator used {percent(share)} of the processor that they share{_polling_words(result)}"
        return Finding(Bottleneck.SHARED if share >= SERVER_BUSY else neither, words)
    generator, server = generator_share(cell, report), server_share(cell, result)
    beside = "unknown" if server is None else f"{percent(server)} busy"
    words = f"server {beside}{_polling_words(result)}, generator {percent(generator)} busy"
    server_busy = server is not None and server >= SERVER_BUSY
    if generator > GENERATOR_BUSY:
        return Finding(Bottleneck.BOTH if server_busy else Bottleneck.GENERATOR, words)
    return Finding(Bottleneck.SERVER if server_busy else neither, words)


def _polling_words(result: Result) -> str:
    """Words on a polling kernel thread, which does not count as the server; empty if there is none."""
    used = result.server
    if used is None or not used.polling_ns:
        return ""
    return f" beside a polling thread of the kernel ({percent(used.polling_ns / used.wall_ns)})"


# In this order, because a resource that ran out explains idle processors. The last rule always applies.
_RULES: tuple[Callable[[Cell, Result], Finding | None], ...] = (_unusable, _quota, _backlog, _path, _processors)


def limits_of(
    plan: Plan, index: int, used: Mapping[int, Row], results: Sequence[Result], counts: Mapping[int, CostCount]
) -> dict[str, Limit]:
    """What limited each measured contestant of a comparison, by title.

    `used` are the blocks that count, `results` all trials of the comparison, and `counts` the figures measured besides
    the timed trials, by slot. The trials that count decide; if there is none, all loaded trials do.
    """
    comparison = plan.comparisons[index]
    found = {}
    for slot, title in enumerate(comparison.titles):
        mine = [row[slot] for row in used.values()]
        good = [each for each in mine if each is not None and each.report is not None]
        tried = [each for each in results if each.trial.slot == slot and _was_loaded(each)]
        if good or tried:
            probe = counts[slot].limit if slot in counts else None
            found[title] = _limit(comparison.cells[slot], good or tried, probe)
    return found


def _was_loaded(result: Result) -> bool:
    """Whether our generator loaded the server, or tried to."""
    left_out = result.failure is not None and result.failure.left_out
    return not left_out and (result.report is not None or result.failure is not None)


def _limit(cell: Cell, results: Sequence[Result], probe: LimitProbe | None) -> Limit:
    kind, typical = _most(cell, results)
    limit = Limit(kind=kind, reason=typical.words, resource=typical.resource)
    if kind is Bottleneck.GENERATOR and probe is not None:
        limit = _under_the_ceiling(limit, _rate(results), probe)
    if limit.kind is Bottleneck.LATENCY:
        limit = limit.model_copy(update={"reason": f"{limit.reason}; {_littles_words(cell, results)}"})
        return limit if probe is None else _doubled(limit, probe)
    return limit


def _most(cell: Cell, results: Sequence[Result]) -> tuple[Bottleneck, Finding]:
    """The most frequent kind, with the figures of one trial. If the server limited half, it limited the median."""
    found = [finding(cell, each) for each in sorted(results, key=_rate_of)]
    ranked = [each for each in found if each.kind.is_ranked]
    kinds = Counter(each.kind for each in (ranked if len(ranked) * 2 >= len(found) else found))
    if len(ranked) * 2 < len(found):
        kinds = Counter({kind: count for kind, count in kinds.items() if not kind.is_ranked})
    ((kind, _),) = kinds.most_common(1)
    of_kind = [each for each in found if each.kind is kind]
    return kind, of_kind[len(of_kind) // 2]


def _rate_of(result: Result) -> float:
    return 0.0 if result.report is None else result.report.rate_per_s


def _rate(results: Iterable[Result]) -> float:
    return median(map(_rate_of, results))


def _littles_words(cell: Cell, results: Sequence[Result]) -> str:
    """The rate that Little's law gives for the requests in flight, at their latency."""
    mean_us = median(each.report.latency_ns.mean for each in results if each.report is not None) / 1e3
    flying = in_flight(cell)
    return f"{flying} request{'' if flying == 1 else 's'} in flight at {mean_us:,.0f} µs each (Little's law)"


def in_flight(cell: Cell) -> int:
    """The largest number of requests in flight in a closed loop."""
    return (cell.load.active or cell.load.connections) * cell.load.pipeline


def _under_the_ceiling(limit: Limit, rate_per_s: float, probe: LimitProbe) -> Limit:
    """If a busy generator reached far more under the same load, the round trip was the limit."""
    ceiling = probe.ceiling_per_s
    if ceiling is None:
        return limit
    reached = f"under the same load the generator reaches {ceiling:,.0f}/s"
    if rate_per_s < CEILING_SHARE * ceiling:
        return Limit(kind=Bottleneck.LATENCY, reason=f"{limit.reason}, but {reached}")
    return limit.model_copy(update={"reason": f"{limit.reason}; {reached} at most"})


def _doubled(limit: Limit, probe: LimitProbe) -> Limit:
    """If twice as many requests in flight do not raise the rate, the server is the limit, or a busy generator is."""
    if probe.gain is None:
        return limit
    served = f"twice as many in flight are served at {probe.gain:.2f}x the rate"
    if probe.gain >= GAIN_MIN:
        return limit.model_copy(update={"reason": f"{limit.reason}; {served}"})
    kind = Bottleneck.SERVER
    if (probe.generator_share or 0.0) > GENERATOR_BUSY and (probe.server_share or 0.0) < SERVER_BUSY:
        kind = Bottleneck.GENERATOR
    return Limit(kind=kind, reason=f"{limit.reason}; {served}, so the {kind} is the limit")


def is_closed_loop(cell: Cell) -> bool:
    """Whether our generator runs a closed loop for a time: no given rate, no given number of requests."""
    return cell.makes_window and cell.load.rate is None


def is_open_question(cell: Cell, kind: Bottleneck | None) -> bool:
    """Whether trials with twice as many requests in flight would tell more about a cell.

    One request in flight is latency-bound by construction.
    """
    return kind is Bottleneck.LATENCY and is_closed_loop(cell) and in_flight(cell) > 1


def load_shape(cell: Cell) -> str:
    """A digest of everything that decides how fast the generator can be; equal for cells under the same load."""
    load = cell.model_dump(mode="json", include={"workload", "load", "path"})
    return digest_of(load | {"server": cell.server.cpus, "processors": cell.trial.processors})


def reached_per_s(plan: Plan, results: Iterable[Result]) -> dict[str, float]:
    """The highest median rate of a run under each load, by `load_shape`: what the generator is known to reach."""
    rates: dict[tuple[int, int], list[float]] = {}
    for each in results:
        if each.report is not None and each.failure is None and not each.discarded and plan.holds(each.trial):
            rates.setdefault((each.trial.comparison, each.trial.slot), []).append(each.report.rate_per_s)
    reached: dict[str, float] = {}
    for (at, slot), found in rates.items():
        shape = load_shape(plan.comparisons[at].cells[slot])
        reached[shape] = max(reached.get(shape, 0.0), median(found))
    return reached
