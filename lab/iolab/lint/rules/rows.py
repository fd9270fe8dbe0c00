"""Checks the rows of a table against each other: gaps, units, work, shares, memory, averages of quantiles."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from iolab.lint import columns
from iolab.lint.figures import Figure, Span, figure, shown, shown_time
from iolab.lint.record import Cell, Finding, Page, Run, Table, impossible, inconclusive
from iolab.lint.rules.evidence import DURATION_MIN_S

# From this share of numbers on, a column is numeric and its other cells are gaps.
NUMBERS_SHARE_MIN = 0.5
EMPTY = ("", "-", "–", "—", "n/a", "na", "?", "(missing)", "missing", "none")
# Figures of one case further apart do not come from repeated runs.
SAME_CASE_RATIO_MAX = 1.2
# The largest numbers of rows and tables to compare with each other, which bound the time.
PAIRED_MAX = 200
TABLES_MAX = 20
# A count is a multiple of n connections by chance once in n.
ROUND_MIN = 100
# A count with at most three digits before its zeros is a requested one.
_ASKED = re.compile(r"\d{1,3}0*")
_WORK = re.compile(r"\b(\d[\d,]{3,14}) (?:messages|requests|calls|round trips)\b")
_AVERAGE = re.compile(r"^(?:average|avg|mean|overall|total|all)\b", re.IGNORECASE)
_AVERAGED = re.compile(
    r"\b(?:avg|average|mean)(?: of)?(?: the)? p\d{2}|\bp\d{2}(?:\.\d)?[ (,]{1,3}(?:avg|average|mean)\b", re.IGNORECASE
)
_HAS_UNIT = re.compile(r"\d\s?(?:ns|us|µs|ms|s|secs?|seconds|min|h)\b")
_PART = re.compile(r"(\d{1,3}(?:\.\d{1,3})?)\s?%?\s?(each)?")


def check(page: Page) -> Iterator[Finding]:
    """Findings on the rows of all tables."""
    for table in page.tables:
        for rule in (_short, _gaps, _units, _rounds, _shares, _share_of_what, _memory, _averages):
            yield from rule(table)
        yield from _work(table, page)
    yield from _same_case(page)
    for each in page.silent:
        yield inconclusive(
            "gap",
            each.line,
            f"a command of {each.tool} without its output, on a page with others: the case was not published",
        )


def _short(table: Table) -> Iterator[Finding]:
    timed = [run.figures["duration"] for run in table.runs if "duration" in run.figures]
    short = [each for each in timed if each.span.high < DURATION_MIN_S]
    if short:
        least = min(short, key=lambda each: each.value)
        yield inconclusive(
            "short",
            least.line,
            f"{len(short)} of {len(timed)} runs took less than {shown(DURATION_MIN_S)} s, the shortest "
            f"{shown_time(least.value)}: start-up "
            "and a few ticks of the scheduler are a large part of them",
        )


class Column(NamedTuple):
    """A column that should hold a figure in every row."""

    at: int
    field: str
    title: str


def _numeric(table: Table) -> list[Column]:
    found = []
    for at, (field, title) in enumerate(zip(table.fields, table.titles, strict=True)):
        cells = [row[at].text for row in table.rows if at < len(row)]
        numbers = [text for text in cells if re.match(r"\W{0,3}\d", text)]
        if columns.kind(field, title) and cells and len(numbers) >= NUMBERS_SHARE_MIN * len(cells):
            found.append(Column(at, field, title))
    return found


def _gaps(table: Table) -> Iterator[Finding]:
    """Rows without a figure that others have; rows that lack the same ones are one finding."""
    needed = [each for each in _numeric(table) if each.field in (*_RESULTS, "across") or columns.quantile(each.field)]
    if len(table.rows) < 2:
        return
    alike: dict[str, list[Sequence[Cell]]] = {}
    for row in table.rows:
        missing = [
            (each, row[each.at]) for each in needed if each.at < len(row) and not re.search(r"\d", row[each.at].text)
        ]
        if missing:
            words = sorted({cell.text for _, cell in missing if cell.text.lower() not in EMPTY})
            titles = ", ".join(each.title for each, _ in missing)
            reason = f", only {', '.join(words)!r}" if words else ""
            known = _computed(table, row, [each for each, _ in missing])
            alike.setdefault(f"no figure for {titles}{reason}: {known}", []).append(row)
    for message, rows in alike.items():
        yield inconclusive("gap", rows[0][0].line, f"{'; '.join(_row_name(table, row) for row in rows)}: {message}")


_RESULTS = ("rate", "duration", "mean", "request_mean", "byte_rate")


def _computed(table: Table, row: Sequence[Cell], missing: Sequence[Column]) -> str:
    """What a missing figure must be, or what a failed run needs."""
    run = next((run for run in table.runs if run.line == row[0].line), None)
    duration, requests = ((run.figures.get(name) if run else None) for name in ("duration", "requests"))
    if [each.field for each in missing] == ["across"] and duration and requests and requests.value:
        operands = f"{shown_time(duration.value)} / {shown(requests.value)}"
        return f"duration / requests = {operands} = {shown_time(duration.value / requests.value)}"
    return "a run that failed needs its count of errors and its cause"


def _row_name(table: Table, row: Sequence[Cell]) -> str:
    named = [cell.text for cell, title in zip(row, table.titles, strict=False) if cell.text and cell.text not in EMPTY]
    return " ".join(named[:3]) or "a row"


def _units(table: Table) -> Iterator[Finding]:
    """Times of one column, some with a unit and some without."""
    for at, field, title in _numeric(table):
        of = columns.kind(field, title)
        if of is None or of[0] != "time" or columns.says_unit(title):
            continue
        cells = [row[at] for row in table.rows if at < len(row) and re.search(r"\d", row[at].text)]
        bare = [cell for cell in cells if not _HAS_UNIT.search(cell.text)]
        if bare and len(bare) < len(cells):
            other = next(cell for cell in cells if cell not in bare)
            yield inconclusive(
                "unit", bare[0].line, f"{title} is {bare[0].text} without a unit, and {other.text} in line {other.line}"
            )


def _work(table: Table, page: Page) -> Iterator[Finding]:
    """Rates that contradict the amount of work in the text, if most rows agree with it."""
    if "requests" in table.fields:
        return
    rows = [
        (run, run.figures["rate"], run.figures["duration"])
        for run in table.runs
        if {"rate", "duration"} <= run.figures.keys()
    ]
    for number in sorted({int(each.replace(",", "")) for line in page.prose for each in _WORK.findall(line.text)}):
        agree = [rate.span.meets(Span.exactly(number) / duration.span) for _, rate, duration in rows]
        if sum(agree) * 2 <= len(rows):
            continue
        for (run, rate, duration), holds in zip(rows, agree, strict=True):
            if not holds and duration.value:
                yield impossible(
                    "formula",
                    rate.line,
                    f"{run.name}: requests per second is {shown(rate.value)}, but requests / duration = {number} / "
                    f"{shown_time(duration.value)} = {shown(number / duration.value)}",
                )


def _rounds(table: Table) -> Iterator[Finding]:
    """Counts that are not multiples of the connections, while those of other rows are: cut rounds."""
    rows = [
        (run, run.figures["requests"], run.figures["connections"].value)
        for run in table.runs
        if {"requests", "connections"} <= run.figures.keys() and run.figures["connections"].value >= ROUND_MIN
    ]
    rows = [row for row in rows if not _ASKED.fullmatch(f"{row[1].value:.0f}")]
    cut = [(run, requests, each) for run, requests, each in rows if requests.value % each]
    if len(rows) - len(cut) >= 2 and cut:
        _, requests, each = cut[0]
        texts = ", ".join(one.text for _, one, _ in cut)
        yield inconclusive(
            "rounds",
            requests.line,
            f"{texts}: no multiples of {shown(each)} connections, as the other {len(rows) - len(cut)} counts are: a "
            "round over all "
            "connections was cut, so requests go one after the other and few are in flight",
        )


def _shares(table: Table) -> Iterator[Finding]:
    """CPU shares of server and clients that do not add up to the whole."""
    whole, parts = (_at(table, name) for name in ("cpu", "cpu_parts"))
    if whole is None or parts is None:
        return
    for row in table.rows:
        if max(whole, parts) >= len(row):
            continue
        total = figure(row[whole].text, row[whole].line, "share")
        run = next((run for run in table.runs if run.line == row[0].line), None)
        readings = _readings(row[parts].text, run)
        if total and readings and not any(abs(total.value * 100 - sum_) <= slack for sum_, slack in readings):
            sums = " or ".join(shown(sum_) for sum_, _ in readings)
            yield impossible(
                "shares",
                row[parts].line,
                f"{_row_name(table, row)}: CPU is {total.text}, but its parts {row[parts].text} add up to {sums} %",
            )


def _readings(text: str, run: Run | None) -> list[tuple[float, float]]:
    """The possible sums of the parts, with their rounding: `each` may mean one, two or all processes."""
    parts = _PART.findall(text)
    if len(parts) < 2 or "/" not in text:
        return []
    processes = run.figures["processes"].value if run and "processes" in run.figures else 1.0
    times = {1.0, 2.0, processes} if any(each for _, each in parts) else {1.0}
    return [
        (sum(float(number) * (factor if each else 1) for number, each in parts), 0.5 + 0.5 * (1 + factor))
        for factor in sorted(times)
    ]


def _at(table: Table, field: str) -> int | None:
    return table.fields.index(field) if field in table.fields else None


def _share_of_what(table: Table) -> Iterator[Finding]:
    """CPU shares of several machines that may be of a core or of a machine."""
    at, machine = (
        _at(table, "cpu"),
        next(
            (at for at, title in enumerate(table.titles) if re.search(r"\b(?:machine|host)\b", title, re.IGNORECASE)),
            None,
        ),
    )
    if at is None or machine is None or re.search(r"\bcores?\b|machine", table.titles[at], re.IGNORECASE):
        return
    machines = list(dict.fromkeys(row[machine].text for row in table.rows if machine < len(row) and row[machine].text))
    shares = [run.figures["cpu"] for run in table.runs if "cpu" in run.figures]
    if len(machines) > 1 and len(shares) > 1:
        least, most = min(shares, key=lambda each: each.value), max(shares, key=lambda each: each.value)
        yield inconclusive(
            "share-of-what",
            least.line,
            f"CPU of {least.text} to {most.text} on {len(machines)} machines ({', '.join(machines)}), without saying "
            "whether 100 % is a "
            "core or a machine: CPU per request cannot be compared",
        )


def _memory(table: Table) -> Iterator[Finding]:
    """More memory per process although more processes share the same connections."""
    rows = [
        run
        for run in table.runs
        if {"memory", "processes", "connections"} <= run.figures.keys() and run.figures["processes"].value
    ][:PAIRED_MAX]
    for few in rows:
        for many in rows:
            one, other = few.figures, many.figures
            if (
                other["processes"].value > one["processes"].value
                and other["connections"].value == one["connections"].value
                and other["memory"].span.low > one["memory"].span.high
                and _comparable(few, many)
            ):
                held = [each["connections"].value / each["processes"].value for each in (one, other)]
                yield inconclusive(
                    "memory",
                    other["memory"].line,
                    f"{other['memory'].text} in each of {shown(other['processes'].value)} processes with "
                    f"{shown(held[1])} connections, but "
                    f"{one['memory'].text} in {shown(one['processes'].value)} with {shown(held[0])}: memory does not "
                    "follow "
                    "connections, so it is not that of connections, or not of each process",
                )


def _comparable(one: Run, other: Run) -> bool:
    """Whether both have the same values in all common settings, except those with a slash in the title."""
    differing = [
        title for title in one.settings.keys() & other.settings.keys() if one.settings[title] != other.settings[title]
    ]
    return not [title for title in differing if not re.search(r"/", title)]


def _averages(table: Table) -> Iterator[Finding]:
    """A figure for a quantile that is the mean of quantiles."""
    for at, (field, title) in enumerate(zip(table.fields, table.titles, strict=True)):
        share = columns.quantile(field)
        if share is None:
            continue
        if _AVERAGED.search(title):
            line = table.rows[0][0].line if table.rows and table.rows[0] else table.line
            yield inconclusive(
                "averaged-quantiles",
                line,
                f"{title}: a mean of quantiles is no quantile of all requests; merge histograms",
            )
            continue
        found = [(row[0].text, read) for row in table.rows if at < len(row) and (read := _time(row[at], field, title))]
        others = [read for name, read in found if not _AVERAGE.match(name)]
        for name, read in found:
            mean = _mean(others)
            if _AVERAGE.match(name) and len(others) > 1 and mean.meets(read.span) and _differ(others):
                yield inconclusive(
                    "averaged-quantiles",
                    read.line,
                    f"{name}: {title} {read.text} is the mean of the {len(others)} above "
                    f"({shown_time(mean.middle)}): a mean of quantiles "
                    "is no quantile of all requests; merge histograms",
                )


def _time(cell: Cell, field: str, title: str) -> Figure | None:
    kind = columns.kind(field, title)
    return figure(cell.text, cell.line, *kind) if kind else None


def _mean(figures: Sequence[Figure]) -> Span:
    total = Span.exactly(0.0)
    for each in figures:
        total = total + each.span
    return total / Span.exactly(float(len(figures) or 1))


def _differ(figures: Sequence[Figure]) -> bool:
    return max(each.value for each in figures) > min(each.value for each in figures)


def _same_case(page: Page) -> Iterator[Finding]:
    """Two tables under one heading that share a figure of one case but have different ones for another case."""
    tables = page.tables[:TABLES_MAX]
    for at, table in enumerate(tables):
        for other in tables[at + 1 :]:
            if not table.heading or table.heading != other.heading:
                continue
            pairs = [(run, each) for run in table.runs[:PAIRED_MAX] for each in other.runs[:PAIRED_MAX]]
            pairs = [pair for pair in pairs if _is_one_case(*pair)]
            # Tables without a common figure may be of two workloads, named in the text between them.
            if any(_ratio(*pair) == 1 for pair in pairs):
                yield from (found for pair in pairs for found in _differing(*pair))


def _is_one_case(one: Run, other: Run) -> bool:
    """Whether two runs have the same contestant and settings."""
    fixed = ("connections", "requests", "size", "processes")
    both = [name for name in fixed if name in one.figures and name in other.figures]
    alike = all(one.figures[name].value == other.figures[name].value for name in both)
    return one.name == other.name and alike and _comparable(one, other)


def _result(one: Run, other: Run) -> str | None:
    """The name of a result that both runs have."""
    return next((name for name in ("rate", "duration") if name in one.figures and name in other.figures), None)


def _ratio(one: Run, other: Run) -> float:
    """The ratio of the larger to the smaller result of two runs; 0 if they have none in common."""
    name = _result(one, other)
    low, high = sorted((one.figures[name].value, other.figures[name].value)) if name else (0.0, 0.0)
    return high / low if low > 0 else 0.0


def _differing(one: Run, other: Run) -> Iterator[Finding]:
    name, ratio = _result(one, other), _ratio(one, other)
    if name is None or ratio <= SAME_CASE_RATIO_MAX:
        return
    first, second = one.figures[name], other.figures[name]
    extra = sorted(set(one.settings.items()) ^ set(other.settings.items()))
    differing = ", ".join(f"{title} {text}" for title, text in extra)
    why = f"they differ in {differing}" if extra else "nothing says what differs"
    yield inconclusive(
        "same-case",
        second.line,
        f"{one.name}: {second.text} here and {first.text} in line {first.line}, {ratio:.2f}x, for the same case: {why}",
    )
