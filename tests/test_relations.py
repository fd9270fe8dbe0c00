"""Each relation of a claim against made results with known truth: true, false, underpowered, of another size."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from iolab.contract.types import updated
from iolab.judge import claims, results, stats, verdict
from iolab.judge.claims import ClaimVerdict
from iolab.judge.relations import line, quantities, trend
from iolab.judge.relations.quantities import Evidence, Measure
from iolab.judge.together import together
from iolab.plan.claims import RELATIONS, Claim, Published, Quantity, TrendTest
from iolab.plan.experiment import parse_experiment, vs_plan
from iolab.plan.needs import Needs
from iolab.plan.plan import Plan, Trial
from iolab.plan.schedule import schedule
from iolab.results.records import Break, Failure, Growth, Result
from iolab.results.store import Trials
from made import result

pytestmark = pytest.mark.usefixtures("few_resamples")

AXIS = "workload.message_bytes"
SIZES = (64, 128, 256, 512)
PLAN = parse_experiment(
    f"""
name = "sizes"
question = "Which?"
contestants = ["epoll", "io_uring", "thread"]
blocks = 12
[fixed]
workload.protocol = "echo"
load.connections = 50
[axes]
{AXIS} = {list(SIZES)}
""".encode()
)
BASE = 100_000.0

# The throughput of a contestant at a size, relative to BASE.
Truth = Callable[[str, int], float]


def fast(**times: float) -> Truth:
    """Each contestant at these multiples of BASE at every size; 1 for the others."""
    return lambda contestant, size: times.get(contestant, 1.0)


def by_size(*factors: float, **others: tuple[float, ...]) -> Truth:
    """epoll at these multiples of BASE, one for each size, and others likewise."""
    table = {"epoll": factors, **others}
    return lambda contestant, size: table.get(contestant, (1.0,) * len(SIZES))[SIZES.index(size)]


def run(truth: Truth, noise: float = 0.01, plan: Plan = PLAN, **changes: Any) -> list[Result]:
    """A whole run. The seed is fixed, so the noise is the same each time."""
    weather = np.random.default_rng(3).normal(0, noise, (plan.blocks, len(plan.comparisons), 3))
    made = []
    for trial in schedule(plan):
        contestant = plan.comparisons[trial.comparison].titles[trial.slot]
        chance = math.exp(float(weather[trial.block, trial.comparison, trial.slot]))
        rate = BASE * truth(contestant, SIZES[trial.comparison]) * chance
        made.append(result(plan, trial, rate_per_s=rate, **changes))
    return made


def judged(claim: Mapping[str, Any], made: list[Result], plan: Plan = PLAN, **more: Any) -> ClaimVerdict:
    """The verdict on a claim, which survives a round trip through JSON."""
    asked = Claim.model_validate({"id": "C", "text": "a claim", **claim})
    whole = updated(plan, claims=(asked,))
    assert Plan.model_validate_json(whole.model_dump_json()) == whole
    found = claims.judge(whole, made, verdict.judge(whole, made), **more)[0]
    assert ClaimVerdict.model_validate_json(found.model_dump_json()) == found
    return found


def check(judgement: str, reason: str, test: Mapping[str, Any], made: list[Result], **more: Any) -> ClaimVerdict:
    found = judged({"tests": [test]}, made, **more)
    assert (found.judgement, reason in found.reason) == (judgement, True), f"{found.judgement}: {found.reason}"
    if judgement == "undecided" and "more block" in found.reason:
        assert found.tests[0].blocks_more is not None
    return found


RATIO = {"relation": "ratio", "of": "io_uring", "to": "epoll"}
ORDER = {"relation": "order", "contestants": ["io_uring", "epoll"]}
RISING = {"relation": "trend", "of": "epoll", "along": AXIS, "is": "rising"}
FLAT = {"relation": "trend", "of": "epoll", "along": AXIS, "is": "flat"}
PEAK = {"relation": "trend", "of": "epoll", "along": AXIS, "is": "peak", "peak_at": 128}
CROSSING = {"relation": "crossing", "of": "io_uring", "to": "epoll", "along": AXIS}
LINE = {"relation": "line", "of": "epoll", "along": AXIS}
LEVEL = {"relation": "level", "of": "epoll"}

CASES = [
    pytest.param(RATIO | {"published": 1.17}, fast(io_uring=1.17), 0.01, "confirmed", "magnitude agree", id="ratio"),
    pytest.param(
        RATIO | {"published": 1.17},
        fast(io_uring=0.9),
        0.01,
        "contradicted",
        "the opposite one",
        id="ratio the other way",
    ),
    pytest.param(
        RATIO | {"published": 1.17}, fast(io_uring=1.6), 0.01, "direction only", "larger here", id="ratio larger"
    ),
    pytest.param(
        RATIO | {"published": 1.17},
        fast(io_uring=1.1),
        0.6,
        "undecided",
        "more blocks would decide",
        id="ratio of noise",
    ),
    pytest.param(
        RATIO | {"published": 1.3, "at_least": 1.1},
        *(fast(io_uring=1.3), 0.01, "confirmed", "it is at least 1.1x, and the magnitude agrees"),
        id="ratio with a bound",
    ),
    pytest.param(
        RATIO | {"published": 1.3, "at_least": 1.1},
        *(fast(io_uring=1.05), 0.01, "contradicted", "it is not at least 1.1x"),
        id="ratio beyond its bound",
    ),
    pytest.param(
        RATIO | {"published": 1.3, "at_least": 1.1},
        *(fast(io_uring=1.6), 0.01, "direction only", "the effect is larger here"),
        id="ratio within its bound, of another size",
    ),
    pytest.param(
        RATIO | {"at_least": 0.95, "at_most": 1.05},
        *(fast(), 0.01, "confirmed", "at least 0.95x and at most 1.05x"),
        id="alike",
    ),
    pytest.param(
        RATIO | {"at_least": 0.95, "at_most": 1.05},
        *(fast(io_uring=1.03), 0.3, "undecided", "not show whether it is at least 0.95x and at most 1.05x"),
        id="alike by lack of blocks is not alike",
    ),
    pytest.param(
        RATIO | {"published": 1.85, "at_least": 1},
        *(fast(), 0.01, "undecided", "not show whether it is at least 1x, and the published ratio is outside"),
        id="next to its bound, and far from what was published",
    ),
    pytest.param(
        RATIO | {"metric": "latency_mean", "published": 0.5}, fast(io_uring=2.0), 0.01, "confirmed", "", id="latency"
    ),
    pytest.param(
        {
            "relation": "ratio",
            "of": {"contestant": "epoll", "at": {AXIS: 512}},
            "to": {"contestant": "epoll", "at": {AXIS: 64}},
            "published": 2.0,
        },
        *(by_size(1, 1, 1, 2), 0.01, "confirmed", "not paired"),
        id="a ratio of two settings",
    ),
    pytest.param(
        {
            "relation": "ratio",
            "of": {"of": "io_uring", "to": "epoll", "at": {AXIS: 512}},
            "to": {"of": "io_uring", "to": "epoll", "at": {AXIS: 64}},
            "at_least": 1.05,
        },
        *(by_size(1, 1, 1, 1, io_uring=(1, 1, 1, 1.5)), 0.01, "confirmed", "not paired"),
        id="a ratio of ratios",
    ),
    pytest.param(
        {
            "relation": "ratio",
            "of": {"of": "io_uring", "to": "epoll"},
            "to": {"of": "thread", "to": "epoll"},
            "published": 2.0,
        },
        *(fast(io_uring=2.0, thread=1.0), 0.01, "confirmed", "measured 2"),
        id="a ratio of ratios of one comparison",
    ),
    pytest.param(ORDER, fast(io_uring=1.1), 0.01, "confirmed", "io_uring > epoll in all 4 ratios", id="order"),
    pytest.param(
        ORDER,
        *(by_size(1, 1, 1, 1, io_uring=(1.1, 1.1, 0.9, 1.1)), 0.01, "contradicted", "at message_bytes=256: 0.9"),
        id="order that one setting turns round",
    ),
    pytest.param(
        ORDER,
        *(by_size(1, 1, 1, 1, io_uring=(1.1, 1.1, 1.0, 1.1)), 0.01, "undecided", "3 of 4 ratios are decided"),
        id="order that one setting leaves open",
    ),
    pytest.param(
        {"relation": "order", "contestants": ["io_uring", "epoll", "thread"], "published": [1, 0.8, 0.5]},
        *(fast(io_uring=1.2, thread=0.4), 0.01, "confirmed", "in all 8 ratios"),
        id="order of three",
    ),
    pytest.param(
        {"relation": "order", "contestants": ["epoll", "io_uring"], "metric": "latency_mean"},
        *(fast(io_uring=1.2), 0.01, "confirmed", "epoll > io_uring"),
        id="order of latencies",
    ),
    pytest.param(RISING, by_size(1, 2, 3, 4), 0.01, "confirmed", "the smallest step", id="rising"),
    pytest.param(RISING, by_size(1, 2, 1, 4), 0.01, "contradicted", "not rising", id="not rising"),
    pytest.param(RISING, by_size(1, 1.1, 1.2, 1.3), 0.5, "undecided", "steps are decided", id="rising in noise"),
    pytest.param(
        RISING | {"is": "falling", "published": [1, 0.9, 0.8, 0.5]},
        *(by_size(4, 3, 2, 1), 0.01, "confirmed", "falling along"),
        id="falling",
    ),
    pytest.param(
        RISING | {"is": "falling"}, by_size(1, 2, 3, 4), 0.01, "contradicted", "not falling", id="not falling"
    ),
    pytest.param(FLAT, by_size(1, 1.02, 1, 1), 0.005, "confirmed", "allowed 1.1x", id="flat"),
    pytest.param(FLAT, by_size(1, 1, 1, 1.3), 0.01, "contradicted", "allowed 1.1x", id="not flat"),
    pytest.param(
        FLAT, by_size(1, 1, 1, 1), 0.5, "undecided", "more blocks would decide", id="flat is not: no difference"
    ),
    pytest.param(PEAK, by_size(1, 2, 1.5, 1), 0.01, "confirmed", "the peak is at", id="peak"),
    pytest.param(PEAK, by_size(1, 2, 3, 1), 0.01, "contradicted", "not the peak is at", id="peak elsewhere"),
    pytest.param(PEAK, by_size(1, 1.1, 1, 1), 0.5, "undecided", "steps are decided", id="peak in noise"),
    pytest.param(
        CROSSING,
        *(by_size(1, 1, 1, 1, io_uring=(2, 1.5, 0.8, 0.5)), 0.01, "confirmed", "up to 128, epoll from 256 on"),
        id="crossing",
    ),
    pytest.param(
        CROSSING | {"between": [64, 256]},
        *(by_size(1, 1, 1, 1, io_uring=(2, 1.5, 0.8, 0.5)), 0.01, "confirmed", "up to 128"),
        id="crossing where it is published",
    ),
    pytest.param(
        CROSSING | {"between": [256, 512]},
        *(by_size(1, 1, 1, 1, io_uring=(2, 1.5, 0.8, 0.5)), 0.01, "direction only", "published between 256 and 512"),
        id="crossing elsewhere",
    ),
    pytest.param(
        CROSSING,
        *(by_size(1, 1, 1, 1, io_uring=(0.5, 0.8, 1.5, 2)), 0.01, "contradicted", "epoll is better at 64"),
        id="crossing the other way",
    ),
    pytest.param(
        CROSSING,
        *(by_size(1, 1, 1, 1, io_uring=(1.1, 1, 1, 0.9)), 0.6, "undecided", "not decided"),
        id="crossing in noise",
    ),
    pytest.param(
        {"relation": "crossing", "of": "io_uring", "to": "epoll", "along": ["throughput", "latency_mean"]},
        *(fast(io_uring=2), 0.01, "contradicted", "io_uring is better at latency_mean"),
        id="crossing along metrics",
    ),
    pytest.param(
        LINE | {"slope_at_least": 0, "r_squared_at_least": 0.95},
        *(lambda c, size: size / 64, 0.01, "confirmed", "within all bounds"),
        id="line",
    ),
    pytest.param(
        LINE | {"slope_at_least": 0}, lambda c, size: 9 - size / 64, 0.01, "contradicted", "slope", id="line down"
    ),
    pytest.param(LINE | {"slope_at_least": 0}, fast(), 0.3, "undecided", "does not show whether", id="line of noise"),
    pytest.param(
        LINE | {"r_squared_at_least": 0.99}, by_size(1, 9, 2, 1), 0.01, "contradicted", "R squared is", id="no line"
    ),
    pytest.param(
        LINE | {"published_slope": 3000},
        *(lambda c, size: size / 64, 0.01, "direction only", "the slope is different here"),
        id="line of another slope",
    ),
    pytest.param(
        LINE | {"published_slope": BASE / 64}, lambda c, size: size / 64, 0.01, "confirmed", "agree", id="slope"
    ),
    pytest.param(
        LINE | {"published_slope": -BASE},
        lambda c, size: size / 64,
        0.01,
        "contradicted",
        "opposite one",
        id="slope down",
    ),
    pytest.param(LEVEL | {"at_least": 0.9 * BASE}, fast(), 0.01, "confirmed", "it is at least 90,000", id="level"),
    pytest.param(LEVEL | {"at_most": 0.9 * BASE}, fast(), 0.01, "contradicted", "it is not at most", id="level above"),
    pytest.param(LEVEL | {"at_least": BASE}, fast(), 0.3, "undecided", "show whether", id="level of noise"),
    pytest.param(
        LEVEL | {"published": BASE, "comparable": True}, fast(), 0.01, "confirmed", "magnitude agrees", id="same level"
    ),
    pytest.param(
        LEVEL | {"published": 2 * BASE, "comparable": True},
        fast(),
        0.01,
        "contradicted",
        "the magnitude differs",
        id="other level",
    ),
    pytest.param(
        LEVEL | {"published": BASE, "comparable": True}, fast(), 0.6, "undecided", "wider than the tolerance", id="wide"
    ),
    pytest.param(
        LEVEL | {"published": BASE}, fast(), 0.01, "direction only", "another machine", id="level of another machine"
    ),
    pytest.param(
        LEVEL | {"metric": "cores_used", "side": "client", "at_most": 0.6},
        *(fast(), 0.01, "confirmed", "measured 0.5 cores: it is at most 0.6 cores"),
        id="level of the client",
    ),
    pytest.param(
        LEVEL | {"metric": "share_of_machine", "at_most": 0.25},
        *(fast(), 0.01, "confirmed", "it is at most 25 %"),
        id="share of the machine",
    ),
    pytest.param(LEVEL | {"metric": "failed", "at_most": 0}, fast(), 0.01, "confirmed", "it is at most 0", id="none"),
    pytest.param(
        {"relation": "identity", "law": "littles_law"}, fast(), 0.01, "confirmed", "holds in all 144 trials", id="law"
    ),
    pytest.param(
        {"relation": "identity", "law": "ab", "contestants": ["epoll"]}, fast(), 0.01, "confirmed", "48 trials", id="ab"
    ),
    pytest.param(
        {"relation": "holds", "contestants": ["epoll"]}, fast(), 0.01, "confirmed", "below 1 in 4,800,487", id="holds"
    ),
    pytest.param({"relation": "breaks", "of": "epoll"}, fast(), 0.01, "contradicted", "any of 48 trials", id="whole"),
    pytest.param(
        {"relation": "stated", "reason": "about habits", "date": "2024-07"},
        *(fast(), 0.01, "stated", "about habits (2024-07)"),
        id="stated",
    ),
]


def test_flat_is_contradicted_by_chance_in_at_most_one_run_of_twenty(monkeypatch: pytest.MonkeyPatch) -> None:
    # All of these ratios are allowed, and four of the six are on the bound: the hardest case.
    truth = dict(zip(SIZES, (1.1, 1.1, 1.0, 1.0), strict=True))
    chance, samples, runs, blocks = np.random.default_rng(1), dict[Any, Any](), 300, 12

    def compare(evidence: Evidence, of: Quantity, to: Quantity, confidence: float) -> Measure:
        ratio = stats.ratio_unpaired(samples[to.at[AXIS]], samples[of.at[AXIS]], confidence)
        return Measure(ratio, "exact", blocks, is_paired=False)

    monkeypatch.setattr(quantities, "obstacle", lambda *_, **__: None)
    monkeypatch.setattr(quantities, "compare", compare)
    test, evidence, words = TrendTest.model_validate(FLAT), Evidence(PLAN, {}, (), ()), Counter[str]()
    for _ in range(runs):
        samples |= {size: factor * chance.lognormal(0, 0.02, blocks) for size, factor in truth.items()}
        words[trend.decide(test, evidence).judgement] += 1
    assert words["contradicted"] <= runs / 20
    assert words["confirmed"] <= runs / 20


@pytest.mark.parametrize(("test", "truth", "noise", "judgement", "reason"), CASES)
def test_a_relation_is_decided_by_the_truth_that_blocks_can_show(
    test: dict[str, Any], truth: Truth, noise: float, judgement: str, reason: str
) -> None:
    check(judgement, reason, test, run(truth, noise), processors=4)


def test_every_relation_is_tried() -> None:
    tried = {case.values[0]["relation"] for case in CASES if isinstance(case.values[0], dict)}
    assert tried == set(RELATIONS) == set(claims.DECIDE)


@pytest.mark.parametrize("name", [name for name in RELATIONS if name not in ("stated",)])
def test_nothing_measured_decides_nothing(name: str) -> None:
    test = next(
        case.values[0] for case in CASES if isinstance(case.values[0], dict) and case.values[0]["relation"] == name
    )
    assert isinstance(test, dict)
    assert judged({"tests": [test]}, []).judgement == "undecided"


# io_uring alone is limited by the generator.
def limited(truth: Truth) -> list[Result]:
    made = []
    for each in run(truth):
        report = each.report
        assert report is not None
        share = 0.95 if each.trial.slot == 1 else 0.5
        made.append(
            result(
                PLAN,
                each.trial,
                rate_per_s=report.rate_per_s,
                generator_share=share,
                server_share=0.6 if each.trial.slot == 1 else 0.97,
            )
        )
    return made


@pytest.mark.parametrize(
    ("test", "judgement", "reason"),
    [
        (RATIO | {"published": 1.3}, "undecided", "the generator was the limit of io_uring"),
        (RATIO | {"at_least": 1.2}, "confirmed", "≥ 1.3"),
        (RATIO | {"at_least": 1.2, "published": 1.3}, "direction only", "the generator was the limit"),
        (RATIO | {"at_most": 1.2}, "contradicted", "it is not at most 1.2x"),
        (RATIO | {"at_most": 1.4}, "undecided", "the generator was the limit, so it is not known whether it is at"),
        (ORDER, "confirmed", "io_uring > epoll"),
        (ORDER | {"contestants": ["epoll", "io_uring"]}, "contradicted", "≤ 0.7"),
        (ORDER | {"contestants": ["io_uring", "thread", "epoll"]}, "undecided", "4 of 8"),
        (RATIO | {"metric": "cpu_per_request", "at_most": 1}, "confirmed", "it is at most 1x"),
        (FLAT | {"of": "io_uring"}, "undecided", "the generator was the limit"),
        (LEVEL | {"of": "io_uring", "at_least": BASE}, "confirmed", "it is at least"),
        (LEVEL | {"of": "io_uring", "at_most": 2 * BASE}, "undecided", "show whether"),
    ],
)
def test_a_figure_that_the_generator_limited_decides_a_bound_and_no_magnitude(
    test: dict[str, Any], judgement: str, reason: str
) -> None:
    check(judgement, reason, test, limited(fast(io_uring=1.3)))


def broken(blocks: int, in_blocks: int, plan: Plan = PLAN, kind: str = "died") -> list[Result]:
    """A run in which epoll's trials fail in the first blocks."""
    made = []
    for each in run(fast(), plan=plan):
        if each.trial.slot == 0 and each.trial.block < in_blocks:
            how = Break() if kind == "died" else None
            failure = Failure(kind=kind, message="the server died", final=kind == "unavailable", how=how)
            each = Result(trial=each.trial, started=each.started, failure=failure)
        if each.trial.block < blocks:
            made.append(each)
    return made


