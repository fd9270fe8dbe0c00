"""A run as Markdown, short enough for a pull request: the verdict, the claims, the ratios, and caveats."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence

from iolab.judge import scaling
from iolab.judge.claims import ClaimVerdict
from iolab.judge.results import Results
from iolab.judge.suite import SuiteResults, counted
from iolab.judge.verdict import ComparisonVerdict
from iolab.metrics import COMPARED
from iolab.report import claim_table, commands, findings, formats, headline, matrix
from iolab.report.drawing import clean
from iolab.wording import NOTHING, when

# Tables with more rows are folded away, so that a comment stays short.
ROWS_MAX = 16


def of_run(found: Results) -> str:
    """The Markdown of a comparison or an experiment."""
    lines = [f"## {_text(found.plan.question)}", "", *_verdict(found), ""]
    lines += _table(("Claim", "Verdict", "Published", "Measured [95 %]", "Why"), map(_claim, found.claims))
    for each in matrix.matrices(found.verdicts):
        rows = ((_text(row.title), *(cell.text for cell in row.cells)) for row in each.rows)
        lines += [f"**{each.heading}**, ratio to the best:", "", *_table(("Contestant", *each.settings), rows)]
    ratios = [row for verdict in found.verdicts if not verdict.rankings for row in _ratios(verdict)]
    lines += _table(("Setting", "Contestant / reference", *(row.title for row in COMPARED.values())), ratios)
    lines += [f"- Scaling: {_text(line)}" for line in scaling.sentences(found.scalings)]
    lines += [f"- Not equal: {_text(line)}" for line in headline.unequal(found.verdicts, warned_only=True)]
    lines += [f"- {_text(line)}" for line in headline.unfinished(found.plan, found.verdicts)]
    lines += [] if found.precision is None else [f"- {_text(found.precision.sentence)}"]
    return "\n".join([*lines, *_end(found.began, commands.again(found.plan))])


def of_suite(found: SuiteResults) -> str:
    """The Markdown of a suite: its findings, group by group."""
    lines = [f"## {_text(found.record.suite.question)}", ""]
    lines += [f"{counted([each.found.judgement for each in found.claims])}.", ""]
    if found.earlier:
        lines += [f"Results of an earlier run, as the new one has not ended: {_text(', '.join(found.earlier))}.", ""]
    for group in findings.groups(found):
        rows = (
            (f"**{each.id}** {_text(each.text)}", each.word, _text(each.evidence or each.why))
            for each in (*group.headline, *group.others)
        )
        lines += [f"### {group.heading}", "", *_table(("Claim", "Verdict", "Evidence"), rows)]
        if group.slips:
            lines += ["Where the notes contradict themselves:", "", *(f"- {_text(line)}" for line in group.slips), ""]
    return "\n".join([*lines, *_end(found.began, findings.again(found))])


def _verdict(found: Results) -> Iterator[str]:
    """The verdict of the whole run, as a list if it has several lines."""
    at_a_glance = matrix.summary(list(matrix.matrices(found.verdicts)))
    said = [_text(line) for line in (at_a_glance or headline.headline(found.verdicts)).splitlines()]
    if found.claims:
        yield f"**{_text(headline.of_claims(found.claims))}**"
        yield ""
    yield from (f"- {line}" for line in said) if len(said) > 1 else (f"**{line}**" for line in said)


def _claim(found: ClaimVerdict) -> tuple[str, ...]:
    row = claim_table.claim_row(found)
    figures = next((test for test in row.tests if test.measured), row)
    return f"**{row.id}** {_text(row.text)}", row.word, figures.published, figures.measured, _text(found.reason)


def _ratios(found: ComparisonVerdict) -> Iterator[tuple[str, ...]]:
    """A row for each compared pair: the ratio of every metric, bold if it differs."""
    pairs = dict.fromkeys((each.contestant, each.reference) for each in found.estimates)
    for contestant, reference in pairs:
        cells = []
        for metric in COMPARED:
            each = found.estimate(metric, contestant, reference)
            known = each is not None and each.bound != "unknown"
            text = formats.ratio_text(each) if each is not None and known else NOTHING
            cells.append(f"**{text}**" if each is not None and known and each.word == "differs" else text)
        yield found.name, f"{_text(contestant)} / {_text(reference)}", *cells


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table; empty without rows, and folded away if it has many."""
    body = ["| " + " | ".join(cell or NOTHING for cell in row) + " |" for row in rows]
    if not body:
        return []
    table = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads), *body, ""]
    if len(body) <= ROWS_MAX:
        return table
    return ["<details>", f"<summary>{len(body)} rows</summary>", "", *table, "</details>", ""]


def _text(text: str) -> str:
    """Text from outside without markup."""
    plain = clean(text)
    for sign in "\\`*_[]<>|":
        plain = plain.replace(sign, f"\\{sign}")
    return plain.replace("\n", " ")


def _end(began: str, again: Sequence[str]) -> list[str]:
    measured = f"Measured {when(began)}. " if began else ""
    return [f"{measured}Run it again: {_code(shlex.join(again))}", ""]


def _code(text: str) -> str:
    """Text as inline code, in a fence longer than any run of backticks in the text."""
    plain = " ".join(clean(text).split())
    fence = "`" * (1 + max(map(len, re.findall("`+", plain)), default=0))
    return f"{fence} {plain} {fence}" if "`" in plain else f"`{plain}`"
