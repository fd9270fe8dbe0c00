"""Parses tables in Markdown, CSV or TSV; each row becomes a run."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence

from iolab.errors import BadInput
from iolab.lint import columns
from iolab.lint.figures import Figure, figure
from iolab.lint.record import Cell, Line, Quantile, Run, Table

COLUMNS_MAX = 100
# Tables for readers are shorter, and rules compare rows in pairs.
ROWS_MAX = 2_000
DELIMITERS = ("\t", ";", ",")
_RULE = re.compile(r"^[\s|:\-]{3,}$")
_HEADING = re.compile(r"^#{1,6} (.{1,200})")
_HAS_NUMBER = re.compile(r"^\W{0,3}\d")
# A pipe within a cell is escaped with a backslash.
_PIPE = re.compile(r"(?<!\\)\|")
# `12,5` and `1.234,50` have decimal commas; `1,234` is ambiguous, so the other numbers of the table decide.
_DECIMAL_COMMA = re.compile(r"\W{0,3}(?:0,\d|\d{1,12}(?:\.\d{3}){0,4},(?:\d{1,2}|\d{4,12})(?![\d.,]))")
_DECIMAL_POINT = re.compile(r"\W{0,3}(?:0\.\d|\d{1,12}(?:,\d{3}){0,4}\.(?:\d{1,2}|\d{4,12})(?![\d.,]))")
_NUMBER = re.compile(r"\d[\d.,]*\d")
_POINT_FOR_COMMA = str.maketrans({".": None, ",": "."})
_SPACED = re.compile(r"(?<![\d.,])\d{1,3}(?:[ '’]\d{3}){1,5}(?!\d)")
# The titles of a column of contestants, the most specific first.
CONTESTANTS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"^(?:server|system|contestant|framework|name|model)\b",
        r"\b(?:back ?end|engine|library|language)\b",
    )
)
Grid = list[list[Cell]]


def read(lines: Sequence[Line]) -> tuple[tuple[Table, ...], tuple[Line, ...]]:
    """The tables among these lines, and the lines between them."""
    found: list[Table] = []
    rest: list[Line] = []
    heading, at = "", 0
    while at < len(lines):
        grid, used = _markdown(lines, at) or _delimited(lines, at) or ([], 0)
        if used > ROWS_MAX:
            raise BadInput(
                f"line {lines[at].number}: a table of more than {ROWS_MAX} rows: give a summary, not all samples"
            )
        if used:
            found.extend(_tables(grid, heading))
            rest.extend(lines[at : at + used] if not grid else [])
            at += used
            continue
        if match := _HEADING.match(lines[at].text):
            heading = match[1].strip()
        rest.append(lines[at])
        at += 1
    return tuple(found), tuple(rest)


def _markdown(lines: Sequence[Line], at: int) -> tuple[Grid, int] | None:
    """The Markdown table that begins here: its cells without the rule under the titles, and its number of lines."""
    if at + 1 >= len(lines) or "|" not in lines[at].text:
        return None
    if "|" not in lines[at + 1].text or not _RULE.match(lines[at + 1].text):
        return None
    end = at
    while end < len(lines) and "|" in lines[end].text and end - at <= ROWS_MAX:
        end += 1
    kept = [line for line in lines[at:end] if line is not lines[at + 1]]
    return [_cells(line, _piped(line.text)) for line in kept], end - at


def _piped(text: str) -> list[str]:
    """The cells of a line of a Markdown table; the outer pipes are optional."""
    inner = re.sub(r"^\s*\||(?<!\\)\|\s*$", "", text)
    return [cell.replace("\\|", "|") for cell in _PIPE.split(inner)]


def _delimited(lines: Sequence[Line], at: int) -> tuple[Grid, int] | None:
    """The table with tabs, semicolons or commas that begins here: equally many cells per line, a third of them numbers.

    If lines only look like a table, no cells but the number of lines is returned, so no line is read twice.
    """
    for delimiter in DELIMITERS:
        width = lines[at].text.count(delimiter)
        if width < 1 or at + 1 >= len(lines) or lines[at + 1].text.count(delimiter) < 1:
            continue
        if not _fields(_cells(lines[at], _split(lines[at].text, delimiter))):
            continue
        grid: Grid = []
        for line in lines[at : at + ROWS_MAX + 1]:
            words = _split(line.text, delimiter)
            if len(words) < 2 or (grid and len(words) != len(grid[0])):
                break
            grid.append(_cells(line, words))
        numbers = [cell for row in grid[1:] for cell in row if _HAS_NUMBER.match(cell.text)]
        if len(grid) > 1:
            is_table = len(numbers) * 3 >= sum(len(row) for row in grid[1:])
            return (grid if is_table else []), len(grid)
    return None


def _split(text: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([text], delimiter=delimiter), [])
    except csv.Error:
        return []


def _cells(line: Line, words: Sequence[str]) -> list[Cell]:
    return [Cell(line.number, word.strip().strip("*`")) for word in words[:COLUMNS_MAX]]


def _fields(titles: Sequence[Cell]) -> list[str]:
    return [name for cell in titles if (name := columns.meaning(cell.text)[0])]


def _tables(grid: Grid, heading: str) -> list[Table]:
    """The table of a grid, transposed if its rows are fields; empty if it has no rows."""
    if len(grid) < 2:
        return []
    firsts = [row[0] for row in grid if row]
    # The first column may list fields, with a column for each contestant.
    if len(_fields(firsts[1:])) * 2 > len(firsts) - 1 and len(_fields(grid[0][1:])) < 2:
        width = max(len(row) for row in grid)
        grid = [[row[at] if at < len(row) else Cell(row[0].line, "") for row in grid if row] for at in range(width)]
    return [_table(grid, heading)]


def _table(grid: Grid, heading: str) -> Table:
    titles = tuple(cell.text for cell in grid[0])
    meanings = [columns.meaning(title) for title in titles]
    names = [name for name, _ in meanings]
    groups = _groups(meanings)
    fields = tuple(
        "" if groups and not group and at == 0 and not names[at] else names[at]
        for at, (_, group) in enumerate(meanings)
    )
    numeric = [at for at, (name, title) in enumerate(zip(names, titles, strict=True)) if columns.kind(name, title)]
    rows = _readable(grid[1:], numeric)
    runs = [run for row in rows for group in groups or [""] for run in _row(row, titles, meanings, group, groups)]
    return Table(grid[0][0].line if grid[0] else 0, heading, titles, fields, rows, tuple(runs))


def _readable(rows: Sequence[Sequence[Cell]], numeric: Sequence[int]) -> tuple[tuple[Cell, ...], ...]:
    """The rows with decimal points, and no separators of thousands but commas, in the numeric columns."""
    texts = [row[at].text for row in rows for at in numeric if at < len(row)]
    has_commas = any(map(_DECIMAL_COMMA.match, texts)) and not any(map(_DECIMAL_POINT.match, texts))

    def cell(at: int, each: Cell) -> Cell:
        if at not in numeric:
            return each
        text = _SPACED.sub(lambda found: re.sub(r"\D", "", found[0]), each.text)
        points = _NUMBER.sub(lambda found: found[0].translate(_POINT_FOR_COMMA), text) if has_commas else text
        return Cell(each.line, points)

    return tuple(tuple(cell(at, each) for at, each in enumerate(row)) for row in rows)


def _name(settings: Mapping[str, str]) -> str:
    """The contestant of a row: the text in a column of contestants, or else the first text."""
    named = (text for pattern in CONTESTANTS for title, text in settings.items() if pattern.search(title))
    return next(named, next(iter(settings.values()), ""))


def _groups(meanings: Sequence[tuple[str, str]]) -> list[str]:
    """The contestants that titles name, such as `epoll` and `io_uring` in `epoll qps` and `io_uring qps`."""
    named: dict[str, set[str]] = {}
    for name, words in meanings:
        if words and columns.kind(name, ""):
            named.setdefault(name, set()).add(words)
    groups = [words for each in named.values() if len(each) > 1 for words in sorted(each)]
    return list(dict.fromkeys(groups))


def _row(
    row: Sequence[Cell], titles: Sequence[str], meanings: Sequence[tuple[str, str]], group: str, groups: Sequence[str]
) -> list[Run]:
    """The run of a row, or of one contestant in it; empty if the row has no figures."""
    figures: dict[str, Figure] = {}
    quantiles: dict[float, Figure] = {}
    settings: dict[str, str] = {}
    for cell, title, (name, words) in zip(row, titles, meanings, strict=False):
        if words in groups and words != group:
            continue
        kind = columns.kind(name, title)
        read = figure(cell.text, cell.line, *kind) if kind and _HAS_NUMBER.match(cell.text) else None
        if read is None:
            if not kind and cell.text:
                settings[title] = cell.text
        elif share := columns.quantile(name):
            quantiles.setdefault(share, read)
        else:
            figures.setdefault(name, read)
    name = group or _name(settings)
    line = row[0].line if row else 0
    if not figures and not quantiles:
        return []
    steps = tuple(Quantile(share, quantiles[share]) for share in sorted(quantiles))
    return [Run("table", line, name, figures, steps, settings=settings)]
