"""hey: a summary in seconds with four decimals, a histogram of eleven bins, quantiles to p99."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from iolab.lint.figures import Figure, figure
from iolab.lint.formats.fields import after, bins, counts, exact, figures, label, quantiles
from iolab.lint.record import Line, Run

TOOL = "hey"
START = re.compile(r"Summary:$")
IS = re.compile(r"^\s*(?:Total:.*secs|Requests/sec:)")
LABELS = {
    "duration": label(r"^\s*Total:(.*)", "time", "s"),
    "most": label(r"^\s*Slowest:(.*)", "time", "s"),
    "least": label(r"^\s*Fastest:(.*)", "time", "s"),
    "mean": label(r"^\s*Average:(.*)", "time", "s"),
    "rate": label(r"^\s*Requests/sec:(.*)", "number"),
    "body_bytes": label(r"^\s*Total data:(.*)", "bytes"),
    "bytes_each": label(r"^\s*Size/request:(.*)", "count"),
}
_BIN = re.compile(r"^\s{0,8}(\d{1,9}\.\d{1,9})\s{1,4}\[(\d{1,12})\]")
_QUANTILE = re.compile(r"^\s{0,8}(\d{1,2})%%? in (.*)")
STATUS = re.compile(r"^\s{0,8}\[(?P<words>\d{3})\]\s{1,8}(?P<count>\d{1,12}) responses")
ERROR = re.compile(r"^\s{0,8}\[(?P<count>\d{1,12})\]\s{1,8}(?P<words>.{1,200})")


def read(lines: Sequence[Line]) -> Run:
    """The run. hey prints no number of requests: it is the sum of statuses and errors, as in its rate."""
    statuses, errors = counts(lines, STATUS), counts(after(lines, "Error distribution:"), ERROR)
    found = figures(lines, LABELS) | summed([*statuses.values(), *errors.values()])
    for line in lines:
        parts = line.text.partition("DNS+dialup:")[2].split(",")
        if len(parts) == 3 and (slowest := figure(parts[2], line.number, "time", "s")):
            found["dial_most"] = slowest
    return Run(
        TOOL,
        lines[0].number,
        figures=found,
        quantiles=quantiles(lines, _QUANTILE, "s"),
        bins=bins(lines, _BIN, "s"),
        statuses=statuses,
        errors=errors,
    )


def summed(statuses: Iterable[Figure]) -> dict[str, Figure]:
    """The number of requests that ended, with or without a reply."""
    each = list(statuses)
    if not each:
        return {}
    total = sum(one.value for one in each)
    return {"requests": exact(total, each[0].line)}
