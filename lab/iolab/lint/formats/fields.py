"""Shared by formats: figures after labels, quantiles, and bins of a histogram."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from iolab.lint.figures import Figure, Kind, Span, figure
from iolab.lint.record import Bin, Line, Quantile


class Label(NamedTuple):
    """A pattern with a figure in its first group, and the default unit of the figure."""

    pattern: re.Pattern[str]
    kind: Kind
    default: str = ""


def label(pattern: str, kind: Kind, default: str = "") -> Label:
    """A label of a format's table."""
    return Label(re.compile(pattern), kind, default)


def figures(lines: Iterable[Line], labels: Mapping[str, Label]) -> dict[str, Figure]:
    """The first figure of each label."""
    found: dict[str, Figure] = {}
    for line in lines:
        for name, (pattern, kind, default) in labels.items():
            match = None if name in found else pattern.search(line.text)
            if match and (read := figure(match[1], line.number, kind, default)):
                found[name] = read
    return found


def columns(lines: Iterable[Line], start: str, names: Sequence[str], default: str = "") -> dict[str, Figure]:
    """The times in the row that begins with `start`, by the names of their columns."""
    for line in lines:
        if line.text.strip().startswith(start):
            words = line.text.strip().removeprefix(start).split()
            pairs = zip(names, words, strict=False)
            read = {name: figure(word, line.number, "time", default) for name, word in pairs if name}
            return {name: each for name, each in read.items() if each}
    return {}


def quantiles(lines: Iterable[Line], pattern: re.Pattern[str], default: str = "") -> tuple[Quantile, ...]:
    """The quantiles of the first list: group 1 of the pattern is the percentage, group 2 the time.

    wrk2 and oha may print a second list, of other latencies.
    """
    found: list[Quantile] = []
    for line in lines:
        match = pattern.match(line.text)
        read = figure(match[2], line.number, "time", default) if match else None
        if match and read and 0 <= (share := float(match[1]) / 100) <= 1:
            if found and share <= found[-1].share:
                break
            found.append(Quantile(share, read))
    return tuple(found)


def bins(lines: Iterable[Line], pattern: re.Pattern[str], default: str) -> tuple[Bin, ...]:
    """The bins of the first histogram: group 1 of the pattern is the edge, group 2 the number of requests."""
    found: list[Bin] = []
    for line in lines:
        match = pattern.match(line.text)
        if match and (edge := figure(match[1], line.number, "time", default)):
            if found and edge.value < found[-1].edge.value:
                break
            found.append(Bin(edge, int(match[2])))
    return tuple(found)


def counts(lines: Iterable[Line], pattern: re.Pattern[str]) -> dict[str, Figure]:
    """The counts in the group `count`, by the words in the group `words`; counts of the same words are added."""
    found: dict[str, Figure] = {}
    for line in lines:
        for match in pattern.finditer(line.text):
            words = match["words"].strip()
            if read := figure(match["count"], line.number, "count"):
                earlier = found.get(words)
                found[words] = exact(earlier.value + read.value, earlier.line) if earlier else read
    return found


def exact(value: float, line: int) -> Figure:
    """A computed count."""
    return Figure(value, Span.exactly(value), line, f"{value:.0f}")


def after(lines: Sequence[Line], heading: str) -> list[Line]:
    """The lines after a heading, to the next empty line."""
    found: list[Line] = []
    inside = False
    for line in lines:
        if inside and not line.text.strip():
            return found
        if inside:
            found.append(line)
        inside = inside or line.text.strip().startswith(heading)
    return found
