"""What limits a cell, from made figures: each kind in ten ways, and what the verdict says of the figure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from iolab.contract.types import updated
from iolab.judge import bottleneck, verdict
from iolab.judge.bottleneck import Bottleneck, Limit
from iolab.plan.experiment import soak_plan, vs_plan
from iolab.plan.plan import Plan, Trial
from iolab.plan.schedule import schedule
from iolab.results.records import Break, CostCount, Failure, Growth, LimitProbe, MachineNoise, Result, Throttled
from made import on_two_processors, result


class Case(NamedTuple):
    """A cell with a known limit: its settings, the results of its trials, and those of further trials.

    `used` changes the server's usage, and `failure` is the failure of each trial.
    """

    load: Mapping[str, Any] = {}
    trial: Mapping[str, Any] = {}
    used: Mapping[str, Any] = {}
    failure: Failure | None = None
    probe: LimitProbe | None = None
    path: Mapping[str, Any] | None = None


def busy(server: float, generator: float) -> dict[str, Any]:
    return {"server_share": server, "generator_share": generator}


def doubled(gain: float, server: float = 0.5, generator: float = 0.5) -> LimitProbe:
    return LimitProbe(gain=gain, server_share=server, generator_share=generator)


def growth(descriptors: int) -> dict[str, Any]:
    columns = dict.fromkeys(Growth.model_fields, (1,))
    return {"growth": Growth(**columns | {"descriptors": (descriptors,)})}


def broke(ran_out: str | None) -> Failure:
    return Failure(kind="died", message="it died", how=Break.model_validate({"ran_out": ran_out}))


def carried(to_load_bytes: int, cpu_ns: int = 0) -> dict[str, Any]:
    one = {"packets": 1_000, "dropped": 0, "lost": 0, "overrun": 0, "late_ns_p99": 0, "late_ns_max": 0}
    directions = {"to_server": {**one, "bytes": 1_000}, "to_load": {**one, "bytes": to_load_bytes}}
    return {"schema": 1, "event": "report", "role": "path", **directions, "wall_ns": 3_000_000_000, "cpu_ns": cpu_ns}


def quota(cpus: float, throttled: int) -> Case:
    used = {"throttled": Throttled(periods=30, throttled=throttled, throttled_ns=10**9), "cpu_ns": round(3e9 * cpus)}
    return Case(load={"cpu_quota": cpus}, used=used, trial=busy(cpus, 0.3))


ERRORS = {"requests": {"sent": 300_000, "correct": 290_000, "wrong": 0, "failed": 10_000, "in_flight_begin": 50}}
ERRORS["requests"]["in_flight_end"] = 50

SERVER = (
    Case(trial=busy(0.97, 0.50)),
    Case(trial=busy(0.90, 0.80)),
    Case(trial=busy(1.01, 0.10)),
    Case(load={"connections": 1}, trial=busy(0.98, 0.02)),
    # A thread that is never idle is the limit, even with several CPUs.
    Case(load={"workers": 4}, trial=busy(1.0, 0.4), used={"thread_cpu_ns_max": 2_850_000_000}),
    # Neither is busy, and more requests in flight do not help: a lock, a sleep or a limit of the server itself.
    Case(trial=busy(0.10, 0.10), probe=doubled(1.0, 0.1, 0.1)),
    Case(trial=busy(0.54, 0.15), probe=doubled(1.05, 0.54, 0.15)),
    Case(trial=busy(0.86, 0.65), probe=doubled(0.97, 0.95, 0.7)),
    Case(load={"connections": 2}, trial=busy(0.02, 0.01), probe=doubled(1.01, 0.02, 0.01)),
    # The generator can do far more under this load, and more requests in flight do not help.
    Case(trial=busy(0.50, 0.85), probe=LimitProbe(gain=1.0, ceiling_per_s=250_000, generator_share=0.7)),
)
GENERATOR = (
    Case(trial=busy(0.60, 0.95)),
    Case(trial=busy(0.89, 0.81)),
    Case(trial=busy(0.05, 1.0)),
    Case(load={"threads": 2}, trial=busy(0.40, 0.99)),
    Case(load={"connections": 1000}, trial=busy(0.38, 0.97)),
    Case(load={"rate": "100k"}, trial=busy(0.30, 0.92)),
    Case(load={"connections": 1}, trial=busy(0.20, 0.90)),
    # The generator does no better with any server.
    Case(trial=busy(0.60, 0.95), probe=LimitProbe(ceiling_per_s=100_000)),
    Case(trial=busy(0.70, 0.90), probe=LimitProbe(ceiling_per_s=124_000)),
    # With twice as many requests in flight, the generator is the limit.
    Case(trial=busy(0.50, 0.78), probe=doubled(1.02, 0.52, 0.99)),
)
LATENCY = (
    Case(load={"connections": 1}, trial=busy(0.40, 0.39)),
    Case(load={"connections": 1000, "active": 1}, trial=busy(0.44, 0.36)),
    Case(load={"connections": 1}, trial=busy(0.01, 0.01)),
    Case(load={"connections": 10}, trial=busy(0.02, 0.02), probe=doubled(1.99, 0.04, 0.04)),
    Case(load={"connections": 5}, trial=busy(0.50, 0.40), probe=doubled(1.6, 0.9, 0.7)),
    Case(load={"connections": 2}, trial=busy(0.70, 0.60), probe=doubled(1.3, 0.95, 0.8)),
    Case(load={"connections": 50}, trial=busy(0.85, 0.70), probe=doubled(1.12, 0.97, 0.8)),
    Case(trial=busy(0.60, 0.60), probe=LimitProbe()),
    Case(load={"connections": 4}, trial=busy(0.2, 0.2), path={"delay_ms": 5}, probe=doubled(2.0, 0.4, 0.4)),
    # A generator that looks busy can do three times as much under this load.
    Case(trial=busy(0.30, 0.90), probe=LimitProbe(gain=1.9, ceiling_per_s=300_000)),
)
RESOURCE = (
    quota(0.5, 30),
    quota(0.1, 15),
    quota(0.9, 28),
    Case(trial=busy(0.05, 0.02), used={"listen_drops": 60, "listen_overflows": 40}),
    Case(load={"connections": 10}, trial=busy(0.02, 0.01), used={"listen_drops": 17}),
    Case(load={"descriptors_max": 40}, trial=ERRORS | busy(0.5, 0.4), used=growth(39)),
    Case(trial=ERRORS | {"first_error": "connect: Cannot assign requested address (os error 99)"}),
    Case(failure=broke("memory")),
    Case(failure=broke("processes")),
    Case(load={"connections": 4}, trial=busy(0.2, 0.2), path={"rate_bits_per_s": 1e6}, used={}),
)
INVALID = (
    Case(trial={"noise": MachineNoise(steal_share=0.5, foreign_cpu_cores=0.0)}),
    Case(trial={"noise": MachineNoise(steal_share=0.0, foreign_cpu_cores=1.5)}),
    Case(trial=ERRORS),
    Case(trial=ERRORS | busy(0.97, 0.5)),
    Case(failure=broke(None)),
    Case(failure=Failure(kind="died", message="it died")),
    Case(trial={"connections_open": 20}),
    Case(trial={"interrupted": True}),
    Case(trial={"errors": {"wrong": 3}}),
    Case(load={"descriptors_max": 400}, trial=ERRORS, used=growth(60)),
)
KINDS = {
    Bottleneck.SERVER: SERVER,
    Bottleneck.GENERATOR: GENERATOR,
    Bottleneck.LATENCY: LATENCY,
    Bottleneck.RESOURCE: RESOURCE,
    Bottleneck.INVALID: INVALID,
}
CASES = [pytest.param(kind, case, id=f"{kind}-{at}") for kind, cases in KINDS.items() for at, case in enumerate(cases)]


def alone(load: Mapping[str, Any]) -> Plan:
    """A plan of one contestant and eleven blocks, placed on two CPUs."""
    plan = soak_plan("epoll", {"protocol": "echo", **load})
    return on_two_processors(plan.model_copy(update={"blocks": 11}))


def plan_of(case: Case) -> Plan:
    """The plan of a case, with its path if it has one."""
    placed = alone(case.load)
    if case.path is None:
        return placed
    comparison = placed.comparisons[0]
    cell = updated(comparison.cells[0], path=dict(case.path))
    return placed.model_copy(update={"comparisons": (comparison.model_copy(update={"cells": (cell,)}),)})


def trials(plan: Plan, case: Case) -> list[Result]:
    return [trial_of(plan, case, each) for each in schedule(plan)]


def trial_of(plan: Plan, case: Case, scheduled: Trial) -> Result:
    if case.failure is not None:
        return Result(trial=scheduled, started="2026-01-01", failure=case.failure)
    made = result(plan, scheduled, **case.trial)
    assert made.server is not None
    over = carried(375_000) if case.path is not None and "rate_bits_per_s" in case.path else None
    return updated(made, server=made.server.model_copy(update=dict(case.used)), path=over)


def limit(case: Case, made: Callable[[Plan, Case], list[Result]] = trials) -> Limit:
    plan = plan_of(case)
    count = CostCount(comparison=0, slot=0, cell=plan.comparisons[0].cells[0].key, limit=case.probe)
    return verdict.judge(plan, made(plan, case), [count])[0].limits["epoll"]


@pytest.mark.parametrize(("kind", "case"), CASES)
def test_each_kind_of_limit_is_named_with_its_figures(kind: Bottleneck, case: Case) -> None:
    found = limit(case)
    assert found.kind is kind, found.reason
    assert found.reason
    assert bool(found.resource) is (kind is Bottleneck.RESOURCE)


def test_each_kind_is_provoked_in_ten_ways() -> None:
    assert [len(cases) for cases in KINDS.values()] == [10] * 5


RAN_OUT = (*("quota",) * 3, *("backlog",) * 2, "descriptors", "ports", "memory", "processes", "path")


@pytest.mark.parametrize(("case", "resource"), list(zip(RESOURCE, RAN_OUT, strict=True)))
def test_a_resource_that_had_run_out_is_named(case: Case, resource: str) -> None:
    assert limit(case).resource == resource


def polled(worker: float, poller: float) -> dict[str, int]:
    """A server's usage of a window of 3 s: by its own thread, and by the kernel thread that polls for it."""
    return {
        "cpu_ns": round(3e9 * (worker + poller)),
        "thread_cpu_ns_max": round(3e9 * worker),
        "polling_ns": round(3e9 * poller),
    }


