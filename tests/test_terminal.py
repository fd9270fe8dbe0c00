"""What a person sees at the end: a table that fits, one line of doubts a comparison, and each advice once."""

from __future__ import annotations

import re
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from iolab import terminal, verdict
from iolab.plan import DOUBTS, CostCount, Failure, MachineNoise, Plan, Result, Trial, schedule, vs_plan
from made import result, results

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


@pytest.mark.parametrize(("width", "in_one_line"), [(80, False), (107, False), (108, True), (200, True)])
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
    doubts = "doubts: generator saturated (12 of each), machine noisy (12 of each)"
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
    lines = shown(80).splitlines()
    assert "12 of 12 blocks used, 0 void" in lines
    assert lines[-1] == "io_uring: 1 process, 1 thread"


MANY = vs_plan(["epoll", "io_uring", "thread", "blocking", "select"], {"protocol": "echo", "connections": 500})


def left_out(plan: Plan, slot: int, kind: str, message: str) -> Result:
    trial = next(trial for trial in schedule(plan) if trial.slot == slot)
    failure = Failure(kind=kind, message=message, final=True)
    return Result(trial=trial, started="2026-01-01", failure=failure)


@pytest.mark.parametrize("width", [80, 100, 120])
def test_many_are_a_ranking_with_their_costs_and_a_word_for_who_is_not_in_it(width: int) -> None:
    rates = (100_000.0, 120_000.0, 119_900.0, 0.0, 0.0)
    trials = [trial for trial in schedule(MANY) if trial.slot < 3]
    made = results(MANY, lambda trial: rates[trial.slot] * (1 + 0.002 * ((trial.block + trial.slot) % 3)), trials)
    made.append(left_out(MANY, 3, "holds", "holds 1"))
    made.append(left_out(MANY, 4, "unavailable", "this machine has too old a kernel"))
    cells = MANY.comparisons[0].cells
    counts = [
        CostCount(
            comparison=0,
            slot=1,
            cell=cells[1].key,
            requests=100,
            calls=42,
            own_bytes_before=1 << 20,
            own_bytes=(1 << 20) + 500 * 2048,
        ),
        CostCount(comparison=0, slot=2, cell=cells[2].key, why_not="nobody may"),
    ]
    out = StringIO()
    terminal.show_verdicts(Console(file=out, width=width), verdict.judge(MANY, made, counts), [])
    lines = out.getvalue().splitlines()
    rows = [line.split() for line in lines if line.strip()]
    assert [row[:2] for row in rows if row[0].isdigit() and row[1] in ("io_uring", "thread", "epoll")] == [
        ["1", "io_uring"],
        ["1", "thread"],
        ["3", "epoll"],
    ]
    costs = [row for row in rows if row[-3:] == ["0.42", "2.0", "1"]]
    # In the row of the ranking, or in a table of their own.
    assert [row[:2] for row in costs] == [["1", "io_uring"] if width >= 120 else ["io_uring", "0.42"]]
    assert ["blocking", "holds", "1"] in rows
    assert ["select", "not", "here"] in rows
    assert "select was left out: this machine has too old a kernel" in lines
    assert "system calls not counted of thread: nobody may" in lines
    assert any(line.startswith("Most requests: io_uring and thread, not told apart.") for line in lines)


@pytest.mark.parametrize(("blocks", "void", "word"), [(20, 5, "5 of 20 void"), (110, 100, "void")])
def test_who_was_measured_and_mostly_void_is_not_said_to_be_absent(blocks: int, void: int, word: str) -> None:
    plan = MANY.model_copy(update={"blocks": blocks})
    made = [
        result(plan, each, rate_per_s=rate(each), noise=BUSY if each.slot == 4 and each.block < void else None)
        for each in schedule(plan)
    ]
    shown = terminal.rankings(verdict.judge(plan, made)[0], 120)[0]
    assert [list(column.cells)[-1] for column in shown.columns][1:3] == ["select", word]
