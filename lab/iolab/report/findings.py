"""The findings of a suite, in the order of a reader's questions: what was right, what was wrong and why, what stays
open.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from iolab.judge.claims import ClaimVerdict
from iolab.judge.suite import SuiteClaim, SuiteResults
from iolab.judge.together import together
from iolab.metrics import METRICS
from iolab.plan.claims import Figure
from iolab.report import claim_charts, claim_table, formats
from iolab.report.claim_table import TestRow


class Finding(NamedTuple):
    """A claim among the findings: its verdict, figures, reason, and whether the page has its chart.

    `folder` is that of the experiment's run, empty without one. `beside` are tests without a vote that explain
    something, such as a control.
    """

    id: str
    part: str
    experiment: str
    folder: str
    text: str
    word: str
    kind: str
    evidence: str
    why: str
    beside: tuple[str, ...]
    has_chart: bool
    is_headline: bool


class Group(NamedTuple):
    """Findings under one heading: those of the headline, and the others, which are folded away."""

    heading: str
    about: str
    headline: tuple[Finding, ...]
    others: tuple[Finding, ...]
    slips: tuple[str, ...] = ()


# The heading, its verdicts, and their meaning.
HEADINGS = (
    (
        "What the notes got right",
        ("confirmed", "direction only"),
        "The relation holds here too. “Direction only”: the effect has another size on this machine.",
    ),
    (
        "What they got wrong, and why",
        ("contradicted",),
        "The intervals measured here are outside what the published sentence allows.",
    ),
    (
        "What this machine cannot decide",
        ("undecided", "not measurable here", "stated"),
        "This run has too few blocks, the machine lacks something that the claim needs, or no measurement can decide.",
    ),
    ("Only in the full run", ("full run only",), "The quick run measures only what the headline claims need."),
)


# The source of a claim that no note makes, and the heading of such claims.
OWN = "iolab"
OWN_HEADING, OWN_ABOUT = "What no note asks", "Claims of iolab itself, about causes that the notes leave open."


def groups(found: SuiteResults) -> tuple[Group, ...]:
    """The findings under their headings, without empty headings."""
    published = [each for each in found.claims if each.found.claim.source != OWN]
    own = [each for each in found.claims if each.found.claim.source == OWN]
    made = []
    for heading, words, about in HEADINGS:
        mine = [_finding(each, found) for each in published if each.found.judgement in words]
        mine.sort(key=lambda each: words.index(each.word))
        is_wrong = "contradicted" in words
        joint = together(found.runs.values()).sentence if is_wrong else ""
        made.append(_group(heading, f"{about} {joint}".rstrip(), mine, tuple(_slips(found)) if is_wrong else ()))
    made.append(_group(OWN_HEADING, OWN_ABOUT, [_finding(each, found) for each in own]))
    return tuple(each for each in made if each.headline or each.others or each.slips)


def _group(heading: str, about: str, mine: Sequence[Finding], slips: tuple[str, ...] = ()) -> Group:
    headline = tuple(each for each in mine if each.is_headline)
    others = tuple(each for each in mine if not each.is_headline)
    return Group(heading, about, headline, others, slips)


def _finding(each: SuiteClaim, whole: SuiteResults) -> Finding:
    claim, row = each.found.claim, claim_table.claim_row(each.found)
    deciding = each.found.tests[_deciding(each.found)]
    row_of_test = claim_table.test_row(deciding)
    evidence = _evidence(row_of_test, deciding.blocks)
    return Finding(
        id=claim.id,
        part=each.part.name,
        experiment=each.experiment,
        folder=whole.runs[each.experiment].folder.name if each.experiment in whole.runs else "",
        text=claim.text,
        word=row.word,
        kind=row.kind,
        evidence=evidence,
        why=_why(each.found.reason, evidence, row_of_test.published),
        beside=tuple(_beside(each.found)),
        has_chart=any(claim_charts.evidence(each.found)),
        is_headline=claim.headline,
    )


def _why(reason: str, evidence: str, published: str) -> str:
    """The reason without figures that the evidence repeats, or with the published figure if there is no evidence."""
    if not evidence:
        return f"published {published}; {reason}" if published else reason
    figures, _, why = reason.partition(": ")
    return why if figures and evidence.startswith(figures) else reason


def _deciding(found: ClaimVerdict) -> int:
    """The index of the test whose verdict is the claim's."""
    return next(
        at
        for at, each in enumerate(found.tests)
        if not each.test.shown and (each.judgement, each.reason) == (found.judgement, found.reason)
    )


def _evidence(row: TestRow, blocks: int | None) -> str:
    """The figures of a test in short: published, measured with its interval, and from how many blocks.

    Empty if nothing was measured.
    """
    if not row.measured:
        return ""
    parts = [f"published {row.published}"] if row.published else []
    parts.append(f"measured {row.measured}")
    parts += [f"n = {formats.count(blocks, 'block')}"] if blocks else []
    return ", ".join(parts)


def _beside(found: ClaimVerdict) -> Iterator[str]:
    """The figures of tests without a vote."""
    for each in found.tests:
        if each.test.shown and each.value is not None:
            row = claim_table.test_row(each)
            yield f"{row.asked}: {_evidence(row, each.blocks)}"


def _slips(found: SuiteResults) -> Iterator[str]:
    """Contradictions within the notes: figures that do not follow from the others of their row."""
    for run in found.runs.values():
        for row in run.plan.published:
            for title, figures in row.figures.items():
                for metric, figure in figures.items():
                    if figure.value is not None and figure.should_be is not None and _is_wrong(figure.value, figure):
                        yield f"{row.id}, {title}: {_slip(metric, figure, figure.value, figure.should_be)}"


def _is_wrong(printed: float, figure: Figure) -> bool:
    """Whether a printed figure differs from the correct one by more than its last digit, cut off or rounded."""
    decimals = len(f"{printed:.10g}".partition(".")[2])
    return figure.should_be is not None and abs(figure.should_be - printed) >= 10.0**-decimals


def _slip(metric: str, figure: Figure, printed: float, should_be: float) -> str:
    shown = METRICS[metric]
    note = f" ({figure.note})" if figure.note else ""
    return f"{shown.title.lower()} is printed as {_digits(printed / shown.scale)} and should be " + (
        f"{_digits(should_be / shown.scale)} {shown.unit}".rstrip() + note
    )


def _digits(value: float) -> str:
    """All digits of a printed figure."""
    return f"{value:,.10g}"


def again(found: SuiteResults) -> tuple[str, ...]:
    """The command that runs it again."""
    return ("iolab", "run", found.record.suite.name, *_flags(found))


def _flags(found: SuiteResults) -> Iterator[str]:
    for name in found.record.only:
        yield from ("--only", name)
    for name, value in found.record.settings.items():
        yield from ("--set", f"{name}={value}")
    if found.record.is_quick:
        yield "--quick"
