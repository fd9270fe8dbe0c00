"""From the results of a comparison to what may be said of it: levels, ratios, one word each, and one sentence.

Only whole blocks count: the first attempt at a block in which no trial is void. Of many contestants each has its first
trial in the block that is not void, and is missing where there is none. Where the generator was the limit, a server's
throughput is known only as "at least this"; a ratio then has a `bound`, latencies are the generator's own queue, and
only CPU per request stays safe. Pure: results in, verdict out, the same for the same input.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence, Set
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from iolab.contract.types import Frozen, percent
from iolab.judge import stats, trial
from iolab.plan.claims import Metric
from iolab.plan.plan import RETRIES_MAX, Comparison, Place, Plan, blocks_min
from iolab.plan.settings import Setting
from iolab.results.records import APART_MAX, CostCount, Doubt, Result
from iolab.results.remaining import given_up
from iolab.wording import BOUND_SIGNS, Bound, Interval, listed

METRICS: tuple[Metric, ...] = ("throughput", "cpu_per_request", "latency_p50", "latency_p99", "rss")
# More void blocks than this and the machine, not the server, decided what was kept.
VOID_SHARE_MAX = 0.20
# Replies that differ by more than this are named: a header more or less, not a digit of a counter.
REPLY_SHARE_MAX = 0.005
# Replies that differ by more than both of these are different work, and no word is said of such a pair. 512 bytes are
# more than the headers of common servers differ by, and to send them costs far less than a request does. Below 2 %
# a difference in size cannot explain a difference that is worth a word.
WORK_BYTES_MAX = 512
WORK_SHARE_MAX = stats.EFFECT
# A sentence names the largest difference in latency or memory from here on. Smaller ones are in the table; a p99 or
# a resident size moves by a tenth with the next compiler or library.
NAMED_MIN = 1.25
# A latency beyond the ratio of requests by no more than this factor is the same difference, seen from the other side.
MIRROR_MAX = 1.05

# Beyond so many more blocks the number itself says nothing: another machine or another hour would help.
MORE_BLOCKS_MAX = 200

# Below so many connections their memory is lost in what else a server allocates while it works.
MEMORY_CONNECTIONS_MIN = 500

# What contestants are ranked by, and whether more of it is better.
RANKED_BY: dict[Metric, bool] = {"throughput": True, "cpu_per_request": False}


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

    @property
    def interval(self) -> Interval:
        """The ratio as it is written."""
        return Interval(self.ratio, self.low, self.high, self.bound)

    @property
    def size(self) -> float:
        """How large the difference is, the same in both directions: 0 is none."""
        return abs(math.log(self.ratio))


class Ranked(Frozen):
    """One contestant's place in a ranking: `ratio` is to the best there is, paired over blocks, with its interval.

    Contestants whose interval against the leader of their group holds 1 share its `rank`; the next rank counts them
    all, as in sport. It is None where the generator was the limit: such a contestant stands at its place in the order
    with its `bound`, and could stand higher.
    """

    contestant: str
    rank: int | None
    ratio: float
    low: float
    high: float
    bound: Bound

    @property
    def interval(self) -> Interval:
        """The ratio as it is written."""
        return Interval(self.ratio, self.low, self.high, self.bound)


class Ranking(Frozen):
    """The contestants of a comparison by one metric, the best first; `absent` says of the others why they are not here.

    Besides those that could not take part or failed, these are the ones of which more than a fifth of the trials were
    void: the machine, not the server, then decided what was kept.
    """

    metric: Metric
    rows: tuple[Ranked, ...]
    absent: dict[str, str]


class Cost(Frozen):
    """What a request and a connection cost one contestant, besides the processor time.

    `calls_per_request` was counted in a trial of its own; None where it was not, and `calls_why_not` then says why,
    if it was tried. `connection_bytes` is what the server's own memory grew by for each connection, from before the
    load to the middle of it; None below 50 connections. `processes` and `threads` are those of most timed trials.
    """

    contestant: str
    calls_per_request: float | None
    calls_why_not: str | None
    connection_bytes: float | None
    processes: int
    threads: int


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

    `titles` are the contestants, the reference first, and `texts` what was typed for them; in a ladder each is compared
    with the one before it. `left_out` says why a contestant could not take part, in a word or a line; `spoilt` says
    why no word is said of one: too many of its trials are void, or its replies are different work. `rankings` are
    there for a comparison of many, once it has blocks enough. `bottlenecks` counts for each contestant what limited
    its trials: server, generator, both or latency. `reply_bytes` is the size of its replies as they were seen, headers
    included. `unequal_work` is a sentence when those sizes are too far apart for any word. In `blocks_uneven` of the
    blocks used the processors were not equally far apart all the time; see `paired`. `inconclusive` is a sentence when
    the words must not be read.
    """

    name: str
    setting: Setting
    titles: tuple[str, ...]
    texts: tuple[str, ...]
    ladder: bool
    sentence: str
    inconclusive: str | None
    levels: tuple[Level, ...]
    estimates: tuple[Estimate, ...]
    rankings: tuple[Ranking, ...]
    costs: tuple[Cost, ...]
    left_out: dict[str, str]
    spoilt: dict[str, str]
    bottlenecks: dict[str, dict[str, int]]
    reply_bytes: dict[str, float]
    unequal_work: str | None
    blocks_planned: int
    blocks_used: int
    blocks_void: int
    blocks_uneven: int
    doubts: tuple[DoubtCount, ...]
    failures: tuple[FailureCount, ...]

    @property
    def uneven(self) -> str:
        """In how many blocks the machine moved its processors, in words; empty where there are none."""
        return f"{self.blocks_uneven} of {self.blocks_used} blocks" if self.blocks_uneven else ""

    def estimate(self, metric: Metric, contestant: str, reference: str | None = None) -> Estimate | None:
        """The ratio of one contestant to `reference`, or to whatever it is compared with; None where there is none."""
        found = (e for e in self.estimates if e.metric == metric and e.contestant == contestant)
        return next((e for e in found if reference in (None, e.reference)), None)

    def largest_difference(self, contestant: str) -> Estimate | None:
        """The largest decided difference of one contestant, in any metric; None where nothing is decided."""
        found = (e for e in self.estimates if e.contestant == contestant and e.word == "differs")
        return max(found, key=lambda each: each.size, default=None)

    def named_difference(self, contestant: str, reference: str) -> Estimate | None:
        """The largest decided difference in latency or memory to `reference`, where a sentence should name it."""
        of = {e.metric: e for e in self.estimates if (e.contestant, e.reference) == (contestant, reference)}
        return _named(of) if "throughput" in of else None

    def level(self, metric: Metric, contestant: str) -> Level | None:
        """The level of one contestant; None where nothing was measured."""
        return next((le for le in self.levels if le.metric == metric and le.contestant == contestant), None)

    def ranking(self, metric: Metric) -> Ranking | None:
        """The ranking by a metric; None where there is none."""
        return next((each for each in self.rankings if each.metric == metric), None)


