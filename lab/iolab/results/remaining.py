"""What is left to run of a plan, given what has come back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from iolab.plan.plan import RETRIES_MAX, Place, Plan, Trial
from iolab.plan.schedule import block_trials, shuffled
from iolab.results.records import CostCount, Result

# A comparison runs at most this share of its trials again, so that it takes at most half as long again as planned.
RERUN_SHARE_MAX = 0.5


def remaining(plan: Plan, results: Iterable[Result]) -> tuple[Trial, ...]:
    """What is still to be run, in order, as far as it is known; ask again after each result.

    A contestant whose failure was final is left out of its comparison. A resumed run goes on within the block it was
    torn from. Of many contestants a void trial is run again at the end of its own block, before the next block begins:
    see `_Reruns`. Other comparisons have whole blocks run again after all others, void ones and unsettled ones
    alike, until a comparison has had half as many of them as it has blocks: so a run keeps near its planned time, and
    a comparison that needs more is inconclusive anyway. An empty answer means that the plan is done.
    """
    done = {result.trial.place: result for result in results if plan.holds(result.trial)}
    gone = given_up(done)
    blocks = [
        (comparison, block)
        for block in range(plan.blocks)
        for comparison in shuffled(range(len(plan.comparisons)), plan.seed, block)
    ]
    again = _Reruns(plan, done)
    first = [
        trial
        for comparison, block in blocks
        for trial in (*block_trials(plan, comparison, block, attempt=0), *again.of_block(comparison, block))
        if trial.place not in done and (comparison, trial.slot) not in gone
    ]
    return tuple(first) or _whole_blocks_again(plan, done, gone, blocks)


class _Reruns:
    """The void trials of comparisons of many that are run again, block by block in the order of the schedule.

    Pairing relies on nearness in time: a trial that is run again some seconds later, at the end of its own block, is
    still beside the others of it; at the end of the run it would share nothing with them. That it comes last does not
    favour anybody, because no rule that voids a trial looks at its result. The budget has three parts. Each trial is
    run again RETRIES_MAX times at most: three void trials in a row are no accident. A contestant has as many reruns as
    there are blocks, so that one that is always void cannot spend those of the others. And a comparison has half as
    many as it has trials, so that it takes half as long again at most, as with two contestants.
    """

    def __init__(self, plan: Plan, done: Mapping[Place, Result]) -> None:
        self._plan, self._done = plan, done
        self._gone = given_up(done)
        self._spent = Counter[int]()
        self._spent_by = Counter[tuple[int, int]]()

    def of_block(self, comparison: int, block: int) -> Iterator[Trial]:
        """What is run again in this block, done or not, as far as it is known. Ask for the blocks in their order."""
        if not self._plan.comparisons[comparison].many:
            return
        void = self._void(block_trials(self._plan, comparison, block, attempt=0))
        for attempt in range(1, RETRIES_MAX + 1):
            trials = block_trials(self._plan, comparison, block, attempt)
            chosen = [trial for trial in trials if trial.slot in void and self._may_run(trial)]
            yield from chosen
            void = self._void(chosen)

    def _void(self, trials: Iterable[Trial]) -> Set[int]:
        """The slots whose trials came out void; none while a trial is still to be run."""
        void = set()
        for trial in trials:
            result = self._done.get(trial.place)
            if result is None and (trial.comparison, trial.slot) not in self._gone:
                return set()
            if result is not None and result.void:
                void.add(trial.slot)
        return void

    def _may_run(self, trial: Trial) -> bool:
        """Whether the budget allows this rerun, which it is then charged for."""
        place = (trial.comparison, trial.slot)
        trials = self._plan.blocks * len(self._plan.comparisons[trial.comparison].cells)
        is_done = trial.place in self._done
        if not is_done and (
            place in self._gone
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
    """The next blocks that are run again as a whole, of the comparisons of few; empty when none is left to be."""
    blocks = [(comparison, block) for comparison, block in blocks if not plan.comparisons[comparison].many]
    reruns = Counter[int]()
    reruns_max = max(1, int(plan.blocks * RERUN_SHARE_MAX))
    for attempt in range(RETRIES_MAX):
        again = []
        for comparison, block in blocks:
            slots = range(len(plan.comparisons[comparison].cells))
            places = (Place(comparison, block, attempt, slot) for slot in slots if (comparison, slot) not in gone)
            if any(done[place].void for place in places) and reruns[comparison] < reruns_max:
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


def uncounted(plan: Plan, results: Iterable[Result], counts: Iterable[CostCount]) -> tuple[tuple[int, int], ...]:
    """The (comparison, slot) pairs that take part and whose costs have not been seen yet."""
    gone = given_up({result.trial.place: result for result in results if plan.holds(result.trial)})
    known = {(count.comparison, count.slot) for count in counts if count.is_of(plan)}
    return tuple(
        (at, slot)
        for at, comparison in enumerate(plan.comparisons)
        for slot in range(len(comparison.cells))
        if (at, slot) not in gone | known
    )


def given_up(done: Mapping[Place, Result]) -> frozenset[tuple[int, int]]:
    """The (comparison, slot) pairs that failed for good: they take no part, so the others can still be compared."""
    return frozenset(
        (place.comparison, place.slot)
        for place, result in done.items()
        if result.failure is not None and result.failure.final
    )
