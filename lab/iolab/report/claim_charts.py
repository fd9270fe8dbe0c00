"""A chart for each claim: the published figures, the measured ones, and the range that the claim allows."""

from __future__ import annotations

from collections.abc import Iterator

from iolab.judge.claims import ClaimVerdict
from iolab.judge.relations.verdicts import TestVerdict
from iolab.plan.claims import CrossingTest, LevelTest, OrderTest, RatioTest, TrendTest
from iolab.report import charts, claim_table, drawing
from iolab.report.charts import EvidenceRow
from iolab.report.pictures import Drawing

COLOURS = {"confirmed": "good", "direction only": "c0", "contradicted": "bad"}
LEVELS = "A level is drawn as a multiple of the published one, or else of its bound."


def drawing_of(found: ClaimVerdict) -> Drawing | None:
    """The chart of a claim; None without a figure to draw."""
    rows = list(evidence(found))
    if not rows:
        return None
    said = "; ".join(f"{row.label}: {row.text}" for row in rows)
    svg = drawing.inline(charts.evidence(rows, "ratio"), f"Evidence on {found.claim.id}", said)
    has_levels = any(isinstance(each.test, LevelTest) for each in found.tests)
    return Drawing(f"{found.claim.id}: {found.claim.text}", LEVELS if has_levels else "", svg)


def evidence(found: ClaimVerdict) -> Iterator[EvidenceRow]:
    """The tests of a claim with a figure to draw, each on a scale of ratios."""
    for each in found.tests:
        unit = _unit(each)
        if each.value is not None and each.value > 0 and unit is not None:
            yield _row(each, each.value, unit)


def _unit(found: TestVerdict) -> float | None:
    """The divisor that turns a figure into a ratio; None if it cannot be one."""
    test = found.test
    if isinstance(test, LevelTest) and test.of.contestant:
        unit = found.published or test.at_least or test.at_most
        return unit if unit and unit > 0 else None
    return 1.0 if isinstance(test, RatioTest | OrderTest | TrendTest | CrossingTest | LevelTest) else None


def _row(found: TestVerdict, value: float, unit: float) -> EvidenceRow:
    row, test = claim_table.test_row(found), found.test
    said = [f"published {row.published}"] if row.published else []
    said.append(f"measured {row.measured}{' (shown only)' if test.shown else ''}")
    least, most = _allowed(found)
    ends = (found.low, found.high, found.published, least, most)
    low, high, published, least, most = (None if end is None else end / unit for end in ends)
    role = "muted" if test.shown else COLOURS.get(found.judgement, "muted")
    return EvidenceRow(row.asked, ", ".join(said), role, value / unit, low, high, published, least, most)


def _allowed(found: TestVerdict) -> tuple[float | None, float | None]:
    """The range that a test allows: its bounds, or else the side of 1 of the published figure."""
    test = found.test
    if isinstance(test, RatioTest | LevelTest) and (test.at_least is not None or test.at_most is not None):
        return test.at_least, test.at_most
    if isinstance(test, RatioTest) and found.published is not None:
        return (1.0, None) if found.published > 1 else (None, 1.0)
    if isinstance(test, TrendTest) and test.shape == "flat":
        return None, test.within
    if isinstance(test, OrderTest | TrendTest):
        return 1.0, None
    return None, None
