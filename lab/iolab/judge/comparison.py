"""What changed between two stored runs, or between the contestants of one: B / A with its interval and a word.

Two runs share no blocks, so the machine may have been faster during one of them. A contestant that is the same program
in both runs is the reference: each block gives the ratio of the others to it, which cancels the speed of the machine,
and the ratios of the two runs are two samples. Without a reference the samples are the values themselves, and the speed
of the machine is part of the result: "unpaired". The two samples are judged by Mann-Whitney with the Hodges-Lehmann
shift of the logarithms. The contestants of one run share blocks, so their ratio is the paired one of the verdict.

All ratios that can show a regression are one family for Holm's correction.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Literal, NamedTuple

import numpy as np

from iolab.contract.types import Frozen
from iolab.errors import BadInput
from iolab.judge import stats
from iolab.judge.blocks import Seen, Used, paired, used_blocks, values_of
from iolab.judge.bottleneck import bound_of
from iolab.judge.estimates import bounded_word, ratio_bound
from iolab.judge.levels import Level
from iolab.judge.replies import different_work
from iolab.judge.results import Results
from iolab.judge.run_pairs import (
    ADVICE,
    CellPair,
    Circumstance,
    cell_pairs,
    differences,
    references,
    unpaired_contestants,
)
from iolab.judge.verdict import ComparisonVerdict
from iolab.metrics import COMPARED, METRICS, RANKED_BY, Metric
from iolab.plan.plan import Comparison, blocks_min
from iolab.wording import Bound, Interval

# An unpaired difference in speed below 15 % may be the machine's: its speed differs more between two runs than within
# either. `make bench-compare` prints what this limit costs and saves.
UNPAIRED_MIN = 0.15
# Metrics that do not depend on the speed of the machine.
STEADY: Set[Metric] = frozenset({"rss"})
# Fewer trials than these in each run give no interval at 95 %: 2 / (8 over 4) = 0.029.
TRIALS_MIN = 4
# Why a contestant of A has no counterpart in B.
ONLY_A = "only A measured it (measure it in B too, or allow it with --allow plan)"

Kind = Literal["regression", "improvement", "same", "not decided"]


class Change(Frozen):
    """`metric` of one contestant in B / the same in A.

    `contestant` is its title, or both titles if it was renamed; sentences use `name_a` and `name_b`. `level_a` and
    `level_b` are medians in the metric's base unit. `low` and `high` are the interval of the ratio; if it is unpaired,
    they include the drift of the machine within the runs. `p_holm` is adjusted over all changes. A difference counts
    beyond `effect`. `blocks` are those of each side. `effect_min` is the smallest relative effect that they would have
    found. `reference` is the contestant it is divided by in every block, or None. `without_drift`: the ratio does not
    depend on the speed of the machine.
    `blocks_more` is set if more blocks would decide, `why_not` if something else keeps it undecided.
    """

    comparison: str
    contestant: str
    metric: Metric
    name_a: str
    name_b: str
    level_a: Level
    level_b: Level
    ratio: float
    low: float
    high: float
    p_value: float
    p_holm: float
    effect: float
    word: stats.Word
    bound: Bound
    blocks: tuple[int, int]
    blocks_more: int | None
    effect_min: float
    without_drift: bool
    reference: str | None
    why_not: str

    @property
    def interval(self) -> Interval:
        """The ratio as it is printed."""
        return Interval(self.ratio, self.low, self.high, self.bound)

    @property
    def kind(self) -> Kind:
        """The word; a difference is an improvement or a regression."""
        if self.word != "differs":
            return self.word
        return "improvement" if (self.ratio > 1) == METRICS[self.metric].more_is_better else "regression"

    @property
    def clause(self) -> str:
        """A difference in words, in the direction of "more"."""
        more, less, ratio = self.name_b, self.name_a, self.interval
        if self.ratio < 1:
            more, less, ratio = less, more, ratio.inverse
        return METRICS[self.metric].clause(more, ratio, less)


class NotCompared(Frozen):
    """A contestant that is not compared, at one setting or at all, and why."""

    what: str
    why: str

    @property
    def line(self) -> str:
        """Both as a sentence."""
        return f"{self.what} is not compared: {self.why}"


class RunComparison(Frozen):
    """What changed from A to B. The words are those of a verdict, with `threshold` as the effect that counts.

    `folder_a` and `began_a` name run A, `folder_b` and `began_b` run B; they are equal in a comparison within one run.
    `differences` are the allowed ones between the two runs. `left_out` has contestants that only B measured, that A
    left out, or that may be absent from B; `missing` has the others of A that cannot be compared.
    """

    folder_a: str
    began_a: str
    folder_b: str
    began_b: str
    threshold: float
    changes: tuple[Change, ...]
    differences: tuple[str, ...]
    left_out: tuple[NotCompared, ...]
    missing: tuple[NotCompared, ...]

    @property
    def is_within(self) -> bool:
        """Whether it compares the contestants of one run."""
        return self.folder_a == self.folder_b

    @property
    def regressions(self) -> tuple[Change, ...]:
        """The changes for the worse beyond the threshold."""
        return tuple(each for each in self.changes if each.kind == "regression")

    @property
    def is_inconclusive(self) -> bool:
        """Whether no regression was found but one may be missed: undetectable, or in a missing contestant."""
        return not self.regressions and (bool(self.missing) or self.is_blind)

    @property
    def is_blind(self) -> bool:
        """Whether no contestant at any setting could have shown a regression as small as the threshold."""
        return self.cells_blind == len(self.cells)

    @property
    def cells_blind(self) -> int:
        """The number of cells that could not have shown a regression as small as the threshold in requests or CPU."""
        return sum(
            not any(
                each.metric in RANKED_BY and each.bound == "exact" and each.effect_min <= self.threshold
                for each in cell
            )
            for cell in self.cells
        )

    @property
    def kinds(self) -> Mapping[Kind, int]:
        """How many changes there are of each kind."""
        counts = Counter(each.kind for each in self.changes)
        kinds: tuple[Kind, ...] = ("regression", "improvement", "same", "not decided")
        return {kind: counts[kind] for kind in kinds}

    @property
    def cells(self) -> list[tuple[Change, ...]]:
        """The changes of each contestant at each setting."""
        return [tuple(cell) for _, cell in groupby(self.changes, lambda each: (each.comparison, each.contestant))]


def compare(a: Results, b: Results, *, threshold: float, allow: Set[Circumstance] = frozenset()) -> RunComparison:
    """What changed from run A to run B; raises BadInput if they cannot be compared."""
    pairs = cell_pairs(a, b)
    if not pairs:
        raise BadInput(f"{a.folder} and {b.folder} have no comparison in common: name two runs of one plan")
    differ = differences(a, b)
    refused = [f"{line}: {ADVICE[of]}, or allow it with --allow {of}" for of, line in differ.items() if of not in allow]
    if refused:
        raise BadInput("\n".join(refused))
    only_a, only_b = unpaired_contestants(a, b)
    drafts, left_out = list[_Draft](), [NotCompared(what=each, why="only B measured it") for each in only_b]
    missing = [NotCompared(what=each, why=ONLY_A) for each in only_a]
    if "plan" in allow:
        left_out, missing = [*left_out, *missing], []
    for _, group in groupby(pairs, lambda pair: pair.at_a):
        found, absent, lost = _of_comparison(a, b, list(group), threshold)
        drafts += found
        left_out += absent
        missing += lost
    return _judged(a, b, drafts, threshold, tuple(differ.values()), left_out, missing)


def compare_within(run: Results, *, threshold: float) -> RunComparison:
    """What changed from each contestant's reference to the contestant, paired by their common blocks."""
    drafts, left_out, missing = list[_Draft](), list[NotCompared](), list[NotCompared]()
    if all(len(verdict.titles) == 1 for verdict in run.verdicts):
        raise BadInput(f"{run.folder} measured one contestant alone: name the run to compare it with")
    for comparison, verdict in zip(run.plan.comparisons, run.verdicts, strict=True):
        for slot, title in list(enumerate(verdict.titles))[1:]:
            why_not = _why_not_within(verdict, title, _reference_within(comparison, verdict, slot))
            found = [] if why_not else list(_paired_drafts(comparison, verdict, title, threshold))
            drafts += found
            if not found:
                absent = left_out if title in verdict.left_out else missing
                why = why_not or f"fewer than {blocks_min(1)} whole blocks"
                absent.append(NotCompared(what=where(verdict.name, title), why=why))
    return _judged(run, run, drafts, threshold, (), left_out, missing)


