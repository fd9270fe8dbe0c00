"""The result of a long trial: the requests it served without an error, and what grew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iolab.results.records import Minute, Result
from iolab.wording import one_in

# -ln 0.05: if none of n requests failed, the true rate is below 3 / n at 95 %.
RULE_OF_THREE = 3
# What may grow in a long trial: the field and its title. Bytes are printed in MiB.
SIZES = (
    ("rss_bytes", "memory of the server, MiB"),
    ("threads", "threads of the server"),
    ("processes", "processes of the server"),
    ("descriptors", "descriptors of the server"),
    ("generator_rss_bytes", "memory of the generator, MiB"),
    ("lab_rss_bytes", "memory of the lab, MiB"),
)


def lines(result: Result, minutes: Sequence[Minute]) -> Iterator[str]:
    """The result of one trial; `minutes` are all its minutes in the order they were stored."""
    if result.failure is not None:
        minute = 1 + round(sum(piece.seconds for piece in result.pieces) / 60)
        yield f"failed in minute {minute}: {result.failure.line}"
    yield errors(result)
    trials = len(result.pieces) + result.is_measured
    if trials > 1:
        yield f"in {trials} trials, because it was cut off"
    started = minutes[-1].started if minutes else ""
    of_last = [minute for minute in minutes if minute.started == started]
    if len(of_last) < 2:
        return
    for field, name in SIZES:
        first, last = (_number(field, getattr(minute, field)) for minute in (of_last[0], of_last[-1]))
        yield f"{name}: {first} after the first minute, {last} at the end"


def errors(result: Result) -> str:
    """How many requests failed; without a failure, the bound on the true rate."""
    asked = result.answered + result.unanswered
    if not asked:
        return "no request was answered"
    what = f"{result.unanswered:,} errors in {asked:,} requests"
    if result.failure is not None:
        return f"{what} of the whole minutes before"
    if result.unanswered:
        return f"{what}: a rate of {one_in(result.unanswered / asked)}"
    return f"{what}: the true rate is below {one_in(rate_bound(asked))} (95 %)"


def rate_bound(requests: int) -> float:
    """The upper bound of the failure rate, at 95 %, if none of these requests failed."""
    return min(1.0, RULE_OF_THREE / requests)


def _number(field: str, value: int) -> str:
    return f"{value / (1 << 20):.1f}" if field.endswith("_bytes") else f"{value:,}"
