"""The sections of a report that only some runs have: heat maps, failures, growth, claims and published tables."""

from __future__ import annotations

from collections.abc import Callable
from html import unescape

import pytest

import made
from iolab import report
from iolab.judge import verdict
from iolab.judge.results import Results, judged
from iolab.plan.experiment import parse_experiment
from iolab.plan.overrides import with_settings
from iolab.plan.plan import Plan, Trial
from iolab.plan.settings import Setting
from iolab.report import grids, headline
from iolab.results.records import Result
from iolab.results.store import Trials

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
    """A run in which a trial has the throughput of its contestant and setting, within 0.1 % of it."""

    def rate(trial: Trial) -> float:
        return rate_of(trial, plan.comparisons[trial.comparison].setting) * (1 + trial.block % 3 / 1_000)

    results = made.results(plan, rate)
    return judged(plan, {}, Trials(tuple(map(change, results) if change else results), ()))


def select_wins_while_few(trial: Trial, setting: Setting) -> float:
    """select loses to epoll as soon as more than ten connections are watched for one that is active."""
    watched = int(setting["load.connections"]) / int(setting["load.active"])
    return 10_000 * (1 if trial.slot else 1.5 if watched <= 10 else 0.4)


def test_a_heat_map_says_who_serves_most_at_each_setting_and_where_that_changes() -> None:
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