def judge(plan: Plan, results: Iterable[Result], counts: Iterable[CostCount] = ()) -> tuple[ComparisonVerdict, ...]:
    """A verdict for every comparison of the plan, in its order, from whatever results and counts there are so far."""
    done = {result.trial.place: result for result in results if plan.holds(result.trial)}
    calls = {(count.comparison, count.slot): count for count in counts if count.is_of(plan)}
    return tuple(_judge_comparison(plan, index, done, calls) for index in range(len(plan.comparisons)))


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


class Seen(NamedTuple):
    """A trial's value of a metric, and how far apart its processors were, before and after; None where unknown."""

    value: float
    apart_ns: tuple[float, float] | None


def values_by_block(
    plan: Plan, comparison: int, done: Mapping[Place, Result], metric: Metric, slot: int
) -> dict[int, Seen]:
    """One contestant's values of a metric by block, for the blocks used in which it is above zero."""
    return _by_block(used_blocks(plan, comparison, done)[0], metric, slot)


def paired(*sides: tuple[Mapping[int, Seen], Mapping[int, Seen]]) -> tuple[float, ...]:
    """x = ln(above / below) of every block that has both, the mean over all `sides`.

    Where a host moves the processors of its guests, a message between two of them costs several times as much at one
    moment as at another. So blocks whose trials were not equally far apart are left out; unless too few are left for
    an interval. How far that was does not depend on what is compared, and no value is looked at.
    """
    common = sorted(set.intersection(*(above.keys() & below.keys() for above, below in sides)))
    even = [
        block
        for block in common
        if all(_are_even([above[block].apart_ns, below[block].apart_ns]) for above, below in sides)
    ]
    chosen = even if len(even) >= blocks_min(1) else common
    logs = ([math.log(above[block].value / below[block].value) for above, below in sides] for block in chosen)
    return tuple(float(np.mean(each)) for each in logs)


