"""Temporary files: a folder for the files of one server, removed with the server, and the error if none can be made."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from iolab.errors import BadInput
from iolab.machine import locked_folders

PREFIX = "iolab-scratch-"
# A Unix socket's path has at most 107 bytes. A folder here takes 28 of them, and a name in it 15.
HOME_BYTES_MAX = 64
SHORT_HOME = Path("/tmp")


class NoTemporaryFile(BadInput):
    """A temporary file cannot be made. The message is one line: which, why, and what to do."""


@contextmanager
def writing() -> Iterator[None]:
    """Raises NoTemporaryFile if a file cannot be written, as on a full disk."""
    try:
        yield
    except OSError as error:
        why = f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
        message = f"a temporary file cannot be written: {why}: free some space, or set TMPDIR to another folder"
        raise NoTemporaryFile(message) from None


def home() -> Path:
    """The system's temporary folder, or /tmp if that path is too long for a Unix socket in it."""
    with writing():
        found = Path(tempfile.gettempdir())
    return found if len(os.fsencode(found)) <= HOME_BYTES_MAX else SHORT_HOME


@dataclass(frozen=True, slots=True)
class Scratch:
    """A locked folder, which no other lab takes for a leftover."""

    folder: Path
    _locks: list[int]

    @classmethod
    def make(cls) -> Scratch:
        """Makes one; raises NoTemporaryFile."""
        with writing():
            folder, lock = locked_folders.made(home(), PREFIX)
        return cls(folder, [lock])

    def remove(self) -> None:
        """Removes it with its files. May be called again."""
        shutil.rmtree(self.folder, ignore_errors=True)
        while self._locks:
            os.close(self._locks.pop())


def remove_leftovers() -> None:
    """Removes the folders of labs that were killed."""
    for folder in locked_folders.left(home(), PREFIX):
        shutil.rmtree(folder, ignore_errors=True)
