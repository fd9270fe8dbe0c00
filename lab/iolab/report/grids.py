"""Heat maps: which contestant serves most at each point of a grid of two axes, and where that changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import altair as alt

from iolab.judge.verdict import ComparisonVerdict
from iolab.plan.plan import spelt
from iolab.plan.settings import SHORT, Scalar
from iolab.report import charts, drawing, palette
from iolab.report.pictures import Drawing

ROW = 52
LABEL = 11
NAME_MAX = 11
# A cell without a decided winner is pale.
STRONG, PALE = 0.38, 0.1
# The fewest cells of a map.
CELLS_MIN = 4


class GridCell(NamedTuple):
    """The contestant that serves most at one point, its ratio to the next, and whether that is decided."""

    x: Scalar
    y: Scalar
    winner: str
    slot: int
    ratio: float | None
    is_decided: bool


class Grid(NamedTuple):
    """A comparison over two axes, with a cell for each measured point."""

    heading: str
    x_axis: str
    y_axis: str
    xs: tuple[Scalar, ...]
    ys: tuple[Scalar, ...]
    cells: tuple[GridCell, ...]

    @property
    def words(self) -> str:
        """How many points each contestant wins."""
        wins = Counter(cell.winner for cell in self.cells)
        parts = ", ".join(f"{winner} at {count}" for winner, count in wins.most_common())
        undecided = sum(not cell.is_decided for cell in self.cells)
        pale = f" {undecided} of these are pale: not decided." if undecided else ""
        return (
            f"Of {len(self.cells)} settings {parts}.{pale} Each field names the contestant with the most requests "
            "and its ratio to the next. The line is where the winner changes."
        )


def drawings(verdicts: Sequence[ComparisonVerdict]) -> Iterator[Drawing]:
    """A heat map of each grid."""
    for grid in grids(verdicts):
        heading = f"Most requests, by {grid.y_axis} and {grid.x_axis}"
        shown = f"{grid.heading}: {heading}" if grid.heading else heading
        yield Drawing(shown, grid.words, drawing.inline(chart(grid), heading, grid.words))


def grids(verdicts: Sequence[ComparisonVerdict]) -> Iterator[Grid]:
    """A grid for each group of comparisons with the same contestants and exactly two numeric axes that vary."""
    groups: dict[tuple[str, tuple[str, ...]], list[ComparisonVerdict]] = {}
    for found in verdicts:
        if not found.ladder and len(found.titles) > 1:
            title = found.name.removesuffix(spelt(found.setting)).strip()
            groups.setdefault((title, found.titles), []).append(found)
    for (title, _), members in groups.items():
        values = {axis: dict.fromkeys(found.setting[axis] for found in members) for axis in members[0].setting}
        varied = [axis for axis, of_axis in values.items() if len(of_axis) > 1]
        if len(varied) == 2 and all(_is_number(value) for axis in varied for value in values[axis]):
            y_axis, x_axis = varied
            cells = tuple(cell for found in members if (cell := _cell(found, x_axis, y_axis)) is not None)
            if len(cells) >= CELLS_MIN:
                yield Grid(title, _name(x_axis), _name(y_axis), tuple(values[x_axis]), tuple(values[y_axis]), cells)


def _is_number(value: Scalar) -> bool:
    return not isinstance(value, bool | str)


def _name(axis: str) -> str:
    return SHORT.get(axis, axis).replace("_", " ")


def _cell(found: ComparisonVerdict, x_axis: str, y_axis: str) -> GridCell | None:
    """The best of one comparison; None if nothing was measured."""
    levels = {title: level for title in found.titles if (level := found.level("throughput", title)) is not None}
    if not levels:
        return None
    winner, *others = sorted(levels, key=lambda title: -levels[title].median)
    ratio = levels[winner].median / levels[others[0]].median if others else None
    return GridCell(
        x=found.setting[x_axis],
        y=found.setting[y_axis],
        winner=winner,
        slot=found.titles.index(winner),
        ratio=ratio,
        is_decided=not others or _is_decided(found, winner, others[0]),
    )


def _is_decided(found: ComparisonVerdict, winner: str, second: str) -> bool:
    """Whether the best serves significantly more than the second."""
    level = found.level("throughput", second)
    if found.inconclusive is not None or level is None or level.bound != "exact":
        return False
    ranking = found.ranking("throughput")
    if ranking is not None:
        row = next((each for each in ranking.rows if each.contestant == second), None)
        return row is not None and row.high < 1
    pair = found.estimate("throughput", winner, second) or found.estimate("throughput", second, winner)
    return pair is not None and pair.word == "differs"


def chart(grid: Grid) -> alt.TopLevelMixin:
    """The cells in the colours of their winners, with a line between neighbours whose winners differ."""
    xs, ys = list(grid.xs), list(reversed(grid.ys))
    place = {(cell.x, cell.y): cell for cell in grid.cells}
    rows = [
        {
            "x": xs.index(cell.x),
            "x2": xs.index(cell.x) + 1,
            "y": ys.index(cell.y),
            "y2": ys.index(cell.y) + 1,
            "role": palette.light(palette.contestant(cell.slot)),
            "opacity": STRONG if cell.is_decided else PALE,
            "name": cell.winner if len(cell.winner) <= NAME_MAX else f"{cell.winner[: NAME_MAX - 1]}…",
            "ratio": "" if cell.ratio is None else f"{cell.ratio:.2f}x",
        }
        for cell in place.values()
    ]
    x = _axis("x:Q", len(xs), grid.x_axis, [str(value) for value in xs])
    y = _axis("y:Q", len(ys), grid.y_axis, [str(value) for value in ys], reverse=True)
    base = alt.Chart(charts.data_of(rows))
    words = base.transform_calculate(mid="datum.x + 0.5", above="datum.y + 0.42", below="datum.y + 0.72")
    ink = palette.light("ink")
    return charts.framed_layers(
        base.mark_rect(stroke=palette.light("ground"), strokeWidth=1).encode(
            x=x,
            x2=alt.X2("x2:Q"),
            y=y,
            y2=alt.Y2("y2:Q"),
            fill=alt.Fill("role:N", scale=None),
            fillOpacity=alt.Opacity("opacity:Q", scale=None),
        ),
        words.mark_text(fontSize=LABEL, color=ink).encode(
            x=alt.X("mid:Q"), y=alt.Y("above:Q"), text=alt.Text("name:N")
        ),
        words.mark_text(fontSize=LABEL, color=ink).encode(
            x=alt.X("mid:Q"), y=alt.Y("below:Q"), text=alt.Text("ratio:N")
        ),
        alt.Chart(charts.data_of(list(_borders(place, xs, ys))))
        .mark_rule(color=ink, strokeWidth=3, strokeCap="round")
        .encode(x=alt.X("x:Q"), x2=alt.X2("x2:Q"), y=alt.Y("y:Q"), y2=alt.Y2("y2:Q")),
        height=ROW * len(ys),
    )


def _axis(field: str, count: int, title: str, names: Sequence[str], *, reverse: bool = False) -> alt.X | alt.Y:
    labels = "[" + ",".join(f"'{name}'" for name in names) + "][floor(datum.value)]"
    axis = charts.styled_axis(title, values=[number + 0.5 for number in range(count)], expression=labels)
    scale = alt.Scale(domain=(0, count), nice=False, reverse=reverse)
    return alt.Y(field, scale=scale, axis=axis) if reverse else alt.X(field, scale=scale, axis=axis)


def _borders(
    place: dict[tuple[Scalar, Scalar], GridCell], xs: Sequence[Scalar], ys: Sequence[Scalar]
) -> Iterator[dict[str, int]]:
    """The edges between neighbouring cells whose winners differ."""
    for (x, y), cell in place.items():
        at, down = xs.index(x), ys.index(y)
        right = place.get((xs[at + 1], y)) if at + 1 < len(xs) else None
        below = place.get((x, ys[down + 1])) if down + 1 < len(ys) else None
        if right is not None and right.winner != cell.winner:
            yield {"x": at + 1, "x2": at + 1, "y": down, "y2": down + 1}
        if below is not None and below.winner != cell.winner:
            yield {"x": at, "x2": at + 1, "y": down + 1, "y2": down + 1}
