"""The experiments that come with iolab, by their names."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

from iolab.errors import BadInput
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


def questions() -> Iterator[tuple[str, str]]:
    """The name and the question of every experiment. No more is read: to check a plan takes far longer."""
    for path in _paths():
        yield path.stem, tomllib.loads(path.read_text(encoding="utf-8"))["question"]


def _paths() -> list[Path]:
    return sorted(FOLDER.glob("*.toml"))
