"""Checks figures of one run that follow from each other: rates, means per request, transfer, histograms, statuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from iolab.lint.figures import Figure, Span, shown, shown_time
from iolab.lint.record import TITLES, Finding, Run, impossible, inconclusive

# The tolerance of each tool: some use the time of the whole run, some of its measured part, some round it first.
SLACK = {"h2load": 0.01, "k6": 0.03, "hey": 0.001, "oha": 0.001, "wrk": 0.001, "wrk2": 0.001}
# hey keeps this many results, and takes statuses and quantiles only from them.
HEY_RESULTS_MAX = 1_000_000
_TIMES = {"duration", "request_mean", "across", "mean", "turn"}


class Formula(NamedTuple):
    """A figure that equals the product of the figures `above` over the product of those `below`."""

    figure: str
    above: tuple[str, ...]
    below: tuple[str, ...]
    text: str


FORMULAS = (
    Formula("rate", ("requests",), ("duration",), "requests / duration"),
    Formula("request_mean", ("connections", "duration"), ("requests",), "connections x duration / requests"),
    Formula("across", ("duration",), ("requests",), "duration / requests"),
    Formula("byte_rate", ("bytes",), ("duration",), "bytes / duration"),
)


def check(run: Run) -> Iterator[Finding]:
    """The formulas, the sums and the counts of a run."""
    if len(run.statuses) and run.tool == "hey" and _figure(run, "requests") == HEY_RESULTS_MAX:
        yield inconclusive(
            "kept-results",
            run.figures["requests"].line,
            f"1000000 results are counted, and hey keeps 1000000 at most (rate x duration = {shown(_work(run))}): "
            "quantiles and statuses are those of the first million, and later requests may be missing",
        )
    else:
        yield from _formulas(run)
    yield from _sums(run)
    yield from _counts(run)
    yield from _bytes(run)


def _figure(run: Run, name: str) -> float | None:
    return each.value if (each := run.figures.get(name)) else None


def _work(run: Run) -> float:
    """The number of requests, from rate x duration."""
    return (_figure(run, "rate") or 0.0) * (_figure(run, "duration") or 0.0)


def _formulas(run: Run) -> Iterator[Finding]:
    """One finding for each broken formula, or a single one if another number of requests explains all."""
    wrong = [formula for formula in FORMULAS if not _holds(formula, run.figures, SLACK.get(run.tool, 0.0))]
    rate, duration, requests = (run.figures.get(name) for name in ("rate", "duration", "requests"))
    if len(wrong) > 1 and rate and duration and requests:
        others = {**run.figures, "requests": replace(requests, span=rate.span * duration.span)}
        if all(_holds(formula, others, SLACK.get(run.tool, 0.0)) for formula in wrong):
            yield impossible(
                "formula",
                requests.line,
                f"requests is {shown(requests.value)}, but rate x duration = {shown(rate.value)} x "
                f"{shown_time(duration.value)} = "
                f"{shown(rate.value * duration.value)}, and the times per request agree with that: the run completed "
                "another number",
            )
            return
    for formula in wrong:
        printed, value = run.figures[formula.figure], _value(formula, run.figures) or Span.exactly(0.0)
        yield impossible(
            "formula",
            printed.line,
            f"{TITLES[formula.figure]} is {_said(formula.figure, printed.value)}, but {formula.text} = "
            f"{_operands(formula, run.figures)} = {_said(formula.figure, value.middle)}",
        )


def _holds(formula: Formula, figures: Mapping[str, Figure], slack: float) -> bool:
    """Whether a formula holds, or a figure for it is missing."""
    printed, value = figures.get(formula.figure), _value(formula, figures)
    return printed is None or value is None or printed.span.meets(value, slack)


def _value(formula: Formula, figures: Mapping[str, Figure]) -> Span | None:
    value = Span.exactly(1.0)
    for name in formula.above:
        if name not in figures:
            return None
        value = value * figures[name].span
    for name in formula.below:
        if name not in figures or not figures[name].span.high:
            return None
        value = value / figures[name].span
    return value


def _operands(formula: Formula, figures: Mapping[str, Figure]) -> str:
    above, below = (
        " x ".join(_said(name, figures[name].value) for name in names) for names in (formula.above, formula.below)
    )
    return f"{above} / {below}"


def _said(name: str, value: float) -> str:
    if name in _TIMES:
        return shown_time(value)
    return f"{shown(value / 1024)} KiB/s" if name == "byte_rate" else shown(value)


def _sums(run: Run) -> Iterator[Finding]:
    """Bins or statuses that do not add up to the requests."""
    requests = run.figures.get("requests")
    in_bins = sum(each.requests for each in run.bins)
    if requests and run.bins and not requests.span.meets(Span.exactly(in_bins)) and not run.failures:
        yield impossible(
            "histogram",
            run.bins[0].edge.line,
            f"the bins of the histogram hold {in_bins} requests, but {shown(requests.value)} were answered: "
            "each request is in one bin",
        )
    replies = sum(each.value for each in run.statuses.values())
    if requests and run.statuses and not requests.span.meets(Span.exactly(replies)) and not run.errors:
        first = next(iter(run.statuses.values()))
        yield impossible(
            "statuses",
            first.line,
            f"replies by status add up to {shown(replies)}, but {shown(requests.value)} requests were counted",
        )


def _counts(run: Run) -> Iterator[Finding]:
    """More successes or failures than requests, or fewer requests than the command asks for."""
    requests = run.figures.get("requests")
    for name in ("successes", "failed"):
        part = run.figures.get(name)
        if requests and part and part.span.low > requests.span.high:
            yield impossible(
                "counts", part.line, f"{shown(part.value)} {TITLES[name]}, but {shown(requests.value)} requests in all"
            )
    rate = run.figures.get("success_rate")
    if rate and rate.span.low > 1:
        yield impossible("counts", rate.line, f"a success rate of {rate.text} is more than 100 %")
    done = run.figures.get("turns") if run.tool == "k6" else requests
    asked = run.command.requests if run.command else None
    if not done or not asked or not run.command or run.command.has_duration or run.failures:
        return
    if done.span.high < _least(run.tool, asked, run.connections) * 0.99:
        yield impossible(
            "asked",
            done.line,
            f"{shown(done.value)} requests completed, but the command asks for {asked} (line "
            f"{run.command.line}): the output is of another run, or it ended early",
        )


def _least(tool: str, asked: int, connections: float | None) -> float:
    """The requests a tool makes of those requested: hey gives each worker equally many and drops the rest."""
    workers = int(connections or 50) or 1
    return asked // workers * workers if tool == "hey" else asked


def _bytes(run: Run) -> Iterator[Finding]:
    """Bodies with more bytes than the transfer, or not as long as the document."""
    whole, bodies, requests = (run.figures.get(name) for name in ("bytes", "body_bytes", "requests"))
    if whole and bodies and bodies.span.low > whole.span.high:
        yield impossible(
            "bytes",
            bodies.line,
            f"{shown(bodies.value)} bytes of bodies, but {shown(whole.value)} bytes transferred in all",
        )
    document, connections = run.figures.get("document"), run.connections or 1.0
    if document and bodies and requests and not run.failures:
        # Incomplete replies at the end count as bytes but not as requests.
        least, most = document.value * requests.value, document.value * (requests.value + connections)
        if not least <= bodies.value <= most:
            yield impossible(
                "bytes",
                bodies.line,
                f"{shown(bodies.value)} bytes of bodies, but {shown(requests.value)} replies of {document.text} = "
                f"{shown(least)} bytes, and none failed",
            )
