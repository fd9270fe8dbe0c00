"""The search for the highest rate that holds the limits, as a pure state machine: measurements in, next probe out.

A closed-loop run shows the highest rate of the server, and the search starts at 0.8 of that rate. Then an up-and-down
staircase (see `staircase`) approaches the rate at which half of the probes hold, and `fit` estimates that rate from all
probes, with an interval. The search ends when the interval is as narrow as the precision, or when the budget of probes
is used up; the interval is then wider. If the generator was the limit, the capacity is a lower bound.

A machine may have several states. A host may move the processors of its guests, and a message between two of them then
costs several times as much; or the server may share a processor with the generator. A probe is repeated if the state
changed meanwhile or both shared a processor. Each state has its own staircase and fit.

There is no I/O and no clock here, so simulated servers of known capacity test it (tests/test_capacity_search.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from iolab.capacity import staircase
from iolab.capacity.fit import Fit, fitted
from iolab.capacity.limits import Judged, Limit, Measurement, Word, judge, rate_words, requests_for
from iolab.capacity.staircase import Staircase
from iolab.results.records import SAME_TOPOLOGY_MAX
from iolab.wording import Bound

# Where the search starts, as a share of the closed loop's rate: few servers hold a limit at their highest rate.
FIRST_SHARE = 0.8
# A limit that breaks this many times at this share of the closed loop's rate does not hold at any rate.
RATE_MIN_SHARE, BREAKS_AT_MIN = 0.01, 2
# No server serves more than this multiple of the closed loop's rate over the same connections.
RATE_MAX_SHARE = 10.0
# A probe is planned for this many times the requests its quantile needs, because arrivals are random.
SPARE = 1.15
# The longest probe, for a quantile that needs more requests, as a multiple of the shortest.
LONGER_MAX = 30
# The shortest step of the staircase, and the half-width of the interval that ends a search, as shares of the precision.
STEP_SHARE, HALF_WIDTH_SHARE = 1 / 2, 1 / 2
# The number of probes in a state from which its fit may end the search, and at which the search ends.
TRIALS_MIN, TRIALS_MAX = 12, 24
# The largest number of probes in a search, and of those that a disturbance repeats.
PROBES_MAX, REPEATS_MAX = 48, 10

Kind = Literal["capacity", "at least", "below", "never", "unjudged"]
# How the rate of each kind bounds the capacity.
BOUNDS: Mapping[Kind, Bound] = {"capacity": "exact", "at least": "at least", "below": "at most"}


@dataclass(frozen=True, slots=True)
class PlannedProbe:
    """The next run: its rate in an open loop (None: a closed loop) and its duration."""

    rate_per_s: float | None
    duration_ms: int


class MachineState(NamedTuple):
    """Whether server and generator shared a processor, and their first known core-to-core latency (None: unknown)."""

    shares_cpu: bool = False
    core_to_core_ns: float | None = None

    def is_of(self, seen: MachineState) -> bool:
        """Whether a probe was in this state; an unknown latency fits any."""
        mine, its = self.core_to_core_ns, seen.core_to_core_ns
        if self.shares_cpu or seen.shares_cpu or mine is None or its is None:
            return self.shares_cpu == seen.shares_cpu
        return max(mine, its) <= SAME_TOPOLOGY_MAX * min(mine, its)


class Estimate(NamedTuple):
    """The capacity in one state of the machine, fitted over `probes` probes.

    It is exact, with the interval of the fit. If the generator was the limit, the lower end of the interval is a bound.
    """

    machine: MachineState
    fit: Fit
    probes: int
    bound: Bound = "exact"

    @property
    def rate_per_s(self) -> float:
        """The capacity, or its bound."""
        return rounded(self.fit.rate_per_s if self.bound == "exact" else self.fit.low_per_s)


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a search. `rate_per_s` is the capacity or a bound on it, taken from `fit`.

    `estimates` has the capacity in each state of the machine with enough probes, the state of the answer first.
    """

    kind: Kind
    rate_per_s: float | None
    why: str
    fit: Fit | None = None
    estimates: tuple[Estimate, ...] = ()

    @property
    def bound(self) -> Bound | None:
        """How the rate bounds the capacity; None if there is no rate."""
        return None if self.rate_per_s is None else BOUNDS[self.kind]


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a search. `precision` is the allowed error as a share, `probe_ms` the shortest probe.

    `requests_min` is the least number of requests in a probe, even if its limits need fewer.
    """

    limits: tuple[Limit, ...]
    precision: float = 0.05
    probe_ms: int = 1_000
    requests_min: int = 1


class Trial(NamedTuple):
    """A probe that counts: its rate, whether the limits held, and why not."""

    rate_per_s: float
    word: Word
    why: str = ""


@dataclass(frozen=True, slots=True)
class Track:
    """The search in one state of the machine: its staircase, and its probes."""

    machine: MachineState
    stairs: Staircase
    trials: tuple[Trial, ...] = ()

    def rates(self, word: Word) -> list[float]:
        """The rates of the probes with this outcome."""
        return [trial.rate_per_s for trial in self.trials if trial.word == word]

    @property
    def is_generators(self) -> bool:
        """Whether the generator was the limit more often than the server."""
        return len(self.rates("generator")) > len(self.rates("breaks"))

    @property
    def fit(self) -> Fit | None:
        """The fit of the rate up to which the limits hold, or up to which the generator was not the limit."""
        return fitted(self.rates("holds"), self.rates("generator" if self.is_generators else "breaks"))


@dataclass(frozen=True, slots=True)
class Search:
    """The state of a search; see `next_step` and `observe`.

    `tracks` has one for each state of the machine so far; `now` is the index of the last probe's. `longer` multiplies
    the duration of a repeated probe. `is_repeat`: the generator limited the last probe. `repeats` counts the probes
    repeated because of a disturbance.
    """

    settings: Settings
    ceiling_per_s: float | None = None
    tracks: tuple[Track, ...] = ()
    now: int = 0
    longer: int = 1
    is_repeat: bool = False
    repeats: int = 0
    probes: int = 0
    done: Done | None = None


def next_step(search: Search) -> PlannedProbe | Done:
    """The next run, or the end of the search."""
    if search.done is not None:
        return search.done
    if not search.tracks:
        return PlannedProbe(None, search.settings.probe_ms)
    rate_per_s = rounded(search.tracks[search.now].stairs.rate_per_s)
    duration_ms = probe_duration_ms(search.settings, rate_per_s) * search.longer
    return PlannedProbe(rate_per_s, min(duration_ms, LONGER_MAX * search.settings.probe_ms))


def observe(search: Search, seen: Measurement) -> Search:
    """The search after the probe of `next_step`, given its figures."""
    step = next_step(search)
    assert isinstance(step, PlannedProbe), "a search that has ended sees nothing more"
    search = replace(search, probes=search.probes + 1)
    if step.rate_per_s is None:
        return _started(search, seen)
    if is_disturbed(seen) and search.repeats < REPEATS_MAX:
        return _bounded(replace(search, repeats=search.repeats + 1))
    judged = judge(search.settings.limits, seen)
    if judged.word == "unjudged":
        return _bounded(_unjudged(search, step.duration_ms, judged))
    if judged.word == "generator" and not search.is_repeat:
        # Such a probe says nothing about the server, and the machine may have paused: repeat it once.
        return _bounded(replace(search, is_repeat=True))
    search = replace(search, longer=1, is_repeat=False)
    return _bounded(_tried(search, machine_of(seen), Trial(step.rate_per_s, judged.word, judged.why)))


def answer(search: Search) -> Done:
    """The answer from the probes so far, however few."""
    tracks = sorted(search.tracks, key=lambda track: _rank(search.settings, track), reverse=True)
    if not tracks or not tracks[0].trials:
        return Done("unjudged", None, "no run could be judged")
    best = tracks[0]
    estimates = tuple(
        Estimate(track.machine, fit, len(track.trials), "at least" if track.is_generators else "exact")
        for track in tracks
        if (fit := track.fit) is not None
    )
    held, fit = best.rates("holds"), best.fit
    if fit is None:
        return _one_sided(best, held)
    if best.is_generators:
        why = next(trial.why for trial in reversed(best.trials) if trial.word == "generator")
        why = f"above that the generator was the limit: {why}"
        return Done("at least", rounded(fit.low_per_s), why, fit, estimates)
    return Done("capacity", rounded(fit.rate_per_s), _spread_words(search.settings, best, fit), fit, estimates)


def is_disturbed(seen: Measurement) -> bool:
    """Whether the state of the machine changed during a probe, or server and generator shared a processor."""
    edges = seen.core_to_core_ns
    return seen.shares_cpu or (edges is not None and max(edges) > SAME_TOPOLOGY_MAX * min(edges))


def machine_of(seen: Measurement) -> MachineState:
    """The state of the machine at the end of a probe, where the next one begins."""
    return MachineState(seen.shares_cpu, None if seen.core_to_core_ns is None else seen.core_to_core_ns[1])


def probe_duration_ms(settings: Settings, rate_per_s: float) -> int:
    """A duration with enough requests for every limit, capped at the longest probe."""
    needed = max(settings.requests_min, *(SPARE * requests_for(limit) for limit in settings.limits))
    needed_ms = needed / rate_per_s * 1_000
    return min(max(settings.probe_ms, math.ceil(needed_ms)), LONGER_MAX * settings.probe_ms)


def rounded(rate_per_s: float) -> float:
    """A rate with four significant digits; more would suggest a precision it does not have."""
    return float(f"{rate_per_s:.4g}")


def _started(search: Search, seen: Measurement) -> Search:
    if seen.replies == 0:
        return replace(search, done=Done("never", None, "no request was answered"))
    track = Track(machine_of(seen), Staircase(FIRST_SHARE * seen.achieved_per_s))
    return replace(search, ceiling_per_s=seen.achieved_per_s, tracks=(track,))


def _tried(search: Search, machine: MachineState, trial: Trial) -> Search:
    """The search after a probe that counts, made in this state of the machine."""
    now = next((at for at, track in enumerate(search.tracks) if track.machine.is_of(machine)), len(search.tracks))
    # The capacity of a new state may be far away, so its staircase starts with long steps.
    track = search.tracks[now] if now < len(search.tracks) else Track(machine, Staircase(trial.rate_per_s))
    if track.machine.core_to_core_ns is None:
        # The latency was unknown so far; from now on it distinguishes this state.
        track = replace(track, machine=machine)
    stairs = track.stairs
    if rounded(stairs.rate_per_s) == trial.rate_per_s:
        shortest = STEP_SHARE * search.settings.precision
        stairs = staircase.after(stairs, held=trial.word == "holds", shortest=shortest)
        stairs = replace(stairs, rate_per_s=min(max(stairs.rate_per_s, _lowest(search)), _highest(search)))
    track = replace(track, stairs=stairs, trials=(*track.trials, trial))
    search = replace(search, tracks=(*search.tracks[:now], track, *search.tracks[now + 1 :]), now=now)
    return replace(search, done=_end(search, track, trial))


def _end(search: Search, track: Track, trial: Trial) -> Done | None:
    """The end of the search if the last probe ends it, else None."""
    at_edge = [each.word for each in track.trials if each.rate_per_s == trial.rate_per_s]
    if trial.rate_per_s <= rounded(_lowest(search)) and not track.rates("holds"):
        if at_edge.count("breaks") >= BREAKS_AT_MIN:
            return Done("never", None, trial.why)
        if at_edge.count("generator") >= BREAKS_AT_MIN:
            return Done("unjudged", None, f"the generator was the limit at every rate: {trial.why}")
    if trial.rate_per_s >= rounded(_highest(search)) and trial.word == "holds":
        return answer(search)
    is_over = len(track.trials) >= TRIALS_MAX
    return answer(search) if is_over or _is_narrow(search.settings, track) else None


def _is_narrow(settings: Settings, track: Track) -> bool:
    if len(track.trials) < TRIALS_MIN or (fit := track.fit) is None:
        return False
    return fit.half_width <= HALF_WIDTH_SHARE * settings.precision


def _rank(settings: Settings, track: Track) -> tuple[bool, bool, int]:
    """The sort key for the state of the answer: a narrow interval, then separate processors for server and generator,
    then the number of probes."""
    return _is_narrow(settings, track), bool(track.trials) and not track.machine.shares_cpu, len(track.trials)


def _lowest(search: Search) -> float:
    return RATE_MIN_SHARE * (search.ceiling_per_s or 0.0)


def _highest(search: Search) -> float:
    return RATE_MAX_SHARE * (search.ceiling_per_s or math.inf)


def _one_sided(track: Track, held: list[float]) -> Done:
    """The answer if every probe held, or none did."""
    if held:
        return Done("at least", max(held), "it held at every rate that was tried")
    last = track.trials[-1]
    if not track.rates("breaks"):
        return Done("unjudged", None, f"the generator was the limit at every rate: {last.why}")
    return Done("below", min(track.rates("breaks")), last.why)


def _spread_words(settings: Settings, track: Track, fit: Fit) -> str:
    """The number of runs, and their contradiction if it makes the interval wide."""
    count = f"{len(track.trials)} runs"
    highest, lowest = max(track.rates("holds")), min(track.rates("breaks"))
    if fit.half_width <= settings.precision or highest <= lowest:
        return count
    both = f"one held at {rate_words(highest)} and another broke at {rate_words(lowest)}"
    return f"{count}: {both}, so the server or the machine is not steady"


def _unjudged(search: Search, duration_ms: int, judged: Judged) -> Search:
    """The search after a probe with too few requests: it repeats a longer one, or ends after the longest."""
    if duration_ms < LONGER_MAX * search.settings.probe_ms:
        return replace(search, longer=2 * search.longer)
    why = f"{judged.why} in {duration_ms / 1_000:g} s: use longer probes, or a lower quantile"
    known = answer(search)
    # Probes at higher rates have more requests and may have been judged.
    return replace(search, done=replace(known, why=why) if known.kind in ("below", "unjudged") else known)


def _bounded(search: Search) -> Search:
    if search.done is not None or search.probes < PROBES_MAX:
        return search
    return replace(search, done=answer(search))
