"""A run as one HTML document: question and verdict, then caveats, then the figures."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from iolab.contract.ready import PythonState
from iolab.contract.types import percent
from iolab.judge import scaling, stats
from iolab.judge.bottleneck import Bottleneck
from iolab.judge.results import Results
from iolab.judge.together import together
from iolab.judge.verdict import ComparisonVerdict
from iolab.metrics import COMPARED, METRICS, RANKED_BY
from iolab.plan.plan import ALPHA
from iolab.report import (
    claim_table,
    commands,
    curves,
    document,
    failures,
    figures,
    formats,
    grids,
    growth,
    headline,
    matrix,
    palette,
    pictures,
    price,
    published_table,
    scaling_chart,
    timelines,
    warning_table,
)
from iolab.report.failures import Broken
from iolab.report.figures import ContestantRow, RankRow
from iolab.report.pictures import Drawing
from iolab.results import layout
from iolab.results.records import Result
from iolab.wording import BOUND_SIGNS, words_of

# Once comparisons need more drawings than this together, the rest get only their tables: each drawing takes a tenth of
# a second to make and some kilobytes to load, and no reader scrolls through more.
DRAWINGS_MAX = 120
# Drawings of a comparison besides one over time for each contestant: levels, context switches, percentiles and the
# price of a request.
DRAWINGS_OF_LEVELS = sum(not row.is_time for row in COMPARED.values()) + 3
# The most trials on the page, the rest stay in the record: a browser lays out a table as a whole.
TRIALS_MAX = 5_000
# The files of the run's record, beside the report.
RAW = (layout.TRIALS, layout.PLAN, layout.MACHINE)
# Lines of a fact in the box above the charts before the rest is folded away. Inequalities come first.
LINES_MAX, UNEQUAL_MAX = 3, 8
# A newline that only wraps a line in the file; list items begin lines of their own.
WRAPPED = re.compile(r"\n(?![ \t]*[-*] )")


class ComparisonPart(NamedTuple):
    """One comparison on the page. `named` pairs each label with its contestant."""

    draws: bool
    found: ComparisonVerdict
    workload: str
    named: tuple[tuple[str, str], ...]
    rows: tuple[ContestantRow, ...]
    ranks: tuple[RankRow, ...]
    broken: tuple[Broken, ...]
    limited: list[str]
    rankings: tuple[Drawing, ...]
    drawings: tuple[Drawing, ...]
    timelines: tuple[Drawing, ...]
    growth: tuple[Drawing, ...]
    by_hand: tuple[commands.ByHand, ...]


def render(run: Results) -> str:
    """The whole document. Pure: the same run gives the same text."""
    plan, results, verdicts = run.plan, run.trials, run.verdicts
    done = {result.trial.place: result for result in results}
    style = palette.css() + document.resource("style.css")
    used = [figures.counted(plan, at, done) for at in range(len(verdicts))]
    rows = figures.trial_rows(plan, used, results)
    broken = [failures.broken(each, at, done, plan.published) for at, each in enumerate(plan.comparisons)]
    drawings = itertools.accumulate(
        len(RANKED_BY) + 1 if comparison.many else DRAWINGS_OF_LEVELS + len(comparison.cells)
        for comparison in plan.comparisons
    )
    at_a_glance = list(matrix.matrices(verdicts))
    drawn = sum(count <= DRAWINGS_MAX for count in drawings)
    return (
        document.templates()
        .get_template("page.html.j2")
        .render(
            plan=plan,
            policy=document.policy_of(style),
            style=Markup(style),
            claims_line=headline.of_claims(run.claims),
            headline=matrix.summary(at_a_glance) or headline.headline(verdicts),
            verdicts=verdicts,
            unfinished=headline.unfinished(plan, verdicts),
            faults=run.faults,
            precision=run.precision,
            unequal=headline.unequal(verdicts),
            left_out=_left_out(verdicts),
            lines_max=LINES_MAX,
            unequal_max=UNEQUAL_MAX,
            discarded=_discarded_words(verdicts, results),
            warnings=warning_table.warning_table(plan, verdicts, results),
            inconclusive=[found.name for found in verdicts if found.inconclusive is not None],
            limits=figures.limits(plan),
            matrices=at_a_glance,
            grids=list(grids.drawings(verdicts)),
            curves=list(curves.drawings(verdicts)),
            scaling_words=scaling.sentences(run.scalings),
            scaling_charts=list(scaling_chart.drawings(run.scalings)),
            ratios=pictures.ratio_drawings(verdicts),
            parts=[
                _part(run, at, found, done, used[at], broken[at], draws=at < drawn) for at, found in enumerate(verdicts)
            ],
            claims=claim_table.rows(run.claims),
            together=together([run]).sentence,
            words_together=_words_together(verdicts),
            published=published_table.tables(plan, used, broken, run.machine.get("cpu", {}).get("logical")),
            published_notes=published_table.notes(plan),
            trials=rows[:TRIALS_MAX],
            trials_left_out=max(0, len(rows) - TRIALS_MAX),
            machine=figures.machine_rows(run.machine),
            identity=_identity(run.machine, results),
            again=commands.again(plan),
            paragraphs=[WRAPPED.sub(" ", part.strip()) for part in plan.analysis.split("\n\n") if part.strip()],
            metrics=METRICS,
            compared=COMPARED,
            ranked_by=RANKED_BY,
            quantiles={name: f"{name.replace('_', '.')} µs" for name in figures.QUANTILES},
            bounds=BOUND_SIGNS,
            raw=RAW,
            effect=stats.EFFECT,
        )
    )


def _part(
    run: Results,
    index: int,
    found: ComparisonVerdict,
    done: figures.Done,
    used: figures.Counted,
    broken: tuple[Broken, ...],
    *,
    draws: bool,
) -> ComparisonPart:
    plan, comparison = run.plan, run.plan.comparisons[index]
    rows = figures.contestant_rows(found, used)
    # With many contestants, drawings of every trial would fill the page, so only the ranking is drawn.
    details = draws and not comparison.many
    prices = price.drawings(found, used) if draws else ()
    return ComparisonPart(
        draws=draws,
        found=found,
        workload=figures.workload_words(comparison, found.reply_bytes),
        named=tuple(zip(comparison.labels, (cell.contestant.text for cell in comparison.cells), strict=False)),
        rows=tuple(rows),
        ranks=figures.rank_rows(found),
        broken=broken,
        limited=_limited(found),
        rankings=(*pictures.ranking_drawings(found), *prices) if draws and comparison.many else (),
        drawings=(*pictures.level_drawings(found, rows, broken, used), *prices) if details else (),
        timelines=tuple(timelines.drawings(plan, index, found, done)) if details else (),
        growth=tuple(growth.drawings(found, index, done)) if draws else (),
        by_hand=commands.by_hand(plan, index, run.machine),
    )


def _limited(found: ComparisonVerdict) -> list[str]:
    """Which contestants were limited by something other than the server, and by what; latency-bound ones come first."""
    limited = {title: limit for title, limit in found.limits.items() if not limit.kind.is_ranked}
    waited = [title for title, limit in limited.items() if limit.kind is Bottleneck.LATENCY]
    which = "" if len(waited) == len(found.titles) else f" ({', '.join(waited)})"
    lines = [
        f"Latency-bound: neither side was busy{which}, so requests per second only mirror the latency and do not show "
        "how much load a server can take. Compare latencies and CPU per request."
    ]
    return (lines if waited else []) + [f"{title}: {each.label}: {each.reason}." for title, each in limited.items()]


def _words_together(verdicts: Sequence[ComparisonVerdict]) -> str:
    """How the words on this page's ratios are corrected, and how many differences hold together; may be empty."""
    of_page = [each for found in verdicts for each in found.estimates]
    ratios = [each for each in of_page if each.p_holm is not None]
    if not ratios:
        return ""
    differing = [each for each in ratios if each.word == "differs"]
    held = sum(each.p_holm is not None and each.p_holm <= ALPHA for each in differing)
    of = f"all {len(ratios)} ratios of this page"
    if len(ratios) < len(of_page):
        of = f"the {len(ratios)} of {len(of_page)} ratios of this page that can be decided"
    joint = "all hold" if held == len(differing) else f"{held or 'none'} hold"
    more = "" if held == len(differing) else ": more than that takes more blocks"
    together = f" Of the {len(differing)} that differ, {joint} together at 95 % (Holm){more}." if differing else ""
    return (
        f"The words are corrected for {of} (Benjamini-Hochberg): of those called "
        f"different, {percent(ALPHA)} are expected to be equal at most, and where all are equal, any is called "
        f"different in 1 of 20 runs at most.{together} The intervals are not corrected: each holds at 95 % by itself."
    )


