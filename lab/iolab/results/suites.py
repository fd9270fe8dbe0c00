"""A stored run of a suite: one folder beside those of its experiments, which hold the trials.

runs/<suite>-<digest>/  suite.json  report.html
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from iolab.contract.types import Frozen, one_line
from iolab.errors import StoreError
from iolab.plan.claims import Claim
from iolab.plan.suite import Suite
from iolab.results import layout, store
from iolab.results.files import make_folder, unread, write_file


class SuiteRun(Frozen):
    """A run of a suite: the folders of the finished experiments, by their names.

    `suite` has the requested parts: those of `only`, or all if that is empty. `waiting` are the claims of the
    experiments that are still to run, or are left to the full run. A fresh run measures again what is older than
    `since`, even after a resume; otherwise `since` is empty. Until an experiment has finished again, its earlier run is
    listed: see `store.latest`.
    """

    schema_: Literal[1] = Field(default=1, alias="schema")
    suite: Suite
    only: tuple[str, ...] = ()
    is_quick: bool
    settings: dict[str, Any] = Field(default={})
    since: str = ""
    runs: dict[str, str] = Field(default={})
    waiting: dict[str, tuple[Claim, ...]] = Field(default={})

    @property
    def folder_name(self) -> str:
        """The folder of a suite: the same for the same suite, parts and settings."""
        asked = self.model_dump_json(include={"suite", "is_quick", "settings"})
        return f"{self.suite.name}-{hashlib.sha256(asked.encode()).hexdigest()[:16]}"


def read(folder: Path) -> SuiteRun:
    """The record of a run; raises StoreError."""
    try:
        return SuiteRun.model_validate_json((folder / layout.SUITE).read_bytes())
    except OSError as error:
        raise unread(folder / layout.SUITE, error) from error
    except ValidationError as error:
        raise StoreError(f"{folder / layout.SUITE}: {one_line(error)}: remove it and run the suite again") from None


def earlier(folder: Path, *, is_needed: bool) -> SuiteRun | None:
    """The record of the earlier run in a folder; None without one. Raises StoreError if `is_needed` and damaged."""
    if not (folder / layout.SUITE).exists():
        return None
    try:
        return read(folder)
    except StoreError:
        if is_needed:
            raise
        return None


def kept_runs(out: Path, earlier: SuiteRun) -> dict[str, str]:
    """The runs of an earlier record that still exist and can be read."""
    return {name: run for name, run in earlier.runs.items() if _is_kept(out / run)}


def _is_kept(folder: Path) -> bool:
    try:
        return (store.latest(folder) / layout.PLAN).exists()
    except StoreError:
        # Its experiment is measured again: see `earlier_run`.
        return False


def write(out: Path, run: SuiteRun) -> Path:
    """Stores the record of a run and returns its folder; raises StoreError."""
    folder = out / run.folder_name
    make_folder(folder)
    write_file(folder / layout.SUITE, run.model_dump_json(indent=2) + "\n")
    return folder
