"""The rules that the benchmarks share: which runs count, and which figures are marked."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parent.parent / "bench"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module bench/fairness.py, with all it imports from bench/common.py."""
    monkeypatch.syspath_prepend(str(BENCH))
    return import_module("fairness")


@pytest.mark.parametrize(
    ("looks", "runs", "found"),
    [
        ([100, 110], 1, ("run 1", 110)),
        ([100, 400, 100, 100], 2, ("run 2", 100)),
        ([400, 100, 100, 100], 2, ("run 2", 100)),
        ([None, None], 1, ("run 1", None)),
        ([400, 400] * 6, 6, None),
    ],
)
def test_a_run_is_made_again_while_it_had_the_processors_apart(
    bench: Any, monkeypatch: pytest.MonkeyPatch, looks: list[float | None], runs: int, found: object
) -> None:
    distance = bench.Distance(engine=None, cpus=(0, 1), least_ns=100.0)
    coming, made = iter(looks), list[str]()
    monkeypatch.setattr(distance, "look", lambda: next(coming))

    def make() -> str:
        made.append(f"run {len(made) + 1}")
        return made[-1]

    assert distance.together(make) == found
    assert len(made) == runs


@pytest.mark.parametrize(
    ("model", "epoll", "cpu_bar", "said"),
    [
        ((10, 5, 1.0), (10, 5, 1.0), None, []),
        ((16, 5, 1.0), (10, 5, 1.0), None, ["p99 above 1.5"]),
        ((10, 30, 1.0), (10, 5, 1.0), None, ["p99 is too low: 3.0 times as long is in flight"]),
        ((10, 5, 1.0), (10, 20, 1.0), None, ["epoll's p99 is too low: 2.0 times as long is in flight"]),
        ((10, 5, 0.9), (10, 5, 1.0), 1.0, ["CPU bar 1 ok"]),
        ((10, 5, 1.1), (10, 5, 1.0), 1.0, ["CPU bar 1 MISSED"]),
    ],
)
def test_a_row_of_fairness_is_marked(
    bench: Any,
    model: tuple[int, int, float],
    epoll: tuple[int, int, float],
    cpu_bar: float | None,
    said: list[str],
) -> None:
    pairs = [bench.Pair(bench.Run(*model, requests=100), bench.Run(*epoll, requests=100))] * 3
    tails = [pair.model.p99_ns / pair.base.p99_ns for pair in pairs]
    cpu = [pair.model.cpu_ns / pair.base.cpu_ns for pair in pairs]
    assert list(bench.remarks(tails, cpu, cpu_bar, pairs, rounds=3)) == said


def test_pairs_that_are_left_out_are_counted(bench: Any) -> None:
    pair = bench.Pair(bench.Run(10, 5, 1.0, requests=100), bench.Run(10, 5, 1.0, requests=100))
    assert list(bench.remarks([1.0], [1.0], None, [pair], rounds=3)) == ["2 rounds left out"]


def test_every_server_of_a_scene_of_the_peers_is_a_model_or_in_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    models = {path.stem for path in (BENCH.parent / "crates/models/src").glob("*.rs")}
    scenes, known = import_module("peers").SCENES, import_module("servers").REGISTRY
    assert {name for scene in scenes for name in scene.servers} <= models | set(known)


def test_a_program_that_cannot_be_built_is_skipped_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    common = import_module("common")
    common.build([sys.executable, "-c", ""])
    with pytest.raises(common.Skipped, match="it cannot be built: error: no such field: see what"):
        common.build([sys.executable, "-c", "raise SystemExit('error: no such field')"])
