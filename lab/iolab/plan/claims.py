"""Published results: rows of tables, and claims with the tests that decide each on our figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import AliasChoices, BeforeValidator, Field, model_validator

from iolab.contract.literals import Phase, Saw
from iolab.contract.types import Frozen
from iolab.metrics import METRICS, Metric, Side
from iolab.plan.needs import Needs
from iolab.plan.settings import Scalar, Setting, dotted
from iolab.wording import number

# The key of `at` that selects a comparison by its title; all other keys are axes.
TITLE = "comparison"
Share = Annotated[float, Field(gt=0, lt=1)]
Identifier = Annotated[str, Field(min_length=1, max_length=40)]


class Figure(Frozen):
    """One published figure, in the metric's base unit: a number, or the word printed in its place ("error").

    `should_be` corrects a figure that contradicts others of its source. In a file a figure is a number, a word, or a
    table of these keys.
    """

    value: float | None = None
    word: str = ""
    should_be: float | None = None
    note: str = ""

    @model_validator(mode="before")
    @classmethod
    def _from_number_or_word(cls, value: object) -> object:
        if isinstance(value, bool):
            raise ValueError("must be a number, a word, or a table with value, should_be and note")
        if isinstance(value, int | float):
            return {"value": value}
        return {"word": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _number_or_word(self) -> Self:
        if (self.value is None) == (not self.word):
            raise ValueError("a figure has either a value or a word: give one of the two")
        return self

    @property
    def number(self) -> float | None:
        """The figure for calculations: corrected if it is wrong in print; None for a word."""
        return self.value if self.should_be is None else self.should_be


class Bins(Frozen):
    """A published histogram of times: how many requests took at most each edge (ns) and longer than the edge before."""

    edges_ns: tuple[float, ...] = Field(min_length=1)
    counts: tuple[int, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _a_count_each(self) -> Self:
        if len(self.counts) != len(self.edges_ns):
            raise ValueError(f"there are {len(self.counts)} counts for {len(self.edges_ns)} edges: give one for each")
        return self


class Published(Frozen):
    """One row of a published table, at one setting of the axes: each contestant's figures by metric.

    Figures are in the metric's base unit: requests per second, nanoseconds, bytes.
    """

    id: Identifier
    at: Setting = Field(default={})
    note: str = ""
    figures: dict[str, dict[Metric, Figure]] = Field(default={})
    bins: dict[str, Bins] = Field(default={})

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.figures and not self.note:
            raise ValueError("figures: a row has figures, or a note that says why it has none")
        return self

    def number(self, contestant: str, metric: Metric) -> float | None:
        """The figure for calculations; None if it is absent or a word."""
        figure = self.figures.get(contestant, {}).get(metric)
        return None if figure is None else figure.number


class Quantity(Frozen):
    """A metric of a contestant at a setting of the axes, or the ratio `of` one quantity `to` another.

    `at` selects comparisons by the values of axes, and by the title of `[[comparisons]]` under the key `comparison`. If
    several match, the quantity is their mean, for a ratio their geometric mean. In a file the name of a contestant is
    short for a quantity with the metric, setting and side of its test.
    """

    contestant: str = ""
    metric: Metric = "throughput"
    at: Setting = Field(default={})
    side: Side = "server"
    of: Quantity | None = None
    to: Quantity | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.of is None) != (self.to is None) or (self.of is None) == (not self.contestant):
            raise ValueError("a quantity is that of a contestant, or a ratio: give contestant, or of and to")
        if self.side not in (sides := METRICS[self.metric].known_sides):
            known = " or ".join(sides)
            raise ValueError(f"side: the records hold no {self.metric} of {self.side!r}: use {known}")
        return self

    @property
    def leaves(self) -> tuple[Quantity, ...]:
        """The measured quantities that it is made of."""
        if self.of is None or self.to is None:
            return (self,)
        return self.of.leaves + self.to.leaves

    @property
    def words(self) -> str:
        """A description for a sentence."""
        if self.of is not None and self.to is not None:
            return f"({self.of.words}) / ({self.to.words})"
        where = ", ".join(f"{axis}={value}" for axis, value in self.at.items())
        return f"{self.contestant} at {where}" if where else self.contestant


class _Test(Frozen):
    """Fields of every test. A `shown` test is printed and has no vote; `quick`: a quick run can decide it."""

    shown: bool = False
    quick: bool = True
    needs: Needs = Needs()

    @property
    def quantities(self) -> Iterator[tuple[str, Quantity]]:
        """Its quantities, by the keys that name them."""
        for name in type(self).model_fields:
            value = getattr(self, name)
            if isinstance(value, Quantity):
                yield name, value
            elif isinstance(value, tuple):
                yield from ((f"{name}[{n}]", each) for n, each in enumerate(value, 1) if isinstance(each, Quantity))

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes it walks along."""
        return ()