HOW = Break(request=1_500, connection=1, phase="receive", saw="closed", ran_out="processes")


@pytest.mark.parametrize(
    ("asked", "judgement", "reason"),
    [
        ({"cause": ["processes"], "phase": ["receive"], "after_request": 1_000}, "confirmed", "12 of 12 trials"),
        ({"cause": ["timeout", "closed"]}, "confirmed", "12 of 12 trials"),
        ({"cause": ["memory"]}, "direction only", "the cause is processes, not memory"),
        ({"phase": ["connect"]}, "direction only", "it failed in the phase receive, not in connect"),
        ({"after_request": 1_500}, "direction only", "it failed at request 1500, not after 1,500"),
    ],
)
def test_a_break_is_held_against_how_it_was_published(asked: dict[str, Any], judgement: str, reason: str) -> None:
    made = []
    for each in run(fast()):
        assert each.report is not None
        requests = each.report.requests.model_copy(update={"failed": 1})
        failure = Failure(kind="errors", message="1 of 3 requests failed", how=HOW)
        with_report = each.report.model_copy(update={"requests": requests})
        made.append(each.model_copy(update={"report": with_report, "failure": failure}))
    check(judgement, reason, BREAKS | asked, made)


BREAKS = {"relation": "breaks", "of": "epoll", "at": {AXIS: 64}}
HOLDS = {"relation": "holds", "contestants": ["epoll"], "at": {AXIS: 64}}


