"""The search for the highest rate that holds the limits, as a pure state machine: the next probe, from what was seen.

A run in a closed loop shows how much the server can do at all, and the search starts at 0.8 of that rate. Its strides
grow until one rate holds and another breaks; then it halves the ratio between the two until that is within half of the
precision. The rate that held is now a candidate. It is the capacity once the rate one precision below it has held, and
the rate one precision above it has broken, in two of three trials each. If trials contradict the candidate, the search
continues from what they showed, downwards or upwards. The number of probes is limited, and the result says what could
not be decided: if the generator was the limit, the capacity is an "at least".

There is no I/O here and no clock, so simulated servers of known capacity test it (tests/test_capacity.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from iolab.capacity.limits import Judged, Limit, Measurement, Word, judge, rate_words, requests_for

# Where the search starts, as a share of the closed loop's rate: few servers hold a limit at their highest rate.
FIRST_SHARE = 0.8
# The first stride. Each further stride in the same direction is the square of the one before.
STRIDE = 1.25
# A limit that breaks at this share of the closed loop's rate does not hold at any rate.
RATE_MIN_SHARE = 0.01
# No server does more than this many times the closed loop's rate over the same connections.
RATE_MAX_SHARE = 10.0
# Arrivals are random, so a probe is planned for more requests than its quantile needs, by this factor.
SPARE = 1.15
# The longest probe, for a quantile that needs more requests, as a multiple of the shortest.
LONGER_MAX = 10
# The bracket at which the rate that held becomes a candidate, as a share of the precision:
# so narrow that the rate one precision above the candidate is sure to break.
NARROW = 0.5
# A candidate is confirmed by two of three trials on each side.
TRIALS_MAX, TRIALS_ENOUGH = 3, 2
# How often trials may contradict the search before it ends without a result, and the most probes of a search.
CONTRADICTIONS_MAX = 3
PROBES_MAX = 48

Kind = Literal["capacity", "at least", "never", "unsettled", "unjudged"]


@dataclass(frozen=True, slots=True)
class PlannedProbe:
    """The next run: its rate in an open loop (None: a closed loop) and its duration."""

    rate_per_s: float | None
    duration_ms: int


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a search. `rate_per_s` is the capacity, or the highest rate that trials agree on."""

    kind: Kind
    rate_per_s: float | None
    why: str


@dataclass(frozen=True, slots=True)
class Settings:
    """What is searched for. `precision` is how far the capacity may be off, `probe_ms` the shortest probe.

    `requests_min` is the least number of requests in a probe, whatever its limits need.
    """

    limits: tuple[Limit, ...]
    precision: float = 0.05
    probe_ms: int = 3_000
    requests_min: int = 1


