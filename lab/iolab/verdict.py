"""From the results of a comparison to what may be said of it: levels, ratios, one word each, and one sentence.

Only whole blocks count: the first attempt at a block in which no trial is void. Where the generator was the limit, a
server's throughput is known only as "at least this"; a ratio then has a `bound`, latencies are the generator's own
queue, and only CPU per request stays safe. Pure: results in, verdict out, the same for the same input.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import numpy as np

from iolab import stats, trial
from iolab.contract import Frozen, percent
from iolab.plan import RETRIES_MAX, Comparison, Doubt, Metric, Place, Plan, Result, Setting, blocks_min, given_up

METRICS: tuple[Metric, ...] = ("throughput", "cpu_per_request", "latency_p50", "latency_p99", "rss")
# More void blocks than this and the machine, not the server, decided what was kept.
VOID_SHARE_MAX = 0.20
# Replies that differ by more than this are unequal work: a header more or less, not a digit of a counter.
REPLY_SHARE_MAX = 0.005

# Beyond so many more blocks the number itself says nothing: another machine or another hour would help.
MORE_BLOCKS_MAX = 200

Bound = Literal["exact", "at least", "at most", "unknown"]


class Level(Frozen):
    """One contestant alone: its median over blocks with the exact order-statistic interval.

    Units: throughput in requests per second, cpu_per_request and latencies in nanoseconds, rss in bytes. `values` are
    in the order of the blocks used. `bound` is "at least" where the generator was the limit.
    """

    metric: Metric
    contestant: str
    median: float
    low: float | None
    high: float | None
    bound: Bound
    values: tuple[float, ...]


class Estimate(Frozen):
    """`metric` of `contestant` / `reference`, paired over `blocks` blocks.

    `p_holm` is adjusted over the contestants of the comparison. `bootstrap_low` and `bootstrap_high` are the
    cross-check (None where it is degenerate), and `bootstrap_agrees` says whether it leaves out 1 just as the interval
    does.
    `effect_min` is the smallest relative effect these blocks would have found. `blocks_more` is given when undecided.
    `bound` says what a limit elsewhere leaves of the ratio: "at least" it, "at most" it, or "unknown".
    """

    metric: Metric
    contestant: str
    reference: str
    ratio: float
    low: float
    high: float
    p_value: float
    p_holm: float
    word: stats.Word
    bound: Bound
    blocks: int
    blocks_more: int | None
    effect_min: float
    bootstrap_low: float | None
    bootstrap_high: float | None
    bootstrap_agrees: bool
    x: tuple[float, ...]


class DoubtCount(Frozen):
    """A doubt, in how many trials it was raised, and the figures of its first appearance."""

    doubt: Doubt
    contestant: str
    trials: int


class FailureCount(Frozen):
    """A failure of one contestant, and in how many trials."""

    contestant: str
    kind: str
    message: str
    trials: int


class ComparisonVerdict(Frozen):
    """All that may be said of one comparison.

    `titles` are the contestants, the reference first. `bottlenecks` counts for each of them what limited its trials:
    server, generator, both or latency. `inconclusive` is a sentence when the words must not be read.
    """

    name: str
    setting: Setting
    titles: tuple[str, ...]
    sentence: str
    inconclusive: str | None
    levels: tuple[Level, ...]
    estimates: tuple[Estimate, ...]
    bottlenecks: dict[str, dict[str, int]]
    blocks_planned: int
    blocks_used: int
    blocks_void: int
    doubts: tuple[DoubtCount, ...]
    failures: tuple[FailureCount, ...]

    def estimate(self, metric: Metric, contestant: str) -> Estimate | None:
        """The ratio of one contestant to the reference; None where there is none."""
        return next((e for e in self.estimates if e.metric == metric and e.contestant == contestant), None)

    def level(self, metric: Metric, contestant: str) -> Level | None:
        """The level of one contestant; None where nothing was measured."""
        return next((le for le in self.levels if le.metric == metric and le.contestant == contestant), None)


def judge(plan: Plan, results: Iterable[Result]) -> tuple[ComparisonVerdict, ...]:
    """A verdict for every comparison of the plan, in its order, from whatever results there are so far."""
    done = {result.trial.place: result for result in results if plan.holds(result.trial)}
    return tuple(_judge_comparison(plan, index, done) for index in range(len(plan.comparisons)))


def value_of(result: Result | None, metric: Metric) -> float | None:
    """One trial's value of a metric; None where it was not measured or its quantile is not supported."""
    if result is None or result.report is None:
        return None
    report, server = result.report, result.server
    if report.requests.correct == 0 or report.end_ns <= report.begin_ns:
        return None
    per_ns = report.requests.correct / (report.end_ns - report.begin_ns)
    if metric == "throughput":
        return per_ns * 1e9
    if metric == "latency_p50":
        return float(report.latency_ns.p50)
    if metric == "latency_p99":
        return float(report.latency_ns.p99) if trial.quantile_supported(report.requests.correct, 0.99) else None
    if server is None:
        return None
    return server.cpu_ns / server.wall_ns / per_ns if metric == "cpu_per_request" else float(server.rss_bytes_median)