@pytest.mark.parametrize(
    ("test", "blocks", "in_blocks", "judgement", "reason"),
    [
        (BREAKS, 12, 12, "confirmed", "epoll failed in 12 of 12 trials: the server died"),
        (BREAKS, 12, 3, "direction only", "epoll failed in 3 of 12 trials"),
        (BREAKS, 12, 0, "contradicted", "epoll did not fail in any of 12 trials"),
        (BREAKS, 3, 0, "undecided", "did not fail in 3 trials, and it takes 5"),
        (HOLDS, 12, 0, "confirmed", "no failure in 3,5"),
        (HOLDS, 12, 1, "contradicted", "epoll failed in 1 of 12 trials: the server died"),
    ],
)
def test_what_breaks_and_what_holds_is_counted_over_all_trials(
    test: dict[str, Any], blocks: int, in_blocks: int, judgement: str, reason: str
) -> None:
    check(judgement, reason, test, broken(blocks, in_blocks))


def test_a_trial_that_the_lab_lost_is_no_failure_of_the_server() -> None:
    for test, judgement, reason in ((HOLDS, "confirmed", "of 9 trials"), (BREAKS, "contradicted", "any of 9 trials")):
        check(judgement, reason, test, broken(12, 3, kind="lab_late"))


def test_a_contestant_that_was_left_out_is_not_measurable_here() -> None:
    made = broken(12, 12, kind="unavailable")
    for test in (RATIO | {"published": 1.1}, BREAKS, HOLDS, FLAT, LEVEL | {"at_least": 1}):
        check("not measurable here", "the server died", test, made)


