"""Runs of servers whose truth is known, written through the real store: what `iolab compare` is tested with."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from iolab import api
from iolab.judge.comparison import RunComparison
from iolab.plan.experiment import vs_plan
from iolab.plan.plan import Comparison, Plan, Trial
from iolab.plan.schedule import schedule
from iolab.results import store
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
# The weather of a machine: how much of its speed one trial hands on to the next.
KEPT = 0.9


class Weather(NamedTuple):
    """What the machine does to a run: noise of each trial, steps of a slow drift, and a level that is each run's own.

    All are standard deviations of the logarithm of the speed.
    """

    noise: float
    step: float = 0.0
    level: float = 0.0

    def speeds(self, trials: int, generator: np.random.Generator) -> list[float]:
        """The speed of the machine in each trial of a run, in the order of time."""
        drift = generator.normal(0, self.step / math.sqrt(1 - KEPT**2))
        level = generator.normal(0, self.level)
        speeds = []
        for _ in range(trials):
            speeds.append(math.exp(level + drift + generator.normal(0, self.noise)))
            drift = KEPT * drift + generator.normal(0, self.step)
        return speeds


def plan_of(blocks: int, *, alone: bool = False, **settings: Any) -> Plan:
    """The user's server beside a model of the engine, or alone."""
    plan = vs_plan(["epoll", MINE], {"protocol": "http", "connections": 50, **settings}, blocks=blocks)
    if not alone:
        return plan
    comparison = Comparison(name="vs", cells=plan.comparisons[0].cells[1:])
    return plan.model_copy(update={"comparisons": (comparison,)})


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
    """A whole run in a folder of `runs`.

    The user's server does `work` more for each request, as a share; `changes` replace what its trials give.
    """
    trials: list[Trial] = list(schedule(plan))
    speeds = weather.speeds(len(trials), np.random.default_rng(seed))
    with store.writing(plan, machine, runs) as writer:
        for trial, speed in zip(trials, speeds, strict=True):
            is_mine = plan.cell(trial).contestant.text == MINE
            rate_per_s = 100_000 * speed / (1 + work * is_mine)
            writer.append(result(plan, trial, rate_per_s=rate_per_s, **(changes if is_mine else {})))
        writer.end("2026-01-01T01:00:00+00:00")
    return store.folder_of(plan, runs)


def outcome(found: RunComparison) -> str:
    """What the command would end with: 0, 1 or 3, in words."""
    return "regression" if found.regressions else "too noisy" if found.is_inconclusive else "passes"


def outcomes(
    runs: Path, plan: Plan, weather: Weather, pairs: int, *, work: float, threshold: float, seed: int = 1
) -> Counter[str]:
    """How pairs of runs come out, the second of which is of a build that does so much more work for each request."""
    seeds = np.random.SeedSequence(seed).generate_state(2 * pairs)
    counts: Counter[str] = Counter()
    for pair in range(pairs):
        a = store_run(runs / f"{pair}-a", plan, weather, int(seeds[2 * pair]))
        b = store_run(runs / f"{pair}-b", plan, weather, int(seeds[2 * pair + 1]), work=work)
        counts[outcome(api.compare(a, b, threshold=threshold))] += 1
    return counts