def _are_even(distances_ns: Iterable[tuple[float, float] | None]) -> bool:
    """Whether trials had their processors equally far apart, all the time and as far as is known."""
    known = [apart_ns for each in distances_ns if each is not None for apart_ns in each]
    return not known or max(known) <= APART_MAX * min(known)


Row = list[Result | None]
Used = Mapping[int, Row]
Calls = Mapping[tuple[int, int], CostCount]


def _by_block(used: Used, metric: Metric, slot: int) -> dict[int, Seen]:
    values = {block: (value_of(row[slot], metric), _apart_ns(row[slot])) for block, row in used.items()}
    return {
        block: Seen(value, apart_ns) for block, (value, apart_ns) in values.items() if value is not None and value > 0
    }


def _apart_ns(result: Result | None) -> tuple[float, float] | None:
    return None if result is None or result.noise is None else result.noise.apart_ns


def used_blocks(plan: Plan, comparison: int, done: Mapping[Place, Result]) -> tuple[dict[int, Row], int, int]:
    """The blocks that count, by number; how many blocks were run to their end; and how many of those were void."""
    gone = {slot for index, slot in given_up(done) if index == comparison}
    used: dict[int, Row] = {}
    complete = void = 0
    for block in range(plan.blocks):
        rows = [
            [
                None if slot in gone else done.get(Place(comparison, block, attempt, slot))
                for slot in range(len(plan.comparisons[comparison].cells))
            ]
            for attempt in range(RETRIES_MAX + 1)
        ]
        judged = _block_of_many(rows, gone) if plan.comparisons[comparison].many else _block_of_few(rows, gone)
        if judged.row is not None:
            used[block] = judged.row
        complete += judged.complete
        void += judged.void
    return used, complete, void


class _Block(NamedTuple):
    """The trials of a block that count, if they do; how often it was run to its end, and came out void."""

    row: Row | None
    complete: int
    void: int


def _block_of_few(rows: Sequence[Row], gone: Container[int]) -> _Block:
    """The first attempt in which no trial is void."""
    complete = void = 0
    for attempt, row in enumerate(rows):
        running = [result for slot, result in enumerate(row) if slot not in gone]
        if not running or any(result is None for result in running):
            break
        # Until its second attempt is there, and where none is left to it, an unsettled block is void.
        if attempt == 0 and any(result is not None for result in rows[1]) and _only_unsettled(running):
            continue
        complete += 1
        if not any(result.void for result in running if result is not None):
            return _Block(row, complete, void)
        void += 1
    return _Block(None, complete, void)


def _block_of_many(rows: Sequence[Row], gone: Container[int]) -> _Block:
    """Of each contestant the first trial that is not void; one whose trials all are is missing.

    Where most of a block is void, so was its minute, and it counts for nothing.
    """
    running = [slot for slot in range(len(rows[0])) if slot not in gone]
    if not running or any(rows[0][slot] is None for slot in running):
        return _Block(None, 0, 0)
    row = [
        next((result for result in tried if result is not None and not result.void), None)
        for tried in zip(*rows, strict=True)
    ]
    missing = sum(row[slot] is None for slot in running)
    return _Block(None, 1, 1) if missing * 2 > len(running) else _Block(row, 1, 0)


def _only_unsettled(row: Iterable[Result | None]) -> bool:
    """Whether a block is void only because its warm-up was too short: its second attempt, which warms up twice as
    long, is then the first that counts, and the machine is not to blame."""
    results = [result for result in row if result is not None]
    words = {doubt.word for result in results for doubt in result.doubts if doubt.voids}
    return words == {"never_steady"} and all(result.failure is None for result in results)


