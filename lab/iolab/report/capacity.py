"""A capacity search as one HTML file: the verdict, the load curve with its knee, overload, recovery, and every run.

Made from the run's folder alone, like any report. The page loads no other files and has no scripts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import altair as alt
from markupsafe import Markup

from iolab.capacity import table
from iolab.capacity.limits import ERRORS, QUANTILES, Limit, rate_words, time_words
from iolab.capacity.progress import Probe, SearchState, state_of
from iolab.capacity.records import read_records, read_spec
from iolab.capacity.recovery import Recovery, Slice
from iolab.capacity.search import Kind, is_disturbed
from iolab.capacity.sentences import recovery_sentence, sentences
from iolab.capacity.table import has_quantile
from iolab.report import charts, document, drawing, figures, formats, palette
from iolab.report.pictures import Drawing
from iolab.results import store

# The quantiles in the charts, each in the colour of its slot.
DRAWN = ("p50", "p99", "p99.9")
HEIGHT = 220
# The quantiles of the table: all but the last, which needs a million requests.
SHOWN = tuple(QUANTILES)[:-1]
# The searches that ended with a figure.
KNOWN: tuple[Kind, ...] = ("capacity", "at least", "below")
# Labels of a milliseconds axis: 0.05 and 1,000.
PLAIN = "format(datum.value, ',~r')"

# A time in seconds and the figure at that time.
Point = tuple[float, float]


class Level(NamedTuple):
    """A figure of one run at a rate; `is_curve` if the run was made for the curve."""

    rate: float
    value: float
    is_curve: bool

    @classmethod
    def of(cls, probe: Probe, value: float) -> Level:
        """The figure of a run in an open loop."""
        return cls(probe.step.rate_per_s or 0.0, value, probe.step.purpose == "curve")


def write(folder: Path) -> Path:
    """Writes `report.html` into the folder of a search and returns its path; raises StoreError with one line."""
    return store.write_report(folder, page_of(folder)[0])


def page_of(folder: Path) -> tuple[str, tuple[str, ...]]:
    """The report of a stored search, and a sentence on each lost line of its record; raises StoreError."""
    records, faults = read_records(folder)
    return render(state_of(read_spec(folder), records), store.read_machine(folder), faults), faults


def render(state: SearchState, machine: Mapping[str, Any], faults: Sequence[str] = ()) -> str:
    """The whole document. Pure: the same run gives the same text."""
    style = palette.css() + document.resource("style.css")
    return (
        document.templates()
        .get_template("capacity.html.j2")
        .render(
            spec=state.spec,
            policy=document.policy_of(style),
            style=Markup(style),
            sentences=sentences(state),
            is_known=state.done is not None and state.done.kind in KNOWN,
            warnings=tuple(_warnings(state, faults)),
            drawings=tuple(_drawings(state)),
            cpus=",".join(map(str, state.probes[-1].cpus)) if state.probes else "",
            names=SHOWN,
            rows=table.rows(state),
            machine=figures.machine_rows(machine),
        )
    )


def _warnings(state: SearchState, faults: Sequence[str]) -> Iterator[str]:
    """What limits the answer."""
    yield from faults
    if state.next is not None:
        yield "The search is not finished: the same command resumes it."
    if any(probe.judged.word == "generator" for probe in state.probes):
        yield "In some runs the generator was the limit: a limit that broke in them says nothing about the server."
    shared = sum(probe.seen.shares_cpu for probe in state.probes)
    if shared:
        yield f"In {_runs(shared)} server and generator shared a processor: bind the server, as with taskset -c 0."
    moved = sum(is_disturbed(probe.seen) and not probe.seen.shares_cpu for probe in state.probes)
    if moved:
        yield f"In {_runs(moved)} the core-to-core latency changed: the host moved the processors of this machine."
    if state.spec.tls is not None:
        yield "Connections stay open, so no figure includes the cost of a TLS handshake."
    yield "A server on this machine shares it with the generator. For a remote one, every figure includes the network."


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def _limits(state: SearchState) -> list[Limit]:
    """The limits on time."""
    return [limit for limit in state.spec.parsed if limit.metric != ERRORS]


def _drawings(state: SearchState) -> Iterator[Drawing]:
    probes = [probe for probe in state.curve if probe.seen.replies]
    knee = state.done.rate_per_s if state.done is not None and state.done.kind in KNOWN else None
    if len(probes) > 1:
        yield _latency_drawing(state, probes, knee)
        yield _achieved_drawing(probes, knee)
    knows_cpu = [probe for probe in probes if probe.cpu_per_request_ns is not None]
    if len(knows_cpu) > 1:
        points = [Level.of(probe, (probe.cpu_per_request_ns or 0.0) / 1e3) for probe in knows_cpu]
        said = "; ".join(f"{formats.number(at.rate)}/s {formats.number(at.value)} µs" for at in points)
        chart = levels(points, knee, "microseconds")
        yield Drawing("CPU per request of the server", "", drawing.inline(chart, "CPU per request", said))
    if state.recovery is not None:
        yield from _recovery_drawings(state, state.recovery)


def _recovery_drawings(state: SearchState, seen: Recovery) -> Iterator[Drawing]:
    said = recovery_sentence(state)
    svg = drawing.inline(timeline(seen), "Overload and recovery", said)
    yield Drawing("Overload and recovery", said, svg, ((0, "answered"), (1, "requested")))
    lines: dict[int, list[Point]] = {
        slot: [
            (_middle(each), max(each.seen.times_ns[name], 1.0) / 1e6)
            for each in seen.slices
            if has_quantile(each.seen, name)
        ]
        for slot, name in enumerate(DRAWN)
    }
    if lines[0]:
        caption = (
            "Dashed: the limit. Vertical: the server has recovered. A quantile is drawn where a slice has enough "
            "requests."
        )
        legend = tuple((slot, DRAWN[slot]) for slot, points in lines.items() if points)
        svg = drawing.inline(waits(seen, lines, _limits(state)), "Latency during overload and recovery", said)
        yield Drawing("Latency during overload and recovery", caption, svg, legend)


def _latency_drawing(state: SearchState, probes: Sequence[Probe], knee: float | None) -> Drawing:
    said = "; ".join(
        f"{rate_words(probe.step.rate_per_s or 0.0)} p99 {time_words(probe.seen.times_ns['p99'])}" for probe in probes
    )
    legend = tuple(
        (slot, name) for slot, name in enumerate(DRAWN) if any(has_quantile(probe.seen, name) for probe in probes)
    )
    vertical = "" if knee is None else "Vertical: the capacity. "
    caption = f"Dashed: the limit. {vertical}Response time, from when a request was due."
    svg = drawing.inline(latencies(probes, _limits(state), knee), "Latency by rate", said)
    return Drawing("Latency by rate", caption, svg, legend)


def _achieved_drawing(probes: Sequence[Probe], knee: float | None) -> Drawing:
    points = [Level.of(probe, probe.seen.achieved_per_s) for probe in probes]
    said = "; ".join(f"requested {formats.number(at.rate)}/s, achieved {formats.number(at.value)}/s" for at in points)
    chart = levels(points, knee, "correct replies per second", diagonal=True)
    return Drawing("Achieved rate", "Grey: the requested rate.", drawing.inline(chart, "Achieved rate", said))


def latencies(probes: Sequence[Probe], limits: Sequence[Limit], knee: float | None) -> alt.TopLevelMixin:
    """Quantiles over the requested rate, a line each through the runs of the curve; a hollow dot did not hold."""
    points: list[dict[str, Any]] = [
        {
            "rate": probe.step.rate_per_s,
            "value": max(probe.seen.times_ns[name], 1.0) / 1e6,
            "name": name,
            "role": palette.light(palette.contestant(slot)),
            "inside": palette.light(palette.contestant(slot) if probe.judged.word == "holds" else "ground"),
            "purpose": probe.step.purpose,
        }
        for slot, name in enumerate(DRAWN)
        for probe in probes
        if has_quantile(probe.seen, name)
    ]
    values = [point["value"] for point in points] + [limit.below / 1e6 for limit in limits]
    domain = (min(values) / 1.3, max(values) * 1.3)
    y = alt.Y(
        "value:Q",
        scale=alt.Scale(type="log", domain=domain, nice=False),
        axis=charts.styled_axis("milliseconds", values=charts.log_ticks(*domain), expression=PLAIN, grid=True),
    )
    x = _rate_axis(max(probe.step.rate_per_s or 0.0 for probe in probes))
    base = alt.Chart(charts.data_of(points)).encode(x=x, y=y)
    lines = alt.Chart(charts.data_of([point for point in points if point["purpose"] == "curve"])).encode(x=x, y=y)
    return charts.framed_layers(
        *_knee(knee, x),
        _limit_rules(limits, y),
        lines.mark_line(strokeWidth=1.5, opacity=0.7).encode(
            detail=alt.Detail("name:N"), order=alt.Order("rate:Q"), color=alt.Color("role:N", scale=None)
        ),
        base.mark_point(size=34, strokeWidth=1.5, opacity=1).encode(
            stroke=alt.Stroke("role:N", scale=None), fill=alt.Fill("inside:N", scale=None)
        ),
        height=HEIGHT,
    )


def levels(points: Sequence[Level], knee: float | None, title: str, *, diagonal: bool = False) -> alt.TopLevelMixin:
    """A figure over the requested rate, with a line through the runs of the curve; `diagonal` marks equality."""
    most = max(at.rate for at in points)
    top = 1.06 * max([at.value for at in points] + ([most] if diagonal else []))
    x = _rate_axis(most)
    y = alt.Y(
        "value:Q",
        scale=alt.Scale(domain=(0, top), nice=False),
        axis=charts.styled_axis(title, count=5, expression=charts.ROUNDED, grid=True),
    )
    asked = alt.Chart(charts.data_of([{"rate": at, "value": at} for at in (0.0, most)] if diagonal else []))
    line = alt.Chart(charts.data_of([at._asdict() for at in points if at.is_curve]))
    dots = alt.Chart(charts.data_of([at._asdict() for at in points]))
    return charts.framed_layers(
        *_knee(knee, x),
        asked.mark_line(strokeWidth=1.5, color=palette.light("muted"), opacity=0.6).encode(x=x, y=y),
        line.mark_line(strokeWidth=1.5, opacity=0.7, color=palette.light("c0")).encode(x=x, y=y),
        dots.mark_circle(size=34, opacity=1, color=palette.light("c0")).encode(x=x, y=y),
        height=HEIGHT,
    )


def timeline(seen: Recovery) -> alt.TopLevelMixin:
    """The requested rate and the rate of correct replies, over time."""
    light, over, begin, end = seen.afterwards_per_s, seen.overload_per_s, seen.begin_s, seen.end_s
    steps = ((0.0, light), (begin, light), (begin, over), (end, over), (end, light), (end + seen.watched_s, light))
    answered = [(_middle(each), each.seen.achieved_per_s) for each in seen.slices]
    top = 1.06 * max(value for _, value in (*steps, *answered))
    y = alt.Y(
        "value:Q",
        scale=alt.Scale(domain=(0, top), nice=False),
        axis=charts.styled_axis("requests per second", count=4, grid=True, expression=charts.ROUNDED),
    )
    return _overload(seen, y, {1: steps, 0: answered})


def waits(seen: Recovery, lines: Mapping[int, Sequence[Point]], limits: Sequence[Limit]) -> alt.TopLevelMixin:
    """Quantiles of each slice over time, each in the colour of its slot."""
    values = [value for points in lines.values() for _, value in points] + [limit.below / 1e6 for limit in limits]
    domain = (min(values) / 1.3, max(values) * 1.3)
    y = alt.Y(
        "value:Q",
        scale=alt.Scale(type="log", domain=domain, nice=False),
        axis=charts.styled_axis("milliseconds", values=charts.log_ticks(*domain), expression=PLAIN, grid=True),
    )
    return _overload(seen, y, lines, limits)


def _overload(
    seen: Recovery, y: alt.Y, lines: Mapping[int, Sequence[Point]], limits: Sequence[Limit] = ()
) -> alt.TopLevelMixin:
    """Lines over time. The overload is shaded; a vertical line marks when the server had recovered."""
    x = alt.X(
        "time:Q",
        scale=alt.Scale(domain=(0, seen.end_s + seen.watched_s), nice=False),
        axis=charts.styled_axis("seconds from the beginning of the window", count=6),
    )
    layers = []
    for slot, points in lines.items():
        rows = [{"time": at, "value": value, "order": order} for order, (at, value) in enumerate(points)]
        colour = palette.light(palette.contestant(slot))
        line = alt.Chart(charts.data_of(rows)).mark_line(strokeWidth=1.5, color=colour)
        layers.append(line.encode(x=x, y=y, order=alt.Order("order:Q")))
    shaded = alt.Chart(charts.data_of([{"begin": seen.begin_s, "end": seen.end_s}]))
    back = [] if seen.back_s is None else [{"time": seen.end_s + seen.back_s}]
    vertical = alt.Chart(charts.data_of(back)).mark_rule(strokeWidth=1.5, color=palette.light("good"))
    return charts.framed_layers(
        shaded.mark_rect(color=palette.light("band")).encode(x=alt.X("begin:Q"), x2=alt.X2("end:Q")),
        _limit_rules(limits, y),
        *layers,
        vertical.encode(x=x),
        height=HEIGHT * 3 // 4,
    )


def _middle(each: Slice) -> float:
    return (each.begin_s + each.end_s) / 2


def _limit_rules(limits: Sequence[Limit], y: alt.Y) -> alt.Chart:
    """A dashed line at each limit on time."""
    rules = alt.Chart(charts.data_of([{"value": limit.below / 1e6} for limit in limits]))
    dashed: alt.Chart = rules.mark_rule(strokeDash=[5, 4], strokeWidth=1.5, color=palette.light("bad")).encode(y=y)
    return dashed


def _rate_axis(most: float) -> alt.X:
    return alt.X(
        "rate:Q",
        scale=alt.Scale(domain=(0, 1.03 * most), nice=False),
        axis=charts.styled_axis("requested rate, per second", count=6, expression=charts.ROUNDED),
    )


def _knee(knee: float | None, x: alt.X) -> list[alt.Chart]:
    """A vertical line at the capacity."""
    if knee is None:
        return []
    rule = alt.Chart(charts.data_of([{"rate": knee}])).mark_rule(strokeWidth=1.5, color=palette.light("good"))
    return [rule.encode(x=x)]
