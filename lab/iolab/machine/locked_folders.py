"""Folders of a process, marked so that others know them from those that a killed process left.

Each is locked by the process that made it. The kernel drops the lock when that process dies, also when it is one of
another container.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path

_NUMBERS = itertools.count(1)


def made(home: Path, prefix: str) -> tuple[Path, int]:
    """A new folder for this user alone, and the descriptor that holds its lock; raises OSError."""
    while True:
        folder = home / f"{prefix}{os.getpid()}-{next(_NUMBERS)}"
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            # A dead process had the same number.
            continue
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            # Another lab took this folder for one that was left.
            continue
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if folder.is_dir():
                return folder, lock
        os.close(lock)


def left(home: Path, prefix: str) -> Iterator[Path]:
    """The folders of this user that no process holds; each is locked until the next one is asked for."""
    for folder in home.glob(f"{prefix}*"):
        if re.fullmatch(rf"{re.escape(prefix)}\d+-\d+", folder.name) is None:
            continue
        with contextlib.suppress(OSError), _locked(folder) as lock:
            if os.fstat(lock).st_uid == os.geteuid():
                yield folder


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[int]:
    """Holds the lock of a folder; raises OSError where another process has it."""
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield lock
    finally:
        os.close(lock)
