"""A run as one HTML document: question and verdict, what to know before believing them, then the figures.

The page loads nothing and runs nothing: its policy forbids both, and allows only the one style sheet by its digest.
Every text goes through the template's escaping; drawings are let through by `drawing`.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import jinja2
from markupsafe import Markup

from iolab.judge import claims, sentences, stats
from iolab.judge.estimates import Estimate
from iolab.judge.levels import Level
from iolab.judge.rankings import Ranked
from iolab.judge.results import Results
from iolab.judge.verdict import ComparisonVerdict
from iolab.metrics import COMPARED, METRICS, RANKED_BY, Metric, Row
from iolab.plan.plan import Plan
from iolab.report import charts, commands, drawing, figures, palette
from iolab.report.figures import ContestantRow, Figure, RankRow
from iolab.results.records import Result
from iolab.wording import BOUND_SIGNS, Interval

# Comparisons whose drawings would be more than these together get their tables only: each drawing takes a tenth of a
# second to make and some kilobytes to load, and nobody scrolls through more.
DRAWINGS_MAX = 120
# The drawings of a comparison besides one over time for each contestant: of levels, context switches and quantiles.
DRAWINGS_OF_LEVELS = sum(not row.is_time for row in COMPARED.values()) + 2
# Trials beyond these are left to the record: a browser lays out a table as a whole.
TRIALS_MAX = 5_000
# What was not equal, in the box above the charts; the rest of it is folded away.
LINES_MAX = 3
# Texts of the lab that a run was stored with, written before there was a space in front of the sign.
PERCENT = re.compile(r"(?<=\d)%")
# A line that a person wrapped in the file goes on; only an item of a list begins a line of its own.
WRAPPED = re.compile(r"\n(?![ \t]*[-*] )")
SAME = f"the same requests within {stats.EFFECT * 100:.0f} %"


class Drawing(NamedTuple):
    """A chart with the heading over it and the sentence that says how to read it."""

    heading: str
    caption: str
    svg: Markup
    legend: tuple[tuple[int, str], ...] = ()


class ComparisonPart(NamedTuple):
    """One comparison as the page shows it. `named` says what the contestants are that have a label."""

    draws: bool
    found: ComparisonVerdict
    workload: str
    named: tuple[tuple[str, str], ...]
    rows: tuple[ContestantRow, ...]
    ranks: tuple[RankRow, ...]
    rankings: tuple[Drawing, ...]
    drawings: tuple[Drawing, ...]
    timelines: tuple[Drawing, ...]
    by_hand: tuple[commands.ByHand, ...]


def render(run: Results) -> str:
    """The whole document. Pure: the same run gives the same text."""
    plan, results, verdicts = run.plan, run.trials, run.verdicts
    done = {result.trial.place: result for result in results}
    style = palette.css() + resource("style.css")
    used = [figures.counted(plan, at, done) for at in range(len(verdicts))]
    rows = figures.trial_rows(plan, used, results)
    drawings = itertools.accumulate(
        len(RANKED_BY) if comparison.many else DRAWINGS_OF_LEVELS + len(comparison.cells)
        for comparison in plan.comparisons
    )
    drawn = sum(count <= DRAWINGS_MAX for count in drawings)
    return (
        templates()
        .get_template("page.html.j2")
        .render(
            plan=plan,
            policy=policy_of(style),
            style=Markup(style),
            headline=headline(verdicts),
            verdicts=verdicts,
            unfinished=_unfinished(plan, verdicts),
            faults=run.faults,
            unequal=_unequal(plan, verdicts, used),
            left_out=_left_out(verdicts),
            lines_max=LINES_MAX,
            discarded=_discarded_words(verdicts, results),
            warnings=figures.warning_table(plan, verdicts, results),
            inconclusive=[found.name for found in verdicts if found.inconclusive is not None],
            limits=figures.limits(plan),
            ratios=_ratio_drawings(verdicts),
            parts=[_part(run, at, found, done, used[at], draws=at < drawn) for at, found in enumerate(verdicts)],
            claims=run.claims,
            published=claims.beside_published(plan, verdicts),
            trials=rows[:TRIALS_MAX],
            trials_left_out=max(0, len(rows) - TRIALS_MAX),
            machine=figures.machine_rows(run.machine),
            identity=_identity(run.machine, results),
            again=commands.again(plan),
            paragraphs=[WRAPPED.sub(" ", part.strip()) for part in plan.analysis.split("\n\n") if part.strip()],
            metrics=METRICS,
            compared=COMPARED,
            ranked_by=RANKED_BY,
            quantiles={name: f"{name.replace('_', '.')} µs" for name in figures.QUANTILES},
            bounds=BOUND_SIGNS,
            effect=stats.EFFECT,
        )
    )


def headline(verdicts: Sequence[ComparisonVerdict]) -> str:
    """The verdict of the whole run: a sentence for each pair of contestants, or a line for each ranking or ladder."""
    if len(verdicts) == 1:
        return verdicts[0].sentence
    if any(found.rankings or found.ladder for found in verdicts):
        return "\n".join(f"{found.name}: {found.sentence}" for found in verdicts)
    if all(found.inconclusive is not None for found in verdicts):
        why = _discarded_sentence(verdicts, len(verdicts))
        return f"No verdict. {why} The ratios are drawn, but nothing follows from them."
    pairs = dict.fromkeys((title, found.titles[0]) for found in verdicts for title in found.titles[1:])
    if not pairs:
        return " ".join(found.sentence for found in verdicts)
    return " ".join(_pair_sentence(verdicts, *pair) for pair in pairs)


def _pair_sentence(verdicts: Sequence[ComparisonVerdict], contestant: str, reference: str) -> str:
    """Where one contestant served more, fewer or the same requests as the other, and between which ratios."""
    settings = [found for found in verdicts if contestant in found.titles[1:] and found.titles[0] == reference]
    decided = [found.estimate("throughput", contestant, reference) for found in settings if found.inconclusive is None]
    estimates = [each for each in decided if each is not None]
    differing = [each for each in estimates if each.word == "differs"]
    open_ = [each for each in estimates if each.word == "not decided"]
    groups = [
        ("more requests", [each for each in differing if each.ratio > 1], True),
        (f"fewer requests, {reference} serves more", [each for each in differing if each.ratio < 1], True),
        (SAME, [each for each in estimates if each.word == "same"], True),
        ("not decided (interval too wide)", [each for each in open_ if each.bound == "exact"], False),
        ("not decided (the generator was the limit)", [each for each in open_ if each.bound != "exact"], False),
    ]
    counted = [
        (what, len(group), f" ({_range(group)})" if with_range else "") for what, group, with_range in groups if group
    ]
    counted += [("too few blocks", len(decided) - len(estimates), "")] if len(decided) > len(estimates) else []
    counted += [("inconclusive", len(settings) - len(decided), "")] if len(settings) > len(decided) else []
    largest = _largest_sentence(settings, contestant, reference)
    if len(counted) == 1:
        what, count, ratios = counted[0]
        at = _where([s.name for s in settings], count)
        return f"{contestant} against {reference}: {what} at {at}{ratios}.{largest}"
    parts = ", ".join(f"{what} at {count}{ratios}" for what, count, ratios in counted)
    return f"{contestant} against {reference}, of {len(settings)} settings: {parts}.{largest}"


def _largest_sentence(settings: Sequence[ComparisonVerdict], contestant: str, reference: str) -> str:
    """The largest decided difference in latency or memory over all settings, where it is large enough to be named."""
    named = [(found, each) for found in settings if (each := found.named_difference(contestant, reference)) is not None]
    if not named:
        return ""
    found, each = max(named, key=lambda one: one[1].size)
    clause = sentences.decided_clause(each)
    return f" Largest other difference: {clause}, at {found.name}."


def _range(group: Sequence[Estimate]) -> str:
    """The smallest and the largest ratio of a group, each in the direction of more."""
    ratios = sorted((sentences.turned(each)[2] for each in group), key=lambda each: each.ratio)
    return " to ".join(dict.fromkeys(each.alone for each in (ratios[0], ratios[-1])))


def _where(names: Sequence[str], total: int) -> str:
    """These settings by name, their common axis once, or in one word when they are all there are."""
    if len(names) < total or total == 1:
        axes = {name.partition("=")[0] for name in names}
        values = [name.partition("=")[2] for name in names]
        alike = len(axes) == 1 and all(value and "=" not in value for value in values)
        return f"{axes.pop()}={', '.join(values)}" if alike else ", ".join(names)
    return "both settings" if total == 2 else f"all {total} settings"


def _discarded_sentence(verdicts: Sequence[ComparisonVerdict], total: int) -> str:
    """Where too many blocks were discarded to say anything, and for what, in one sentence."""
    places: dict[str, list[str]] = {}
    for found in verdicts:
        places.setdefault(figures.discard_reason(found), []).append(found.name)
    shares = sorted(verdicts, key=lambda found: found.blocks_discarded / (found.blocks_used + found.blocks_discarded))
    ends = [
        f"{each.blocks_discarded} of {each.blocks_used + each.blocks_discarded}" for each in (shares[0], shares[-1])
    ]
    span = " to ".join(dict.fromkeys(ends))
    if len(places) == 1:
        why = f"mostly for “{next(iter(places))}”"
    else:
        why = "mostly for " + " and for ".join(
            f"“{reason}” at {_where(names, total)}" for reason, names in places.items()
        )
    return (
        f"Inconclusive at {_where([f.name for f in verdicts], total)}: too many blocks were discarded ({span}), {why}."
    )


def ratio_rows(verdicts: Iterable[ComparisonVerdict], metric: Metric) -> list[charts.RatioRow]:
    """The ratios of one metric as rows of a chart; those that a limit leaves unknown are not drawn."""
    verdicts = list(verdicts)
    pair = only_pair(verdicts)
    return [
        charts.RatioRow(
            heading=found.name if len(verdicts) > 1 and pair is None else "",
            label=_ratio_label(found, each, alone=pair is not None and len(verdicts) > 1),
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


def _ratio_label(found: ComparisonVerdict, estimate: Estimate, *, alone: bool) -> str:
    """What a ratio is of: the setting where all are of one pair; in a ladder the rung, whose reference is above it."""
    if alone:
        return found.name
    return estimate.contestant if found.ladder else f"{estimate.contestant} / {estimate.reference}"


def only_pair(verdicts: Iterable[ComparisonVerdict]) -> str | None:
    """Contestant / reference when all ratios are of the same two; a chart then says it once."""
    pairs = {f"{each.contestant} / {each.reference}" for found in verdicts for each in found.estimates}
    return pairs.pop() if len(pairs) == 1 else None


def ratio_text(estimate: Estimate) -> str:
    """A ratio with its interval, as the terminal writes it."""
    return str(estimate.interval)


def _ratio_drawings(verdicts: Sequence[ComparisonVerdict]) -> list[Drawing]:
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


def _part(
    run: Results, index: int, found: ComparisonVerdict, done: figures.Done, used: figures.Counted, *, draws: bool
) -> ComparisonPart:
    plan, comparison = run.plan, run.plan.comparisons[index]
    rows = figures.contestant_rows(found, used)
    # Of many, dots and lines of every trial would be a wall of drawings: the ranking stands for them.
    details = draws and not comparison.many
    return ComparisonPart(
        draws=draws,
        found=found,
        workload=figures.workload_words(comparison, found.reply_bytes),
        named=tuple(zip(comparison.labels, (cell.contestant.text for cell in comparison.cells), strict=False)),
        rows=tuple(rows),
        ranks=figures.rank_rows(found),
        rankings=tuple(_ranking_drawings(found)) if draws else (),
        drawings=tuple(_level_drawings(found, rows)) if details else (),
        timelines=tuple(_timelines(plan, index, found, done)) if details else (),
        by_hand=commands.by_hand(plan, index, commands.servers_of(run.machine)),
    )


def _ranking_drawings(found: ComparisonVerdict) -> Iterable[Drawing]:
    for ranking in found.rankings:
        shown = METRICS[ranking.metric]
        rows = [
            charts.RatioRow(
                heading="",
                label=f"{each.rank or '–'}   {each.contestant}",
                text=_rank_text(each),
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


def _rank_text(row: Ranked) -> str:
    """The ratio to the best with its interval; the best itself has none."""
    return f"{BOUND_SIGNS[row.bound]}the best" if row.low == row.high else str(row.interval)


def _level_drawings(found: ComparisonVerdict, rows: Sequence[ContestantRow]) -> Iterable[Drawing]:
    for metric, shown in COMPARED.items():
        levels = [level for level in found.levels if level.metric == metric]
        if levels and not shown.is_time:
            yield _strips(shown.title, shown.unit, [_strip_row(found, level, shown) for level in levels])
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
        bounds = {row.slot: BOUND_SIGNS[row.latency_bound] for row in rows}
        said = "; ".join(f"{found.titles[p.slot]} {p.quantile} {bounds[p.slot]}{number(p.value)} µs" for p in points)
        svg = drawing.inline(charts.quantiles(points), "Latency by quantile", said)
        legend = tuple((row.slot % len(palette.CONTESTANTS), f"{bounds[row.slot]}{row.title}".strip()) for row in rows)
        caption = "≤: the generator was the limit, so these latencies are upper bounds." if any(bounds.values()) else ""
        yield Drawing("Latency, µs, service time", caption, svg, legend)


def _strips(name: str, unit: str, rows: Sequence[charts.StripRow]) -> Drawing:
    said = "; ".join(f"{row.label} {row.text}" for row in rows)
    svg = drawing.inline(charts.strips(rows, unit), name, said)
    return Drawing(f"{name}, {unit}", "", svg)


def _strip_row(found: ComparisonVerdict, level: Level, shown: Row) -> charts.StripRow:
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
            discarded = sum(line.discarded for line in lines)
            said = _count(len(lines), "trial") + (f", {discarded} discarded" if discarded else "")
            title = found.titles[slot]
            chart = charts.timeline(lines, figures.median_line(lines), begin_s, top_per_s)
            yield Drawing(title, said, drawing.inline(chart, f"Throughput of {title} over time", said))


def _unfinished(plan: Plan, verdicts: Sequence[ComparisonVerdict]) -> list[str]:
    """What is still missing for the verdict that was planned, a sentence for each reason."""
    total = len(verdicts)
    inconclusive = [found for found in verdicts if found.inconclusive is not None]
    # Where nothing is conclusive the headline says so already.
    said = [_discarded_sentence(inconclusive, total)] if 0 < len(inconclusive) < total else []
    places: dict[str, list[str]] = {}
    for found in verdicts:
        if found.inconclusive is None and found.blocks_used < found.blocks_planned:
            discarded = f", {found.blocks_discarded} discarded" if found.blocks_discarded else ""
            what = f"{found.blocks_used} of {found.blocks_planned} blocks count{discarded}"
            places.setdefault(what, []).append(found.name)
    return said + [f"{what} at {_where(names, total)}." for what, names in places.items()]


def _unequal(plan: Plan, verdicts: Sequence[ComparisonVerdict], used: Sequence[figures.Counted]) -> list[str]:
    """What was not the same for all contestants, each fact once with the settings it holds for."""
    places: dict[str, list[str]] = {}
    for at, found in enumerate(verdicts):
        for line in figures.unequal(plan, at, found, used[at]):
            places.setdefault(line, []).append(found.name)
    total = len(verdicts)
    return [line if len(names) == total else f"{_where(names, total)}: {line}" for line, names in places.items()]


def _left_out(verdicts: Sequence[ComparisonVerdict]) -> list[str]:
    """Who took no part, why, and where, a line for each reason."""
    places: dict[tuple[str, str], list[str]] = {}
    for found in verdicts:
        for title, why in found.left_out.items():
            places.setdefault((title, why), []).append(found.name)
    total = len(verdicts)
    return [
        f"{title}: {why.rstrip('.')}" + ("." if total == 1 else f", at {_where(names, total)}.")
        for (title, why), names in places.items()
    ]


def _discarded_words(verdicts: Sequence[ComparisonVerdict], results: Sequence[Result]) -> str:
    """How many trials were discarded and which warnings there are, in one sentence: those of the verdicts."""
    discarded = sum(result.discarded for result in results)
    warned = sum(bool(result.warnings) for result in results if not result.discarded)
    words = {each.warning.word for found in verdicts for each in found.warnings if not each.warning.discards}
    if not discarded and not words:
        return "No trial was discarded or failed, and there is no warning."
    if not warned and not words:
        of = f"{discarded} of {_count(len(results), 'trial')}"
        return f"{of} discarded, which count for nothing. A table below says why."
    named = ", ".join(sorted(word.replace("_", " ") for word in words))
    return (
        f"{discarded} of {_count(len(results), 'trial')} discarded, which count for nothing. "
        f"Warnings: {named}. A table below says which trials."
    )


def _identity(machine: Mapping[str, Any], results: Sequence[Result]) -> list[tuple[str, str]]:
    """Which builds were measured, from the record of the machine and from what the processes said of themselves."""
    engine = machine.get("engine")
    rows = [(f"engine {key}", str(value)) for key, value in engine.items()] if isinstance(engine, dict) else []
    said = dict.fromkeys(r.report.build for r in results if r.report is not None)
    rows.append(("build the generator said", ", ".join(said) or "nothing measured yet"))
    said = dict.fromkeys(r.ready.build for r in results if r.ready is not None)
    rows.append(("build the servers said", ", ".join(said) or "they say none"))
    servers = commands.servers_of(machine)
    return rows + [(f"version of {name}", str(about["version"] or "unknown")) for name, about in servers.items()]


def number(value: float) -> str:
    """Three digits that matter, thousands apart."""
    if value >= 1_000:
        return f"{value:,.0f}"
    if value >= 100:
        return f"{value:.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 1 or value == 0 else f"{value:#.2g}"


def level_text(level: Level, shown: Row) -> str:
    """A median with its interval, in the metric's unit."""
    return BOUND_SIGNS[level.bound] + _interval_text(level.median, level.low, level.high, shown.scale)


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


