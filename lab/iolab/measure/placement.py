"""Which processors the server and the generator of each cell run on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iolab.contract.types import updated
from iolab.machine.cpus import Cpu, choose_cpus
from iolab.plan.plan import Plan
from iolab.plan.settings import Cell


def placed(plan: Plan, topology: Sequence[Cpu]) -> tuple[Plan, tuple[str, ...]]:
    """The plan with a server's and a generator's processors chosen wherever a cell names none, and why, in words."""
    words: dict[str, None] = {}

    def place(cell: Cell) -> Cell:
        if cell.server_cpus or cell.load_cpus:
            words["as given"] = None
            return cell
        sets = choose_cpus(topology, cell.workers, cell.threads)
        words[sets.why] = None
        return updated(cell, server_cpus=sets.server, load_cpus=sets.load)

    return _with_cells(plan, place), tuple(words)


def with_cpus(plan: Plan, server_cpus: tuple[int, ...], load_cpus: tuple[int, ...]) -> Plan:
    """The plan with these processors for every cell; an empty set leaves that side as it is."""
    given = {"server_cpus": server_cpus, "load_cpus": load_cpus}
    changes = {name: cpus for name, cpus in given.items() if cpus}
    return _with_cells(plan, lambda cell: updated(cell, **changes))


def _with_cells(plan: Plan, change: Callable[[Cell], Cell]) -> Plan:
    comparisons = tuple(
        updated(comparison, cells=tuple(change(cell) for cell in comparison.cells)) for comparison in plan.comparisons
    )
    return updated(plan, comparisons=comparisons)