LAW = {"relation": "identity", "law": "littles_law"}


@pytest.mark.parametrize(
    ("test", "reason"),
    [
        (HOLDS, "epoll was given up: cannot be executed"),
        (BREAKS, "epoll was given up: cannot be executed"),
        (LAW | {"contestants": ["epoll"]}, "epoll was given up: cannot be executed"),
        (RATIO | {"published": 1.1}, "epoll could not be measured at message_bytes=64: cannot be executed"),
        (LEVEL | {"at_least": 1}, "epoll could not be measured at message_bytes=64: cannot be executed"),
    ],
)
def test_a_contestant_that_was_given_up_is_named_with_its_failure(test: dict[str, Any], reason: str) -> None:
    failure = Failure(kind="cannot_start", message="cannot be executed", final=True)
    made = [
        each if each.trial.slot else Result(trial=each.trial, started=each.started, failure=failure)
        for each in run(fast())
    ]
    check("undecided", reason, test, made)


LACKING = {Needs(processors=4): "needs 4 processors (2 found)"}
GOOD, BAD = RATIO | {"published": 1.17}, RATIO | {"at_most": 1}
OPEN, SMALL = RATIO | {"at_least": 1.17}, RATIO | {"published": 1.5}
FULL, BIG = GOOD | {"quick": False}, GOOD | {"needs": {"processors": 4}}
STATED = {"relation": "stated", "reason": "about habits"}


