"""Requests per second over the workers of a server, with the fitted curve of contention and coherence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt
import numpy as np

from iolab.judge.scaling import Scaling
from iolab.report import charts, drawing, formats, palette
from iolab.report.pictures import Drawing

# Points of a curve.
CURVE_POINTS = 60
CONTESTANTS_MAX = len(palette.CONTESTANTS)
HEADING = "Requests per second over workers"
CAPTION = (
    "Dashed, the Universal Scalability Law through the medians. Dotted, workers that take nothing from each other: "
    "each serves what one alone does by the law."
)


def drawings(scalings: Sequence[Scaling]) -> Iterator[Drawing]:
    """A chart for each setting of the other axes at which a law was fitted."""
    for heading in dict.fromkeys(each.heading for each in scalings):
        # A contestant without a fit keeps its colour, so that colours are the same in all charts of a page.
        mine = [each for each in scalings if each.heading == heading][:CONTESTANTS_MAX]
        legend = tuple((slot, each.contestant) for slot, each in enumerate(mine) if each.law is not None)
        if not legend:
            continue
        said = "; ".join(
            f"{each.contestant} at {count.workers}: {formats.number(count.level.median)}"
            for each in mine
            for count in each.counts
        )
        title = HEADING + (f", {heading}" if heading else "")
        yield Drawing(title, CAPTION, drawing.inline(chart(mine), title, said), legend)


def chart(scalings: Sequence[Scaling]) -> alt.TopLevelMixin:
    """Medians with their intervals, and two curves for each contestant."""
    points, curves = list(_points(scalings)), list(_curves(scalings))
    counts = sorted({point["x"] for point in points})
    room = 0.09 * (counts[-1] - counts[0])
    top = max([*(point["high"] for point in points), *(curve["rate"] for curve in curves if curve["is_law"])])
    x_axis = charts.styled_axis("workers", values=counts, expression=charts.ROUNDED)
    x_scale = alt.Scale(domain=(counts[0] - room, counts[-1] + room), nice=False)
    x = alt.X("x:Q", scale=x_scale, axis=x_axis)
    y_axis = charts.styled_axis("requests/s", count=4, grid=True, expression=charts.ROUNDED)
    y_scale = alt.Scale(domain=(0, 1.06 * top), nice=False)
    colour = alt.Color("role:N", scale=None)
    base = alt.Chart(charts.data_of(points)).encode(x=x, color=colour)
    layers = [
        base.mark_rule(strokeWidth=5, opacity=0.3).encode(
            y=alt.Y("low:Q", scale=y_scale, axis=y_axis), y2=alt.Y2("high:Q")
        ),
        base.mark_point(size=44, strokeWidth=1.5, opacity=1).encode(y=alt.Y("rate:Q", scale=y_scale, axis=y_axis)),
    ]
    for is_law, dashes in ((True, [4, 3]), (False, [1, 3])):
        # Curves are cut off above the highest measured value.
        shown = [each for each in curves if each["is_law"] == is_law and each["rate"] <= 1.06 * top]
        line = alt.Chart(charts.data_of(shown)).mark_line(strokeWidth=1, strokeDash=dashes)
        y = alt.Y("rate:Q", scale=y_scale, axis=y_axis)
        layers.append(line.encode(x=x, y=y, color=colour, detail=alt.Detail("slot:N")))
    return charts.framed_layers(*layers, height=170)


def _points(scalings: Sequence[Scaling]) -> Iterator[dict[str, Any]]:
    for slot, each in enumerate(scalings):
        role = palette.light(palette.contestant(slot))
        for count in each.counts:
            level = count.level
            low, high = (level.median if end is None else end for end in (level.low, level.high))
            yield {"slot": slot, "x": count.workers, "rate": level.median, "low": low, "high": high, "role": role}


def _curves(scalings: Sequence[Scaling]) -> Iterator[dict[str, Any]]:
    """The fitted curve of each contestant, and the curve without contention and coherence."""
    for slot, each in enumerate(scalings):
        if each.law is None:
            continue
        role = palette.light(palette.contestant(slot))
        workers = np.linspace(each.counts[0].workers, each.counts[-1].workers, CURVE_POINTS)
        alone = each.law.per_worker_per_s.value
        for x, rate in zip(workers, each.law.rate_per_s(workers), strict=True):
            for is_law, y in ((True, float(rate)), (False, float(x) * alone)):
                yield {"slot": slot, "x": float(x), "rate": y, "role": role, "is_law": is_law}