def values_by_block(
    plan: Plan, comparison: int, done: Mapping[Place, Result], metric: Metric, slot: int
) -> dict[int, float]:
    """One contestant's values of a metric by block, for the blocks used in which it is above zero."""
    rows = used_blocks(plan, comparison, done)[0].items()
    return {block: value for block, row in rows if (value := value_of(row[slot], metric)) is not None and value > 0}


def log_ratios(above: Mapping[int, float], below: Mapping[int, float]) -> dict[int, float]:
    """x = ln(above / below) by block, for the blocks that have both."""
    return {block: math.log(above[block] / below[block]) for block in sorted(above.keys() & below.keys())}


Row = list[Result | None]


def used_blocks(plan: Plan, comparison: int, done: Mapping[Place, Result]) -> tuple[dict[int, Row], int, int]:
    """The blocks that count, by number; how many blocks were run to their end; and how many of those were void."""
    slots = range(len(plan.comparisons[comparison].cells))
    gone = {slot for index, slot in given_up(done) if index == comparison}
    used: dict[int, Row] = {}
    complete = void = 0
    for block in range(plan.blocks):
        for attempt in range(RETRIES_MAX + 1):
            row: Row = [done.get(Place(comparison, block, attempt, s)) if s not in gone else None for s in slots]
            running = [result for slot, result in enumerate(row) if slot not in gone]
            if not running or any(result is None for result in running):
                break
            # Until its second attempt is there, and where none is left to it, an unsettled block is void.
            again = any(Place(comparison, block, 1, slot) in done for slot in slots)
            if attempt == 0 and again and _only_unsettled(running):
                continue
            complete += 1
            if not any(result.void for result in running if result is not None):
                used[block] = row
                break
            void += 1
    return used, complete, void


def _only_unsettled(row: Iterable[Result | None]) -> bool:
    """Whether a block is void only because its warm-up was too short: its second attempt, which warms up twice as
    long, is then the first that counts, and the machine is not to blame."""
    results = [result for result in row if result is not None]
    words = {doubt.word for result in results for doubt in result.doubts if doubt.voids}
    return words == {"never_steady"} and all(result.failure is None for result in results)


def _judge_comparison(plan: Plan, index: int, done: Mapping[Place, Result]) -> ComparisonVerdict:
    comparison = plan.comparisons[index]
    used, complete, void = used_blocks(plan, index, done)
    bottlenecks = _bottlenecks(plan, comparison, used)
    levels = _levels(comparison, used, bottlenecks)
    inconclusive = _inconclusive(comparison, index, done, complete, void)
    estimates = _estimates(plan, index, done, bottlenecks, decided=inconclusive is None)
    mine = [result for place, result in sorted(done.items()) if place.comparison == index]
    doubts = _doubts(comparison, mine) + _unequal_replies(comparison, used)
    failures = _failures(comparison, mine)
    return ComparisonVerdict(
        name=comparison.name,
        setting=comparison.setting,
        titles=comparison.titles,
        sentence=_sentence(comparison, levels, estimates, inconclusive, failures),
        inconclusive=inconclusive,
        levels=levels,
        estimates=estimates,
        bottlenecks=bottlenecks,
        blocks_planned=plan.blocks,
        blocks_used=len(used),
        blocks_void=void,
        doubts=doubts,
        failures=failures,
    )


