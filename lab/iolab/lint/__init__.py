"""Reads what a load generator printed, or a table of results, and lists what cannot be true in it.

It also lists what cannot be concluded from it, because of errors, few requests, unequal replies or single runs.

figures  printed numbers as ranges     formats/  outputs of tools, one file each
tables   Markdown, CSV and TSV         columns   what titles mean
page     a text into its parts         rules/    formulas, latencies, evidence, comparisons, rows, prose
"""

from __future__ import annotations

from dataclasses import dataclass

from iolab.errors import BadInput
from iolab.lint import page as pages
from iolab.lint import source
from iolab.lint.record import Finding
from iolab.lint.rules import findings


@dataclass(frozen=True)
class Linted:
    """What was read of a text, and what was found in it."""

    name: str
    outputs: tuple[str, ...]
    tables: int
    findings: tuple[Finding, ...]


def lint(text: str, name: str = "text") -> Linted:
    """Checks one text; raises BadInput where nothing in it is recognised."""
    page = pages.read(text)
    return Linted(name, tuple(run.tool for run in page.outputs), len(page.tables), tuple(findings(page)))


def lint_file(name: str) -> Linted:
    """Checks a file, or standard input for `-`; raises BadInput where it cannot be read or nothing is recognised."""
    text = source.read(name)
    try:
        return lint(text, name)
    except BadInput as error:
        raise BadInput(f"{name}: {error}") from None
