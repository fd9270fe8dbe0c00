"""The charts of a report as Vega-Lite specifications: figures in, chart out; nothing here reads or judges.

All are drawn for the width of a phone and shown side by side where there is more room. A row of a chart has its label
and its figures above its marks, because beside them a phone has no room for either.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import altair as alt

from iolab.judge import stats
from iolab.report import palette
from iolab.report.drawing import clean

WIDTH = 340
ROW = 40
HEADING = 24
# A chart with more rows than this is a wall; the table below it holds the rest.
ROWS_MAX = 48
LABEL_CHARACTERS_MAX = 48
FONT = 11
# Labels of an axis: 110k rather than 110,000, because five of those do not fit beside each other on a phone.
ROUNDED = "format(datum.value, datum.value >= 10000 ? '~s' : ',~r')"


class RatioRow(NamedTuple):
    """One interval: `text` are its figures, `decided` whether it "differs"; a new `heading` begins a group."""

    heading: str
    label: str
    text: str
    ratio: float
    low: float
    high: float
    decided: bool


class StripRow(NamedTuple):
    """One contestant's trials in the unit of the chart; low and high are None where there is no interval.

    One that broke has no values and no median: its text stands where its bar would be.
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


class Line(NamedTuple):
    """One trial over time: seconds from the beginning of its window, and requests per second."""

    slot: int
    discarded: bool
    time_s: tuple[float, ...]
    rate_per_s: tuple[float, ...]


def ratios(rows: Sequence[RatioRow], axis_title: str) -> alt.TopLevelMixin:
    """Ratios with their intervals on a logarithmic axis, the line at 1 and the band in which two are the same."""
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
    # The band and the line run beside the marks only: through the words they would strike them out.
    lanes = [{"top": y + 20, "bottom": y + 35, "low": 1 / limit, "high": limit, "one": 1} for y, _ in placed]
    lane = alt.Chart(data_of(lanes)).encode(y=_pixels("top", height), y2="bottom:Q")
    return framed_layers(
        lane.mark_rect(color=palette.light("band")).encode(x=alt.X("low:Q", scale=scale, axis=axis), x2="high:Q"),
        lane.mark_rule(color=palette.light("muted")).encode(x="one:Q"),
        base.mark_rule(strokeWidth=2.5, strokeCap="round").encode(x="low:Q", x2="high:Q", stroke=colour),
        base.mark_point(size=60, strokeWidth=2, opacity=1).encode(x="ratio:Q", stroke=colour, fill=inside),
        *_words(headings, ((at, row.label, row.text) for at, row in placed), height),
        height=height,
    )


def strips(rows: Sequence[StripRow], axis_title: str) -> alt.TopLevelMixin:
    """A row a contestant: every trial that counts as a dot, the median as a tick, its interval as a bar."""
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
        summary.mark_rule(strokeWidth=8, opacity=0.25).encode(x=alt.X("low:Q", scale=scale), x2="high:Q"),
        alt.Chart(data_of(dots)).mark_circle(size=26, opacity=0.55).encode(x=x, y=y, color=colour),
        summary.mark_tick(orient="vertical", thickness=2.5, size=18, opacity=1).encode(
            x=alt.X("median:Q", scale=scale)
        ),
        *_words([], ((at, row.label, row.text) for at, row in placed), height),
        height=height,
    )


def quantiles(points: Sequence[QuantilePoint]) -> alt.TopLevelMixin:
    """Latency quantiles on a logarithmic axis, a line a contestant; the legend is the page's."""
    order = list(dict.fromkeys(point.quantile for point in points))
    slots = sorted({point.slot for point in points})
    width = 0.5 / max(1, len(slots))
    marks: list[dict[str, Any]] = [
        {
            "at": order.index(point.quantile) + (slots.index(point.slot) - (len(slots) - 1) / 2) * width,
            "value": point.value,
            "low": point.value if point.low is None else point.low,
            "high": point.value if point.high is None else point.high,
            "role": palette.light(palette.contestant(point.slot)),
        }
        for point in points
    ]
    lows, highs = [mark["low"] for mark in marks], [mark["high"] for mark in marks]
    domain = (min(lows) / 1.15, max(highs) * 1.15)
    names = "[" + ",".join(f"'{quantile}'" for quantile in order) + "][datum.value]"
    base = alt.Chart(data_of(marks)).encode(
        x=alt.X(
            "at:Q",
            scale=alt.Scale(domain=(-0.5, len(order) - 0.5), nice=False),
            axis=styled_axis("quantile of the requests of a trial", values=list(range(len(order))), expression=names),
        ),
        color=alt.Color("role:N", scale=None),
    )
    y = alt.Y(
        "value:Q",
        scale=alt.Scale(type="log", domain=domain, nice=False),
        axis=styled_axis("microseconds", values=log_ticks(*domain), expression="format(datum.value, ',~r')", grid=True),
    )
    return framed_layers(
        base.mark_line(strokeWidth=1.25, opacity=0.6).encode(y=y),
        base.mark_rule(strokeWidth=5, opacity=0.3).encode(y=alt.Y("low:Q"), y2="high:Q"),
        base.mark_circle(size=44, opacity=1).encode(y=y),
        height=220,
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
        shade.encode(x=alt.X("begin:Q"), x2="end:Q"),
        trials.encode(
            x=time,
            y=rate,
            detail="line:N",
            color=alt.Color("role:N", scale=None),
        ),
        *bold,
        height=130,
    )


def _stack(rows: Iterable[tuple[str, Any]]) -> tuple[list[tuple[int, str]], list[tuple[int, Any]], int]:
    """Places rows below one another in pixels: the headings with their places, the rows with theirs, the height."""
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
        charts.append(bold.encode(y=y, x=alt.value(0), text="text:N", color=alt.value(palette.light("ink"))))
    base = alt.Chart(data_of(pairs)).encode(y=y)
    left = base.mark_text(align="left", fontSize=FONT, limit=WIDTH * 0.6, color=palette.light("ink"))
    right = base.mark_text(align="right", fontSize=FONT, limit=WIDTH * 0.4, color=palette.light("muted"))
    return [*charts, left.encode(x=alt.value(0), text="label:N"), right.encode(x=alt.value("width"), text="text:N")]


def framed_layers(*layers: alt.Chart, height: int) -> alt.TopLevelMixin:
    """All charts are as wide as each other with their axes, so that their letters are of one size on the page."""
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
    """A field that already is a place in pixels from the top."""
    return alt.Y(f"{field}:Q", scale=alt.Scale(domain=(0, height), reverse=True, nice=False), axis=None)


def data_of(rows: list[dict[str, Any]]) -> alt.InlineData:
    return alt.InlineData(values=rows)


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
    """The ticks whose labels the edges of the drawing do not cut off, and always the one at 1."""
    length = math.log(high / low)
    return [tick for tick in ticks if tick == 1 or 0.05 < math.log(tick / low) / length < 0.95]


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5 of each decade; of the decades alone when there are many."""
    steps = (1, 2, 5) if high / low < 300 else (1,)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [tick for decade in decades for step in steps if low <= (tick := step * 10.0**decade) <= high]


def _linear_domain(values: Sequence[float]) -> tuple[float, float]:
    """From zero when zero is near; otherwise around the values, with room for the marks."""
    low, high = min(values), max(values)
    if high <= 0:
        return 0.0, 1.0
    if low < high / 2:
        return 0.0, high * 1.06
    room = max((high - low) * 0.08, high * 0.01)
    return max(0.0, low - room), high + room
