"""The one line of an echo client: successes, failures, whole milliseconds, requests per second."""

from __future__ import annotations

import re
from collections.abc import Sequence

from iolab.lint.figures import Figure, Kind, figure
from iolab.lint.formats.fields import exact
from iolab.lint.record import Line, Run

TOOL = "echo-client"
START = re.compile(r"success:? ?\d{1,12}, failed:? ?\d{1,12}, time_used:? ?\d{1,12}, qps:? ?\d{1,12}")
IS = START
_NUMBER = re.compile(r"\d{1,12}")
_NAMES: tuple[tuple[str, Kind], ...] = (
    ("successes", "count"),
    ("failed", "count"),
    ("duration", "time"),
    ("rate", "number"),
)


def read(lines: Sequence[Line]) -> Run:
    """The run; its requests are the successes and the failures."""
    match = next(begun for line in lines if (begun := START.search(line.text)))
    number = lines[0].number
    words = _NUMBER.findall(match[0])
    read = {
        name: figure(word, number, kind, "ms" if kind == "time" else "")
        for (name, kind), word in zip(_NAMES, words, strict=True)
    }
    found: dict[str, Figure] = {name: each for name, each in read.items() if each}
    total = found["successes"].value + found["failed"].value
    found["requests"] = exact(total, number)
    return Run(TOOL, number, figures=found)
