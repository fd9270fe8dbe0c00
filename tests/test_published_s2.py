"""S2 on the GIL and on memory: the rows and claims of two experiments, with twins that differ only in the GIL."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from iolab.plan.claims import Test
from iolab.plan.experiment import load_experiment
from iolab.plan.plan import Plan
from iolab.plan.settings import changed

FOLDER = Path(__file__).parent.parent / "experiments"
CLAIMS = {
    "rpc-gil": ("C2-2", "C2-3", "C2-4", "gil-threads", "gil-imported"),
    "rpc-memory": ("C2-10", "C2-11", "C2-12", "C2-13", "memory-clients", "memory-fork"),
}
ROWS = {
    "rpc-gil": ("S2-row-3", "S2-row-4", "S2-row-6"),
    "rpc-memory": (
        *(f"S2-mem-{row} {size}" for row in (1, 2, 3, 4) for size in ("large", "small")),
        *(f"S2-mem-{row} large" for row in (5, 6, 7)),
    ),
}
MB = 1e6


def plan(name: str) -> Plan:
    return load_experiment(FOLDER / f"{name}.toml")


@pytest.mark.parametrize("name", CLAIMS)
def test_an_experiment_holds_the_claims_and_the_rows_of_its_note(name: str) -> None:
    assert tuple(claim.id for claim in plan(name).claims) == CLAIMS[name]
    assert tuple(row.id for row in plan(name).published) == ROWS[name]


@pytest.mark.parametrize("name", CLAIMS)
def test_every_row_stands_beside_one_cell_of_ours(name: str) -> None:
    for row in plan(name).published:
        places = [each for each in plan(name).comparisons if each.is_at(row.at)]
        assert len(places) == 1, row.id
        assert set(row.figures) <= set(places[0].titles), row.id


@pytest.mark.parametrize("name", CLAIMS)
def test_a_cell_without_the_gil_has_a_twin_that_differs_in_nothing_else(name: str) -> None:
    for comparison in plan(name).comparisons:
        cells = dict(zip(comparison.titles, comparison.cells, strict=True))
        without = [title for title in cells if "no GIL" in title]
        assert without
        for title in without:
            assert changed(cells[title], {"server.interpreter": "gil"}) == cells[title.replace("no GIL", "GIL")], title


@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_says_which_interpreters_it_needs(name: str) -> None:
    for claim in plan(name).claims:
        voting = [test for test in claim.tests if not test.shown]
        assert twins_of(voting) <= set(claim.needs.interpreters) <= twins_of(claim.tests), claim.id


def twins_of(tests: Iterable[Test]) -> set[str]:
    """The twins in tests, by the contestants' names."""
    names = {leaf.contestant for test in tests for _, each in test.quantities for leaf in each.leaves}
    return {"nogil" if "no GIL" in name else "gil" for name in names if "GIL" in name}


def test_the_published_growth_of_memory_is_that_of_the_analysis() -> None:
    rows = {row.id: row.number("no GIL", "machine_memory") for row in plan("rpc-memory").published}
    growth = []
    for number in (2, 3, 4):
        large, small, least = (rows[f"S2-mem-{each}"] for each in (f"{number} large", f"{number} small", "1 small"))
        assert large is not None and small is not None and least == 1837.1 * MB  # noqa: PT018
        growth.append((large - least) / (small - least))
    assert growth == pytest.approx([1.063, 1.034, 1.036], abs=5e-4)
    assert "1.063, 1.034 and 1.036" in plan("rpc-memory").analysis
