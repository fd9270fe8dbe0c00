"""An earlier run in the same folder: whether it can be continued, and where it is kept if not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from iolab.measure import programs
from iolab.results import layout, store

# Why an earlier run has its folder again.
NOTHING_MEASURED = "nothing was measured"
End = TypeVar("End")


def earlier(folder: Path, identity: Mapping[str, Any], ended: Callable[[Path], End]) -> tuple[str, End | None]:
    """What has changed since the earlier run of a folder, empty if nothing, and how it `ended`.

    An unreadable run counts as changed, because it cannot be continued.
    """
    is_there = (folder / layout.MACHINE).exists()
    try:
        changed = programs.changes(store.read_machine(folder).get("identity"), identity) if is_there else ""
        return changed, ended(folder)
    except store.StoreError:
        return "the earlier run cannot be read", None


def began_before(folder: Path, since: str) -> bool:
    """Whether the run of a folder began before a time in the format of its trials; False without a run."""
    return bool(since) and min((each.started for each in store.read_trials(folder).results), default=since) < since


@contextmanager
def moved_aside(folder: Path, *, is_old: bool, put_back: Callable[[], None]) -> Iterator[Path | None]:
    """Gives an old run another name. If the new run leaves nothing, renames it back and calls `put_back`."""
    aside = _move_aside(folder) if is_old else None
    try:
        yield aside
    except BaseException:
        if aside is not None and not folder.exists():
            aside.rename(folder)
            put_back()
        raise


def _move_aside(folder: Path) -> Path | None:
    """Gives an old run another name: results are never deleted."""
    if not folder.exists():
        return None
    number = next(n for n in range(1, 1_000_000) if not folder.with_name(f"{folder.name}.{n}").exists())
    return folder.rename(folder.with_name(f"{folder.name}.{number}"))