@pytest.mark.parametrize(
    ("tests", "judgement"),
    [
        ([GOOD], "confirmed"),
        ([GOOD, SMALL], "direction only"),
        ([GOOD, SMALL, OPEN], "undecided"),
        ([GOOD, SMALL, OPEN, BAD], "contradicted"),
        ([GOOD, BAD | {"shown": True}], "confirmed"),
        ([GOOD, BIG], "confirmed"),
        ([GOOD, FULL], "confirmed"),
        ([GOOD, STATED], "confirmed"),
        ([BIG], "not measurable here"),
        ([FULL], "full run only"),
        ([BIG, FULL], "full run only"),
        ([BIG, STATED], "not measurable here"),
        ([STATED], "stated"),
    ],
)
def test_a_claim_has_the_weakest_verdict_of_its_tests_that_could_be_run(tests: list[Any], judgement: str) -> None:
    quick = updated(PLAN, is_quick=True)
    found = judged({"tests": tests}, run(fast(io_uring=1.17)), quick, unmet=LACKING)
    assert found.judgement == judgement
    assert len(found.tests) == len(tests)
    assert found.reason in [each.reason for each in found.tests if not each.test.shown]


def test_what_a_claim_needs_stops_all_its_tests() -> None:
    found = judged({"tests": [GOOD], "needs": {"processors": 4}}, run(fast()), unmet=LACKING)
    assert (found.judgement, found.reason) == ("not measurable here", "needs 4 processors (2 found)")


