"""Published sentences held against what was measured here: confirmed, in direction only, contradicted, or undecided.

A claim is judged by its own test (see `plan.Test`) from the same whole blocks the verdicts use. Two machines differ, so
a magnitude that differs is not an error of either; a direction that differs, beyond chance, contradicts. A comparison
that the generator limited, or that is inconclusive, decides nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import numpy as np

from iolab.contract.types import Frozen, percent
from iolab.judge import stats
from iolab.judge.blocks import Seen, Used, paired, used_blocks, values_of
from iolab.judge.estimates import Estimate
from iolab.judge.verdict import ComparisonVerdict
from iolab.metrics import METRICS, Metric
from iolab.plan.claims import Claim, FlatTest, LittlesLawTest, Published, RatioTest, WinsTest
from iolab.plan.plan import Comparison, Place, Plan
from iolab.results.records import Result
from iolab.wording import BOUND_SIGNS, Interval

Judgement = Literal["confirmed", "confirmed in direction only", "contradicted", "undecided"]


class ClaimVerdict(Frozen):
    """A claim, the word on it, and the reason in one sentence.

    `ratio`, `low` and `high` are the measured figure beside `published`, where the test has one; None otherwise.
    """

    claim: Claim
    judgement: Judgement
    reason: str
    published: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None


class PublishedRatio(Frozen):
    """One published row beside ours: contestant / reference there and here; `measured` is None where we have none."""

    id: str
    metric: Metric
    comparison: str
    contestant: str
    reference: str
    published: float
    measured: Estimate | None


def judge(plan: Plan, results: Iterable[Result], verdicts: Sequence[ComparisonVerdict]) -> tuple[ClaimVerdict, ...]:
    """A verdict on every claim of the plan, in its order; `verdicts` are those on its comparisons."""
    done = {result.trial.place: result for result in results if plan.holds(result.trial)}
    used = [used_blocks(plan, index, done)[0] for index in range(len(verdicts))] if plan.claims else []
    return tuple(_judge_claim(claim, plan, done, used, verdicts) for claim in plan.claims)


def beside_published(plan: Plan, verdicts: Sequence[ComparisonVerdict]) -> tuple[PublishedRatio, ...]:
    """Every published row as ratios to the reference, beside the estimate for the same setting."""
    rows = []
    for row in plan.published:
        for found in verdicts:
            reference = found.titles[0]
            if not _selects(row.setting, found) or reference not in row.values:
                continue
            for contestant in (title for title in found.titles[1:] if title in row.values):
                rows.append(_published_ratio(row, found, contestant, reference))
    return tuple(rows)


def _published_ratio(row: Published, found: ComparisonVerdict, contestant: str, reference: str) -> PublishedRatio:
    return PublishedRatio(
        id=row.id,
        metric=row.metric,
        comparison=found.name,
        contestant=contestant,
        reference=reference,
        published=row.values[contestant] / row.values[reference],
        measured=found.estimate(row.metric, contestant, reference),
    )


def _judge_claim(
    claim: Claim,
    plan: Plan,
    done: Mapping[Place, Result],
    used: Sequence[Used],
    verdicts: Sequence[ComparisonVerdict],
) -> ClaimVerdict:
    test = claim.decide
    if isinstance(test, RatioTest):
        return _judge_ratio(claim, test, used, verdicts)
    if isinstance(test, WinsTest):
        return _judge_wins(claim, test, verdicts)
    if isinstance(test, FlatTest):
        return _judge_flat(claim, test, used, verdicts)
    return _judge_littles_law(claim, test, plan, done, verdicts)


def _judge_ratio(
    claim: Claim, test: RatioTest, used: Sequence[Used], verdicts: Sequence[ComparisonVerdict]
) -> ClaimVerdict:
    chosen = [
        index
        for index, found in enumerate(verdicts)
        if _selects(test.setting, found) and test.contestant in found.titles and test.reference in found.titles
    ]
    obstacle = _obstacle([verdicts[index] for index in chosen], test.metric, (test.contestant, test.reference))
    if obstacle is not None:
        return _undecided(claim, obstacle, published=test.published)
    sides = []
    for index in chosen:
        above, below = (
            values_of(used[index], test.metric, verdicts[index].titles.index(title))
            for title in (test.contestant, test.reference)
        )
        sides.append((above, below))
    # Settings of one block share its minute of machine weather; their mean is one value, not several.
    x = paired(*sides)
    ratio = stats.ratio_of_pairs(x)
    if ratio is None:
        return _undecided(claim, f"only {len(x)} whole blocks so far", published=test.published)
    said = f"published {test.published:.3g}x, measured {Interval(*ratio[:3])}"
    judgement, why = _compare(ratio, test.published, test.tolerance)
    return ClaimVerdict(
        claim=claim,
        judgement=judgement,
        reason=f"{said}: {why}",
        published=test.published,
        ratio=ratio.ratio,
        low=ratio.low,
        high=ratio.high,
    )


def _compare(ratio: stats.Ratio, published: float, tolerance: float) -> tuple[Judgement, str]:
    """Direction first, magnitude second. A published ratio of 1 claims "the same", which has no direction."""
    agrees = ratio.low <= published * (1 + tolerance) and ratio.high >= published * (1 - tolerance)
    if abs(math.log(published)) <= math.log1p(stats.EFFECT):
        word = stats.word(ratio, ratio.p_value)
        if word == "same":
            return "confirmed", f"the same, within {percent(stats.EFFECT)}"
        return ("contradicted", "it differs") if word == "differs" else ("undecided", "neither the same nor different")
    if ratio.low <= 1 <= ratio.high:
        return "undecided", "the interval holds 1, so not even the direction is sure"
    if (ratio.low > 1) != (published > 1):
        return "contradicted", "the direction is the other one"
    if agrees:
        return "confirmed", "direction and magnitude agree"
    larger = abs(math.log(ratio.ratio)) > abs(math.log(published))
    size = "larger" if larger else "smaller"
    return "confirmed in direction only", f"the effect is {size} here, on another machine, kernel and generator"


def _judge_wins(claim: Claim, test: WinsTest, verdicts: Sequence[ComparisonVerdict]) -> ClaimVerdict:
    """All must win, so no correction for many tests is due: the claim is as strong as its weakest setting."""
    chosen = [found for found in verdicts if test.contestant in found.titles and test.reference == found.titles[0]]
    obstacle = _obstacle(chosen, test.metric, (test.contestant, test.reference), bounds_decide=True)
    if obstacle is not None:
        return _undecided(claim, obstacle)
    estimates = {found.name: found.estimate(test.metric, test.contestant, test.reference) for found in chosen}
    better = METRICS[test.metric].more_is_better
    above = [name for name, e in estimates.items() if e is not None and e.low > 1 and e.bound in ("exact", "at least")]
    below = [name for name, e in estimates.items() if e is not None and e.high < 1 and e.bound in ("exact", "at most")]
    won, lost = (above, below) if better else (below, above)
    if lost:
        return ClaimVerdict(claim=claim, judgement="contradicted", reason=f"{test.contestant} loses at {lost[0]}")
    if len(won) == len(estimates):
        every = "the setting" if len(won) == 1 else f"all {len(won)} settings"
        return ClaimVerdict(claim=claim, judgement="confirmed", reason=f"{test.contestant} wins at {every}")
    unsure = ", ".join(name for name in estimates if name not in won)
    return _undecided(claim, f"wins at {len(won)} of {len(estimates)}; not decided at {unsure}")


def _judge_flat(
    claim: Claim, test: FlatTest, used: Sequence[Used], verdicts: Sequence[ComparisonVerdict]
) -> ClaimVerdict:
    """The largest over the smallest, each contestant for itself; the interval is of the ratio within blocks.

    Which setting is largest is chosen by the data, which widens the ratio; the claim errs to the careful side.
    """
    worst: tuple[str, stats.Ratio] | None = None
    chosen = [(index, found) for index, found in enumerate(verdicts) if test.axis in found.setting]
    for title in test.contestants:
        present = [(index, found) for index, found in chosen if title in found.titles]
        obstacle = _obstacle([found for _, found in present], test.metric, (title,))
        if obstacle is not None:
            return _undecided(claim, f"{title}: {obstacle}")
        if len(present) < 2:
            return _undecided(claim, f"{title} was measured at fewer than two values of {test.axis}")
        series = [values_of(used[index], test.metric, found.titles.index(title)) for index, found in present]
        ratio = _extremes(series)
        if ratio is None:
            return _undecided(claim, f"{title}: too few whole blocks so far")
        if worst is None or ratio.ratio > worst[1].ratio:
            worst = (title, ratio)
    assert worst is not None, "a flat test names a contestant"
    title, ratio = worst
    figure = f"{title}: largest / smallest {Interval(*ratio[:3])}, allowed {test.at_most:g}"
    judgement: Judgement = (
        "confirmed" if ratio.high <= test.at_most else "contradicted" if ratio.low > test.at_most else "undecided"
    )
    published = max(test.published.values(), default=None)
    return ClaimVerdict(
        claim=claim,
        judgement=judgement,
        reason=figure,
        published=published,
        ratio=ratio.ratio,
        low=ratio.low,
        high=ratio.high,
    )


def _extremes(series: Sequence[Mapping[int, Seen]]) -> stats.Ratio | None:
    """Largest over smallest setting, by median, paired over the blocks in which all settings were measured."""
    blocks = sorted(set.intersection(*(set(values) for values in series)))
    if not blocks:
        return None
    medians = [float(np.median([values[block].value for block in blocks])) for values in series]
    largest, smallest = series[int(np.argmax(medians))], series[int(np.argmin(medians))]
    return stats.ratio_of_pairs(paired((largest, smallest)))


def _judge_littles_law(
    claim: Claim, test: LittlesLawTest, plan: Plan, done: Mapping[Place, Result], verdicts: Sequence[ComparisonVerdict]
) -> ClaimVerdict:
    """Where the law fails a figure is wrong, here or there; where it holds, the mean latencies stand beside ours."""
    # A trial that breaks the law is discarded, so every trial that ended is looked at, not only whole blocks.
    ended = [result for result in done.values() if result.failure is None and result.report is not None]
    if not ended:
        return _undecided(claim, "no trial so far")
    broken = sum(any(warning.word == "littles_law" for warning in result.warnings) for result in ended)
    if broken:
        reason = f"connections = throughput x mean latency fails in {broken} of {len(ended)} trials"
        return ClaimVerdict(claim=claim, judgement="contradicted", reason=reason)
    here = _mean_latencies_ms(test, plan, done)
    missing = next((title for title in test.published_ms if title not in here), None)
    if missing is not None:
        chosen = [found for found in verdicts if _selects(test.setting, found) and missing in found.titles]
        why = next((why for found in chosen if (why := _discarded(found, missing)) is not None), None)
        return _undecided(claim, why or f"{missing} has no valid trial so far")
    there = test.published_ms
    bounds = dict.fromkeys(there, "") | {
        each.contestant: BOUND_SIGNS[each.bound]
        for found in verdicts
        if _selects(test.setting, found)
        for each in found.levels
        if each.metric == "latency_p50"
    }
    figures = ", ".join(
        f"{title} {there[title]:g} ms there and {bounds[title]}{here[title]:.3g} ms here" for title in there
    )
    reason = f"connections = throughput x mean latency holds in all {len(ended)} trials; {figures}"
    if all(abs(here[title] / there[title] - 1) <= test.tolerance for title in there):
        return ClaimVerdict(claim=claim, judgement="confirmed", reason=reason)
    if sorted(there, key=there.__getitem__) == sorted(there, key=here.__getitem__):
        return ClaimVerdict(claim=claim, judgement="confirmed in direction only", reason=reason)
    return _undecided(claim, f"{reason}, in another order")


def _mean_latencies_ms(test: LittlesLawTest, plan: Plan, done: Mapping[Place, Result]) -> dict[str, float]:
    """The median over valid trials of the mean latency, by contestant."""
    means: dict[str, list[float]] = {}
    for place, result in sorted(done.items()):
        comparison = plan.comparisons[place.comparison]
        if result.report is not None and not result.discarded and _selects(test.setting, comparison):
            means.setdefault(comparison.titles[place.slot], []).append(result.report.latency_ns.mean / 1e6)
    return {title: float(np.median(values)) for title, values in means.items()}


def _obstacle(
    chosen: Sequence[ComparisonVerdict], metric: Metric, titles: Sequence[str], *, bounds_decide: bool = False
) -> str | None:
    """Why these comparisons decide nothing; None when they may. A bound decides a direction but never a magnitude."""
    if not chosen:
        return "no comparison measures it"
    for found in chosen:
        if found.inconclusive is not None:
            why = next((why for title in titles if (why := _discarded(found, title)) is not None), None)
            return f"{found.name} is {found.inconclusive}" + (f"; {why}" if why else "")
        failed = next((failure for failure in found.failures if failure.contestant in titles), None)
        if failed is not None and found.blocks_used == 0:
            return f"{failed.contestant} could not be measured: {failed.message}"
        for title in titles:
            if title in found.left_out:
                return f"{title} was left out of {found.name}: {found.left_out[title]}"
            if title in found.not_judged:
                return f"{title} is not judged at {found.name}: {found.not_judged[title]}"
            level = found.level(metric, title)
            if level is None:
                return _discarded(found, title) or f"{found.name} has no measurement of {title} so far"
            if level.bound != "exact" and not bounds_decide:
                return f"the generator was the limit of {title} at {found.name}"
    return None


def _discarded(found: ComparisonVerdict, title: str) -> str | None:
    """That the trials of a contestant were discarded, and mostly for what; None where none was."""
    counts = {
        each.warning.word: each.trials for each in found.warnings if each.contestant == title and each.warning.discards
    }
    if not counts:
        return None
    word = max(counts, key=counts.__getitem__)
    return f"the trials of {title} at {found.name} were discarded: {word.replace('_', ' ')} in {counts[word]} of them"


def _selects(setting: Mapping[str, object], found: Comparison | ComparisonVerdict) -> bool:
    return all(found.setting.get(key) == value for key, value in setting.items())


def _undecided(claim: Claim, reason: str, published: float | None = None) -> ClaimVerdict:
    return ClaimVerdict(claim=claim, judgement="undecided", reason=reason, published=published)
