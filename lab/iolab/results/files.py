"""Files of a run's folder that are replaced as a whole, and the errors for files that cannot be written or read."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from iolab.errors import StoreError


def write_file(path: Path, text: str) -> None:
    """Replaces a file: readers see all of the old text or all of the new; raises StoreError."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Replaces a file: readers see all of the old content or all of the new; raises StoreError.

    The content is written to a file beside it, synced and then renamed. A pipe or a device is refused: the rename would
    replace it, and root would lose /dev/null.
    """
    try:
        if path.exists() and not path.is_file():
            raise StoreError(f"{path}: cannot be written: it is no regular file: name another file")
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise unwritten(path, error) from error
    beside = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.chmod(0o644)
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise unwritten(path, error) from error


def make_folder(folder: Path) -> None:
    """Makes a folder and its parents; raises StoreError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritten(folder, error) from error


def remove_folder(folder: Path, names: Iterable[str]) -> None:
    """Removes a run that has no record: these files, and the folder if it is then empty."""
    with suppress(OSError):
        for name in names:
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()


def unwritten(path: Path, error: OSError) -> StoreError:
    """The error to raise when a file or folder cannot be written."""
    why = error.strerror or error
    return StoreError(f"{path}: cannot be written: {why}: free space or choose another folder; the rest stays readable")


def unread(path: Path, error: OSError) -> StoreError:
    """The error to raise when a file of a run cannot be read."""
    return StoreError(f"{path}: cannot be read: {error.strerror or error}: name the folder of a run")