def test_a_quick_run_says_so_where_it_leaves_out_a_setting() -> None:
    quick = updated(PLAN, comparisons=PLAN.comparisons[:1], is_quick=True)
    made = run(fast(), plan=quick)
    for test in (RISING, CROSSING, LINE | {"slope_at_least": 0}, RATIO | {"at": {AXIS: 512}, "at_least": 1}):
        assert judged({"tests": [test]}, made, quick).judgement == "full run only"


# Rows as the two tools print them, in base units.
AB = {"time_to_finish": 0.149e9, "throughput": 6733.83, "latency_mean": 1.485e6, "time_per_request": 0.149e6}
AB |= {"transfer_rate": 1893.89 * 1024, "reply_bytes": 288.0, "requests": 1000.0, "connections": 10.0}
P1: dict[str, Any] = {
    "time_to_finish": 9.758e9,
    "throughput": 10.25,
    "latency_mean": 97.578e6,
    "time_per_request": 97.578e6,
}
P1 |= {"requests": {"value": 1000, "should_be": 100}, "connections": 1}
HEY = {
    "time_to_finish": 3.9348e9,
    "throughput": 254145.7164,
    "latency_mean": 1.0e6,
    "requests": 1e6,
    "connections": 250,
}
BINS = {"edges_ns": [1e6 * n for n in range(11)], "counts": [1, 998349, 1385, 15, 0, 0, 233, 12, 0, 0, 5]}


