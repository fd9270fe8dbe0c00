"""Checks whether one run supports a conclusion: its duration, requests and errors, and what a closed loop hides."""

from __future__ import annotations

from collections.abc import Iterator

from iolab.lint.figures import shown, shown_time
from iolab.lint.record import Finding, Run, inconclusive
from iolab.wording import listed, number

# Shorter runs have only a few scheduler ticks.
DURATION_MIN_S = 1.0
# A quantile needs at least this many slower requests, or it is chance.
BEYOND_MIN = 10
# Tools print higher quantiles even with too few requests, so only tables are checked for those.
PRINTED_MAX = 0.99
# Only latencies beyond this multiple of the highest quantile count as a hidden tail.
HIDDEN_TIMES = 10
CLOSED_LOOPS = ("ab", "hey", "oha", "h2load")
# The largest number of named kinds of errors: each reset connection may be a kind of its own.
KINDS_MAX = 3
# A client that uses more of a core is saturated.
CLIENT_CPU_MAX = 0.9


def check(run: Run) -> Iterator[Finding]:
    """Findings on the evidence of one run."""
    if run.tool != "table":
        yield from _short(run)
    yield from _few(run)
    yield from _errors(run)
    yield from _first_requests(run)
    yield from _hidden_tail(run)
    yield from _client(run)


def _short(run: Run) -> Iterator[Finding]:
    duration = run.figures.get("duration")
    if duration and duration.span.high < DURATION_MIN_S:
        yield inconclusive(
            "short",
            duration.line,
            f"the run took {shown_time(duration.value)}, less than {shown(DURATION_MIN_S)} s: start-up and a few "
            "ticks of the "
            "scheduler are a large part of it",
        )


def _few(run: Run) -> Iterator[Finding]:
    """The first quantile with too few requests beyond it."""
    requests = run.figures.get("requests")
    for share, within in sorted(run.quantiles, key=lambda each: each.share):
        beyond = requests.value * (1 - share) if requests else BEYOND_MIN
        if round(beyond, 6) < BEYOND_MIN and share < 1 and (share <= PRINTED_MAX or run.tool == "table"):
            yield inconclusive(
                "few-requests",
                within.line,
                f"p{100 * share:.6g} of {shown(requests.value if requests else 0)} requests rests on the slowest "
                f"{shown(beyond)}: it takes at least {BEYOND_MIN}, so {shown(round(BEYOND_MIN / (1 - share)))} "
                "requests",
            )
            return


def _errors(run: Run) -> Iterator[Finding]:
    """Failures, because their latencies are not those of replies."""
    failures = sorted(run.failures, key=lambda each: -each[1].value)
    if not failures:
        return
    requests = run.figures.get("requests")
    of = f" (of {shown(requests.value)} requests)" if requests else ""
    kinds = [f"{each.text if each.unit == '%' else shown(each.value)} {words}" for words, each in failures[:KINDS_MAX]]
    kinds += [f"{len(failures) - KINDS_MAX} other kinds"] if len(failures) > KINDS_MAX else []
    yield inconclusive(
        "errors",
        min(each.line for _, each in failures),
        f"{listed(kinds)}{of}: an error can be much faster or slower than a reply, so rate and latency are not those "
        "of replies",
    )


def _first_requests(run: Run) -> Iterator[Finding]:
    """A tail that is the first request of each connection: as many, and about as slow as the slowest connect."""
    connections, most, dial = run.connections, run.figures.get("most"), run.figures.get("dial_most")
    highest = max(run.quantiles, key=lambda each: each.share, default=None)
    if not connections or connections < 2 or not most or not dial or not highest:
        return
    if dial.value < 0.9 * most.value or most.value < HIDDEN_TIMES * highest.within.value:
        return
    slow = 0
    for each in reversed(run.bins):
        slow += each.requests
        if slow >= connections:
            break
    if slow == connections:
        yield inconclusive(
            "first-requests",
            dial.line,
            f"the slowest {slow} requests are as many as the {shown(connections)} connections, and the slowest "
            "connect took "
            f"{shown_time(dial.value)} of the longest latency, {shown_time(most.value)}: the tail is most likely the "
            "first "
            "request of each connection, without a warm-up",
        )


def _hidden_tail(run: Run) -> Iterator[Finding]:
    """Coordinated omission: a closed loop sends nothing during a stall.

    The share of requests at random times that would wait longer than y is the sum of (latency - y) over slow requests,
    divided by connections x duration.
    """
    highest = max(
        (each for each in run.quantiles if each.share <= PRINTED_MAX), key=lambda each: each.share, default=None
    )
    duration, slots = run.figures.get("duration"), run.slots
    if run.tool not in CLOSED_LOOPS or run.is_open_loop or not highest or not duration or not slots:
        return
    limit = HIDDEN_TIMES * highest.within.span.high
    stalled = _beyond(run, limit)
    hidden = stalled / (slots * duration.value) if duration.value else 0.0
    if highest.share < 1 and hidden > 1 - highest.share:
        yield inconclusive(
            "hidden-tail",
            highest.within.line,
            f"p{100 * highest.share:.6g} is {shown_time(highest.within.value)}, but connections spent "
            f"{number(100 * hidden, 2)} % of the "
            f"time waiting beyond {shown_time(limit)}: a closed loop sends nothing meanwhile, and requests that come "
            "at a "
            "rate would have a longer tail (coordinated omission)",
        )


def _beyond(run: Run, limit: float) -> float:
    """A lower bound on the seconds spent beyond a limit, from the histogram or the longest latency."""
    most = run.figures.get("most")
    longest = max(0.0, most.span.low - limit) if most else 0.0
    edges = [each.edge.span.low for each in run.bins]
    in_bins = sum(each.requests * max(0.0, edge - limit) for each, edge in zip(run.bins[1:], edges, strict=False))
    return max(longest, in_bins)


def _client(run: Run) -> Iterator[Finding]:
    cpu = run.figures.get("client_cpu")
    if cpu and cpu.value > CLIENT_CPU_MAX:
        yield inconclusive(
            "client",
            cpu.line,
            f"the client used {cpu.text} of a core, more than {100 * CLIENT_CPU_MAX:.0f} %: the rate may be its own "
            "limit, and "
            "its latency includes its own queue",
        )
