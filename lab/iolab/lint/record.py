"""The data of a text: runs (an output of a tool, or a row of a table), tables, and their page."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from iolab.lint.figures import Figure

Certainty = Literal["impossible", "inconclusive"]
# The names of figures in rules and in messages. Times are in seconds, sizes in bytes.
TITLES = {
    "requests": "requests",
    "successes": "successes",
    "failed": "failed requests",
    "failed_share": "share of failed requests",
    "success_rate": "success rate",
    "connections": "connections",
    "duration": "duration",
    "rate": "requests per second",
    "mean": "mean latency",
    "request_mean": "time per request",
    "across": "time per request across all connections",
    "least": "shortest latency",
    "most": "longest latency",
    "deviation": "standard deviation",
    "bytes": "bytes",
    "body_bytes": "body bytes",
    "byte_rate": "transfer rate",
    "bytes_each": "bytes per reply",
    "cpu": "CPU",
    "client_cpu": "CPU of the client",
    "memory": "memory",
    "processes": "processes",
    "size": "message size",
}
# The figures that count failures, and their words in messages.
_FAILED = {"failed": "failed requests", "failed_share": "of requests failed"}
# Escape sequences for colours.
_COLOUR = re.compile(r"\x1b\[[0-9;?]{0,16}[A-Za-z]")


class Line(NamedTuple):
    """A line of the text, numbered from 1."""

    number: int
    text: str


class Quantile(NamedTuple):
    """The share of requests that were at least this fast."""

    share: float
    within: Figure


class Bin(NamedTuple):
    """A bin of a histogram: the requests up to this edge and above the one before."""

    edge: Figure
    requests: int


@dataclass(frozen=True)
class Command:
    """A command line of a tool, with the flags the rules use."""

    tool: str
    line: int
    requests: int | None = None
    connections: int | None = None
    # Concurrent requests per connection.
    streams: int = 1
    has_duration: bool = False
    has_rate: bool = False
    url: str = ""


@dataclass(frozen=True)
class Run:
    """An output of a tool, or a row of a table."""

    tool: str
    line: int
    name: str = ""
    figures: Mapping[str, Figure] = field(default_factory=dict)
    quantiles: tuple[Quantile, ...] = ()
    bins: tuple[Bin, ...] = ()
    # Replies by status, such as `200` or `2xx`, and errors by their messages.
    statuses: Mapping[str, Figure] = field(default_factory=dict)
    errors: Mapping[str, Figure] = field(default_factory=dict)
    # Latency counts from when a request was due, or requests are sent at a rate.
    is_open_loop: bool = False
    # A connection may carry concurrent requests, as in HTTP/2.
    has_streams: bool = False
    command: Command | None = None
    # Settings of a row, by the titles of their columns.
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def connections(self) -> float | None:
        """The number of connections, from the output or the command line above it."""
        if found := self.figures.get("connections"):
            return found.value
        return None if self.command is None or self.command.connections is None else float(self.command.connections)

    @property
    def slots(self) -> float | None:
        """The largest number of requests in flight; None if the number per connection is unknown."""
        connections = self.connections
        if connections is None or (self.has_streams and self.command is None):
            return None
        return connections * (self.command.streams if self.command else 1)

    @property
    def failures(self) -> list[tuple[str, Figure]]:
        """Failed requests, error statuses and errors, with their words. A failure may be counted in several."""
        counted = [(title, self.figures.get(name)) for name, title in _FAILED.items()]
        refused = [(f"replies with status {name}", each) for name, each in self.statuses.items() if name[:1] in "45"]
        found = (*counted, *refused, *self.errors.items())
        return [(words, each) for words, each in found if each and each.value]


class Cell(NamedTuple):
    """A cell of a table, with its line."""

    line: int
    text: str


@dataclass(frozen=True)
class Table:
    """A table with the meaning of its columns and its rows as runs."""

    line: int
    heading: str
    titles: tuple[str, ...]
    # The meaning of each column: a name of TITLES, a quantile such as p99, or empty.
    fields: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    runs: tuple[Run, ...]


@dataclass(frozen=True)
class Page:
    """What was recognised in a file."""

    runs: tuple[Run, ...]
    tables: tuple[Table, ...]
    prose: tuple[Line, ...]
    # Commands whose output is missing.
    silent: tuple[Command, ...]

    @property
    def outputs(self) -> tuple[Run, ...]:
        """The runs that are outputs of tools, not rows of tables."""
        return tuple(run for run in self.runs if run.tool != "table")


class Finding(NamedTuple):
    """Something impossible or inconclusive, in one sentence, with its line."""

    line: int
    certainty: Certainty
    rule: str
    message: str


def impossible(rule: str, line: int, message: str) -> Finding:
    """The finding that a figure contradicts another."""
    return Finding(line, "impossible", rule, message)


def inconclusive(rule: str, line: int, message: str) -> Finding:
    """The finding that a figure does not support the conclusion readers draw."""
    return Finding(line, "inconclusive", rule, message)


def lines_of(text: str) -> Sequence[Line]:
    """The lines of a text without colours. Control characters, as in progress bars, do not end a line."""
    return [Line(number, line.rstrip("\r")) for number, line in enumerate(_COLOUR.sub("", text).split("\n"), 1)]