def _bottlenecks(plan: Plan, comparison: Comparison, used: Mapping[int, Row]) -> dict[str, dict[str, int]]:
    counted: dict[str, dict[str, int]] = {}
    for slot, title in enumerate(comparison.titles):
        kinds = Counter(
            trial.bottleneck(plan.cell(result.trial), result)
            for row in used.values()
            if (result := row[slot]) is not None
        )
        counted[title] = {str(kind): count for kind, count in sorted(kinds.items())}
    return counted


def _generator_bound(counts: Mapping[str, int]) -> bool:
    """Whether the generator limited this contestant in most of its trials, and with them their median."""
    return counts.get("generator", 0) * 2 > sum(counts.values())


def _levels(
    comparison: Comparison, used: Mapping[int, Row], bottlenecks: Mapping[str, Mapping[str, int]]
) -> tuple[Level, ...]:
    levels = []
    for metric in METRICS:
        for slot, title in enumerate(comparison.titles):
            measured = (value_of(row[slot], metric) for row in used.values())
            values = tuple(value for value in measured if value is not None)
            if not values:
                continue
            bound = _level_bound(metric, _generator_bound(bottlenecks[title]))
            median = stats.median_interval(values)
            levels.append(Level(metric=metric, contestant=title, bound=bound, values=values, **median._asdict()))
    return tuple(levels)


def _level_bound(metric: Metric, generator_bound: bool) -> Bound:
    if not generator_bound or metric in ("cpu_per_request", "rss"):
        return "exact"
    return "at least" if metric == "throughput" else "at most"


def _estimates(
    plan: Plan,
    index: int,
    done: Mapping[Place, Result],
    bottlenecks: Mapping[str, Mapping[str, int]],
    *,
    decided: bool,
) -> tuple[Estimate, ...]:
    titles = plan.comparisons[index].titles
    estimates: list[Estimate] = []
    for metric in METRICS:
        found: list[tuple[str, stats.Ratio, tuple[float, ...]]] = []
        reference = values_by_block(plan, index, done, metric, 0)
        for slot, title in enumerate(titles[1:], start=1):
            contestant = values_by_block(plan, index, done, metric, slot)
            x = tuple(log_ratios(contestant, reference).values())
            ratio = stats.ratio_of_pairs(x)
            if ratio is not None:
                found.append((title, ratio, x))
        adjusted = stats.holm([ratio.p_value for _, ratio, _ in found])
        for (title, ratio, x), p_holm in zip(found, adjusted, strict=True):
            bound = _ratio_bound(metric, _generator_bound(bottlenecks[title]), _generator_bound(bottlenecks[titles[0]]))
            estimate = _estimate(metric, title, titles[0], ratio, p_holm, x, bound, seed=plan.seed, rivals=len(found))
            estimates.append(estimate if decided else estimate.model_copy(update={"word": "not decided"}))
    return tuple(estimates)


def _estimate(
    metric: Metric,
    contestant: str,
    reference: str,
    ratio: stats.Ratio,
    p_holm: float,
    x: tuple[float, ...],
    bound: Bound,
    *,
    seed: int,
    rivals: int,
) -> Estimate:
    word = _bounded_word(stats.word(ratio, p_holm), ratio, bound)
    bootstrap = stats.bootstrap_interval(x, seed)
    low = None if bootstrap.low is None else math.exp(bootstrap.low)
    high = None if bootstrap.high is None else math.exp(bootstrap.high)
    leaves_out_one = ratio.low > 1 or ratio.high < 1
    agrees = low is None or high is None or (low > 1 or high < 1) == leaves_out_one
    more = stats.blocks_to_decide(ratio, len(x), rivals) if word == "not decided" and bound == "exact" else None
    return Estimate(
        metric=metric,
        contestant=contestant,
        reference=reference,
        ratio=ratio.ratio,
        low=ratio.low,
        high=ratio.high,
        p_value=ratio.p_value,
        p_holm=p_holm,
        word=word,
        bound=bound,
        blocks=len(x),
        blocks_more=more,
        effect_min=stats.smallest_effect(x),
        bootstrap_low=low,
        bootstrap_high=high,
        bootstrap_agrees=agrees,
        x=x,
    )