def _why_not_within(verdict: ComparisonVerdict, title: str, reference: str) -> str:
    """Why a contestant cannot be compared with its reference; empty if it can."""
    blocked = _blocked_in(verdict, (title, reference))
    if blocked:
        other, why = next(iter(blocked.items()))
        return why if other == title else f"{other}: {why}"
    died, told = _deaths(verdict, title)
    before, _ = _deaths(verdict, reference)
    return f"its server died in {died} trials, and {reference} in {before}: {told}" if died > before else ""


def _reference_within(comparison: Comparison, verdict: ComparisonVerdict, slot: int) -> str:
    """A contestant's reference in its run: the first contestant, or in a ladder the nearest rung that took part."""
    title = verdict.titles[slot]
    references = (each.reference for each in verdict.estimates if each.contestant == title)
    return next(references, verdict.titles[comparison.reference(slot)])


def where(comparison: str, contestant: str) -> str:
    """A contestant at a setting for lists and tables. The one comparison of `iolab vs` is not named."""
    return contestant if comparison in ("vs", "all") else f"{comparison}: {contestant}"


class _Draft(NamedTuple):
    """A change without its word, which depends on all drafts (Holm's correction)."""

    comparison: str
    contestant: str
    metric: Metric
    names: tuple[str, str]
    levels: tuple[Level, Level]
    ratio: stats.Ratio
    effect: float
    bound: Bound
    blocks: tuple[int, int]
    effect_min: float
    without_drift: bool = True
    reference: str | None = None
    undecidable: str = ""