POLLED = [
    (Bottleneck.LATENCY, Case(used=polled(0.3, 1.0), trial=busy(0, 0.5), probe=doubled(1.6, 0.5, 0.8))),
    (Bottleneck.LATENCY, Case(used=polled(0.3, 0.7), trial=busy(0, 0.5))),
    (Bottleneck.LATENCY, Case(load={"connections": 1}, used=polled(0.1, 1.0), trial=busy(0, 0.2))),
    (Bottleneck.SERVER, Case(used=polled(0.3, 1.0), trial=busy(0, 0.5), probe=doubled(1.02, 0.3, 0.5))),
    (Bottleneck.SERVER, Case(used=polled(0.95, 1.0), trial=busy(0, 0.5))),
    (Bottleneck.GENERATOR, Case(used=polled(0.3, 1.0), trial=busy(0, 0.95))),
    (Bottleneck.RATE, Case(load={"rate": "100k"}, used=polled(0.3, 1.0), trial=busy(0, 0.5))),
]


@pytest.mark.parametrize(("kind", "case"), POLLED)
def test_a_thread_of_the_kernel_that_polls_is_no_evidence_and_is_named(kind: Bottleneck, case: Case) -> None:
    found = limit(case)
    assert found.kind is kind, found.reason
    assert " beside a polling thread of the kernel (" in found.reason