class _Measured(_Test):
    """A test of quantities. `metric` and `side` are defaults for its quantities, and `at` is added to theirs."""

    metric: Metric = "throughput"
    at: Setting = Field(default={})
    side: Side = "server"

    @model_validator(mode="before")
    @classmethod
    def _quantities_of_names(cls, value: object) -> object:
        if not isinstance(value, Mapping):
            return value
        given = _given_by(value)
        return {key: _filled(each, given) if key in QUANTITIES else each for key, each in value.items()}


# The keys of a test that hold quantities.
QUANTITIES = frozenset({"of", "to", "contestants"})


def _given_by(table: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults that a table gives to its quantities. An unknown metric is a mistake of the table alone."""
    given = {key: table[key] for key in ("metric", "at", "side") if key in table}
    metric = given.get("metric", "throughput")
    return given if isinstance(metric, str) and metric in METRICS else given | {"metric": "throughput"}


def _filled(value: object, given: Mapping[str, Any]) -> object:
    """A quantity as written, or a list of them, with the defaults of its test."""
    if isinstance(value, str):
        return {**given, "contestant": value}
    if isinstance(value, list | tuple):
        return [_filled(each, given) for each in value]
    # A stored ratio names no contestant, and its quantities are complete.
    if not isinstance(value, Mapping) or value.get("contestant") == "":
        return value
    if isinstance(value.get("at"), Mapping) and isinstance(given.get("at"), Mapping):
        value = {**value, "at": {**dotted(given["at"]), **dotted(value["at"])}}
    if "contestant" in value:
        return {**given, **value}
    below = {**given, **_given_by(value)}
    return {key: _filled(each, below) if key in QUANTITIES else each for key, each in value.items()}


def _ordered(least: float | None, most: float | None, prefix: str = "") -> None:
    if least is not None and most is not None and least > most:
        low, high = (number(bound, 6, least=0) for bound in (least, most))
        raise ValueError(f"{prefix}at_least: {low} is more than {prefix}at_most ({high}): swap the two")


def _asked(published: float | None, at_least: float | None, at_most: float | None) -> None:
    if published is None and at_least is None and at_most is None:
        raise ValueError(
            "published: is missing, and so are the bounds: write published = 1.1, at_least = 1 or at_most = 1"
        )
    _ordered(at_least, at_most)


class RatioTest(_Measured):
    """`of` / `to` is near the published value, or within the bounds; two bounds ask whether both are alike.

    `tolerance` is relative: a measured interval that touches published * (1 ± tolerance) agrees in magnitude.
    """

    relation: Literal["ratio"] = "ratio"
    of: Quantity
    to: Quantity
    published: float | None = Field(default=None, gt=0)
    tolerance: Share = 0.05
    at_least: float | None = Field(default=None, gt=0)
    at_most: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        _asked(self.published, self.at_least, self.at_most)
        return self


class OrderTest(_Measured):
    """Each of `contestants` has more of the metric than the next, in every selected comparison.

    `published` are their figures in the same order, in any unit, shown beside ours.
    """

    relation: Literal["order"] = "order"
    contestants: tuple[Quantity, ...]
    published: tuple[float, ...] = ()

    @model_validator(mode="after")
    def _a_figure_each(self) -> Self:
        if len(self.contestants) < 2:
            raise ValueError("contestants: an order has two or more: name those that follow")
        if self.published and len(self.published) != len(self.contestants):
            raise ValueError(f"published: there are {len(self.published)} figures for {len(self.contestants)}")
        return self


class TrendTest(_Measured):
    """How a quantity changes along an axis: rising, falling, flat, or with its peak at one value.

    Flat means that the largest is at most `within` times the smallest. `published` are the figures at the values of the
    axis, in any unit, shown beside ours.
    """

    relation: Literal["trend"] = "trend"
    of: Quantity
    along: str
    shape: Literal["rising", "falling", "flat", "peak"] = Field(alias="is")
    within: float = Field(default=1.1, gt=1)
    peak_at: Scalar | None = None
    published: tuple[float, ...] = ()

    @model_validator(mode="after")
    def _says_where(self) -> Self:
        if (self.shape == "peak") != (self.peak_at is not None):
            raise ValueError('peak_at: is for is = "peak", which needs it: write peak_at = 100')
        return self

    @property
    def axes(self) -> tuple[str, ...]:
        return (self.along,)


def _several(value: object) -> object:
    return (value,) if isinstance(value, str) else value


class CrossingTest(_Measured):
    """`of` is better up to some value of an axis, or some metric of a list, and `to` is better beyond it.

    `between` are the published values on either side of the crossing.
    """

    relation: Literal["crossing"] = "crossing"
    of: Quantity
    to: Quantity
    along: Annotated[tuple[str, ...], BeforeValidator(_several)]
    between: tuple[Scalar, Scalar] | None = None

    @model_validator(mode="after")
    def _along_metrics(self) -> Self:
        unknown = next((each for each in self.metrics if each not in METRICS), None)
        if unknown is not None or not self.along:
            raise ValueError(f"along: there is no metric {unknown!r}: write an axis, or a list of metrics")
        return self

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics it compares along; empty for an axis."""
        return self.along if len(self.along) > 1 else ()

    @property
    def axes(self) -> tuple[str, ...]:
        return self.along if len(self.along) == 1 else ()


# The `along` of a line over the time of each trial instead of an axis.
TIME = "time"


class LineTest(_Measured):
    """A quantity grows linearly along an axis, or over the time of each trial (in seconds).

    Slopes are the metric's base unit per unit of the axis; `tolerance` is that of `published_slope`, relative.
    """

    relation: Literal["line"] = "line"
    of: Quantity
    along: str
    slope_at_least: float | None = None
    slope_at_most: float | None = None
    published_slope: float | None = None
    tolerance: Share = 0.05
    intercept_at_least: float | None = None
    intercept_at_most: float | None = None
    r_squared_at_least: float | None = Field(default=None, ge=0, le=1)

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        asked = (
            *(self.slope_at_least, self.slope_at_most, self.published_slope),
            *(self.intercept_at_least, self.intercept_at_most, self.r_squared_at_least),
        )
        if all(each is None for each in asked):
            raise ValueError(
                "slope_at_least: is missing, and so is every other bound: write one, as slope_at_least = 0"
            )
        if self.along == TIME and not self.of.contestant:
            raise ValueError("along: a ratio has no series in time: give of a contestant")
        _ordered(self.slope_at_least, self.slope_at_most, "slope_")
        _ordered(self.intercept_at_least, self.intercept_at_most, "intercept_")
        return self

    @property
    def axes(self) -> tuple[str, ...]:
        return () if self.along == TIME else (self.along,)


class LevelTest(_Measured):
    """An absolute value, in the metric's base unit: near a published one, or within bounds.

    Figures of another machine are not `comparable`: without a bound they are at most confirmed in direction only.
    """

    relation: Literal["level"] = "level"
    of: Quantity
    published: float | None = None
    tolerance: Share = 0.05
    at_least: float | None = None
    at_most: float | None = None
    comparable: bool = False

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        _asked(self.published, self.at_least, self.at_most)
        return self


class IdentityTest(_Test):
    """An equation between figures: of every trial, of the published rows, or of both.

    `littles_law`: requests in flight = throughput x mean latency. `ab` and `hey`: the formulas of those tools' reports.
    Without `contestants` it covers all.
    """

    relation: Literal["identity"] = "identity"
    law: Literal["littles_law", "ab", "hey"]
    over: Literal["trials", "published", "both"] = "trials"
    contestants: tuple[str, ...] = ()
    at: Setting = Field(default={})


Cause = Literal["descriptors", "processes", "threads", "memory", "backlog", "ports", Saw]


class BreaksTest(_Test):
    """The cell fails; if given, for one of these causes, in one of these phases, after this request.

    A cause is what the server ran out of, or else what the client saw.
    """

    relation: Literal["breaks"] = "breaks"
    of: str
    at: Setting = Field(default={})
    cause: tuple[Cause, ...] = ()
    phase: tuple[Phase, ...] = ()
    after_request: int | None = Field(default=None, ge=0)


class HoldsTest(_Test):
    """Nothing ever fails."""

    relation: Literal["holds"] = "holds"
    contestants: tuple[str, ...] = Field(min_length=1)
    at: Setting = Field(default={})


class StatedTest(_Test):
    """A sentence that no run can decide here, with the reason and the date of the statement."""

    relation: Literal["stated"] = "stated"
    reason: str = Field(min_length=1)
    date: str = ""


Test = Annotated[
    RatioTest
    | OrderTest
    | TrendTest
    | CrossingTest
    | LineTest
    | LevelTest
    | IdentityTest
    | BreaksTest
    | HoldsTest
    | StatedTest,
    Field(discriminator="relation"),
]
# The relations by their names.
RELATIONS: dict[str, type[_Test]] = {
    kind.model_fields["relation"].default: kind for kind in get_args(get_args(Test)[0])
}


def _one_of_a_list(value: object) -> object:
    """Allows a single test: `decide = { … }`."""
    return [value] if isinstance(value, Mapping) else value


class Claim(Frozen):
    """A published sentence, its source, and the tests that decide it on our figures.

    A run of all published experiments shows `headline` claims first.
    """

    id: Identifier
    text: str = Field(min_length=1)
    source: str = ""
    needs: Needs = Needs()
    headline: bool = False
    tests: Annotated[tuple[Test, ...], BeforeValidator(_one_of_a_list)] = Field(
        validation_alias=AliasChoices("tests", "decide")
    )

    @model_validator(mode="after")
    def _has_a_test(self) -> Self:
        if all(test.shown for test in self.tests):
            raise ValueError("tests: a claim needs a verdict: give one or more that is not only shown")
        return self


def contestants_of(test: Test) -> Iterator[tuple[str, str]]:
    """The contestants that a test names outside of quantities, by their keys."""
    if isinstance(test, BreaksTest):
        yield "of", test.of
    elif isinstance(test, HoldsTest | IdentityTest):
        yield from ((f"contestants[{number}]", each) for number, each in enumerate(test.contestants, 1))


def setting_of(test: Test) -> Setting:
    """The setting that a test gives to all of its quantities."""
    return {} if isinstance(test, StatedTest) else test.at
