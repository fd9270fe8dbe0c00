"""Published sentences against made results whose truth is known."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iolab.judge import claims, verdict
from iolab.judge.claims import ClaimVerdict
from iolab.plan.claims import Claim, FlatTest, LittlesLawTest, RatioTest, Test, WinsTest
from iolab.plan.experiment import load_experiment, vs_plan
from iolab.plan.plan import Plan, Trial
from iolab.plan.schedule import schedule
from iolab.results.records import MachineNoise, Result
from made import result, results

PLAN = load_experiment(Path(__file__).parent.parent / "experiments" / "echo-io_uring-epoll.toml")
SIZES = [65, 128, 256, 512]


def rates(
    ratio_of: Callable[[int], float], epoll_of: Callable[[int], float] = lambda _: 1.0, noise: float = 0.01
) -> Callable[[Trial], float]:
    """epoll at 100,000/s times `epoll_of` its message size, io_uring `ratio_of` the size times that."""
    weather = np.random.default_rng(1).normal(0, noise, (PLAN.blocks, len(SIZES), 2))

    def rate(trial: Trial) -> float:
        size = SIZES[trial.comparison]
        level = 100_000.0 * epoll_of(size) * (ratio_of(size) if trial.slot else 1.0)
        return level * math.exp(float(weather[trial.block, trial.comparison, trial.slot]))

    return rate


def judge(test: Test, made: list[Result], plan: Plan = PLAN) -> ClaimVerdict:
    claim = Claim(id="C", text="a claim", decide=test)
    return claims.judge(plan.model_copy(update={"claims": (claim,)}), made, verdict.judge(plan, made))[0]


def check(judgement: str, reason: str, test: Test, rate: Callable[[Trial], float], **changes: Any) -> ClaimVerdict:
    found = judge(test, results(PLAN, rate, **changes))
    assert (found.judgement, reason in found.reason) == (judgement, True), found
    assert ClaimVerdict.model_validate_json(found.model_dump_json()) == found
    return found


def ratio(published: float, **changes: Any) -> RatioTest:
    return RatioTest(contestant="io_uring", reference="epoll", published=published, **changes)


@pytest.mark.parametrize(
    ("truth", "published", "judgement", "reason"),
    [
        (1.17, 1.167, "confirmed", "direction and magnitude agree"),
        (1.05, 1.167, "confirmed in direction only", "the effect is smaller here"),
        (1.60, 1.167, "confirmed in direction only", "the effect is larger here"),
        (0.90, 1.167, "contradicted", "the direction is the other one"),
        (1.00, 1.167, "undecided", "not even the direction is sure"),
        (0.80, 0.800, "confirmed", "direction and magnitude agree"),
        (0.95, 0.800, "confirmed in direction only", "the effect is smaller here"),
        (1.20, 0.800, "contradicted", "the direction is the other one"),
        (1.00, 1.000, "confirmed", "the same, within 2 %"),
        (1.10, 1.000, "contradicted", "it differs"),
    ],
)
def test_a_ratio_is_judged_by_direction_first_and_magnitude_second(
    truth: float, published: float, judgement: str, reason: str
) -> None:
    found = check(judgement, reason, ratio(published), rates(lambda _: truth))
    assert found.published == published
    assert found.ratio == pytest.approx(truth, rel=0.02)


def test_a_ratio_over_several_settings_is_their_geometric_mean() -> None:
    by_size = dict(zip(SIZES, [1.130, 1.200, 1.137, 1.203], strict=True))
    found = check("confirmed", "", ratio(1.167, tolerance=0.01), rates(by_size.__getitem__))
    assert found.ratio == pytest.approx(1.167, abs=0.01)
    one = check(
        "confirmed", "", ratio(1.2, tolerance=0.01, setting={"workload.message_bytes": 128}), rates(by_size.__getitem__)
    )
    assert one.ratio == pytest.approx(1.2, abs=0.015)


WINS = WinsTest(contestant="io_uring", reference="epoll")


@pytest.mark.parametrize(
    ("smallest", "judgement", "reason"),
    [
        (1.10, "confirmed", "wins at all 4 settings"),
        (1.00, "undecided", "wins at 3 of 4; not decided at message_bytes=65"),
        (0.90, "contradicted", "loses at message_bytes=65"),
    ],
)
def test_a_winner_wins_at_every_setting(smallest: float, judgement: str, reason: str) -> None:
    check(judgement, reason, WINS, rates(lambda size: smallest if size == 65 else 1.1))


def test_less_latency_wins() -> None:
    wins = WinsTest(metric="latency_p50", contestant="io_uring", reference="epoll")
    check("confirmed", "wins at all 4", wins, rates(lambda _: 1.2))
    check("contradicted", "loses at", wins, rates(lambda _: 0.8))


def flat(at_most: float = 1.1) -> FlatTest:
    return FlatTest(
        axis="workload.message_bytes", contestants=("epoll", "io_uring"), at_most=at_most, published={"epoll": 1.077}
    )


@pytest.mark.parametrize(
    ("at_512", "judgement"), [(1.0, "confirmed"), (0.95, "confirmed"), (0.909, "undecided"), (0.8, "contradicted")]
)
def test_flat_is_the_largest_over_the_smallest(at_512: float, judgement: str) -> None:
    found = check(judgement, "allowed 1.1", flat(), rates(lambda _: 1.1, lambda size: at_512 if size == 512 else 1.0))
    assert found.published == 1.077
    assert found.ratio is not None
    assert found.ratio >= 1


def test_flat_is_not_said_of_one_value() -> None:
    plan = PLAN.model_copy(update={"comparisons": PLAN.comparisons[:1]})
    found = judge(flat(), results(plan, rates(lambda _: 1.1)), plan)
    assert (found.judgement, "fewer than two values" in found.reason) == ("undecided", True)


def littles_law(epoll_ms: float, io_uring_ms: float) -> LittlesLawTest:
    return LittlesLawTest(
        published_ms={"epoll": epoll_ms, "io_uring": io_uring_ms},
        setting={"workload.message_bytes": 65},
        tolerance=0.05,
    )


@pytest.mark.parametrize(
    ("epoll_ms", "io_uring_ms", "judgement"),
    [
        (0.5, 0.4, "confirmed"),
        (0.9, 0.7, "confirmed in direction only"),
        (0.4, 0.5, "undecided"),
    ],
)
def test_littles_law_holds_and_the_latencies_stand_beside_ours(
    epoll_ms: float, io_uring_ms: float, judgement: str
) -> None:
    check(judgement, "holds in all 160 trials", littles_law(epoll_ms, io_uring_ms), rates(lambda _: 1.25, noise=0.003))


def test_a_broken_law_contradicts() -> None:
    made = results(PLAN, rates(lambda _: 1.25))
    first = made[0]
    assert first.report is not None
    latency = first.report.latency_ns.model_dump() | {"mean": 1.0}
    made[0] = result(PLAN, first.trial, latency_ns=latency)
    found = judge(littles_law(0.5, 0.4), made)
    assert (found.judgement, found.reason) == (
        "contradicted",
        "connections = throughput x mean latency fails in 1 of 160 trials",
    )


@pytest.mark.parametrize("test", [ratio(1.167), flat()])
def test_a_figure_that_the_generator_limited_decides_no_magnitude(test: Test) -> None:
    check(
        "undecided", "the generator was the limit", test, rates(lambda _: 1.17), generator_share=0.95, server_share=0.6
    )


def test_a_winner_that_the_generator_held_back_still_wins() -> None:
    rate = rates(lambda _: 1.3)
    made = [
        result(
            PLAN,
            trial,
            rate_per_s=rate(trial),
            generator_share=0.95 if trial.slot else 0.5,
            server_share=0.6 if trial.slot else 0.97,
        )
        for trial in schedule(PLAN)
    ]
    assert judge(WINS, made).judgement == "confirmed"
    assert judge(ratio(1.3), made).judgement == "undecided"


@pytest.mark.parametrize("test", [ratio(1.167), WINS, flat(), littles_law(0.5, 0.4)])
def test_nothing_measured_decides_nothing(test: Test) -> None:
    assert judge(test, []).judgement == "undecided"


@pytest.mark.parametrize("test", [ratio(1.167), WINS, flat()])
def test_a_busy_machine_decides_nothing(test: Test) -> None:
    busy = MachineNoise(steal_share=0.5, foreign_cpu_cores=0.0)
    rate = rates(lambda _: 1.17)
    made = [
        result(PLAN, trial, rate_per_s=rate(trial), noise=busy if trial.block < 5 else None) for trial in schedule(PLAN)
    ]
    found = judge(test, made)
    assert (found.judgement, "too busy" in found.reason) == ("undecided", True)


def test_a_run_that_gives_the_published_table_confirms_the_published_claims() -> None:
    published = {row.setting["workload.message_bytes"]: row.values for row in PLAN.published}

    def rate(trial: Trial) -> float:
        return published[SIZES[trial.comparison]]["io_uring" if trial.slot else "epoll"]

    made = results(PLAN, rate)
    assert {v.claim.id: v.judgement for v in claims.judge(PLAN, made, verdict.judge(PLAN, made))} == {
        "C1-1": "confirmed",
        "C1-2": "confirmed",
        "C1-3": "confirmed",
        "C1-6": "confirmed",
    }
    beside = claims.beside_published(PLAN, verdict.judge(PLAN, made))
    assert [row.id for row in beside] == ["S1-row-1", "S1-row-2", "S1-row-3", "S1-row-4"]
    for row in beside:
        assert row.measured is not None
        assert row.measured.ratio == pytest.approx(row.published, rel=1e-4)


def of_four(*, ladder: bool) -> Plan:
    """Four servers, each a tenth above the one before."""
    plan = vs_plan([f"epoll[x={n}]" for n in range(4)], {"protocol": "echo"}, blocks=12)
    rungs = plan.comparisons[0].model_copy(update={"ladder": ladder})
    return plan.model_copy(update={"comparisons": (rungs,)})


@pytest.mark.parametrize(
    ("contestant", "reference", "ladder", "judgement"),
    [
        pytest.param(1, 0, False, "confirmed", id="a winner"),
        pytest.param(3, 0, False, "undecided", id="a winner of whom too much is discarded"),
        pytest.param(1, 0, True, "confirmed", id="a rung and the one below it"),
        pytest.param(2, 0, True, "undecided", id="a rung and one that it was not compared with"),
    ],
)
def test_a_claim_is_held_against_a_ratio_of_just_its_two(
    contestant: int, reference: int, ladder: bool, judgement: str
) -> None:
    plan = of_four(ladder=ladder)
    busy = MachineNoise(steal_share=0.5, foreign_cpu_cores=0.0)
    made = [
        result(plan, each, rate_per_s=1e5 * 1.1**each.slot, noise=busy if each.slot == 3 and each.block < 4 else None)
        for each in schedule(plan)
    ]
    test = WinsTest(contestant=f"epoll[x={contestant}]", reference=f"epoll[x={reference}]")
    assert judge(test, made, plan).judgement == judgement


def all_busy(plan: Plan, slot: int | None = None) -> list[Result]:
    """A run of which every trial, or every one of a contestant, is discarded."""
    busy = MachineNoise(steal_share=0.5, foreign_cpu_cores=0.0)
    return [result(plan, each, noise=busy if slot in (None, each.slot) else None) for each in schedule(plan)]


@pytest.mark.parametrize("slot", [None, 0, 1])
@pytest.mark.parametrize("test", [ratio(1.1), WINS, flat(), littles_law(0.5, 0.4)], ids=lambda test: test.relation)
def test_a_claim_whose_trials_were_all_discarded_says_so_and_why(test: Test, slot: int | None) -> None:
    found = judge(test, all_busy(PLAN, slot))
    assert found.judgement == "undecided"
    assert "were discarded" in found.reason
    assert "busy" in found.reason
    assert "no comparison" not in found.reason
