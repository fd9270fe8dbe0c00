"""Where results live: one folder a run, one line a trial, and nothing lost but the line being written.

    runs/<name>-<plan digest>/  plan.json  machine.json  trials.jsonl  costs.jsonl  report.html

Each line of trials.jsonl is `checksum, space, JSON`, appended and synced when its trial is over. A crash can therefore
tear only the last line; a torn or altered line is told by its checksum, counted, named and skipped, and its trial is
run again. So it is with costs.jsonl, which holds the trials that counted system calls: they lie apart, because they
must never be taken for timed ones. One lab at a time may write: it holds a lock on trials.jsonl, which the kernel
drops when the lab dies.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from iolab.contract.types import Frozen, one_line
from iolab.errors import IolabError
from iolab.plan.plan import Place, Plan
from iolab.results import layout
from iolab.results.records import CostCount, Result
from iolab.results.remaining import remaining, uncounted

# A line holds a report with its histogram and series: some 20 KiB. One far longer is not ours.
LINE_BYTES_MAX = 16 << 20
# The key of machine.json that says when a run had nothing left to do.
ENDED = "ended"


Record = TypeVar("Record", bound=Frozen)


class StoreError(IolabError):
    """Results cannot be kept or read. The message is one line: the file, what happened, what to do."""


@dataclass(frozen=True)
class Trials:
    """What a run's record holds: results and counts in the order they were written, and one line on each it lost."""

    results: tuple[Result, ...]
    faults: tuple[str, ...]
    counts: tuple[CostCount, ...] = ()


@dataclass(frozen=True)
class Writer:
    """An open, locked run. Get one from `writing`; it appends results and counts."""

    folder: Path
    trials: Trials
    machine: Mapping[str, Any]
    _files: Mapping[str, int]

    def append(self, record: Result | CostCount) -> None:
        """Adds one finished trial and syncs it to the disk; raises StoreError, and then nothing was added."""
        name = layout.TRIALS if isinstance(record, Result) else layout.COUNTS
        path, file = self.folder / name, self._files[name]
        end = os.fstat(file).st_size
        try:
            write_whole(file, sealed(record.model_dump_json().encode()))
            os.fsync(file)
        except OSError as error:
            cut_back(file, end)
            raise StoreError(unwritten(path, "the result could not be written", error)) from error

    def end(self, when: str) -> None:
        """Notes that nothing is left to do since then."""
        write_machine(self.folder, {**self.machine, ENDED: when})


def folder_of(plan: Plan, runs: Path) -> Path:
    """The folder of a plan: the same plan comes back to it, another one goes elsewhere."""
    return runs / f"{plan.name}-{plan.digest}"


