"""The terminal output at the end of a run: tables that fit, a sentence, and every notice once."""

from __future__ import annotations

import os
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from iolab.cli import terminal
from iolab.judge import verdict
from iolab.plan.experiment import parse_experiment, vs_plan
from iolab.plan.plan import Plan, Trial
from iolab.plan.schedule import schedule
from iolab.report import matrix
from iolab.results.records import WARNINGS, CostCount, Failure, MachineNoise, Result
from made import result, results
from scenarios import SCENARIOS

PAIR = vs_plan(["epoll", "io_uring"], {"protocol": "echo"})
NOISY = MachineNoise(steal_share=0.03, foreign_cpu_cores=0.0)
BUSY = MachineNoise(steal_share=0.3, foreign_cpu_cores=0.0)


def rate(trial: Trial) -> float:
    return 100_000.0 + 10_000 * trial.slot + 1_000 * (trial.block % 3)


def shown(width: int, plans: tuple[Plan, ...] = (PAIR,), of: Callable[[Trial], float] = rate, **changes: Any) -> str:
    out = StringIO()
    verdicts = [each for plan in plans for each in verdict.judge(plan, results(plan, of, **changes))]
    console = Console(file=out, width=width, force_terminal=True, color_system=None)
    terminal.show_verdicts(console, verdicts, [])
    return out.getvalue()


def lines(width: int, *plans: Plan, of: Callable[[Trial], float] = rate, **changes: Any) -> list[str]:
    return shown(width, plans or (PAIR,), of, **changes).splitlines()


LONG = "io_uring[recv=oneshot,send=silent,submit=sqpoll]"
PATHS = ("cmd:/home/me/code/shop/old/server --port {port}", "cmd:/home/me/code/shop/new/server --port {port}")


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    ("contestants", "names"),
    [
        (("epoll", "io_uring"), ("epoll", "io_uring")),
        (("io_uring", LONG), ("io_uring", "B")),
        (("epoll", PATHS[0]), ("epoll", "./server")),
        (PATHS, ("A", "B")),
        (("epoll", "thread", LONG), ("epoll", "thread", "C")),
        (("epoll", LONG, "thread", "select"), ("epoll", "B", "thread", "select")),
    ],
)
def test_everything_fits_the_terminal_and_long_names_have_a_legend(
    width: int, contestants: tuple[str, ...], names: tuple[str, ...]
) -> None:
    plan = vs_plan(contestants, {"protocol": "http"})
    told = lines(width, plan, noise=NOISY)
    assert max(map(len, told)) <= width
    names = tuple(name.removeprefix("./") for name in names)
    legend = [line for line in told if " = " in line]
    assert [line.split(" = ")[0] for line in legend] == [
        name for name, text in zip(names, contestants, strict=True) if name != text
    ]
    assert all(any(name in line for line in told) for name in names)
    assert all(line.count("[") == line.count("]") for line in told), "an interval is never broken"


@pytest.mark.parametrize("count", [2, 3])
def test_a_long_name_in_words_is_in_several_lines(count: int) -> None:
    names = ("system 2", "system 2, each asked, one call a connection", "Tornado")
    contestants = ",".join(f'{{ name = "{name}", server = "epoll" }}' for name in names[:count])
    head = 'name = "a"\nquestion = "b"\nfixed.workload.protocol = "echo"\n'
    told = lines(80, parse_experiment(f"{head}contestants = [{contestants}]".encode()))
    at = next(number for number, line in enumerate(told) if "system 2, each asked," in line)
    assert "one call a connection" in told[at + 1]
    assert max(map(len, told)) <= 80
    assert not any(" = " in line for line in told), "no name is shortened"


def test_of_two_each_metric_is_a_line_with_both_figures_and_their_ratio() -> None:
    told = lines(80)
    assert told[1].split() == ["epoll", "io_uring", "io_uring", "/", "epoll"]
    assert [line.split()[0] for line in told[3:8]] == ["requests/s", "CPU", "p50", "p99", "RSS"]
    assert told[3].split()[1:] == ["101,000", "111,000", "1.099x", "[1.099,", "1.100]"]


def test_of_several_each_is_a_line_and_its_ratios_are_below_its_figures() -> None:
    plan = vs_plan(["epoll", "io_uring", "thread"], {"protocol": "echo"})
    narrow, wide = lines(80, plan), lines(200, plan)
    assert sum("requests/s" in line and "RSS MiB" in line for line in wide) == 1
    assert [sum(word in line for line in narrow) for word in ("requests/s", "RSS MiB")] == [1, 1]
    assert not any("requests/s" in line and "RSS MiB" in line for line in narrow), "in two tables"


def test_prose_is_whole_where_it_goes_to_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns, whole in ((None, True), ("60", False)):
        monkeypatch.delenv("COLUMNS", raising=False)
        if columns:
            monkeypatch.setenv("COLUMNS", columns)
        out = StringIO()
        made = results(PAIR, rate, noise=NOISY)
        terminal.show_verdicts(Console(file=out, width=60), verdict.judge(PAIR, made), [])
        assert any(len(line) > 100 for line in out.getvalue().splitlines()) == whole


def test_every_notice_is_said_once_for_all_comparisons() -> None:
    plan = two_settings()
    told = lines(200, plan, noise=NOISY, generator_share=0.9, server_share=0.5)
    assert [line for line in told if line.startswith("warnings")] == [
        "warnings: generator saturated (24 of each), machine noisy (24 of each)"
    ]
    assert sorted(told[-2:]) == sorted(
        f"{word.replace('_', ' ')}: {WARNINGS[word].advice}" for word in ("generator_saturated", "machine_noisy")
    )


