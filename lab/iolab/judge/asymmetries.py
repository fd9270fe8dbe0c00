"""Differences between the contestants of a comparison besides the one under test. They can change the ratio.

Three sources are compared: the requested settings, the `ready` lines of the servers in all trials, and the resources
used in the trials that count. `judge/replies.py` handles replies of unequal size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from iolab.contract.types import Frozen, ServeReady
from iolab.judge.blocks import Used
from iolab.plan.plan import Comparison
from iolab.plan.settings import settings_of
from iolab.results.records import Result, ServerUsage

# A difference in used processors, in cores, above which the servers did not use equal resources.
CORES_APART = 0.1
# A server that used more than one processor, and this many times those of another, had more resources.
CORES_TIMES = 1.5
# With more contestants than this, a fact that differs is listed only for the exceptions.
NAMED_MAX = 4
BACKLOG = "backlog"
# The parser of a program that is not the engine's.
OWN = "its own"

# Trials of each contestant, by slot.
Seen = Mapping[int, Sequence[Result]]


class Asymmetry(Frozen):
    """A fact that was not the same for all contestants.

    `aspect` is the dotted name of a setting, or `backlog`, `parser` (what parses requests and builds replies),
    `moves_connections` (from one thread to another), `cores_used`, `tasks`, `missing_features` or `known_defects`.
    `had` describes the fact for each contestant, if known; `text` is one sentence on all. It `warns` unless it is the
    difference under test, or a result of equal resources.
    """

    aspect: str
    had: dict[str, str]
    text: str
    warns: bool


def asymmetries_of(comparison: Comparison, used: Used, results: Sequence[Result]) -> tuple[Asymmetry, ...]:
    """All differences between the contestants of a comparison; `results` are all its trials."""
    slots = range(len(comparison.cells))
    counted = {slot: [row[slot] for row in used.values()] for slot in slots}
    seen = {slot: [each for each in results if each.trial.slot == slot] for slot in slots}
    servers = {slot: usage for slot, trials in counted.items() if (usage := _usage(trials))}
    ready = {slot: said for slot, results in seen.items() if (said := _ready(results)) is not None}
    return (
        *_settings(comparison),
        *_backlogs(comparison),
        *_libraries(comparison, seen, ready),
        *_moves(comparison, ready),
        *_cores(comparison.titles, servers),
        *_tasks(comparison.titles, servers),
        *_said(comparison.titles, seen),
    )


def _usage(results: Iterable[Result | None]) -> list[ServerUsage]:
    return [each.server for each in results if each is not None and each.server is not None]


def _ready(results: Sequence[Result]) -> ServeReady | None:
    """The `ready` line of the first trial that has one; only models of the engine print it."""
    return next((result.ready for result in results if result.ready is not None), None)


def _settings(comparison: Comparison) -> Iterator[Asymmetry]:
    """Settings that differ between contestants. If all are one server, the settings are the difference under test."""
    warns = len({cell.contestant.text for cell in comparison.cells}) > 1
    tables = [settings_of(cell) for cell in comparison.cells]
    for name in dict.fromkeys(name for table in tables for name in table):
        had = {title: _text(table.get(name)) for title, table in zip(comparison.titles, tables, strict=True)}
        yield from _unless_equal(name, name, had, warns=warns)


def _backlogs(comparison: Comparison) -> Iterator[Asymmetry]:
    """The one option that all models have. If all are one model, its options are the difference under test."""
    if _is_of_one_server(comparison):
        return
    chosen = [cell.contestant.options.get(BACKLOG) for cell in comparison.cells]
    had = {title: value or "its default" for title, value in zip(comparison.titles, chosen, strict=True)}
    yield from _unless_equal(BACKLOG, "Connections that the kernel holds until they are accepted", had)


def _libraries(comparison: Comparison, seen: Seen, ready: Mapping[int, ServeReady]) -> Iterator[Asymmetry]:
    """What parses requests and builds replies. A program with its own parser is expected, so it does not warn."""
    if any(said.parser is None for said in ready.values()):
        return
    known = {slot: said.parser or "" for slot, said in ready.items()}
    measured = [slot for slot, results in seen.items() if any(each.is_measured for each in results)]
    if known:
        had = {comparison.titles[slot]: known.get(slot, OWN) for slot in measured}
        what = "What parses requests and builds replies"
        yield from _unless_equal("parser", what, had, warns=known.keys() >= set(measured))


def _moves(comparison: Comparison, ready: Mapping[int, ServeReady]) -> Iterator[Asymmetry]:
    """Whether the runtime may move a connection between its threads."""
    known = {slot: said.moves_connections for slot, said in ready.items() if said.moves_connections is not None}
    had = {comparison.titles[slot]: "yes" if moves else "no" for slot, moves in known.items()}
    what = "Connections may move from one thread to another"
    yield from _unless_equal("moves_connections", what, had, warns=not _is_of_one_server(comparison))


def _is_of_one_server(comparison: Comparison) -> bool:
    return len({cell.contestant.name for cell in comparison.cells}) == 1


def _cores(titles: Sequence[str], servers: Mapping[int, Sequence[ServerUsage]]) -> Iterator[Asymmetry]:
    """How many processors the servers used."""
    cores = {slot: float(np.median([each.cpu_ns / each.wall_ns for each in usage])) for slot, usage in servers.items()}
    least, most = min(cores.values(), default=0.0), max(cores.values(), default=0.0)
    if most - least > CORES_APART:
        had = {titles[slot]: f"{value:.2f}" for slot, value in cores.items()}
        yield from _unless_equal(
            "cores_used", "Cores used", had, warns=most > max(1 + CORES_APART, CORES_TIMES * least)
        )


def _tasks(titles: Sequence[str], servers: Mapping[int, Sequence[ServerUsage]]) -> Iterator[Asymmetry]:
    """How many processes and threads the servers had: most models differ in that by design."""
    counts = {slot: Counter((each.processes, each.threads) for each in usage) for slot, usage in servers.items()}
    had = {titles[slot]: _tasks_words(*count.most_common(1)[0][0]) for slot, count in counts.items()}
    yield from _unless_equal("tasks", "How many the kernel had to schedule", had, warns=False)


def _tasks_words(processes: int, threads: int) -> str:
    processes_words = f"{processes} process{'' if processes == 1 else 'es'}"
    return f"{processes_words} with {threads} thread{'' if threads == 1 else 's'}"


def _said(titles: Sequence[str], seen: Seen) -> Iterator[Asymmetry]:
    """Kernel features that servers reported as missing, and known defects."""
    ready = {slot: [each.ready for each in results if each.ready is not None] for slot, results in seen.items()}
    for slot, said in ready.items():
        if lacks := ", ".join(dict.fromkeys(what for each in said for what in each.lacks)):
            text = f"{titles[slot]} ran without what this kernel lacks: {lacks}."
            yield Asymmetry(aspect="missing_features", had={titles[slot]: lacks}, text=text, warns=False)
    for slot, said in ready.items():
        if defects := "; ".join(dict.fromkeys(what for each in said for what in each.defects)):
            text = f"{titles[slot]} has a known defect, to be faithful to its model: {defects}."
            yield Asymmetry(aspect="known_defects", had={titles[slot]: defects}, text=text, warns=False)


def _unless_equal(aspect: str, what: str, had: dict[str, str], *, warns: bool = True) -> Iterator[Asymmetry]:
    if len(set(had.values())) > 1:
        yield Asymmetry(aspect=aspect, had=had, text=f"{what}: {_each(had)}.", warns=warns)


def _each(had: Mapping[str, str]) -> str:
    """The fact for each contestant, or with many only for those that differ from most."""
    usual, count = Counter(had.values()).most_common(1)[0]
    if len(had) <= NAMED_MAX or count < 2:
        return ", ".join(f"{title} {what}" for title, what in had.items())
    return ", ".join([*(f"{title} {what}" for title, what in had.items() if what != usual), f"the others {usual}"])


def _text(value: object) -> str:
    """A setting in words."""
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "any"
    if isinstance(value, Mapping):
        return " ".join(f"{name}={each}" for name, each in value.items()) or "none"
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
