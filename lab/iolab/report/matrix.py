"""Many contestants at many settings at a glance: the ratio of each to the best of its setting, and its rank."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from iolab.judge.rankings import Ranked, Ranking
from iolab.judge.verdict import ComparisonVerdict
from iolab.metrics import METRICS
from iolab.wording import BOUND_SIGNS, NOTHING

# The shares of the best at which a cell's shade gets one step darker.
STEPS = (0.2, 0.5, 0.8, 0.95)
# The most contestants named in the head of a page.
NAMED_MAX = 5


class MatrixCell(NamedTuple):
    """One contestant at one setting: its ratio to the best, its rank, and how dark the cell is, from 0 to 4."""

    text: str
    rank: str
    shade: int
    is_first: bool


class MatrixRow(NamedTuple):
    """One contestant over all settings."""

    title: str
    cells: tuple[MatrixCell, ...]


class Matrix(NamedTuple):
    """The rankings of several settings by one metric; the contestants are in the order of their mean ratio."""

    heading: str
    settings: tuple[str, ...]
    rows: tuple[MatrixRow, ...]


def matrices(verdicts: Sequence[ComparisonVerdict]) -> Iterator[Matrix]:
    """A matrix for each metric that contestants are ranked by, if two settings or more have a ranking."""
    many = [found for found in verdicts if found.rankings]
    metrics = dict.fromkeys(ranking.metric for found in many for ranking in found.rankings)
    for metric in metrics if len(many) > 1 else ():
        ranked = [(found.name, ranking) for found in many if (ranking := found.ranking(metric)) is not None]
        yield _matrix(METRICS[metric].best, ranked)


def summary(found: Sequence[Matrix]) -> str:
    """Which contestants rank first at how many settings, a line for each metric: the head of the page."""
    lines = []
    for each in found:
        firsts = [(sum(cell.is_first for cell in row.cells), row.title) for row in each.rows]
        named = [f"{title} at {count}" for count, title in sorted(firsts, key=lambda one: -one[0]) if count]
        more = f", and {len(named) - NAMED_MAX} others at fewer" if len(named) > NAMED_MAX else ""
        said = ", ".join(named[:NAMED_MAX]) + more or "none, because no server was the limit"
        lines.append(f"{each.heading}, first rank (alone or shared) of {_settings(each)}: {said}.")
    return "\n".join(lines)


def _settings(found: Matrix) -> str:
    return "1 setting" if len(found.settings) == 1 else f"{len(found.settings)} settings"


def _matrix(heading: str, ranked: Sequence[tuple[str, Ranking]]) -> Matrix:
    places = [{row.contestant: row for row in ranking.rows} for _, ranking in ranked]
    ranked_titles = [row.contestant for _, ranking in ranked for row in ranking.rows]
    titles = dict.fromkeys((*ranked_titles, *(title for _, ranking in ranked for title in ranking.absent)))
    rows = (
        MatrixRow(title, tuple(_cell(place.get(title)) for place in places))
        for title in sorted(titles, key=lambda title: -_mean_share(title, places))
    )
    return Matrix(heading, tuple(name for name, _ in ranked), tuple(rows))


def _mean_share(title: str, places: Sequence[dict[str, Ranked]]) -> float:
    """The geometric mean of the shares of the best; contestants at fewer settings come after those at more."""
    shares = [math.log(_share(place[title])) for place in places if title in place]
    return statistics.fmean(shares) - 1_000 * (len(places) - len(shares)) if shares else -math.inf


def _share(row: Ranked) -> float:
    """The share of the best: 1 is the best, also for metrics where less is better."""
    return min(row.ratio, 1 / row.ratio)


def _cell(row: Ranked | None) -> MatrixCell:
    if row is None or row.bound == "unknown":
        return MatrixCell(NOTHING, "", 0, False)
    rank = "" if row.rank is None else str(row.rank)
    shade = sum(_share(row) >= step for step in STEPS)
    return MatrixCell(f"{BOUND_SIGNS[row.bound]}{_digits(row.ratio)}", rank, shade, row.rank == 1)


def _digits(ratio: float) -> str:
    """Two decimals below 10 and none above, which fits a cell."""
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"