def _judged(
    a: Results,
    b: Results,
    drafts: Sequence[_Draft],
    threshold: float,
    differ: tuple[str, ...],
    left_out: Iterable[NotCompared],
    missing: Iterable[NotCompared],
) -> RunComparison:
    """The drafts with their words, after Holm's correction over all of them."""
    adjusted = stats.holm([draft.ratio.p_value for draft in drafts])
    return RunComparison(
        folder_a=str(a.folder),
        began_a=a.began,
        folder_b=str(b.folder),
        began_b=b.began,
        threshold=threshold,
        changes=tuple(_change(draft, p, len(drafts)) for draft, p in zip(drafts, adjusted, strict=True)),
        differences=differ,
        left_out=tuple(left_out),
        missing=tuple(missing),
    )


def _change(draft: _Draft, p_holm: float, family: int) -> Change:
    word = bounded_word(stats.word(draft.ratio, p_holm, draft.effect), draft.ratio, draft.bound)
    why_not = draft.undecidable
    if not why_not and word == "not decided":
        why_not = (
            "the server was not the limit" if draft.bound != "exact" else "" if draft.without_drift else "unpaired"
        )
    more = None
    if word == "not decided" and not why_not:
        more = stats.blocks_to_decide(draft.ratio, min(draft.blocks), family, draft.effect)
    return Change(
        comparison=draft.comparison,
        contestant=draft.contestant,
        metric=draft.metric,
        name_a=draft.names[0],
        name_b=draft.names[1],
        level_a=draft.levels[0],
        level_b=draft.levels[1],
        **draft.ratio._asdict(),
        p_holm=p_holm,
        effect=draft.effect,
        word="not decided" if draft.undecidable else word,
        bound=draft.bound,
        blocks=draft.blocks,
        blocks_more=more,
        effect_min=draft.effect_min,
        without_drift=draft.without_drift,
        reference=draft.reference,
        why_not=why_not,
    )


def _paired_drafts(
    comparison: Comparison, verdict: ComparisonVerdict, title: str, threshold: float
) -> Iterator[_Draft]:
    """The ratios of one contestant to its reference in the same run."""
    for estimate in verdict.estimates:
        if estimate.contestant != title:
            continue
        levels = [verdict.level(estimate.metric, name) for name in (estimate.reference, title)]
        if levels[0] is None or levels[1] is None:
            continue
        yield _Draft(
            comparison=verdict.name,
            contestant=f"{estimate.reference} → {title}",
            metric=estimate.metric,
            names=(estimate.reference, title),
            levels=(levels[0], levels[1]),
            ratio=stats.Ratio(estimate.ratio, estimate.low, estimate.high, estimate.p_value),
            effect=threshold,
            bound=estimate.bound,
            blocks=(estimate.blocks, estimate.blocks),
            effect_min=estimate.effect_min,
            undecidable=_undecidable(estimate.metric, comparison),
        )


