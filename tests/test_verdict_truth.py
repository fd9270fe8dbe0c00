"""How often verdicts are right. `make bench-verdicts` runs the same with more suites; the seeds are fixed."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from iolab import api
from iolab.judge.results import Results
from iolab.plan.plan import Plan
from simulated_runs import WEATHERS, Study, Weather, plan_of, store_run

pytestmark = pytest.mark.usefixtures("few_resamples")

BENCH = Path(__file__).resolve().parent.parent / "bench"
SUITES = 10
# Of SUITES suites: how many call the servers different, how many in the wrong direction, how many intervals cover the
# truth, and how many intervals there are.
SAID = {
    ("steady", 0.0): (1, 0, 19, 20),
    ("steady", 0.05): (10, 0, 9, 10),
    ("steady", 0.10): (10, 0, 9, 10),
    ("drift", 0.0): (0, 0, 19, 20),
    ("drift", 0.05): (10, 0, 10, 10),
    ("drift", 0.10): (10, 0, 10, 10),
    ("two states, seen", 0.0): (0, 0, 20, 20),
    ("two states, seen", 0.05): (10, 0, 9, 10),
    ("two states, seen", 0.10): (10, 0, 9, 10),
    ("two states, not seen", 0.0): (1, 0, 17, 20),
    ("two states, not seen", 0.05): (9, 0, 10, 10),
    ("two states, not seen", 0.10): (9, 0, 10, 10),
    ("heavy tails", 0.0): (0, 0, 20, 20),
    ("heavy tails", 0.05): (10, 0, 9, 10),
    ("heavy tails", 0.10): (10, 0, 9, 10),
}


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module bench/verdict_truth.py, with all it imports."""
    monkeypatch.syspath_prepend(str(BENCH))
    return import_module("verdict_truth")


@pytest.mark.parametrize("machine", WEATHERS)
@pytest.mark.parametrize("work", [0.0, 0.05, 0.10])
def test_suites_call_equal_servers_equal_and_find_more_work(
    bench: Any, tmp_path: Path, machine: str, work: float
) -> None:
    found = bench.simulated_study(tmp_path, machine, SUITES, work)
    assert found == (SUITES, *SAID[machine, work])


@pytest.mark.parametrize(
    ("study", "work", "missed"),
    [
        (Study(200, 10, 0, 190, 200), 0.0, []),
        (Study(200, 11, 0, 190, 200), 0.0, ["11 of 200 suites call equal servers different"]),
        (Study(200, 160, 0, 186, 200), 0.05, []),
        (Study(200, 159, 0, 186, 200), 0.05, ["found in 159 of 200"]),
        (Study(200, 159, 0, 186, 200), 0.10, ["found in 159 of 200"]),
        (Study(200, 200, 1, 186, 200), 0.10, ["1 of 200 in the wrong direction"]),
    ],
)
def test_a_line_of_the_simulation_is_held_to_its_limits(
    bench: Any, study: Study, work: float, missed: list[str]
) -> None:
    assert list(bench.of_words(study, work, bench.BARS[work].simulated)) == missed


def test_the_intervals_of_a_machine_are_held_to_93_percent(bench: Any) -> None:
    studies = [Study(200, 0, 0, 380, 400), Study(200, 200, 0, 178, 200)]
    assert list(bench.of_intervals(studies)) == []
    studies.append(Study(200, 200, 0, 185, 200))
    assert list(bench.of_intervals(studies)) == ["the intervals cover the truth in 743 of 800"]


@pytest.mark.parametrize(
    ("rounds", "blindness", "code", "lines"),
    [
        (2, 0.0, 0, ["| this one | 0 % | 2 | 0 | – |", "| this one | 10 % | 1 | 1 | 0 |", "% [2.5, 100.0] | 0 s |"]),
        (1, 1.0, 1, ["MISSED 5 % more: found in 0 of 1", "MISSED 10 % more: found in 0 of 1"]),
    ],
)
def test_servers_are_measured_in_rounds_after_the_time_is_said(
    bench: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    rounds: int,
    blindness: float,
    code: int,
    lines: list[str],
) -> None:
    """The stub stores results of servers with the plan's work instead of measuring."""

    def run(plan: Plan, *, out: Path) -> Results:
        more_ns = plan.comparisons[0].cells[1].workload.model_dump()["work_ns"]
        work = more_ns / 10_000 * (1 - blindness)
        return api.open_run(store_run(out / str(more_ns), plan_of(plan.blocks), Weather(0.01, own=0.01), 1, work=work))

    monkeypatch.setattr(os, "fsync", lambda file: None)
    monkeypatch.setattr(bench.api, "run", run)
    monkeypatch.setattr(bench.common, "work_ns", lambda same, share: round(10_000 * share))
    assert bench.real(tmp_path, rounds) == code
    printed = capsys.readouterr().out
    assert printed.startswith(f"Runs: {rounds} with 0 % more (20 blocks), 1 with 5 % more (40 blocks), 1 with 10 %")
    assert [line for line in lines if line not in printed] == []
