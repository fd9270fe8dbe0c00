"""How throughput grows with the workers of a server: contention and coherence, if there are enough processors.

The law of `judge/usl.py` is fitted over the worker counts of one contestant that were measured in the same blocks. A
count is used only if each worker had a processor and the server was the limit: workers without their own processor take
turns, and a throughput limited by the generator is not the server's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from iolab.contract.types import Frozen
from iolab.judge import usl
from iolab.judge.blocks import used_blocks, values_of
from iolab.judge.levels import Level
from iolab.judge.usl import End, Law
from iolab.judge.verdict import ComparisonVerdict
from iolab.plan.plan import Place, Plan, blocks_min, name_of
from iolab.plan.settings import Cell
from iolab.results.records import Result
from iolab.wording import number

AXIS = "server.workers"
# Two counts are a comparison and do not show how throughput grows.
PLANNED_COUNTS_MIN = 3
# The law has three coefficients; this leaves three degrees of freedom to show a bad fit.
FITTED_COUNTS_MIN = 6
# A peak beyond this multiple of the largest count is a guess.
PEAK_FACTOR_MAX = 2
# Why a count of workers is not used.
NO_PROCESSOR = "no processor for each worker"
NOT_THE_LIMIT = "the server was not the limit"
DISCARDED = "too many trials were discarded"
NOT_MEASURED = "not measured"


class Count(Frozen):
    """A used worker count: the measured requests per second, and those of the law."""

    workers: int
    level: Level
    fitted_per_s: float


class Scaling(Frozen):
    """How the throughput of one contestant grows with its workers, at one setting of the other axes.

    `heading` names that setting. If nothing was fitted, `law` is None and `why_not` says why. `counts` are those used.
    `peak_workers` serve most; None if there is no peak, or only one far beyond the measured counts. `residual_max` is
    the largest distance of a median from the law, as a share of the law.
    """

    heading: str
    contestant: str
    counts: tuple[Count, ...] = ()
    law: Law | None = None
    peak_workers: float | None = None
    r_squared: float | None = None
    residual_max: float | None = None
    blocks: int = 0
    why_not: str = ""


class _Point(NamedTuple):
    """The measurement of one worker count; `why_not` is empty if it can be used."""

    workers: int
    why_not: str
    level: Level | None
    rates_per_s: Mapping[int, float]


def scalings_of(plan: Plan, results: Iterable[Result], verdicts: Sequence[ComparisonVerdict]) -> tuple[Scaling, ...]:
    """The scaling of each contestant in each group of comparisons that varies the number of workers."""
    groups = list(_groups(plan))
    # Most plans have none.
    done = {result.trial.place: result for result in results} if groups else {}
    return tuple(
        _scaling(heading, title, [_point(plan, at, title, verdicts[at], done) for at in members], plan.seed)
        for heading, members in groups
        for title in dict.fromkeys(title for at in members for title in plan.comparisons[at].titles)
    )


def _groups(plan: Plan) -> Iterator[tuple[str, list[int]]]:
    """The comparisons that differ only in the number of workers, ordered by it."""
    found: dict[str, list[int]] = {}
    for at, comparison in enumerate(plan.comparisons):
        if AXIS in comparison.setting:
            rest = {name: value for name, value in comparison.setting.items() if name != AXIS}
            heading = "" if comparison.group in ("", "all") and not rest else name_of(comparison.group, rest)
            found.setdefault(heading, []).append(at)
    for heading, members in found.items():
        if len(members) >= PLANNED_COUNTS_MIN:
            yield heading, sorted(members, key=lambda at: float(plan.comparisons[at].setting[AXIS]))


def _point(plan: Plan, at: int, title: str, found: ComparisonVerdict, done: Mapping[Place, Result]) -> _Point:
    workers = int(plan.comparisons[at].setting[AXIS])
    if title not in found.titles:
        return _Point(workers, NOT_MEASURED, None, {})
    slot, level = found.titles.index(title), found.level("throughput", title)
    why_not = _why_not(plan.comparisons[at].cells[slot], found, level, title)
    used = {} if why_not else used_blocks(plan, at, done)[0]
    rates_per_s = {block: seen.value for block, seen in values_of(used, "throughput", slot).items()}
    return _Point(workers, why_not, level, rates_per_s)


def _why_not(cell: Cell, found: ComparisonVerdict, level: Level | None, title: str) -> str:
    """Why a worker count is not used; empty if it is."""
    if cell.server.workers_in_all > _processors(cell):
        return NO_PROCESSOR
    if level is None:
        return NOT_MEASURED
    if found.inconclusive is not None or title in found.not_judged:
        return DISCARDED
    return "" if level.bound == "exact" else NOT_THE_LIMIT


def _processors(cell: Cell) -> float:
    """The server's own processors, up to its quota: none if it was not pinned or shared all with the generator."""
    own = len(set(cell.server.cpus) - set(cell.load.cpus))
    return own if cell.server.cpu_quota is None else min(own, cell.server.cpu_quota)


