"""Records in JSON Lines: one record a line, its checksum the last field, each synced to the disk when it is added.

    {"trial":{…},"started":"…",…,"crc32":"232f7027"}

The checksum is the CRC-32 of the line's bytes without that field, which are the record itself: `{"trial":…,…}`. A crash
can tear only the last line. Readers find a torn or altered line by its checksum, name it and skip it. One process at a
time may write a file: it holds a lock, which the kernel drops when the process dies.

Lines of the first form have the checksum before the record: `232f7027 {"trial":…}`. They are still read, and a run
that is resumed keeps them; new records are added in the present form.
"""

from __future__ import annotations

import fcntl
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from pydantic import ValidationError

from iolab.contract.types import Frozen, one_line
from iolab.errors import StoreError
from iolab.results.files import unread, unwritten

# A line holds a report with its histogram and series: some 20 KiB. A far longer one is no record.
LINE_BYTES_MAX = 16 << 20
# The end of a line after the record's own last field.
CHECKSUM = b',"crc32":"%08x"}\n'
CHECKSUM_BYTES = len(CHECKSUM % 0)

Record = TypeVar("Record", bound=Frozen)


class Stored(NamedTuple, Generic[Record]):
    """A whole record of a file, the number of its line (from 1), and the offset of that line's end."""

    record: Record
    line: int
    end: int


@dataclass(frozen=True, slots=True)
class Journal:
    """A file of records, open and locked; from `opened`."""

    path: Path
    _file: int

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return os.fstat(self._file).st_size

    def append(self, record: Frozen) -> None:
        """Adds a record and syncs it to the disk; raises StoreError, and then nothing was added."""
        end = self.size
        try:
            _write_whole(self._file, line_of(record.model_dump_json().encode()))
            os.fsync(self._file)
        except OSError as error:
            # If even this fails, a torn line remains, which its checksum reveals.
            with suppress(OSError):
                os.ftruncate(self._file, end)
            raise unwritten(self.path, error) from error

    def cut(self, end: int) -> None:
        """Drops everything after this offset; raises StoreError."""
        try:
            os.ftruncate(self._file, end)
        except OSError as error:
            raise unwritten(self.path, error) from error

    def cut_torn_line(self) -> None:
        """Drops an unfinished last line, left by a crash: the next record must begin a line of its own."""
        self.cut(self.path.read_bytes().rfind(b"\n") + 1)


@contextmanager
def opened(path: Path) -> Iterator[Journal]:
    """Opens a file of records for writing, creating it if necessary.

    Raises StoreError if it cannot be written, and if another process is writing it.
    """
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise unwritten(path, error) from error
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StoreError(f"{path.parent}: another iolab is writing this run: wait for it, or stop it") from None
        yield Journal(path, file)
    finally:
        os.close(file)


def read(path: Path, kind: type[Record], faults: list[str]) -> Iterator[Stored[Record]]:
    """The whole records of a file, empty if it does not exist; adds a sentence to `faults` for each other line.

    The sentence names the file without its folder, so that a report is the same wherever the run is.

    Raises StoreError if it cannot be read. It needs no lock: a line that is being written looks torn, and is whole the
    next time.
    """
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return
    except OSError as error:
        raise unread(path, error) from error
    end = 0
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        end += len(line)
        parsed = _record_of(line, kind)
        if isinstance(parsed, str):
            faults.append(f"{path.name}: line {number} {parsed}; it is measured again")
        else:
            yield Stored(parsed, number, end)


def line_of(record: bytes) -> bytes:
    """The line for a record, given as its JSON: an object of at least one field."""
    return record[:-1] + CHECKSUM % zlib.crc32(record)


def _record_of(line: bytes, kind: type[Record]) -> Record | str:
    """The record of a line, or what is wrong with the line."""
    record = _json_of(line)
    if record is None:
        return "is torn or altered (its checksum does not fit)"
    try:
        return kind.model_validate_json(record)
    except ValidationError as error:
        return f"is of another version ({one_line(error)})"


def _json_of(line: bytes) -> bytes | None:
    """The record of a line as its JSON; None if the line is torn or altered in any byte."""
    if len(line) > LINE_BYTES_MAX:
        return None
    record = line[:-CHECKSUM_BYTES] + b"}"
    if line == line_of(record):
        return record
    checksum, _, record = line.removesuffix(b"\n").partition(b" ")
    is_first_form = line == b"%s %s\n" % (checksum, record) and checksum == b"%08x" % zlib.crc32(record)
    return record if is_first_form else None


def _write_whole(file: int, text: bytes) -> None:
    view = memoryview(text)
    while view:
        view = view[os.write(file, view) :]