def test_a_server_that_asks_for_polling_is_not_judged_by_its_processor_time_where_that_was_not_told_apart() -> None:
    plan = on_two_processors(soak_plan("io_uring[submit=sqpoll]", {"protocol": "echo"}))
    (scheduled,) = schedule(plan)
    made = result(plan, scheduled, server_share=1.0)
    assert made.server is not None
    unknown = updated(made, server=updated(made.server, polling_ns=None))
    assert verdict.judge(plan, [made])[0].limits["io_uring[submit=sqpoll]"].kind is Bottleneck.SERVER
    found = verdict.judge(plan, [unknown])[0].limits["io_uring[submit=sqpoll]"]
    assert (found.kind, found.reason.startswith("server unknown, ")) == (Bottleneck.LATENCY, True)


@pytest.mark.parametrize(
    ("kind", "throughput", "latency", "cpu"),
    [
        ("server", "exact", "exact", "exact"),
        ("both", "exact", "exact", "exact"),
        ("shared", "exact", "exact", "exact"),
        ("generator", "at least", "at most", "exact"),
        ("resource", "at least", "at most", "exact"),
        ("latency", "at least", "exact", "exact"),
        ("rate", "at least", "exact", "exact"),
    ],
)
def test_a_figure_that_the_server_did_not_limit_is_a_bound(kind: str, throughput: str, latency: str, cpu: str) -> None:
    found = Limit(kind=Bottleneck(kind), reason="for a test")
    shown = tuple(found.bound(metric) for metric in ("throughput", "latency_p99", "cpu_per_request"))
    assert shown == (throughput, latency, cpu)


