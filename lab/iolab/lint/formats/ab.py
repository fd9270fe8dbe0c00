"""Apache's ab: labels with values, a table of connection times in milliseconds, percentages."""

from __future__ import annotations

import re
from collections.abc import Sequence

from iolab.lint.formats.fields import columns, figures, label, quantiles
from iolab.lint.record import Line, Run

TOOL = "ab"
START = re.compile(r"This is ApacheBench|Server Software:|Concurrency Level:")
IS = re.compile(r"Complete requests:|Time taken for tests:")
_LABELS = {
    "connections": label(r"^\s*Concurrency Level:(.*)", "count"),
    "duration": label(r"^\s*Time taken for tests:(.*)", "time", "s"),
    "requests": label(r"^\s*Complete requests:(.*)", "count"),
    "failed": label(r"^\s*Failed requests:(.*)", "count"),
    "document": label(r"^\s*Document Length:(.*)", "count"),
    "bytes": label(r"^\s*Total transferred:(.*)", "count"),
    "body_bytes": label(r"^\s*HTML transferred:(.*)", "count"),
    "rate": label(r"^\s*Requests per second:(.*)", "number"),
    "request_mean": label(r"^\s*Time per request:(.*)\(mean\)", "time", "ms"),
    "across": label(r"^\s*Time per request:(.*)\(mean, across", "time", "ms"),
    "byte_rate": label(r"^\s*Transfer rate:(.*)", "bytes", "kb"),
}
_ERRORS = {
    "replies with an error status": label(r"^\s*Non-2xx responses:(.*)", "count"),
    "write errors": label(r"^\s*Write errors:(.*)", "count"),
}
_PERCENTAGE = re.compile(r"^\s{0,8}(\d{1,3})%\s+(\S+)")


def read(lines: Sequence[Line]) -> Run:
    """The run."""
    # The columns of the row of total times; the fourth is the median.
    times = columns(lines, "Total:", ("least", "mean", "deviation", "", "most"), "ms")
    return Run(
        TOOL,
        lines[0].number,
        figures=figures(lines, _LABELS) | times,
        quantiles=quantiles(lines, _PERCENTAGE, "ms"),
        errors=figures(lines, _ERRORS),
    )
