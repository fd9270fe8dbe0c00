"""A stored run of a comparison or an experiment: one folder for each run, one line for each trial.

    runs/<name>-<plan digest>/  plan.json  machine.json  trials.jsonl  costs.jsonl  report.html

A trial is appended to trials.jsonl when it is over (see `journal`), so a crash loses at most the trial that was being
written; it is run again. Trials that counted syscalls are in costs.jsonl, because they must not be mixed with timed
ones. A long trial is also stored minute by minute, in minutes.jsonl, and continued after an interruption. Only one
process at a time may write a run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from iolab.contract.types import one_line, updated
from iolab.errors import NotResumable
from iolab.errors import StoreError as StoreError
from iolab.plan.plan import Place, Plan, Trial
from iolab.results import journal, layout, older
from iolab.results.files import make_folder, remove_folder, unread, write_file
from iolab.results.journal import Journal
from iolab.results.records import CostCount, Minute, Result
from iolab.results.remaining import remaining, uncounted

# The key of machine.json for when a run had nothing left to do.
ENDED = "ended"
OfCell = TypeVar("OfCell", Trial, CostCount)


@dataclass(frozen=True)
class Trials:
    """The record of a run: results and counts in the order they were written, and one line for each lost one."""

    results: tuple[Result, ...]
    faults: tuple[str, ...]
    counts: tuple[CostCount, ...] = ()
    minutes: tuple[Minute, ...] = ()


@dataclass(frozen=True)
class Writer:
    """An open, locked run, from `writing`; it appends results and counts.

    `plan` is the requested plan, with the number of blocks that an earlier run in this folder chose after its pilot.
    """

    folder: Path
    plan: Plan
    trials: Trials
    machine: Mapping[str, Any]
    _results: Journal
    _counts: Journal

    def append(self, record: Result | CostCount) -> None:
        """Adds one finished trial and syncs it to disk; raises StoreError, and then nothing was added."""
        (self._results if isinstance(record, Result) else self._counts).append(record)

    def append_minute(self, minute: Minute) -> None:
        """Adds a minute of a running trial; raises StoreError, and then nothing was added."""
        with journal.opened(self.folder / layout.MINUTES) as minutes:
            minutes.cut_torn_line()
            minutes.append(minute)

    def choose(self, plan: Plan) -> None:
        """Replaces the plan by one with the number of blocks chosen after its pilot; raises StoreError."""
        _write_plan(self.folder, plan)

    def end(self, when: str) -> None:
        """Records that nothing is left to do, and since when."""
        write_machine(self.folder, {**self.machine, ENDED: when})


def folder_of(plan: Plan, runs: Path) -> Path:
    """The folder of a plan: the same for the same plan, and different for different plans."""
    return runs / f"{plan.name}-{plan.digest}"


@contextmanager
def writing(plan: Plan, machine: Mapping[str, Any], runs: Path) -> Iterator[Writer]:
    """Opens the folder of a plan for writing, made or resumed; raises StoreError.

    `machine` is any JSON document. To resume a run, its key `identity` (engine build, kernel, host, processor) must be
    equal, because trials of two builds or two machines are not one comparison. A run keeps the number of blocks chosen
    after its pilot. A finished run keeps its stored machine, which describes the machine when it was measured.
    """
    folder = folder_of(plan, runs)
    make_folder(folder)
    with journal.opened(folder / layout.TRIALS) as results, journal.opened(folder / layout.COUNTS) as counts:
        trials = read_trials(folder)
        _check_identity(folder, machine, resumed=bool(trials.results))
        plan = _as_chosen(plan, folder)
        _write_plan(folder, plan)
        if noted_end(folder) is None:
            write_machine(folder, machine)
        results.cut_torn_line()
        counts.cut_torn_line()
        try:
            yield Writer(folder, plan, trials, machine, results, counts)
        except BaseException:
            if not results.size and not (folder / layout.MINUTES).exists():
                # A run that failed before its first trial leaves nothing behind.
                remove_folder(folder, (layout.PLAN, layout.MACHINE, layout.TRIALS, layout.COUNTS, layout.REPORT))
            raise


def _as_chosen(plan: Plan, folder: Path) -> Plan:
    """The plan with the number of blocks chosen by its earlier run in a folder; unchanged without a choice."""
    if not plan.is_pilot or not (folder / layout.PLAN).exists():
        return plan
    try:
        before = read_plan(folder)
    except StoreError as error:
        if isinstance(error.__cause__, OSError):
            raise
        raise NotResumable(
            f"{folder / layout.PLAN}: is damaged, so the number of blocks that the run chose is not known: "
            "start again with --fresh, which keeps this run under another name"
        ) from error
    return plan if before.choice is None else updated(plan, blocks=before.blocks, choice=before.choice)


def _write_plan(folder: Path, plan: Plan) -> None:
    write_file(folder / layout.PLAN, plan.model_dump_json(indent=2) + "\n")


def read_plan(folder: Path) -> Plan:
    """The plan of a stored run; raises StoreError."""
    try:
        return Plan.model_validate(older.plan_of(_plan_document(folder)))
    except ValidationError as error:
        raise StoreError(f"{folder / layout.PLAN}: {one_line(error)}: run the experiment again") from None
    except (LookupError, TypeError, AttributeError):
        raise StoreError(f"{folder / layout.PLAN}: is not a plan: run the experiment again") from None


def _plan_document(folder: Path) -> dict[str, Any]:
    """The stored plan as written; raises StoreError."""
    try:
        document: dict[str, Any] = json.loads((folder / layout.PLAN).read_bytes())
        return document
    except OSError as error:
        raise unread(folder / layout.PLAN, error) from error
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{folder / layout.PLAN}: is damaged ({error}): run the experiment again") from None


def write_machine(folder: Path, machine: Mapping[str, Any]) -> None:
    """Stores the machine and engine of a run; raises StoreError."""
    write_file(folder / layout.MACHINE, json.dumps(machine, indent=2, sort_keys=True) + "\n")


def ended(folder: Path) -> str | None:
    """When a run ended, as ISO 8601; None if it has trials left or does not exist; raises StoreError.

    The oldest stored runs do not record it: they count as ended if nothing is left to do.
    """
    if not (folder / layout.PLAN).exists() or not (folder / layout.MACHINE).exists():
        return None
    noted = noted_end(folder)
    if noted is not None:
        return noted
    plan, trials = read_plan(folder), read_trials(folder)
    is_done = not remaining(plan, trials.results) and not uncounted(plan, trials.results, trials.counts)
    return max(result.started for result in trials.results) if is_done else None


def latest(folder: Path) -> Path:
    """The folder of the newest complete results of a run.

    That is its own folder, or, while it is being measured again, the last finished run that was set aside.
    """
    if _has_no_trials_left(folder):
        return folder
    ends = {path: end for path in _set_aside(folder) if (end := _end_if_readable(path)) is not None}
    return max(ends, key=lambda path: ends[path], default=folder)


def _has_no_trials_left(folder: Path) -> bool:
    if not (folder / layout.PLAN).exists():
        return False
    return noted_end(folder) is not None or not remaining(read_plan(folder), read_trials(folder).results)


def _set_aside(folder: Path) -> list[Path]:
    """The earlier runs of a folder, named like it with a number."""
    return [path for path in folder.parent.glob(f"{folder.name}.*") if path.suffix[1:].isdecimal()]


def _end_if_readable(folder: Path) -> str | None:
    try:
        return ended(folder)
    except StoreError:
        return None


def noted_end(folder: Path) -> str | None:
    """The recorded end of a run; None if it is not recorded. Raises StoreError."""
    noted = read_machine(folder).get(ENDED) if (folder / layout.MACHINE).exists() else None
    return None if noted is None else str(noted)


def read_machine(folder: Path) -> dict[str, Any]:
    """The machine of a stored run; raises StoreError."""
    try:
        machine = json.loads((folder / layout.MACHINE).read_bytes())
    except OSError as error:
        raise unread(folder / layout.MACHINE, error) from error
    except (ValueError, RecursionError):
        machine = None
    if not isinstance(machine, dict):
        raise StoreError(f"{folder / layout.MACHINE}: is damaged: run the experiment again in another folder")
    return machine


def read_trials(folder: Path) -> Trials:
    """All whole results of a run, one for each place (the first that was written); raises StoreError."""
    faults: list[str] = []
    results: dict[Place, Result] = {}
    keys = _older_keys(folder)
    for stored, line, _ in journal.read(folder / layout.TRIALS, Result, faults):
        result = stored.model_copy(update={"trial": _renamed(stored.trial, keys)})
        if result.trial.place in results:
            faults.append(f"{layout.TRIALS}: line {line} repeats a trial; the first one counts")
        results.setdefault(result.trial.place, result)
    counts: dict[tuple[int, int], CostCount] = {}
    for count, _, _ in journal.read(folder / layout.COUNTS, CostCount, faults):
        counts.setdefault((count.comparison, count.slot), _renamed(count, keys))
    minutes = tuple(stored.record for stored in journal.read(folder / layout.MINUTES, Minute, faults))
    return Trials(tuple(results.values()), tuple(faults), tuple(counts.values()), minutes)


def _older_keys(folder: Path) -> Mapping[str, str]:
    """The present keys of an older run's cells; empty for any other run, and for one without a plan."""
    with suppress(StoreError, ValidationError, LookupError, TypeError, AttributeError):
        return older.keys_of(_plan_document(folder))
    return {}


def _renamed(record: OfCell, keys: Mapping[str, str]) -> OfCell:
    """A record with the present key of its cell."""
    return record.model_copy(update={"cell": keys.get(record.cell, record.cell)})


def write_report(folder: Path, html: str) -> Path:
    """Replaces the report of a run as a whole; raises StoreError."""
    write_file(folder / layout.REPORT, html)
    return folder / layout.REPORT


def _check_identity(folder: Path, machine: Mapping[str, Any], *, resumed: bool) -> None:
    if not resumed or not (folder / layout.MACHINE).exists():
        return
    before, now = read_machine(folder).get("identity"), machine.get("identity")
    if before == now:
        return
    before, now = (identity if isinstance(identity, dict) else {} for identity in (before, now))
    key = next(
        key for key in sorted({*before, *now, "identity"}) if before.get(key) != now.get(key) or key == "identity"
    )
    raise StoreError(
        f"{folder}: was measured with {key} {before.get(key)}, this is {now.get(key)}: "
        "move the folder away to measure again"
    )
