"""A verdict in words: one sentence, in the direction of "more", decided differences first."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from itertools import zip_longest

from iolab.contract.types import percent
from iolab.judge import stats
from iolab.judge.bottleneck import Bottleneck, Limit
from iolab.judge.estimates import Estimate
from iolab.judge.levels import Level
from iolab.judge.rankings import Ranking
from iolab.judge.validity import FailureCount
from iolab.metrics import COMPARED, METRICS, RANKED_BY, Metric
from iolab.plan.plan import Comparison, blocks_min
from iolab.wording import BOUND_SIGNS, Interval, listed

# A sentence names the largest difference in latency or memory if it is at least this ratio. The next compiler or
# library changes a p99 or a resident size by a tenth; the table has all differences.
NAMED_MIN = 1.25
# A latency ratio that exceeds the ratio of requests by at most this factor is the same difference.
MIRROR_MAX = 1.05
# A larger number of further blocks is not advised: another machine or another time of day would help more.
MORE_BLOCKS_MAX = 200
# Why a figure is only a bound.
_LIMIT_WORDS: Mapping[Bottleneck, str] = {
    Bottleneck.GENERATOR: "the generator was the limit",
    Bottleneck.LATENCY: "latency-bound",
    Bottleneck.RATE: "limited by the requested rate",
    Bottleneck.RESOURCE: "resource-bound",
    Bottleneck.INVALID: "invalid",
}


def sentence_of(
    comparison: Comparison,
    levels: Sequence[Level],
    estimates: Sequence[Estimate],
    rankings: Sequence[Ranking],
    limits: Mapping[str, Limit],
    inconclusive: str | None,
    failures: Sequence[FailureCount],
    left_out: Mapping[str, str],
    different: Container[str],
) -> str:
    """The verdict in words, with a sentence for each contestant if there are several."""
    if inconclusive is not None:
        return f"{inconclusive[0].upper()}{inconclusive[1:]}."
    if all(cell.load.connections == 0 for cell in comparison.cells):
        return _sentence_at_rest(levels)
    if len(comparison.cells) == 1:
        return _sentence_alone(comparison.titles[0], levels, limits, failures)
    if rankings:
        return " ".join(_sentence_ranked(ranking, limits) for ranking in rankings)
    if comparison.ranked and not estimates:
        return f"No ranking: fewer than {blocks_min(1)} complete blocks so far."
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
            sentences.append(_sentence_pair(of, limits) if is_equal_work else _sentence_unequal(of))
        elif absent is not None:
            sentences.append(f"{absent} was left out: {left_out[absent].rstrip('.')}.")
        elif failed is not None:
            sentences.append(f"{failed.contestant} could not be measured: {failed.message.rstrip('.')}.")
        else:
            sentences.append(f"{title} and {reference}: fewer than {blocks_min(1)} complete blocks so far.")
    return " ".join(dict.fromkeys(sentences))


def _sentence_at_rest(levels: Sequence[Level]) -> str:
    """The memory of servers without a load."""
    sizes = [f"{le.contestant} {METRICS[le.metric].shown(le.median)}" for le in levels if le.metric == "rss"]
    return f"Memory at rest: {listed(sizes)}." if sizes else "Nothing was measured at rest so far."


def _sentence_ladder(estimates: Sequence[Estimate]) -> str:
    """The effect of each step of a ladder on requests and CPU; the table has the intervals."""
    sentences = []
    for metric in RANKED_BY:
        of = METRICS[metric]
        rungs = [e for e in estimates if e.metric == metric]
        more = [f"{e.contestant} ({e.interval.alone})" for e in rungs if e.word == "differs" and e.ratio > 1]
        less = [
            f"{e.contestant} (the step before {of.verb} {e.interval.inverse.alone})"
            for e in rungs
            if e.word == "differs" and e.ratio < 1
        ]
        parts = [f"more with {listed(more)}"] if more else []
        parts += [f"{of.fewer} with {listed(less)}"] if less else []
        same = sum(e.word == "same" for e in rungs)
        open_ = len(rungs) - same - len(more) - len(less)
        parts += [f"{same} the same"] if same else []
        parts += [f"{open_} not decided"] if open_ else []
        sentences.append(f"{of.noun[0].upper()}{of.noun[1:]}, each step against the one before: {'; '.join(parts)}.")
    return " ".join(sentences)


def _sentence_ranked(ranking: Ranking, limits: Mapping[str, Limit]) -> str:
    """The leader and its equals, and the contestants above and below them that are not ranked."""
    ranks = [row.rank for row in ranking.rows if row.rank is not None]
    limited = [row.contestant for row in ranking.rows if row.rank is None]
    what = METRICS[ranking.metric].best
    if not ranks:
        return f"{what}: not ranked, because {_limit_of_all(limited, limits)}."
    first = [row.contestant for row in ranking.rows if row.rank == ranks[0]]
    # A rank is a place, so the first rank tells how many bounds are listed above it.
    above, below = limited[: ranks[0] - 1], limited[ranks[0] - 1 :]
    at_least = BOUND_SIGNS["at least"]
    could_do_more = f"{at_least}{listed(above)} ({_limit_words(above, limits)}), then " if above else ""
    alike = " (no difference found)" if len(first) > 1 else ""
    unranked = f" (not ranked, {_limit_words(below, limits)}: {listed(below)})" if below else ""
    return f"{what}: {could_do_more}{listed(first)}{alike}{unranked}."


def _limit_words(titles: Sequence[str], limits: Mapping[str, Limit]) -> str:
    """Why these are only bounds, in a few words."""
    kinds = {limits[title].kind for title in titles}
    return _LIMIT_WORDS[kinds.pop()] if len(kinds) == 1 else "the server was not the limit"


def _limit_of_all(titles: Sequence[str], limits: Mapping[str, Limit]) -> str:
    """Why none of these is ranked."""
    kinds = {limits[title].kind for title in titles}
    if kinds == {Bottleneck.GENERATOR}:
        return f"the generator limited all {len(titles)}"
    if kinds == {Bottleneck.LATENCY}:
        return f"all {len(titles)} are latency-bound"
    if kinds == {Bottleneck.RATE}:
        return f"all {len(titles)} serve the requested rate"
    return "no server was the limit"


def _sentence_alone(
    title: str, levels: Sequence[Level], limits: Mapping[str, Limit], failures: Sequence[FailureCount]
) -> str:
    level = next((level for level in levels if level.metric == "throughput"), None)
    if level is None:
        reason = failures[0].message.rstrip(".") if failures else "no complete block so far"
        return f"{title} could not be measured: {reason}."
    interval = "" if level.low is None else f" [{level.low:,.0f}, {level.high:,.0f}]"
    limited = "" if level.bound == "exact" else f" ({_limit_words([title], limits)})"
    return f"{title} serves {BOUND_SIGNS[level.bound]}{level.median:,.0f}{interval} requests per second{limited}."


def _sentence_pair(of: Mapping[Metric, Estimate], limits: Mapping[str, Limit]) -> str:
    """Requests, CPU, and the largest difference in latency or memory; decided differences first.

    If requests do not differ, the largest decided difference leads, because "no difference" would hide it. If requests
    are not ranked because neither side was busy, the sentence names the median latency.
    """
    requests, cpu = of["throughput"], of.get("cpu_per_request")
    clauses = [_requests_clause(requests, limits)]
    waited = _waited(requests, limits)
    named = worth_naming(of) or (of.get("latency_p50") if waited else None)
    decided = [each for each in (cpu, named) if each is not None and each.word == "differs"]
    if requests.word == "differs":
        clauses += [decided_clause(each) for each in decided]
    else:
        decided.sort(key=lambda each: -each.size)
        clauses = [*map(decided_clause, decided), *clauses]
    open_ = [cpu, named if waited else None]
    clauses += [_undecided_clause(each) for each in open_ if each is not None and each not in decided]
    sentence = _capital(clauses[0], requests)
    ahead = turned(requests)[0] if requests.word == "differs" else None
    for clause, each in zip_longest(clauses[1:], decided if ahead else ()):
        # More requests, and also more CPU, latency or memory: a trade-off.
        sentence += (", but " if each is not None and turned(each)[0] == ahead else "; ") + clause
    return f"{sentence}."


def _sentence_unequal(of: Mapping[Metric, Estimate]) -> str:
    """The figures of two that did different work, without a verdict."""
    shown = [of[metric] for metric in RANKED_BY if metric in of]
    comparable = [decided_clause(each) for each in shown if each.bound != "unknown"]
    if not comparable:
        return "The generator limited both."
    return f"With these unequal replies, {' and '.join(comparable)}; there is no verdict."


def _capital(clause: str, estimate: Estimate) -> str:
    """The clause as the beginning of a sentence; a contestant's name keeps its case."""
    return clause if clause.startswith((estimate.contestant, estimate.reference)) else clause[0].upper() + clause[1:]