def _judge_comparison(plan: Plan, index: int, done: Mapping[Place, Result], calls: Calls) -> ComparisonVerdict:
    comparison = plan.comparisons[index]
    used, complete, void = used_blocks(plan, index, done)
    bottlenecks = _bottlenecks(plan, comparison, used)
    levels = _levels(comparison, used, bottlenecks)
    inconclusive = _inconclusive(comparison, index, done, complete, void)
    gone = {slot for at, slot in given_up(done) if at == index}
    mine = [result for place, result in sorted(done.items()) if place.comparison == index]
    reply_bytes = _reply_bytes(comparison, used)
    doubts = _doubts(comparison, mine) + _unequal_replies(comparison, reply_bytes, len(used))
    failures, left_out = _failures(comparison, mine), _left_out(comparison, mine)
    different = _different_work(reply_bytes)
    spoilt = _spoilt(comparison, used, gone, mine) | different
    estimates = _estimates(plan, index, used, gone, bottlenecks, undecided=spoilt, decided=inconclusive is None)
    absent = {comparison.titles[slot]: "failed" for slot in sorted(gone)} | spoilt | left_out
    ranked = comparison.ranked and inconclusive is None
    rankings = _rankings(comparison, used, levels, absent) if ranked else ()
    unequal_work = _unequal_work(reply_bytes, different)
    sentence = _sentence(comparison, levels, estimates, rankings, inconclusive, failures, left_out, different)
    return ComparisonVerdict(
        name=comparison.name,
        setting=comparison.setting,
        titles=comparison.titles,
        texts=tuple(cell.contestant.text for cell in comparison.cells),
        ladder=comparison.ladder,
        sentence=f"{unequal_work} {sentence}" if unequal_work else sentence,
        inconclusive=inconclusive,
        levels=levels,
        estimates=estimates,
        rankings=rankings,
        costs=_costs(index, comparison, used, calls),
        left_out=left_out,
        spoilt=spoilt,
        bottlenecks=bottlenecks,
        reply_bytes=reply_bytes,
        unequal_work=unequal_work,
        blocks_planned=plan.blocks,
        blocks_used=len(used),
        blocks_void=void,
        blocks_uneven=sum(not _are_even(map(_apart_ns, row)) for row in used.values()),
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
    used: Used,
    gone: Set[int],
    bottlenecks: Mapping[str, Mapping[str, int]],
    *,
    undecided: Container[str],
    decided: bool,
) -> tuple[Estimate, ...]:
    comparison = plan.comparisons[index]
    titles = comparison.titles
    estimates: list[Estimate] = []
    for metric in METRICS:
        values = [_by_block(used, metric, slot) for slot in range(len(titles))]
        found: list[tuple[str, str, stats.Ratio, tuple[float, ...]]] = []
        for slot, below in _pairs(comparison, gone):
            x = paired((values[slot], values[below]))
            ratio = stats.ratio_of_pairs(x)
            if ratio is not None:
                found.append((titles[slot], titles[below], ratio, x))
        adjusted = stats.holm([ratio.p_value for _, _, ratio, _ in found])
        for (title, reference, ratio, x), p_holm in zip(found, adjusted, strict=True):
            limited = (_generator_bound(bottlenecks[title]), _generator_bound(bottlenecks[reference]))
            bound = _ratio_bound(metric, *limited)
            estimate = _estimate(metric, title, reference, ratio, p_holm, x, bound, seed=plan.seed, rivals=len(found))
            may_decide = decided and title not in undecided and reference not in undecided
            estimates.append(estimate if may_decide else estimate.model_copy(update={"word": "not decided"}))
    return tuple(estimates)


def _connection_bytes(connections: int, count: CostCount | None) -> float | None:
    if count is None or count.own_bytes is None or count.own_bytes_before is None:
        return None
    grown = count.own_bytes - count.own_bytes_before
    return grown / connections if connections >= MEMORY_CONNECTIONS_MIN else None


def _spoilt(comparison: Comparison, used: Used, gone: Set[int], results: Sequence[Result]) -> dict[str, str]:
    """Of whom too many trials are void within the blocks that count: how many, and mostly for what."""
    spoilt = {}
    for slot, title in enumerate(comparison.titles):
        count = sum(row[slot] is None for row in used.values())
        if slot not in gone and count > VOID_SHARE_MAX * len(used):
            words = Counter(word for each in results if each.trial.slot == slot for word in _void_words(each))
            (word, _), *_ = words.most_common(1)
            again = sum(each.trial.slot == slot and each.trial.attempt > 0 for each in results)
            reruns = f" after {again} rerun{'' if again == 1 else 's'}" if again else ""
            spoilt[title] = f"{count} of {len(used)} discarded{reruns}: {word.replace('_', ' ')}"
    return spoilt


def _void_words(result: Result) -> list[str]:
    """For what a trial is void: the kind of its failure, or the doubts that void it."""
    if result.failure is not None:
        return [result.failure.kind]
    if result.report is None:
        return ["no_report"]
    return [doubt.word for doubt in result.doubts if doubt.voids]


