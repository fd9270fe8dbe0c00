"""All rules: those for a run, which is an output or a row, and those for a page."""

from __future__ import annotations

from iolab.lint.record import Finding, Page
from iolab.lint.rules import comparison, evidence, formulas, latency, prose, rows

FOR_A_RUN = (formulas.check, latency.check, evidence.check)
FOR_A_PAGE = (comparison.check, rows.check, prose.check)


def findings(page: Page) -> list[Finding]:
    """All findings by line, the impossible ones first."""
    found = [each for rule in FOR_A_RUN for run in page.runs for each in rule(run)]
    found += [each for rule in FOR_A_PAGE for each in rule(page)]
    return sorted(dict.fromkeys(found), key=lambda each: (each.certainty != "impossible", each.line, each.rule))
