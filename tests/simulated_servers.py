"""Simulated servers of known capacity for `iolab capacity`, and studies of many searches. No time passes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from iolab.capacity import search
from iolab.capacity.limits import TIMES, Measurement, parse_limit
from iolab.capacity.search import Done, PlannedProbe, Search, Settings

MS = 1e6
LIMITS = (parse_limit("p99<5ms"),)
# Quantiles of the wait in a queue with fixed service times, as multiples of its mean.
TAILS = {"p50": 0.7, "p90": 2.3, "p99": 4.6, "p99.9": 6.9, "p99.99": 9.2, "p99.999": 11.5, "max": 14.0}
# The time of a run outside its window: the warm-up, and the start and end of the generator.
BESIDES_S = 0.5 + 0.15

Run = Callable[[PlannedProbe], Measurement]


@dataclass(frozen=True)
class Server:
    """A server that serves one request at a time, at most `rate_per_s`, each in the same time.

    Above that rate its queue grows for the whole run. With `collapses`, an overloaded server serves only that share of
    its rate; with `refuses_per_s`, it fails requests above that rate. `noise` varies its rate from run to run.
    """

    rate_per_s: float
    errors_share: float = 0.0
    collapses: float = 1.0
    noise: float = 0.0
    generator_per_s: float = math.inf
    refuses_per_s: float = math.inf

    def run(self, probe: PlannedProbe, chance: np.random.Generator) -> Measurement:
        most = self.rate_per_s * (1 + self.noise * float(chance.standard_normal()))
        asked = probe.rate_per_s
        if asked is None:
            return self._seen(None, min(most, self.generator_per_s), 10 * MS, probe)
        if asked > self.generator_per_s:
            return replace(self._seen(asked, self.generator_per_s, 50 * MS, probe), generator="it was 99 % busy")
        # Just below saturation the wait approaches that of a growing queue.
        load = min(asked / most, 0.9999)
        wait_ns = load / (1 - load) / (2 * most) * 1e9
        if asked < most:
            return self._seen(asked, asked, wait_ns, probe)
        achieved = self.collapses * most
        grown_ns = (1 - achieved / asked) * probe.duration_ms * MS / 2
        return self._seen(asked, achieved, wait_ns + grown_ns, probe)

    def _seen(self, asked: float | None, achieved: float, wait_ns: float, probe: PlannedProbe) -> Measurement:
        times = {name: 1e9 / self.rate_per_s + TAILS.get(name, 1.0) * wait_ns for name in TIMES}
        replies = round(achieved * probe.duration_ms / 1_000)
        errors = max(self.errors_share, 1 - self.refuses_per_s / (asked or 1.0))
        return Measurement(asked, achieved * (1 - errors), replies, errors, times)

    @property
    def capacity_per_s(self) -> float:
        """The truth: the rate at which p99 reaches 5 ms, found by bisection."""
        low, high = 0.0, self.rate_per_s
        quiet, chance = replace(self, noise=0.0), np.random.default_rng(0)
        for _ in range(60):
            middle = (low + high) / 2
            held = quiet.run(PlannedProbe(middle, 60_000), chance).times_ns["p99"] < 5 * MS
            low, high = (middle, high) if held else (low, middle)
        return low


def alone(server: Server, chance: np.random.Generator) -> Run:
    """A server on a machine with one state."""
    return lambda probe: server.run(probe, chance)


def between_even(server: Server, chance: np.random.Generator) -> Run:
    """A server whose rate varies uniformly by up to 5 % from run to run."""
    return lambda probe: replace(server, rate_per_s=server.rate_per_s * chance.uniform(0.95, 1.05)).run(probe, chance)


def with_pauses(server: Server, chance: np.random.Generator) -> Run:
    """A machine that pauses every 3 s on average, for at least 2 ms; the lengths are heavy-tailed."""

    def run(probe: PlannedProbe) -> Measurement:
        seen = server.run(probe, chance)
        pauses_ns = 2 * MS * (1 + chance.pareto(1.1, size=chance.poisson(probe.duration_ms / 3_000)))
        # A request that arrives in a pause waits for its end, so requests in the last 5 ms meet the limit.
        beyond_ns = float(np.maximum(pauses_ns - 5 * MS, 0).sum())
        if probe.rate_per_s is None or beyond_ns < 0.01 * probe.duration_ms * MS:
            return seen
        return replace(seen, times_ns={**seen.times_ns, "p99": seen.times_ns["p99"] + float(pauses_ns.max())})

    return run


@dataclass
class Moving:
    """A machine with two states that last eight runs on average and change in the middle of a run.

    With `labels`, the core-to-core latency shows the state.
    """

    servers: tuple[Server, Server]
    chance: np.random.Generator
    labels: bool = True
    change: float = 1 / 8
    state: int = 0

    def __call__(self, probe: PlannedProbe) -> Measurement:
        before = self.state
        if self.chance.random() < self.change:
            self.state = 1 - self.state
        # The slower state decides the tail.
        slower = min((self.servers[state] for state in (before, self.state)), key=lambda server: server.rate_per_s)
        latency_ns = [(250.0, 60.0)[state] * self.chance.uniform(0.95, 1.05) for state in (before, self.state)]
        edges = (latency_ns[0], latency_ns[1]) if self.labels else None
        return replace(slower.run(probe, self.chance), core_to_core_ns=edges)


class Searched(NamedTuple):
    """The result of a search, and its probes."""

    done: Done
    probes: list[PlannedProbe]

    @property
    def seconds(self) -> float:
        """How long the search would have taken."""
        return sum(probe.duration_ms / 1_000 + BESIDES_S for probe in self.probes)


def searched(run: Run, settings: Settings) -> Searched:
    """Runs a search to its end."""
    state, probes = Search(settings), list[PlannedProbe]()
    while isinstance(step := search.next_step(state), PlannedProbe):
        assert search.next_step(state) == step, "the same state asks for the same"
        probes.append(step)
        state = search.observe(state, run(step))
    return Searched(step, probes)


class Study(NamedTuple):
    """Many searches of one server of known capacity: relative errors, how many intervals cover the truth, the number of
    searches, and the median and maximum of probes and seconds."""

    errors: list[float]
    covered: int
    searches: int
    probes: tuple[float, int]
    seconds: tuple[float, float]

    def error(self, share: float) -> float:
        """The error that this share of the searches does not exceed."""
        return float(np.quantile(self.errors, share))


def study(make: Callable[[np.random.Generator], Run], truths: tuple[float, ...], searches: int) -> Study:
    """Searches one server `searches` times, each with its own seed. With several truths the nearest one counts."""
    # As with the default flags: random arrivals need this many requests for a precision of 5 %.
    settings = Settings(LIMITS, requests_min=3_600)
    errors, covered, found = list[float](), 0, list[Searched]()
    for seed in range(searches):
        found.append(searched(make(np.random.default_rng(seed)), settings))
        done = found[-1].done
        if done.kind == "capacity" and done.fit is not None and done.rate_per_s is not None:
            errors.append(min(abs(done.rate_per_s / truth - 1) for truth in truths))
            covered += any(done.fit.low_per_s <= truth <= done.fit.high_per_s for truth in truths)
    probes, seconds = [len(each.probes) for each in found], [each.seconds for each in found]
    return Study(
        errors,
        covered,
        searches,
        (float(np.median(probes)), max(probes)),
        (float(np.median(seconds)), max(seconds)),
    )


# The simulated machines, with their true capacities.
FAST, SLOW = Server(217_000.0), Server(163_000.0)
STUDIES: dict[str, tuple[Callable[[np.random.Generator], Run], tuple[float, ...]]] = {
    "steady": (lambda chance: alone(replace(FAST, noise=0.003), chance), (FAST.capacity_per_s,)),
    "steady, 1,500/s": (lambda chance: alone(Server(1_500.0, noise=0.003), chance), (Server(1_500.0).capacity_per_s,)),
    "up to 5 % more or less": (lambda chance: between_even(FAST, chance), (FAST.capacity_per_s,)),
    "5 % standard deviation": (lambda chance: alone(replace(FAST, noise=0.05), chance), (FAST.capacity_per_s,)),
    "two states, seen": (
        lambda chance: Moving((replace(SLOW, noise=0.01), replace(FAST, noise=0.01)), chance),
        (SLOW.capacity_per_s, FAST.capacity_per_s),
    ),
    "heavy-tailed pauses": (lambda chance: with_pauses(replace(FAST, noise=0.01), chance), (FAST.capacity_per_s,)),
}
