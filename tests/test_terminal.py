"""What a person sees at the end: a table that fits, one line of doubts a comparison, and each advice once."""

from __future__ import annotations

import re
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from iolab import terminal, verdict
from iolab.plan import DOUBTS, MachineNoise, Plan, Trial, vs_plan
from made import results

PAIR = vs_plan(["epoll", "io_uring"], {"protocol": "echo"})
NOISY = MachineNoise(steal_share=0.03, foreign_cpu_cores=0.0)
BUSY = MachineNoise(steal_share=0.3, foreign_cpu_cores=0.0)


def rate(trial: Trial) -> float:
    return 100_000.0 + 10_000 * trial.slot + 1_000 * (trial.block % 3)


def shown(width: int, plans: tuple[Plan, ...] = (PAIR,), of: Callable[[Trial], float] = rate, **changes: Any) -> str:
    out = StringIO()
    verdicts = [each for plan in plans for each in verdict.judge(plan, results(plan, of, **changes))]
    terminal.show_verdicts(Console(file=out, width=width), verdicts, [])
    return out.getvalue()


@pytest.mark.parametrize(("width", "in_one_line"), [(80, False), (119, False), (120, True), (200, True)])
def test_a_table_fits_the_terminal_and_never_breaks_an_interval(width: int, in_one_line: bool) -> None:
    table = shown(width).split("io_uring serves")[0].splitlines()
    assert max(map(len, table)) <= width
    intervals = [line for line in table if "[" in line]
    assert [line.count("[") == line.count("]") == 5 for line in intervals] == [True]
    assert ("x [" in intervals[0]) is in_one_line


def test_long_names_give_way_before_figures_do() -> None:
    plan = vs_plan(["io_uring", "io_uring[recv=oneshot,send=silent]"], {"protocol": "echo"})
    table = shown(80, (plan,)).split("io_uring[recv=oneshot,send=silent] serves")[0].splitlines()
    assert max(map(len, table)) <= 80
    assert sum(len(re.findall(r"\[\d\.\d\d, \d\.\d\d\]", line)) == 5 for line in table) == 1


def test_doubts_are_one_line_a_comparison_and_each_advice_stands_once_at_the_end() -> None:
    lines = shown(80, (PAIR, PAIR), noise=NOISY, generator_share=0.9, server_share=0.5).splitlines()
    doubts = "doubts: generator saturated (epoll 12, io_uring 12), machine noisy (epoll 12, io_uring 12)"
    assert [line for line in lines if line.startswith("doubts")] == [doubts] * 2
    assert sorted(lines[-2:]) == sorted(
        f"{word.replace('_', ' ')}: {DOUBTS[word].advice}" for word in ("generator_saturated", "machine_noisy")
    )
    assert sum(DOUBTS["machine_noisy"].advice in line for line in lines) == 1


def test_what_made_trials_void_stands_apart_from_doubts() -> None:
    text = shown(80, noise=BUSY)
    assert "void trials: machine busy (epoll 12, io_uring 12)\n" in text
    assert "doubts:" not in text
    assert "0 of 12 blocks used, 12 void" in text


def test_without_doubts_there_is_nothing_to_advise() -> None:
    assert shown(80).splitlines()[-1] == "12 of 12 blocks used, 0 void"
