"""The trials of a plan that are left to run, given the results so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from iolab.plan.plan import RETRIES_MAX, Place, Plan, Trial
from iolab.plan.schedule import block_trials, shuffled
from iolab.results.records import CostCount, Result

# The share of its trials that a comparison may run again, so that reruns add at most half of the planned time.
RERUN_SHARE_MAX = 0.5


def remaining(plan: Plan, results: Iterable[Result]) -> tuple[Trial, ...]:
    """The trials left to run, in order, as far as they are known; call it again after each result. Empty when done.

    A contestant with a final failure is left out of its comparison. A resumed run continues within its block. In a
    comparison of many contestants, a discarded trial is run again at the end of its own block: see `_Reruns`. Other
    comparisons run whole blocks again after all others, at most half as many as they have blocks. So a run keeps near
    its planned time, and a comparison that needs more is inconclusive anyway. Once a budget is used up, only the block
    that has begun is run to its end, and nothing is run again.
    """
    results = tuple(results)
    done = {result.trial.place: result for result in results if plan.holds(result.trial)}
    gone = given_up(done)
    blocks = [
        (comparison, block)
        for block in range(min(plan.blocks, begun(results)) if plan.is_used_up else plan.blocks)
        for comparison in shuffled(range(len(plan.comparisons)), plan.seed, block)
    ]
    again = _Reruns(plan, done)
    first = [
        trial
        for comparison, block in blocks
        for trial in (*block_trials(plan, comparison, block, attempt=0), *again.of_block(comparison, block))
        if trial.place not in done and (comparison, trial.slot) not in gone
    ]
    if first or plan.is_used_up:
        return tuple(first)
    return _whole_blocks_again(plan, done, gone, blocks)


def begun(results: Iterable[Result]) -> int:
    """How many blocks have begun."""
    return max((result.trial.block + 1 for result in results), default=0)


class _Reruns:
    """The reruns of discarded trials in comparisons of many contestants, block by block in the order of the schedule.

    Pairing relies on nearness in time. A trial that is run again at the end of its own block, some seconds later, is
    still near the others of the block; at the end of the run it would not be. Being last favours no contestant, because
    no rule that discards a trial looks at its result.

    The budget has three limits. A trial is run again at most RETRIES_MAX times: three discarded trials in a row are no
    accident. A contestant has as many reruns as there are blocks, so one that is always discarded cannot use up those
    of the others. A comparison has half as many reruns as trials, so it takes at most half as long again as planned.
    """

    def __init__(self, plan: Plan, done: Mapping[Place, Result]) -> None:
        self._plan, self._done = plan, done
        self._gone = given_up(done)
        self._spent = Counter[int]()
        self._spent_by = Counter[tuple[int, int]]()

    def of_block(self, comparison: int, block: int) -> Iterator[Trial]:
        """The reruns in this block, done or not, as far as they are known. Call it for the blocks in order."""
        if not self._plan.comparisons[comparison].many:
            return
        discarded = self._discarded(block_trials(self._plan, comparison, block, attempt=0))
        for attempt in range(1, RETRIES_MAX + 1):
            trials = block_trials(self._plan, comparison, block, attempt)
            chosen = [trial for trial in trials if trial.slot in discarded and self._may_run(trial)]
            yield from chosen
            discarded = self._discarded(chosen)

    def _discarded(self, trials: Iterable[Trial]) -> Set[int]:
        """The slots whose trials are discarded; none while a trial is left to run."""
        discarded = set()
        for trial in trials:
            result = self._done.get(trial.place)
            if result is None and (trial.comparison, trial.slot) not in self._gone:
                return set()
            if result is not None and result.is_to_be_repeated:
                discarded.add(trial.slot)
        return discarded

    def _may_run(self, trial: Trial) -> bool:
        """Whether the budget allows this rerun. If so, the rerun is charged to it."""
        place = (trial.comparison, trial.slot)
        trials = self._plan.blocks * len(self._plan.comparisons[trial.comparison].cells)
        is_done = trial.place in self._done
        if not is_done and (
            self._plan.is_used_up
            or place in self._gone
            or self._spent_by[place] >= self._plan.blocks
            or self._spent[trial.comparison] >= max(1, int(trials * RERUN_SHARE_MAX))
        ):
            return False
        self._spent[trial.comparison] += 1
        self._spent_by[place] += 1
        return True


def _whole_blocks_again(
    plan: Plan, done: Mapping[Place, Result], gone: Set[tuple[int, int]], blocks: Sequence[tuple[int, int]]
) -> tuple[Trial, ...]:
    """The next whole blocks to run again, in comparisons of few contestants; empty when none is left."""
    blocks = [(comparison, block) for comparison, block in blocks if not plan.comparisons[comparison].many]
    reruns = Counter[int]()
    reruns_max = max(1, int(plan.blocks * RERUN_SHARE_MAX))
    for attempt in range(RETRIES_MAX):
        again = []
        for comparison, block in blocks:
            slots = range(len(plan.comparisons[comparison].cells))
            places = (Place(comparison, block, attempt, slot) for slot in slots if (comparison, slot) not in gone)
            if any(done[place].is_to_be_repeated for place in places) and reruns[comparison] < reruns_max:
                reruns[comparison] += 1
                again.append((comparison, block))
        rest = tuple(
            trial
            for comparison, block in again
            for trial in block_trials(plan, comparison, block, attempt + 1)
            if trial.place not in done and (comparison, trial.slot) not in gone
        )
        if rest:
            return rest
        blocks = again
    return ()


def uncounted(plan: Plan, results: Sequence[Result], counts: Iterable[CostCount]) -> tuple[tuple[int, int], ...]:
    """The (comparison, slot) pairs that take part and whose costs are not counted yet."""
    gone = given_up({result.trial.place: result for result in results if plan.holds(result.trial)})
    # A server that broke in a long trial is not started again for a count.
    broke = {(each.trial.comparison, each.trial.slot) for each in results if each.failure is not None and each.pieces}
    known = {(count.comparison, count.slot) for count in counts if count.is_of(plan)}
    return tuple(
        (at, slot)
        for at, comparison in enumerate(plan.comparisons)
        for slot in range(len(comparison.cells))
        if (at, slot) not in gone | known | broke
    )


def given_up(done: Mapping[Place, Result]) -> frozenset[tuple[int, int]]:
    """The (comparison, slot) pairs whose failure was final. They take no part; the others can still be compared."""
    return frozenset(
        (place.comparison, place.slot)
        for place, result in done.items()
        if result.failure is not None and result.failure.final
    )
