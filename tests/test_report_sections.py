"""Optional sections of a report: heat maps, failures, growth, claims and published tables."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from typing import get_args

import pytest

import made
from iolab import report
from iolab.contract.literals import Saw
from iolab.judge import verdict
from iolab.judge.relations.verdicts import TestVerdict
from iolab.judge.results import Results, judged
from iolab.plan.claims import BreaksTest, CrossingTest, Quantity
from iolab.plan.experiment import parse_experiment
from iolab.plan.overrides import with_settings
from iolab.plan.plan import Plan, Trial
from iolab.plan.settings import Setting
from iolab.report import (
    claim_table,
    curves,
    failures,
    figures,
    grids,
    headline,
    markdown,
    matrix,
    price,
    published_table,
)
from iolab.results.records import Break, Failure, Growth, Result
from iolab.results.store import Trials

pytestmark = pytest.mark.usefixtures("few_resamples")

GRID = """
name = "grid"
question = "Which waits best for how many, of which how many are active?"
contestants = ["select", "epoll"]
blocks = 8
[fixed]
workload.protocol = "line"
[axes]
load.connections = [10, 100, 1000]
load.active = [1, 10]
"""


def the_plan(text: str) -> Plan:
    return with_settings(parse_experiment(text.encode()), {"server.cpus": (0,), "load.cpus": (1,)})


def run(
    plan: Plan, rate_of: Callable[[Trial, Setting], float], change: Callable[[Result], Result] | None = None
) -> Results:
    """A run with the throughput of `rate_of` for each trial, within 0.1 %."""

    def rate(trial: Trial) -> float:
        return rate_of(trial, plan.comparisons[trial.comparison].setting) * (1 + trial.block % 3 / 1_000)

    results = made.results(plan, rate)
    return judged(plan, {}, Trials(tuple(map(change, results) if change else results), ()))


def select_wins_while_few(trial: Trial, setting: Setting) -> float:
    """select loses to epoll with more than ten connections for each active one."""
    watched = int(setting["load.connections"]) / int(setting["load.active"])
    return 10_000 * (1 if trial.slot else 1.5 if watched <= 10 else 0.4)


def test_a_heat_map_says_which_serves_most_at_each_setting_and_where_that_changes() -> None:
    found = run(the_plan(GRID), select_wins_while_few)
    (grid,) = grids.grids(found.verdicts)
    assert (grid.x_axis, grid.xs, grid.y_axis, grid.ys) == ("active", (1, 10), "connections", (10, 100, 1000))
    winners = {(cell.y, cell.x): (cell.winner, cell.is_decided) for cell in grid.cells}
    assert winners == {
        (10, 1): ("select", True),
        (10, 10): ("select", True),
        (100, 1): ("epoll", True),
        (100, 10): ("select", True),
        (1000, 1): ("epoll", True),
        (1000, 10): ("epoll", True),
    }
    assert grid.words.startswith("Of 6 settings select at 3, epoll at 3.")
    place = {(cell.x, cell.y): cell for cell in grid.cells}
    # Rows are drawn from the largest value down.
    borders = [tuple(border.values()) for border in grids._borders(place, [1, 10], [1000, 100, 10])]
    assert sorted(borders) == [(0, 1, 2, 2), (1, 1, 1, 2), (1, 2, 1, 1)]


def test_a_winner_that_is_not_decided_is_pale() -> None:
    (grid,) = grids.grids(run(the_plan(GRID), lambda trial, _: 10_000 + trial.block * trial.slot % 2).verdicts)
    assert not any(cell.is_decided for cell in grid.cells)
    assert "6 of these are pale: not decided." in grid.words


@pytest.mark.parametrize(
    "axes", ["load.connections = [10, 100]", 'load.connections = [10, 100]\nload.driver = ["epoll", "thread"]']
)
def test_no_map_is_drawn_where_two_numbers_do_not_vary(axes: str) -> None:
    plan = the_plan(GRID[: GRID.index("load.connections")] + axes)
    assert list(grids.grids(verdict.judge(plan, made.results(plan, lambda _: 1_000.0)))) == []


def test_the_page_has_the_map_before_the_ratios() -> None:
    text = unescape(report.render(run(the_plan(GRID), select_wins_while_few)))
    assert text.index("Most requests, by connections and active") < text.index("<h2>Ratios</h2>")


def test_the_headline_of_many_rankings_has_a_line_for_each_sentence() -> None:
    plan = the_plan(
        GRID.replace('"epoll"]', '"poll", "epoll", "thread"]').replace(
            "load.active = [1, 10]", "load.active = [1, 5, 10]"
        )
    )
    found = run(plan, lambda trial, setting: 10_000 * (2 if trial.slot == (setting["load.active"] == 1) else 1))
    assert headline.headline(found.verdicts) == (
        "Most requests: select. Least CPU per request: select. At 6 of 9 settings.\n"
        "Most requests: poll. Least CPU per request: poll. At 3 of 9 settings."
    )


FORK, EPOLL = Quantity(contestant="fork"), Quantity(contestant="epoll")
PUBLISHED = """
name = "note"
question = "Does the note come out again?"
contestants = ["epoll", "fork", "thread"]
blocks = 8
fixed = { workload.protocol = "http", load.requests = 1000 }
axes = { load.connections = [1, 10] }

