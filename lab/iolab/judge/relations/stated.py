"""`stated`: a claim that no run can decide here. The page still shows it with its reason and date."""

from __future__ import annotations

from iolab.judge.relations.quantities import Evidence
from iolab.judge.relations.verdicts import TestVerdict
from iolab.plan.claims import StatedTest


def decide(test: StatedTest, evidence: Evidence) -> TestVerdict:
    """The reason, with its date."""
    date = f" ({test.date})" if test.date else ""
    return TestVerdict(test=test, judgement="stated", reason=f"{test.reason}{date}")
