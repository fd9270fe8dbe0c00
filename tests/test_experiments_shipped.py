"""The shipped experiments: what they cover, and which of their cells run with 2, 24 and 64 CPUs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from iolab.machine import needs
from iolab.machine.cpus import Cpu
from iolab.machine.needs import Facts
from iolab.measure.placement import placed
from iolab.plan import registry
from iolab.plan.claims import Claim, Published, StatedTest, Test, contestants_of, setting_of
from iolab.plan.experiment import load_experiment
from iolab.plan.plan import Comparison, Plan

FOLDER = Path(__file__).parent.parent / "experiments"
NAMES = sorted(path.stem for path in FOLDER.glob("*.toml"))

# Two CPUs; 12 cores on two sockets; 32 cores on two sockets. The last two have two SMT siblings a core.
MACHINES = {
    2: [Cpu(id=id_, core=id_) for id_ in range(2)],
    24: [Cpu(id=id_, core=id_ % 12, package=id_ % 12 // 6, node=id_ % 12 // 6) for id_ in range(24)],
    64: [Cpu(id=id_, core=id_ % 32, package=id_ % 32 // 16, node=id_ % 32 // 16) for id_ in range(64)],
}


class Cells(NamedTuple):
    """How many cells an experiment has, how many of them a quick run keeps, and how many run on two CPUs.

    All of them run on 24 CPUs or more.
    """

    all: int
    quick: int
    on_two: int


CELLS = {
    "active-map": Cells(45, 45, 45),
    "echo-framing": Cells(24, 6, 24),
    "echo-io_uring-epoll": Cells(16, 8, 16),
    "echo-pipeline": Cells(8, 8, 8),
    "http-ab-table": Cells(25, 7, 25),
    "http-exhaustion": Cells(36, 6, 36),
    "http-hyper-monoio": Cells(12, 4, 8),
    "http-one-request-connections": Cells(48, 9, 48),
    "http-wan": Cells(20, 6, 20),
    "http-workers": Cells(12, 4, 12),
    "instrument": Cells(6, 6, 6),
    "io_uring-ladder": Cells(34, 34, 34),
    "languages": Cells(58, 25, 58),
    "line-active": Cells(16, 4, 16),
    "line-endurance": Cells(2, 2, 2),
    "line-memory": Cells(24, 4, 24),
    "line-processes": Cells(38, 4, 38),
    "line-rate": Cells(8, 8, 8),
    "line-select-libevent": Cells(36, 6, 36),
    "models": Cells(87, 87, 87),
    "price": Cells(20, 20, 20),
    "rpc-gil": Cells(34, 10, 34),
    "rpc-memory": Cells(60, 3, 60),
    "rpc-sockets": Cells(16, 2, 16),
    "rpc-systems": Cells(15, 3, 15),
    "workers-scaling": Cells(18, 18, 0),
}

# The claims of each note, and those that a quick run decides; no run decides a `stated` claim.
CLAIMS = {
    note: [f"C{note[1:]}-{number}" for number in range(1, last + 1)]
    for note, last in (("S0", 14), ("S1", 6), ("S3", 14), ("S4", 13))
}
CLAIMS["S2"] = [f"C2-{number}" for number in range(1, 14)]
FULL_RUN = {
    *("C0-12", "C0-13"),
    *("C2-2", "C2-3", "C2-4", "C2-7", "C2-8", "C2-9", "C2-10", "C2-11", "C2-13"),
    *("C3-1", "C3-3", "C3-5", "C3-6", "C3-7", "C3-8", "C3-12", "C3-13"),
    *("C4-1", "C4-4", "C4-6", "C4-7", "C4-11", "C4-12"),
}
STATED = {"C2-12", "C4-8", "C4-9", "C4-10"}
HEADLINE = {
    *("C0-1", "C0-2", "C0-4", "C0-5", "C0-6", "C0-8", "C0-10", "C0-11", "C0-14"),
    *("C1-1", "C1-2", "C1-3", "C1-4", "C1-5"),
    *("C2-1", "C2-5", "C2-6"),
    *("C3-2", "C3-4", "C3-9", "C3-11"),
    *("C4-2", "C4-3", "C4-13"),
}
ROWS = {
    **{f"S0-row-P{number}": "http-wan" for number in range(1, 8)},
    **{f"S0-row-L{number}": "http-ab-table" for number in range(1, 26)},
    **{f"S1-row-{number}": "echo-io_uring-epoll" for number in range(1, 5)},
    **{f"S2-row-{number}": "rpc-gil" for number in (3, 4, 6)},
    **{f"S2-row-{number}": "rpc-systems" for number in (1, 2, 5)},
    **{f"S2-row-{number}": "rpc-sockets" for number in range(7, 15)},
    **{f"S3-row-{number}": "line-processes" for number in range(1, 14)},
    **{f"S4-row-{number}": "http-hyper-monoio" for number in range(1, 22)},
}


@cache
def plan_of(name: str) -> Plan:
    return load_experiment(FOLDER / f"{name}.toml")


def claims() -> Iterator[tuple[Plan, Claim]]:
    for name in NAMES:
        yield from ((plan_of(name), claim) for claim in plan_of(name).claims)


def rows() -> Iterator[tuple[str, Published]]:
    for name in NAMES:
        yield from ((name, row) for row in plan_of(name).published)


def facts_of(topology: list[Cpu]) -> Facts:
    """A machine that has everything, with these CPUs."""
    known = dict.fromkeys(("io_uring", "libevent", "monoio"), "")
    return Facts(
        tuple(cpu.id for cpu in topology),
        memory_bytes=1 << 40,
        models_why_not=known,
        is_installed=lambda program: True,
        interpreter_why_not=lambda name: "",
    )


def running(plan: Plan, topology: list[Cpu]) -> int:
    """How many cells this machine can run."""
    facts, (there, _) = facts_of(topology), placed(plan, topology)
    return sum(
        not needs.unmet(there.needs_of(at, slot), facts)
        and not needs.unmet_cpus((*cell.server.cpus, *cell.load.cpus), facts)
        for at, comparison in enumerate(there.comparisons)
        for slot, cell in enumerate(comparison.cells)
    )


def count(plan: Plan) -> int:
    return sum(len(comparison.cells) for comparison in plan.comparisons)


def test_every_experiment_is_in_the_table() -> None:
    assert list(CELLS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_as_many_cells_run_as_the_machine_allows(name: str) -> None:
    plan = plan_of(name)
    of_machines = {processors: running(plan, topology) for processors, topology in MACHINES.items()}
    assert Cells(count(plan), count(plan.quick()), of_machines.pop(2)) == CELLS[name]
    assert set(of_machines.values()) == {count(plan)}


@pytest.mark.parametrize("processors", MACHINES)
@pytest.mark.parametrize("name", NAMES)
def test_server_and_generator_share_no_core_unless_they_are_to(name: str, processors: int) -> None:
    topology = MACHINES[processors]
    cores = {cpu.id: (cpu.package, cpu.core) for cpu in topology}
    plan, _ = placed(plan_of(name), topology)
    for asked, comparison in zip(plan_of(name).comparisons, plan.comparisons, strict=True):
        for before, cell in zip(asked.cells, comparison.cells, strict=True):
            if before.server.cpus or before.trial.processors == "shared":
                continue
            assert cell.server.cpus, comparison.name
            assert cell.load.cpus, comparison.name
            assert not {cores[cpu] for cpu in cell.server.cpus} & {cores[cpu] for cpu in cell.load.cpus}


def test_every_server_takes_what_the_experiments_ask_of_it() -> None:
    known = registry.load()
    for name in NAMES:
        for cell in (cell for comparison in plan_of(name).comparisons for cell in comparison.cells):
            server = known.get(cell.contestant.name)
            assert server is None or registry.refusal(server, cell) == "", name


@pytest.mark.parametrize("note", CLAIMS)
def test_every_claim_of_a_note_is_in_one_experiment(note: str) -> None:
    prefix = CLAIMS[note][0].partition("-")[0] + "-"
    found = [claim.id for _, claim in claims() if claim.id.startswith(prefix)]
    assert sorted(found) == sorted(CLAIMS[note])


def test_every_published_row_is_in_its_experiment() -> None:
    assert {row.id: name for name, row in rows() if "-row-" in row.id} == ROWS


def test_the_headline_is_that_of_the_published_experiments() -> None:
    assert {claim.id for _, claim in claims() if claim.headline} == HEADLINE


@pytest.mark.parametrize("note", CLAIMS)
def test_a_quick_run_decides_the_claims_that_it_is_to_decide(note: str) -> None:
    for plan, claim in claims():
        if claim.id not in CLAIMS[note]:
            continue
        voting = [test for test in claim.tests if not test.shown and not isinstance(test, StatedTest)]
        assert (claim.id in STATED) == (not voting), claim.id
        in_quick = [test for test in voting if test.quick]
        assert bool(in_quick) == (claim.id not in FULL_RUN | STATED), claim.id
        for test in in_quick:
            assert is_measured(test, plan.quick()), f"{claim.id}: the quick run lacks what {test.relation} is about"


def is_measured(test: Test, plan: Plan) -> bool:
    """Whether a plan measures everything that a test needs."""
    leaves = [(leaf.contestant, leaf.at) for _, quantity in test.quantities for leaf in quantity.leaves]
    leaves += [(name, setting_of(test)) for _, name in contestants_of(test)]
    if getattr(test, "over", "trials") != "trials":
        return True
    return all(any(has(each, *leaf) for each in plan.comparisons) for leaf in leaves)


def has(comparison: Comparison, contestant: str, at: dict[str, bool | int | float | str]) -> bool:
    return contestant in comparison.titles and comparison.is_at(at)
