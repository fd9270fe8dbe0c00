"""A suite: a question that several experiments answer together."""

from __future__ import annotations

import tomllib
from pathlib import Path

from pydantic import Field

from iolab.contract.types import Frozen


class Suite(Frozen):
    """Experiments that are run in turn. At the end there is a table of their claims that say `headline = true`."""

    name: str
    question: str
    experiments: tuple[str, ...] = Field(min_length=1)


def read(path: Path) -> Suite:
    """The suite in a file that comes with iolab."""
    return Suite.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
