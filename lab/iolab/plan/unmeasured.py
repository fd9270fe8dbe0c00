"""Published rows and claims that no comparison measures: a line for each, for the author of a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from iolab.metrics import METRICS
from iolab.plan.claims import TITLE, Claim, Published, Quantity, Test, TrendTest, contestants_of, setting_of
from iolab.plan.plan import Comparison
from iolab.plan.settings import Load, Scalar, Setting
from iolab.wording import instead


def unmeasured(
    comparisons: Sequence[Comparison], published: Iterable[Published], claims: Iterable[Claim]
) -> Iterator[str]:
    """One line for each gap, for the whole experiment as written: a quick run may leave out what a claim needs."""
    there = _There(comparisons)
    for row in published:
        where = f"published[{row.id}]"
        for key in ("figures", "bins"):
            for contestant in getattr(row, key):
                yield from there.no_contestant(f"{where}.{key}", contestant)
        yield from there.not_selected(where, row.at)
    for claim in claims:
        for number, test in enumerate(claim.tests, 1):
            where = f"claims[{claim.id}]" + (f".tests[{number}]" if len(claim.tests) > 1 else "")
            yield from dict.fromkeys(_of_test(there, where, test))


def _of_test(there: _There, where: str, test: Test) -> Iterator[str]:
    at = setting_of(test)
    for key, quantity in test.quantities:
        for leaf in quantity.leaves:
            yield from there.not_measured(f"{where}.{key}", leaf, where if leaf.at == at else f"{where}.{key}")
            for axis in test.axes:
                if axis in leaf.at:
                    yield f"{where}.along: {axis!r} is also in at: leave it out there"
    yield from _of_loads(there, where, test)
    for key, contestant in contestants_of(test):
        yield from there.not_measured(f"{where}.{key}", Quantity(contestant=contestant, at=at), where)
    yield from there.not_selected(where, at)
    for axis in test.axes:
        yield from there.no_axis(f"{where}.along", axis)
    if isinstance(test, TrendTest):
        yield from _of_trend(there, where, test)


def _of_loads(there: _There, where: str, test: Test) -> Iterator[str]:
    """Figures that cannot be compared with each other, and figures that do not exist without a load."""
    loads = [(key, leaf, load) for key, each in test.quantities for leaf in each.leaves for load in there.loads(leaf)]
    if len({load.client is None for _, _, load in loads}) > 1:
        yield (
            f"{where}: has figures of iolab's generator and of a client whose replies are not verified: "
            "give each a test of its own"
        )
    for key, leaf, load in loads:
        if load.connections == 0 and leaf.side not in METRICS[leaf.metric].held:
            yield f"{where}.{key}: {leaf.metric} is not measured without connections: ask for memory, or use at"


def _of_trend(there: _There, where: str, test: TrendTest) -> Iterator[str]:
    """A peak that is not a measured value of the axis, and a wrong number of published figures."""
    values = there.walked(test)
    if values and test.peak_at is not None and test.peak_at not in values:
        yield f"{where}.peak_at: {test.peak_at!r} is not measured: use one of {_listed(values)}"
    if values and test.published and len(test.published) != len(values):
        yield f"{where}.published: give {len(values)} figures, one for each of {_listed(values)}"


class _There:
    """What the comparisons of an experiment measure."""

    def __init__(self, comparisons: Sequence[Comparison]) -> None:
        self._comparisons = comparisons
        self._contestants = sorted({title for each in comparisons for title in each.titles})
        self._titles = list(dict.fromkeys(each.group for each in comparisons))
        self.values: dict[str, dict[Scalar, None]] = {}
        for comparison in comparisons:
            for axis, value in comparison.setting.items():
                self.values.setdefault(axis, {})[value] = None

    def no_contestant(self, where: str, contestant: str) -> Iterator[str]:
        if contestant not in self._contestants:
            yield f"{where}: no contestant is called {contestant!r}{instead(contestant, self._contestants)}"

    def no_axis(self, where: str, axis: str) -> Iterator[str]:
        if axis not in self.values:
            yield f"{where}: there is no axis {axis!r}: the axes are {', '.join(sorted(self.values)) or 'none here'}"

    def not_selected(self, where: str, at: Setting) -> Iterator[str]:
        """The axes of a setting, and their values, that no comparison has."""
        for axis, value in at.items():
            if axis == TITLE:
                if value not in self._titles:
                    known = instead(str(value), self._titles) if any(self._titles) else ": there are no [[comparisons]]"
                    yield f"{where}.at.{axis}: none is called {value!r}{known}"
            elif axis not in self.values:
                yield from self.no_axis(f"{where}.at.{axis}", axis)
            elif value not in self.values[axis]:
                yield f"{where}.at.{axis}: {value!r} is not measured: use one of {_listed(self.values[axis])}"

    def walked(self, test: TrendTest) -> list[Scalar]:
        """The values of a trend's axis at which its quantity is measured."""
        at = [
            each.setting[test.along]
            for each in self._comparisons
            if test.along in each.setting
            and all(leaf.contestant in each.titles and each.is_at(leaf.at) for leaf in test.of.leaves)
        ]
        return list(dict.fromkeys(at))

    def loads(self, leaf: Quantity) -> list[Load]:
        """The loads under which a quantity is measured."""
        return [
            cell.load
            for each in self._comparisons
            for title, cell in zip(each.titles, each.cells, strict=True)
            if title == leaf.contestant and each.is_at(leaf.at)
        ]

    def not_measured(self, where: str, leaf: Quantity, of_setting: str) -> Iterator[str]:
        """A line if the quantity is not measured; a wrong setting is reported at `of_setting`."""
        wrong = [*self.no_contestant(where, leaf.contestant), *self.not_selected(of_setting, leaf.at)]
        yield from wrong
        if not wrong and not any(leaf.contestant in each.titles and each.is_at(leaf.at) for each in self._comparisons):
            yield f"{where}: no comparison has {leaf.words}: add it to one, or change at"


def _listed(values: Iterable[Scalar]) -> str:
    return ", ".join(map(str, values))
