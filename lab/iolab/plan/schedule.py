"""The order in which the trials of a plan run. It depends only on the seed, so that a run can be resumed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from iolab.plan.plan import Plan, Trial


def schedule(plan: Plan) -> tuple[Trial, ...]:
    """All trials of the plan in the order they run: block after block, with comparisons and contestants shuffled."""
    return tuple(
        trial
        for block in range(plan.blocks)
        for comparison in shuffled(range(len(plan.comparisons)), plan.seed, block)
        for trial in block_trials(plan, comparison, block, attempt=0)
    )


def block_trials(plan: Plan, comparison: int, block: int, attempt: int) -> tuple[Trial, ...]:
    """The trials of one block of one comparison, in their random order."""
    cells = plan.comparisons[comparison].cells
    order = shuffled(range(len(cells)), plan.seed, block, comparison, attempt)
    return tuple(
        Trial(block=block, comparison=comparison, attempt=attempt, slot=slot, position=at, cell=cells[slot].key)
        for at, slot in enumerate(order)
    )


def shuffled(items: Iterable[int], *place: int) -> list[int]:
    """The items in an order that is random by `place` and always the same for one place."""
    return sorted(items, key=lambda item: hashlib.sha256(repr((*place, item)).encode()).digest())