[[published]]
id = "row-1"
at = { load.connections = 1 }
note = "a note on it"
figures.epoll = { throughput = { value = 1000, note = "read off" }, time_to_finish = 1e9 }
figures.fork = { throughput = 500 }

[[published]]
id = "row-2"
at = { load.connections = 10 }
figures = { epoll = { throughput = { value = 2100, should_be = 2000 } }, fork = { throughput = "error" } }

[[claims]]
id = "C-1"
text = "fork costs half"
tests = [
    { relation = "ratio", of = "fork", to = "epoll", at = { load.connections = 1 }, published = 0.5, at_most = 0.6 },
    { relation = "level", of = "fork", at = { load.connections = 1 }, at_least = 1e6 },
    { relation = "ratio", of = "thread", to = "epoll", at_least = 0.1, quick = false },
]

[[claims]]
id = "C-2"
text = "Nothing here needs that much"
needs = { processors = 4 }
decide = { relation = "order", contestants = ["epoll", "thread", "fork"] }
"""


def breaking(result: Result) -> Result:
    """Breaks every trial of fork at ten connections, at a request that depends on its block."""
    if (result.trial.comparison, result.trial.slot) != (1, 1):
        return result
    how = Break(
        request=3_871 + result.trial.block,
        connection=4,
        phase="connect",
        saw="reset",
        ran_out="processes",
        evidence=("3,900 of 3,900 processes, 3,880 of them zombies",),
        recovered=False,
    )
    return result.model_copy(update={"failure": Failure(kind="errors", message="it broke", how=how)})


def the_note(*, quick: bool = False) -> str:
    """The page of the note's experiment, unescaped."""
    plan = the_plan(PUBLISHED)
    found = run(plan.quick() if quick else plan, lambda trial, _: (10_000, 5_000, 8_000)[trial.slot], breaking)
    return re.sub(r"<svg.*?</svg>", "", unescape(report.render(found)), flags=re.DOTALL)


@pytest.mark.usefixtures("no_charts")
def test_each_test_of_a_claim_has_a_row_with_its_question_its_figures_and_its_word() -> None:
    text = the_note()
    assert "<b>C-1</b> fork costs half" in text
    for asked in (
        "Throughput: fork / epoll, at connections 1, at most 0.6",
        "Throughput of fork, at connections 1, at least 1,000,000 requests/s",
        "Throughput: thread / epoll, at least 0.1",
    ):
        assert f'<tr class="test"><th scope="row">{asked}</th>' in text
    assert "Published claims: 1 contradicted (C-1)" in text


