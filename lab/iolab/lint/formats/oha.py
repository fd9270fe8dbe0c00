"""oha: hey's summary in changing units, with a success rate, quantiles to p99.99 and errors by their messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from iolab.lint.figures import Span
from iolab.lint.formats import hey
from iolab.lint.formats.fields import after, bins, counts, figures, label, quantiles
from iolab.lint.record import Line, Run

TOOL = "oha"
START = hey.START
IS = re.compile(r"^\s*Success rate:")
_LABELS = hey.LABELS | {
    "success_rate": label(r"^\s*Success rate:(.*)", "share"),
    "bytes_each": label(r"^\s*Size/request:(.*)", "bytes"),
    "byte_rate": label(r"^\s*Size/sec:(.*)", "bytes"),
}
_BIN = re.compile(r"^\s{0,8}(\d{1,9}\.\d{1,9} ?(?:ns|us|ms|s|sec|m|h)?)\s{1,12}\[(\d{1,12})\]")
_QUANTILE = re.compile(r"^\s{0,8}(\d{1,2}(?:\.\d{1,4})?)% in (.*)")
# Requests in flight at the end of a timed run, which are not failures of the server.
UNDER_WAY = "aborted due to deadline"


def read(lines: Sequence[Line]) -> Run:
    """The run. oha prints no number of requests: it is the sum of statuses and errors."""
    statuses = counts(lines, hey.STATUS)
    errors = counts(after(lines, "Error distribution:"), hey.ERROR)
    under_way = errors.pop(UNDER_WAY, None)
    found = figures(lines, _LABELS) | hey.summed([*statuses.values(), *errors.values()])
    if under_way and (answered := found.get("requests")):
        # The rate includes them.
        both = Span(answered.value, answered.value + under_way.value)
        found["requests"] = replace(answered, span=both)
    return Run(
        TOOL,
        lines[0].number,
        figures=found,
        quantiles=quantiles(lines, _QUANTILE, "s"),
        bins=bins(lines, _BIN, "s"),
        statuses=statuses,
        errors=errors,
    )
