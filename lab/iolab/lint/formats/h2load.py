"""nghttp2's h2load: a line of counts, one of statuses, and a table of times."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from iolab.lint.figures import Span, figure
from iolab.lint.formats.fields import columns, counts, exact, figures, label
from iolab.lint.record import Line, Run

TOOL = "h2load"
START = re.compile(r"starting benchmark\.\.\.|finished in \S{1,20}, ")
IS = re.compile(r"^finished in ")
_LABELS = {
    # The rate of a timed run is over the requested duration, without the time the clients take to stop.
    "duration": label(r"and (\d{1,9}s) of main duration", "time"),
    "finished": label(r"^finished in (\S{1,20}),", "time"),
    "rate": label(r"^finished in \S{1,20}, (\S{1,20}) req/s", "number"),
    "requests": label(r"^requests: .{0,60}, (\d{1,12}) done", "count"),
    "successes": label(r"^requests: .{0,90}, (\d{1,12}) succeeded", "count"),
    "failed": label(r"^requests: .{0,120}, (\d{1,12}) failed", "count"),
    "bytes": label(r"^traffic: \S{1,20} \((\d{1,18})\) total", "count"),
    "byte_rate": label(r"^finished in \S{1,20}, \S{1,20} req/s, (\S{1,20})/s", "bytes"),
}
_CLIENTS = re.compile(r"^spawning thread #\d{1,6}: (\d{1,9}) total client")
_STATUSES = re.compile(r"(?:codes:|,) (?P<count>\d{1,12}) (?P<words>[2345]xx)")
_HTTP1 = re.compile(r"^Application protocol: http/1")


def read(lines: Sequence[Line]) -> Run:
    """The run, with the clients of all threads."""
    found = figures(lines, _LABELS) | columns(lines, "time for request:", ("least", "most", "mean", "deviation"))
    successes, requests = found.get("successes"), found.get("requests")
    if successes and requests:
        # The rate counts successes only; `requests` includes failures.
        found["requests"] = replace(requests, span=Span(min(successes.value, requests.value), requests.value))
    finished = found.pop("finished", None)
    if finished:
        found.setdefault("duration", finished)
    clients = [(line.number, match) for line in lines if (match := _CLIENTS.match(line.text))]
    each = [read for number, match in clients if (read := figure(match[1], number, "count"))]
    if each:
        total = sum(one.value for one in each)
        found["connections"] = exact(total, each[0].line)
    is_http1 = any(_HTTP1.search(line.text) for line in lines)
    return Run(TOOL, lines[0].number, figures=found, statuses=counts(lines, _STATUSES), has_streams=not is_http1)
