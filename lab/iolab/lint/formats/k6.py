"""k6: a line for each metric, in the summary of version 1 and in the older one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from iolab.lint.figures import Figure, figure
from iolab.lint.record import Line, Quantile, Run

TOOL = "k6"
_METRIC = re.compile(r"^\s*(?:[✓✗] )?([a-z_0-9]{1,60})\.{2,60}: {0,60}(\S.{0,400})")
START = re.compile(
    r"(?:█ TOTAL RESULTS|(?:checks|checks_total|data_received|http_req_blocked|http_req_duration)\.{2,60}:)"
)
IS = re.compile(r"\b(?:http_reqs|iterations)\.{2,60}:")
_PAIR = re.compile(r"\b(avg|min|med|max|p\(\d{1,2}(?:\.\d{1,4})?\))=(\S{1,24})")
_COUNT_AND_RATE = re.compile(r"^(\d{1,15})\s{1,40}(\S{1,30})/s")
# Older versions tick what holds: for http_req_failed that the request failed, for checks that the check passed.
_FAILED = re.compile(r"(?:✓ {1,4}|%\s{1,20})(\d{1,12})(?: out of|\s)")
_FAILURES = {
    "http_req_failed": _FAILED,
    "checks_failed": _FAILED,
    "checks": re.compile(r"✗ {1,4}(\d{1,12})"),
    "dropped_iterations": re.compile(r"^(\d{1,12})"),
}
_RATE = re.compile(r"\biterations/s\b")
_NAMES = {"avg": "mean", "min": "least", "max": "most"}


def read(lines: Sequence[Line]) -> Run:
    """The run. Latencies are those of requests; iterations, which may sleep, are for Little's law of virtual users."""
    found: dict[str, Figure] = {}
    quantiles: list[Quantile] = []
    errors: dict[str, Figure] = {}
    for line in lines:
        match = _METRIC.match(line.text)
        if not match:
            continue
        name, rest = match.groups()
        if name == "http_req_duration" and not quantiles:
            quantiles = _latency(line.number, rest, found)
        elif name == "iteration_duration" and (mean := dict(_pairs(line.number, rest)).get("avg")):
            found.setdefault("turn", mean)
        elif name in ("http_reqs", "iterations"):
            _count_and_rate(
                line.number, rest, found, ("requests", "rate") if name == "http_reqs" else ("turns", "turn_rate")
            )
        elif name == "vus_max" and (users := figure(rest.split()[0], line.number, "count")):
            found.setdefault("connections", users)
        elif failed := _failures(line.number, name, rest):
            errors[name] = failed
    is_open_loop = any(_RATE.search(line.text) for line in lines)
    return Run(
        TOOL, lines[0].number, figures=found, quantiles=tuple(quantiles), errors=errors, is_open_loop=is_open_loop
    )


def _latency(number: int, rest: str, found: dict[str, Figure]) -> list[Quantile]:
    quantiles = []
    for label, each in _pairs(number, rest):
        if label in _NAMES:
            found[_NAMES[label]] = each
        else:
            quantiles.append(Quantile(0.5 if label == "med" else float(label[2:-1]) / 100, each))
    return quantiles


def _count_and_rate(number: int, rest: str, found: dict[str, Figure], names: tuple[str, str]) -> None:
    match = _COUNT_AND_RATE.match(rest)
    count, rate = (figure(match[1], number, "count"), figure(match[2], number, "number")) if match else (None, None)
    if count and rate:
        found |= {names[0]: count, names[1]: rate}


def _pairs(number: int, rest: str) -> list[tuple[str, Figure]]:
    """The times of a metric by name, such as `avg` or `p(95)`."""
    return [(name, read) for name, text in _PAIR.findall(rest) if (read := figure(text, number, "time"))]


def _failures(number: int, name: str, rest: str) -> Figure | None:
    """The number of failed requests, checks or iterations in a metric that counts them; None for 0."""
    pattern = _FAILURES.get(name)
    match = pattern.search(rest) if pattern else None
    failed = figure(match[1], number, "count") if match else None
    return failed if failed and failed.value else None