def two_settings() -> Plan:
    one = PAIR.comparisons[0]
    named = tuple(one.model_copy(update={"name": f"message_bytes={size}"}) for size in (64, 128))
    return PAIR.model_copy(update={"comparisons": named})


@pytest.mark.parametrize(
    ("places", "said"),
    [
        (((0, 1),), "io_uring was left out: no ring (message_bytes=64)"),
        (((0, 1), (1, 1)), "io_uring was left out: no ring (everywhere)"),
    ],
)
def test_a_notice_names_the_comparisons_it_is_about(places: tuple[tuple[int, int], ...], said: str) -> None:
    plan = two_settings()
    failure = Failure(kind="unavailable", message="no ring", final=True)
    made = [
        Result(trial=trial, started="", failure=failure)
        if (trial.comparison, trial.slot) in places
        else result(plan, trial)
        for trial in schedule(plan)
    ]
    verdicts = [each.model_copy(update={"sentence": ""}) for each in verdict.judge(plan, made)]
    assert [line for line in terminal.notices(verdicts) if "left out" in line] == [said]


def test_why_trials_were_discarded_is_apart_from_warnings() -> None:
    text = shown(80, noise=BUSY)
    assert "discarded trials: machine busy (epoll 12, io_uring 12)\n" in text
    assert "warnings:" not in text
    assert "0 of 12 blocks used, 12 discarded" in text


def test_without_warnings_there_is_nothing_to_advise() -> None:
    told = lines(80)
    assert "12 of 12 blocks used, 0 discarded" in told
    assert told[-1] == "epoll, io_uring: 1 process, 1 thread"


MANY = vs_plan(["epoll", "io_uring", "thread", "blocking", "select"], {"protocol": "echo", "connections": 500})


def left_out(plan: Plan, slot: int, kind: str, message: str) -> Result:
    trial = next(trial for trial in schedule(plan) if trial.slot == slot)
    failure = Failure(kind=kind, message=message, final=True)
    return Result(trial=trial, started="2026-01-01", failure=failure)


@pytest.mark.parametrize("width", [80, 100, 120])
def test_many_are_a_ranking_with_their_costs_and_a_word_for_those_not_in_it(width: int) -> None:
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
        CostCount(comparison=0, slot=2, cell=cells[2].key, why_not="it takes CAP_PERFMON"),
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
    # In the row of the ranking, or in a separate table.
    assert [row[:2] for row in costs] == [["1", "io_uring"] if width >= 120 else ["io_uring", "0.42"]]
    assert ["blocking", "holds", "1"] in rows
    assert ["select", "not", "here"] in rows
    assert "select was left out: this machine has too old a kernel" in lines
    assert "syscalls of thread were not counted: it takes CAP_PERFMON" in lines
    assert any(line.startswith("Most requests: io_uring and thread (no difference found).") for line in lines)


@pytest.mark.parametrize(("blocks", "discarded"), [(20, 5), (110, 100)])
def test_what_was_measured_and_mostly_discarded_is_not_said_to_be_absent(blocks: int, discarded: int) -> None:
    plan = MANY.model_copy(update={"blocks": blocks})
    made = [
        result(plan, each, rate_per_s=rate(each), noise=BUSY if each.slot == 4 and each.block < discarded else None)
        for each in schedule(plan)
    ]
    found = verdict.judge(plan, made)[0]
    shown = terminal.rankings(found, terminal.short_names(found), 120)[0]
    assert [list(column.cells)[-1] for column in shown.columns][1:3] == ["select", "not ranked"]
    assert f"select is not judged: {discarded} of {blocks} discarded: machine busy" in terminal.notices([found])


GOLDEN = Path(__file__).parent / "golden" / "verdicts.txt"


def test_the_verdicts_are_as_they_were_agreed_on() -> None:
    """`IOLAB_GOLDEN=1 pytest tests/test_terminal.py` rewrites them after an intended change."""
    out = StringIO()
    console = Console(file=out, width=80, force_terminal=True, color_system=None)
    for scenario in SCENARIOS:
        console.print(f"=== {scenario.name} ===")
        terminal.show_verdicts(console, verdict.judge(scenario.plan, scenario.results()), [])
        console.print()
    text = "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())
    if os.environ.get("IOLAB_GOLDEN"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")
    assert max(map(len, text.splitlines())) <= 80


def test_many_settings_of_many_contestants_are_a_matrix_that_fits_80_columns() -> None:
    cell = matrix.MatrixCell("1.58", "10", 3, False)
    settings = tuple(f"echo connections={count}" for count in range(6))
    rows = (matrix.MatrixRow("monoio[driver=legacy]", (cell,) * 6), matrix.MatrixRow("x" * 40, (cell,) * 6))
    out = StringIO()
    console = Console(file=out, width=80, force_terminal=True, color_system=None)
    terminal._show_matrix(console, matrix.Matrix("Most requests", settings, rows))
    text = out.getvalue()
    assert all(len(line) <= 80 for line in text.splitlines())
    # All six settings are in one table, with a legend of their letters.
    assert text.count("monoio[driver=legacy]") == 1
    assert text.count("1.58 #10") == 12
    assert all(f"{letter}: {name}" in " ".join(text.split()) for letter, name in zip("ABCDEF", settings, strict=True))