def _pairs(comparison: Comparison, gone: Set[int]) -> Iterable[tuple[int, int]]:
    """Each slot that takes part with the slot it is compared with: in a ladder the nearest rung below that is there."""
    for slot in range(1, len(comparison.cells)):
        below = comparison.reference(slot)
        while comparison.ladder and below in gone and below > 0:
            below = comparison.reference(below)
        if slot not in gone and below not in gone:
            yield slot, below


def _rankings(
    comparison: Comparison, used: Used, levels: Sequence[Level], absent: Mapping[str, str]
) -> tuple[Ranking, ...]:
    rankings = (_ranking(comparison, used, levels, absent, metric) for metric in RANKED_BY)
    return tuple(ranking for ranking in rankings if ranking.rows)


def _ranking(
    comparison: Comparison, used: Used, levels: Sequence[Level], absent: Mapping[str, str], metric: Metric
) -> Ranking:
    """The order by paired ratios to the best, and ranks that are shared by whom these blocks cannot tell apart.

    Each group is led by its best, and ends before the first contestant that can be told apart from that leader. The
    best is chosen by the data, which flatters it a little, and the intervals are not adjusted for their number: a
    ranking is for looking through many, and the words of the ratios are what holds up.
    """
    bounds = {each.contestant: each.bound for each in levels if each.metric == metric and each.contestant not in absent}
    measured = {title: _by_block(used, metric, comparison.titles.index(title)) for title in bounds}
    values = {title: by_block for title, by_block in measured.items() if len(by_block) >= blocks_min(1)}
    best, ratios = _to_the_best(values, more_is_better=RANKED_BY[metric])
    leader, leader_rank = "", 0
    rows = []
    for place, (title, ratio) in enumerate(ratios.items(), start=1):
        is_exact = bounds[title] == "exact"
        if is_exact:
            against = _ratio(values[title], values[leader]) if leader else None
            # Too few blocks in common tell nothing apart.
            if not leader or (against is not None and not against.low <= 1 <= against.high):
                leader, leader_rank = title, place
        bound = _ratio_bound(metric, not is_exact, bounds[best] != "exact" and title != best)
        rank = leader_rank if is_exact else None
        rows.append(Ranked(contestant=title, rank=rank, ratio=ratio.ratio, low=ratio.low, high=ratio.high, bound=bound))
    few = {title: "too few blocks" for title in bounds if title not in ratios}
    return Ranking(metric=metric, rows=tuple(rows), absent=dict(absent) | few)


def _to_the_best(
    values: Mapping[str, Mapping[int, Seen]], *, more_is_better: bool
) -> tuple[str, dict[str, stats.Ratio]]:
    """The best by paired ratios, and the ratios of all to it, the best first.

    To be paired they need a common side, and at first that is the best median. Who then has the best ratio is the best:
    all ratios are taken anew to it, so that its own is 1 and those of the others are to what is called the best.
    """
    medians = {title: float(np.median([seen.value for seen in each.values()])) for title, each in values.items()}
    best = _first(medians, more_is_better)
    best = _first({title: each.ratio for title, each in _ratios_to(best, values).items()}, more_is_better)
    ratios = _ratios_to(best, values)
    sign = -1 if more_is_better else 1
    ordered = sorted(ratios, key=lambda title: (title != best, sign * ratios[title].ratio))
    return best, {title: ratios[title] for title in ordered}


def _first(figures: Mapping[str, float], more_is_better: bool) -> str:
    return (max if more_is_better else min)(figures, key=figures.__getitem__, default="")


def _ratios_to(best: str, values: Mapping[str, Mapping[int, Seen]]) -> dict[str, stats.Ratio]:
    """Every paired ratio to the best; who shares too few blocks with it has none."""
    ratios = {title: _ratio(each, values[best]) for title, each in values.items()}
    return {title: ratio for title, ratio in ratios.items() if ratio is not None}


def _ratio(above: Mapping[int, Seen], below: Mapping[int, Seen]) -> stats.Ratio | None:
    return stats.ratio_of_pairs(paired((above, below)))


def _costs(index: int, comparison: Comparison, used: Used, calls: Calls) -> tuple[Cost, ...]:
    costs = []
    for slot, title in enumerate(comparison.titles):
        results = [row[slot] for row in used.values()]
        usages = [each.server for each in results if each is not None and each.server is not None]
        if not usages:
            continue
        (processes, threads), _ = Counter((usage.processes, usage.threads) for usage in usages).most_common(1)[0]
        count = calls.get((index, slot))
        costs.append(
            Cost(
                contestant=title,
                calls_per_request=count.per_request if count else None,
                calls_why_not=count.why_not if count else None,
                connection_bytes=_connection_bytes(comparison.cells[slot].connections, count),
                processes=processes,
                threads=threads,
            )
        )
    return tuple(costs)


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
    share = f"{void} of {complete} blocks were discarded"
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