@pytest.mark.parametrize(
    ("law", "figures", "judgement", "reason"),
    [
        ("ab", AB, "confirmed", "4 published equations hold"),
        ("ab", AB | {"throughput": 6900.0}, "contradicted", "requests / time = rate fails in R"),
        ("ab", AB | {"transfer_rate": 1000.0 * 1024}, "contradicted", "transfer rate fails in R"),
        ("ab", P1, "confirmed", "R only with requests 100 instead of the printed 1,000"),
        ("ab", P1 | {"requests": 1000}, "contradicted", "requests / time = rate fails"),
        ("ab", {"throughput": "error"}, "undecided", "no published row has the figures"),
        ("hey", HEY, "confirmed", "3 published equations hold"),
        ("hey", HEY | {"requests": 1_000_003}, "contradicted", "the histogram sums to the requests fails"),
        ("littles_law", {"throughput": 112384, "latency_mean": 445e3}, "confirmed", "1 published equations hold"),
        ("littles_law", {"throughput": 112384, "latency_mean": 900e3}, "contradicted", "mean latency fails"),
    ],
)
def test_the_formulas_of_a_published_row_hold_within_its_rounding(
    law: str, figures: dict[str, Any], judgement: str, reason: str
) -> None:
    row = {"id": "R", "figures": {"epoll": figures}, "bins": {"epoll": BINS} if law == "hey" else {}}
    plan = updated(PLAN, published=(Published.model_validate(row),))
    check(judgement, reason, {"relation": "identity", "law": law, "over": "published"}, [], plan=plan)


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        (P1, "R only with requests 100 instead of the printed 1,000"),
        (AB | {"throughput": {"value": 6700, "should_be": 6733.83}}, "R only with throughput 6,733.83 instead of"),
        # Within the rounding, and in none of the formulas.
        (AB | {"throughput": {"value": 6733.82, "should_be": 6733.83}}, ""),
        (AB | {"connections_made": {"value": 9, "should_be": 10}}, ""),
    ],
)
def test_a_correction_is_named_where_a_formula_fails_without_it(figures: dict[str, Any], said: str) -> None:
    plan = updated(PLAN, published=(Published.model_validate({"id": "R", "figures": {"epoll": figures}}),))
    found = check("confirmed", said, {"relation": "identity", "law": "ab", "over": "published"}, [], plan=plan)
    assert ("only with" in found.reason) == bool(said)


def test_rows_with_other_figures_of_one_setting_are_lines_of_one_report() -> None:
    rows = [{"id": name, "figures": {"epoll": {name: value}}} for name, value in HEY.items()]
    rows += [{"id": "bins", "note": "histogram", "bins": {"epoll": BINS}}]
    test = {"relation": "identity", "law": "hey", "over": "published"}
    for wrong, judgement, reason in (
        ({}, "confirmed", "3 published equations hold"),
        ({"throughput": 250_000}, "contradicted", "requests / time = rate fails in time_to_finish"),
    ):
        published = [row | {"figures": {"epoll": wrong}} if row["id"] in wrong else row for row in rows]
        plan = updated(PLAN, published=tuple(map(Published.model_validate, published)))
        check(judgement, reason, test, [], plan=plan)


def test_a_broken_law_contradicts() -> None:
    made = run(fast())
    first = made[0]
    assert first.report is not None
    made[0] = result(PLAN, first.trial, latency_ns=first.report.latency_ns.model_dump() | {"mean": 1.0})
    check("contradicted", "fails in 1 of 144 trials", {"relation": "identity", "law": "littles_law"}, made)
    made[0] = result(PLAN, first.trial, rate_per_s=BASE).model_copy()
    wrong = first.report.model_copy(update={"rate_per_s": 2 * BASE})
    made[0] = made[0].model_copy(update={"report": wrong})
    check("contradicted", "are printed as", {"relation": "identity", "law": "ab"}, made)


COUNTED = vs_plan(["epoll", "io_uring"], {"protocol": "echo", "requests": 100_000})
OPEN_LOOP = vs_plan(["epoll", "io_uring"], {"protocol": "echo", "rate": "20k"})


@pytest.mark.parametrize(
    ("plan", "in_use", "judgement", "reason"),
    [
        (COUNTED, 1.0, "confirmed", "connections = throughput x mean latency holds in all 20 trials"),
        (COUNTED, 0.99, "confirmed", "holds in all 20 trials"),
        (COUNTED, 0.9, "direction only", "the equation does not hold in 20 of them"),
        (COUNTED, 0.9, "direction only", "is only 90 % of the requests that can be in flight"),
        (COUNTED, 1.03, "contradicted", "fails in 20 of 20 trials"),
        (OPEN_LOOP, 1.0, "not measurable here", "in an open loop"),
    ],
)
def test_littles_law_is_an_upper_bound_where_fewer_requests_are_in_flight_than_connections_open(
    plan: Plan, in_use: float, judgement: str, reason: str
) -> None:
    made = []
    for each in schedule(updated(plan, blocks=10)):
        latency = result(plan, each).report
        assert latency is not None
        changes = {"mean": latency.latency_ns.mean * in_use, "max": 200_000_000}
        made.append(result(plan, each, latency_ns=latency.latency_ns.model_dump() | changes))
    check(judgement, reason, {"relation": "identity", "law": "littles_law"}, made, plan=updated(plan, blocks=10))


