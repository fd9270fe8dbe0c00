"""Which blocks count, and the values of two sides of a ratio, block by block.

Only whole blocks count: the first attempt without a discarded trial. With many contestants, each contributes its first
trial of the block that is not discarded, or is missing.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from iolab.metrics import Metric, Side, value_of
from iolab.plan.plan import RETRIES_MAX, Place, Plan, blocks_min
from iolab.results.records import SAME_TOPOLOGY_MAX, Result
from iolab.results.remaining import given_up

# The results of a block by slot, and the blocks that count by number.
Row = list[Result | None]
Used = Mapping[int, Row]


# The core-to-core latency before and after a trial; None if unknown.
Edges = tuple[float, float] | None


class Seen(NamedTuple):
    """A trial's value of a metric, and its core-to-core latency."""

    value: float
    core_to_core_ns: Edges


def paired(*sides: tuple[Mapping[int, Seen], Mapping[int, Seen]]) -> tuple[float, ...]:
    """x = ln(above / below) of every block that has both, the mean over all `sides`.

    When a host moves the processors of its guests, the cost of a message between two of them changes by a multiple. So
    blocks in which the core-to-core latency changed are left out, unless too few would be left for an interval. The
    choice depends on neither the contestants nor their values.
    """
    common = sorted(set.intersection(*(above.keys() & below.keys() for above, below in sides)))
    edges = {
        block: [[above[block].core_to_core_ns, below[block].core_to_core_ns] for above, below in sides]
        for block in common
    }
    chosen = chosen_blocks(common, edges)
    logs = ([math.log(above[block].value / below[block].value) for above, below in sides] for block in chosen)
    return tuple(float(np.mean(each)) for each in logs)


def chosen_blocks(common: Sequence[int], edges: Mapping[int, Sequence[Sequence[Edges]]]) -> Sequence[int]:
    """The blocks to pair, out of those both sides have; `edges` has the latencies of each pair of trials, by block."""
    even = [block for block in common if all(map(is_same_topology, edges[block]))]
    return even if len(even) >= blocks_min(1) else common


def is_same_topology(core_to_core_ns: Iterable[Edges]) -> bool:
    """Whether the core-to-core latency stayed the same over these trials; unknown ones do not count."""
    known = [ns for edges in core_to_core_ns if edges is not None for ns in edges]
    return not known or max(known) <= SAME_TOPOLOGY_MAX * min(known)


def values_of(
    used: Used,
    metric: Metric,
    slot: int,
    side: Side = "server",
    processors: int | None = None,
    *,
    above_zero: bool = True,
) -> dict[int, Seen]:
    """One contestant's values of a metric by block, for the blocks that count and have a value (above zero)."""
    values = {
        block: (value_of(row[slot], metric, side, processors), core_to_core_of(row[slot]))
        for block, row in used.items()
    }
    return {
        block: Seen(value, edges_ns)
        for block, (value, edges_ns) in values.items()
        if value is not None and (value > 0 or not above_zero)
    }


def core_to_core_of(result: Result | None) -> Edges:
    return None if result is None or result.noise is None else result.noise.core_to_core_ns


def used_blocks(plan: Plan, comparison: int, done: Mapping[Place, Result]) -> tuple[dict[int, Row], int, int]:
    """The blocks that count, by number; the number of complete blocks; and the number of discarded ones."""
    gone = {slot for index, slot in given_up(done) if index == comparison}
    used: dict[int, Row] = {}
    complete = discarded = 0
    for block in range(plan.blocks):
        rows = [
            [
                None if slot in gone else done.get(Place(comparison, block, attempt, slot))
                for slot in range(len(plan.comparisons[comparison].cells))
            ]
            for attempt in range(RETRIES_MAX + 1)
        ]
        judged = _block_of_many(rows, gone) if plan.comparisons[comparison].many else _block_of_few(rows, gone)
        if judged.row is not None:
            used[block] = judged.row
        complete += judged.complete
        discarded += judged.discarded
    return used, complete, discarded


class _Block(NamedTuple):
    """The trials of a block if they count, how often it was completed, and how often it was discarded."""

    row: Row | None
    complete: int
    discarded: int


def _block_of_few(rows: Sequence[Row], gone: Container[int]) -> _Block:
    """The first attempt without a discarded trial. A trial whose server broke is missing; the others still count."""
    complete = discarded = 0
    for attempt, row in enumerate(rows):
        running = [result for slot, result in enumerate(row) if slot not in gone]
        if not running or any(result is None for result in running):
            break
        # An unsettled first attempt counts as discarded only until there is a second one.
        if attempt == 0 and any(result is not None for result in rows[1]) and _only_unsettled(running):
            continue
        complete += 1
        whole = [None if result is None or _broke(result) else result for result in row]
        if not any(result.discarded for result in whole if result is not None):
            return _Block(whole if any(whole) else None, complete, discarded)
        discarded += 1
    return _Block(None, complete, discarded)


def _block_of_many(rows: Sequence[Row], gone: Container[int]) -> _Block:
    """The first trial of each contestant that is not discarded; a contestant without one is missing.

    If most of a block is missing, the machine was disturbed and the whole block is discarded.
    """
    running = [slot for slot in range(len(rows[0])) if slot not in gone]
    if not running or any(rows[0][slot] is None for slot in running):
        return _Block(None, 0, 0)
    row = [
        next((result for result in tried if result is not None and not result.discarded), None)
        for tried in zip(*rows, strict=True)
    ]
    missing = sum(row[slot] is None for slot in running)
    return _Block(None, 1, 1) if missing * 2 > len(running) else _Block(row, 1, 0)


def _broke(result: Result) -> bool:
    return result.discarded and not result.is_to_be_repeated


def _only_unsettled(row: Iterable[Result | None]) -> bool:
    """Whether a block is discarded only for a short warm-up. The second attempt warms up twice as long."""
    results = [result for result in row if result is not None]
    words = {warning.word for result in results for warning in result.warnings if warning.discards}
    return words == {"never_steady"} and all(result.failure is None for result in results)