def _reply_bytes(comparison: Comparison, used: Used) -> dict[str, float]:
    """How long the replies of each contestant were on the wire: the median over its trials."""
    sizes = {}
    for slot, title in enumerate(comparison.titles):
        reports = [result.report for row in used.values() if (result := row[slot]) is not None]
        measured = [r.bytes.received / r.requests.correct for r in reports if r is not None and r.requests.correct]
        if measured:
            sizes[title] = float(np.median(measured))
    return sizes


def _unequal_replies(comparison: Comparison, sizes: Mapping[str, float], trials: int) -> tuple[DoubtCount, ...]:
    """Contestants whose replies are not as long as the reference's: their work was not equal."""
    reference = sizes.get(comparison.titles[0])
    doubts = []
    for title, size in sizes.items():
        if reference is not None and abs(size - reference) > REPLY_SHARE_MAX * reference:
            doubt = Doubt(word="unequal_replies", detail=f"{size:,.0f} bytes a reply, the reference {reference:,.0f}")
            doubts.append(DoubtCount(doubt=doubt, contestant=title, trials=trials))
    return tuple(doubts)


def _different_work(sizes: Mapping[str, float]) -> dict[str, str]:
    """The contestants whose replies are too far from the usual size for any word, and that size.

    The usual size is that of most of them; of two it is the smaller.
    """
    usual = statistics.median_low(sizes.values()) if sizes else 0.0
    limit = max(WORK_BYTES_MAX, WORK_SHARE_MAX * usual)
    return {
        title: f"replies of {size:,.0f} bytes, usual are {usual:,.0f}"
        for title, size in sizes.items()
        if abs(size - usual) > limit
    }


def _unequal_work(sizes: Mapping[str, float], different: Mapping[str, str]) -> str | None:
    """That the contestants did different work, with the sizes of their replies; None where they did not."""
    if not different:
        return None
    usual = next(title for title in sizes if title not in different)
    told = [f"{size:,.0f} bytes from {title}" for title, size in sizes.items() if title == usual or title in different]
    return f"The replies differ in size ({', '.join(told)}): this compares different work."


def _failures(comparison: Comparison, results: Sequence[Result]) -> tuple[FailureCount, ...]:
    counts = Counter(
        (comparison.titles[result.trial.slot], result.failure.kind, result.failure.line)
        for result in results
        if result.failure is not None and not result.failure.left_out
    )
    return tuple(
        FailureCount(contestant=title, kind=kind, message=message, trials=count)
        for (title, kind, message), count in counts.items()
    )


def _left_out(comparison: Comparison, results: Sequence[Result]) -> dict[str, str]:
    return {
        comparison.titles[result.trial.slot]: result.failure.message
        for result in results
        if result.failure is not None and result.failure.left_out
    }


def _sentence(
    comparison: Comparison,
    levels: Sequence[Level],
    estimates: Sequence[Estimate],
    rankings: Sequence[Ranking],
    inconclusive: str | None,
    failures: Sequence[FailureCount],
    left_out: Mapping[str, str],
    different: Container[str],
) -> str:
    """The verdict in words; one clause a contestant when there are several."""
    if inconclusive is not None:
        return f"{inconclusive[0].upper()}{inconclusive[1:]}."
    if len(comparison.cells) == 1:
        return _sentence_alone(comparison.titles[0], levels, failures)
    if rankings:
        return " ".join(_sentence_ranked(ranking) for ranking in rankings)
    if comparison.ranked and not estimates:
        return f"No ranking: fewer than {blocks_min(1)} whole blocks so far."
    if comparison.ladder and estimates:
        return _sentence_ladder(estimates)
    sentences = []
    for slot, title in enumerate(comparison.titles[1:], start=1):
        of = {each.metric: each for each in estimates if each.contestant == title}
        reference = comparison.titles[comparison.reference(slot)]
        absent = next((each for each in (title, reference) if each in left_out), None)
        failed = next((f for f in failures if f.contestant in (title, reference)), None)
        if "throughput" in of:
            is_equal_work = title not in different and reference not in different
            sentences.append(_sentence_pair(of) if is_equal_work else _sentence_unequal(of))
        elif absent is not None:
            sentences.append(f"{absent} was left out: {left_out[absent].rstrip('.')}.")
        elif failed is not None:
            sentences.append(f"{failed.contestant} could not be measured: {failed.message.rstrip('.')}.")
        else:
            sentences.append(f"{title} and {reference}: fewer than {blocks_min(1)} whole blocks so far.")
    return " ".join(dict.fromkeys(sentences))


