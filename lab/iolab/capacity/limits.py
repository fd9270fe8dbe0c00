"""The limits of a capacity (`p99<5ms`, `errors<0.1%`), and whether a run held them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from iolab import metrics
from iolab.contract.types import percent
from iolab.errors import PlanError
from iolab.metrics import BEYOND_QUANTILE_MIN, quantile_supported
from iolab.wording import number

# The quantiles of a report by the names users write.
QUANTILES = {name.replace("_", "."): quantile for name, quantile in metrics.QUANTILES.items()}
TIMES = (*QUANTILES, "mean", "max")
ERRORS = "errors"
UNITS_NS = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
LIMIT = re.compile(r"([a-z][a-z0-9.]*)\s*([<>]=?|=)\s*([0-9]*\.?[0-9]+)\s*([a-zµ]+|%|)")
DURATION = re.compile(r"([0-9]*\.?[0-9]+)(ms|s|m)")
DURATION_MS = {"ms": 1, "s": 1_000, "m": 60_000}
# A server that answers a smaller share of the requests does not hold the rate, however fast its replies are.
ACHIEVED_MIN = 0.99
# If the generator's lateness at the same quantile reaches this share of a limit, a pause of the machine broke it.
LATE_SHARE = 0.5

Word = Literal["holds", "breaks", "generator", "unjudged"]


@dataclass(frozen=True, slots=True)
class Limit:
    """`metric` must be under `below`: in nanoseconds, or for errors as a share of the requests."""

    metric: str
    below: float
    text: str


@dataclass(frozen=True, slots=True)
class Measurement:
    """The figures of one run. `asked_per_s` is the rate due in its window, None in a closed loop.

    `times_ns` has every name of `TIMES`; `late_ns` has the generator's lateness by the same names. `generator` says why
    the generator was the limit; it is empty if it was not. `core_to_core_ns` is the core-to-core latency between server
    and generator before and after the run, None if unknown. `shares_cpu`: the server ran on the generator's processors
    although it had others.
    """

    asked_per_s: float | None
    achieved_per_s: float
    replies: int
    errors_share: float
    times_ns: Mapping[str, float]
    late_ns: Mapping[str, float] = field(default_factory=dict)
    generator: str = ""
    window_s: float = math.inf
    core_to_core_ns: tuple[float, float] | None = None
    shares_cpu: bool = False


@dataclass(frozen=True, slots=True)
class Judged:
    """Whether a run held the limits, and why not."""

    word: Word
    why: str = ""


def parse_limit(text: str) -> Limit:
    """Reads `p99<5ms`, `mean<800us`, `max<1s` or `errors<0.1%`; raises PlanError with one line."""
    found = LIMIT.fullmatch(text.strip())
    if found is None:
        raise PlanError(f"{text!r} is not a limit: write it as in 'p99<5ms' or 'errors<0.1%'")
    metric, sign, digits, unit = found.groups()
    number = float(digits)
    if metric not in (*TIMES, ERRORS):
        raise PlanError(f"{metric} is not measured: use one of {', '.join((*TIMES, ERRORS))}")
    usual = unit or ("%" if metric == ERRORS else "ms")
    if not sign.startswith("<"):
        raise PlanError(f"{text!r}: only < is possible: write {metric}<{digits}{usual}")
    if not unit:
        raise PlanError(f"{text!r}: a unit is missing: write it as in {metric}<{digits}{usual}")
    if (unit == "%") != (metric == ERRORS):
        raise PlanError(
            f"{text!r}: {metric} is {'a share: write %' if metric == ERRORS else 'a time: write us, ms or s'}"
        )
    if unit != "%" and unit not in UNITS_NS:
        raise PlanError(f"{text!r}: {unit} is not a unit: use us, ms or s")
    below = number / 100 if unit == "%" else number * UNITS_NS[unit]
    if below <= 0:
        raise PlanError(f"{text!r}: no figure is under 0: write a higher limit")
    return Limit(metric, below, f"{metric}<{digits}{unit}")


def parse_share(text: str) -> float:
    """Reads `5%` or `0.05`; raises PlanError with one line."""
    number, percents, _ = text.partition("%")
    try:
        return float(number) / (100 if percents else 1)
    except ValueError:
        raise PlanError(f"{text!r} is not a share: write it as in 5%") from None


def parse_ms(text: str) -> int:
    """Reads `500ms`, `3s` or `2m`, in milliseconds; raises PlanError with one line."""
    found = DURATION.fullmatch(text.strip())
    if found is None:
        raise PlanError(f"{text!r} is not a duration: write it as in 500ms or 3s")
    return round(float(found[1]) * DURATION_MS[found[2]])


def judge(limits: Sequence[Limit], seen: Measurement) -> Judged:
    """Whether a run held the rate and every limit. A quantile q needs n replies with n (1 - q) >= 10.

    If the generator was the limit, broken limits say nothing about the server, but held limits count.
    """
    if seen.window_s == 0:
        return Judged("generator", "it got no processor for the whole window")
    if seen.replies == 0:
        return Judged("breaks", "no request was answered")
    broken = [limit for limit in limits if _broken(limit, seen)]
    words = [_broken_words(limit, seen) for limit in broken]
    is_short = _is_short(limits, seen)
    if is_short:
        share = percent(seen.achieved_per_s / (seen.asked_per_s or 1), 1)
        words.append(f"only {share} of the requested rate was answered")
    if words:
        generator = "" if any(limit.metric == ERRORS for limit in broken) else seen.generator
        generator = generator or ("" if is_short else _late_words(broken, seen))
        return Judged("generator", generator) if generator else Judged("breaks", ", ".join(words))
    unseen = next((limit for limit in limits if not _supported(limit.metric, seen.replies)), None)
    if unseen is None:
        return Judged("holds")
    needed = f"{requests_for(unseen):,.0f} replies"
    return Judged("unjudged", f"{unseen.metric} needs {needed}, there were {seen.replies:,}")


def _broken_words(limit: Limit, seen: Measurement) -> str:
    """A figure that broke its limit, in words."""
    if limit.metric == ERRORS:
        return f"{percent(seen.errors_share, 2)} of requests failed"
    return f"{limit.metric} was {time_words(seen.times_ns[limit.metric])}"


def requests_for(limit: Limit) -> float:
    """The least number of replies needed to judge a limit."""
    return BEYOND_QUANTILE_MIN / (1 - QUANTILES[limit.metric]) if limit.metric in QUANTILES else 1.0


def time_words(time_ns: float) -> str:
    """A time with three digits and a fitting unit."""
    unit = next((unit for unit in ("s", "ms", "µs") if time_ns >= 0.9995 * UNITS_NS[unit]), "ns")
    value = time_ns / UNITS_NS[unit]
    digits = 0 if unit == "ns" else max(0, 2 - math.floor(math.log10(value) + 1e-3))
    return f"{value:.{digits}f} {unit}"


def rate_words(rate_per_s: float) -> str:
    """A rate with its unit."""
    return f"{rate_number(rate_per_s)}/s"


def rate_number(rate_per_s: float) -> str:
    """A rate in whole requests, or with four digits below 100."""
    return f"{rate_per_s:,.0f}" if rate_per_s >= 100 else number(rate_per_s, 4)


def _is_short(limits: Sequence[Limit], seen: Measurement) -> bool:
    """Whether there were fewer replies than due requests, allowing for those in flight when the window ends.

    The requests due in the longest time that a limit allows may be in flight, and one more. If a limit allows errors,
    errors count as replies.
    """
    if seen.asked_per_s is None:
        return False
    allows_errors = any(limit.metric == ERRORS for limit in limits)
    right_share = 1 - seen.errors_share if allows_errors and seen.errors_share < 1 else 1.0
    ended_per_s = seen.achieved_per_s / right_share
    longest_s = max((limit.below for limit in limits if limit.metric != ERRORS), default=0.0) / 1e9
    in_flight_per_s = (seen.asked_per_s * longest_s + 1) / seen.window_s
    return ended_per_s < ACHIEVED_MIN * seen.asked_per_s - in_flight_per_s


def _late_words(broken: Sequence[Limit], seen: Measurement) -> str:
    """How late the generator sent, if that explains every broken limit; else empty."""
    late_ns = [seen.late_ns.get(limit.metric, 0.0) for limit in broken]
    if not broken or any(late < LATE_SHARE * limit.below for late, limit in zip(late_ns, broken, strict=True)):
        return ""
    return f"it sent {time_words(late_ns[0])} late ({broken[0].metric})"


def _supported(metric: str, replies: int) -> bool:
    return metric not in QUANTILES or quantile_supported(replies, QUANTILES[metric])


def _broken(limit: Limit, seen: Measurement) -> bool:
    """Whether a limit surely broke. A lower quantile, which needs fewer replies, can prove it."""
    if limit.metric == ERRORS:
        return seen.errors_share >= limit.below
    if limit.metric not in QUANTILES:
        return seen.times_ns[limit.metric] >= limit.below
    lower = [name for name, quantile in QUANTILES.items() if quantile <= QUANTILES[limit.metric]]
    return any(seen.times_ns[name] >= limit.below for name in lower if _supported(name, seen.replies))