def test_the_interval_of_a_line_grows_with_the_tests_that_it_is_one_of() -> None:
    """No mean of resampled blocks is beyond all of the blocks, however many tests there are."""
    lines = [np.array([slope, 0.0, 1.0]) for slope in (0.1, 0.2, 0.5, 0.9, 1.1, 1.4, 1.8, 2.0)]
    found = [line._pooled(lines, 1, 0.05 / tests).slope for tests in (1, 20, 50)]
    lows = [each.low for each in found]
    assert lows[0] > lows[1] > lows[2]
    assert (lows[0] > 0, lows[2] < 0) == (True, True)
    assert all(each.high - 1 == pytest.approx(1 - each.low) for each in found[1:])


def slowing(trial: Trial, per_s: float) -> Result:
    """A trial whose throughput changes by this share per second."""
    made = result(PLAN, trial)
    report = made.report
    assert report is not None
    slices, length_s = len(report.intervals.completed), report.intervals.length_ns / 1e9
    chance = np.random.default_rng(trial.block).normal(0, 0.02, slices)
    completed = tuple(round(BASE * length_s * (1 + per_s * n * length_s + float(chance[n]))) for n in range(slices))
    intervals = report.intervals.model_copy(update={"completed": completed})
    return made.model_copy(update={"report": report.model_copy(update={"intervals": intervals})})


@pytest.mark.parametrize(("per_s", "judgement"), [(-0.05, "confirmed"), (0.05, "contradicted"), (0.0, "undecided")])
def test_a_line_goes_along_the_time_of_each_trial(per_s: float, judgement: str) -> None:
    made = [slowing(trial, per_s) for trial in schedule(PLAN)]
    test = {"relation": "line", "of": "epoll", "along": "time", "slope_at_most": 0}
    found = check(judgement, "slope", test, made)
    assert found.tests[0].value == pytest.approx(per_s * BASE, abs=0.01 * BASE)


def test_a_line_goes_along_the_samples_of_a_server() -> None:
    made = []
    for each in run(fast()):
        assert each.server is not None
        seconds = range(5)
        growth = Growth(
            times_ns=tuple(n * 10**9 for n in seconds),
            rss_bytes=tuple(4_000_000 + n * (1_000 + each.trial.block) for n in seconds),
            threads=tuple(1 for _ in seconds),
            processes=tuple(1 for _ in seconds),
            zombies=tuple(0 for _ in seconds),
            descriptors=tuple(60 for _ in seconds),
        )
        made.append(each.model_copy(update={"server": each.server.model_copy(update={"growth": growth})}))
    leak = {"relation": "line", "of": "epoll", "along": "time", "metric": "rss", "slope_at_most": 100}
    check("contradicted", "slope is beyond its bound", leak, made)
    check("confirmed", "within all bounds", leak | {"metric": "threads"}, made)


@pytest.mark.parametrize(
    ("wrong", "right", "words"),
    [
        (("breaks", "ratio"), 5, "Corrected for all 7 tests shown here together (Holm), every contradiction holds"),
        (("breaks", "ratio"), 6, "Corrected for all 8 tests shown here together (Holm), these do: breaks."),
        (("fact", "ratio"), 5, "Corrected for all 6 tests shown here together (Holm), every contradiction holds"),
        (("fact", "ratio"), 6, "Corrected for all 7 tests shown here together (Holm), these do: fact."),
        (("ratio",), 6, "Each contradiction holds at 95 % by itself. Corrected for all 7 tests shown here together"),
        (("ratio",), 6, "none does: that takes more blocks."),
        ((), 3, ""),
        (("ratio",), 0, ""),
    ],
)
def test_contradictions_are_corrected_for_all_tests_of_a_page(wrong: tuple[str, ...], right: int, words: str) -> None:
    """Eight blocks that all agree have a p-value of 2 / 2**8, just below 5 % / 6."""
    at = {"at": {AXIS: SIZES[0]}}
    tests = {
        "ratio": RATIO | {"published": 1.17, **at},
        "breaks": {"relation": "breaks", "of": "epoll"},
        "fact": LAW,
    }
    asked = [(name, tests[name]) for name in wrong]
    asked += [(f"right-{n}", RATIO | {"at_most": 0.95, **at}) for n in range(right)]
    claims_of = tuple(Claim.model_validate({"id": name, "text": "a claim", "tests": [test]}) for name, test in asked)
    plan = updated(PLAN, blocks=8, claims=claims_of)
    made = run(fast(io_uring=0.9), plan=plan)
    if "fact" in wrong:
        # Of another comparison than the ratios.
        at_fault = next(number for number, each in enumerate(made) if each.trial.comparison)
        report = made[at_fault].report
        assert report is not None
        latency = report.latency_ns.model_dump() | {"mean": 1.0}
        made[at_fault] = result(plan, made[at_fault].trial, latency_ns=latency)
    found = results.judged(plan, {}, Trials(tuple(made), ()))
    assert sum(each.judgement == "contradicted" for each in found.claims) == len(wrong)
    assert (words in together([found]).sentence) if words else together([found]).sentence == ""
