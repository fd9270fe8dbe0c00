"""The experiments that come with iolab, by their names."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from iolab.errors import BadInput
from iolab.plan.claims import Claim
from iolab.wording import instead

FOLDER = Path(__file__).parent.parent / "experiments"
# What is written for an experiment that does not come with iolab.
OWN = "the path of a .toml file"


def path_of(name: str) -> Path:
    """The file of an experiment, given by its name or by a path; raises BadInput with the names there are."""
    if name.endswith(".toml") or "/" in name:
        return Path(name)
    known = [path.stem for path in _paths()]
    if name not in known:
        raise BadInput(f"there is no experiment {name!r}{instead(name, [*known, OWN])}")
    return FOLDER / f"{name}.toml"


class Entry(NamedTuple):
    """An experiment that comes with iolab: its name, its question, and how many claims it has."""

    name: str
    question: str
    claims: int


def questions() -> Iterator[Entry]:
    """Every experiment. No more of it is read: to check a plan takes far longer."""
    for path in _paths():
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        yield Entry(path.stem, table["question"], len(table.get("claims", ())))


def claims() -> Iterator[tuple[str, Claim]]:
    """Every claim of every experiment that comes with iolab, with the experiment's name, in the order of their ids."""
    found = [
        (path.stem, Claim.model_validate(claim))
        for path in _paths()
        for claim in tomllib.loads(path.read_text(encoding="utf-8")).get("claims", ())
    ]
    yield from sorted(found, key=lambda each: (_by_number(each[1].id), each[0]))


def _by_number(name: str) -> list[tuple[int, str]]:
    """What puts C1-10 after C1-9."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _paths() -> list[Path]:
    return sorted(FOLDER.glob("*.toml"))
