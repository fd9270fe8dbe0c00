"""A stored search for a capacity: one folder per search, one line per run.

    runs/capacity-<digest>/  question.json  machine.json  probes.jsonl  report.html

Each line of probes.jsonl is one run (see `results.journal`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from iolab.capacity.spec import CapacitySpec
from iolab.capacity.steps import Step
from iolab.contract.types import Frozen, Interval, Report, one_line
from iolab.errors import StoreError
from iolab.results import journal, layout, store
from iolab.results.files import make_folder, remove_folder, unread, write_file
from iolab.results.journal import Journal, Stored


class Record(Frozen):
    """One stored run. `server_cpu_ns` is the server's CPU time in the window, None if its process is unknown.

    A recovery also has the `slices` of its window; the earliest stored runs lack them. `core_to_core_ns` is the
    core-to-core latency between server and generator before and after the run, None if unknown. `shares_cpu`: the
    server ran on the generator's processors although it had others.
    """

    step: Step
    started: str
    report: Report
    slices: tuple[Interval, ...] = ()
    server_cpu_ns: int | None = None
    core_to_core_ns: tuple[float, float] | None = None
    shares_cpu: bool = False


@dataclass(slots=True)
class Writer:
    """An open, locked search to append records to. Get one from `writing`."""

    folder: Path
    records: list[Record]
    faults: tuple[str, ...]
    _journal: Journal

    def append(self, record: Record) -> None:
        """Adds one run and syncs it to disk; if it raises StoreError, nothing was added."""
        self._journal.append(record)
        self.records.append(record)


def folder_of(spec: CapacitySpec, runs: Path) -> Path:
    """The folder of a search. The same spec has the same folder."""
    return runs / f"capacity-{spec.digest}"


@contextmanager
def writing(spec: CapacitySpec, machine: Mapping[str, Any], runs: Path) -> Iterator[Writer]:
    """Creates or resumes the folder of a search for writing; raises StoreError."""
    folder = folder_of(spec, runs)
    make_folder(folder)
    with journal.opened(folder / layout.PROBES) as file:
        stored, faults = _stored(folder)
        # A torn or altered line and all after it are cut; their runs are made again.
        file.cut(stored[-1].end if stored else 0)
        write_file(folder / layout.QUESTION, spec.model_dump_json(indent=2) + "\n")
        store.write_machine(folder, machine)
        writer = Writer(folder, [record for record, _, _ in stored], faults, file)
        try:
            yield writer
        finally:
            if not writer.records:
                # A search without a run leaves no folder behind.
                remove_folder(folder, (layout.QUESTION, layout.MACHINE, layout.PROBES))


def read_spec(folder: Path) -> CapacitySpec:
    """The spec of a stored search; raises StoreError."""
    path = folder / layout.QUESTION
    try:
        return CapacitySpec.model_validate_json(path.read_bytes())
    except OSError as error:
        raise unread(path, error) from error
    except ValidationError as error:
        raise StoreError(f"{path}: {one_line(error)}: measure again with --fresh") from None


def read_records(folder: Path) -> tuple[tuple[Record, ...], tuple[str, ...]]:
    """All runs before the first torn or altered line, and a sentence on each lost line."""
    stored, faults = _stored(folder)
    return tuple(record for record, _, _ in stored), faults


def _stored(folder: Path) -> tuple[list[Stored[Record]], tuple[str, ...]]:
    faults: list[str] = []
    stored: list[Stored[Record]] = []
    for each in journal.read(folder / layout.PROBES, Record, faults):
        # Each run depends on those before it, so the runs after a lost one are made again.
        if each.line != len(stored) + 1:
            break
        stored.append(each)
    return stored, tuple(faults)
