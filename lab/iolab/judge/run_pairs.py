"""Matches the cells of two stored runs, and finds what else differs between the runs.

Cells match by the name of their comparison and the title of their contestant. If each run has exactly one contestant of
a comparison without a match, it was renamed, and the two match.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from iolab.judge.results import Results
from iolab.plan.plan import Comparison
from iolab.plan.settings import Cell, settings_of
from iolab.wording import listed

# What must be equal in two runs unless `iolab compare --allow` names it.
Circumstance = Literal["machine", "engine", "plan"]
ADVICE: dict[Circumstance, str] = {
    "machine": "measure both on one machine",
    "engine": "measure both with one iolab",
    "plan": "measure both with the same settings",
}
# The compared parts of a machine's identity. The engine is a separate circumstance, and the programs are under test.
MACHINE = ("host", "kernel", "processor")
# Processors are chosen for each machine, so between machines these settings may differ.
CHOSEN = frozenset({"server.cpus", "load.cpus"})
# A line names at most this many items that only one run has.
NAMED_MAX = 3


class CellPair(NamedTuple):
    """One contestant in both runs: the index of the comparison and the slot in each."""

    at_a: int
    slot_a: int
    at_b: int
    slot_b: int


def cell_pairs(a: Results, b: Results) -> list[CellPair]:
    """The matching cells, in the order of A."""
    at_b = {comparison.name: number for number, comparison in enumerate(b.plan.comparisons)}
    return [
        CellPair(number, slot_a, at_b[comparison.name], slot_b)
        for number, comparison in enumerate(a.plan.comparisons)
        if comparison.name in at_b
        for slot_a, slot_b in _slots(comparison, b.plan.comparisons[at_b[comparison.name]])
    ]


def _slots(a: Comparison, b: Comparison) -> Iterator[tuple[int, int]]:
    """The slots of matching contestants."""
    lone_a = [title for title in a.titles if title not in b.titles]
    lone_b = [title for title in b.titles if title not in a.titles]
    renamed = {lone_a[0]: lone_b[0]} if len(lone_a) == len(lone_b) == 1 else {}
    for slot, title in enumerate(a.titles):
        namesake = renamed.get(title, title)
        if namesake in b.titles:
            yield slot, b.titles.index(namesake)


def unpaired_contestants(a: Results, b: Results) -> tuple[list[str], list[str]]:
    """The contestants of common comparisons that only run A has, and those that only run B has."""
    pairs = cell_pairs(a, b)
    paired = (
        {(pair.at_a, pair.slot_a) for pair in pairs},
        {(pair.at_b, pair.slot_b) for pair in pairs},
    )
    common = {each.name for each in a.plan.comparisons} & {each.name for each in b.plan.comparisons}
    only_a, only_b = (
        list(
            dict.fromkeys(
                title
                for number, comparison in enumerate(run.plan.comparisons)
                for slot, title in enumerate(comparison.titles)
                if comparison.name in common and (number, slot) not in known
            )
        )
        for run, known in zip((a, b), paired, strict=True)
    )
    return only_a, only_b


def differences(a: Results, b: Results) -> dict[Circumstance, str]:
    """The circumstances that differ between two runs, with a line for each."""
    machine = _machine(a.machine, b.machine)
    found: dict[Circumstance, str] = {}
    if machine:
        found["machine"] = f"the runs are of different machines: {machine}"
    if engine := _engine(a, b):
        found["engine"] = engine
    if plan := _plan(a, b, frozenset() if not machine else CHOSEN):
        found["plan"] = plan
    return found


def _machine(a: Mapping[str, Any], b: Mapping[str, Any]) -> str:
    """The differences between two machines, such as `kernel 6.1 in A and 6.18 in B`."""
    known = [
        {key: run.get("identity", {}).get(key) for key in MACHINE} | {"processors": run.get("cpu", {}).get("logical")}
        for run in (a, b)
    ]
    return ", ".join(
        f"{key} {_of_both(known[0][key], known[1][key])}" for key in known[0] if known[0][key] != known[1][key]
    )


def _engine(a: Results, b: Results) -> str:
    """A line if the load generators are different builds, which affects every figure.

    Empty if all servers are models of the engine: then its builds are under test.
    """
    builds = [run.machine.get("identity", {}).get("engine") for run in (a, b)]
    cells = [cell for run in (a, b) for comparison in run.plan.comparisons for cell in comparison.cells]
    if builds[0] == builds[1] or all(is_model(run, cell) for run in (a, b) for cell in cells):
        return ""
    return f"the load generators are of different builds: {_of_both(*builds)}"


def _plan(a: Results, b: Results, chosen: frozenset[str]) -> str:
    """The settings that differ, and the comparisons that only one run has."""
    changed: dict[str, str] = {}
    for pair in cell_pairs(a, b):
        before = settings_of(a.plan.comparisons[pair.at_a].cells[pair.slot_a])
        after = settings_of(b.plan.comparisons[pair.at_b].cells[pair.slot_b])
        for name in dict.fromkeys((*before, *after)):
            if name not in chosen and before.get(name) != after.get(name):
                changed.setdefault(name, f"{name} is {_of_both(before.get(name), after.get(name))}")
    names = [[comparison.name for comparison in run.plan.comparisons] for run in (a, b)]
    alone = [[name for name in mine if name not in others] for mine, others in (names, names[::-1])]
    parts = [
        *changed.values(),
        *(f"only {run} has {_named(each)}" for run, each in zip("AB", alone, strict=True) if each),
    ]
    return f"the runs have different plans: {'; '.join(parts)}" if parts else ""


def _of_both(a: object, b: object) -> str:
    return f"{_shown(a)} in A and {_shown(b)} in B"


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "none"
    return "unknown" if value is None else str(value)


def _named(names: Iterable[str]) -> str:
    names = list(names)
    more = len(names) - NAMED_MAX
    return listed(names) if more <= 0 else f"{', '.join(names[:NAMED_MAX])} and {more} more"


def is_model(run: Results, cell: Cell) -> bool:
    """Whether a server is a model of the engine; other programs have their own digests in the record."""
    return cell.contestant.kind == "named" and cell.contestant.text not in _programs(run)


def program_of(run: Results, cell: Cell) -> object:
    """The identity of a server's program, equal for equal programs; None if it is unknown."""
    if is_model(run, cell):
        engine = run.machine.get("engine") or {}
        return engine.get("sha256") or run.machine.get("identity", {}).get("engine")
    files: Mapping[str, str] = _programs(run).get(cell.contestant.text, {})
    return sorted(files.items()) or None


def _programs(run: Results) -> Mapping[str, Mapping[str, str]]:
    programs: Mapping[str, Mapping[str, str]] = run.machine.get("identity", {}).get("programs") or {}
    return programs


def references(a: Results, b: Results, pairs: Sequence[CellPair]) -> list[CellPair]:
    """The contestants of a comparison with the same program in both runs, the best reference first.

    Models of the engine come first: the engine is one file. A command may load files that the record does not cover.
    """
    unchanged = []
    for pair in pairs:
        cell_a = a.plan.comparisons[pair.at_a].cells[pair.slot_a]
        cell_b = b.plan.comparisons[pair.at_b].cells[pair.slot_b]
        program = program_of(a, cell_a)
        if program is not None and program == program_of(b, cell_b):
            unchanged.append((not is_model(a, cell_a), pair))
    return [pair for _, pair in sorted(unchanged, key=lambda each: each[0])] if len(pairs) > 1 else []