def _scaling(heading: str, title: str, points: Sequence[_Point], seed: int) -> Scaling:
    used = [point for point in points if not point.why_not]
    if len(used) < FITTED_COUNTS_MIN:
        return Scaling(heading=heading, contestant=title, why_not=_too_few(points, len(used)))
    blocks = sorted(set.intersection(*(set(point.rates_per_s) for point in used)))
    if len(blocks) < blocks_min(1):
        why_not = f"only {len(blocks)} whole blocks so far, {blocks_min(1)} are needed"
        return Scaling(heading=heading, contestant=title, why_not=why_not)
    return _fitted(heading, title, used, blocks, seed)


def _fitted(heading: str, title: str, used: Sequence[_Point], blocks: Sequence[int], seed: int) -> Scaling:
    """The law through the counts that are used, over the blocks in which all of them were measured."""
    workers = np.array([float(point.workers) for point in used])
    rates = np.array([[point.rates_per_s[block] for point in used] for block in blocks])
    law = usl.fitted(workers, rates, seed)
    medians, of_law = np.median(rates, axis=0), law.rate_per_s(workers)
    spread = float(((medians - medians.mean()) ** 2).sum())
    peak = law.peak_workers
    return Scaling(
        heading=heading,
        contestant=title,
        counts=tuple(
            Count(workers=point.workers, level=point.level, fitted_per_s=float(rate))
            for point, rate in zip(used, of_law, strict=True)
            if point.level is not None
        ),
        law=law,
        peak_workers=peak if peak is not None and peak <= PEAK_FACTOR_MAX * workers[-1] else None,
        r_squared=1 - float(((medians - of_law) ** 2).sum()) / spread if spread else None,
        residual_max=float(np.abs(medians / of_law - 1).max()),
        blocks=len(blocks),
    )


def _too_few(points: Sequence[_Point], used: int) -> str:
    """How many counts can be used, and why the others cannot."""
    others: dict[str, list[str]] = {}
    for point in points:
        if point.why_not:
            others.setdefault(point.why_not, []).append(str(point.workers))
    reasons = "".join(f"; {why} at {', '.join(counts)}" for why, counts in others.items())
    return f"{FITTED_COUNTS_MIN} counts of workers are needed and {used} can be used{reasons}"


def sentences(scalings: Iterable[Scaling]) -> list[str]:
    """A sentence on each scaling; a fact that holds for several contestants is stated once."""
    whose: dict[tuple[str, str], list[str]] = {}
    for each in scalings:
        whose.setdefault((each.heading, _words(each)), []).append(each.contestant)
    return [
        f"{f'{heading}: ' if heading else ''}{', '.join(titles)}: {words}."
        for (heading, words), titles in whose.items()
    ]


def _words(each: Scaling) -> str:
    if each.law is None:
        return f"contention and coherence are not fitted: {each.why_not}"
    rate = each.law.per_worker_per_s
    parts = [
        f"contention {_percent(each.law.contention)}, coherence {_percent(each.law.coherence)}, "
        f"{rate.value:,.0f} [{rate.low:,.0f}, {rate.high:,.0f}] requests per second of one worker alone",
        f"{'' if each.r_squared is None else f'R² {each.r_squared:.3f}, '}medians off by at most "
        f"{number(100 * (each.residual_max or 0), 2)} %",
    ]
    return "; ".join([*parts, _peak_words(each)])


def _peak_words(each: Scaling) -> str:
    if each.peak_workers is None:
        most = each.counts[-1].workers
        return f"no peak is known within {PEAK_FACTOR_MAX} times the {most} workers that were measured"
    if each.peak_workers <= 1:
        return "one worker serves the most requests"
    # Beyond two digits a peak is noise, also before the point.
    return f"the most requests at about {number(float(f'{each.peak_workers:.2g}'))} workers"


def _percent(end: End) -> str:
    value, low, high = (number(100 * each, 2) for each in (end.value, end.low, end.high))
    return f"{value} % [{low}, {high}]"
