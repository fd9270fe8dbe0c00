"""The charts of a report as Vega-Lite specifications: figures in, chart out; nothing here reads or judges.

Charts have the width of a phone, and are side by side on wider screens. The label and figures of a row are above its
marks, because a phone has no room for them beside the marks.

Fields are given as channels (`alt.X2("high:Q")`), because altair takes milliseconds to find the channel of a string.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import altair as alt

from iolab.judge import stats
from iolab.report import palette
from iolab.report.drawing import clean

WIDTH = 340
ROW = 40
HEADING = 24
# A row of evidence has its figures on a separate line: its question is a sentence.
EVIDENCE_ROW = 56
LINE = 15
LINE_CHARACTERS_MAX = 54
# A chart with more rows is unreadable; the table below it holds the rest.
ROWS_MAX = 48
LABEL_CHARACTERS_MAX = 48
FONT = 11
# Labels of an axis: 110k rather than 110,000, because five of those do not fit beside each other on a phone.
ROUNDED = "format(datum.value, datum.value >= 10000 ? '~s' : ',~r')"


class RatioRow(NamedTuple):
    """One interval: `text` has its figures, `decided` is whether it "differs"; a new `heading` begins a group."""

    heading: str
    label: str
    text: str
    ratio: float
    low: float
    high: float
    decided: bool


class EvidenceRow(NamedTuple):
    """One test of a claim on a scale of ratios: `low` and `high` are the measured interval, `least` and `most` the
    allowed range; None if unknown or unbounded. `role` is the role of the colour.
    """

    label: str
    text: str
    role: str
    value: float
    low: float | None
    high: float | None
    published: float | None
    least: float | None
    most: float | None


class StripRow(NamedTuple):
    """One contestant's trials in the unit of the chart; low and high are None without an interval.

    A broken contestant has no values and no median: its text replaces its bar.
    """

    slot: int
    label: str
    text: str
    values: tuple[float, ...]
    median: float | None
    low: float | None
    high: float | None


class QuantilePoint(NamedTuple):
    """The median over trials of one latency quantile, in microseconds, with its interval."""

    slot: int
    quantile: str
    value: float
    low: float | None
    high: float | None


class QuantileCurve(NamedTuple):
    """The medians over trials of many latency quantiles of one contestant, in microseconds."""

    slot: int
    quantiles: tuple[float, ...]
    values: tuple[float, ...]


class Line(NamedTuple):
    """One trial over time: seconds from the beginning of its window, and requests per second."""

    slot: int
    discarded: bool
    time_s: tuple[float, ...]
    rate_per_s: tuple[float, ...]


def ratios(rows: Sequence[RatioRow], axis_title: str) -> alt.TopLevelMixin:
    """Ratios with their intervals on a logarithmic axis, the line at 1 and the band in which two count as equal."""
    rows = rows[:ROWS_MAX]
    limit = 1 + stats.EFFECT
    low = min([1 / limit, *(row.low for row in rows)])
    high = max([limit, *(row.high for row in rows)])
    room = (high / low) ** 0.06
    domain = (low / room, high * room)
    scale = alt.Scale(type="log", domain=domain, nice=False, zero=False)
    axis = styled_axis(
        axis_title, values=_within(_ratio_ticks(*domain), *domain), expression="format(datum.value, '~g') + 'x'"
    )
    headings, placed, height = _stack([(row.heading, row) for row in rows])
    marks = [
        {
            "y": y + 27.5,
            "low": row.low,
            "high": row.high,
            "ratio": row.ratio,
            "role": palette.light("c0" if row.decided else "muted"),
            "inside": palette.light("c0" if row.decided else "ground"),
        }
        for y, row in placed
    ]
    y = _pixels("y", height)
    base = alt.Chart(data_of(marks)).encode(y=y)
    colour, inside = alt.Stroke("role:N", scale=None), alt.Fill("inside:N", scale=None)
    # The band and the line span only the marks: across the text they would strike it through.
    lanes = [{"top": y + 20, "bottom": y + 35, "low": 1 / limit, "high": limit, "one": 1} for y, _ in placed]
    lane = alt.Chart(data_of(lanes)).encode(y=_pixels("top", height), y2=alt.Y2("bottom:Q"))
    return framed_layers(
        lane.mark_rect(color=palette.light("band")).encode(
            x=alt.X("low:Q", scale=scale, axis=axis), x2=alt.X2("high:Q")
        ),
        lane.mark_rule(color=palette.light("muted")).encode(x=alt.X("one:Q")),
        base.mark_rule(strokeWidth=2.5, strokeCap="round").encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"), stroke=colour),
        base.mark_point(size=60, strokeWidth=2, opacity=1).encode(x=alt.X("ratio:Q"), stroke=colour, fill=inside),
        *_words(headings, ((at, row.label, row.text) for at, row in placed), height),
        height=height,
    )


def evidence(rows: Sequence[EvidenceRow], axis_title: str) -> alt.TopLevelMixin:
    """Measured intervals beside published figures on an axis of ratios, each below its question and its figures."""
    rows = rows[:ROWS_MAX]
    known = [end for row in rows for end in (*row[3:], 1.0) if end]
    room = max((max(known) / min(known)) ** 0.06, 1.02)
    domain = (min(known) / room, max(known) * room)
    questions = [textwrap.wrap(clean(row.label), LINE_CHARACTERS_MAX)[:2] for row in rows]
    # All rows are as high as the one with the longest question.
    row_height = EVIDENCE_ROW + LINE * (max(map(len, questions)) - 1)
    height = row_height * len(rows) + 4
    ticks = _within(_ratio_ticks(*domain), *domain)
    axis = styled_axis(axis_title, values=ticks, expression="format(datum.value, '~g') + 'x'")
    scale = alt.Scale(type="log", domain=domain, nice=False, zero=False)
    marks = [
        {
            "y": at * row_height + row_height - 13.5,
            "top": at * row_height + row_height - 22,
            "bottom": at * row_height + row_height - 5,
            "one": 1,
            "role": palette.light(row.role),
            "value": row.value,
            "low": row.low or domain[0],
            "high": row.high or domain[1],
            "published": row.published,
            "least": row.least or domain[0],
            "most": row.most or domain[1],
            "bounded": bool(row.least or row.most),
        }
        for at, row in enumerate(rows)
    ]
    y, colour = _pixels("y", height), alt.Color("role:N", scale=None)
    base = alt.Chart(data_of(marks)).encode(y=y)
    lane = alt.Chart(data_of(marks)).encode(y=_pixels("top", height), y2=alt.Y2("bottom:Q"))
    allowed = alt.Chart(data_of([mark for mark in marks if mark["bounded"]])).encode(
        y=_pixels("top", height), y2=alt.Y2("bottom:Q")
    )
    published = alt.Chart(data_of([mark for mark in marks if mark["published"]])).encode(y=y)
    said = [
        {"y": at * row_height + 11 + LINE * number, "text": line, "role": role}
        for at, (question, row) in enumerate(zip(questions, rows, strict=True))
        for number, (line, role) in enumerate([*((line, "ink") for line in question), (clean(row.text), "muted")])
    ]
    words = alt.Chart(data_of([{**each, "role": palette.light(str(each["role"]))} for each in said]))
    diamond = published.mark_point(shape="diamond", size=80, strokeWidth=1.5, opacity=1, color=palette.light("ink"))
    return framed_layers(
        allowed.mark_rect(color=palette.light("band")).encode(
            x=alt.X("least:Q", scale=scale, axis=axis), x2=alt.X2("most:Q")
        ),
        lane.mark_rule(color=palette.light("muted")).encode(x=alt.X("one:Q", scale=scale, axis=axis)),
        base.mark_rule(strokeWidth=2.5, strokeCap="round").encode(
            x=alt.X("low:Q", scale=scale), x2=alt.X2("high:Q"), color=colour
        ),
        base.mark_point(size=60, filled=True, opacity=1).encode(x=alt.X("value:Q", scale=scale), color=colour),
        diamond.encode(x=alt.X("published:Q", scale=scale)),
        words.mark_text(align="left", fontSize=FONT, limit=WIDTH).encode(
            y=y, x=alt.value(0), text=alt.Text("text:N"), color=colour
        ),
        height=height,
    )


def strips(rows: Sequence[StripRow], axis_title: str) -> alt.TopLevelMixin:
    """A row for each contestant: every trial that counts as a dot, the median as a tick, its interval as a bar."""
    rows = rows[:ROWS_MAX]
    every = [value for row in rows for value in row.values]
    scale = alt.Scale(domain=_linear_domain(every), nice=False, zero=False)
    _, placed, height = _stack([("", row) for row in rows])
    dots = [
        {"y": y + 27.5, "value": value, "role": palette.light(palette.contestant(row.slot))}
        for y, row in placed
        for value in row.values
    ]
    summaries = [
        {
            "y": y + 27.5,
            "median": row.median,
            "low": row.median if row.low is None else row.low,
            "high": row.median if row.high is None else row.high,
            "role": palette.light(palette.contestant(row.slot)),
        }
        for y, row in placed
        if row.median is not None
    ]
    y = _pixels("y", height)
    colour = alt.Color("role:N", scale=None)
    x = alt.X("value:Q", scale=scale, axis=styled_axis(axis_title, count=5, expression=ROUNDED))
    summary = alt.Chart(data_of(summaries)).encode(y=y, color=colour)
    return framed_layers(
        summary.mark_rule(strokeWidth=8, opacity=0.25).encode(x=alt.X("low:Q", scale=scale), x2=alt.X2("high:Q")),
        alt.Chart(data_of(dots)).mark_circle(size=26, opacity=0.55).encode(x=x, y=y, color=colour),
        summary.mark_tick(orient="vertical", thickness=2.5, size=18, opacity=1).encode(
            x=alt.X("median:Q", scale=scale)
        ),
        *_words([], ((at, row.label, row.text) for at, row in placed), height),
        height=height,
    )


def quantiles(points: Sequence[QuantilePoint], curves: Sequence[QuantileCurve] = ()) -> alt.TopLevelMixin:
    """Latency by percentile, a line for each contestant, with the tail as wide as the rest; the legend is the page's.

    Dots with intervals are the quantiles of the tables. Lines go through every quantile in `curves`, or else through
    the dots.
    """
    named = {point.quantile: _nines(float(f"0.{point.quantile[1:].replace('.', '')}")) for point in points}
    lows = [point.value if point.low is None else point.low for point in points]
    highs = [point.value if point.high is None else point.high for point in points]
    drawn = [value for curve in curves for value in curve.values]
    domain = (min(lows + drawn) / 1.15, max(highs + drawn) * 1.15)
    marks: list[dict[str, Any]] = [
        {
            "at": named[point.quantile],
            "value": point.value,
            "low": low,
            "high": high,
            "role": palette.light(palette.contestant(point.slot)),
        }
        for point, low, high in zip(points, lows, highs, strict=True)
    ]
    line: list[dict[str, Any]] = [
        {"at": _nines(quantile), "value": value, "role": palette.light(palette.contestant(curve.slot))}
        for curve in curves
        for quantile, value in zip(curve.quantiles, curve.values, strict=True)
    ]
    ends = [mark["at"] for mark in (*marks, *line)]
    labels = {at: name.removeprefix("p") + " %" for name, at in named.items()}
    said = "{" + ",".join(f"'{at:.3f}':'{name}'" for at, name in labels.items()) + "}[format(datum.value, '.3f')]"
    axis = styled_axis("share of the requests of a trial that were faster", values=list(labels), expression=said)
    room = 0.04 * (max(ends) - min(ends)) or 0.5
    x = alt.X("at:Q", scale=alt.Scale(domain=(min(ends) - room, max(ends) + room), nice=False), axis=axis)
    y = alt.Y(
        "value:Q",
        scale=alt.Scale(type="log", domain=domain, nice=False),
        axis=styled_axis("microseconds", values=log_ticks(*domain), expression="format(datum.value, ',~r')", grid=True),
    )
    colour = alt.Color("role:N", scale=None)
    base = alt.Chart(data_of(marks)).encode(x=x, color=colour)
    return framed_layers(
        alt.Chart(data_of(line or marks)).mark_line(strokeWidth=1.5, opacity=0.7).encode(x=x, y=y, color=colour),
        base.mark_rule(strokeWidth=5, opacity=0.3).encode(y=alt.Y("low:Q"), y2=alt.Y2("high:Q")),
        base.mark_circle(size=44, opacity=1).encode(y=y),
        height=220,
    )


def _nines(quantile: float) -> float:
    """The position of a quantile on an axis on which 90 %, 99 % and 99.9 % are equally far apart."""
    return -math.log10(1 - quantile)


def bars(segments: list[dict[str, Any]], words: Sequence[tuple[str, str]], axis_title: str) -> alt.TopLevelMixin:
    """Stacked bars, a row for each of the words; a segment has its row (`at`), its two ends and its `role`."""
    top = max(each["end"] for each in segments)
    axis = styled_axis(axis_title, count=5, expression=ROUNDED)
    placed = [{**each, "top": each["at"] * ROW + 20, "bottom": each["at"] * ROW + 35} for each in segments]
    height = ROW * len(words) + 4
    blocks = alt.Chart(data_of(placed)).mark_rect(stroke=palette.light("ground"), strokeWidth=1.5)
    return framed_layers(
        blocks.encode(
            x=alt.X("begin:Q", scale=alt.Scale(domain=(0, 1.02 * top), nice=False), axis=axis),
            x2=alt.X2("end:Q"),
            y=_pixels("top", height),
            y2=alt.Y2("bottom:Q"),
            fill=alt.Fill("role:N", scale=None),
        ),
        *_words([], ((at * ROW, label, text) for at, (label, text) in enumerate(words)), height),
        height=height,
    )


def timeline(lines: Sequence[Line], median: Line | None, begin_s: float, top_per_s: float) -> alt.TopLevelMixin:
    """Throughput of every trial of one contestant over time, the warm-up shaded; discarded trials in grey.

    The trials are thin and pale; the median over those that count stands out, because no eye follows fifteen lines.

    The axes begin at `begin_s` (0 is the beginning of the window) and end at `top_per_s`, the same for all contestants.
    """
    points: list[dict[str, Any]] = [
        {
            "line": number,
            "time": time,
            "rate": rate,
            "role": palette.light("muted" if line.discarded else palette.contestant(line.slot)),
        }
        for number, line in enumerate(lines)
        for time, rate in zip(line.time_s, line.rate_per_s, strict=True)
    ]
    end = max([0.0, *(point["time"] for point in points)])
    time = alt.X(
        "time:Q",
        scale=alt.Scale(domain=(begin_s, end), nice=False),
        axis=styled_axis("seconds from the beginning of the window", count=6),
    )
    rate = alt.Y(
        "rate:Q",
        scale=alt.Scale(domain=(0, 1.05 * top_per_s), nice=False),
        axis=styled_axis("requests per second", count=4, grid=True, expression=ROUNDED),
    )
    bold = []
    if median is not None:
        role = palette.light(palette.contestant(median.slot))
        middle = [{"time": at, "rate": each} for at, each in zip(median.time_s, median.rate_per_s, strict=True)]
        mark = alt.Chart(data_of(middle)).mark_line(strokeWidth=2.5, interpolate="monotone", color=role)
        bold.append(mark.encode(x=time, y=rate))
    shade = alt.Chart(data_of([{"begin": begin_s, "end": 0}])).mark_rect(color=palette.light("band"))
    trials = alt.Chart(data_of(points)).mark_line(strokeWidth=0.9, opacity=0.35, interpolate="monotone")
    return framed_layers(
        shade.encode(x=alt.X("begin:Q"), x2=alt.X2("end:Q")),
        trials.encode(
            x=time,
            y=rate,
            detail=alt.Detail("line:N"),
            color=alt.Color("role:N", scale=None),
        ),
        *bold,
        height=130,
    )


def _stack(rows: Iterable[tuple[str, Any]]) -> tuple[list[tuple[int, str]], list[tuple[int, Any]], int]:
    """Places rows below one another in pixels; returns the headings and the rows with their places, and the height."""
    headings: list[tuple[int, str]] = []
    placed: list[tuple[int, Any]] = []
    at, current = 0, ""
    for heading, row in rows:
        if heading != current:
            headings.append((at, heading))
            at, current = at + HEADING, heading
        placed.append((at, row))
        at += ROW
    return headings, placed, at + 4


def _words(headings: Iterable[tuple[int, str]], labels: Iterable[tuple[int, str, str]], height: int) -> list[alt.Chart]:
    """Headings and labels from the left edge, figures to the right edge."""
    heads = [{"y": at + 14, "text": _short(text)} for at, text in headings]
    pairs = [{"y": at + 12, "label": _short(label), "text": clean(text)} for at, label, text in labels]
    y = _pixels("y", height)
    charts = []
    if heads:
        bold = alt.Chart(data_of(heads)).mark_text(align="left", fontWeight="bold", fontSize=FONT, limit=WIDTH)
        charts.append(bold.encode(y=y, x=alt.value(0), text=alt.Text("text:N"), color=alt.value(palette.light("ink"))))
    base = alt.Chart(data_of(pairs)).encode(y=y)
    left = base.mark_text(align="left", fontSize=FONT, limit=WIDTH * 0.6, color=palette.light("ink"))
    right = base.mark_text(align="right", fontSize=FONT, limit=WIDTH * 0.4, color=palette.light("muted"))
    return [
        *charts,
        left.encode(x=alt.value(0), text=alt.Text("label:N")),
        right.encode(x=alt.value("width"), text=alt.Text("text:N")),
    ]


def framed_layers(*layers: alt.Chart, height: int) -> alt.TopLevelMixin:
    """All charts have the same width with their axes, so that their letters have one size on the page."""
    fit = alt.AutoSizeParams(type="fit-x", contains="padding")
    chart = alt.layer(*layers).properties(
        width=WIDTH, height=height, autosize=fit, padding={"left": 0, "right": 2, "top": 4, "bottom": 2}
    )
    framed: alt.TopLevelMixin = chart.configure(background="transparent", font="sans-serif").configure_view(stroke=None)
    return framed


def styled_axis(
    title: str,
    *,
    values: Sequence[float] | None = None,
    count: int | None = None,
    expression: str | None = None,
    grid: bool = False,
) -> alt.Axis:
    """An axis in the report's style. `title` and `expression` are ours, never a text from outside."""
    options: dict[str, Any] = {
        "title": title,
        "grid": grid,
        "gridColor": palette.light("grid"),
        "domain": False,
        "tickColor": palette.light("grid"),
        "labelColor": palette.light("muted"),
        "labelFontSize": FONT,
        "titleColor": palette.light("muted"),
        "titleFontSize": FONT,
        "titleFontWeight": "normal",
        "titlePadding": 10 if grid else 4,
        "labelFlush": False,
        "labelBound": 8,
    }
    if values is not None:
        options["values"] = list(values)
    if count is not None:
        options["tickCount"] = count
    if expression is not None:
        options["labelExpr"] = expression
    return alt.Axis(**options)


