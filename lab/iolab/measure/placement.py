"""Which processors the server and the generator of each cell run on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iolab.contract.types import updated
from iolab.machine.cpus import Cpu, choose_cpus
from iolab.plan.plan import Plan
from iolab.plan.settings import Cell, changed


def placed(plan: Plan, topology: Sequence[Cpu]) -> tuple[Plan, tuple[str, ...]]:
    """The plan with a server's and a generator's processors chosen wherever a cell names none, and why, in words."""
    words: dict[str, None] = {}

    def place(cell: Cell) -> Cell:
        if cell.server.cpus or cell.load.cpus:
            words["as given"] = None
            return cell
        sets = choose_cpus(topology, cell.server.workers, cell.load.threads)
        words[sets.why] = None
        return changed(cell, {"server.cpus": sets.server, "load.cpus": sets.load})

    return _with_cells(plan, place), tuple(words)


def _with_cells(plan: Plan, change: Callable[[Cell], Cell]) -> Plan:
    comparisons = tuple(
        updated(comparison, cells=tuple(change(cell) for cell in comparison.cells)) for comparison in plan.comparisons
    )
    return updated(plan, comparisons=comparisons)
