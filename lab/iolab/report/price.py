"""The price of a request: the server's processor time, split into user and system time, as stacked bars."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import altair as alt

from iolab.judge.verdict import ComparisonVerdict
from iolab.metrics import METRICS
from iolab.report import charts, drawing, formats, palette
from iolab.report.figures import Counted
from iolab.report.pictures import Drawing

HEADING = "Server CPU per request, µs"
CAPTION = "The whole bar is exact. The kernel samples its split by its tick, over all trials that count."
# The parts of a bar, from the left, with the colours of contestants' places, as in the legend.
PARTS = ("user", "kernel")


class Bar(NamedTuple):
    """One contestant: microseconds of a request, part by part."""

    title: str
    parts: tuple[float, ...]


def bars(found: ComparisonVerdict, used: Counted) -> Iterator[Bar]:
    """The median price of each contestant, split by the shares of its parts over all trials that count.

    The tick that samples the split is as long as thousands of requests, so a single trial's split says little.
    """
    for slot, title in enumerate(found.titles):
        level = found.level("cpu_per_request", title)
        servers = [each.server for each in used.get(slot, ()) if each.server is not None]
        user_ns, kernel_ns = sum(each.user_ns for each in servers), sum(each.system_ns for each in servers)
        if level is not None and user_ns + kernel_ns:
            total = level.median / METRICS["cpu_per_request"].scale
            user = total * user_ns / (user_ns + kernel_ns)
            yield Bar(title, (user, total - user))


def drawings(found: ComparisonVerdict, used: Counted) -> Iterator[Drawing]:
    """The chart of a comparison, if its trials have the figures."""
    drawn = list(bars(found, used))
    if drawn:
        said = "; ".join(f"{bar.title} {_words(bar)}" for bar in drawn)
        yield Drawing(HEADING, CAPTION, drawing.inline(chart(drawn), HEADING, said), tuple(enumerate(PARTS)))


def _words(bar: Bar) -> str:
    """`4.10 + 12.3 = 16.4`, in the order of the parts."""
    return f"{' + '.join(map(formats.number, bar.parts))} = {formats.number(sum(bar.parts))}"


def chart(drawn: Sequence[Bar]) -> alt.TopLevelMixin:
    """A bar for each contestant, its parts beside each other."""
    segments: list[dict[str, Any]] = []
    for at, bar in enumerate(drawn):
        begin = 0.0
        for number, part in enumerate(bar.parts):
            role = palette.light(palette.contestant(number))
            segments.append({"at": at, "begin": begin, "end": begin + part, "role": role})
            begin += part
    return charts.bars(segments, [(bar.title, _words(bar)) for bar in drawn], "microseconds")
