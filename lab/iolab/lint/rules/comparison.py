"""Checks whether runs of one page are comparable: equal replies and cores, several runs, errors, enough digits."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from iolab.lint.columns import quantile
from iolab.lint.figures import Figure, Span, shown, shown_time
from iolab.lint.record import TITLES, Finding, Page, Run, Table, inconclusive
from iolab.wording import listed

# Equal replies may differ by a header or two.
BYTES_RATIO_MAX = 1.1
CORES_RATIO_MAX = 1.5
# How far apart rounding may leave the ends of a ratio.
RESOLUTION_MAX = 1.1
# The largest number of runs to compare with each other, which bounds the time.
PAIRED_MAX = 200
# Fields that count errors or successes.
_ERRORS = {"failed", "failed_share", "successes", "success_rate"}
_NUMBER = r"(?:\d{1,4}|two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|several)"
# Text beside a table on its number of runs, and that nothing failed.
_RUNS = re.compile(
    rf"\b{_NUMBER} (?:\w{{1,20}} )?(?:runs|repetitions|repeats|trials|blocks)\b"
    rf"|\b(?:repeated|ran|run|measured) {_NUMBER} times\b"
    rf"|\b(?:median|mean|average|best)s? (?:of|over) (?:the )?{_NUMBER}\b|\bconfidence\b",
    re.IGNORECASE,
)
_NO_ERRORS = re.compile(
    r"\b(?:no|0|zero|without|without any) (?:\w{1,20} )?(?:errors?|failures?|failed|timeouts)\b"
    r"|\b(?:none|nothing) failed\b",
    re.IGNORECASE,
)


def check(page: Page) -> Iterator[Finding]:
    """Findings on comparisons within the tables and outputs of a page."""
    for runs in (page.outputs, *(table.runs for table in page.tables)):
        contestants = by_name(runs)
        if len(contestants) > 1:
            # Some tools count only the bytes of bodies, and some count classes of statuses.
            if len({run.tool for run in runs if run.name}) == 1:
                yield from _bytes(contestants)
                yield from _statuses(contestants)
            yield from _cores(contestants)
            yield from _resolution(contestants)
    says_runs, says_no_errors = (_says(page, words) for words in (_RUNS, _NO_ERRORS))
    for table in page.tables:
        contestants = by_name(table.runs)
        if len(contestants) > 1 and _has_results(table):
            if not says_runs:
                yield from _one_run(table, contestants)
            if not says_no_errors:
                yield from _no_errors(table)
    yield from _one_output(page)


def by_name(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """The runs of each contestant, in the order of the page, without unnamed runs."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        if run.name:
            found.setdefault(run.name, []).append(run)
    return found


def _says(page: Page, words: re.Pattern[str]) -> bool:
    """Whether the prose of a page has a match."""
    return any(words.search(line.text) for line in page.prose)


def _has_results(table: Table) -> bool:
    return any(name in ("rate", "mean", "request_mean") or quantile(name) for name in table.fields)


def _bytes(contestants: Mapping[str, Sequence[Run]]) -> Iterator[Finding]:
    """Unequal bytes per reply."""
    each = {name: found for name, runs in contestants.items() if (found := _reply(runs))}
    if len(each) < 2:
        return
    (small, (least, _)), (large, (most, line)) = (
        pick(each.items(), key=lambda item: item[1][0].middle) for pick in (min, max)
    )
    if most.low > least.high * BYTES_RATIO_MAX:
        yield inconclusive(
            "unequal-replies",
            line,
            f"{large} answers {shown(round(most.middle))} bytes per reply and {small} {shown(round(least.middle))}: "
            "transfer rates do "
            "not compare, and rates are of unequal work",
        )


def _reply(runs: Sequence[Run]) -> tuple[Span, int] | None:
    """The bytes per reply of the first run that has them, and the line."""
    for run in runs:
        for above, below in (("bytes", "requests"), ("byte_rate", "rate"), ("body_bytes", "requests")):
            if above in run.figures and below in run.figures and run.figures[below].value:
                return run.figures[above].span / run.figures[below].span, run.figures[above].line
        if each := run.figures.get("bytes_each"):
            return each.span, each.line
    return None


def _statuses(contestants: Mapping[str, Sequence[Run]]) -> Iterator[Finding]:
    each = {
        name: {status for run in runs for status, found in run.statuses.items() if found.value}
        for name, runs in contestants.items()
    }
    told = {name: statuses for name, statuses in each.items() if statuses}
    if len({frozenset(statuses) for statuses in told.values()}) > 1:
        last = next(run for run in contestants[list(told)[-1]] if run.statuses)
        said = [f"{name} {'/'.join(sorted(statuses))}" for name, statuses in told.items()]
        yield inconclusive(
            "unequal-replies",
            next(iter(last.statuses.values())).line,
            f"the contestants answer with different statuses ({listed(said)}): rates are of unequal work",
        )