def _pixels(field: str, height: int) -> alt.Y:
    """A field that is already a position in pixels from the top."""
    return alt.Y(f"{field}:Q", scale=alt.Scale(domain=(0, height), reverse=True, nice=False), axis=None)


def data_of(rows: list[dict[str, Any]]) -> alt.InlineData:
    # altair copies a chart with each step that builds it: the rows of a list too, but not those of a tuple.
    return alt.InlineData(values=tuple(rows))


def _short(text: str) -> str:
    text = clean(text)
    return text if len(text) <= LABEL_CHARACTERS_MAX else f"{text[: LABEL_CHARACTERS_MAX - 1]}…"


def _ratio_ticks(low: float, high: float) -> list[float]:
    """Round ratios within the domain, evenly spread by eye: steps of 1 %, 2 %, 5 % … near 1, powers of two far off."""
    if high / low > 8:
        powers = range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)
        every = max(1, math.ceil(len(powers) / 6))
        return [2.0**power for power in powers if power % every == 0]
    step = next(step for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0) if (high - low) / step <= 6)
    first, last = math.ceil(low / step), math.floor(high / step)
    return [round(tick * step, 2) for tick in range(first, last + 1)]


def _within(ticks: Iterable[float], low: float, high: float) -> list[float]:
    """The ticks whose labels fit within the drawing, and always the one at 1."""
    length = math.log(high / low)
    return [tick for tick in ticks if tick == 1 or 0.05 < math.log(tick / low) / length < 0.95]


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5 of each decade; only the decades if there are many."""
    steps = (1, 2, 5) if high / low < 300 else (1,)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [tick for decade in decades for step in steps if low <= (tick := step * 10.0**decade) <= high]


def _linear_domain(values: Sequence[float]) -> tuple[float, float]:
    """From zero if zero is near; otherwise around the values, with room for the marks."""
    low, high = min(values), max(values)
    if high <= 0:
        return 0.0, 1.0
    if low < high / 2:
        return 0.0, high * 1.06
    room = max((high - low) * 0.08, high * 0.01)
    return max(0.0, low - room), high + room
