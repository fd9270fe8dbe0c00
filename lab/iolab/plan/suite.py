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
    """One source of claims: its name, such as S0, its subject, and the experiments that hold its claims.

    A quick run leaves out those of `full`.
    """

    name: str
    about: str
    experiments: tuple[str, ...] = Field(min_length=1)
    full: tuple[str, ...] = ()


class Suite(Frozen):
    """Experiments that run in turn and are reported together, part by part.

    Its headline are the claims with `headline = true`.
    """

    name: str
    question: str
    parts: tuple[Part, ...] = Field(min_length=1)

    def experiments(self, *, quick: bool) -> tuple[str, ...]:
        """The names of the experiments of a run, in order."""
        return tuple(name for part in self.parts for name in (*part.experiments, *(() if quick else part.full)))

    def only(self, names: Sequence[str]) -> Suite:
        """The suite with only these parts; with all of them if none is named. Raises BadInput."""
        known = [part.name for part in self.parts]
        unknown = next((name for name in names if name not in known), None)
        if unknown is not None:
            raise BadInput(f"only: {self.name} has no part {unknown!r}{instead(unknown, known)}")
        return updated(self, parts=tuple(part for part in self.parts if part.name in names)) if names else self


def read(path: Path) -> Suite:
    """The suite in a file that comes with iolab."""
    return Suite.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
