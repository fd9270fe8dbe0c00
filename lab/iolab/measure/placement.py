"""The processors that the server and the generator of each cell run on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iolab.contract.types import updated
from iolab.machine.cpus import Cpu, CpuSets, choose_cpus, cpus_beside, one_cpu
from iolab.plan.plan import Plan
from iolab.plan.settings import Cell, changed


def placed(plan: Plan, topology: Sequence[Cpu]) -> tuple[Plan, tuple[str, ...]]:
    """The plan with processors chosen for the server and generator of each cell that names none, and the reason."""
    words: dict[str, None] = {}

    def place(cell: Cell) -> Cell:
        sets = _sets(cell, topology)
        words[sets.why] = None
        return changed(cell, {"server.cpus": sets.server, "load.cpus": sets.load})

    return _with_cells(plan, place), tuple(words)


def _sets(cell: Cell, topology: Sequence[Cpu]) -> CpuSets:
    """The processors of a cell: those it names, and for the other side processors that share no core with them."""
    server, load, threads = cell.server.cpus, cell.load.cpus, cell.load.threads_in_all
    if cell.trial.processors == "shared":
        both = server or load or one_cpu(topology)
        return CpuSets(server or both, load or both, "one processor for both sides, as asked for")
    if server and load:
        return CpuSets(server, load, "as given")
    if server:
        return CpuSets(server, cpus_beside(topology, server, threads), "the server as given, the generator beside it")
    if load:
        return CpuSets(
            cpus_beside(topology, load, cell.server.workers_in_all),
            load,
            "the generator as given, the server beside it",
        )
    return choose_cpus(topology, cell.server.workers_in_all, threads)


def _with_cells(plan: Plan, change: Callable[[Cell], Cell]) -> Plan:
    comparisons = tuple(
        updated(comparison, cells=tuple(change(cell) for cell in comparison.cells)) for comparison in plan.comparisons
    )
    return updated(plan, comparisons=comparisons)
