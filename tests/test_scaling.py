"""Contention and coherence of workers: fits recover known values, and a fit that is not possible gives its reason."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from html import unescape
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import made
from iolab import report
from iolab.contract.types import updated
from iolab.judge import scaling, stats, usl
from iolab.judge.results import Results, judged
from iolab.judge.scaling import Scaling
from iolab.judge.usl import End, Law
from iolab.machine.cpus import Cpu
from iolab.measure.placement import placed
from iolab.plan.experiment import parse_experiment
from iolab.plan.plan import Plan, Trial
from iolab.plan.schedule import schedule
from iolab.report import markdown, scaling_chart
from iolab.results.records import Result
from iolab.results.store import Trials

pytestmark = pytest.mark.usefixtures("few_resamples")

Floats = NDArray[np.float64]

WORKERS = np.array([1.0, 2.0, 3.0, 4.0, 6.0, 8.0])
BLOCKS = 12
ONE_PER_S = 100_000.0
EXPERIMENT = """
name = "workers"
question = "How do they scale?"
contestants = ["epoll", "io_uring"]
blocks = 8
fixed = {{ workload.protocol = "http", load.threads = 8 }}
axes = {{ {axes} }}
"""
COUNTS = "server.workers = [1, 2, 3, 4, 6, 8]"


def exact(contention: float, coherence: float) -> Law:
    """A law with known values."""
    rate, *shares = (End(value=value, low=value, high=value) for value in (ONE_PER_S, contention, coherence))
    return Law(per_worker_per_s=rate, contention=shares[0], coherence=shares[1])


def blocks_of(law: Law, noise: float, seed: int, workers: Floats = WORKERS) -> Floats:
    """Blocks with a different machine speed in each, and noise in each trial."""
    random = np.random.default_rng(seed)
    speed = random.normal(0, 0.05, (BLOCKS, 1)) + random.normal(0, noise, (BLOCKS, len(workers)))
    made_of: Floats = law.rate_per_s(workers) * np.exp(speed)
    return made_of


LAWS = {
    "linear": (0.0, 0.0),
    "contended": (0.08, 0.0),
    "coherent": (0.0, 0.004),
    "both": (0.05, 0.002),
    "retrograde": (0.1, 0.03),
}


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_what_is_measured_without_noise_is_found_exactly(law: tuple[float, float]) -> None:
    truth = exact(*law)
    rates = np.tile(truth.rate_per_s(WORKERS), (BLOCKS, 1))
    found = usl.fitted(WORKERS, rates, seed=1)
    values = [found.per_worker_per_s.value, found.contention.value, found.coherence.value]
    assert values == pytest.approx([ONE_PER_S, *law], rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("noise", [0.002, 0.01, 0.03])
@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_the_interval_holds_the_truth_in_most_of_many_runs(
    monkeypatch: pytest.MonkeyPatch, law: tuple[float, float], noise: float
) -> None:
    monkeypatch.setattr(stats, "BLOCK_RESAMPLES", 999)
    truth = exact(*law)
    found = [usl.fitted(WORKERS, blocks_of(truth, noise, seed), seed) for seed in range(100)]
    for name, value in zip(("contention", "coherence"), law, strict=True):
        ends: Sequence[End] = [getattr(each, name) for each in found]
        covered = sum(end.low <= value + 1e-12 and value <= end.high for end in ends)
        assert covered >= 93, f"{name}: {covered} of 100"


def test_more_noise_makes_a_wider_interval() -> None:
    truth = exact(*LAWS["both"])
    widths = [
        (found.contention.high - found.contention.low)
        for found in (usl.fitted(WORKERS, blocks_of(truth, noise, 1), 1) for noise in (0.002, 0.02))
    ]
    assert widths[0] < widths[1]


@pytest.mark.parametrize(
    ("law", "peak"), [("linear", None), ("contended", None), ("retrograde", pytest.approx(5.48, abs=0.3))]
)
def test_a_peak_is_known_where_coherence_is(law: str, peak: Any) -> None:
    found = usl.fitted(WORKERS, blocks_of(exact(*LAWS[law]), 0.002, 1), 1)
    assert found.peak_workers == peak


def test_figures_are_written_without_exponents() -> None:
    law = exact(0.01, 0.00006)
    (line,) = scaling.sentences([Scaling(heading="", contestant="epoll", law=law, peak_workers=law.peak_workers)])
    assert line.startswith("epoll: contention 1 % [1, 1], coherence 0.006 % [0.006, 0.006], 100,000 [")
    assert line.endswith("; the most requests at about 130 workers.")


def test_workers_that_serve_more_than_their_share_have_no_negative_loss() -> None:
    found = usl.fitted(WORKERS, np.tile(ONE_PER_S * WORKERS**1.1, (BLOCKS, 1)), 1)
    assert (found.contention.value, found.coherence.value) == (0.0, 0.0)


def plan_on(processors: int, axes: str = COUNTS) -> Plan:
    machine = [Cpu(id=id_, core=id_) for id_ in range(processors)]
    return placed(parse_experiment(EXPERIMENT.format(axes=axes).encode()), machine)[0]


def run(plan: Plan, law: Law | None = None, change: Callable[[Trial, Result], Result] | None = None) -> Results:
    """A run in which workers scale by a law, with a little noise in each trial."""
    truth = law or exact(*LAWS["retrograde"])
    speed = np.random.default_rng(1).normal(1, 0.004, (plan.blocks, len(plan.comparisons), 2))

    def trial(each: Trial) -> Result:
        workers = plan.cell(each).server.workers
        rate = float(truth.rate_per_s(np.array(float(workers)))) * speed[each.block, each.comparison, each.slot]
        result = made.result(plan, each, rate_per_s=rate, server_share=0.97 * workers)
        return change(each, result) if change else result

    return judged(plan, {}, Trials(tuple(map(trial, schedule(plan))), ()))


@pytest.mark.usefixtures("no_charts")
def test_a_run_with_processors_enough_has_its_law_on_the_page_and_in_json() -> None:
    found = run(plan_on(24))
    epoll, io_uring = found.scalings
    assert (epoll.contestant, io_uring.contestant, epoll.blocks, epoll.why_not) == ("epoll", "io_uring", 8, "")
    assert [count.workers for count in epoll.counts] == [1, 2, 3, 4, 6, 8]
    assert epoll.law is not None
    assert epoll.law.contention.low <= 0.1 <= epoll.law.contention.high
    assert epoll.law.coherence.low <= 0.03 <= epoll.law.coherence.high
    assert epoll.peak_workers == pytest.approx(5.48, abs=0.3)
    assert epoll.residual_max is not None
    assert epoll.residual_max < 0.02
    assert Scaling.model_validate_json(epoll.model_dump_json()) == epoll
    first = scaling.sentences(found.scalings)[0]
    assert first.startswith("epoll: contention ")
    assert first.endswith("; the most requests at about 5.5 workers.")
    document = json.loads(json.dumps(found.document()))["scalings"]
    assert document[0]["law"]["contention"]["value"] == epoll.law.contention.value
    page = unescape(report.render(found))
    assert first in page
    assert page.index("<h2>Scaling</h2>") < page.index("<h2>Ratios</h2>")
    assert [each.heading for each in scaling_chart.drawings(found.scalings)] == ["Requests per second over workers"]
    assert "- Scaling: epoll: contention " in markdown.of_run(found)


def test_workers_of_which_one_serves_most_have_their_peak_there() -> None:
    found = run(plan_on(24), exact(1.4, 0.01))
    assert [each.peak_workers for each in found.scalings] == [1, 1]
    for line in scaling.sentences(found.scalings):
        assert line.endswith("; one worker serves the most requests.")
        assert "contention 14" in line


def limited_from(workers: int) -> Callable[[Trial, Result], Result]:
    """The generator is the limit from this number of workers on."""

    def change(each: Trial, result: Result) -> Result:
        assert result.report is not None
        assert result.server is not None
        if result.server.cpu_ns < 0.95 * workers * result.server.wall_ns:
            return result
        busy = result.report.generator.model_copy(update={"cpu_ns": round(0.97 * result.report.generator.wall_ns)})
        idle = result.server.model_copy(update={"cpu_ns": result.server.wall_ns // 2})
        return updated(result, report=result.report.model_copy(update={"generator": busy}), server=idle)

    return change


def check_not_fitted(found: Results, *lines: str) -> None:
    assert [each.law for each in found.scalings] == [None] * len(found.scalings)
    assert scaling.sentences(found.scalings) == list(lines)
    assert not list(scaling_chart.drawings(found.scalings))


def test_two_processors_are_too_few_and_the_sentence_says_so() -> None:
    check_not_fitted(
        run(plan_on(2)),
        "epoll, io_uring: contention and coherence are not fitted: 6 counts of workers are needed and 1 can be used; "
        "no processor for each worker at 2, 3, 4, 6, 8.",
    )


def test_a_count_that_the_generator_limited_is_not_used() -> None:
    check_not_fitted(
        run(plan_on(24), change=limited_from(6)),
        "epoll, io_uring: contention and coherence are not fitted: 6 counts of workers are needed and 4 can be used; "
        "the server was not the limit at 6, 8.",
    )


def test_a_contestant_has_its_colour_beside_one_without_a_law() -> None:
    def change(each: Trial, result: Result) -> Result:
        return limited_from(1)(each, result) if each.slot == 0 else result

    found = run(plan_on(24), change=change)
    assert [each.law is None for each in found.scalings] == [True, False]
    (drawn,) = scaling_chart.drawings(found.scalings)
    assert drawn.legend == ((1, "io_uring"),)


def test_too_few_counts_are_not_fitted() -> None:
    check_not_fitted(
        run(plan_on(24, "server.workers = [1, 2, 4]")),
        "epoll, io_uring: contention and coherence are not fitted: 6 counts of workers are needed and 3 can be used.",
    )


def test_what_was_not_measured_yet_is_named() -> None:
    plan = plan_on(24)
    done = [each for each in run(plan).trials if plan.cell(each.trial).server.workers != 3]
    check_not_fitted(
        judged(plan, {}, Trials(tuple(done), ())),
        "epoll, io_uring: contention and coherence are not fitted: 6 counts of workers are needed and 5 can be used; "
        "not measured at 3.",
    )


def test_too_few_blocks_are_not_fitted() -> None:
    plan = plan_on(24)
    done = [each for each in run(plan).trials if each.trial.block < 3]
    check_not_fitted(
        judged(plan, {}, Trials(tuple(done), ())),
        "epoll, io_uring: contention and coherence are not fitted: only 3 whole blocks so far, 6 are needed.",
    )


def test_each_setting_of_the_other_axes_has_a_law_of_its_own() -> None:
    found = run(plan_on(24, f'{COUNTS}, server.worker_kind = ["thread", "process"]'))
    kinds = ["worker_kind=thread", "worker_kind=thread", "worker_kind=process", "worker_kind=process"]
    assert [each.heading for each in found.scalings] == kinds
    assert all(each.law is not None for each in found.scalings)
    assert scaling.sentences(found.scalings)[0].startswith("worker_kind=thread: epoll: contention")


@pytest.mark.parametrize("axes", ["server.workers = [1, 2]", "load.connections = [10, 100, 1000]"])
def test_two_counts_or_another_axis_ask_for_no_law(axes: str) -> None:
    assert run(plan_on(24, axes)).scalings == ()
