"""A run as one HTML document: question and verdict first, then every reason to doubt them, then the figures.

The page loads nothing and runs nothing: its policy forbids both, and allows only the one style sheet by its digest.
Every text goes through the template's escaping; drawings are let through by `drawing`.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import jinja2
from markupsafe import Markup

from iolab import claims, stats, verdict
from iolab.plan import Metric, Plan, Result
from iolab.report import charts, commands, drawing, figures, palette
from iolab.report.figures import ContestantRow, Figure
from iolab.store import Trials
from iolab.verdict import Bound, ComparisonVerdict, Estimate, Level

# Comparisons whose drawings would be more than these together get their tables only: each drawing takes a tenth of a
# second to make and some kilobytes to load, and nobody scrolls through more.
DRAWINGS_MAX = 120
# The drawings of a comparison besides one over time for each contestant: four of levels, one of quantiles.
DRAWINGS_OF_LEVELS = 5
# Trials beyond these are left to the record: a browser lays out a table as a whole.
TRIALS_MAX = 5_000
SAME = f"the same requests within {stats.EFFECT * 100:.0f} %"
BOUNDS: dict[Bound, str] = {"exact": "", "at least": "≥ ", "at most": "≤ ", "unknown": "? "}


class Shown(NamedTuple):
    """How a metric is shown: its name, its unit, by what its figures are divided, and which side is better."""

    name: str
    unit: str
    scale: float
    better: str


METRICS: dict[Metric, Shown] = {
    "throughput": Shown("Throughput", "requests/s", 1.0, "right"),
    "cpu_per_request": Shown("CPU per request", "µs", 1e3, "left"),
    "latency_p50": Shown("Latency p50", "µs", 1e3, "left"),
    "latency_p99": Shown("Latency p99", "µs", 1e3, "left"),
    "rss": Shown("Resident memory", "MiB", float(1 << 20), "left"),
}


class Drawing(NamedTuple):
    """A chart with the heading over it and the sentence that says how to read it."""

    heading: str
    caption: str
    svg: Markup
    legend: tuple[tuple[int, str], ...] = ()


class ComparisonPart(NamedTuple):
    """One comparison as the page shows it."""

    draws: bool
    found: ComparisonVerdict
    workload: str
    rows: tuple[ContestantRow, ...]
    drawings: tuple[Drawing, ...]
    timelines: tuple[Drawing, ...]
    by_hand: tuple[commands.ByHand, ...]


def render(plan: Plan, machine: Mapping[str, Any], trials: Trials) -> str:
    """The whole document. Pure: the same run gives the same text."""
    results = [result for result in trials.results if plan.holds(result.trial)]
    done = {result.trial.place: result for result in results}
    verdicts = verdict.judge(plan, results)
    style = palette.css() + _resource("style.css")
    rows = figures.trial_rows(plan, done, results)
    drawings = itertools.accumulate(DRAWINGS_OF_LEVELS + len(comparison.cells) for comparison in plan.comparisons)
    drawn = sum(count <= DRAWINGS_MAX for count in drawings)
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            plan=plan,
            policy=_policy(style),
            style=Markup(style),
            headline=headline(verdicts),
            verdicts=verdicts,
            unfinished=_unfinished(plan, verdicts),
            faults=trials.faults,
            unequal=[
                (found.name, figures.unequal(plan, at, found, figures.counted(plan, at, done)))
                for at, found in enumerate(verdicts)
            ],
            limits=figures.limits(plan),
            ratios=_ratio_drawings(verdicts),
            parts=[_part(plan, at, found, done, draws=at < drawn) for at, found in enumerate(verdicts)],
            claims=claims.judge(plan, results),
            published=claims.beside_published(plan, verdicts),
            trials=rows[:TRIALS_MAX],
            trials_left_out=max(0, len(rows) - TRIALS_MAX),
            machine=figures.machine_rows(machine),
            identity=_identity(machine, results),
            again=commands.again(plan),
            paragraphs=[part for part in plan.analysis.split("\n\n") if part.strip()],
            metrics=METRICS,
            bounds=BOUNDS,
            effect=stats.EFFECT,
        )
    )


def headline(verdicts: Sequence[ComparisonVerdict]) -> str:
    """The verdict of the whole run in a sentence for each pair of contestants."""
    if len(verdicts) == 1:
        return verdicts[0].sentence
    pairs = dict.fromkeys((title, found.titles[0]) for found in verdicts for title in found.titles[1:])
    if not pairs:
        return " ".join(found.sentence for found in verdicts)
    return " ".join(_pair_sentence(verdicts, *pair) for pair in pairs)


def _pair_sentence(verdicts: Sequence[ComparisonVerdict], contestant: str, reference: str) -> str:
    """Where one contestant served more, fewer or the same requests as the other, and between which ratios."""
    settings = [found for found in verdicts if contestant in found.titles[1:] and found.titles[0] == reference]
    estimates = [found.estimate("throughput", contestant) for found in settings]
    differing = [each for each in estimates if each is not None and each.word == "differs"]
    every: list[tuple[str, list[Estimate | None]]] = [
        ("more requests", [each for each in differing if each.ratio > 1]),
        ("fewer requests", [each for each in differing if each.ratio < 1]),
        (SAME, [each for each in estimates if each is not None and each.word == "same"]),
        ("not decided", [e for e in estimates if e is None or e.word == "not decided"]),
    ]
    groups = [(what, group) for what, group in every if group]
    if len(groups) == 1:
        what, group = groups[0]
        where = {1: settings[0].name, 2: "both settings"}.get(len(group), f"all {len(group)} settings")
        return f"{contestant} against {reference}: {what} at {where}{_range(group)}."
    told = ", ".join(f"{what} at {len(group)}{_range(group)}" for what, group in groups)
    return f"{contestant} against {reference}, of {len(settings)} settings: {told}."


def _range(group: Sequence[Estimate | None]) -> str:
    ratios = [each.ratio for each in group if each is not None]
    if len(ratios) < len(group):
        return ""
    low, high = f"{min(ratios):.2f}", f"{max(ratios):.2f}"
    return f" ({low}×)" if low == high else f" ({low}× to {high}×)"


def ratio_rows(verdicts: Iterable[ComparisonVerdict], metric: Metric) -> list[charts.RatioRow]:
    """The ratios of one metric as rows of a chart; those that a limit leaves unknown are not drawn."""
    verdicts = list(verdicts)
    return [
        charts.RatioRow(
            heading=found.name if len(verdicts) > 1 else "",
            label=f"{each.contestant} / {each.reference}",
            text=ratio_text(each),
            ratio=each.ratio,
            low=each.low,
            high=each.high,
            decided=each.word == "differs",
        )
        for found in verdicts
        for each in found.estimates
        if each.metric == metric and each.bound != "unknown"
    ]


def ratio_text(estimate: Estimate) -> str:
    """A ratio with its interval, two digits after the point: finer ones are noise on any machine."""
    return f"{BOUNDS[estimate.bound]}{estimate.ratio:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def _ratio_drawings(verdicts: Sequence[ComparisonVerdict]) -> list[Drawing]:
    drawings = []
    for metric in ("throughput", "cpu_per_request", "latency_p50", "latency_p99"):
        rows = ratio_rows(verdicts, metric)
        if rows:
            shown = METRICS[metric]
            chart = charts.ratios(rows, f"ratio ({shown.better} is better)")
            said = "; ".join(f"{row.heading} {row.label} {row.text}".strip() for row in rows)
            caption = (
                f"The first {charts.ROWS_MAX} of {len(rows)}; the table has all." if len(rows) > charts.ROWS_MAX else ""
            )
            drawings.append(Drawing(shown.name, caption, drawing.inline(chart, f"Ratios of {shown.name}", said)))
    return drawings


def _part(plan: Plan, index: int, found: ComparisonVerdict, done: figures.Done, *, draws: bool) -> ComparisonPart:
    used = figures.counted(plan, index, done)
    rows = figures.contestant_rows(found, used)
    return ComparisonPart(
        draws=draws,
        found=found,
        workload=figures.workload_words(plan.comparisons[index].cells[0]),
        rows=tuple(rows),
        drawings=tuple(_level_drawings(found, rows)) if draws else (),
        timelines=tuple(_timelines(plan, index, found, done)) if draws else (),
        by_hand=commands.by_hand(plan, index),
    )


def _level_drawings(found: ComparisonVerdict, rows: Sequence[ContestantRow]) -> Iterable[Drawing]:
    for metric, shown in METRICS.items():
        levels = [level for level in found.levels if level.metric == metric]
        if levels and not metric.startswith("latency"):
            yield _strips(shown.name, shown.unit, [_strip_row(found, level, shown) for level in levels])
    switching = [row for row in rows if row.switches is not None]
    if switching:
        strips = [
            charts.StripRow(row.slot, row.title, _figure_text(row.switches), row.switches_values, *row.switches)
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
        said = "; ".join(f"{found.titles[p.slot]} {p.quantile} {number(p.value)} µs" for p in points)
        svg = drawing.inline(charts.quantiles(points), "Latency by quantile", said)
        legend = tuple((row.slot % len(palette.CONTESTANTS), row.title) for row in rows)
        yield Drawing("Latency, µs, service time", "", svg, legend)


def _strips(name: str, unit: str, rows: Sequence[charts.StripRow]) -> Drawing:
    said = "; ".join(f"{row.label} {row.text}" for row in rows)
    svg = drawing.inline(charts.strips(rows, unit), name, said)
    return Drawing(f"{name}, {unit}", "", svg)


def _strip_row(found: ComparisonVerdict, level: Level, shown: Shown) -> charts.StripRow:
    low, high = (None if end is None else end / shown.scale for end in (level.low, level.high))
    return charts.StripRow(
        slot=found.titles.index(level.contestant),
        label=level.contestant,
        text=level_text(level, shown),
        values=tuple(value / shown.scale for value in level.values),
        median=level.median / shown.scale,
        low=low,
        high=high,
    )


def _timelines(plan: Plan, index: int, found: ComparisonVerdict, done: figures.Done) -> Iterable[Drawing]:
    of_slots = figures.lines(plan, index, done)
    drawn = [line for lines in of_slots.values() for line in lines]
    begin_s = min((line.time_s[0] for line in drawn), default=0.0)
    top_per_s = max((max(line.rate_per_s) for line in drawn), default=1.0) or 1.0
    for slot, lines in of_slots.items():
        if lines:
            void = sum(line.void for line in lines)
            said = _count(len(lines), "trial") + (f", {void} void" if void else "")
            title = found.titles[slot]
            chart = charts.timeline(lines, begin_s, top_per_s)
            yield Drawing(title, said, drawing.inline(chart, f"Throughput of {title} over time", said))


def _unfinished(plan: Plan, verdicts: Sequence[ComparisonVerdict]) -> list[str]:
    """What is still missing for the verdict that was planned."""
    said = []
    for found in verdicts:
        if found.inconclusive is not None:
            said.append(f"{found.name}: {found.inconclusive}: do not read its ratios as a verdict.")
        elif found.blocks_used < found.blocks_planned:
            void = f", {found.blocks_void} void" if found.blocks_void else ""
            said.append(f"{found.name}: {found.blocks_used} of {found.blocks_planned} blocks count{void}.")
    return said


def _identity(machine: Mapping[str, Any], results: Sequence[Result]) -> list[tuple[str, str]]:
    """Which builds were measured, from the record of the machine and from what the processes said of themselves."""
    engine = machine.get("engine")
    rows = [(f"engine {key}", str(value)) for key, value in engine.items()] if isinstance(engine, dict) else []
    said = dict.fromkeys(r.report.build for r in results if r.report is not None)
    rows.append(("build the generator said", ", ".join(said) or "nothing measured yet"))
    said = dict.fromkeys(r.ready.build for r in results if r.ready is not None)
    return [*rows, ("build the servers said", ", ".join(said) or "they say none")]


def number(value: float) -> str:
    """Three digits that matter, thousands apart."""
    if value >= 1_000:
        return f"{value:,.0f}"
    if value >= 100:
        return f"{value:.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 1 or value == 0 else f"{value:#.2g}"


def level_text(level: Level, shown: Shown) -> str:
    """A median with its interval, in the metric's unit."""
    return BOUNDS[level.bound] + _interval_text(level.median, level.low, level.high, shown.scale)


