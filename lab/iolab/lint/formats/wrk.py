"""wrk, and wrk2, which adds a calibration of its threads and quantiles of its histogram."""

from __future__ import annotations

import re
from collections.abc import Sequence

from iolab.lint.formats.fields import columns, counts, figures, label, quantiles
from iolab.lint.record import Line, Run

START = re.compile(r"Running \S{1,20} test @ ")
IS = re.compile(r"^\s*(?:Requests/sec:|\d+ requests in )")
# What only wrk2 prints.
_WRK2 = re.compile(r"Thread calibration:|HdrHistogram")
_LABELS = {
    "connections": label(r"^\s*\d{1,6} threads and (\d{1,9}) connections", "count"),
    "requests": label(r"^\s*(\d{1,15}) requests in ", "count"),
    "duration": label(r"^\s*\d{1,15} requests in (\S{1,20}),", "time"),
    "bytes": label(r"^\s*\d{1,15} requests in \S{1,20}, (\S{1,20}) read", "bytes"),
    "rate": label(r"^\s*Requests/sec:(.*)", "number"),
    "byte_rate": label(r"^\s*Transfer/sec:(.*)", "bytes"),
}
_QUANTILE = re.compile(r"^\s{0,8}(\d{1,3}(?:\.\d{1,6})?)%\s{1,8}(\S{1,20})$")
_SOCKET_ERRORS = re.compile(r"(?:Socket errors:|,) (?P<words>connect|read|write|timeout) (?P<count>\d{1,12})")
_REFUSED = {"replies with an error status": label(r"^\s*Non-2xx or 3xx responses:(.*)", "count")}


def read(lines: Sequence[Line]) -> Run:
    """The run."""
    is_wrk2 = any(_WRK2.search(line.text) for line in lines)
    found = quantiles(lines, _QUANTILE)
    return Run(
        "wrk2" if is_wrk2 else "wrk",
        lines[0].number,
        figures=figures(lines, _LABELS) | columns(lines, "Latency  ", ("mean", "deviation", "most")),
        quantiles=found,
        errors=counts(lines, _SOCKET_ERRORS) | figures(lines, _REFUSED),
        is_open_loop=is_wrk2,
    )
