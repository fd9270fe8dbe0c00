"""Checks the latencies of one run: the order of quantiles, a mean they allow, and Little's law."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import accumulate, pairwise

from iolab.lint.figures import Figure, Span, shown, shown_time
from iolab.lint.record import Finding, Quantile, Run, impossible, inconclusive

# Some tools' histograms keep three digits.
DIGITS_SLACK = 0.005
# The mean latency is over completed requests and the rate over the whole run, so slow starts and stops add this error.
RAMP_SLACK = 0.03
# In a closed loop, connections that wait for replies less than half of the time wait for the client.
WAITING_MIN = 0.5


def check(run: Run) -> Iterator[Finding]:
    """Findings on the latencies of a run."""
    yield from _order(run)
    yield from _mean(run)
    # After a slow reply wrk adds samples it did not measure, so its mean is not that of its measurements.
    if run.tool not in ("wrk", "k6"):
        yield from _little(run)
    yield from _iterations(run)


def _order(run: Run) -> Iterator[Finding]:
    """A higher quantile that is shorter than a lower one, the shortest and the longest latency included."""
    ends = [Quantile(0.0, each) for each in [run.figures.get("least")] if each]
    ends_after = [Quantile(1.0, each) for each in [run.figures.get("most")] if each]
    steps = [*ends, *sorted(run.quantiles, key=lambda each: each.share), *ends_after]
    for lower, higher in pairwise(steps):
        if lower.within.span.low > higher.within.span.high * (1 + DIGITS_SLACK):
            yield impossible(
                "quantiles",
                higher.within.line,
                f"{_name(higher.share)} is {shown_time(higher.within.value)}, shorter than {_name(lower.share)}, "
                f"{shown_time(lower.within.value)}: quantiles never fall",
            )


def _name(share: float) -> str:
    ends = {0.0: "the shortest latency", 1.0: "the longest latency"}
    return ends.get(share, f"p{100 * share:.6g}")


def _mean(run: Run) -> Iterator[Finding]:
    """A mean outside the range that the quantiles allow."""
    mean, most, least = (run.figures.get(name) for name in ("mean", "most", "least"))
    if mean is None:
        return
    requests = run.figures.get("requests")
    bounds = _mean_bounds(run.quantiles, least, most, 1 / requests.value if requests and requests.value else 0.0)
    if not mean.span.meets(bounds, DIGITS_SLACK):
        yield impossible(
            "mean",
            mean.line,
            f"a mean of {shown_time(mean.value)}, but the other figures allow {shown_time(bounds.low)} to "
            f"{shown_time(bounds.high) if bounds.high != float('inf') else 'any longer time'}: as many requests as the "
            "quantiles say were as fast and as slow as they say",
        )


def _mean_bounds(quantiles: tuple[Quantile, ...], least: Figure | None, most: Figure | None, one: float) -> Span:
    """The means that latencies with these quantiles can have.

    `one` is the share of one request. A tool may pick the next request for a quantile, so at least a share of
    1 - q - one is as slow as the quantile q, and at least q - one as fast.
    """
    steps = sorted(quantiles, key=lambda each: each.share)
    # Falling quantiles are another finding; here a step down is ignored.
    lows = [*accumulate((each.within.span.low for each in reversed(steps)), min)][::-1]
    highs = [*accumulate((each.within.span.high for each in steps), max)]
    low = floor = least.span.low if least else 0.0
    for each, value in zip(steps, lows, strict=True):
        low += max(0.0, value - floor) * max(0.0, 1 - each.share - one)
        floor = max(floor, value)
    ends = [most.span.high] if most else [each.within.span.high for each in steps if each.share == 1]
    high = ceiling = min(ends, default=math.inf)
    for each, value in zip(reversed(steps), reversed(highs), strict=True):
        if math.isfinite(ceiling):
            high -= max(0.0, ceiling - value) * max(0.0, each.share - one)
            ceiling = min(ceiling, value)
    return Span(low, high)


def _little(run: Run) -> Iterator[Finding]:
    """Requests in flight (rate x mean latency) above what is possible, or in a closed loop far below."""
    rate, mean, slots = run.figures.get("rate"), run.figures.get("mean"), run.slots
    if rate is None or mean is None or not slots:
        return
    in_flight = rate.span * mean.span
    law = f"rate x mean latency = {shown(rate.value)} x {shown_time(mean.value)} = {shown(rate.value * mean.value)}"
    if in_flight.low > slots * (1 + RAMP_SLACK):
        if run.tool == "table":
            yield inconclusive(
                "in-flight",
                mean.line,
                f"{law} requests in flight of {shown(slots)} connections (Little's law): that can be only if latency "
                "counts from when a request was due, or a connection carries several at once, and the page must say so",
            )
        elif run.is_open_loop:
            yield inconclusive(
                "behind-schedule",
                mean.line,
                f"{law} requests waited at a time, but there are {shown(slots)} connections: requests waited in the "
                "client, so the rate was too high for the connections or the server, and latency grows with the run",
            )
        else:
            yield impossible("little", mean.line, f"{law} requests in flight, but {shown(slots)} can be (Little's law)")
    paced = run.is_open_loop or (run.command is not None and run.command.has_rate)
    if run.tool != "table" and not paced and in_flight.high < slots * WAITING_MIN and not run.failures:
        yield inconclusive(
            "idle-connections",
            mean.line,
            f"{law} requests in flight, and {shown(slots)} can be: for the rest of the time connections wait for the "
            "client, which is saturated or pauses, so the rate is not the server's",
        )


def _iterations(run: Run) -> Iterator[Finding]:
    """k6: more busy virtual users (iterations per second x their mean duration) than there are."""
    rate, turn, users = run.figures.get("turn_rate"), run.figures.get("turn"), run.connections
    if rate and turn and users and (rate.span * turn.span).low > users * (1 + RAMP_SLACK):
        yield impossible(
            "little",
            turn.line,
            f"iterations per second x their mean duration = {shown(rate.value)} x {shown_time(turn.value)} = "
            f"{shown(rate.value * turn.value)} busy users, but there are at most {shown(users)} (Little's law)",
        )
