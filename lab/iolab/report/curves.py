"""How figures change along an axis: throughput, CPU, tail and memory over connections, a line for each contestant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import altair as alt
import numpy as np

from iolab.judge.relations.line import fitted
from iolab.judge.verdict import ComparisonVerdict
from iolab.metrics import METRICS, Metric, Row
from iolab.plan.plan import spelt
from iolab.plan.settings import SHORT, Scalar
from iolab.report import charts, drawing, formats, palette
from iolab.report.pictures import Drawing
from iolab.wording import BOUND_SIGNS, number

SHOWN: tuple[Metric, ...] = ("throughput", "cpu_per_request", "latency_p99", "rss")
# With fewer values there is no shape to draw, and with more contestants not enough colours.
VALUES_MIN = 3
CONTESTANTS_MAX = len(palette.CONTESTANTS)
# An axis whose values span this ratio is logarithmic.
FAR = 8
# The metric and the axis along which it should be linear: a base for the server, and a slope per connection.
FITTED: tuple[Metric, str] = ("rss", "load.connections")
LIMITED = "Hollow: the server was not the limit, so the figure is a bound."


class Along(NamedTuple):
    """The comparisons of one group that differ in one number, with its values, in order."""

    heading: str
    axis: str
    titles: tuple[str, ...]
    found: tuple[tuple[float, ComparisonVerdict], ...]


class Point(NamedTuple):
    """The level of one contestant at one value of the axis, in the unit of the chart."""

    slot: int
    x: float
    median: float
    low: float
    high: float
    is_bound: bool


def drawings(verdicts: Sequence[ComparisonVerdict]) -> Iterator[Drawing]:
    """A chart for each metric of each group that varies along an axis."""
    for along in groups(verdicts):
        for metric in SHOWN:
            points = list(_points(along, metric))
            if len({point.x for point in points}) >= VALUES_MIN:
                yield _drawing(along, METRICS[metric], points)


def groups(verdicts: Sequence[ComparisonVerdict]) -> Iterator[Along]:
    """The groups of comparisons in which only one number varies."""
    named: dict[str, list[ComparisonVerdict]] = {}
    for found in verdicts:
        named.setdefault(found.name.removesuffix(spelt(found.setting)).strip(), []).append(found)
    for title, members in named.items():
        values = {axis: dict.fromkeys(each.setting.get(axis) for each in members) for axis in members[0].setting}
        varied = [axis for axis, of_axis in values.items() if len(of_axis) > 1]
        if len(varied) != 1:
            continue
        placed = {float(x): each for each in members if _is_number(x := each.setting.get(varied[0], ""))}
        titles = tuple(dict.fromkeys(title for each in members for title in each.titles))
        if len(placed) >= VALUES_MIN and len(titles) <= CONTESTANTS_MAX:
            yield Along(title, varied[0], titles, tuple(sorted(placed.items(), key=lambda each: each[0])))


def _is_number(value: Scalar) -> bool:
    return not isinstance(value, bool | str)


def _points(along: Along, metric: Metric) -> Iterator[Point]:
    scale = METRICS[metric].scale
    for slot, title in enumerate(along.titles):
        for x, found in along.found:
            level = found.level(metric, title)
            if level is not None and level.median > 0:
                low, high = (level.median if end is None else end for end in (level.low, level.high))
                yield Point(slot, x, level.median / scale, low / scale, high / scale, level.bound != "exact")


def _drawing(along: Along, row: Row, points: Sequence[Point]) -> Drawing:
    name = SHORT.get(along.axis, along.axis).replace("_", " ")
    heading = f"{row.title} over {name}" + (f", {along.heading}" if along.heading else "")
    lines = list(_fits(along, points)) if (row.key, along.axis) == FITTED else []
    said = "; ".join(
        f"{along.titles[p.slot]} at {number(p.x, 6)}: "
        f"{BOUND_SIGNS[row.limited] if p.is_bound else ''}{formats.number(p.median)}"
        for p in points
    )
    captions = [_fit_words(along, lines)] if lines else []
    captions += [LIMITED] if any(point.is_bound for point in points) else []
    svg = drawing.inline(chart(points, lines, name, f"{row.title}, {row.unit}"), heading, said)
    legend = tuple((slot, title) for slot, title in enumerate(along.titles) if any(p.slot == slot for p in points))
    return Drawing(f"{heading}, {row.unit}", " ".join(captions), svg, legend)


class Fit(NamedTuple):
    """A straight line through the levels of one contestant: a base without connections, and a slope per connection."""

    slot: int
    slope: float
    intercept: float
    r_squared: float


def _fits(along: Along, points: Sequence[Point]) -> Iterator[Fit]:
    for slot in range(len(along.titles)):
        mine = [point for point in points if point.slot == slot]
        if len(mine) >= VALUES_MIN:
            x, y = (np.array([getattr(point, name) for point in mine]) for name in ("x", "median"))
            slope, intercept, r_squared = fitted(x, y, np.ones_like(y))
            yield Fit(slot, float(slope), float(intercept), float(r_squared))


def _fit_words(along: Along, fits: Sequence[Fit]) -> str:
    """The text of each line: memory without connections, and per connection."""
    parts = (
        f"{along.titles[fit.slot]} {formats.number(fit.intercept)} MiB + {formats.number(fit.slope * 1024)} KiB "
        f"per connection (R² {fit.r_squared:.3f})"
        for fit in fits
    )
    return f"Dashed: a straight line through the medians: {'; '.join(parts)}."


def chart(points: Sequence[Point], fits: Sequence[Fit], x_title: str, y_title: str) -> alt.TopLevelMixin:
    """Lines with intervals, and dashed lines through linear metrics."""
    marks: list[dict[str, Any]] = [
        {
            **point._asdict(),
            "role": palette.light(palette.contestant(point.slot)),
            "inside": palette.light("ground" if point.is_bound else palette.contestant(point.slot)),
        }
        for point in points
    ]
    xs = sorted({point.x for point in points})
    # A straight line is straight only on linear axes.
    is_log = not fits and xs[0] > 0 and xs[-1] / xs[0] >= FAR
    top = max(point.high for point in points)
    low = min(point.low for point in points)
    is_steep = not fits and low > 0 and top / low >= FAR * FAR
    room = (xs[-1] / xs[0]) ** 0.1 if is_log else 0.09 * (xs[-1] - xs[0])
    domain = (xs[0] / room, xs[-1] * room) if is_log else (xs[0] - room, xs[-1] + room)
    x_axis = charts.styled_axis(x_title, values=xs, expression=charts.ROUNDED)
    x = alt.X("x:Q", scale=alt.Scale(type="log" if is_log else "linear", domain=domain, nice=False), axis=x_axis)
    y_domain = (low / 1.2, top * 1.2) if is_steep else (0, 1.06 * top)
    y_axis = charts.styled_axis(
        y_title,
        values=charts.log_ticks(*y_domain) if is_steep else None,
        count=None if is_steep else 4,
        grid=True,
        expression=charts.ROUNDED,
    )
    y_scale = alt.Scale(type="log" if is_steep else "linear", domain=y_domain, nice=False)
    base = alt.Chart(charts.data_of(marks)).encode(x=x, color=alt.Color("role:N", scale=None))
    y = alt.Y("median:Q", scale=y_scale, axis=y_axis)
    layers = [
        base.mark_rule(strokeWidth=5, opacity=0.3).encode(
            y=alt.Y("low:Q", scale=y_scale, axis=y_axis), y2=alt.Y2("high:Q")
        ),
        base.mark_line(strokeWidth=1.5, opacity=0.7).encode(y=y),
        base.mark_point(size=44, strokeWidth=1.5, opacity=1).encode(y=y, fill=alt.Fill("inside:N", scale=None)),
    ]
    ends = [
        {
            "slot": fit.slot,
            "x": at,
            "median": fit.intercept + fit.slope * at,
            "role": palette.light(palette.contestant(fit.slot)),
        }
        for fit in fits
        for at in (xs[0], xs[-1])
    ]
    if ends:
        straight = alt.Chart(charts.data_of(ends)).mark_line(strokeWidth=1, strokeDash=[4, 3])
        layers.append(straight.encode(x=x, y=y, color=alt.Color("role:N", scale=None), detail=alt.Detail("slot:N")))
    return charts.framed_layers(*layers, height=170)
