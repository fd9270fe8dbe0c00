"""Checks outputs of load generators and tables of results, and lists impossible figures.

It also lists conclusions that the figures do not support: because of errors, few requests, unequal replies or single
runs.

figures  printed numbers as ranges     formats/  outputs of tools, one file each
tables   Markdown, CSV and TSV         columns   meanings of titles
page     splits a text into parts      rules/    formulas, latencies, evidence, comparisons, rows, prose
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
    """The outputs and tables recognised in a text, and the findings."""

    name: str
    outputs: tuple[str, ...]
    tables: int
    findings: tuple[Finding, ...]


def lint(text: str, name: str = "text") -> Linted:
    """Checks one text; raises BadInput if nothing in it is recognised."""
    page = pages.read(text)
    return Linted(name, tuple(run.tool for run in page.outputs), len(page.tables), tuple(findings(page)))


def lint_file(name: str) -> Linted:
    """Checks a file, or standard input for `-`; raises BadInput if it is unreadable or nothing is recognised."""
    text = source.read(name)
    try:
        return lint(text, name)
    except BadInput as error:
        raise BadInput(f"{name}: {error}") from None
