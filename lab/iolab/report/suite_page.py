"""A run of a suite as one HTML document: findings with their evidence first, then claims, tables and charts."""

from __future__ import annotations

from typing import NamedTuple

from markupsafe import Markup

from iolab.judge.results import Results
from iolab.judge.suite import SuiteResults, counted
from iolab.plan.suite import Part
from iolab.report import (
    claim_charts,
    claim_table,
    document,
    failures,
    figures,
    findings,
    page,
    palette,
    pictures,
    published_table,
)
from iolab.report.claim_table import ClaimRow
from iolab.report.pictures import Drawing
from iolab.report.published_table import PublishedTable
from iolab.wording import when


class ExperimentPart(NamedTuple):
    """One experiment of a suite on the page; `folder` is that of its own report, beside the suite's."""

    name: str
    question: str
    folder: str
    circumstances: str
    published: tuple[PublishedTable, ...]
    notes: tuple[str, ...]
    ratios: tuple[Drawing, ...]


class PartOfPage(NamedTuple):
    """One part of a suite: its claims as rows, their charts, each with the claim's id, and its experiments."""

    part: Part
    claims: tuple[ClaimRow, ...]
    charts: tuple[tuple[str, Drawing], ...]
    experiments: tuple[ExperimentPart, ...]


def render(found: SuiteResults) -> str:
    """The whole document. Pure: the same runs give the same text."""
    style = palette.css() + document.resource("style.css")
    runs = list(found.runs.values())
    judgements = [each.found.judgement for each in found.claims]
    return (
        document.templates()
        .get_template("suite.html.j2")
        .render(
            suite=found.record.suite,
            policy=document.policy_of(style),
            style=Markup(style),
            is_quick=found.record.is_quick,
            counted=counted(judgements),
            missing=_missing(found),
            earlier=found.earlier,
            began=when(found.began) if found.began else "",
            groups=findings.groups(found),
            parts=[_part(found, part) for part in found.record.suite.parts],
            machine=figures.machine_rows(runs[0].machine) if runs else (),
            again=findings.again(found),
            raw=page.RAW,
        )
    )


def _missing(found: SuiteResults) -> tuple[str, ...]:
    """The experiments of the run that have not finished."""
    asked = found.record.suite.experiments(quick=found.record.is_quick)
    return tuple(name for name in asked if name not in found.runs)


def _part(found: SuiteResults, part: Part) -> PartOfPage:
    claims = [each.found for each in found.claims if each.part == part]
    names = [name for name in (*part.experiments, *part.full) if name in found.runs]
    drawn = ((each.claim.id, claim_charts.drawing_of(each)) for each in claims)
    return PartOfPage(
        part=part,
        claims=claim_table.rows(claims),
        charts=tuple((claim, chart) for claim, chart in drawn if chart is not None),
        experiments=tuple(_experiment(name, found.runs[name]) for name in names),
    )


def _experiment(name: str, run: Results) -> ExperimentPart:
    plan, done = run.plan, {result.trial.place: result for result in run.trials}
    used = [figures.counted(plan, at, done) for at in range(len(run.verdicts))]
    broken = [failures.broken(each, at, done, plan.published) for at, each in enumerate(plan.comparisons)]
    processors = run.machine.get("cpu", {}).get("logical")
    return ExperimentPart(
        name=name,
        question=plan.question,
        folder=run.folder.name,
        circumstances=_circumstances(run),
        published=published_table.tables(plan, used, broken, processors),
        notes=published_table.notes(plan),
        ratios=tuple(pictures.ratio_drawings(run.verdicts)[:2]),
    )


def _circumstances(run: Results) -> str:
    """How much was run, and how much of it counts."""
    discarded = sum(result.discarded for result in run.trials)
    inconclusive = [found.name for found in run.verdicts if found.inconclusive is not None]
    open_ = f" Inconclusive: {', '.join(inconclusive)}." if inconclusive else ""
    return f"{run.plan.blocks} blocks, {len(run.trials)} trials, {discarded} of them discarded.{open_}"
