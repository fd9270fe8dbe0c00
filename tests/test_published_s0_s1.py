"""The experiments of the published notes: all claims, all rows of the tables, and quick runs within their time."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from iolab.plan.experiment import load_experiment
from iolab.plan.plan import Plan

FOLDER = Path(__file__).parent.parent / "experiments"
# The estimate leaves out what it cannot know, such as the time of a trial that breaks.
SLACK_MIN = 0.1


class Held(NamedTuple):
    """An experiment's claims and published rows, by id, and the minutes of its quick run."""

    claims: tuple[str, ...]
    rows: tuple[str, ...]
    quick_min: float


def rows(prefix: str, first: int, last: int) -> tuple[str, ...]:
    return tuple(f"{prefix}{number}" for number in range(first, last + 1))


HELD = {
    "http-one-request-connections": Held(("C0-4", "C0-5", "C0-6", "C0-7", "C0-8", "C0-9"), ("S0-sys-4",), 2.2),
    "http-ab-table": Held(("C0-14",), rows("S0-row-L", 1, 25), 2.5),
    "http-exhaustion": Held(("C0-10", "C0-11", "C0-12", "C0-13"), (), 0.5),
    "http-wan": Held(("C0-1", "C0-2", "C0-3", "S0-ab"), rows("S0-row-P", 1, 7), 2.2),
    "echo-io_uring-epoll": Held(("C1-1", "C1-2", "C1-3", "C1-6"), rows("S1-row-", 1, 4), 1.6),
    "echo-framing": Held(("C1-4", "C1-5"), (), 0.4),
}
HEADLINE = (
    *("C0-1", "C0-2", "C0-4", "C0-5", "C0-6", "C0-8", "C0-10", "C0-11", "C0-14"),
    *("C1-1", "C1-2", "C1-3", "C1-4", "C1-5"),
)
# For published figures that follow from others of the same row, by the note's formulas.
TOLERANCE = 0.006


def plan(name: str) -> Plan:
    return load_experiment(FOLDER / f"{name}.toml")


@pytest.mark.parametrize("name", HELD)
def test_an_experiment_holds_the_claims_and_the_rows_of_its_note(name: str) -> None:
    found = plan(name)
    assert tuple(claim.id for claim in found.claims) == HELD[name].claims
    assert tuple(row.id for row in found.published) == HELD[name].rows


@pytest.mark.parametrize("name", HELD)
def test_a_quick_run_takes_as_long_as_it_was_planned_to(name: str) -> None:
    quick = plan(name).quick()
    assert (quick.duration_s + quick.counting_s) / 60 <= HELD[name].quick_min + SLACK_MIN


@pytest.mark.parametrize("name", HELD)
def test_a_quick_run_has_what_its_quick_tests_are_about(name: str) -> None:
    quick = plan(name).quick()
    for claim in quick.claims:
        for test in (test for test in claim.tests if test.quick):
            for where, quantity in test.quantities:
                for leaf in quantity.leaves:
                    assert any(each.is_at(leaf.at) and leaf.contestant in each.titles for each in quick.comparisons), (
                        f"{claim.id} {where}: {leaf.words}"
                    )


def test_each_headline_claim_is_in_one_experiment() -> None:
    found = [claim.id for name in HELD for claim in plan(name).claims if claim.headline]
    assert sorted(found) == sorted(HEADLINE)


def test_every_published_row_is_beside_a_cell_of_ours() -> None:
    for name in HELD:
        found = plan(name)
        for row in found.published:
            places = [each for each in found.comparisons if each.is_at(row.at)]
            assert all(any(title in each.titles for each in places) for title in row.figures), f"{name}: {row.id}"


def test_the_table_of_s1_is_that_of_the_note() -> None:
    found = [
        (row.number("io_uring", "throughput"), row.number("epoll", "throughput"))
        for row in plan("echo-io_uring-epoll").published
    ]
    assert [ours / theirs for ours, theirs in found if ours and theirs] == pytest.approx(
        [1.130, 1.200, 1.137, 1.203], abs=5e-4
    )


def test_the_rows_of_ab_agree_with_its_formulas() -> None:
    checked = 0
    for name in ("http-ab-table", "http-wan"):
        for row in plan(name).published:
            for figures in row.figures.values():
                numbers = {metric: figure.number for metric, figure in figures.items() if figure.number is not None}
                if "latency_mean" not in numbers:
                    continue
                connections = float(row.at["load.connections"])
                # The rate has more digits than the seconds. The transfer is 288 bytes a reply; Python's is 1,342.
                assert numbers["latency_mean"] == pytest.approx(
                    connections * 1e9 / numbers["throughput"], rel=TOLERANCE
                )
                size = numbers["transfer_rate"] / numbers["throughput"]
                assert min(abs(size / 288 - 1), abs(size / 1_342 - 1)) < TOLERANCE
                checked += 1
    assert checked == 24
