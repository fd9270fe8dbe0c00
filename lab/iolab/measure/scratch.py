"""A folder for the files of one server, in the system's temporary folder. It is removed with its server."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from iolab.machine import locked_folders

PREFIX = "iolab-scratch-"


@dataclass(frozen=True, slots=True)
class Scratch:
    """A folder that is locked, so that no other lab takes it for one that was left."""

    folder: Path
    _locks: list[int]

    @classmethod
    def make(cls) -> Scratch:
        """A new one; raises OSError."""
        folder, lock = locked_folders.made(Path(tempfile.gettempdir()), PREFIX)
        return cls(folder, [lock])

    def remove(self) -> None:
        """Removes it with its files. May be called again."""
        shutil.rmtree(self.folder, ignore_errors=True)
        while self._locks:
            os.close(self._locks.pop())


def remove_leftovers() -> None:
    """Removes the folders of labs that were killed."""
    for folder in locked_folders.left(Path(tempfile.gettempdir()), PREFIX):
        shutil.rmtree(folder, ignore_errors=True)
