"""A table as text: aligned columns if they fit the terminal, else a block of lines for each row."""

from __future__ import annotations

import shutil
import textwrap
from typing import Any

from iolab.results.export import Table, cell_text

GAP = "  "
# The width of a terminal that does not report it.
COLUMNS = 80
# How NULL is printed.
NOTHING = "-"


def text_of(table: Table, columns: int | None = None) -> str:
    """The table in lines of at most `columns`, by default those of the terminal; only a long word exceeds them."""
    columns = shutil.get_terminal_size((COLUMNS, 0)).columns if columns is None else columns
    names = [seen(name) for name in table.columns]
    rows = [[_cell(value) for value in row] for row in table.rows]
    if not rows:
        return "no rows\n"
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    if sum(widths) + len(GAP) * (len(widths) - 1) > columns:
        return _blocks(names, rows, columns)
    to_the_right = [
        all(value is None or _is_number(value) for value in column) for column in zip(*table.rows, strict=True)
    ]
    lines = [names, ["-" * width for width in widths], *rows]
    return "".join(
        GAP.join(
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(line, widths, to_the_right, strict=True)
        ).rstrip()
        + "\n"
        for line in lines
    )


def _blocks(names: list[str], rows: list[list[str]], columns: int) -> str:
    """Each row as a line with its number, then a line for each name and value."""
    indent = max(map(len, names)) + len(GAP)
    lines = []
    for number, row in enumerate(rows, start=1):
        lines.append(f"-- row {number} of {len(rows)} ".ljust(columns, "-"))
        for name, cell in zip(names, row, strict=True):
            wrapped = textwrap.wrap(cell, max(columns - indent, indent), break_on_hyphens=False) or [""]
            lines += [
                f"{head.ljust(indent)}{part}".rstrip()
                for head, part in zip([name, *[""] * len(wrapped)], wrapped, strict=False)
            ]
    return "\n".join(lines) + "\n"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(value: Any) -> str:
    """A value as printed. Six digits of a fraction are more than any trial supports."""
    if value is None:
        return NOTHING
    if isinstance(value, float):
        return f"{value:.0f}" if 1e5 <= abs(value) < 1e15 else f"{value:.6g}"
    return seen(str(cell_text(value)))


def seen(text: str) -> str:
    """Text in one line, without characters that move the cursor or change the terminal."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in " ".join(text.split()))