def _ratio_bound(metric: Metric, contestant_bound: bool, reference_bound: bool) -> Bound:
    """What is left of a ratio when the generator limited one side. A quotient of two latencies is then nothing."""
    if metric in ("cpu_per_request", "rss") or not (contestant_bound or reference_bound):
        return "exact"
    if metric != "throughput" or (contestant_bound and reference_bound):
        return "unknown"
    return "at least" if contestant_bound else "at most"


def _bounded_word(word: stats.Word, ratio: stats.Ratio, bound: Bound) -> stats.Word:
    """A bound may only take away: "at least 1.1 x" still differs, "at least 0.9 x" or "at least the same" does not."""
    survives = (
        bound == "exact"
        or (bound == "at least" and word == "differs" and ratio.ratio > 1)
        or (bound == "at most" and word == "differs" and ratio.ratio < 1)
    )
    return word if survives else "not decided"


def _inconclusive(
    comparison: Comparison, index: int, done: Mapping[Place, Result], complete: int, void: int
) -> str | None:
    if complete == 0 or void / complete <= VOID_SHARE_MAX:
        return None
    words = Counter(
        doubt.word
        for place, result in done.items()
        if place.comparison == index
        for doubt in result.doubts
        if doubt.voids
    )
    share = f"{void} of {complete} blocks were void"
    if not words:
        return f"inconclusive: {share}, because trials failed"
    word, _ = words.most_common(1)[0]
    if word in ("machine_busy", "generator_starved", "generator_late"):
        return f"inconclusive: the machine was too busy ({share})"
    return f"inconclusive: {share}, most of them for {word.replace('_', ' ')}"


def _doubts(comparison: Comparison, results: Sequence[Result]) -> tuple[DoubtCount, ...]:
    first: dict[tuple[str, str], Doubt] = {}
    counts: Counter[tuple[str, str]] = Counter()
    for result in results:
        for doubt in result.doubts:
            place = (doubt.word, comparison.titles[result.trial.slot])
            first.setdefault(place, doubt)
            counts[place] += 1
    return tuple(DoubtCount(doubt=doubt, contestant=place[1], trials=counts[place]) for place, doubt in first.items())


def _unequal_replies(comparison: Comparison, used: Mapping[int, Row]) -> tuple[DoubtCount, ...]:
    """Contestants whose replies are not as long as the reference's: their work was not equal."""
    sizes: dict[int, float] = {}
    for slot in range(len(comparison.cells)):
        reports = [result.report for row in used.values() if (result := row[slot]) is not None]
        measured = [r.bytes.received / r.requests.correct for r in reports if r is not None and r.requests.correct]
        if measured:
            sizes[slot] = float(np.median(measured))
    doubts = []
    for slot, size in sizes.items():
        if 0 in sizes and abs(size - sizes[0]) > REPLY_SHARE_MAX * sizes[0]:
            detail = f"{size:.0f} bytes a reply, the reference {sizes[0]:.0f}"
            doubt = Doubt(word="unequal_replies", detail=detail)
            doubts.append(DoubtCount(doubt=doubt, contestant=comparison.titles[slot], trials=len(used)))
    return tuple(doubts)


def _failures(comparison: Comparison, results: Sequence[Result]) -> tuple[FailureCount, ...]:
    counts = Counter(
        (comparison.titles[result.trial.slot], result.failure.kind, result.failure.message)
        for result in results
        if result.failure is not None
    )
    return tuple(
        FailureCount(contestant=title, kind=kind, message=message, trials=count)
        for (title, kind, message), count in counts.items()
    )


