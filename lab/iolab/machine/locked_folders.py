"""Folders of a process that other processes can tell from the leftovers of a killed one.

Each is locked by its process. The kernel drops the lock when that process dies, even in another container.
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
    """Makes a folder that only this user can enter, with a descriptor that holds its lock; raises OSError."""
    while True:
        folder = home / f"{prefix}{os.getpid()}-{next(_NUMBERS)}"
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            # Left by a dead process with the same id.
            continue
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            # Another lab removed this folder as a leftover before it was locked.
            continue
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if folder.is_dir():
                return folder, lock
        os.close(lock)


def left(home: Path, prefix: str) -> Iterator[Path]:
    """Yields this user's folders that no process holds; each stays locked until the next is requested."""
    for folder in home.glob(f"{prefix}*"):
        if re.fullmatch(rf"{re.escape(prefix)}\d+-\d+", folder.name) is None:
            continue
        with contextlib.suppress(OSError), _locked(folder) as lock:
            if os.fstat(lock).st_uid == os.geteuid():
                yield folder


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[int]:
    """Holds the lock of a folder; raises OSError if another process has it."""
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield lock
    finally:
        os.close(lock)