def worth_naming(of: Mapping[Metric, Estimate]) -> Estimate | None:
    """The largest decided difference in latency or memory, if it is large enough to be named."""
    # Of equal differences the later in the table wins: a p99 says more than a median.
    rest = (of[metric] for metric in reversed(COMPARED) if metric in of and metric not in RANKED_BY)
    large = (each for each in rest if each.word == "differs" and each.size >= math.log(NAMED_MIN))
    own = (each for each in large if not _mirrors(each, of["throughput"]))
    return max(own, key=lambda each: each.size, default=None)


def _mirrors(latency: Estimate, requests: Estimate) -> bool:
    """Whether a latency only mirrors the requests: in a closed loop, fewer requests are longer ones."""
    if not METRICS[latency.metric].is_time or requests.word != "differs" or turned(latency)[0] == turned(requests)[0]:
        return False
    return latency.size <= requests.size + math.log(MIRROR_MAX)


def turned(estimate: Estimate) -> tuple[str, str, Interval]:
    """The contestant that has more of the metric, the one that has less, and by how much."""
    if estimate.ratio >= 1:
        return estimate.contestant, estimate.reference, estimate.interval
    return estimate.reference, estimate.contestant, estimate.interval.inverse


def decided_clause(estimate: Estimate) -> str:
    """A decided difference in words, in the direction of "more"."""
    more, less, ratio = turned(estimate)
    return METRICS[estimate.metric].clause(more, ratio, less)


