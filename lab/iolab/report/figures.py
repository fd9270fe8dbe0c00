"""The plain figures of a run's page: rows of numbers and words, before any drawing or markup."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from iolab import metrics
from iolab.contract.histogram import decoded
from iolab.contract.literals import WorkerKind
from iolab.contract.types import EchoWorkload, HttpWorkload, LineWorkload, Workload
from iolab.judge import blocks, bottleneck, stats
from iolab.judge.costs import Cost
from iolab.judge.rankings import Ranked
from iolab.judge.verdict import ComparisonVerdict
from iolab.metrics import COMPARED, Metric, quantile_ns, value_of
from iolab.plan.contestant import client_title
from iolab.plan.plan import Comparison, Place, Plan
from iolab.plan.settings import Cell, Load, Path
from iolab.report.charts import QuantileCurve
from iolab.results.records import Result, ServerUsage
from iolab.wording import Bound, number, words_of

# The next quantile needs a hundred thousand requests in each trial.
QUANTILES = tuple(name for name, quantile in metrics.QUANTILES.items() if quantile <= 0.999)
# The quantiles of a curve: twelve from 90 % to 99 %, and as many between any two nines.
CURVE = tuple(round(1 - 10 ** (-step / 12), 7) for step in range(2, 37))
# The topology of a large machine is long, so the page leaves it out.
MACHINE_ROWS_MAX = 120
MACHINE_HIDDEN = ("cpu.topology", "schema")

Done = Mapping[Place, Result]
# The trials of a comparison that count, by slot.
Counted = Mapping[int, Sequence[Result]]


class Figure(NamedTuple):
    """A median over the trials that count, with its exact order-statistic interval if there are enough."""

    median: float
    low: float | None
    high: float | None


class ContestantRow(NamedTuple):
    """The figures of one contestant, each the median over its trials that count.

    Quantiles are in nanoseconds; a quantile is missing if a trial is too short for it. Sizes are in bytes. `cores` is
    processor time over wall time. `switches` are context switches per request. `latency_bound` is "at most" if the
    generator was the limit. `serving` says how many of several processes serve.
    """

    slot: int
    title: str
    trials: int
    quantiles: dict[str, Figure]
    rss_bytes: Figure | None
    pss_bytes: Figure | None
    cores: Figure | None
    switches: Figure | None
    switches_values: tuple[float, ...]
    cost: Cost | None
    limits: str
    latency_bound: Bound
    serving: str


class RankRow(NamedTuple):
    """One contestant of a ranking: its places by requests (by p99 at a given rate) and by CPU, or why it has none."""

    title: str
    first: Ranked | None
    cpu: Ranked | None
    absent: str


class TrialRow(NamedTuple):
    """One trial as recorded. `state` is counted, not counted, discarded or failed; `reasons` say why.

    `limited` says that the generator was the limit of this trial.
    """

    block: int
    attempt: int
    comparison: str
    contestant: str
    started: str
    state: str
    reasons: tuple[str, ...]
    values: dict[Metric, float | None]
    server_share: float | None
    generator_share: float | None
    limited: bool


def counted(plan: Plan, index: int, done: Done) -> Counted:
    """The trials behind the verdict on one comparison, by slot, in the order of their blocks."""
    rows = blocks.used_blocks(plan, index, done)[0].values()
    slots = range(len(plan.comparisons[index].cells))
    return {slot: [row[slot] for row in rows if row[slot] is not None] for slot in slots}  # type: ignore[misc]


def contestant_rows(found: ComparisonVerdict, used: Counted) -> list[ContestantRow]:
    """A row for each contestant with a trial that counts; the best first if they are ranked."""
    costs = {cost.contestant: cost for cost in found.costs}
    rows = [
        _contestant_row(found, slot, results, costs.get(title))
        for slot, results in used.items()
        if results
        for title in [found.titles[slot]]
    ]
    places = {row.title: place for place, row in enumerate(rank_rows(found))}
    return sorted(rows, key=lambda row: places.get(row.title, 0))


def rank_rows(found: ComparisonVerdict) -> tuple[RankRow, ...]:
    """The contestants of a ranking, the best first, then those without a place."""
    if not found.rankings:
        return ()
    places = {ranking.metric: {row.contestant: row for row in ranking.rows} for ranking in found.rankings}
    first, cpu = places[found.rankings[0].metric], places.get("cpu_per_request", {})
    ranked = [RankRow(title, first[title], cpu.get(title), "") for title in first]
    return (*ranked, *(RankRow(title, None, None, why) for title, why in found.rankings[0].absent.items()))


def _contestant_row(found: ComparisonVerdict, slot: int, results: Sequence[Result], cost: Cost | None) -> ContestantRow:
    title = found.titles[slot]
    median = found.level("latency_p50", title)
    quantiles = {}
    for name in QUANTILES:
        reports = [result.report for result in results if result.report is not None]
        values = [value for report in reports if (value := quantile_ns(report, name)) is not None]
        # If one trial is too short for a quantile, the contestant has none: the median would mix lengths.
        if len(values) == len(results):
            quantiles[name] = _figure(values)
    servers = [(result.report, result.server) for result in results if result.server is not None]
    switches = tuple(
        (server.context_switches_voluntary + server.context_switches_involuntary) / report.requests.correct
        for report, server in servers
        if report is not None
        and report.requests.correct
        and server.context_switches_voluntary is not None
        and server.context_switches_involuntary is not None
    )
    sizes = [server.pss_bytes for _, server in servers if server.pss_bytes is not None]
    return ContestantRow(
        slot=slot,
        title=title,
        trials=len(results),
        quantiles=quantiles,
        rss_bytes=_figure_of([server.rss_bytes_median for _, server in servers]),
        pss_bytes=_figure_of(sizes),
        cores=_figure_of([server.cpu_ns / server.wall_ns for _, server in servers]),
        switches=_figure_of(switches),
        switches_values=switches,
        cost=cost,
        limits=", ".join(f"{limit} {count}" for limit, count in sorted(found.bottlenecks.get(title, {}).items())),
        latency_bound="exact" if median is None else median.bound,
        serving=_serving([server for _, server in servers]),
    )


def _serving(servers: Sequence[ServerUsage]) -> str:
    """How many of a server's processes serve, in most of its trials; empty for a single process."""
    counts = Counter((each.processes_serving, each.processes) for each in servers if each.processes > 1)
    if not counts:
        return ""
    (serving, processes), _ = counts.most_common(1)[0]
    return "" if serving is None else f"{serving} of {processes} processes served"