def _sentence(
    comparison: Comparison,
    levels: Sequence[Level],
    estimates: Sequence[Estimate],
    inconclusive: str | None,
    failures: Sequence[FailureCount],
) -> str:
    """The verdict in words; one clause a contestant when there are several."""
    if inconclusive is not None:
        return f"{inconclusive[0].upper()}{inconclusive[1:]}."
    if len(comparison.cells) == 1:
        return _sentence_alone(comparison.titles[0], levels, failures)
    sentences = []
    for title in comparison.titles[1:]:
        throughput, cpu = (
            next((e for e in estimates if e.metric == metric and e.contestant == title), None)
            for metric in ("throughput", "cpu_per_request")
        )
        failed = next((f for f in failures if f.contestant in (title, comparison.titles[0])), None)
        if throughput is not None:
            sentences.append(_sentence_of(throughput, cpu))
        elif failed is not None:
            sentences.append(f"{failed.contestant} could not be measured: {failed.message.rstrip('.')}.")
        else:
            sentences.append(f"{title} and {comparison.titles[0]}: fewer than {blocks_min(1)} whole blocks so far.")
    return " ".join(sentences)


def _sentence_alone(title: str, levels: Sequence[Level], failures: Sequence[FailureCount]) -> str:
    level = next((level for level in levels if level.metric == "throughput"), None)
    if level is None:
        reason = failures[0].message.rstrip(".") if failures else "no whole block so far"
        return f"{title} could not be measured: {reason}."
    interval = "" if level.low is None else f" [{level.low:,.0f}, {level.high:,.0f}]"
    least = "at least " if level.bound == "at least" else ""
    return f"{title} serves {least}{level.median:,.0f}{interval} requests per second."


def _sentence_of(throughput: Estimate, cpu: Estimate | None) -> str:
    a, b = throughput.contestant, throughput.reference
    if throughput.bound == "unknown":
        head = f"The generator limited both {a} and {b}, so their requests cannot be ranked"
    elif throughput.bound != "exact" and throughput.word == "not decided":
        head = f"{a} and {b} cannot be ranked by requests, because the generator limited one of them"
    elif throughput.word == "differs":
        least = "" if throughput.bound == "exact" else f"{throughput.bound} "
        head = f"{a} serves {least}{_figures(throughput)} the requests of {b}"
    elif throughput.word == "same":
        head = f"{a} serves the same requests as {b}, within {percent(stats.EFFECT)}: {_figures(throughput)}"
    elif throughput.low > 1 or throughput.high < 1:
        head = f"{a} and {b} are not told apart by requests: {_figures(throughput)}{_more(throughput)}"
    else:
        head = f"No difference in requests was found between {a} and {b}: {_figures(throughput)}{_more(throughput)}"
    return f"{head}{_cpu_clause(cpu, a)}."


def _cpu_clause(cpu: Estimate | None, contestant: str) -> str:
    if cpu is None:
        return ""
    if cpu.word == "differs":
        return f"; {contestant} costs {_figures(cpu)} the CPU per request"
    if cpu.word == "same":
        return f"; the CPU per request is the same, within {percent(stats.EFFECT)}"
    if cpu.low <= 1 <= cpu.high:
        return f"; no difference in CPU per request was found: {_figures(cpu)}{_more(cpu)}"
    return f"; the CPU per request is not decided: {_figures(cpu)}{_more(cpu)}"


def _figures(estimate: Estimate) -> str:
    return f"{estimate.ratio:.2f}x [{estimate.low:.2f}, {estimate.high:.2f}]"


def _more(estimate: Estimate) -> str:
    """How many more blocks it would take; where the ratio is next to 1, they would show that it is the same."""
    more = estimate.blocks_more
    if more is None:
        return ""
    if more > MORE_BLOCKS_MAX:
        return f" (it would take more than {MORE_BLOCKS_MAX} more blocks to decide)"
    is_near = 1 / (1 + stats.EFFECT) < estimate.ratio < 1 + stats.EFFECT
    end = f"show it to be the same within {percent(stats.EFFECT)}" if is_near else "decide"
    return f" (about {more} more block{'' if more == 1 else 's'} would {end})"
