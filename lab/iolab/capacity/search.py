"""The search for the highest rate that holds a limit, as a pure machine: what to try next, given what was seen.

One run in a closed loop says how much the server can do at all. From 0.8 of that on, rates are tried in strides that
grow until one holds and another breaks, and the two are brought together by halving their ratio until they are within
half of the precision. What held is then a candidate: it is the capacity once a rate a precision below it has held, and
one as far above it has broken, in two of three trials each. Where they contradict it, the search goes on from what they
showed, downwards or upwards. Everything is bounded, and what cannot be said is said so: a generator that was the limit
makes of a capacity an "at least".

There is no I/O here and no clock, so simulated servers of known capacity prove it (tests/test_capacity.py).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from iolab.contract.types import percent
from iolab.errors import PlanError
from iolab.judge.trial import BEYOND_QUANTILE_MIN, quantile_supported

# The quantiles a report has, by the names people write.
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "p99.99": 0.9999, "p99.999": 0.99999}
TIMES = (*QUANTILES, "mean", "max")
ERRORS = "errors"
UNITS_NS = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
LIMIT = re.compile(r"([a-z][a-z0-9.]*)\s*([<>]=?|=)\s*([0-9]*\.?[0-9]+)\s*([a-zµ]+|%|)")
DURATION = re.compile(r"([0-9]*\.?[0-9]+)(ms|s|m)")
DURATION_MS = {"ms": 1, "s": 1_000, "m": 60_000}
# A server that answers less than this of what was asked of it does not hold the rate, however fast its replies are.
ACHIEVED_MIN = 0.99
# Where the search begins, as a share of what a closed loop reached: few servers hold a limit at all they can do.
FIRST_SHARE = 0.8
# The first stride; each further one in the same direction is the square of the one before.
STRIDE = 1.25
# Under this share of the closed loop's rate it is not a rate that is too high: the limit does not hold at all.
RATE_MIN_SHARE = 0.01
# No server does more in an open loop than so many times what it did in a closed one over the same connections.
RATE_MAX_SHARE = 10.0
# Arrivals are random, so a probe is planned for some more requests than its quantile needs.
SPARE = 1.15
# A probe grows to at most this many times its length, for a quantile that needs more requests.
LONGER_MAX = 10
# How narrow the search makes it before the rate that held is a candidate, as a share of the precision: so narrow that
# what lies as far above it as the precision is sure to break.
NARROW = 0.5
# A generator that was late by this share of a limit, at the same quantile, broke it itself: the machine paused.
LATE_SHARE = 0.5
# A candidate is confirmed by two of three trials on each side.
TRIALS_MAX, TRIALS_ENOUGH = 3, 2
# How often trials may contradict the search before it says that nothing can be said; and how many probes there are.
CONTRADICTIONS_MAX = 3
PROBES_MAX = 48

Word = Literal["holds", "breaks", "generator", "unjudged"]
Kind = Literal["capacity", "at least", "never", "unsettled", "unjudged"]


@dataclass(frozen=True, slots=True)
class Limit:
    """What must hold: `metric` stays under `below`, nanoseconds of a time or the share of requests that may fail."""

    metric: str
    below: float
    text: str


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one run showed. `asked_per_s` is what fell due in its window of `window_s`, None in a closed loop.

    `times_ns` has every name of `TIMES`; `late_ns` has how late the generator itself sent, by the same names.
    `generator` says why the generator was the limit, empty if it was not.
    """

    asked_per_s: float | None
    achieved_per_s: float
    replies: int
    errors_share: float
    times_ns: Mapping[str, float]
    late_ns: Mapping[str, float] = field(default_factory=dict)
    generator: str = ""
    window_s: float = math.inf


@dataclass(frozen=True, slots=True)
class Judged:
    """Whether a run held its limits, in a word, and why not."""

    word: Word
    why: str = ""