def _left_out(verdicts: Sequence[ComparisonVerdict]) -> list[str]:
    """Contestants that took no part, why, and where, a line for each reason."""
    places: dict[tuple[str, str], list[str]] = {}
    for found in verdicts:
        for title, why in found.left_out.items():
            places.setdefault((title, why), []).append(found.name)
    total = len(verdicts)
    return [
        f"{title}: {why.rstrip('.')}" + ("." if total == 1 else f", at {headline.where(names, total)}.")
        for (title, why), names in places.items()
    ]


def _discarded_words(verdicts: Sequence[ComparisonVerdict], results: Sequence[Result]) -> str:
    """How many trials were discarded and which warnings the verdicts have, in one sentence."""
    discarded = sum(result.discarded for result in results)
    warned = sum(bool(result.warnings) for result in results if not result.discarded)
    words = {each.warning.word for found in verdicts for each in found.warnings if not each.warning.discards}
    if not discarded and not words:
        return "No trial was discarded or failed, and there is no warning."
    if not warned and not words:
        of = f"{discarded} of {formats.count(len(results), 'trial')}"
        return f"{of} discarded; discarded trials are not used. The table of warnings below has the reasons."
    named = ", ".join(sorted(words_of(word) for word in words))
    return (
        f"{discarded} of {formats.count(len(results), 'trial')} discarded; discarded trials are not used. "
        f"Warnings: {named}. The table of warnings below counts the trials."
    )


def _identity(machine: Mapping[str, Any], results: Sequence[Result]) -> list[tuple[str, str]]:
    """Which builds were measured, from the record of the machine and the processes' own reports."""
    engine = machine.get("engine")
    rows = [(f"engine {key}", str(value)) for key, value in engine.items()] if isinstance(engine, dict) else []
    said = dict.fromkeys(r.report.build for r in results if r.report is not None)
    rows.append(("build reported by the generator", ", ".join(said) or "nothing measured yet"))
    said = dict.fromkeys(r.ready.build for r in results if r.ready is not None)
    rows.append(("build reported by the servers", ", ".join(said) or "none"))
    if python := dict.fromkeys(_python(r.ready_line.interpreter) for r in results if r.ready_line is not None):
        rows.append(("interpreter reported by the servers", ", ".join(filter(None, python)) or "none"))
    servers = commands.servers_of(machine)
    return rows + [(f"version of {name}", str(about["version"] or "unknown")) for name, about in servers.items()]


def _python(said: PythonState | None) -> str:
    """A short description of an interpreter; empty if a server reports none."""
    if said is None:
        return ""
    built = "with" if said.gil_built else "without"
    return f"Python {said.version.partition(' ')[0]}, built {built} the GIL, which is {'on' if said.gil else 'off'}"