def _sentence_ladder(estimates: Sequence[Estimate]) -> str:
    """What each rung changes against the rung below, in requests and in CPU; the table has the intervals."""
    sentences = []
    for metric, what, fewer, has in (
        ("throughput", "Requests", "fewer", "serves"),
        ("cpu_per_request", "CPU per request", "less", "uses"),
    ):
        rungs = [e for e in estimates if e.metric == metric]
        more = [f"{e.contestant} ({e.interval.alone})" for e in rungs if e.word == "differs" and e.ratio > 1]
        less = [
            f"{e.contestant} (the rung below {has} {e.interval.inverse.alone})"
            for e in rungs
            if e.word == "differs" and e.ratio < 1
        ]
        told = [f"more with {listed(more)}"] if more else []
        told += [f"{fewer} with {listed(less)}"] if less else []
        same = sum(e.word == "same" for e in rungs)
        open_ = len(rungs) - same - len(more) - len(less)
        told += [f"{same} the same"] if same else []
        told += [f"{open_} not decided"] if open_ else []
        sentences.append(f"{what} against the rung below: {'; '.join(told)}.")
    return " ".join(sentences)


def _sentence_ranked(ranking: Ranking) -> str:
    """The leader and its equals, and what is not ranked: above the leader, and below it."""
    ranks = [row.rank for row in ranking.rows if row.rank is not None]
    limited = [row.contestant for row in ranking.rows if row.rank is None]
    what = "Most requests" if ranking.metric == "throughput" else "Least CPU per request"
    if not ranks:
        return f"{what}: not ranked, because the generator limited all {len(limited)}."
    first = [row.contestant for row in ranking.rows if row.rank == ranks[0]]
    # A rank is a place, so those that the generator limited take as many places above the first rank.
    above, below = limited[: ranks[0] - 1], limited[ranks[0] - 1 :]
    at_least = BOUND_SIGNS["at least"]
    could_do_more = f"{at_least}{listed(above)} (the generator was the limit); first of the ranked: " if above else ""
    alike = " (no difference found)" if len(first) > 1 else ""
    unranked = f" (not ranked, because the generator was their limit: {listed(below)})" if below else ""
    return f"{what}: {could_do_more}{listed(first)}{alike}{unranked}."


def _sentence_alone(title: str, levels: Sequence[Level], failures: Sequence[FailureCount]) -> str:
    level = next((level for level in levels if level.metric == "throughput"), None)
    if level is None:
        reason = failures[0].message.rstrip(".") if failures else "no whole block so far"
        return f"{title} could not be measured: {reason}."
    interval = "" if level.low is None else f" [{level.low:,.0f}, {level.high:,.0f}]"
    return f"{title} serves {BOUND_SIGNS[level.bound]}{level.median:,.0f}{interval} requests per second."


def _sentence_pair(of: Mapping[Metric, Estimate]) -> str:
    """Requests, CPU, and the largest difference in latency or memory; what is decided comes first.

    Where requests do not differ the largest decided difference leads, because "no difference" would hide it.
    """
    requests, cpu = of["throughput"], of.get("cpu_per_request")
    clauses = [_requests_clause(requests)]
    decided = [each for each in (cpu, _named(of)) if each is not None and each.word == "differs"]
    if requests.word == "differs":
        clauses += [decided_clause(each) for each in decided]
    else:
        decided.sort(key=lambda each: -each.size)
        clauses = [*map(decided_clause, decided), *clauses]
    if cpu is not None and cpu not in decided:
        clauses.append(_undecided_cpu_clause(cpu))
    told = _capital(clauses[0], requests)
    ahead = turned(requests)[0] if requests.word == "differs" else None
    for clause, each in zip_longest(clauses[1:], decided if ahead else ()):
        # More requests and more of what should be little: the two sides of a choice.
        told += (", but " if each is not None and turned(each)[0] == ahead else "; ") + clause
    return f"{told}."