@contextmanager
def writing(plan: Plan, machine: Mapping[str, Any], runs: Path) -> Iterator[Writer]:
    """Opens the folder of a plan for writing, made or resumed; raises StoreError.

    `machine` is any JSON document; what stands under its key `identity` (engine build, kernel, host, processor) must be
    equal for a run to be resumed, because trials of two builds or two machines are not one comparison.
    """
    folder = folder_of(plan, runs)
    files: dict[str, int] = {}
    try:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name in (layout.TRIALS, layout.COUNTS):
                files[name] = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StoreError(unwritten(folder, "the run's folder cannot be written", error)) from error
        try:
            fcntl.flock(files[layout.TRIALS], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StoreError(f"{folder}: another iolab is writing this run: wait for it, or stop it") from None
        trials = read_trials(folder)
        _check_identity(folder, machine, resumed=bool(trials.results))
        write_file(folder / layout.PLAN, plan.model_dump_json(indent=2) + "\n")
        write_machine(folder, machine)
        for name, file in files.items():
            _end_line(folder / name, file)
        try:
            yield Writer(folder, trials, machine, files)
        except BaseException:
            if not os.fstat(files[layout.TRIALS]).st_size:
                _forget(folder)
            raise
    finally:
        for file in files.values():
            os.close(file)


def read_plan(folder: Path) -> Plan:
    """The plan of a stored run; raises StoreError."""
    try:
        return Plan.model_validate_json((folder / layout.PLAN).read_bytes())
    except OSError as error:
        raise StoreError(_unread(folder / layout.PLAN, error)) from error
    except ValidationError as error:
        raise StoreError(f"{folder / layout.PLAN}: {one_line(error)}: run the experiment again") from None


def write_machine(folder: Path, machine: Mapping[str, Any]) -> None:
    """Keeps the circumstances of a run; raises StoreError."""
    write_file(folder / layout.MACHINE, json.dumps(machine, indent=2, sort_keys=True) + "\n")


def ended(folder: Path) -> str | None:
    """When a run came to its end, as ISO 8601; None of one that has more to do, or is not there; raises StoreError.

    Runs that were stored before this was noted have ended when nothing is left to do.
    """
    if not (folder / layout.PLAN).exists() or not (folder / layout.MACHINE).exists():
        return None
    noted = read_machine(folder).get(ENDED)
    if noted is not None:
        return str(noted)
    plan, trials = read_plan(folder), read_trials(folder)
    is_done = not remaining(plan, trials.results) and not uncounted(plan, trials.results, trials.counts)
    return max(result.started for result in trials.results) if is_done else None


def read_machine(folder: Path) -> dict[str, Any]:
    """The machine of a stored run; raises StoreError."""
    try:
        machine = json.loads((folder / layout.MACHINE).read_bytes())
    except OSError as error:
        raise StoreError(_unread(folder / layout.MACHINE, error)) from error
    except (ValueError, RecursionError):
        machine = None
    if not isinstance(machine, dict):
        raise StoreError(f"{folder / layout.MACHINE}: is damaged: run the experiment again in another folder")
    return machine


def read_trials(folder: Path) -> Trials:
    """All whole results of a run, each place once (the first stands); raises StoreError only if it cannot be opened.

    A reader needs no lock: a line that is being written looks torn, and is there the next time.
    """
    faults: list[str] = []
    results: dict[Place, Result] = {}
    for number, result in records_of(folder / layout.TRIALS, Result, faults):
        if result.trial.place in results:
            faults.append(f"{folder / layout.TRIALS}: line {number} repeats a trial; the first stands")
        results.setdefault(result.trial.place, result)
    counts: dict[tuple[int, int], CostCount] = {}
    for _, count in records_of(folder / layout.COUNTS, CostCount, faults):
        counts.setdefault((count.comparison, count.slot), count)
    return Trials(tuple(results.values()), tuple(faults), tuple(counts.values()))


def write_report(folder: Path, html: str) -> Path:
    """Replaces the report of a run as a whole, so that a reader never sees half of one; raises StoreError."""
    write_file(folder / layout.REPORT, html)
    return folder / layout.REPORT


def sealed(body: bytes) -> bytes:
    """A line of trials.jsonl from its JSON: checksum, space, JSON, end of line."""
    return b"%08x %s\n" % (zlib.crc32(body), body)


def records_of(path: Path, kind: type[Record], faults: list[str]) -> Iterator[tuple[int, Record]]:
    """The whole records of a file with the numbers of their lines; what is wrong with the others goes to `faults`."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(_unread(path, error)) from error
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        parsed = _record_of(line, kind)
        if isinstance(parsed, str):
            faults.append(f"{path}: line {number} {parsed}; its trial is run again")
        else:
            yield number, parsed


def _record_of(line: bytes, kind: type[Record]) -> Record | str:
    """A record, or what is wrong with its line."""
    checksum, space, body = line.removesuffix(b"\n").partition(b" ")
    # A line without its end was still being written: `_end_line` cuts it off, so it must not count here either.
    if not space or not line.endswith(b"\n") or len(line) > LINE_BYTES_MAX or checksum != b"%08x" % zlib.crc32(body):
        return "is torn or altered (its checksum does not fit)"
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        return f"is of another version ({one_line(error)})"


def _forget(folder: Path) -> None:
    """Takes away a run that failed before its first trial, so that it leaves nothing behind."""
    with suppress(OSError):
        for name in (layout.PLAN, layout.MACHINE, layout.TRIALS, layout.COUNTS, layout.REPORT):
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()


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
        "move the folder away to measure anew"
    )


def _end_line(path: Path, file: int) -> None:
    """Cuts off a line a crash left unfinished: what is appended next must begin a line of its own."""
    size = os.fstat(file).st_size
    if size == 0 or os.pread(file, 1, size - 1) == b"\n":
        return
    with path.open("rb") as reader:
        text = reader.read(size)
    try:
        os.ftruncate(file, text.rfind(b"\n") + 1)
    except OSError as error:
        raise StoreError(unwritten(path, "an unfinished line cannot be cut off", error)) from error


def cut_back(file: int, size: int) -> None:
    """Takes back what a failed append wrote. Where even that fails the torn line stays, and its checksum tells."""
    try:
        os.ftruncate(file, size)
    except OSError:
        return


def write_whole(file: int, text: bytes) -> None:
    view = memoryview(text)
    while view:
        view = view[os.write(file, view) :]


def write_file(path: Path, text: str) -> None:
    """Writes a file beside its place, syncs it and moves it there: all or nothing."""
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise StoreError(unwritten(path, "cannot be written", error)) from error
    beside = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        beside.chmod(0o644)
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise StoreError(unwritten(path, "cannot be written", error)) from error


def unwritten(path: Path, what: str, error: OSError) -> str:
    return f"{path}: {what}: {error.strerror or error}: free space or choose another folder; the rest stays readable"


def _unread(path: Path, error: OSError) -> str:
    return f"{path}: cannot be read: {error.strerror or error}: name the folder of a run, one that holds {layout.PLAN}"