def test_most_trials_decide_and_half_of_them_keep_the_median() -> None:
    def some(limited: int) -> Bottleneck:
        def made(plan: Plan, case: Case) -> list[Result]:
            shares: Iterator[dict[str, Any]] = (
                {"server_share": 0.5, "generator_share": 0.95} if at < limited else {} for at in range(99)
            )
            return [result(plan, each, **share) for each, share in zip(schedule(plan), shares, strict=False)]

        return limit(Case(), made).kind

    blocks = len(schedule(plan_of(Case())))
    assert some(blocks // 2) is Bottleneck.SERVER
    assert some(blocks // 2 + 1) is Bottleneck.GENERATOR


def test_the_reason_of_a_latency_bound_cell_has_littles_law_and_the_gain() -> None:
    found = limit(Case(load={"connections": 10}, trial=busy(0.4, 0.3), probe=doubled(1.98)))
    assert found.label == "latency-bound"
    assert found.reason == (
        "server 40 % busy, generator 30 % busy; 10 requests in flight at 100 µs each (Little's law); "
        "twice as many in flight are served at 1.98x the rate"
    )


SLOWER = "the median latency of epoll is 1.2"


def pair(load: Mapping[str, Any], shares: Mapping[str, Any], rates: tuple[float, float]) -> str:
    """The sentence on two servers with these trials."""
    plan = on_two_processors(vs_plan(["epoll", "io_uring"], {"protocol": "echo", **load}))
    made = [result(plan, each, rate_per_s=rates[each.slot], **shares) for each in schedule(plan)]
    return verdict.judge(plan, made)[0].sentence


@pytest.mark.parametrize(
    ("load", "shares", "slower", "unranked"),
    [
        ({"connections": 1}, busy(0.4, 0.4), SLOWER, "latency-bound, so their requests are not ranked"),
        ({"rate": "100k"}, busy(0.4, 0.4), SLOWER, "serve the requested rate"),
        ({}, busy(0.4, 0.95), "", "the generator limited both io_uring and epoll, so their requests cannot be ranked"),
    ],
)
def test_requests_that_the_server_did_not_limit_are_not_ranked(
    load: dict[str, Any], shares: dict[str, Any], slower: str, unranked: str
) -> None:
    told = pair(load, shares, (100_000.0, 120_000.0))
    assert slower in told.lower()
    assert unranked in told
    assert "serves" not in told


def test_many_that_are_latency_bound_are_ranked_by_cpu_alone() -> None:
    plan = on_two_processors(vs_plan(["epoll", "poll", "select", "thread"], {"protocol": "echo", "connections": 1}))
    made = [result(plan, each, rate_per_s=9_000.0 + 500 * each.slot, **busy(0.4, 0.4)) for each in schedule(plan)]
    told = verdict.judge(plan, made)[0].sentence
    assert told.startswith("Most requests: not ranked, because all 4 are latency-bound. Least CPU per request: ")


def test_cells_under_one_load_have_one_shape_and_the_fastest_is_its_ceiling() -> None:
    plan = on_two_processors(vs_plan(["epoll", "io_uring"], {"protocol": "echo"}))
    made = [result(plan, each, rate_per_s=(80_000.0, 120_000.0)[each.slot]) for each in schedule(plan)]
    epoll, io_uring = plan.comparisons[0].cells
    assert bottleneck.load_shape(epoll) == bottleneck.load_shape(io_uring)
    assert bottleneck.reached_per_s(plan, made) == {bottleneck.load_shape(epoll): pytest.approx(120_000.0)}
    other = alone({"connections": 1}).comparisons[0].cells[0]
    assert bottleneck.load_shape(other) != bottleneck.load_shape(epoll)