def _sentence_unequal(of: Mapping[Metric, Estimate]) -> str:
    """The figures of two that did different work: what was measured, and no word on it."""
    shown = [of[metric] for metric in ("throughput", "cpu_per_request") if metric in of]
    comparable = [decided_clause(each) for each in shown if each.bound != "unknown"]
    if not comparable:
        return "The generator limited both."
    return f"Each with its own replies, {' and '.join(comparable)}; no word is said of that."


def _capital(clause: str, estimate: Estimate) -> str:
    """The clause as the beginning of a sentence. A contestant's name stays as it is written."""
    return clause if clause.startswith((estimate.contestant, estimate.reference)) else clause[0].upper() + clause[1:]


def _named(of: Mapping[Metric, Estimate]) -> Estimate | None:
    """The largest decided difference in latency or memory, if it is large enough to be named."""
    rest = (of[metric] for metric in ("latency_p99", "latency_p50", "rss") if metric in of)
    large = (each for each in rest if each.word == "differs" and each.size >= math.log(NAMED_MIN))
    told = (each for each in large if not _mirrors(each, of["throughput"]))
    return max(told, key=lambda each: each.size, default=None)


def _mirrors(latency: Estimate, requests: Estimate) -> bool:
    """Whether a latency says no more than the requests: in a closed loop, fewer requests are longer ones."""
    if latency.metric == "rss" or requests.word != "differs" or turned(latency)[0] == turned(requests)[0]:
        return False
    return latency.size <= requests.size + math.log(MIRROR_MAX)


def turned(estimate: Estimate) -> tuple[str, str, Interval]:
    """The contestant that has more of the metric, the one that has less, and by how much."""
    if estimate.ratio >= 1:
        return estimate.contestant, estimate.reference, estimate.interval
    return estimate.reference, estimate.contestant, estimate.interval.inverse


# What is said of a decided difference, in the direction of "more".
_DECIDED: dict[Metric, str] = {
    "throughput": "{more} serves {ratio} the requests of {less}",
    "cpu_per_request": "{more} uses {ratio} the CPU per request of {less}",
    "latency_p50": "the median latency of {more} is {ratio} that of {less}",
    "latency_p99": "the p99 latency of {more} is {ratio} that of {less}",
    "rss": "the memory of {more} is {ratio} that of {less}",
}


def decided_clause(estimate: Estimate) -> str:
    more, less, ratio = turned(estimate)
    return _DECIDED[estimate.metric].format(more=more, less=less, ratio=ratio)


def _requests_clause(requests: Estimate) -> str:
    a, b, figures = requests.contestant, requests.reference, f"{requests.interval}{_blocks_more(requests)}"
    if requests.word == "differs":
        limited = "" if requests.bound == "exact" else " (the generator was the limit)"
        return f"{decided_clause(requests)}{limited}"
    if requests.bound == "unknown":
        return f"the generator limited both {a} and {b}, so their requests cannot be ranked"
    if requests.bound != "exact":
        return f"{a} and {b} cannot be ranked by requests, because the generator limited one of them"
    if requests.word == "same":
        return f"{a} serves the same requests as {b}, within {percent(stats.EFFECT)}: {figures}"
    if requests.low > 1 or requests.high < 1:
        return f"a difference in requests between {a} and {b} is not decided: {figures}"
    return f"no difference in requests was found between {a} and {b}: {figures}"


def _undecided_cpu_clause(cpu: Estimate) -> str:
    if cpu.word == "same":
        return f"the CPU per request is the same, within {percent(stats.EFFECT)}"
    if cpu.low <= 1 <= cpu.high:
        return f"no difference in CPU per request was found: {cpu.interval}{_blocks_more(cpu)}"
    return f"the CPU per request is not decided: {cpu.interval}{_blocks_more(cpu)}"


def _blocks_more(estimate: Estimate) -> str:
    """How many more blocks it would take; where the ratio is next to 1, they would show that it is the same."""
    more = estimate.blocks_more
    if more is None:
        return ""
    if more > MORE_BLOCKS_MAX:
        return f" (it would take more than {MORE_BLOCKS_MAX} more blocks to decide)"
    is_near = 1 / (1 + stats.EFFECT) < estimate.ratio < 1 + stats.EFFECT
    end = f"show it to be the same within {percent(stats.EFFECT)}" if is_near else "decide"
    return f" (about {more} more block{'' if more == 1 else 's'} would {end})"