def _cores(contestants: Mapping[str, Sequence[Run]]) -> Iterator[Finding]:
    """The first two runs of one case with unequal CPU, of which one used a core or more."""
    used = [run for runs in contestants.values() for run in runs if "cpu" in run.figures][:PAIRED_MAX]
    for few in used:
        for many in used:
            least, most = few.figures["cpu"], many.figures["cpu"]
            if most.value >= 1 and most.span.low > least.span.high * CORES_RATIO_MAX and _one_case(few, many):
                yield inconclusive(
                    "unequal-cores",
                    most.line,
                    f"{many.name} used {most.text} CPU and {few.name} {least.text}: compare requests per CPU-second, "
                    "not "
                    "requests per second",
                )
                return


def _one_case(one: Run, other: Run) -> bool:
    """Whether two runs differ only in their contestant."""
    settings = [{each for each in run.settings.items() if each[1] != run.name} for run in (one, other)]
    same = all(_text(one, each) == _text(other, each) for each in ("connections", "processes", "size"))
    return one.name != other.name and settings[0] == settings[1] and same


def _resolution(contestants: Mapping[str, Sequence[Run]]) -> Iterator[Finding]:
    """The first latency whose ratio the printed digits leave open, a bounded ratio before an unbounded one."""
    names = list(contestants)
    first, second = (_latencies(contestants[name][0]) for name in names[:2])
    tools = {contestants[name][0].tool for name in names[:2]}
    if len(tools) > 1 or "table" in tools:
        return
    open_ratios = []
    for title in first.keys() & second.keys():
        ratio = second[title].span / first[title].span
        if ratio.low <= 0 or ratio.high > ratio.low * RESOLUTION_MAX:
            open_ratios.append((title, ratio))
    if open_ratios:
        title, ratio = min(open_ratios, key=lambda each: (not math.isfinite(each[1].high), list(first).index(each[0])))
        line = second[title].line
        yield inconclusive(
            "resolution",
            line,
            f"{title} is {shown_time(first[title].value)} of {names[0]} and {shown_time(second[title].value)} of "
            f"{names[1]}, rounded "
            f"to {shown_time(_step(second[title]))}: the ratio can be {_ends(ratio)}, and "
            f"{len(open_ratios)} latencies of {len(first.keys() & second.keys())} are as uncertain",
        )


def _ends(ratio: Span) -> str:
    """The range of a ratio in words."""
    if math.isfinite(ratio.high):
        return f"{shown(ratio.low)} to {shown(ratio.high)}"
    return f"{shown(ratio.low)} or more" if ratio.low > 0 else "anything"


def _latencies(run: Run) -> dict[str, Figure]:
    quantiles = {f"p{100 * share:.6g}": within for share, within in run.quantiles if share < 1}
    return {TITLES[name]: run.figures[name] for name in ("least", "mean") if name in run.figures} | quantiles


def _step(figure: Figure) -> float:
    return figure.span.high - figure.value


def _one_run(table: Table, contestants: Mapping[str, Sequence[Run]]) -> Iterator[Finding]:
    """One row for each contestant and setting, without a column on repeats or spread."""
    if {"spread", "repeats"} & set(table.fields) or any("±" in cell.text for row in table.rows for cell in row):
        return
    settings = [
        (
            name,
            tuple(sorted(run.settings.items())),
            *(_text(run, each) for each in ("connections", "requests", "size", "processes")),
        )
        for name, runs in contestants.items()
        for run in runs
    ]
    if settings and max(Counter(settings).values()) == 1:
        yield inconclusive(
            "one-run",
            table.line,
            f"{len(settings)} results of {len(contestants)} contestants, each of one run, with no spread or number "
            "of runs: a "
            "difference may be noise, or drift between one run and the next",
        )


def _text(run: Run, name: str) -> str:
    return each.text if (each := run.figures.get(name)) else ""


def _no_errors(table: Table) -> Iterator[Finding]:
    if "rate" in table.fields and not _ERRORS & set(table.fields):
        yield inconclusive(
            "errors-missing",
            table.line,
            "the table has rates and no column of errors or successes: a server that refuses requests can look fast",
        )


def _one_output(page: Page) -> Iterator[Finding]:
    contestants = by_name(page.outputs)
    if len(contestants) > 1 and all(len(runs) == 1 for runs in contestants.values()):
        yield inconclusive(
            "one-run",
            page.outputs[-1].line,
            f"{len(contestants)} contestants ({listed(list(contestants))}) with one run each and no spread: a "
            "difference may be "
            "noise, or drift between one run and the next",
        )