@pytest.mark.parametrize(
    ("test", "asked"),
    [
        (
            CrossingTest(of=FORK, to=EPOLL, along=("load.connections",)),
            "Throughput: fork / epoll: the first is better up to some point along connections, then the second",
        ),
        (
            CrossingTest(of=FORK, to=EPOLL, along=("latency_p50", "latency_p99")),
            "Throughput: fork / epoll: the first is better up to some point along the quantiles, then the second",
        ),
        (BreaksTest(of="fork", cause=("processes",)), "fork breaks because it runs out of processes"),
        (
            BreaksTest(of="fork", cause=("timeout", "closed"), phase=("receive",)),
            "fork breaks in phase receive: the client sees that nothing came within the time-out or that the "
            "connection was closed early",
        ),
    ],
)
def test_a_test_is_described_by_what_it_compares(test: CrossingTest | BreaksTest, asked: str) -> None:
    assert claim_table.test_row(TestVerdict(test=test, judgement="undecided", reason="no trial")).asked == asked


def test_all_that_a_client_can_see_has_words() -> None:
    assert set(failures.SAW) == set(get_args(Saw))


@pytest.mark.usefixtures("no_charts")
def test_a_test_that_the_quick_run_leaves_out_says_so() -> None:
    assert re.search(r"at least 0.1</th>.*?full run only", the_note(quick=True), re.DOTALL)


@pytest.mark.usefixtures("no_charts")
def test_published_figures_stand_above_ours_with_the_ratios_to_the_first_row_there_and_here() -> None:
    text = the_note()
    rows = [re.sub(r"<small[^>]*>", " | ", row) for row in re.findall(r"<tr><th scope=.row.>(row-.*?)</tr>", text)]
    cells = [[re.sub(r"<[^>]*>", "", cell) for cell in re.split("</th>|</td>", row)[:-1]] for row in rows]
    assert [row[:3] for row in cells] == [
        ["row-1", "epoll", "connections=1"],
        ["row-1", "fork", "connections=1"],
        ["row-2", "epoll", "connections=10"],
        ["row-2", "fork", "connections=10 | broke at request 3,871"],
    ]
    # Throughput and time to finish. What the note leaves out is marked, never shown as 0.
    assert [row[3].split(" | ")[0] for row in cells] == ["1,000 (read off)", "500", "2,100 (should be 2,000)", "error"]
    assert [row[4].split(" | ")[0] for row in cells] == ["1", *["not published"] * 3]
    assert [row[5] for row in cells] == ["1.000", "0.500", "2.000", "–"]
    assert [row[6] for row in cells] == ["1.000", "0.500", "1.000", "–"]
    assert "row-1: a note on it" in text


def test_a_report_in_several_rows_has_its_ratio_in_the_row_of_the_rate() -> None:
    """hey prints a line for each figure; only the line of the rate has the ratio."""
    plan = the_plan(
        """
name = "note"
question = "Does the note come out again?"
contestants = ["epoll", "fork"]
blocks = 8
fixed.workload.protocol = "http"

[[published]]
id = "total"
figures = { epoll = { time_to_finish = 4e9 }, fork = { time_to_finish = 5e9 } }

[[published]]
id = "rate"
figures = { epoll = { throughput = 1000 }, fork = { throughput = 800 } }
"""
    )
    found = run(plan, lambda trial, _: (10_000, 5_000)[trial.slot])
    used = figures.counted(plan, 0, {result.trial.place: result for result in found.trials})
    (table,) = published_table.tables(plan, [used], [()], 4)
    assert table.first == "rate, epoll"
    assert [(row.id, row.ratio_there, row.ratio_here) for row in table.rows] == [
        ("total", "–", "–"),
        ("total", "–", "–"),
        ("rate", "1.000", "1.000"),
        ("rate", "0.800", "0.500"),
    ]
    assert [cell.published for cell in table.rows[0].cells] == ["4", ""]


def test_a_contestant_that_broke_says_how_where_its_bar_would_be_with_the_published_error() -> None:
    text = the_note()
    assert (
        "<b>fork</b> Broke at request 3,871, connection 4: the client saw while it connected that the connection was "
        "reset. The server could have no more processes, and it did not recover. This is the first of 8 broken trials "
        "of 8, between request 3,871 and request 3,878."
    ) in text
    assert "3,900 of 3,900 processes, 3,880 of them zombies" in text
    assert "Published: row-2: “error”." in text
    found = run(the_plan(PUBLISHED), lambda trial, _: 10_000, breaking)
    drawn = report.render(found).split("connections=10</h2>")[1]
    assert "✕ at request 3,871" in drawn


