"""The drawings of a page: ratios, rankings, the trials of each contestant, latencies, and throughput over time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from markupsafe import Markup

from iolab.judge.estimates import Estimate
from iolab.judge.levels import Level
from iolab.judge.verdict import ComparisonVerdict
from iolab.metrics import COMPARED, METRICS, Metric, Row
from iolab.report import charts, drawing, figures, formats, palette
from iolab.report.failures import Broken
from iolab.report.figures import ContestantRow
from iolab.wording import BOUND_SIGNS


class Drawing(NamedTuple):
    """A chart with the heading over it and the sentence that says how to read it."""

    heading: str
    caption: str
    svg: Markup
    legend: tuple[tuple[int, str], ...] = ()


def ratio_rows(verdicts: Iterable[ComparisonVerdict], metric: Metric) -> list[charts.RatioRow]:
    """The ratios of one metric as rows of a chart, without those that a limit leaves unknown."""
    verdicts = list(verdicts)
    pair = only_pair(verdicts)
    return [
        charts.RatioRow(
            heading=found.name if len(verdicts) > 1 and pair is None else "",
            label=_ratio_label(found, each, alone=pair is not None and len(verdicts) > 1),
            text=formats.ratio_text(each),
            ratio=each.ratio,
            low=each.low,
            high=each.high,
            decided=each.word == "differs",
        )
        for found in verdicts
        for each in found.estimates
        if each.metric == metric and each.bound != "unknown"
    ]


def _ratio_label(found: ComparisonVerdict, estimate: Estimate, *, alone: bool) -> str:
    """The label of a ratio: the setting if all ratios are of one pair; in a ladder the rung, below its reference."""
    if alone:
        return found.name
    return estimate.contestant if found.ladder else f"{estimate.contestant} / {estimate.reference}"


def only_pair(verdicts: Iterable[ComparisonVerdict]) -> str | None:
    """Contestant / reference if all ratios have the same two; the chart then names them once."""
    pairs = {f"{each.contestant} / {each.reference}" for found in verdicts for each in found.estimates}
    return pairs.pop() if len(pairs) == 1 else None


def ratio_drawings(verdicts: Sequence[ComparisonVerdict]) -> list[Drawing]:
    drawings = []
    # A ranking has a drawing of its own.
    verdicts = [found for found in verdicts if not found.rankings]
    for metric, shown in COMPARED.items():
        rows = ratio_rows(verdicts, metric) if shown.is_ranked or shown.is_time else []
        if rows:
            chart = charts.ratios(rows, f"ratio ({shown.better} is better)")
            said = "; ".join(f"{row.heading} {row.label} {row.text}".strip() for row in rows)
            caption = (
                f"The first {charts.ROWS_MAX} of {len(rows)}; the table has all." if len(rows) > charts.ROWS_MAX else ""
            )
            pair = only_pair(verdicts)
            heading = shown.title if pair is None or len(verdicts) == 1 else f"{shown.title}, {pair}"
            drawings.append(Drawing(heading, caption, drawing.inline(chart, f"Ratios of {shown.title}", said)))
    return drawings


def ranking_drawings(found: ComparisonVerdict) -> Iterable[Drawing]:
    for ranking in found.rankings:
        shown = METRICS[ranking.metric]
        rows = [
            charts.RatioRow(
                heading="",
                label=f"{each.rank or '–'}   {each.contestant}",
                text=formats.rank_text(each),
                ratio=each.ratio,
                low=each.low,
                high=each.high,
                decided=each.low == each.high or each.low > 1 or each.high < 1,
            )
            for each in ranking.rows
            if each.bound != "unknown"
        ]
        chart = charts.ratios(rows, f"ratio to the best ({shown.better} is better)")
        said = "; ".join(f"{row.label} {row.text}" for row in rows)
        yield Drawing(shown.title, "", drawing.inline(chart, f"Ranking by {shown.title}", said))


def level_drawings(
    found: ComparisonVerdict, rows: Sequence[ContestantRow], broken: Sequence[Broken], used: figures.Counted
) -> Iterable[Drawing]:
    """The trials of each contestant by each metric, and its latencies; a broken one has a text instead of its bar."""
    for metric, shown in COMPARED.items():
        levels = [level for level in found.levels if level.metric == metric]
        if levels and not shown.is_time:
            strips = [_strip_row(found, level, shown) for level in levels]
            measured = {level.contestant for level in levels}
            strips += [_broken_row(each) for each in broken if each.title not in measured]
            yield _strips(shown.title, shown.unit, sorted(strips, key=lambda row: row.slot))
    switching = [row for row in rows if row.switches is not None]
    if switching:
        strips = [
            charts.StripRow(row.slot, row.title, formats.figure_text(row.switches), row.switches_values, *row.switches)
            for row in switching
            if row.switches is not None
        ]
        yield _strips("Context switches", "per request", strips)
    points = [
        charts.QuantilePoint(row.slot, name.replace("_", "."), *figures.scaled(figure, 1e3))
        for row in rows
        for name, figure in row.quantiles.items()
        if figure.median > 0
    ]
    if points:
        bounds = {row.slot: BOUND_SIGNS[row.latency_bound] for row in rows}
        said = "; ".join(
            f"{found.titles[p.slot]} {p.quantile} {bounds[p.slot]}{formats.number(p.value)} µs" for p in points
        )
        curves = [curve for row in rows if (curve := figures.quantile_curve(row.slot, used[row.slot])) is not None]
        svg = drawing.inline(charts.quantiles(points, curves), "Latency by percentile", said)
        legend = tuple((row.slot % len(palette.CONTESTANTS), f"{bounds[row.slot]}{row.title}".strip()) for row in rows)
        caption = "≤: the server was not the limit: these latencies are upper bounds." if any(bounds.values()) else ""
        yield Drawing("Latency by percentile, µs, service time", caption, svg, legend)


def _strips(name: str, unit: str, rows: Sequence[charts.StripRow]) -> Drawing:
    said = "; ".join(f"{row.label} {row.text}" for row in rows)
    svg = drawing.inline(charts.strips(rows, unit), name, said)
    return Drawing(f"{name}, {unit}", "", svg)


def _broken_row(broken: Broken) -> charts.StripRow:
    return charts.StripRow(broken.slot, broken.title, f"✕ {broken.short.removeprefix('broke ')}", (), None, None, None)


def _strip_row(found: ComparisonVerdict, level: Level, shown: Row) -> charts.StripRow:
    low, high = (None if end is None else end / shown.scale for end in (level.low, level.high))
    return charts.StripRow(
        slot=found.titles.index(level.contestant),
        label=level.contestant,
        text=formats.level_text(level, shown),
        values=tuple(value / shown.scale for value in level.values),
        median=level.median / shown.scale,
        low=low,
        high=high,
    )
