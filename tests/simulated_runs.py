"""Simulated runs with known truth, through the real store, for the tests of verdicts and of `iolab compare`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.stats

from iolab import api
from iolab.judge.comparison import RunComparison
from iolab.judge.results import Results
from iolab.metrics import METRICS
from iolab.plan.experiment import vs_plan
from iolab.plan.plan import Comparison, Plan, Trial
from iolab.plan.schedule import schedule
from iolab.results import store
from iolab.results.records import MachineNoise, Result
from made import result

MINE = "cmd:./mine --port {port}"
MACHINE: dict[str, Any] = {
    "identity": {
        "host": "bench",
        "kernel": "6.1",
        "processor": "One",
        "engine": "0123456789abcdef",
        "programs": {MINE: {"./mine": "old"}},
    },
    "cpu": {"logical": 4},
    "engine": {"sha256": "0123456789abcdef"},
}
# CPU time of the server, as a share of the window: the server is the limit.
SERVER_SHARE = 0.97
# The machine: the share of the drift that carries over to the next trial, the probability of a change of state, and the
# core-to-core latency in each state.
KEPT = 0.9
MOVES = 1 / 8
CORE_TO_CORE_NS = (60.0, 250.0)


class Moment(NamedTuple):
    """The machine during a trial: its speed, the core-to-core latency if it shows the state, and factors of noise on
    the trial's CPU time, median latency and p99."""

    speed: float
    core_to_core_ns: float | None
    own: tuple[float, ...]


class Weather(NamedTuple):
    """The machine's effects on a run: noise of each trial, steps of a slow drift, and a level for the whole run.

    `tail` is the scale of heavy-tailed slowdowns, `states` the distance between the machine's two speeds. With `seen`,
    the core-to-core latency shows the state. `own` is additional noise of CPU time, median latency and p99. All are
    standard deviations, or differences, of the logarithm of the speed.
    """

    noise: float
    step: float = 0.0
    level: float = 0.0
    tail: float = 0.0
    states: float = 0.0
    seen: bool = False
    own: float = 0.0

    def moments(self, trials: int, generator: np.random.Generator) -> list[Moment]:
        """The machine in each trial of a run, in order of time."""
        drift = generator.normal(0, self.step / math.sqrt(1 - KEPT**2))
        level = generator.normal(0, self.level)
        state, moments = 0, list[Moment]()
        for _ in range(trials):
            log = level + drift + generator.normal(0, self.noise)
            if self.tail:
                log -= self.tail * abs(generator.standard_t(2))
            if self.states:
                state ^= int(generator.random() < MOVES)
                log -= self.states * state
            own = generator.normal(0, self.own, 3) if self.own else np.zeros(3)
            moments.append(Moment(math.exp(log), CORE_TO_CORE_NS[state] if self.seen else None, tuple(np.exp(own))))
            drift = KEPT * drift + generator.normal(0, self.step)
        return moments


# The machines of the self-tests. The two states are those of a virtual machine with 217,000/s and 163,000/s.
WEATHERS = {
    "steady": Weather(0.02, own=0.01),
    "drift": Weather(0.02, step=0.03, own=0.01),
    "two states, seen": Weather(0.02, states=0.286, seen=True, own=0.01),
    "two states, not seen": Weather(0.02, states=0.286, own=0.01),
    "heavy tails": Weather(0.02, tail=0.02, own=0.01),
}


def plan_of(blocks: int, *, alone: bool = False, **settings: Any) -> Plan:
    """The user's server beside a model of the engine, or alone."""
    plan = vs_plan(["epoll", MINE], {"protocol": "http", "connections": 50, **settings}, blocks=blocks)
    if not alone:
        return plan
    comparison = Comparison(name="vs", cells=plan.comparisons[0].cells[1:])
    return plan.model_copy(update={"comparisons": (comparison,)})


def suite_of(blocks: int, connections: Sequence[int]) -> Plan:
    """The same two servers at several numbers of connections, as several comparisons."""
    comparisons = (
        plan_of(blocks, connections=each)
        .comparisons[0]
        .model_copy(update={"name": f"connections={each}", "setting": {"load.connections": each}})
        for each in connections
    )
    return plan_of(blocks).model_copy(update={"comparisons": tuple(comparisons)})


