"""Runs with known truth: the cases that a verdict must describe."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from iolab.plan.experiment import vs_plan
from iolab.plan.plan import Plan, Trial
from iolab.results.records import Failure, MachineNoise, Result
from iolab.results.remaining import remaining
from made import BEGIN_NS, report, result

BUSY = MachineNoise(steal_share=0.5, foreign_cpu_cores=0.0)
LIMITED: dict[str, Any] = {"generator_share": 0.95, "server_share": 0.5}
DIED = Failure(kind="died", message="the server ended while it was measured (code 139): Segmentation fault", final=True)
COMMAND = "cmd:/home/me/code/shop/server/target/release/shop-server --port {port}"
PYTHON = "cmd:python3 -m http.server --bind 127.0.0.1 {port}"


class Scenario(NamedTuple):
    """A plan, and what each trial gives: a rate, changes to its result, or a failure."""

    name: str
    plan: Plan
    changes: Callable[[Trial], dict[str, Any] | Failure]

    def results(self) -> list[Result]:
        """The whole run; discarded trials are repeated as the plan says."""
        made: list[Result] = []
        while rest := remaining(self.plan, made):
            trial = rest[0]
            changes = self.changes(trial)
            failed = (
                Result(trial=trial, started="2026-01-01", failure=changes) if isinstance(changes, Failure) else None
            )
            made.append(failed or result(self.plan, trial, **changes))  # type: ignore[arg-type]
        return made


def weather(noise: float, seed: int = 1) -> Callable[[Trial], float]:
    """The speed of a trial: its own noise, times the speed of the machine in its block."""
    random = np.random.default_rng(seed)
    shared, own = random.normal(0, 0.05, 1_000), random.normal(0, noise, (1_000, 3, 16))
    return lambda each: math.exp(shared[each.block] + own[each.block, each.attempt, each.slot])


def rates(*levels: float, noise: float = 0.004) -> Callable[[Trial], dict[str, Any]]:
    """Trials with rates around the level of their slot, in thousands of requests per second."""
    speed = weather(noise)
    return lambda each: {"rate_per_s": 1_000 * levels[each.slot] * speed(each)}


def pair(contestant: str = "io_uring", protocol: str = "echo") -> Plan:
    return vs_plan(["epoll", contestant], {"protocol": protocol, "connections": 50})


def when(
    condition: Callable[[Trial], bool], extra: dict[str, Any], base: Callable[[Trial], dict[str, Any]]
) -> Callable[[Trial], dict[str, Any]]:
    """`base`, with `extra` changes in the trials that satisfy `condition`."""
    return lambda each: base(each) | (extra if condition(each) else {})


def tail(factor: float) -> Callable[[Trial], dict[str, Any]]:
    """Equal rates; the p99 of the second contestant is `factor` times as long."""
    speed, rate = weather(0.03, seed=2), rates(200, 200)

    def changes(each: Trial) -> dict[str, Any]:
        told = rate(each)
        latency = report(pair().cell(each), rate_per_s=told["rate_per_s"]).latency_ns.model_dump()
        longer = (factor if each.slot else 1.0) * speed(each)
        latency |= {"p99": round(latency["p99"] * longer), "p99_9": round(latency["p99_9"] * longer)}
        return told | {"latency_ns": latency}

    return changes


def replies(*sizes: int, base: Callable[[Trial], dict[str, Any]]) -> Callable[[Trial], dict[str, Any]]:
    """Replies of the given size in bytes from each contestant."""

    def changes(each: Trial) -> dict[str, Any]:
        told = base(each)
        correct = round(told["rate_per_s"] * 3)
        return told | {"bytes": {"sent": correct * 64, "received": correct * sizes[each.slot]}}

    return changes


def drifting(base: Callable[[Trial], dict[str, Any]]) -> Callable[[Trial], dict[str, Any]]:
    """Throughput that falls within the window of some trials: only a warning."""

    def changes(each: Trial) -> dict[str, Any]:
        counts = tuple(2_000 - 2 * at for at in range(200))
        intervals = {"begin_ns": BEGIN_NS - 1_000_000_000, "length_ns": 20_000_000, "completed": counts}
        return base(each) | ({"intervals": intervals} if each.block % 4 == 1 else {})

    return changes


def ladder() -> Plan:
    options = ("recv=oneshot,send=plain", "recv=oneshot", "send=plain")
    plan = vs_plan([*(f"io_uring[{each}]" for each in options), "io_uring"], {"protocol": "echo"})
    labels = ("the bottom", "+ silent sends", "+ multishot receive", "+ both of them")
    rungs = plan.comparisons[0].model_copy(update={"ladder": True, "labels": labels})
    return plan.model_copy(update={"comparisons": (rungs,)})


MODELS = ["epoll", "io_uring", "prefork[processes=64]", "thread", COMMAND, "blocking"]


def ranking(each: Trial) -> dict[str, Any] | Failure:
    """Six servers: one is disturbed at times, one is limited by the generator, one cannot take part."""
    if each.slot == 5:
        return Failure(kind="holds", message="holds 1", final=True)
    told = rates(200, 240, 110, 112, 239.5, 0)(each)
    if each.slot == 2:
        told |= LIMITED
    return told | ({"noise": BUSY} if each.slot == 1 and each.attempt == 0 and each.block % 3 == 0 else {})


SCENARIOS = (
    Scenario("equal", pair(), rates(200, 200.2)),
    Scenario("slower by 50x", pair(PYTHON, "http"), rates(190, 3.8, noise=0.03)),
    Scenario("equal throughput with a longer tail", pair(), tail(20)),
    Scenario("one side limited by the generator", pair(), when(lambda each: each.slot == 1, LIMITED, rates(200, 262))),
    Scenario("both sides limited by the generator", pair(), when(lambda each: True, LIMITED, rates(200, 262))),
    Scenario(
        "discarded", pair(), when(lambda each: each.block % 2 == 0 and each.slot == 1, {"noise": BUSY}, rates(200, 226))
    ),
    Scenario("unequal replies", pair(COMMAND, "http"), replies(133, 4_215, base=rates(200, 96))),
    Scenario("ladder", ladder(), rates(150, 150.2, 171, 162)),
    Scenario("ranking", vs_plan(MODELS, {"protocol": "echo", "connections": 50}), ranking),
    Scenario("undecided", pair(), drifting(rates(200, 206, noise=0.06))),
    Scenario(
        "server died",
        pair(COMMAND, "http"),
        lambda each: DIED if each.slot and each.block == 2 else rates(200, 150)(each),
    ),
)
