"""The experiments and suites that come with iolab, by name."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from iolab.errors import BadInput
from iolab.wording import instead

# Imported here only for types: a list of experiments needs neither, and both are slow to load.
if TYPE_CHECKING:
    from iolab.plan.claims import Claim
    from iolab.plan.suite import Suite

FOLDER = Path(__file__).parent.parent / "experiments"
SUITES = FOLDER / "suites"
# The advice for an experiment that does not come with iolab.
OWN = "the path of a .toml file"


def suite_of(name: str) -> Suite | None:
    """The suite of this name; None if there is none."""
    from iolab.plan import suite

    return next((suite.read(path) for path in SUITES.glob("*.toml") if path.stem == name), None)


def path_of(name: str) -> Path:
    """The file of an experiment, given by its name or by a path; raises BadInput with the known names."""
    if name.endswith(".toml") or "/" in name:
        return Path(name)
    if (suite := suite_of(name)) is not None:
        raise BadInput(
            f"{name} is a suite: run it with iolab run, or run one of {', '.join(suite.experiments(quick=False))}"
        )
    known = [path.stem for path in _paths(FOLDER)]
    if name not in known:
        suites = [path.stem for path in _paths(SUITES)]
        raise BadInput(f"there is no experiment {name!r}{instead(name, [*known, *suites, OWN])}")
    return FOLDER / f"{name}.toml"


class Entry(NamedTuple):
    """An experiment or a suite that comes with iolab: its name, its question, and the number of its own claims."""

    name: str
    question: str
    claims: int


def questions() -> Iterator[Entry]:
    """Every experiment, and then the suites. Reads only these fields: checking a plan takes far longer."""
    for path in (*_paths(FOLDER), *_paths(SUITES)):
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        yield Entry(path.stem, table["question"], len(table.get("claims", ())))


def claims() -> Iterator[tuple[str, Claim]]:
    """Every claim of every experiment that comes with iolab, with the experiment's name, sorted by id."""
    found = [(path.stem, claim) for path in _paths(FOLDER) for claim in claims_of(path.stem)]
    yield from sorted(found, key=lambda each: (_by_number(each[1].id), each[0]))


def claims_of(experiment: str) -> tuple[Claim, ...]:
    """The claims of one experiment, without its plan, which takes far longer to check."""
    from iolab.plan.claims import Claim

    table = tomllib.loads(path_of(experiment).read_text(encoding="utf-8"))
    return tuple(Claim.model_validate(claim) for claim in table.get("claims", ()))


def _by_number(name: str) -> list[tuple[int, str]]:
    """A sort key that puts C1-10 after C1-9."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _paths(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.toml"))
