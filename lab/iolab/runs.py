"""Finds stored runs, and summarises the result of each in one line.

A summary is cached in the run's summary.json under a digest of the record and of the lab's own code, and computed again
after a change of either.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from iolab.errors import BadInput, IolabError, StoreError
from iolab.results import layout

if TYPE_CHECKING:
    from iolab.judge.results import Results

# The end of the name of a run's folder, after the experiment's name.
DIGEST = "-[0-9a-f]{16}"
# A folder with one of these files is a run.
KINDS = (layout.PLAN, layout.QUESTION, layout.SUITE)
# Files made from the record, not part of it.
MADE = frozenset({layout.SUMMARY, layout.REPORT})


class StoredRun(NamedTuple):
    """A stored run for a list: its folder's name, when its first trial began (ISO 8601), its question and result.

    `claims` has the verdict on each claim of a finished experiment, by the claim's id.
    """

    name: str
    began: str
    question: str
    found: str
    claims: Mapping[str, str] = MappingProxyType({})


class LastVerdict(NamedTuple):
    """The newest verdict on a claim on this machine, and when its run began."""

    judgement: str
    began: str


def find(name: str | Path, out: Path) -> Path:
    """The folder of a stored run, given by its path or its name in `out`; raises BadInput.

    The beginning of a name is enough if it is unique. The name of an experiment or a suite means its newest run.
    """
    for folder in (Path(name), out / name):
        if _is_run(folder):
            return folder
    begun = [folder for folder in _folders(out) if folder.name.startswith(str(name))]
    newest = [folder for folder in begun if re.fullmatch(DIGEST, folder.name.removeprefix(str(name)))]
    if newest:
        return max(newest, key=lambda folder: _listed(folder).began)
    if len(begun) > 1:
        names = ", ".join(folder.name for folder in begun)
        raise BadInput(f"several runs begin with {str(name)!r}: write more of one of {names}")
    if not begun:
        raise BadInput(f"there is no run {str(name)!r} here or in {out}: iolab list runs has the names")
    return begun[0]


def _is_run(folder: Path) -> bool:
    """Whether a folder is a run; raises BadInput if it cannot be read."""
    try:
        return any((folder / file).is_file() for file in KINDS)
    except OSError as error:
        raise BadInput(f"{folder}: {error.strerror}: iolab list runs has the names of runs") from None


def all_folders(out: Path) -> list[Path]:
    """The folders of all runs, by name; raises BadInput if there is none."""
    found = _folders(out)
    if not found:
        raise BadInput(f"there is no run in {out}: measure one first, or name its folder with --out")
    return found


def is_capacity(folder: Path) -> bool:
    """Whether a run is a search for a capacity."""
    return (folder / layout.QUESTION).is_file()


def is_suite(folder: Path) -> bool:
    """Whether a run is a suite's."""
    return (folder / layout.SUITE).is_file()


def stored(out: Path) -> list[StoredRun]:
    """All runs in a folder, the oldest first. For an unreadable run, `found` is the reason."""
    return sorted(map(_listed, _folders(out)), key=lambda run: run.began)


def last_verdicts(out: Path, experiment: str) -> dict[str, LastVerdict]:
    """The newest verdict on each claim of an experiment, by the claim's id. "full run only" replaces no other."""
    found: dict[str, LastVerdict] = {}
    for run in stored(out):
        if re.fullmatch(re.escape(experiment) + DIGEST, run.name):
            for claim, judgement in run.claims.items():
                if judgement != "full run only" or claim not in found:
                    found[claim] = LastVerdict(judgement, run.began)
    return found


def summary(folder: Path, found: Results | None = None) -> StoredRun:
    """The summary of a run: from the cache, or else from its results, which are read unless given.

    Raises StoreError if they cannot be read.
    """
    key = _key(folder)
    kept = _kept(folder, key)
    if kept is None:
        kept = _judged(folder, found)
        _keep(folder, key, kept)
    return kept


def _folders(out: Path) -> list[Path]:
    return sorted({path.parent for file in KINDS for path in out.glob(f"*/{file}")})


def _listed(folder: Path) -> StoredRun:
    try:
        return summary(folder)
    except IolabError as error:
        return StoredRun(folder.name, "", "", str(error))


def _kept(folder: Path, key: str) -> StoredRun | None:
    """The cached summary of a run; None if it is missing, or the record or the lab's code has changed."""
    try:
        known = json.loads((folder / layout.SUMMARY).read_bytes())
        if known["key"] == key:
            return StoredRun(folder.name, known["began"], known["question"], known["found"], known["claims"])
    except (OSError, ValueError, LookupError, TypeError):
        pass
    return None


def _keep(folder: Path, key: str, run: StoredRun) -> None:
    """Caches a summary. If the file cannot be written, the summary is computed each time."""
    from iolab.results.files import write_file

    document = {"schema": 1, "key": key, **run._asdict(), "claims": dict(run.claims)}
    with suppress(StoreError):
        write_file(folder / layout.SUMMARY, json.dumps(document, indent=2) + "\n")


def _judged(folder: Path, found: Results | None) -> StoredRun:
    from iolab.capacity.progress import state_of
    from iolab.capacity.records import read_records, read_spec
    from iolab.capacity.sentences import verdict
    from iolab.judge import results, suite
    from iolab.results import store

    if is_capacity(folder):
        records = read_records(folder)[0]
        state = state_of(read_spec(folder), records)
        began = _first(record.started for record in records)
        return StoredRun(folder.name, began, f"capacity of {state.spec.url}?", verdict(state))
    if is_suite(folder):
        whole = suite.read(folder)
        found_so_far = f"claims: {suite.counted([each.found.judgement for each in whole.claims])}"
        return StoredRun(folder.name, whole.began, whole.record.suite.question, found_so_far)
    if store.ended(folder) is None:
        plan, trials = store.read_plan(folder), store.read_trials(folder).results
        return StoredRun(
            folder.name,
            _first(trial.started for trial in trials),
            plan.question,
            f"unfinished, {len(trials)} trials",
        )
    found = found or results.read(folder)
    judgements = {each.claim.id: each.judgement for each in found.claims}
    return StoredRun(folder.name, found.began, found.plan.question, found.short, judgements)


def _first(times: Iterable[str]) -> str:
    return min(times, default="")


def _key(folder: Path) -> str:
    """A digest of everything that decides a run's summary: its record, and the code of the lab."""
    sha256 = hashlib.sha256(code_digest())
    if is_suite(folder):
        from iolab.results import suites

        parts = (folder.parent / run for run in suites.read(folder).runs.values())
        for part in filter(Path.is_dir, parts):
            sha256.update(_key(part).encode())
    for path in sorted(path for path in folder.iterdir() if path.is_file() and path.name not in MADE):
        with suppress(OSError), path.open("rb") as file:
            sha256.update(path.name.encode() + b"\0" + hashlib.file_digest(file, "sha256").digest())
    return sha256.hexdigest()[:16]


@cache
def code_digest() -> bytes:
    """A digest of the lab's own code, templates and styles, 32 bytes.

    The version is not enough: in a checkout it stays the same while the code changes.
    """
    sha256, package = hashlib.sha256(), Path(__file__).parent
    for path in sorted(path for kind in ("py", "j2", "css") for path in package.rglob(f"*.{kind}")):
        sha256.update(path.name.encode() + b"\0" + path.read_bytes())
    return sha256.digest()