def test_growth_is_drawn_where_it_goes_on_after_the_beginning_of_a_trial() -> None:
    def grown(result: Result) -> Result:
        assert result.server is not None
        leaks = result.trial.slot == 2
        samples = tuple(range(20))
        growth = Growth(
            times_ns=tuple(at * 10**8 for at in samples),
            rss_bytes=tuple((4 << 20) + (at << 18 if leaks else 0) for at in samples),
            threads=tuple(1 + (at if leaks else 0) for at in samples),
            processes=(1,) * 20,
            zombies=(0,) * 20,
            descriptors=(10, *(60,) * 19),
        )
        return result.model_copy(update={"server": result.server.model_copy(update={"growth": growth})})

    text = report.render(run(the_plan(PUBLISHED), lambda trial, _: 10_000, grown))
    assert "Memory along a trial" in text
    assert "Threads along a trial" in text
    assert "thread 4.00 to 8.75 MiB in 1.9 s" in text
    # Descriptors grow only while connections are opened.
    assert "Open descriptors along a trial" not in text
    assert "What keeps growing" not in report.render(run(the_plan(PUBLISHED), lambda trial, _: 10_000))


@pytest.mark.usefixtures("no_charts")
def test_a_comparison_in_which_neither_side_was_busy_is_labelled() -> None:
    results = made.results(the_plan(GRID), lambda _: 1_000.0, server_share=0.2, generator_share=0.2)
    text = report.render(judged(the_plan(GRID), {}, Trials(tuple(results), ())))
    assert "Latency-bound: neither side was busy, so requests per second only mirror the latency" in text


@pytest.mark.usefixtures("no_charts")
def test_of_several_processes_the_page_says_how_many_served() -> None:
    def spread(result: Result) -> Result:
        assert result.server is not None
        usage = result.server.model_copy(update={"processes": 32, "processes_serving": 2})
        return result.model_copy(update={"server": usage})

    assert "2 of 32 processes served" in report.render(run(the_plan(GRID), lambda trial, _: 10_000, spread))


@pytest.mark.usefixtures("no_charts")
def test_the_page_says_how_many_requests_a_trial_has_and_what_is_between_server_and_generator() -> None:
    plan = the_plan(PUBLISHED.replace("load.requests = 1000 }", "load.requests = 1000, path.delay_ms = 24.5 }"))
    text = report.render(run(plan, lambda trial, _: 10_000))
    assert "1,000 requests without a warm-up; over a path with 24.5 ms each way, MTU 1500;" in text
    assert "A real network: the path emulates delay, rate and loss on one machine" in text


def test_many_contestants_at_many_settings_are_a_matrix_of_ratios_to_the_best_and_of_ranks() -> None:
    plan = the_plan(GRID.replace('"epoll"]', '"poll", "epoll", "thread"]'))
    # select is the best with one active connection; thread has about half of its requests.
    found = run(plan, lambda trial, at: (10_000 if at["load.active"] == 1 else 6_000, 8_000, 8_000, 5_200)[trial.slot])
    by_requests, by_cpu = matrix.matrices(found.verdicts)
    assert by_requests.settings == tuple(each.name for each in found.verdicts)
    cells = {row.title: row.cells for row in by_requests.rows}
    assert [(cell.text, cell.rank, cell.shade, cell.is_first) for cell in cells["select"][:2]] == [
        ("1.00", "1", 4, True),
        ("0.75", "3", 2, False),
    ]
    assert [cell.text for cell in cells["thread"][:2]] == ["0.52", "0.65"]
    assert by_requests.rows[-1].title == "thread"
    # Less CPU is better, so ratios to the best are above 1.
    assert [cell.text for row in by_cpu.rows if row.title == "thread" for cell in row.cells[:1]] == ["1.92"]
    page = unescape(report.render(found))
    assert "Most requests, first rank (alone or shared) of 6 settings: poll at 3, epoll at 3, select at 3." in page
    assert page.index("<h2>At a glance</h2>") < page.index("<h2>Ratios</h2>")