def quantile_curve(slot: int, results: Sequence[Result]) -> QuantileCurve | None:
    """The medians over trials of the latency at many quantiles; None if a trial has no histogram.

    It ends where the shortest trial has too few requests.
    """
    reports = [result.report for result in results if result.report is not None]
    histograms = [decoded(report.latency_ns.histogram) for report in reports]
    known = [histogram for histogram in histograms if histogram is not None and histogram.total]
    if not known or len(known) < len(results):
        return None
    fewest = min(histogram.total for histogram in known)
    quantiles = [each for each in CURVE if metrics.quantile_supported(fewest, each)]
    values = [float(np.median([histogram.at(each) or 0 for histogram in known])) / 1e3 for each in quantiles]
    return QuantileCurve(slot, tuple(quantiles), tuple(values)) if values and min(values) > 0 else None


def _figure(values: Sequence[float]) -> Figure:
    return Figure(*stats.median_interval(values))


def _figure_of(values: Sequence[float]) -> Figure | None:
    return _figure(values) if values else None


def scaled(figure: Figure, unit: float) -> Figure:
    """The figure in a larger unit."""
    low, high = (None if end is None else end / unit for end in (figure.low, figure.high))
    return Figure(figure.median / unit, low, high)


def trial_rows(plan: Plan, used: Sequence[Counted], results: Sequence[Result]) -> list[TrialRow]:
    """Every trial in the order it was run, discarded and failed ones with their reasons."""
    places = {result.trial.place for of_slots in used for results in of_slots.values() for result in results}
    return [_trial_row(plan, result, result.trial.place in places) for result in results if plan.holds(result.trial)]