def _undecidable(metric: Metric, *comparisons: Comparison) -> str:
    """Why a metric cannot be judged; empty if it can.

    If server and generator share a processor, a latency is mostly the wait for the processor.
    """
    cells = (cell for comparison in comparisons for cell in comparison.cells)
    shared = METRICS[metric].is_time and any(cell.trial.processors == "shared" for cell in cells)
    return "server and generator share a processor" if shared else ""


@dataclass(frozen=True)
class _Contestant:
    """One contestant of a comparison in one run."""

    run: Results
    at: int
    slot: int

    @property
    def comparison(self) -> Comparison:
        return self.run.plan.comparisons[self.at]

    @property
    def verdict(self) -> ComparisonVerdict:
        return self.run.verdicts[self.at]

    @property
    def title(self) -> str:
        return self.comparison.titles[self.slot]

    def is_bound(self, metric: Metric) -> bool:
        """Whether its figure is only a bound, because the server was not the limit."""
        return bound_of(self.verdict.limits, self.title, metric) != "exact"

    @cached_property
    def used(self) -> Used:
        done = {result.trial.place: result for result in self.run.trials}
        return used_blocks(self.run.plan, self.at, done)[0]

    @property
    def trials(self) -> int:
        """The number of its trials, including the discarded ones."""
        return sum((each.trial.comparison, each.trial.slot) == (self.at, self.slot) for each in self.run.trials)

    @property
    def blocks_measured(self) -> int:
        """The number of its trials that count, one per block that counts."""
        return sum(row[self.slot] is not None for row in self.used.values())

    def values(self, metric: Metric) -> Mapping[int, Seen]:
        return values_of(self.used, metric, self.slot)

    def x(self, metric: Metric, reference: _Contestant | None) -> tuple[float, ...]:
        """For each block that counts, the logarithm of the value, or of its ratio to the reference."""
        mine = self.values(metric)
        if reference is None:
            return tuple(math.log(mine[block].value) for block in sorted(mine))
        return paired((mine, reference.values(metric)))


def _of_comparison(
    a: Results, b: Results, pairs: Sequence[CellPair], threshold: float
) -> tuple[list[_Draft], list[NotCompared], list[NotCompared]]:
    """The changes of one comparison, the contestants that A left out, and the missing ones."""
    blocked = _blocked(a, b, pairs)
    chosen = _chosen(a, b, [pair for pair in references(a, b, pairs) if pair not in blocked])
    reference = None if chosen is None else _both(a, b, chosen)
    drafts, left_out, missing = list[_Draft](), list[NotCompared](), list[NotCompared]()
    for pair in pairs:
        if pair == chosen:
            continue
        sides = _both(a, b, pair)
        found = [] if pair in blocked else list(_drafts(sides, reference, threshold))
        drafts += found
        if not found:
            why = blocked.get(pair) or _failed(sides) or f"fewer than {TRIALS_MIN} blocks of one run can be used"
            absent = left_out if sides[0].title in sides[0].verdict.left_out else missing
            absent.append(NotCompared(what=where(sides[0].comparison.name, _title(sides)), why=why))
    return drafts, left_out, missing


def _chosen(a: Results, b: Results, candidates: Sequence[CellPair]) -> CellPair | None:
    """The reference measured in most blocks of both runs, the first of equals; None if it has too few blocks.

    Only blocks that have the reference can be compared. The choice depends on no measured value.
    """
    measured = {pair: min(side.blocks_measured for side in _both(a, b, pair)) for pair in candidates}
    best = max(measured, key=lambda pair: measured[pair], default=None)
    return best if best is not None and measured[best] >= TRIALS_MIN else None


def _both(a: Results, b: Results, pair: CellPair) -> tuple[_Contestant, _Contestant]:
    return _Contestant(a, pair.at_a, pair.slot_a), _Contestant(b, pair.at_b, pair.slot_b)


def _title(sides: tuple[_Contestant, _Contestant]) -> str:
    return " → ".join(dict.fromkeys(side.title for side in sides))