def _figure_text(figure: Figure | None, scale: float = 1.0) -> str:
    return "–" if figure is None else _interval_text(*figure, scale)


def _figure_cell(figure: Figure | None, scale: float = 1.0) -> Markup:
    return Markup("–") if figure is None else _stacked(figure.median, figure.low, figure.high, scale)


def _stacked(median: float, low: float | None, high: float | None, scale: float) -> Markup:
    """A median with its interval below it, as a cell of a table."""
    text = Markup("{}").format(number(median / scale))
    if low is None or high is None:
        return text
    return text + Markup("<small>[{}, {}]</small>").format(number(low / scale), number(high / scale))


def _interval_text(median: float, low: float | None, high: float | None, scale: float) -> str:
    if low is None or high is None:
        return number(median / scale)
    return f"{number(median / scale)} [{number(low / scale)}, {number(high / scale)}]"


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _policy(style: str) -> str:
    """Nothing may load and nothing may run; the one style sheet is known by its digest."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"


def _resource(name: str) -> str:
    return resources.files("iolab.report").joinpath(name).read_text(encoding="utf-8")


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: _resource(f"templates/{name}")),
        autoescape=True,
        finalize=_seen,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": lambda value: "–" if value is None else number(value),
        "figure": _figure_cell,
        "level": lambda level, shown: BOUNDS[level.bound] + _stacked(level.median, level.low, level.high, shown.scale),
        "ratio": ratio_text,
        "command": commands.folded,
        "percent": lambda value: "–" if value is None else f"{value:.0%}",
        "words": lambda text: str(text).replace("_", " "),
    }
    return environment


def _seen(value: object) -> object:
    """What goes into the page: texts from outside without what cannot be seen, our own markup as it is."""
    return drawing.clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value
