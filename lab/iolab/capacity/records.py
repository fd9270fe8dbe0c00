"""A stored search for a capacity: one folder a search, one line a run.

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
    """One run as it is stored. `server_cpu_ns` is the server's CPU time in the window, None if its process is unknown.

    A recovery also has the `slices` of its window. The earliest stored runs lack them. `core_to_core_ns` is the
    core-to-core latency between server and generator before and after the run, None where unknown; `shares_cpu` is
    whether the server ran on the generator's processors though there were others.
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
    """An open, locked run. Get one from `writing`; it appends records."""

    folder: Path
    records: list[Record]
    faults: tuple[str, ...]
    _journal: Journal

    def append(self, record: Record) -> None:
        """Adds one run and syncs it to the disk; raises StoreError, and then nothing was added."""
        self._journal.append(record)
        self.records.append(record)


def folder_of(spec: CapacitySpec, runs: Path) -> Path:
    """The folder of a search. The same spec has the same folder."""
    return runs / f"capacity-{spec.digest}"


@contextmanager
def writing(spec: CapacitySpec, machine: Mapping[str, Any], runs: Path) -> Iterator[Writer]:
    """Opens the folder of a search for writing, made or resumed; raises StoreError."""
    folder = folder_of(spec, runs)
    make_folder(folder)
    with journal.opened(folder / layout.PROBES) as file:
        stored, faults = _stored(folder)
        # A torn or altered line, and those after it, make room for the runs that are made again.
        file.cut(stored[-1].end if stored else 0)
        write_file(folder / layout.QUESTION, spec.model_dump_json(indent=2) + "\n")
        store.write_machine(folder, machine)
        writer = Writer(folder, [record for record, _, _ in stored], faults, file)
        try:
            yield writer
        finally:
            if not writer.records:
                # A search without a run leaves nothing behind.
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
    """All runs up to the first line that is torn or altered, and a sentence on each line that was lost."""
    stored, faults = _stored(folder)
    return tuple(record for record, _, _ in stored), faults


def _stored(folder: Path) -> tuple[list[Stored[Record]], tuple[str, ...]]:
    faults: list[str] = []
    stored: list[Stored[Record]] = []
    for each in journal.read(folder / layout.PROBES, Record, faults):
        # Each run follows from those before it, so the ones after a lost run are made again.
        if each.line != len(stored) + 1:
            break
        stored.append(each)
    return stored, tuple(faults)