def store_run(
    runs: Path,
    plan: Plan,
    weather: Weather,
    seed: int,
    *,
    work: float = 0.0,
    machine: dict[str, Any] = MACHINE,
    **changes: Any,
) -> Path:
    """Stores a whole run in a folder of `runs`.

    The user's server does the share `work` more for each request; `changes` replace what its trials give.
    """
    trials: list[Trial] = list(schedule(plan))
    moments = weather.moments(len(trials), np.random.default_rng(seed))
    with store.writing(plan, machine, runs) as writer:
        for trial, moment in zip(trials, moments, strict=True):
            is_mine = plan.cell(trial).contestant.text == MINE
            writer.append(_measured(plan, trial, moment, work * is_mine, changes if is_mine else {}))
        writer.end("2026-01-01T01:00:00+00:00")
    return store.folder_of(plan, runs)


def _measured(plan: Plan, trial: Trial, moment: Moment, work: float, changes: Mapping[str, Any]) -> Result:
    """A trial of a server that does the share `work` more for each request."""
    cpu, p50, p99 = moment.own
    ns = moment.core_to_core_ns
    seen = None if ns is None else (ns, ns)
    told: dict[str, Any] = {
        "rate_per_s": 100_000 * moment.speed / (1 + work),
        "server_share": SERVER_SHARE * cpu,
        "noise": MachineNoise(steal_share=0.0, foreign_cpu_cores=0.01, core_to_core_ns=seen),
    }
    made = result(plan, trial, **{**told, **changes})
    if made.report is None or p50 == p99 == 1:
        return made
    latency = made.report.latency_ns
    own = {"p50": round(latency.p50 * p50), "p99": round(latency.p99 * p99)}
    report = made.report.model_copy(update={"latency_ns": latency.model_copy(update=own)})
    return made.model_copy(update={"report": report})


def outcome(found: RunComparison) -> str:
    """The exit code of the command, 0, 1 or 3, as words."""
    return "regression" if found.regressions else "too noisy" if found.is_inconclusive else "passes"


def outcomes(
    runs: Path, plan: Plan, weather: Weather, pairs: int, *, work: float, threshold: float, seed: int = 1
) -> Counter[str]:
    """Counts the outcomes of pairs of runs; the second build does the share `work` more for each request."""
    seeds = np.random.SeedSequence(seed).generate_state(2 * pairs)
    counts: Counter[str] = Counter()
    for pair in range(pairs):
        a = store_run(runs / f"{pair}-a", plan, weather, int(seeds[2 * pair]))
        b = store_run(runs / f"{pair}-b", plan, weather, int(seeds[2 * pair + 1]), work=work)
        counts[outcome(api.compare(a, b, threshold=threshold))] += 1
    return counts


class Said(NamedTuple):
    """A run's verdict on two servers: whether it calls them different, whether it calls the one with more work better,
    and how many of its intervals of CPU per request cover the truth."""

    different: bool
    wrong: bool
    covered: int
    intervals: int


def said(found: Results, work: float) -> Said:
    """A run's verdict on two servers, the second with the share `work` more for each request.

    Equal servers count as different by any metric at any setting, others by CPU per request at every setting.
    """
    estimates = [each for verdict in found.verdicts for each in verdict.estimates]
    called = [each for each in estimates if each.word == "differs"]
    cpu = [each for each in estimates if each.metric == "cpu_per_request"]
    return Said(
        different=bool(cpu) and all(each in called for each in cpu) if work else bool(called),
        wrong=work > 0 and any((each.ratio > 1) == METRICS[each.metric].more_is_better for each in called),
        covered=sum(each.low <= 1 + work <= each.high for each in cpu),
        intervals=len(cpu),
    )


class Study(NamedTuple):
    """The verdicts of many suites: how many call two servers different, how many in the wrong direction, and how many
    of the intervals of CPU per request cover the truth."""

    suites: int
    different: int
    wrong: int
    covered: int
    intervals: int

    @property
    def coverage(self) -> tuple[float, float, float]:
        """The share of intervals that cover the truth, with its own 95 % interval."""
        low, high = scipy.stats.binomtest(self.covered, self.intervals).proportion_ci()
        return self.covered / self.intervals, float(low), float(high)


def total(runs: Sequence[Said]) -> Study:
    """The sum of these verdicts."""
    different, wrong, covered, intervals = (sum(column) for column in zip(*runs, strict=True))
    return Study(len(runs), different, wrong, covered, intervals)


def study(runs: Path, plan: Plan, weather: Weather, suites: int, *, work: float = 0.0, seed: int = 1) -> Study:
    """Stores, reads and judges suites of two servers, the second with the share `work` more for each request."""
    seeds = np.random.SeedSequence(seed).generate_state(suites)
    folders = (store_run(runs / str(n), plan, weather, int(each), work=work) for n, each in enumerate(seeds))
    return total([said(api.open_run(folder), work) for folder in folders])