def _trial_row(plan: Plan, result: Result, used: bool) -> TrialRow:
    comparison, cell = plan.comparisons[result.trial.comparison], plan.cell(result.trial)
    reasons = [f"{words_of(warning.word)}: {warning.detail}" for warning in result.warnings]
    if result.failure is not None:
        state = "failed"
        reasons.insert(0, f"{words_of(result.failure.kind)}: {result.failure.line}")
    elif result.discarded:
        state = "discarded"
    elif used:
        state = "counted"
    else:
        state = "not counted"
        others = (
            "most of its block was discarded" if comparison.many else "another trial of its block was discarded, failed"
        )
        reasons.insert(0, f"{others} or is still to be run")
    report = result.report
    return TrialRow(
        block=result.trial.block + 1,
        attempt=result.trial.attempt + 1,
        comparison=comparison.name,
        contestant=comparison.titles[result.trial.slot],
        started=result.started,
        state=state,
        reasons=tuple(reasons),
        values={metric: value_of(result, metric) for metric in COMPARED},
        server_share=bottleneck.server_share(cell, result),
        generator_share=None if report is None else bottleneck.generator_share(cell, report),
        limited=report is not None and bottleneck.bottleneck(cell, result) is bottleneck.Bottleneck.GENERATOR,
    )


def limits(plan: Plan) -> list[str]:
    """What the figures of this run cannot show."""
    cells = [cell for comparison in plan.comparisons for cell in comparison.cells]
    said = [f"What was skipped, {skip.words}: {skip.reason}." for skip in plan.skipped]
    if any(cell.load.rate is None for cell in cells):
        said.append("How long users wait during a stall: the load is a closed loop, so latency is service time.")
    if any(cell.path is None for cell in cells):
        said.append("A network: server and generator ran on one machine over loopback.")
    if any(cell.path is not None for cell in cells):
        said.append("A real network: the path emulates delay, rate and loss on one machine, with one kernel.")
    if any(not cell.server.cpus or not cell.load.cpus for cell in cells):
        said.append(
            "Server or generator alone: they were not bound to separate processors, so each may slow the other."
        )
    if any(cell.load.client is not None for cell in cells):
        said.append("Whether replies to an external client were right: iolab has not verified them.")
    if any(cell.trial.processors == "shared" for cell in cells):
        said.append("Latencies, or server or generator alone: they shared a processor, as requested.")
    return said


def workload_words(comparison: Comparison, reply_bytes: Mapping[str, float]) -> str:
    """The requests to every contestant of a comparison, in words, and the length of the replies."""
    cell = comparison.cells[0]
    what = _asked(cell.workload)
    if isinstance(cell.workload, HttpWorkload):
        what += _replies(comparison, cell.workload, reply_bytes)
    sockets = "" if cell.server.sockets == 1 else f" on {cell.server.sockets} sockets"
    instances = "" if cell.server.instances == 1 else f" in each of {cell.server.instances} servers, measured as one"
    bound = f"server on CPU {_cpus(cell.server.cpus)}, generator on CPU {_cpus(cell.load.cpus)}"
    return (
        f"{what}; {cell.load.connections} connection{'' if cell.load.connections == 1 else 's'}{_pattern(cell.load)}; "
        f"{cell.server.workers} {_WORKERS[cell.server.worker_kind][cell.server.workers > 1]}{sockets}{instances}; "
        f"{_generator(cell.load)}; "
        f"{_length(cell)}; {'' if cell.path is None else f'{_path(cell.path)}; '}{bound}"
    )


def _generator(load: Load) -> str:
    """The source of the load."""
    if load.connections == 0:
        return "no load: memory is read while the server rests"
    if load.client is not None:
        return f"load by {client_title(load.client)}, an external client: replies not verified by iolab"
    return f"{load.driver} generator with {load.threads} thread{'' if load.threads == 1 else 's'}"