def _blocked(a: Results, b: Results, pairs: Sequence[CellPair]) -> dict[CellPair, str]:
    """The contestants that cannot be compared, and why."""
    found = {}
    for pair in pairs:
        for name, side in zip("AB", _both(a, b, pair), strict=True):
            if why := _blocked_in(side.verdict, [side.title]).get(side.title):
                found[pair] = f"{why} in {name}"
        sides = _both(a, b, pair)
        sizes = {name: side.verdict.reply_bytes.get(side.title) for name, side in zip("AB", sides, strict=True)}
        known = {name: size for name, size in sizes.items() if size is not None}
        if different_work(known):
            replies = " and ".join(f"{size:,.0f} bytes in {name}" for name, size in known.items())
            found[pair] = f"its replies are of {replies}, so its work is different"
        (before, _), (after, told) = (_deaths(side.verdict, side.title) for side in sides)
        # The runs may have different numbers of blocks, for example if a pilot chose them.
        all_before, all_after = (side.trials for side in sides)
        if after * all_before > before * all_after:
            said = f"{after} of {all_after} trials of B and {before} of {all_before} of A"
            found.setdefault(pair, f"its server died in {said}: {told}")
    return found


def _deaths(verdict: ComparisonVerdict, title: str) -> tuple[int, str]:
    """The number of trials in which the server of a contestant died, and the first message.

    A server that dies more often is worse, whatever its other trials show.
    """
    died = [each for each in verdict.failures if each.contestant == title and each.kind == "died"]
    return sum(each.trials for each in died), died[0].message if died else ""


def _failed(sides: tuple[_Contestant, _Contestant]) -> str:
    """How a contestant failed, B before A; empty if it did not."""
    failures = (
        f"{each.message} (in {name})"
        for name, side in zip("BA", sides[::-1], strict=True)
        for each in side.verdict.failures
        if each.contestant == side.title
    )
    return next(failures, "")


def _blocked_in(verdict: ComparisonVerdict, titles: Iterable[str]) -> dict[str, str]:
    """The contestants among `titles` that cannot be judged in this run, and why."""
    known = verdict.left_out | verdict.not_judged
    if verdict.inconclusive is not None:
        known |= dict.fromkeys(titles, verdict.inconclusive)
    return {title: known[title] for title in titles if title in known}


def _drafts(
    sides: tuple[_Contestant, _Contestant], reference: tuple[_Contestant, _Contestant] | None, threshold: float
) -> Iterator[_Draft]:
    """The change of each metric of one contestant, as two samples."""
    beside = reference or (None, None)
    for metric in COMPARED:
        levels = [side.verdict.level(metric, side.title) for side in sides]
        x = [np.asarray(side.x(metric, other)) for side, other in zip(sides, beside, strict=True)]
        if levels[0] is None or levels[1] is None or min(map(len, x)) < TRIALS_MIN:
            continue
        without_drift = reference is not None or metric in STEADY
        ratio = stats.ratio_of_samples(x[0], x[1])
        effect_min = stats.smallest_effect_of_samples(x[0], x[1])
        if not without_drift:
            drift = max(map(stats.drift_within, x))
            ratio = ratio._replace(low=ratio.low / math.exp(drift), high=ratio.high * math.exp(drift))
            effect_min = max(effect_min, UNPAIRED_MIN, math.expm1(drift))
        yield _Draft(
            comparison=sides[0].comparison.name,
            contestant=_title(sides),
            metric=metric,
            names=("A", "B"),
            levels=(levels[0], levels[1]),
            ratio=ratio,
            effect=threshold if without_drift else max(threshold, UNPAIRED_MIN),
            bound=_bound(metric, sides, reference),
            blocks=(len(x[0]), len(x[1])),
            effect_min=effect_min,
            without_drift=without_drift,
            reference=None if reference is None else reference[0].title,
            undecidable=_undecidable(metric, *(side.comparison for side in sides)),
        )


def _bound(
    metric: Metric,
    sides: tuple[_Contestant, _Contestant],
    reference: tuple[_Contestant, _Contestant] | None,
) -> Bound:
    """The bound on (B / its reference) / (A / its reference) if some of the four figures are only bounds."""
    limited = [side.is_bound(metric) for side in sides]
    beside = [False, False] if reference is None else [side.is_bound(metric) for side in reference]
    return ratio_bound(metric, limited[1] or beside[0], limited[0] or beside[1])
