"""A suite: a question that several experiments answer together, such as whether published notes hold here."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from iolab.contract.types import Frozen, updated
from iolab.errors import BadInput
from iolab.wording import instead


class Part(Frozen):
    """One source of claims: its name, as S0, what it is about, and the experiments that hold its claims.

    Those of `full` are left to the full run.
    """

    name: str
    about: str
    experiments: tuple[str, ...] = Field(min_length=1)
    full: tuple[str, ...] = ()


class Suite(Frozen):
    """Experiments that are run in turn and reported together, part by part.

    Its headline are the claims that say `headline = true`.
    """

    name: str
    question: str
    parts: tuple[Part, ...] = Field(min_length=1)

    def experiments(self, *, quick: bool) -> tuple[str, ...]:
        """The names of those that a run has, in their order."""
        return tuple(name for part in self.parts for name in (*part.experiments, *(() if quick else part.full)))

    def only(self, names: Sequence[str]) -> Suite:
        """The suite with these parts alone; with all of them where none is named. Raises BadInput."""
        known = [part.name for part in self.parts]
        unknown = next((name for name in names if name not in known), None)
        if unknown is not None:
            raise BadInput(f"only: {self.name} has no part {unknown!r}{instead(unknown, known)}")
        return updated(self, parts=tuple(part for part in self.parts if part.name in names)) if names else self


def read(path: Path) -> Suite:
    """The suite in a file that comes with iolab."""
    return Suite.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
