"""Published tables with the measurement beside every figure, and the ratios, the only figures to compare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from iolab.judge import stats
from iolab.metrics import METRICS, Metric, value_of
from iolab.plan.claims import Figure, Published
from iolab.plan.plan import Plan
from iolab.report.failures import Broken
from iolab.report.figures import Counted
from iolab.wording import NOTHING, number

NOT_PUBLISHED = "not published"
# As many digits as most published tables have.
DIGITS = 4


class PublishedCell(NamedTuple):
    """One figure as published and as measured; `note` describes a contradiction within the source."""

    published: str
    measured: str
    note: str


class PublishedRow(NamedTuple):
    """One contestant of a published row. The ratios, published and measured, are to the first row with the metric."""

    id: str
    contestant: str
    at: str
    cells: tuple[PublishedCell, ...]
    ratio_there: str
    ratio_here: str
    broke: str


class PublishedTable(NamedTuple):
    """Published rows with the columns that any of them has. `of` names the metric of the ratios."""

    title: str
    heads: tuple[str, ...]
    of: str
    first: str
    rows: tuple[PublishedRow, ...]


class _Line(NamedTuple):
    """One contestant of a published row, beside one of our comparisons; None if none has it."""

    row: Published
    contestant: str
    at: int | None


def tables(
    plan: Plan,
    used: Sequence[Counted],
    broken: Sequence[Sequence[Broken]],
    processors: int | None,
) -> tuple[PublishedTable, ...]:
    """The published rows of a plan as tables: one, or one for each comparison title that a row belongs to."""
    of_title: dict[str, list[_Line]] = {}
    several = any(len(_beside(plan, row)) > 1 for row in plan.published)
    for row in plan.published:
        for contestant in row.figures:
            places: list[int | None] = [at for at in _beside(plan, row) if contestant in plan.comparisons[at].titles]
            for at in places or [None]:
                title = plan.comparisons[at].group if several and at is not None else ""
                of_title.setdefault(title, []).append(_Line(row, contestant, at))
    return tuple(_table(title, lines, plan, used, broken, processors) for title, lines in of_title.items() if lines)


def _beside(plan: Plan, row: Published) -> list[int]:
    """The comparisons that a row's setting selects."""
    return [at for at, comparison in enumerate(plan.comparisons) if comparison.is_at(row.at)]


def _table(
    title: str,
    lines: Sequence[_Line],
    plan: Plan,
    used: Sequence[Counted],
    broken: Sequence[Sequence[Broken]],
    processors: int | None,
) -> PublishedTable:
    metrics = list(dict.fromkeys(metric for line in lines for metric in line.row.figures[line.contestant]))
    measured = [{metric: _measured(line, metric, plan, used, processors) for metric in metrics} for line in lines]
    main = "throughput" if "throughput" in metrics else metrics[0]
    there = [line.row.number(line.contestant, main) for line in lines]
    here = [each[main] for each in measured]
    has_main = [main in line.row.figures[line.contestant] for line in lines]
    first = next((number for number, value in enumerate(there) if value), 0)
    return PublishedTable(
        title=title,
        heads=tuple(_head(metric) for metric in metrics),
        of=METRICS[main].title,
        first=f"{lines[first].row.id}, {lines[first].contestant}",
        rows=tuple(
            PublishedRow(
                id=line.row.id,
                contestant=line.contestant,
                at=_at(line, plan),
                cells=tuple(_cell(line, metric, ours[metric], lines) for metric in metrics),
                ratio_there=_ratio(there[number], there[first]),
                ratio_here=_ratio(here[number], here[first]) if has_main[number] else NOTHING,
                broke=_broke(line, broken),
            )
            for number, (line, ours) in enumerate(zip(lines, measured, strict=True))
        ),
    )


def notes(plan: Plan) -> tuple[str, ...]:
    """Notes on published rows."""
    return tuple(f"{row.id}: {row.note}" for row in plan.published if row.note)


def _head(metric: Metric) -> str:
    row = METRICS[metric]
    return f"{row.title}, {row.unit}" if row.unit else row.title


def _measured(line: _Line, metric: Metric, plan: Plan, used: Sequence[Counted], processors: int | None) -> float | None:
    """The median over the trials that count."""
    if line.at is None:
        return None
    slot = plan.comparisons[line.at].titles.index(line.contestant)
    values = [value_of(result, metric, processors=processors) for result in used[line.at].get(slot, ())]
    known = [value for value in values if value is not None]
    return stats.median_interval(known)[0] if known else None


def _cell(line: _Line, metric: Metric, measured: float | None, lines: Sequence[_Line]) -> PublishedCell:
    """Our figure below the published one; empty if another row of the same report publishes the metric."""
    figure: Figure | None = line.row.figures[line.contestant].get(metric)
    row = METRICS[metric]
    of_report = (each for each in lines if (each.contestant, each.at) == (line.contestant, line.at))
    if figure is None and any(metric in each.row.figures[each.contestant] for each in of_report):
        return PublishedCell("", "", "")
    return PublishedCell(
        published=NOT_PUBLISHED if figure is None else _published(figure, row.scale),
        measured=NOTHING if measured is None else number(measured / row.scale, DIGITS, least=0),
        note="" if figure is None else figure.note,
    )


def _published(figure: Figure, scale: float) -> str:
    """A figure as the source prints it, and the corrected one if it differs."""
    if figure.value is None:
        return figure.word
    should = "" if figure.should_be is None else f" (should be {number(figure.should_be / scale, DIGITS, least=0)})"
    return f"{number(figure.value / scale, DIGITS, least=0)}{should}"


def _ratio(value: float | None, first: float | None) -> str:
    return f"{value / first:.3f}" if value and first else NOTHING


def _at(line: _Line, plan: Plan) -> str:
    return "not run here" if line.at is None else plan.comparisons[line.at].name


def _broke(line: _Line, broken: Sequence[Sequence[Broken]]) -> str:
    found = () if line.at is None else broken[line.at]
    return next((each.short for each in found if each.title == line.contestant), "")
