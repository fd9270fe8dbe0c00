"""Published claims against made results with known truth."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iolab.judge import claims, verdict
from iolab.judge.claims import ClaimVerdict
from iolab.plan import older_claims
from iolab.plan.claims import Claim, Published
from iolab.plan.experiment import load_experiment, vs_plan
from iolab.plan.plan import Plan, Trial
from iolab.plan.schedule import schedule
from iolab.results.records import MachineNoise, Result
from made import result, results

pytestmark = pytest.mark.usefixtures("few_resamples")

WHOLE = load_experiment(Path(__file__).parent.parent / "experiments" / "echo-io_uring-epoll.toml")
# The comparisons with one event loop, which decide the claims.
PLAN = WHOLE.model_copy(update={"comparisons": WHOLE.comparisons[:4]})
SIZES = [65, 128, 256, 512]
AXIS = "workload.message_bytes"


def rates(
    ratio_of: Callable[[int], float], epoll_of: Callable[[int], float] = lambda _: 1.0, noise: float = 0.01
) -> Callable[[Trial], float]:
    """epoll at 100,000/s times `epoll_of(size)`, and io_uring at that times `ratio_of(size)`."""
    weather = np.random.default_rng(1).normal(0, noise, (PLAN.blocks, len(SIZES), 2))

    def rate(trial: Trial) -> float:
        size = SIZES[trial.comparison]
        level = 100_000.0 * epoll_of(size) * (ratio_of(size) if trial.slot else 1.0)
        return level * math.exp(float(weather[trial.block, trial.comparison, trial.slot]))

    return rate


def judge(test: Mapping[str, Any], made: list[Result], plan: Plan = PLAN) -> ClaimVerdict:
    claim = Claim.model_validate({"id": "C", "text": "a claim", "decide": test})
    return claims.judge(plan.model_copy(update={"claims": (claim,)}), made, verdict.judge(plan, made))[0]


RATIO = {"relation": "ratio", "of": "io_uring", "to": "epoll", "published": 1.1}
ORDER = {"relation": "order", "contestants": ["io_uring", "epoll"]}
FLAT = {"relation": "trend", "of": "epoll", "along": AXIS, "is": "flat"}


def test_a_ratio_over_several_settings_is_their_geometric_mean() -> None:
    by_size = dict(zip(SIZES, [1.130, 1.200, 1.137, 1.203], strict=True))
    made = results(PLAN, rates(by_size.__getitem__))
    found = judge(RATIO | {"published": 1.167, "tolerance": 0.01}, made)
    assert found.judgement == "confirmed"
    assert found.tests[0].value == pytest.approx(1.167, abs=0.01)
    one = judge(RATIO | {"published": 1.2, "tolerance": 0.01, "at": {AXIS: 128}}, made)
    assert one.judgement == "confirmed"
    assert one.tests[0].value == pytest.approx(1.2, abs=0.015)


@pytest.mark.parametrize("test", [RATIO, ORDER, FLAT])
def test_a_busy_machine_decides_nothing(test: dict[str, Any]) -> None:
    busy = MachineNoise(steal_share=0.5, foreign_cpu_cores=0.0)
    rate = rates(lambda _: 1.17)
    made = [
        result(PLAN, trial, rate_per_s=rate(trial), noise=busy if trial.block < 5 else None) for trial in schedule(PLAN)
    ]
    found = judge(test, made)
    assert (found.judgement, "too busy" in found.reason) == ("undecided", True)


def test_a_run_that_gives_the_published_table_confirms_the_published_claims() -> None:
    published = {row.at[AXIS]: row for row in PLAN.published}

    def rate(trial: Trial) -> float:
        return published[SIZES[trial.comparison]].number("io_uring" if trial.slot else "epoll", "throughput") or 0.0

    made = results(PLAN, rate)
    assert {v.claim.id: v.judgement for v in claims.judge(PLAN, made, verdict.judge(PLAN, made))} == {
        "C1-1": "confirmed",
        "C1-2": "confirmed",
        "C1-3": "confirmed",
        "C1-6": "confirmed",
    }


def of_four(*, ladder: bool) -> Plan:
    """A plan of four servers, as a ladder or not."""
    plan = vs_plan([f"epoll[x={n}]" for n in range(4)], {"protocol": "echo"}, blocks=12)
    rungs = plan.comparisons[0].model_copy(update={"ladder": ladder})
    return plan.model_copy(update={"comparisons": (rungs,)})


@pytest.mark.parametrize(
    ("contestant", "reference", "ladder", "judgement"),
    [
        pytest.param(1, 0, False, "confirmed", id="a winner"),
        pytest.param(3, 0, False, "undecided", id="a winner with too many discarded trials"),
        pytest.param(1, 0, True, "confirmed", id="a rung and the one below it"),
        pytest.param(2, 0, True, "confirmed", id="a rung and one further below"),
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
    test = {"relation": "order", "contestants": [f"epoll[x={contestant}]", f"epoll[x={reference}]"]}
    assert judge(test, made, plan).judgement == judgement


def all_busy(plan: Plan, slot: int | None = None) -> list[Result]:
    """A run with all trials discarded, or all of one contestant."""
    busy = MachineNoise(steal_share=0.5, foreign_cpu_cores=0.0)
    return [result(plan, each, noise=busy if slot in (None, each.slot) else None) for each in schedule(plan)]


@pytest.mark.parametrize("slot", [None, 0, 1])
@pytest.mark.parametrize("test", [RATIO, ORDER, FLAT], ids=lambda test: str(test["relation"]))
def test_a_claim_whose_trials_were_all_discarded_says_so_and_why(test: dict[str, Any], slot: int | None) -> None:
    found = judge(test, all_busy(PLAN, slot))
    assert found.judgement == "undecided"
    assert "were discarded" in found.reason
    assert "busy" in found.reason
    assert "no comparison" not in found.reason


# Claims as older stored plans have them, and the tests that they become.
OLDER: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
    (
        {
            "relation": "ratio",
            "contestant": "io_uring",
            "reference": "epoll",
            "published": 1.167,
            "setting": {AXIS: 65},
        },
        [RATIO | {"published": 1.167, "at": {AXIS: 65}}],
    ),
    ({"relation": "wins", "metric": "throughput", "contestant": "io_uring", "reference": "epoll"}, [ORDER]),
    (
        {"relation": "wins", "metric": "latency_p50", "contestant": "io_uring", "reference": "epoll"},
        [ORDER | {"metric": "latency_p50", "contestants": ["epoll", "io_uring"]}],
    ),
    (
        {"relation": "flat", "axis": AXIS, "contestants": ["epoll", "io_uring"], "at_most": 1.2, "published": {}},
        [FLAT | {"within": 1.2}, FLAT | {"within": 1.2, "of": "io_uring"}],
    ),
    (
        {"relation": "littles_law", "published_ms": {"epoll": 0.4}, "setting": {}},
        [
            {"relation": "identity", "law": "littles_law"},
            {"relation": "level", "metric": "latency_mean", "of": "epoll", "published": 4e5},
        ],
    ),
]


@pytest.mark.parametrize(
    ("decide", "tests"), OLDER, ids=lambda each: each["relation"] if isinstance(each, dict) else ""
)
def test_a_claim_of_an_older_plan_is_read_in_the_words_of_today(decide: dict[str, Any], tests: list[Any]) -> None:
    older = {"claims": [{"id": "C", "text": "a claim", "decide": decide}], "published": []}
    found = older_claims.translated(older)["claims"][0]
    assert Claim.model_validate(found) == Claim.model_validate({"id": "C", "text": "a claim", "tests": tests})
    today = PLAN.model_dump(mode="json")
    assert older_claims.translated(today) == today


def test_a_published_row_of_an_older_plan_is_read_in_the_words_of_today() -> None:
    row = {"id": "R", "setting": {AXIS: 65}, "metric": "latency_p50", "values": {"epoll": 4e5}, "note": ""}
    found = Published.model_validate(older_claims.translated({"published": [row]})["published"][0])
    assert (found.at, found.number("epoll", "latency_p50")) == ({AXIS: 65}, 4e5)