def policy_of(style: str) -> str:
    """Nothing may load and nothing may run; the one style sheet is known by its digest."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"


def resource(name: str) -> str:
    return resources.files("iolab.report").joinpath(name).read_text(encoding="utf-8")


@cache
def templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: resource(f"templates/{name}")),
        autoescape=True,
        finalize=_seen,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": lambda value: "–" if value is None else number(value),
        "figure": _figure_cell,
        "bounded": lambda figure, bound, scale: BOUND_SIGNS[bound] + _figure_cell(figure, scale),
        "sign": lambda bound: BOUND_SIGNS[bound],
        "interval": lambda each: str(Interval(each.ratio, each.low, each.high)),
        "level": lambda level, shown: (
            BOUND_SIGNS[level.bound] + _stacked(level.median, level.low, level.high, shown.scale)
        ),
        "ratio": ratio_text,
        "rank": _rank_text,
        "command": commands.folded,
        "percent": lambda value: "–" if value is None else f"{value * 100:.0f} %",
        "spaced": lambda text: PERCENT.sub(" %", text),
        "words": lambda text: str(text).replace("_", " "),
    }
    return environment


def _seen(value: object) -> object:
    """What goes into the page: texts from outside without what cannot be seen, our own markup as it is."""
    return drawing.clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value
