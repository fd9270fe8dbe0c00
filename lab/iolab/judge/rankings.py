"""The order of many contestants by one metric, and the ranks they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from iolab.contract.types import Frozen
from iolab.judge import stats
from iolab.judge.blocks import Seen, Used, paired, values_of
from iolab.judge.estimates import ratio_bound
from iolab.judge.levels import Level
from iolab.metrics import METRICS, RANKED_BY, Metric
from iolab.plan.plan import Comparison, blocks_min
from iolab.wording import Bound, Interval


class Ranked(Frozen):
    """One contestant's place in a ranking: `ratio` is to the best, paired over blocks, with its interval.

    Contestants whose interval against the leader of their group contains 1 share its `rank`; the next rank counts them
    all, as in sport. `rank` is None if the server was not the limit: the contestant is listed by its `bound` and could
    rank higher.
    """

    contestant: str
    rank: int | None
    ratio: float
    low: float
    high: float
    bound: Bound

    @property
    def interval(self) -> Interval:
        """The ratio as it is printed."""
        return Interval(self.ratio, self.low, self.high, self.bound)


class Ranking(Frozen):
    """The contestants of a comparison by one metric, the best first; `absent` says why the others are not listed.

    Those are the contestants that were left out, failed, did different work, have too few blocks, or had more than a
    fifth of their trials discarded: then the machine, not the server, decided which were kept.
    """

    metric: Metric
    rows: tuple[Ranked, ...]
    absent: dict[str, str]


def rankings_of(
    comparison: Comparison, used: Used, levels: Sequence[Level], absent: Mapping[str, str]
) -> tuple[Ranking, ...]:
    rankings = (_ranking(comparison, used, levels, absent, metric) for metric in _ranked_by(comparison))
    return tuple(ranking for ranking in rankings if ranking.rows)


def _ranked_by(comparison: Comparison) -> tuple[Metric, ...]:
    """The metrics that rank its contestants.

    At a given rate all serve equally many requests, so p99 replaces throughput, unless server and generator share a
    processor: then a latency is mostly the wait for the processor.
    """
    is_by_tail = all(cell.load.rate is not None and cell.trial.processors != "shared" for cell in comparison.cells)
    return ("latency_p99", "cpu_per_request") if is_by_tail else RANKED_BY


def _ranking(
    comparison: Comparison, used: Used, levels: Sequence[Level], absent: Mapping[str, str], metric: Metric
) -> Ranking:
    """The order by paired ratios to the best. Contestants that these blocks cannot separate share a rank.

    Each group is led by its best and ends before the first contestant that differs from the leader. Choosing the best
    from the data flatters it a little, and the intervals are not adjusted for their number: use a ranking to survey
    many contestants, and the words of the ratios to conclude.
    """
    bounds = {each.contestant: each.bound for each in levels if each.metric == metric and each.contestant not in absent}
    measured = {title: values_of(used, metric, comparison.titles.index(title)) for title in bounds}
    values = {title: by_block for title, by_block in measured.items() if len(by_block) >= blocks_min(1)}
    best, ratios = _to_the_best(values, more_is_better=METRICS[metric].more_is_better)
    leader, leader_rank = "", 0
    rows = []
    for place, (title, ratio) in enumerate(ratios.items(), start=1):
        is_exact = bounds[title] == "exact"
        if is_exact:
            against = _ratio(values[title], values[leader]) if leader else None
            # With too few common blocks, no difference is found.
            if not leader or (against is not None and not against.low <= 1 <= against.high):
                leader, leader_rank = title, place
        bound = ratio_bound(metric, not is_exact, bounds[best] != "exact" and title != best)
        rank = leader_rank if is_exact else None
        rows.append(Ranked(contestant=title, rank=rank, ratio=ratio.ratio, low=ratio.low, high=ratio.high, bound=bound))
    few = {title: "too few blocks" for title in bounds if title not in ratios}
    return Ranking(metric=metric, rows=tuple(rows), absent=dict(absent) | few)


def _to_the_best(
    values: Mapping[str, Mapping[int, Seen]], *, more_is_better: bool
) -> tuple[str, dict[str, stats.Ratio]]:
    """The best by paired ratios, and the ratios of all to it, the best first.

    Pairing needs a common side: first the contestant with the best median. The one with the best ratio to it is the
    best, and all ratios are computed again to that one, so its own is 1.
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
    """Every paired ratio to the best, except those with too few common blocks."""
    ratios = {title: _ratio(each, values[best]) for title, each in values.items()}
    return {title: ratio for title, ratio in ratios.items() if ratio is not None}


def _ratio(above: Mapping[int, Seen], below: Mapping[int, Seen]) -> stats.Ratio | None:
    return stats.ratio_of_pairs(paired((above, below)))