@dataclass(frozen=True, slots=True)
class Bisection:
    """How far a search has come; see `next_step` and `observe`.

    `low` is the highest rate that held, `high` the lowest that did not. `candidate` is a `low` to be confirmed; `below`
    and `above` are the results of the trials on its two sides. `longer` multiplies the length of a repeated probe, and
    `is_repeat` means that the probe before was limited by the generator. `sure` is the highest rate that held in two of
    three trials and has not been contradicted since.
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


def next_step(state: Bisection) -> PlannedProbe | Done:
    """What to run next, or what was found."""
    if state.done is not None:
        return state.done
    if state.ceiling_per_s is None:
        return PlannedProbe(None, state.settings.probe_ms)
    rate_per_s = _confirming(state, state.candidate) if state.candidate is not None else _searching(state)
    duration_ms = probe_duration_ms(state.settings, rate_per_s) * state.longer
    return PlannedProbe(rate_per_s, min(duration_ms, LONGER_MAX * state.settings.probe_ms))


def observe(state: Bisection, seen: Measurement) -> Bisection:
    """The state after the probe of `next_step`, given its figures."""
    step = next_step(state)
    assert isinstance(step, PlannedProbe), "a search that has ended sees nothing more"
    state = replace(state, probes=state.probes + 1)
    if step.rate_per_s is None:
        return _ceiling(state, seen)
    judged = judge(state.settings.limits, seen)
    if judged.word == "unjudged":
        return _bounded(_unjudged(state, step.duration_ms, judged))
    if judged.word == "generator" and state.candidate is None and not state.is_repeat:
        # It says nothing about the server, and the machine may have paused: repeat it once.
        return _bounded(replace(state, is_repeat=True))
    state = replace(state, longer=1, is_repeat=False)
    if state.candidate is None:
        return _bounded(_searched(state, step.rate_per_s, judged))
    return _bounded(_confirmed(state, state.candidate, step.rate_per_s, judged))


def probe_duration_ms(settings: Settings, rate_per_s: float) -> int:
    """A duration with enough requests for every limit, but not beyond the longest probe."""
    needed = max(settings.requests_min, *(SPARE * requests_for(limit) for limit in settings.limits))
    needed_ms = needed / rate_per_s * 1_000
    return min(max(settings.probe_ms, math.ceil(needed_ms)), LONGER_MAX * settings.probe_ms)


def beside(candidate: float, precision: float) -> tuple[float, float]:
    """The rates below and above a candidate that confirm it."""
    return rounded(candidate * (1 - precision)), rounded(candidate * (1 + precision))


def rounded(rate_per_s: float) -> float:
    """A rate with four significant digits: more would suggest a precision that it does not have."""
    return float(f"{rate_per_s:.4g}")


def _searching(state: Bisection) -> float:
    """The next rate without a candidate: between the rates that held and broke, or one stride beyond the known one."""
    assert state.ceiling_per_s is not None, "a closed loop goes first"
    if state.low is not None and state.high is not None:
        return rounded(math.sqrt(state.low * state.high))
    if state.low is not None:
        return rounded(min(state.low * state.stride, RATE_MAX_SHARE * state.ceiling_per_s))
    if state.high is not None:
        return rounded(max(state.high / state.stride, RATE_MIN_SHARE * state.ceiling_per_s))
    return rounded(FIRST_SHARE * state.ceiling_per_s)


def _confirming(state: Bisection, candidate: float) -> float:
    """The rate on the side of the candidate that is next. Sides alternate, so that machine drift affects both alike."""
    low, high = beside(candidate, state.settings.precision)
    if _decided(state.below):
        return high
    return low if _decided(state.above) or len(state.below) <= len(state.above) else high


def _decided(words: Sequence[Word]) -> bool:
    """Whether enough trials agree, or none is left."""
    return len(words) == TRIALS_MAX or any(words.count(word) >= TRIALS_ENOUGH for word in set(words))


def _held(words: Sequence[Word]) -> bool:
    return words.count("holds") >= TRIALS_ENOUGH


def _ceiling(state: Bisection, seen: Measurement) -> Bisection:
    if seen.replies == 0:
        return replace(state, done=Done("never", None, "no request was answered"))
    return replace(state, ceiling_per_s=seen.achieved_per_s)


def _searched(state: Bisection, rate_per_s: float, judged: Judged) -> Bisection:
    """The state after a probe without a candidate: a narrower bracket, a longer stride, or a candidate."""
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


def _confirmed(state: Bisection, candidate: float, rate_per_s: float, judged: Judged) -> Bisection:
    """The state after a trial of a candidate: confirmed, contradicted, or to be tried again."""
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


def _contradicted(state: Bisection, *, low: float | None, high: float | None) -> Bisection:
    """The state after trials contradicted a candidate: the search continues from what they showed, in small strides."""
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


def _unjudged(state: Bisection, duration_ms: int, judged: Judged) -> Bisection:
    """The state after a probe with too few requests: repeat it for longer, or end the search at the longest."""
    if duration_ms < LONGER_MAX * state.settings.probe_ms:
        return replace(state, longer=2 * state.longer)
    why = f"{judged.why} in {duration_ms / 1_000:g} s: use longer probes, or a lower quantile"
    return replace(state, done=Done("unjudged", state.sure, why))


def _bounded(state: Bisection) -> Bisection:
    if state.done is not None or state.probes < PROBES_MAX:
        return state
    return replace(state, done=Done("unsettled", state.sure, f"{PROBES_MAX} probes did not settle it"))