@dataclass(frozen=True, slots=True)
class Probe:
    """The next run: `rate_per_s` in an open loop (None: a closed loop), for so long."""

    rate_per_s: float | None
    duration_ms: int


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a search. `rate_per_s` is the capacity, or what it is at least as far as trials agree."""

    kind: Kind
    rate_per_s: float | None
    why: str


@dataclass(frozen=True, slots=True)
class Settings:
    """What is searched for. `precision` is how far the capacity may be off, `probe_ms` the shortest probe.

    `requests_min` is how many requests a probe is to have whatever its limits need.
    """

    limits: tuple[Limit, ...]
    precision: float = 0.05
    probe_ms: int = 3_000
    requests_min: int = 1


@dataclass(frozen=True, slots=True)
class State:
    """How far a search has come; see `next_step` and `observe`.

    `low` has held and `high` has not, as far as is known. `candidate` is a `low` that is to be confirmed, by the words
    of the trials `below` and `above` it. `longer` multiplies the length of a probe that has to be repeated;
    `is_repeat` that a probe which showed only the generator is being repeated. `sure` is the highest rate that held in
    two of three trials and has not been contradicted since.
    """

    settings: Settings
    ceiling_per_s: float | None = None
    low: float | None = None
    high: float | None = None
    stride: float = STRIDE
    candidate: float | None = None
    below: tuple[Word, ...] = ()
    above: tuple[Word, ...] = ()
    longer: int = 1
    is_repeat: bool = False
    probes: int = 0
    contradictions: int = 0
    sure: float | None = None
    done: Done | None = None


def parse_limit(text: str) -> Limit:
    """Reads `p99<5ms`, `mean<800us`, `max<1s` or `errors<0.1%`; raises PlanError with one line."""
    found = LIMIT.fullmatch(text.strip())
    if found is None:
        raise PlanError(f"{text!r} is no limit: write it as in 'p99<5ms' or 'errors<0.1%'")
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
        raise PlanError(f"{text!r}: nothing is under 0: give it some room")
    return Limit(metric, below, f"{metric}<{digits}{unit}")


def parse_share(text: str) -> float:
    """Reads `5%` or `0.05`; raises PlanError with one line."""
    number, percents, _ = text.partition("%")
    try:
        return float(number) / (100 if percents else 1)
    except ValueError:
        raise PlanError(f"{text!r} is no share: write it as in 5%") from None


def parse_ms(text: str) -> int:
    """Reads `500ms`, `3s` or `2m`, in milliseconds; raises PlanError with one line."""
    found = DURATION.fullmatch(text.strip())
    if found is None:
        raise PlanError(f"{text!r} is no duration: write it as in 500ms or 3s")
    return round(float(found[1]) * DURATION_MS[found[2]])


def judge(limits: Sequence[Limit], seen: Measurement) -> Judged:
    """Whether a run held: every limit, and the rate itself. A quantile needs n (1 - q) >= 10 replies to be judged.

    Where the generator was the limit, what broke is no fault of the server's; what held has held all the same.
    """
    if seen.window_s == 0:
        return Judged("generator", "it got no processor for the whole window")
    if seen.replies == 0:
        return Judged("breaks", "no request was answered")
    broken = [limit for limit in limits if _broken(limit, seen)]
    words = [broken_words(limit, seen) for limit in broken]
    is_short = _is_short(limits, seen)
    if is_short:
        words.append(f"only {percent(seen.achieved_per_s / (seen.asked_per_s or 1), 1)} of what was asked was answered")
    if words:
        generator = "" if any(limit.metric == ERRORS for limit in broken) else seen.generator
        generator = generator or ("" if is_short else _late_words(broken, seen))
        return Judged("generator", generator) if generator else Judged("breaks", ", ".join(words))
    unseen = next((limit for limit in limits if not _supported(limit.metric, seen.replies)), None)
    if unseen is None:
        return Judged("holds")
    needed = f"{_requests_for(unseen):,.0f} replies"
    return Judged("unjudged", f"{unseen.metric} needs {needed}, there were {seen.replies:,}")


def broken_words(limit: Limit, seen: Measurement) -> str:
    """A figure that broke its limit, for people."""
    if limit.metric == ERRORS:
        return f"{percent(seen.errors_share, 2)} of requests failed"
    return f"{limit.metric} was {time_words(seen.times_ns[limit.metric])}"


def time_words(time_ns: float) -> str:
    """A time with three digits and the unit that suits it."""
    unit = next((unit for unit in ("s", "ms", "µs") if time_ns >= 0.9995 * UNITS_NS[unit]), "ns")
    value = time_ns / UNITS_NS[unit]
    digits = 0 if unit == "ns" else max(0, 2 - math.floor(math.log10(value) + 1e-3))
    return f"{value:.{digits}f} {unit}"


def rate_words(rate_per_s: float) -> str:
    """A rate for people: whole requests, but for slow ones."""
    return f"{rate_per_s:,.0f}/s" if rate_per_s >= 100 else f"{rate_per_s:.4g}/s"


def next_step(state: State) -> Probe | Done:
    """What to run next, or what was found."""
    if state.done is not None:
        return state.done
    if state.ceiling_per_s is None:
        return Probe(None, state.settings.probe_ms)
    rate_per_s = _confirming(state, state.candidate) if state.candidate is not None else _searching(state)
    duration_ms = probe_duration_ms(state.settings, rate_per_s) * state.longer
    return Probe(rate_per_s, min(duration_ms, LONGER_MAX * state.settings.probe_ms))


def observe(state: State, seen: Measurement) -> State:
    """The state after the probe that `next_step` asked for has shown this."""
    step = next_step(state)
    assert isinstance(step, Probe), "a search that has ended sees nothing more"
    state = replace(state, probes=state.probes + 1)
    if step.rate_per_s is None:
        return _ceiling(state, seen)
    judged = judge(state.settings.limits, seen)
    if judged.word == "unjudged":
        return _bounded(_unjudged(state, step.duration_ms, judged))
    if judged.word == "generator" and state.candidate is None and not state.is_repeat:
        # It says nothing of the server, and may have been a pause of the machine.
        return _bounded(replace(state, is_repeat=True))
    state = replace(state, longer=1, is_repeat=False)
    if state.candidate is None:
        return _bounded(_searched(state, step.rate_per_s, judged))
    return _bounded(_confirmed(state, state.candidate, step.rate_per_s, judged))


def probe_duration_ms(settings: Settings, rate_per_s: float) -> int:
    """Long enough for the requests that are needed, by every quantile too, as far as a probe may grow."""
    needed = max(settings.requests_min, *(SPARE * _requests_for(limit) for limit in settings.limits))
    needed_ms = needed / rate_per_s * 1_000
    return min(max(settings.probe_ms, math.ceil(needed_ms)), LONGER_MAX * settings.probe_ms)


def beside(candidate: float, precision: float) -> tuple[float, float]:
    """The rates below and above a candidate that confirm it."""
    return rounded(candidate * (1 - precision)), rounded(candidate * (1 + precision))


def rounded(rate_per_s: float) -> float:
    """A rate with four digits that matter: more would be read for more than they are."""
    return float(f"{rate_per_s:.4g}")


def _searching(state: State) -> float:
    """The next rate while none is a candidate: one stride beyond what is known, or between what held and what broke."""
    assert state.ceiling_per_s is not None, "a closed loop goes first"
    if state.low is not None and state.high is not None:
        return rounded(math.sqrt(state.low * state.high))
    if state.low is not None:
        return rounded(min(state.low * state.stride, RATE_MAX_SHARE * state.ceiling_per_s))
    if state.high is not None:
        return rounded(max(state.high / state.stride, RATE_MIN_SHARE * state.ceiling_per_s))
    return rounded(FIRST_SHARE * state.ceiling_per_s)


def _confirming(state: State, candidate: float) -> float:
    """The side of a candidate that is tried next: in turns, so that a machine that drifts moves both alike."""
    low, high = beside(candidate, state.settings.precision)
    if _decided(state.below):
        return high
    return low if _decided(state.above) or len(state.below) <= len(state.above) else high


def _decided(words: Sequence[Word]) -> bool:
    """Whether trials agree, or are as many as there may be. One that showed only the generator agrees with no other."""
    return len(words) == TRIALS_MAX or any(words.count(word) >= TRIALS_ENOUGH for word in set(words))


def _held(words: Sequence[Word]) -> bool:
    return words.count("holds") >= TRIALS_ENOUGH


def _ceiling(state: State, seen: Measurement) -> State:
    if seen.replies == 0:
        return replace(state, done=Done("never", None, "no request was answered"))
    return replace(state, ceiling_per_s=seen.achieved_per_s)


def _searched(state: State, rate_per_s: float, judged: Judged) -> State:
    """After a probe of the search itself: the bracket, or the stride, and a candidate once the bracket is narrow."""
    assert state.ceiling_per_s is not None, "a closed loop goes first"
    lowest, highest = (rounded(share * state.ceiling_per_s) for share in (RATE_MIN_SHARE, RATE_MAX_SHARE))
    strode = state.low is not None or state.high is not None
    state = replace(state, low=rate_per_s) if judged.word == "holds" else replace(state, high=rate_per_s)
    low, high = state.low, state.high
    if low is not None and high is not None:
        # Rounded rates may meet before the precision is reached.
        is_narrow = high <= low * (1 + NARROW * state.settings.precision) or _searching(state) in (low, high)
        return replace(state, candidate=low) if is_narrow else state
    if low is None and rate_per_s <= lowest:
        is_servers = judged.word == "breaks"
        why = judged.why if is_servers else f"the generator was the limit at every rate: {judged.why}"
        return replace(state, done=Done("never" if is_servers else "unsettled", None, why))
    if high is None and rate_per_s >= highest:
        return replace(state, done=Done("at least", low, "it held at every rate that was tried"))
    return replace(state, stride=state.stride**2) if strode else state


def _confirmed(state: State, candidate: float, rate_per_s: float, judged: Judged) -> State:
    """After a trial of a candidate: confirmed, contradicted, or to be tried again."""
    low, high = beside(candidate, state.settings.precision)
    if rate_per_s == low:
        state = replace(state, below=(*state.below, judged.word))
    else:
        state = replace(state, above=(*state.above, judged.word))
    if _decided(state.below) and not _held(state.below):
        kept = state.sure if state.sure is not None and state.sure < low else None
        return _contradicted(replace(state, sure=kept), low=None, high=low)
    if _held(state.above) or _held(state.below):
        held = high if _held(state.above) else low
        state = replace(state, sure=max(held, state.sure or held))
    if _held(state.above):
        return _contradicted(state, low=high, high=None)
    if not (_decided(state.below) and _decided(state.above)):
        return state
    held, broke = state.below.count("holds"), len(state.above) - state.above.count("holds")
    below, above = f"{held} of {len(state.below)}", f"{broke} of {len(state.above)}"
    why = f"held at {rate_words(low)} in {below} trials, and not at {rate_words(high)} in {above}"
    if state.above.count("generator") < state.above.count("breaks"):
        return replace(state, done=Done("capacity", candidate, why))
    return replace(state, done=Done("at least", low, f"{why}: there the generator was the limit"))


def _contradicted(state: State, *, low: float | None, high: float | None) -> State:
    """The trials say otherwise than the search: it goes on from what they showed, in small strides."""
    if state.contradictions == CONTRADICTIONS_MAX:
        why = "trials contradicted each other, so the server, or the machine, is not steady"
        return replace(state, done=Done("unsettled", state.sure, why))
    return replace(
        state,
        low=low,
        high=high,
        stride=1 + 2 * state.settings.precision,
        candidate=None,
        below=(),
        above=(),
        contradictions=state.contradictions + 1,
    )


def _unjudged(state: State, duration_ms: int, judged: Judged) -> State:
    """Repeats a probe for longer; at its longest, what it cannot show is said."""
    if duration_ms < LONGER_MAX * state.settings.probe_ms:
        return replace(state, longer=2 * state.longer)
    why = f"{judged.why} in {duration_ms / 1_000:g} s: use longer probes, or a lower quantile"
    return replace(state, done=Done("unjudged", state.sure, why))


def _bounded(state: State) -> State:
    if state.done is not None or state.probes < PROBES_MAX:
        return state
    return replace(state, done=Done("unsettled", state.sure, f"{PROBES_MAX} probes did not settle it"))


def _is_short(limits: Sequence[Limit], seen: Measurement) -> bool:
    """Whether less was answered than was asked, beyond what may be on its way at the end of the window by the limits.

    That is as many as fall due in the longest time a limit allows, and one more. Where a share of errors is allowed,
    they are answers like others here.
    """
    if seen.asked_per_s is None:
        return False
    allows_errors = any(limit.metric == ERRORS for limit in limits)
    right_share = 1 - seen.errors_share if allows_errors and seen.errors_share < 1 else 1.0
    ended_per_s = seen.achieved_per_s / right_share
    longest_s = max((limit.below for limit in limits if limit.metric != ERRORS), default=0.0) / 1e9
    on_its_way_per_s = (seen.asked_per_s * longest_s + 1) / seen.window_s
    return ended_per_s < ACHIEVED_MIN * seen.asked_per_s - on_its_way_per_s


def _late_words(broken: Sequence[Limit], seen: Measurement) -> str:
    """How late the generator was, where that alone explains all that broke; empty where it does not."""
    late_ns = [seen.late_ns.get(limit.metric, 0.0) for limit in broken]
    if not broken or any(late < LATE_SHARE * limit.below for late, limit in zip(late_ns, broken, strict=True)):
        return ""
    return f"it sent {time_words(late_ns[0])} late ({broken[0].metric})"


def _requests_for(limit: Limit) -> float:
    """How many replies it takes to judge a limit."""
    return BEYOND_QUANTILE_MIN / (1 - QUANTILES[limit.metric]) if limit.metric in QUANTILES else 1.0


def _supported(metric: str, replies: int) -> bool:
    return metric not in QUANTILES or quantile_supported(replies, QUANTILES[metric])


def _broken(limit: Limit, seen: Measurement) -> bool:
    """Whether a limit surely broke: a quantile is at least as long as every lower one, which fewer replies carry."""
    if limit.metric == ERRORS:
        return seen.errors_share >= limit.below
    if limit.metric not in QUANTILES:
        return seen.times_ns[limit.metric] >= limit.below
    lower = [name for name, quantile in QUANTILES.items() if quantile <= QUANTILES[limit.metric]]
    return any(seen.times_ns[name] >= limit.below for name in lower if _supported(name, seen.replies))