def _pattern(load: Load) -> str:
    """Special features of the load, in words; empty for a plain closed loop over all connections."""
    parts = {
        f", {load.active} active": load.active,
        f", {load.idle} idle": load.idle,
        f", {load.pipeline} requests in flight on each": load.pipeline > 1,
        f", closed after {load.requests_per_connection} requests": load.requests_per_connection,
        f", {load.rate_per_s or 0:,.0f} requests per second": load.rate_per_s,
        f", at {load.rate}": isinstance(load.rate, str),
    }
    return "".join(words for words, is_so in parts.items() if is_so)


def _length(cell: Cell) -> str:
    """The end of a trial, in words."""
    if cell.load.connections == 0:
        return f"{cell.trial.duration_ms / 1000:g} s"
    if cell.load.client is not None:
        return "until the client ends"
    if cell.load.requests is not None:
        return f"{cell.load.requests:,} requests without a warm-up"
    return f"{cell.trial.duration_ms / 1000:g} s after {cell.trial.warmup_ms / 1000:g} s of warm-up"


def _path(path: Path) -> str:
    """The network between the two."""
    words = [f"{path.delay_ms:g} ms each way" if path.delay_ms else "no delay", f"MTU {path.mtu}"]
    words += [f"{path.rate_bits_per_s / 1e6:g} Mbit/s"] if path.rate_bits_per_s else []
    words += [f"{number(path.loss * 100, 6, least=0)} % lost"] if path.loss else []
    return f"over a path with {', '.join(words)}"


def _replies(comparison: Comparison, workload: HttpWorkload, seen: Mapping[str, float]) -> str:
    """The size of HTTP replies. For commands, only the measured size is known."""
    if all(each.contestant.kind == "named" for each in comparison.cells):
        return f", replies with a body of {workload.reply_bytes} byte{'' if workload.reply_bytes == 1 else 's'}"
    if not seen:
        return ""
    sizes = {title: f"{size:,.0f} bytes" for title, size in seen.items()}
    if len(set(sizes.values())) == 1:
        return f", replies of {next(iter(sizes.values()))} with headers"
    return f", replies with headers of {', '.join(f'{size} from {title}' for title, size in sizes.items())}"


# The noun for a worker of each kind: singular and plural.
_WORKERS: dict[WorkerKind, tuple[str, str]] = {
    "thread": ("worker", "workers"),
    "process": ("worker process", "worker processes"),
}


def _asked(workload: Workload) -> str:
    if isinstance(workload, HttpWorkload):
        turns = "" if workload.keep_alive else ", a connection for each request"
        return f"http{turns}"
    if isinstance(workload, EchoWorkload):
        return f"echo, {workload.framing} framing, messages of {workload.message_bytes} bytes"
    if isinstance(workload, LineWorkload):
        return f"line, lines of {workload.message_bytes} bytes"
    return (
        f"rpc, {workload.target} steps and {workload.work_ns} ns of work a call, texts of {workload.text_bytes} bytes"
    )


def _cpus(cpus: Sequence[int]) -> str:
    return ",".join(map(str, cpus)) if cpus else "any"


def machine_rows(machine: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The record of the machine, one line for each fact, without long lists."""
    rows = [(name, value) for name, value in _flat("", machine) if not name.startswith(MACHINE_HIDDEN)]
    return rows[:MACHINE_ROWS_MAX]


def _flat(name: str, value: object) -> Iterator[tuple[str, str]]:
    """Nested names joined by dots. A list is one line, as is each mapping in a list."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(f"{name}.{key}" if name else str(key), inner)
    elif isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value):
        for number, inner in enumerate(value):
            items = inner.items() if isinstance(inner, Mapping) else ()
            yield f"{name}.{number}", ", ".join(f"{key} {_text(item)}" for key, item in items) or _text(inner)
    else:
        yield name, _text(value)


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return "unknown" if value is None else str(value)