def test_two_contestants_need_no_matrix() -> None:
    assert list(matrix.matrices(run(the_plan(GRID), select_wins_while_few).verdicts)) == []


@pytest.mark.usefixtures("no_charts")
def test_the_price_of_a_request_is_split_into_the_servers_own_time_and_the_kernels() -> None:
    found = run(the_plan(GRID), lambda trial, _: 10_000)
    used = figures.counted(found.plan, 0, {result.trial.place: result for result in found.trials})
    own, kernel = next(price.bars(found.verdicts[0], used)).parts
    level = found.verdicts[0].level("cpu_per_request", "select")
    assert level is not None
    # In made results, a quarter of the server's time is user time.
    assert own / (own + kernel) == pytest.approx(0.25, abs=1e-6)
    assert own + kernel == pytest.approx(level.median / 1e3)
    assert "Server CPU per request, µs" in unescape(report.render(found))


def test_figures_are_drawn_along_an_axis_of_three_values_and_more() -> None:
    plan = the_plan(GRID.replace("load.active = [1, 10]", ""))
    found = run(plan, lambda trial, at: 20_000 - 10 * int(at["load.connections"]) + trial.slot)
    (along,) = curves.groups(found.verdicts)
    assert (along.axis, along.titles, [x for x, _ in along.found]) == (
        "load.connections",
        ("select", "epoll"),
        [10, 100, 1000],
    )
    headings = [each.heading for each in curves.drawings(found.verdicts)]
    assert headings == [
        "Throughput over connections, requests/s",
        "CPU per request over connections, µs",
        "Latency p99 over connections, µs",
        "Resident memory over connections, MiB",
    ]
    assert list(curves.groups(run(the_plan(GRID), select_wins_while_few).verdicts)) == []


def test_memory_over_connections_has_a_straight_line_with_its_parts_in_words() -> None:
    plan = the_plan(GRID.replace("load.active = [1, 10]", ""))

    def grown(result: Result) -> Result:
        assert result.server is not None
        connections = int(plan.comparisons[result.trial.comparison].setting["load.connections"])
        usage = result.server.model_copy(update={"rss_bytes_median": (4 << 20) + connections * 2_048})
        return result.model_copy(update={"server": usage})

    drawn = list(curves.drawings(run(plan, lambda trial, _: 10_000, grown).verdicts))
    assert "select 4.00 MiB + 2.00 KiB per connection (R² 1.000)" in drawn[-1].caption


@pytest.mark.parametrize("quick", [False, True])
def test_a_run_as_markdown_has_its_verdict_its_claims_and_its_ratios(quick: bool) -> None:
    plan = the_plan(PUBLISHED)
    text = markdown.of_run(run(plan.quick() if quick else plan, lambda trial, _: (10_000, 5_000, 8_000)[trial.slot]))
    lines = text.splitlines()
    assert lines[0] == "## Does the note come out again?"
    assert "| Claim | Verdict | Published | Measured [95 %] | Why |" in lines
    assert any(line.startswith("| **C-1** fork costs half | ") for line in lines)
    assert any(re.search(r"\| fork / epoll \| \*\*0\.50*x \[", line) for line in lines)
    tables = [line for line in lines if line.startswith("|")]
    assert all(line.endswith("|") for line in tables)
    assert lines[-1].startswith("Measured 2026-01-01 00:00 UTC. Run it again: `iolab run note")


def test_markdown_has_no_markup_from_outside() -> None:
    text = PUBLISHED.replace("fork costs half", "a | [link](x) <b>*bold*</b>")
    found = run(the_plan(text), lambda trial, _: 10_000)
    assert "a \\| \\[link\\](x) \\<b\\>\\*bold\\*\\</b\\>" in markdown.of_run(found)


def test_the_command_of_a_run_is_code_whatever_it_contains() -> None:
    assert markdown._code("iolab vs epoll") == "`iolab vs epoll`"
    assert markdown._code("iolab vs 'cmd:./mine `date`'") == "`` iolab vs 'cmd:./mine `date`' ``"
