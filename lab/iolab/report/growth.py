"""The size of a server during a trial: memory, threads, processes and descriptors, drawn if they keep growing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import altair as alt

from iolab.judge.verdict import ComparisonVerdict
from iolab.report import charts, drawing, formats, palette
from iolab.report.figures import Done
from iolab.report.pictures import Drawing
from iolab.results.records import Growth, Result
from iolab.wording import number

# Every server grows at the beginning of a trial, as connections are opened. Growth after this share of it is drawn.
BEGINNING = 0.25
GROWS_BY = 1.05
SAMPLES_MIN = 4
# The points of a line, however long the trial was.
POINTS_MAX = 120


class Series(NamedTuple):
    """One quantity counted along a trial: its heading, its unit, and the divisor of its figures."""

    name: str
    heading: str
    unit: str
    scale: float


SERIES = (
    Series("rss_bytes", "Memory along a trial", "MiB", float(1 << 20)),
    Series("threads", "Threads along a trial", "threads", 1.0),
    Series("processes", "Processes along a trial, zombies among them", "processes", 1.0),
    Series("descriptors", "Open descriptors along a trial", "descriptors", 1.0),
)


def drawings(found: ComparisonVerdict, index: int, done: Done) -> Iterator[Drawing]:
    """Sizes that keep growing in the trials of a comparison. Failed trials count too: growth may be the cause."""
    of_slots: dict[int, list[Result]] = {}
    for place, result in sorted(done.items()):
        if place.comparison == index:
            of_slots.setdefault(place.slot, []).append(result)
    for series, of_trial in growing(of_slots):
        said = "; ".join(f"{found.titles[slot]} {_ends(series, each)}" for slot, each in of_trial.items())
        legend = tuple((slot % len(palette.CONTESTANTS), found.titles[slot]) for slot in of_trial)
        yield Drawing(series.heading, f"{said}.", drawing.inline(chart(series, of_trial), series.heading, said), legend)


def _ends(series: Series, growth: Growth) -> str:
    """Its first and last value, in its unit."""
    values = getattr(growth, series.name)
    first, last = (formats.number(value / series.scale) for value in (values[0], values[-1]))
    return f"{first} to {last} {series.unit} in {number(growth.times_ns[-1] / 1e9)} s"


def growing(of_slots: Mapping[int, Sequence[Result]]) -> Iterator[tuple[Series, dict[int, Growth]]]:
    """The series that keep growing in the trials of a comparison, and one trial of each contestant, by slot."""
    of_trial = {slot: found for slot, results in of_slots.items() if (found := _longest(results)) is not None}
    for series in SERIES:
        if any(_grows(getattr(growth, series.name)) for growth in of_trial.values()):
            yield series, of_trial


def _longest(results: Sequence[Result]) -> Growth | None:
    """The longest of the trials, because growth takes time."""
    found = [
        result.server.growth for result in results if result.server is not None and result.server.growth is not None
    ]
    found = [growth for growth in found if len(growth.times_ns) >= SAMPLES_MIN]
    return max(found, key=lambda growth: growth.times_ns[-1], default=None)


def _grows(values: Sequence[int]) -> bool:
    return values[-1] > GROWS_BY * values[int(BEGINNING * len(values))]


def chart(series: Series, of_slots: Mapping[int, Growth]) -> alt.TopLevelMixin:
    """A line for each contestant."""
    points: list[dict[str, Any]] = []
    for slot, growth in of_slots.items():
        role = palette.light(palette.contestant(slot))
        step = -(-len(growth.times_ns) // POINTS_MAX)
        for at, value in list(zip(growth.times_ns, getattr(growth, series.name), strict=True))[::step]:
            points.append({"time": at / 1e9, "value": value / series.scale, "role": role})
    top = max(point["value"] for point in points) or 1.0
    end = max(point["time"] for point in points)
    base = alt.Chart(charts.data_of(points)).encode(
        x=alt.X(
            "time:Q",
            scale=alt.Scale(domain=(0, end), nice=False),
            axis=charts.styled_axis("seconds from the start of the load", count=6),
        ),
        y=alt.Y(
            "value:Q",
            scale=alt.Scale(domain=(0, 1.05 * top), nice=False),
            axis=charts.styled_axis(series.unit, count=4, grid=True, expression=charts.ROUNDED),
        ),
        color=alt.Color("role:N", scale=None),
    )
    return charts.framed_layers(base.mark_line(strokeWidth=2, interpolate="step-after"), height=150)
