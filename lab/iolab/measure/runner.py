"""Runs a plan: every trial in order with a fresh server, one line in the store for each, and resumable at any time.

The runner judges no figures. `trial_run` measures a trial and the rules of `judge.trial` judge it; `remaining` lists
the trials left, including discarded blocks that run again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from iolab.contract.types import updated
from iolab.errors import BadInput, IolabError
from iolab.judge import trial
from iolab.measure import programs, pythons, rates
from iolab.measure.agent import Host
from iolab.measure.budget import Budget
from iolab.measure.cost_run import costs
from iolab.measure.earlier_run import began_before, earlier, moved_aside
from iolab.measure.engine import TrialFailed
from iolab.measure.events import (
    BlocksChosen,
    CanTakePart,
    CapacityMeasured,
    MachineBusy,
    OnEvent,
    Opened,
    Probing,
    PutBack,
    TrialBegan,
)
from iolab.measure.first_look import check, kind_of
from iolab.measure.limit_probe import Timed, limit_probe
from iolab.measure.progress import CLOCKS, Clocks, Progress
from iolab.measure.trial_run import measure
from iolab.plan.plan import Plan, Trial
from iolab.plan.settings import Cell
from iolab.results import store
from iolab.results.records import CostCount, Failure, Result, pieces
from iolab.results.remaining import given_up, remaining, uncounted

# A count of syscalls is tried again, because the lab may have been too late for it.
COUNTS_MAX = 3
# Failures caused by the command of a contestant.
BAD_COMMANDS = frozenset({"cannot_start", "wrong_address"})
# The digests of the files of each command, by the command's text.
Executed = dict[str, dict[str, str]]


class ContestantFailed(IolabError):
    """A contestant to compare failed, and nothing is measured without it; `failure` says why."""

    def __init__(self, contestant: str, failure: Failure) -> None:
        super().__init__(f"{contestant}: {failure.line}")
        self.contestant, self.failure = contestant, failure
        is_bad_input = failure.kind in BAD_COMMANDS or failure.kind.startswith("speaks_")
        self.code = BadInput.code if is_bad_input else IolabError.code


class CutOff(IolabError):
    """A long trial was cut off, and not by its server. Its minutes are kept, and the next run continues it."""

    def __init__(self, contestant: str, failure: Failure) -> None:
        super().__init__(f"{contestant}: {failure.line}: its minutes are kept: start the run again to continue")
        self.contestant, self.failure = contestant, failure


def run(
    plan: Plan,
    host: Host,
    runs: Path,
    on_event: OnEvent,
    *,
    left_out: Mapping[tuple[int, int], Failure] | None = None,
    all_or_none: bool = False,
    repeat: bool = False,
    fresh: bool = False,
    since: str = "",
    clocks: Clocks = CLOCKS,
) -> Path:
    """Runs what is left of a plan and returns its folder; raises StoreError if results cannot be stored.

    `left_out` are the (comparison, slot) pairs that cannot take part. An earlier run of another engine, another machine
    or other programs is first set aside under a new name; with `repeat` also a finished run, with `fresh` any run, and
    with `since`, a time in the format of trials, a run that began before it. With `all_or_none` a contestant that fails
    its first check, or dies, ends the run: ContestantFailed.
    """
    began_s = clocks.monotonic_s()
    host.remove_leftovers()
    machine = host.describe()
    folder = store.folder_of(plan, runs)
    executed = _executed(plan, host, folder)
    if executed:
        machine["identity"]["programs"] = executed
    changed, ended = earlier(folder, machine["identity"], store.ended)
    is_old = fresh or bool(changed) or (repeat and ended is not None) or began_before(folder, since)
    if ended is not None and not is_old:
        # The stored machine describes the run when it was measured; only lost lines are left to repeat.
        machine = store.read_machine(folder)
    machine[rates.RECORDED] = {} if is_old else _recorded(folder).get(rates.RECORDED, {})
    with (
        moved_aside(folder, is_old=is_old, put_back=lambda: on_event(PutBack(folder))) as set_aside,
        store.writing(plan, machine, runs) as writer,
    ):
        plan = writer.plan
        progress = Progress(plan, writer, on_event, clocks, all_or_none=all_or_none)
        budget = Budget(progress, began_s, writer.trials.counts)
        done, planned = len(progress.results), progress.planned
        ended = ended if done == planned else None
        on_event(Opened(folder, plan, done, planned, writer.trials.faults, set_aside, changed, ended))
        if plan.choice is not None:
            on_event(BlocksChosen(plan, planned))
        if progress.rest() and (why := trial.machine_busy(host.noise())):
            on_event(MachineBusy(why))
        _leave_out(progress, left_out or {})
        if ended is not None and not uncounted(plan, progress.results, writer.trials.counts):
            return folder
        _check_contestants(progress, host)
        if executed:
            executed = _settled(executed, host.programs(plan))
            machine["identity"]["programs"] = executed
            store.write_machine(folder, machine)
        _measure_capacities(progress, host, folder, machine)
        # From here on, each trial's time starts at the end of the previous one.
        progress.lap_s()
        # Computed again after each trial: in a comparison of many, a discarded trial runs again in its own block.
        while rest := progress.rest() or _rest_after_pilot(progress, budget):
            if not (progress.plan.is_used_up or budget.has_time(rest)):
                _go_on(progress, budget, budget.used_up())
                continue
            _refuse_changed(plan, host, executed)
            progress.look_back(rest[0])
            _run_trial(progress, host, rest[0], machine[rates.RECORDED])
        plan = progress.plan
        left = uncounted(plan, progress.results, writer.trials.counts)
        _refuse_changed(plan, host, executed)
        capacities, timed = machine[rates.RECORDED], Timed(plan, progress.results)
        are_counted = [_count(progress, host, budget, left[number:], capacities, timed) for number in range(len(left))]
        if all(are_counted):
            writer.end(clocks.wall())
    return folder


def _recorded(folder: Path) -> Mapping[str, Any]:
    """The stored machine of the earlier run in a folder; empty without one."""
    with suppress(store.StoreError):
        return store.read_machine(folder)
    return {}


def _measure_capacities(progress: Progress, host: Host, folder: Path, machine: dict[str, Any]) -> None:
    """Measures the capacities that rates are shares of, and stores each at once."""
    plan, known = progress.plan, machine[rates.RECORDED]
    left = {scheduled.comparison for scheduled in progress.rest()}
    for at in (at for at in rates.wanted(plan, known) if at in left):
        gone = given_up({result.trial.place: result for result in progress.results})
        capacity = rates.capacity_per_s(host, plan, at, gone)
        if capacity is not None:
            known[plan.comparisons[at].name] = capacity
            progress.on_event(CapacityMeasured(plan.comparisons[at].name, capacity))
            store.write_machine(folder, machine)


def _executed(plan: Plan, host: Host, folder: Path) -> Executed:
    """The programs of a plan; files that servers wrote in an earlier run of this folder are marked."""
    known = _recorded(folder).get("identity", {}).get("programs", {})
    return {
        command: programs.with_known(files, known.get(command, {})) for command, files in host.programs(plan).items()
    }


def _settled(executed: Executed, now: Executed) -> Executed:
    """The programs of a plan after the first check of its servers; files that the servers wrote are marked."""
    return {command: programs.settled(files, now[command]) for command, files in executed.items()}


def _refuse_changed(plan: Plan, host: Host, executed: Executed) -> None:
    """Raises StoreError if a program has changed since the run began: it would be another server."""
    if changed := programs.changes({"programs": executed}, {"programs": host.programs(plan)}):
        raise store.StoreError(
            f"{changed} since this run began: run it again to measure the new one; its trials are kept"
        )


def _rest_after_pilot(progress: Progress, budget: Budget) -> tuple[Trial, ...]:
    """What is left after the pilot, whose results choose the number of blocks; empty if it is already chosen."""
    if not progress.plan.is_pilot:
        return ()
    _go_on(progress, budget, budget.chosen())
    return progress.rest()


def _go_on(progress: Progress, budget: Budget, plan: Plan) -> None:
    """Continues with another number of blocks and reports it."""
    budget.go_on(plan)
    progress.on_event(BlocksChosen(plan, progress.planned))


def _run_trial(progress: Progress, host: Host, scheduled: Trial, capacities: Mapping[str, float]) -> None:
    progress.on_event(TrialBegan(scheduled, *progress.names(scheduled), progress.left_s()))
    name = progress.plan.comparisons[scheduled.comparison].name
    cell = rates.at_rate(progress.plan.cell(scheduled), capacities.get(name))
    if earlier := progress.minutes_of(scheduled):
        # Continues a trial that was cut off.
        cell = updated(cell, trial=cell.trial.rest(sum(minute.seconds for minute in earlier)))
    is_long = progress.plan.cell(scheduled).trial.is_long
    measured = measure(host, cell, scheduled, progress.clocks, progress.keep_minute if is_long else None)
    measured = pythons.beside_its_twin(progress.plan, progress.results, cell, measured)
    failure, minutes = measured.failure, progress.minutes_of(scheduled)
    if minutes and failure is not None and not (failure.final or failure.of_the_server):
        raise CutOff(progress.names(scheduled)[0], failure)
    # The report of a trial already contains its minutes.
    last = minutes[len(earlier) :] if not measured.is_measured else ()
    took_s = progress.lap_s() + sum(minute.seconds for minute in earlier)
    whole = {"took_s": took_s, "pieces": (*pieces(earlier), *pieces(last))}
    result = trial.judged(cell, measured.model_copy(update=whole))
    progress.keep(result)
    if failure is not None and _ends_the_run(progress, result, failure):
        # The process's last lines were printed when the trial ended.
        raise ContestantFailed(progress.names(scheduled)[0], failure.model_copy(update={"said": ()}))


def _ends_the_run(progress: Progress, result: Result, failure: Failure) -> bool:
    """Whether a failure ends the run because all contestants are to be compared."""
    if result.pieces and not progress.rest():
        # A soak: the minutes of its only trial are its result.
        return False
    return progress.all_or_none and (failure.final or failure.kind == "died")


def _leave_out(progress: Progress, left_out: Mapping[tuple[int, int], Failure]) -> None:
    """Stores, for each contestant that cannot take part, one result that says why: it is never started.

    Also reports contestants that were left out before because the machine lacked something, and can run now.
    """
    able = {
        progress.names(result.trial)[0]: None
        for result in progress.results
        if progress.plan.holds(result.trial)
        and result.failure is not None
        and result.failure.kind == "unavailable"
        and (result.trial.comparison, result.trial.slot) not in left_out
    }
    if able:
        progress.on_event(CanTakePart(tuple(able)))
    for scheduled in remaining(progress.plan, progress.results):
        failure = left_out.get((scheduled.comparison, scheduled.slot))
        if failure is not None and progress.is_wanted(scheduled):
            progress.keep(Result(trial=scheduled, started=progress.clocks.wall(), failure=failure))


def _check_contestants(progress: Progress, host: Host) -> None:
    """Checks each contestant with each workload, path and server setting before the first block.

    One that fails takes no part, or ends the run if all of them are to be compared.
    """
    seen: dict[str, Failure | None] = {}
    for scheduled in remaining(progress.plan, progress.results):
        if not progress.is_wanted(scheduled):
            continue
        cell = progress.plan.cell(scheduled)
        kind = kind_of(cell)
        if kind not in seen:
            checked = check(host, cell, progress.names(scheduled)[0])
            if progress.all_or_none and checked.failure is not None:
                raise ContestantFailed(checked.contestant, checked.failure)
            progress.on_event(checked)
            seen[kind] = checked.failure
        failure = seen[kind]
        if failure is not None:
            progress.keep(Result(trial=scheduled, started=progress.clocks.wall(), failure=failure))


def _count(
    progress: Progress,
    host: Host,
    budget: Budget,
    left: Sequence[tuple[int, int]],
    capacities: Mapping[str, float],
    timed: Timed,
) -> bool:
    """Stores the costs of the first of these contestants, measured in a separate trial, or why they cannot be measured.
    If the timed trials leave its limit open and there is time, short trials probe that too.

    False after a passing failure, so that it is counted again later.
    """
    comparison, slot = left[0]
    name = progress.plan.comparisons[comparison].name
    cell = rates.at_rate(progress.plan.counting_cell(comparison, slot), capacities.get(name))
    passing = False
    for _ in range(COUNTS_MAX):
        try:
            seen, passing = costs(host, cell), False
        except TrialFailed as failed:
            seen, passing = {"why_not": failed.failure.message}, not failed.failure.final
        if not (passing and budget.has_time_for((cell,), then=len(left) - 1)):
            break
    key = progress.plan.comparisons[comparison].cells[slot].key
    # A resumed run repeats the count after a passing failure, and the probe of the limit with it.
    probe = None
    if not passing:
        begins = partial(_probing, progress, budget, left)
        probe = limit_probe(host, timed, comparison, slot, begins)
    count = CostCount(comparison=comparison, slot=slot, cell=key, limit=probe, took_s=progress.lap_s(), **seen)
    progress.keep_count(count, passing=passing)
    return not passing


def _probing(
    progress: Progress, budget: Budget, left: Sequence[tuple[int, int]], what: str, cells: Sequence[Cell]
) -> bool:
    """Reports that trials of these cells begin; False if there is no time for them."""
    if not budget.has_time_for(cells, then=len(left) - 1):
        return False
    at, slot = left[0]
    comparison = progress.plan.comparisons[at]
    progress.on_event(Probing(comparison.titles[slot], comparison.name, what))
    return True