def _waited(requests: Estimate, limits: Mapping[str, Limit]) -> bool:
    """Whether both contestants were latency-bound, so that their requests only mirror the latency."""
    kinds = {limits[each].kind for each in (requests.contestant, requests.reference) if each in limits}
    return requests.bound == "unknown" and kinds <= {Bottleneck.LATENCY, Bottleneck.RATE}


def _requests_clause(requests: Estimate, limits: Mapping[str, Limit]) -> str:
    a, b, figures = requests.contestant, requests.reference, f"{requests.interval}{_blocks_more(requests)}"
    bounded = [each for each in (a, b) if each in limits and not limits[each].kind.is_ranked]
    if requests.word == "differs":
        limited = "" if requests.bound == "exact" else f" ({_limit_words(bounded, limits)})"
        return f"{decided_clause(requests)}{limited}"
    if requests.bound == "unknown":
        return _unranked_clause(a, b, limits)
    if requests.bound != "exact":
        why = _limit_words(bounded, limits)
        return f"{a} and {b} cannot be ranked by requests ({listed(bounded)}: {why})"
    if requests.word == "same":
        return f"{a} serves the same requests as {b}, within {percent(stats.EFFECT)}: {figures}"
    if requests.low > 1 or requests.high < 1:
        return f"a difference in requests between {a} and {b} is not decided: {figures}"
    return f"no difference in requests was found between {a} and {b}: {figures}"


def _unranked_clause(a: str, b: str, limits: Mapping[str, Limit]) -> str:
    """Why the requests of two contestants are not ranked: the server limited neither."""
    kinds = {limits[each].kind for each in (a, b)}
    if kinds == {Bottleneck.GENERATOR}:
        return f"the generator limited both {a} and {b}, so their requests cannot be ranked"
    if kinds == {Bottleneck.LATENCY}:
        return f"{a} and {b} are latency-bound, so their requests are not ranked"
    if kinds == {Bottleneck.RATE}:
        return f"{a} and {b} serve the requested rate"
    each = " and ".join(f"{title} is {limits[title].label}" for title in (a, b))
    return f"{each}, so their requests cannot be ranked"


def _undecided_clause(estimate: Estimate) -> str:
    """A clause on a CPU per request or a median latency without a decided difference."""
    noun = METRICS[estimate.metric].noun
    if estimate.word == "same":
        return f"the {noun} is the same, within {percent(stats.EFFECT)}"
    if estimate.low <= 1 <= estimate.high:
        return f"no difference in {noun} was found: {estimate.interval}{_blocks_more(estimate)}"
    return f"the {noun} is not decided: {estimate.interval}{_blocks_more(estimate)}"


def _blocks_more(estimate: Estimate) -> str:
    """How many more blocks would decide, or if the ratio is close to 1, show that both are the same."""
    more = estimate.blocks_more
    if more is None:
        return ""
    if more > MORE_BLOCKS_MAX:
        return f" (it would take more than {MORE_BLOCKS_MAX} more blocks to decide)"
    is_near = 1 / (1 + stats.EFFECT) < estimate.ratio < 1 + stats.EFFECT
    end = f"show it to be the same within {percent(stats.EFFECT)}" if is_near else "decide"
    return f" (about {more} more block{'' if more == 1 else 's'} would {end})"
