"""The verdict on a comparison, from made trials with known truth."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from iolab import report
from iolab.cli import terminal
from iolab.contract.types import updated
from iolab.judge import results as results_of
from iolab.judge import verdict
from iolab.judge.validity import DiscardReason, discarded_for
from iolab.judge.verdict import ComparisonVerdict
from iolab.metrics import COMPARED, METRICS
from iolab.plan.experiment import vs_plan
from iolab.plan.plan import Plan, Trial
from iolab.plan.schedule import schedule
from iolab.results.records import CostCount, Failure, MachineNoise, Result
from iolab.results.remaining import remaining
from iolab.results.store import Trials
from made import BEGIN_NS, result, results

BLOCKS = 12
PAIR = vs_plan(["epoll", "io_uring"], {"protocol": "echo", "connections": 50}, blocks=BLOCKS)
BUSY = MachineNoise(steal_share=0.5, foreign_cpu_cores=0.0)


def noisy(truth: float, noise: float = 0.01, seed: int = 1, drift: float = 0.0) -> Callable[[Trial], float]:
    """100,000/s for the reference and `truth` times that for the others, on a machine that slows down by `drift`."""
    weather = np.random.default_rng(seed).normal(0, noise, (1_000, 8))

    def rate(trial: Trial) -> float:
        speed = math.exp(weather[trial.block + 100 * trial.comparison, trial.slot] - drift * trial.block)
        return 100_000.0 * speed * (truth if trial.slot else 1.0)

    return rate


def judged(made: list[Result], plan: Plan = PAIR) -> ComparisonVerdict:
    return verdict.judge(plan, made)[0]


def check(sentence: str, made: list[Result], plan: Plan = PAIR) -> ComparisonVerdict:
    """Expects `sentence`, with `…` for figures that depend on the noise."""
    found = judged(made, plan)
    place = 0
    for part in sentence.split("…"):
        assert part in found.sentence[place:], found.sentence
        place = found.sentence.index(part, place) + len(part)
    assert found.sentence.startswith(sentence.split("…")[0])
    assert ComparisonVerdict.model_validate_json(found.model_dump_json()) == found
    return found


def test_a_difference_beyond_chance_and_two_percent_differs() -> None:
    found = check(
        "io_uring serves 1.1…x […] the requests of epoll; epoll uses 1.1…x […] the CPU per request of io_uring.",
        results(PAIR, noisy(1.13)),
    )
    estimate = found.estimate("throughput", "io_uring")
    assert estimate is not None
    assert (estimate.word, estimate.bound, estimate.blocks, estimate.blocks_more) == ("differs", "exact", BLOCKS, None)
    assert estimate.low <= 1.13 <= estimate.high
    assert estimate.bootstrap_agrees
    assert {e.metric for e in found.estimates} == set(COMPARED)


def test_a_drift_that_slows_both_alike_leaves_the_ratio_as_it_is() -> None:
    still, drifting = (judged(results(PAIR, noisy(1.13, drift=d))).estimates[0] for d in (0.0, 0.05))
    assert drifting.ratio == pytest.approx(still.ratio, abs=1e-4)
    assert (drifting.low, drifting.high) == pytest.approx((still.low, still.high), abs=1e-4)


def moved(at: int, far_from: int) -> list[Result]:
    """Trials on a machine whose CPUs are far apart, and three times as slow, in one trial of each block from `far_from`
    on and in both trials from block `at` on."""

    def is_far(trial: Trial) -> bool:
        return trial.block >= at or (trial.block >= far_from and trial.position == 0)

    made = results(PAIR, lambda trial: noisy(1.13)(trial) / (3 if is_far(trial) else 1))
    far, near = (400.0, 410.0), (50.0, 55.0)
    return [
        one.model_copy(
            update={
                "noise": MachineNoise(
                    steal_share=0.0, foreign_cpu_cores=0.0, core_to_core_ns=far if is_far(one.trial) else near
                )
            }
        )
        for one in made
    ]


@pytest.mark.parametrize(
    ("at", "far_from", "blocks", "changed"),
    [
        pytest.param(BLOCKS, BLOCKS, BLOCKS, 0, id="together all the time"),
        pytest.param(0, 0, BLOCKS, 0, id="apart all the time"),
        pytest.param(8, 8, BLOCKS, 0, id="apart from some block on"),
        pytest.param(10, 6, 8, 4, id="apart within some blocks"),
        pytest.param(BLOCKS, 5, BLOCKS, 7, id="apart within so many that too few are left"),
    ],
)
def test_blocks_whose_processors_were_moved_are_left_out_where_enough_remain(
    at: int, far_from: int, blocks: int, changed: int
) -> None:
    found = judged(moved(at, far_from))
    estimate = found.estimate("throughput", "io_uring")
    assert estimate is not None
    assert (estimate.blocks, found.blocks_used, found.blocks_topology_changed) == (blocks, BLOCKS, changed)
    assert bool(found.topology_changed) == bool(changed)
    if changed < 7:
        assert estimate.low <= 1.13 <= estimate.high < 1.16, (
            "what is left is as exact as on a machine that stands still"
        )


def test_a_trial_during_which_processors_moved_is_like_no_other() -> None:
    made = results(PAIR, noisy(1.13))
    moving = MachineNoise(steal_share=0.0, foreign_cpu_cores=0.0, core_to_core_ns=(50.0, 400.0))
    found = judged([one.model_copy(update={"noise": moving}) if one.trial.block == 3 else one for one in made])
    assert (found.blocks_topology_changed, found.estimates[0].blocks) == (1, BLOCKS - 1)


def test_equal_servers_are_the_same_within_two_percent() -> None:
    check(
        "io_uring serves the same requests as epoll, within 2 %: 1.00…x […]; "
        "the CPU per request is the same, within 2 %.",
        results(PAIR, noisy(1.0, noise=0.003)),
    )


def test_too_much_noise_decides_nothing_and_says_how_many_blocks_would() -> None:
    found = check(
        "No difference in requests was found between io_uring and epoll: …x […] (about … more blocks would decide)",
        results(PAIR, noisy(1.0, noise=0.1)),
    )
    assert found.estimates[0].word == "not decided"
    check(
        "No difference in requests was found between io_uring and epoll: …x […] "
        "(it would take more than 200 more blocks to decide);",
        results(PAIR, noisy(1.0, noise=0.4, seed=8)),
    )


def test_a_server_and_itself_read_naturally() -> None:
    plan = vs_plan(["epoll", "epoll"], {"protocol": "echo"}, blocks=BLOCKS)
    check(
        "No difference in requests was found between epoll (2) and epoll: 1.0…x [0.9…, 1.0…] "
        "(about … more blocks would show it to be the same within 2 %); "
        "no difference in CPU per request was found: 0.99…x [0.9…, 1.0…] (about …",
        results(plan, noisy(1.0, noise=0.03)),
        plan,
    )


def test_fewer_than_six_blocks_say_so() -> None:
    found = check("io_uring and epoll: fewer than 6 complete blocks so far.", results(PAIR, noisy(1.13))[:10])
    assert found.estimates == ()
    assert found.blocks_used == 5
    assert [level.low for level in found.levels if level.metric == "throughput"] == [None, None]


def test_no_trials_at_all_are_a_verdict_too() -> None:
    found = check("io_uring and epoll: fewer than 6 complete blocks so far.", [])
    assert (found.blocks_used, found.blocks_discarded, found.levels) == (0, 0, ())


def test_one_contestant_alone_has_a_level_and_no_ratio() -> None:
    plan = PAIR.model_copy(
        update={"comparisons": (PAIR.comparisons[0].model_copy(update={"cells": PAIR.comparisons[0].cells[:1]}),)}
    )
    found = check("epoll serves 10…,… […] requests per second.", results(plan, lambda _: 100_000.0), plan)
    assert found.estimates == ()


UNRANKED = "…x […] the CPU per request of …; io_uring and epoll cannot be ranked by requests, because"


@pytest.mark.parametrize(
    ("reference_share", "contestant_share", "truth", "bound", "word", "sentence"),
    [
        (
            0.5,
            0.95,
            1.3,
            "at least",
            "differs",
            "io_uring serves ≥ 1.3…x […] the requests of epoll (the generator was the limit)",
        ),
        (
            0.5,
            0.95,
            0.8,
            "at least",
            "not decided",
            "… uses …x […] the CPU per request of …; io_uring and epoll cannot be ranked by requests",
        ),
        (
            0.5,
            0.95,
            1.0,
            "at least",
            "not decided",
            "… uses …x […] the CPU per request of …; io_uring and epoll cannot be ranked by requests",
        ),
        (
            0.95,
            0.5,
            0.8,
            "at most",
            "differs",
            "epoll serves ≥ 1.2…x […] the requests of io_uring (the generator was the limit)",
        ),
        (
            0.95,
            0.5,
            1.3,
            "at most",
            "not decided",
            "… uses …x […] the CPU per request of …; io_uring and epoll cannot be ranked by requests",
        ),
        (0.95, 0.95, 1.3, "unknown", "not decided", "epoll uses …; the generator limited both io_uring and epoll, so"),
    ],
)
def test_a_generator_that_was_the_limit_leaves_a_bound(
    reference_share: float, contestant_share: float, truth: float, bound: str, word: str, sentence: str
) -> None:
    rate = noisy(truth, noise=0.003)
    made = []
    for trial in schedule(PAIR):
        share = contestant_share if trial.slot else reference_share
        server = 0.5 if share > 0.8 else 0.97
        made.append(result(PAIR, trial, rate_per_s=rate(trial), generator_share=share, server_share=server))
    found = check(sentence, made)
    throughput, cpu, latency = (found.estimate(m, "io_uring") for m in ("throughput", "cpu_per_request", "latency_p50"))
    assert throughput is not None
    assert cpu is not None
    assert latency is not None
    assert (throughput.bound, throughput.word) == (bound, word)
    assert cpu.bound == "exact"
    assert (latency.bound, latency.word) == ("unknown", "not decided")


def test_both_sides_busy_is_not_a_bound() -> None:
    found = judged(results(PAIR, noisy(1.13), generator_share=0.95, server_share=0.97))
    assert found.estimates[0].bound == "exact"
    assert found.bottlenecks == {"epoll": {"both": BLOCKS}, "io_uring": {"both": BLOCKS}}


def run_with_discarded(discarded: set[int], plan: Plan = PAIR) -> list[Result]:
    """A run with these blocks discarded and repeated. The discarded trials are faster, which must not show."""
    rate = noisy(1.13)
    made: list[Result] = []
    while rest := remaining(plan, made):
        for trial in rest:
            is_discarded = trial.block in discarded and trial.attempt == 0
            speed = 1.5 if is_discarded and trial.slot else 1.0
            changes: dict[str, Any] = {"noise": BUSY} if is_discarded else {}
            made.append(result(plan, trial, rate_per_s=speed * rate(trial), **changes))
    return made


def test_a_void_block_is_run_again_and_counts_for_nothing() -> None:
    clean, repaired = judged(results(PAIR, noisy(1.13))), judged(run_with_discarded({3, 7}))
    assert repaired.levels == clean.levels
    assert repaired.estimates == clean.estimates
    assert (repaired.blocks_used, repaired.blocks_discarded) == (BLOCKS, 2)
    assert {(count.warning.word, count.trials) for count in repaired.warnings} == {("machine_busy", 2)}
    assert repaired.inconclusive is None


def test_more_than_a_fifth_of_void_blocks_is_inconclusive() -> None:
    found = check(
        "Inconclusive: the machine was too busy (4 of 16 blocks were discarded).", run_with_discarded({1, 3, 7, 9})
    )
    assert found.blocks_used == BLOCKS
    assert {estimate.word for estimate in found.estimates} == {"not decided"}


def test_two_void_blocks_of_few_may_be_chance_and_three_are_not() -> None:
    few = vs_plan(["epoll", "io_uring"], {"protocol": "echo", "connections": 50}, blocks=6)
    assert judged(run_with_discarded({1, 3}, few), few).inconclusive is None
    sentence = "Inconclusive: the machine was too busy (3 of 9 blocks were discarded)."
    check(sentence, run_with_discarded({1, 3, 4}, few), few)


def test_what_discarded_most_trials_is_a_failure_or_a_warning_with_a_line_on_the_first() -> None:
    clean, busy = results(PAIR, noisy(1.13)), run_with_discarded({1, 3})
    failure = Failure(kind="address_in_use", message="the port is taken", said=("bind: Address already in use",))
    failed = [updated(each, report=None, failure=failure) for each in clean[:5]]
    assert discarded_for(clean) is None
    found = discarded_for(clean + busy)
    assert found is not None
    assert (found.title, found.trials, found.line.partition(":")[0]) == ("machine busy", 4, "machine busy")
    line = "the port is taken: bind: Address already in use"
    assert discarded_for(busy + failed) == DiscardReason("address_in_use", False, 5, line)
    assert discarded_for(updated(each, report=None, server=None) for each in clean[:2]) == DiscardReason(
        "no_report", False, 2, "no report"
    )


def run_with_slow_starts(unsettled: dict[int, int], plan: Plan = PAIR) -> list[Result]:
    """A run in which the contestant does not settle in the first attempts, by block."""
    rate = noisy(1.13)
    made: list[Result] = []
    while rest := remaining(plan, made):
        for trial in rest:
            changes: dict[str, Any] = {}
            if trial.slot and trial.attempt < unsettled.get(trial.block, 0):
                cell = plan.cell(trial)
                whole = (cell.trial.warmup_ms + cell.trial.duration_ms) // cell.trial.interval_ms
                completed = (700,) * (whole * 3 // 5) + (1_000,) * (whole - whole * 3 // 5)
                begin_ns = BEGIN_NS - cell.trial.warmup_ms * 1_000_000
                changes["intervals"] = {"begin_ns": begin_ns, "length_ns": 20_000_000, "completed": completed}
            made.append(result(plan, trial, rate_per_s=rate(trial), **changes))
    return made


def test_a_warm_up_that_was_too_short_is_made_longer_and_is_not_held_against_the_machine() -> None:
    clean, extended = judged(results(PAIR, noisy(1.13))), judged(run_with_slow_starts(dict.fromkeys(range(6), 1)))
    assert extended.estimates == clean.estimates
    assert (extended.blocks_used, extended.blocks_discarded, extended.inconclusive) == (BLOCKS, 0, None)
    assert [(count.warning.word, count.trials) for count in extended.warnings] == [("never_steady", 6)]


def test_a_second_attempt_that_does_not_settle_is_void() -> None:
    found = judged(run_with_slow_starts({1: 2, 4: 2}))
    assert (found.blocks_used, found.blocks_discarded) == (BLOCKS, 2)


def test_a_server_that_never_settles_is_inconclusive() -> None:
    """Half of the blocks are repeated once each; the others get no more attempts."""
    check(
        "Inconclusive: 6 of 12 blocks were discarded, most of them for never steady.",
        run_with_slow_starts(dict.fromkeys(range(BLOCKS), 1)),
    )


def test_failures_and_not_a_rarer_warning_make_a_comparison_inconclusive() -> None:
    """A failure may have the name of a warning, which still is another reason."""
    failure = Failure(kind="errors", message="1 of 10,000 requests failed, first: reset")
    made = [
        updated(each, report=None, failure=failure) if each.trial.block < 5 and each.trial.slot else each
        for each in run_with_discarded({6})
    ]
    check("Inconclusive: 6 of 13 blocks were discarded, because trials failed.", made)
    reason = discarded_for(made)
    assert reason is not None
    assert (reason.is_warning, reason.line) == (False, failure.message)


def test_a_block_that_is_void_for_one_is_void_for_both() -> None:
    made = [
        result(PAIR, trial, rate_per_s=noisy(1.13)(trial), noise=BUSY if trial.block == 0 and trial.slot else None)
        for trial in schedule(PAIR)
    ]
    assert judged(made).blocks_used == BLOCKS - 1


def test_a_contestant_that_cannot_run_is_named_and_the_others_are_compared() -> None:
    plan = vs_plan(["epoll", "io_uring", "tokio"], {"protocol": "echo"}, blocks=BLOCKS)
    failure = Failure(kind="not_available", message="io_uring is forbidden here.", final=True)
    rate, made = noisy(1.13), []
    for trial in schedule(plan):
        if trial.slot == 1:
            made.append(Result(trial=trial, started="", failure=failure))
        else:
            made.append(result(plan, trial, rate_per_s=rate(trial)))
    found = check("io_uring could not be measured: io_uring is forbidden here. tokio serves 1.1", made, plan)
    assert [(f.contestant, f.trials) for f in found.failures] == [("io_uring", BLOCKS)]
    assert {estimate.contestant for estimate in found.estimates} == {"tokio"}


def test_words_are_corrected_for_every_ratio_of_the_page() -> None:
    """All metrics but memory differ: the smallest p-value is multiplied by 10 / 8, for Holm by the number of ratios."""
    plans = [vs_plan(["epoll", "io_uring", "tokio"], {"protocol": "echo", "message_bytes": n}) for n in (64, 65, 66)]
    for count in (1, 2, 3):
        comparisons = tuple(each.comparisons[0].model_copy(update={"name": f"{n}"}) for n, each in enumerate(plans))
        page = plans[0].model_copy(update={"comparisons": comparisons[:count], "blocks": 10})
        ratios = [each for found in verdict.judge(page, results(page, noisy(1.13))) for each in found.estimates]
        assert len(ratios) == count * 2 * len(COMPARED)
        for each in ratios:
            if each.metric != "rss":
                assert each.p_value == pytest.approx(2 / 2**10)
                assert each.p_bh == pytest.approx(10 / 8 * 2 / 2**10)
                assert each.p_holm == pytest.approx(len(ratios) * 2 / 2**10)
            assert each.word == ("same" if each.metric == "rss" else "differs")


def test_one_difference_among_many_ratios_takes_more_blocks() -> None:
    plan = vs_plan(["epoll", "io_uring"], {"protocol": "echo"}, blocks=6)
    made = [
        result(plan, trial, rate_per_s=noisy(1.0)(trial), server_share=0.99 if trial.slot else 0.93)
        for trial in schedule(plan)
    ]
    cpu = judged(made, plan).estimate("cpu_per_request", "io_uring")
    assert cpu is not None
    assert (cpu.p_value, cpu.differs_alone, cpu.word) == (2 / 2**6, True, "not decided")
    assert cpu.p_bh == pytest.approx(5 * 2 / 2**6)
    assert cpu.blocks_more == 2


def test_a_ratio_that_may_not_be_called_different_lets_no_other_pass() -> None:
    """Latencies on a shared CPU get no verdict, however much they differ."""
    plan = vs_plan(["epoll", "io_uring", "tokio"], {"protocol": "echo", "processors": "shared"}, blocks=7)
    made = []
    for trial in schedule(plan):
        one = result(plan, trial, rate_per_s=noisy(1.0)(trial), server_share=0.99 if trial.slot == 1 else 0.93)
        assert one.report is not None
        times = 10 if trial.slot else 1
        latency = {"p50": times * one.report.latency_ns.p50, "p99": times * one.report.latency_ns.p99}
        report_of = {"latency_ns": one.report.latency_ns.model_copy(update=latency)}
        made.append(one.model_copy(update={"report": one.report.model_copy(update=report_of)}))
    found = results_of.judged(plan, {}, Trials(tuple(made), ()))
    estimates = found.verdicts[0].estimates
    latencies = [each for each in estimates if METRICS[each.metric].is_time]
    assert {(each.p_value, each.p_bh, each.p_holm, each.blocks_more) for each in latencies} == {
        (2 / 2**7, None, None, None)
    }
    cpu = found.verdicts[0].estimate("cpu_per_request", "io_uring")
    assert cpu is not None
    assert (len(estimates), len(latencies), cpu.p_value) == (10, 4, 2 / 2**7)
    assert cpu.p_bh == pytest.approx(6 * 2 / 2**7)
    assert cpu.word == "not decided"
    assert "corrected for the 6 of 10 ratios of this page that can be decided" in report.render(found)


def of_sizes(*sizes: int, plan: Plan = PAIR) -> list[Result]:
    """A run with these reply sizes; the second contestant serves half as many requests again."""
    made = []
    for trial in schedule(plan):
        rate = 150_000 if trial.slot == 1 else 100_000
        told = {"sent": rate * 3 * 64, "received": rate * 3 * sizes[trial.slot]}
        made.append(result(plan, trial, rate_per_s=rate, bytes=told))
    return made


@pytest.mark.parametrize(
    ("protocol", "sizes", "details", "word", "sentence"),
    [
        ("http", (133, 133), [], "differs", "io_uring serves 1.500x"),
        ("http", (133, 170), ["170 bytes a reply, the reference 133"], "differs", "io_uring serves 1.500x"),
        ("http", (133, 645), ["645 bytes a reply, the reference 133"], "differs", "io_uring serves 1.500x"),
        (
            "http",
            (133, 646),
            ["646 bytes a reply, the reference 133"],
            "not decided",
            "The replies differ in size (133 bytes from epoll, 646 bytes from io_uring): this compares different work. "
            "With these unequal replies, io_uring serves 1.500x [1.500, 1.500] the requests of epoll",
        ),
        (
            "http",
            (4_215, 133),
            ["133 bytes a reply, the reference 4,215"],
            "not decided",
            "The replies differ in size (4,215 bytes from epoll, 133 bytes from io_uring): this compares different",
        ),
        ("http", (50_000, 50_900), ["50,900 bytes a reply, the reference 50,000"], "differs", "io_uring serves"),
        ("http", (50_000, 51_100), ["51,100 bytes a reply, the reference 50,000"], "not decided", "The replies differ"),
    ],
)
def test_replies_of_other_sizes_are_named_and_of_very_different_ones_no_word_is_said(
    protocol: str, sizes: tuple[int, int], details: list[str], word: str, sentence: str
) -> None:
    plan = vs_plan(["epoll", "io_uring"], {"protocol": protocol, "connections": 50}, blocks=BLOCKS)
    found = check(sentence, of_sizes(*sizes, plan=plan), plan)
    assert [each.warning.detail for each in found.warnings] == details
    assert found.estimates[0].word == word
    assert (found.unequal_work is None) == (word == "differs")
    assert found.reply_bytes == {"epoll": sizes[0], "io_uring": sizes[1]}


def test_of_many_the_replies_of_most_are_the_usual_ones_and_others_are_not_ranked() -> None:
    plan = vs_plan([f"epoll[x={n}]" for n in range(4)], {"protocol": "http"}, blocks=BLOCKS)
    found = judged(of_sizes(5_000, 133, 133, 140, plan=plan), plan)
    assert found.not_judged == {"epoll[x=0]": "its replies have 5,000 bytes instead of 133"}
    ranking = found.ranking("throughput")
    assert ranking is not None
    assert ranking.absent == found.not_judged
    assert ranking.rows[0].contestant == "epoll[x=1]"


def of_tail(rate: float, p99: float, rss: float = 1.0) -> list[Result]:
    """A run in which the second contestant has these multiples of requests, p99 and memory."""
    made = []
    for trial in schedule(PAIR):
        one = result(PAIR, trial, rate_per_s=noisy(rate, noise=0.002)(trial))
        assert one.report is not None
        assert one.server is not None
        factor = p99 * (1 + 0.01 * (trial.block % 3)) if trial.slot else 1.0
        latency = one.report.latency_ns.model_copy(update={"p99": round(1_000_000 * factor)})
        server = one.server.model_copy(update={"rss_bytes_median": round(4e6 * (rss if trial.slot else 1))})
        report = one.report.model_copy(update={"latency_ns": latency})
        made.append(one.model_copy(update={"report": report, "server": server}))
    return made


@pytest.mark.parametrize(
    ("rate", "p99", "rss", "sentence"),
    [
        (
            1.0,
            20.0,
            1.0,
            "The p99 latency of io_uring is 20.20x [20.10, 20.30] that of epoll; "
            "io_uring serves the same requests as epoll, within 2 %: …; the CPU per request is the same, within 2 %.",
        ),
        (
            1.3,
            20.0,
            1.0,
            "io_uring serves 1.3…x […] the requests of epoll; epoll uses 1.3…x […] the CPU per request of io_uring, "
            "but the p99 latency of io_uring is 20.20x […] that of epoll.",
        ),
        (
            1.3,
            0.05,
            1.0,
            "io_uring serves 1.3…x […] the requests of epoll; epoll uses 1.3…x […] the CPU per request of io_uring; "
            "the p99 latency of epoll is …x […] that of io_uring.",
        ),
        (
            1.0,
            1.0,
            3.0,
            "The memory of io_uring is 3.000x [3.000, 3.000] that of epoll; io_uring serves the same requests",
        ),
        (1.0, 1.2, 1.0, "io_uring serves the same requests as epoll, within 2 %: …"),
    ],
)
def test_the_largest_decided_difference_is_named_and_leads_where_requests_do_not_differ(
    rate: float, p99: float, rss: float, sentence: str
) -> None:
    check(sentence, of_tail(rate, p99, rss))


def test_a_server_that_is_slower_by_fifty_times_is_said_from_the_other_side() -> None:
    check(
        "epoll serves 49.9x [49.5, 50.2] the requests of io_uring; "
        "io_uring uses 49.9x [49.5, 50.2] the CPU per request of epoll.",
        results(PAIR, noisy(0.02)),
    )


def test_a_p99_that_no_trial_supports_is_not_reported() -> None:
    found = judged(results(PAIR, lambda trial: 300.0 + trial.block))
    assert {level.metric for level in found.levels} == set(COMPARED) - {"latency_p99"}


def test_cpu_per_request_is_processor_time_over_replies() -> None:
    found = judged(results(PAIR, lambda _: 100_000.0, server_share=0.5))
    level = found.level("cpu_per_request", "epoll")
    assert level is not None
    assert level.median == pytest.approx(5_000, rel=1e-3)


def test_the_order_of_results_in_the_record_decides_nothing() -> None:
    made = results(PAIR, noisy(1.13))
    assert judged(made).model_dump_json() == judged(made[::-1]).model_dump_json()


def test_results_of_another_plan_are_not_judged() -> None:
    other = vs_plan(["epoll", "tokio", "monoio"], {"protocol": "echo"}, blocks=40)
    assert judged(results(other, noisy(2.0))[:60]).estimates == ()


@pytest.mark.usefixtures("few_resamples")
def test_whole_suites_of_a_server_and_itself_seldom_differ() -> None:
    """200 simulated comparisons, all the way from trials to words; 16 is the 97.5 % bound for 5 %."""
    plan = vs_plan(["epoll", "epoll"], {"protocol": "echo"}, blocks=8)
    false_alarms = 0
    for seed in range(200):
        words = {e.word for e in judged(results(plan, noisy(1.0, 0.03, seed=seed, drift=0.02)), plan).estimates}
        false_alarms += "differs" in words
    assert false_alarms <= 16


MANY = vs_plan([f"epoll[x={n}]" for n in range(5)], {"protocol": "echo"}, blocks=BLOCKS)


def of_levels(*levels: float, noise: float = 0.004, seed: int = 3) -> Callable[[Trial], float]:
    """Throughputs around these levels by slot, with a different machine speed in each block."""
    random = np.random.default_rng(seed)
    weather, own = random.normal(0, 0.1, 1_000), random.normal(0, noise, (1_000, 16))
    return lambda trial: 1e5 * levels[trial.slot] * math.exp(weather[trial.block] + own[trial.block, trial.slot])


def ranks(made: list[Result], plan: Plan = MANY) -> list[tuple[str, int | None, str]]:
    ranking = judged(made, plan).ranking("throughput")
    assert ranking is not None
    return [(row.contestant[-2], row.rank, row.bound) for row in ranking.rows]


def test_many_are_ranked_by_paired_ratios_and_share_a_rank_where_they_do_not_differ() -> None:
    made = results(MANY, of_levels(1.0, 1.2, 0.8, 1.1999, 0.7))
    assert [(name, rank) for name, rank, _ in ranks(made)] == [("1", 1), ("3", 1), ("0", 3), ("2", 4), ("4", 5)]
    found = check(
        "Most requests: epoll[x=1] and epoll[x=3] (no difference found). Least CPU per request: …", made, MANY
    )
    ranking = found.ranking("throughput")
    assert ranking is not None
    first, *rest = ranking.rows
    assert (first.ratio, first.low, first.high) == (1.0, 1.0, 1.0)
    for row, truth in zip(rest, (1.0, 0.833, 0.667, 0.583), strict=True):
        assert row.low <= truth + 0.003
        assert row.high >= truth - 0.003
        assert row.high / row.low < 1.05, "a machine that differs by a tenth from block to block is not in it"
    assert found.ranking("cpu_per_request") is not None
    assert judged(results(PAIR, noisy(1.13))).rankings == (), "two need no ranking"


def test_what_the_generator_limited_stands_at_its_place_without_a_rank() -> None:
    limited: dict[str, Any] = {"server_share": 0.5, "generator_share": 0.95}
    rate = of_levels(1.0, 1.2, 0.8, 1.1, 0.7)
    made = [
        result(MANY, trial, rate_per_s=rate(trial), **(limited if trial.slot in (1, 2) else {}))
        for trial in schedule(MANY)
    ]
    assert [row[:2] for row in ranks(made)] == [("1", None), ("3", 2), ("0", 3), ("2", None), ("4", 5)]
    found = judged(made, MANY)
    assert found.sentence.startswith(
        "Most requests: ≥ epoll[x=1] (the generator was the limit), then epoll[x=3] "
        "(not ranked, the generator was the limit: epoll[x=2])."
    )
    cpu = found.ranking("cpu_per_request")
    assert cpu is not None
    assert all(row.rank is not None for row in cpu.rows), "CPU per request is safe"


def test_of_many_a_void_trial_is_missing_and_does_not_void_its_block() -> None:
    rate = of_levels(1.0, 1.2, 0.8, 1.1, 0.7)
    busy = {(0, 1), (1, 3)} | {(block, 4) for block in range(4)}
    made = [
        result(MANY, trial, rate_per_s=rate(trial), noise=BUSY if (trial.block, trial.slot) in busy else None)
        for trial in schedule(MANY)
    ]
    found = judged(made, MANY)
    assert (found.blocks_used, found.blocks_discarded) == (BLOCKS, 0)
    estimates = {e.contestant[-2]: e for e in found.estimates if e.metric == "throughput"}
    assert [estimates[name].blocks for name in "1234"] == [BLOCKS - 1, BLOCKS, BLOCKS - 1, BLOCKS - 4]
    ranking = found.ranking("throughput")
    assert ranking is not None
    assert ranking.absent == {"epoll[x=4]": f"4 of {BLOCKS} discarded: machine busy"}
    assert estimates["4"].word == "not decided"
    most = [result(MANY, each, noise=BUSY if each.block < 6 and each.slot < 3 else None) for each in schedule(MANY)]
    assert judged(most, MANY).inconclusive is not None


TEN = vs_plan([f"epoll[x={n}]" for n in range(5)], {"protocol": "echo"}, blocks=10)


def run_of_many(is_discarded: Callable[[Trial], bool]) -> list[Result]:
    """A run of five contestants as the runner makes it, with these trials discarded."""
    rate, made = of_levels(1.0, 1.2, 0.8, 1.1, 0.7), list[Result]()
    while rest := remaining(TEN, made):
        trial = rest[0]
        made.append(result(TEN, trial, rate_per_s=rate(trial), noise=BUSY if is_discarded(trial) else None))
    return made


@pytest.mark.parametrize("seed", range(4))
def test_contestants_with_three_discarded_trials_in_ten_are_all_ranked(seed: int) -> None:
    random = np.random.default_rng(seed).random((10, 3, 5))
    found = judged(run_of_many(lambda each: bool(random[each.block, each.attempt, each.slot] < 0.3)), TEN)
    ranking = found.ranking("throughput")
    assert ranking is not None
    assert [(row.contestant[-2], row.rank) for row in ranking.rows] == [(n, i) for i, n in enumerate("13024", 1)]
    assert (ranking.absent, found.not_judged, found.inconclusive) == ({}, {}, None)


def test_a_contestant_that_is_always_void_is_dropped_with_the_reason_and_the_others_are_ranked() -> None:
    found = judged(run_of_many(lambda each: each.slot == 4), TEN)
    ranking = found.ranking("throughput")
    assert ranking is not None
    assert ranking.absent == {"epoll[x=4]": "10 of 10 discarded after 10 reruns: machine busy"}
    assert [row.contestant[-2] for row in ranking.rows] == ["1", "3", "0", "2"]
    assert (found.blocks_used, found.blocks_discarded) == (10, 0)


def test_a_trial_that_was_run_again_stands_for_the_void_one() -> None:
    """The discarded trial is three times as fast, which must not show."""
    rate, made = of_levels(1.0, 1.2, 0.8, 1.1, 0.7), list[Result]()
    while rest := remaining(TEN, made):
        trial = rest[0]
        is_discarded = (trial.block, trial.slot, trial.attempt) == (3, 1, 0)
        speed = 3.0 if is_discarded else 1.0
        made.append(result(TEN, trial, rate_per_s=speed * rate(trial), noise=BUSY if is_discarded else None))
    clean = judged(results(TEN, rate), TEN)
    found = judged(made, TEN)
    assert len(made) == len(schedule(TEN)) + 1
    assert (found.levels, found.estimates, found.rankings) == (clean.levels, clean.estimates, clean.rankings)


LATE = Failure(kind="lab_late", message="the lab got no processor for 80 ms")


@pytest.mark.parametrize(
    ("failed", "final", "absent"),
    [
        pytest.param(1, False, None, id="once, by chance"),
        pytest.param(3, False, f"3 of {BLOCKS} discarded: lab late", id="too often"),
        pytest.param(1, True, "failed", id="for good"),
    ],
)
def test_a_failed_trial_takes_its_contestant_out_of_the_ranking_only_for_good_or_too_often(
    failed: int, final: bool, absent: str | None
) -> None:
    rate, failure = of_levels(1.0, 1.2, 0.8, 1.1, 0.7), LATE.model_copy(update={"final": final})
    made = []
    for each in schedule(MANY):
        fails = each.slot == 3 and each.block < failed
        failing = Result(trial=each, started="2026-01-01", failure=failure)
        made.append(failing if fails else result(MANY, each, rate_per_s=rate(each)))
    found = judged(made, MANY)
    ranking = found.ranking("throughput")
    assert ranking is not None
    assert ranking.absent == ({"epoll[x=3]": absent} if absent else {})
    assert ("epoll[x=3]" in [row.contestant for row in ranking.rows]) == (absent is None)
    assert found.not_judged == ({} if absent is None or final else ranking.absent)


def test_the_best_of_a_ranking_is_the_best_by_pairs_and_all_ratios_are_to_it() -> None:
    """Slot 1 has the best median, because of blocks that slot 3 lacks; in the common blocks slot 3 is ahead."""
    rate = of_levels(1.0, 1.2, 0.8, 1.22, 0.7, noise=0.0001)
    made = []
    for each in schedule(MANY):
        is_discarded = each.slot == 3 and each.block in (0, 1)
        speed = 0.5 if each.block >= 7 else 3.0 if each.block < 2 else 1.0
        made.append(result(MANY, each, rate_per_s=speed * rate(each), noise=BUSY if is_discarded else None))
    found = judged(made, MANY)
    medians = {level.contestant: level.median for level in found.levels if level.metric == "throughput"}
    assert max(medians, key=medians.__getitem__) == "epoll[x=1]"
    ranking = found.ranking("throughput")
    assert ranking is not None
    first, second = ranking.rows[:2]
    assert (first.contestant, first.ratio, first.low, first.high, first.rank) == ("epoll[x=3]", 1.0, 1.0, 1.0, 1)
    assert (second.contestant, second.rank) == ("epoll[x=1]", 2)
    assert second.ratio == pytest.approx(1.2 / 1.22, rel=1e-3)


def test_who_has_too_few_blocks_neither_leads_a_ranking_nor_opens_a_group() -> None:
    """Of seven blocks slot 1 lacks one and slot 3 another: five in common decide nothing."""
    plan = vs_plan([f"epoll[x={n}]" for n in range(4)], {"protocol": "echo"}, blocks=7)
    rate = of_levels(1.0, 1.2, 0.8, 1.1)
    discarded = {(0, 1), (1, 3)}
    made = [
        result(plan, each, rate_per_s=rate(each), noise=BUSY if (each.block, each.slot) in discarded else None)
        for each in schedule(plan)
    ]
    ranking = judged(made, plan).ranking("throughput")
    assert ranking is not None
    assert [(row.contestant[-2], row.rank) for row in ranking.rows] == [("1", 1), ("0", 2), ("2", 3)]
    assert ranking.absent == {"epoll[x=3]": "too few blocks"}
    few = [each for each in made if each.trial.block < 5 or each.trial.slot != 1]
    assert judged(few, plan).rankings == (), "only five blocks are whole"


def at_a_rate(**settings: object) -> ComparisonVerdict:
    """Four contestants at a given rate, with different tails."""
    given = {"protocol": "echo", "rate": 20_000.0, **settings}
    plan = vs_plan([f"epoll[x={n}]" for n in range(4)], given, blocks=BLOCKS)
    made = []
    for trial in schedule(plan):
        one = result(plan, trial, rate_per_s=20_000.0, server_share=0.4, generator_share=0.2)
        assert one.report is not None
        p99_ns = 100_000 * (4, 1, 2, 2)[trial.slot] + trial.block % 3 + trial.slot * (trial.block % 2)
        latency = one.report.latency_ns.model_copy(update={"p99": p99_ns})
        made.append(one.model_copy(update={"report": one.report.model_copy(update={"latency_ns": latency})}))
    return judged(made, plan)


def test_many_at_a_given_rate_are_ranked_by_their_tail_because_all_serve_it() -> None:
    found = at_a_rate()
    assert [ranking.metric for ranking in found.rankings] == ["latency_p99", "cpu_per_request"]
    ranks = {row.contestant: row.rank for row in found.rankings[0].rows}
    assert ranks == {"epoll[x=1]": 1, "epoll[x=2]": 2, "epoll[x=3]": 2, "epoll[x=0]": 4}
    assert found.sentence.startswith("Lowest p99 latency: epoll[x=1]. Least CPU per request: ")
    headings = [str(column.header) for column in terminal.rankings(found, found.titles, 80)[0].columns]
    assert headings[2:4] == ["p99 µs", "of the best"]


def test_many_that_share_a_processor_with_the_generator_are_not_ranked_by_latency() -> None:
    found = at_a_rate(processors="shared")
    assert [ranking.metric for ranking in found.rankings] == ["throughput", "cpu_per_request"]
    assert {row.rank for row in found.rankings[0].rows} == {None}, "all serve the rate"
    assert "latency" not in found.sentence


def test_who_cannot_take_part_is_named_and_the_others_are_ranked() -> None:
    plan = vs_plan(["epoll", "io_uring", "thread", "blocking"], {"protocol": "echo"}, blocks=BLOCKS)
    trials = [trial for trial in schedule(plan) if trial.slot != 3]
    made = results(plan, of_levels(1.0, 1.2, 0.8), trials)
    holds = Failure(kind="holds", message="holds 1", final=True)
    made.append(Result(trial=next(t for t in schedule(plan) if t.slot == 3), started="2026-01-01", failure=holds))
    found = judged(made, plan)
    assert (found.left_out, found.failures) == ({"blocking": "holds 1"}, ())
    ranking = found.ranking("throughput")
    assert ranking is not None
    assert ranking.absent == {"blocking": "holds 1"}
    assert [row.contestant for row in ranking.rows] == ["io_uring", "epoll", "thread"]


def ladder(count: int = 4) -> Plan:
    plan = vs_plan([f"epoll[x={n}]" for n in range(count)], {"protocol": "echo"}, blocks=BLOCKS)
    rungs = plan.comparisons[0].model_copy(update={"ladder": True, "labels": ("bottom", "+ a", "+ b", "+ c")[:count]})
    return plan.model_copy(update={"comparisons": (rungs,)})


def test_a_rung_is_compared_with_the_rung_below_it_and_over_one_that_is_missing() -> None:
    plan = ladder()
    made = results(plan, of_levels(1.0, 1.1, 1.1, 1.32))
    found = judged(made, plan)
    pairs = [(e.contestant, e.reference, round(e.ratio, 1)) for e in found.estimates if e.metric == "throughput"]
    assert pairs == [("+ a", "bottom", 1.1), ("+ b", "+ a", 1.0), ("+ c", "+ b", 1.2)]
    assert found.rankings == ()
    assert found.sentence.startswith("Requests, each step against the one before: more with + a (1.1")
    assert ") and + c (1." in found.sentence
    assert "less with + a (the step before uses 1.1" in found.sentence
    absent = Failure(kind="unavailable", message="this kernel is too old", final=True)
    rest = [each for each in made if each.trial.slot != 2]
    rest.append(Result(trial=next(t for t in schedule(plan) if t.slot == 2), started="2026-01-01", failure=absent))
    pairs = [(e.contestant, e.reference, 0) for e in judged(rest, plan).estimates if e.metric == "throughput"]
    assert pairs == [("+ a", "bottom", 0), ("+ c", "+ a", 0)]


@pytest.mark.parametrize(
    ("connections", "seen", "calls", "connection_bytes"),
    [
        (500, {"requests": 200, "calls": 500, "own_bytes_before": 1_000_000, "own_bytes": 6_000_000}, 2.5, 10_000.0),
        (499, {"requests": 200, "calls": 0, "own_bytes_before": 1_000_000, "own_bytes": 1_500_000}, 0.0, None),
        (500, {"why_not": "it takes CAP_PERFMON", "own_bytes_before": 1_000}, None, None),
    ],
)
def test_costs_are_those_that_were_seen(
    connections: int, seen: dict[str, Any], calls: float | None, connection_bytes: float | None
) -> None:
    plan = vs_plan(["epoll", "io_uring"], {"protocol": "echo", "connections": connections}, blocks=BLOCKS)
    count = CostCount(comparison=0, slot=1, cell=plan.comparisons[0].cells[1].key, **seen)
    found = verdict.judge(plan, results(plan, noisy(1.0)), [count, count.model_copy(update={"cell": "0" * 16})])[0]
    assert [(cost.calls_per_request, cost.connection_bytes, cost.calls_why_not) for cost in found.costs] == [
        (None, None, None),
        (calls, connection_bytes, seen.get("why_not")),
    ]
    assert found.costs[0].processes == 1
