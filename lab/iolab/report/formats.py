"""How figures are written on a page: significant digits, intervals, and counts with their nouns."""

from __future__ import annotations

from decimal import Decimal

from markupsafe import Markup

from iolab.judge.estimates import Estimate
from iolab.judge.levels import Level
from iolab.judge.rankings import Ranked
from iolab.metrics import Row
from iolab.report.figures import Figure
from iolab.wording import BOUND_SIGNS, NOTHING


def number(value: float) -> str:
    """Three significant digits, two below 1, and all digits before the point; trailing zeros stay."""
    if value >= 100:
        return f"{value:,.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 1 or value == 0 else f"{Decimal(f'{value:#.2g}'):f}"


def level_text(level: Level, shown: Row) -> str:
    """A median with its interval, in the metric's unit."""
    return BOUND_SIGNS[level.bound] + interval_text(level.median, level.low, level.high, shown.scale)


def figure_text(figure: Figure | None, scale: float = 1.0) -> str:
    return NOTHING if figure is None else interval_text(*figure, scale)


def figure_cell(figure: Figure | None, scale: float = 1.0) -> Markup:
    return Markup(NOTHING) if figure is None else stacked(figure.median, figure.low, figure.high, scale)


def stacked(median: float, low: float | None, high: float | None, scale: float) -> Markup:
    """A median with its interval below it, as a cell of a table."""
    text = Markup("{}").format(number(median / scale))
    if low is None or high is None:
        return text
    return text + Markup("<small>[{}, {}]</small>").format(number(low / scale), number(high / scale))


def interval_text(median: float, low: float | None, high: float | None, scale: float) -> str:
    if low is None or high is None:
        return number(median / scale)
    return f"{number(median / scale)} [{number(low / scale)}, {number(high / scale)}]"


def count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def ratio_text(estimate: Estimate) -> str:
    """A ratio with its interval, as on the terminal."""
    return str(estimate.interval)


def rank_text(row: Ranked) -> str:
    """The ratio to the best with its interval; the best itself has none."""
    return f"{BOUND_SIGNS[row.bound]}the best" if row.low == row.high else str(row.interval)
