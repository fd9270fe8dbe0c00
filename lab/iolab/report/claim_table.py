"""Claims as rows of a table: the sentence and its verdict, and below it the question and result of each test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from iolab.judge.claims import ClaimVerdict
from iolab.judge.relations.line import slope_words
from iolab.judge.relations.verdicts import TestVerdict
from iolab.metrics import METRICS
from iolab.plan import claims as plan_claims
from iolab.plan.claims import (
    TITLE,
    BreaksTest,
    CrossingTest,
    HoldsTest,
    IdentityTest,
    LevelTest,
    LineTest,
    OrderTest,
    Quantity,
    RatioTest,
    StatedTest,
    TrendTest,
)
from iolab.plan.settings import SHORT, Setting
from iolab.report.failures import SAW
from iolab.wording import BOUND_SIGNS, Interval, number, one_in

# The CSS class of each verdict.
CLASSES = {"confirmed": "yes", "contradicted": "no", "direction only": "partly"}
LAWS = {
    "littles_law": "connections = throughput x mean latency",
    "ab": "the formulas of ab's report",
    "hey": "the formulas of hey's report",
}


class TestRow(NamedTuple):
    """One test: the question, the published figure, ours with its interval, the verdict and the reason."""

    asked: str
    published: str
    measured: str
    word: str
    kind: str
    why: str


class ClaimRow(NamedTuple):
    """One claim with its verdict. A claim of one test has no rows for it: its figures are the claim's own."""

    id: str
    text: str
    source: str
    word: str
    kind: str
    why: str
    published: str
    measured: str
    tests: tuple[TestRow, ...]


def rows(verdicts: Sequence[ClaimVerdict]) -> tuple[ClaimRow, ...]:
    """A row for each claim, in the order of the file."""
    return tuple(map(claim_row, verdicts))


def claim_row(found: ClaimVerdict) -> ClaimRow:
    """One claim as rows."""
    tests = tuple(map(test_row, found.tests))
    alone = tests[0] if len(tests) == 1 else None
    return ClaimRow(
        id=found.claim.id,
        text=found.claim.text,
        source=found.claim.source,
        word=found.judgement,
        kind=CLASSES.get(found.judgement, "open"),
        why=found.reason if alone else _weakest(found),
        published=alone.published if alone else "",
        measured=alone.measured if alone else "",
        tests=() if alone else tests,
    )


def _weakest(found: ClaimVerdict) -> str:
    """The test that decides the verdict on a claim of several tests; the reasons are in the rows of the tests."""
    voting = sum(not each.test.shown for each in found.tests)
    return f"The weakest verdict of {voting} tests" if voting > 1 else found.reason


def test_row(found: TestVerdict) -> TestRow:
    """One test as a row."""
    test = found.test
    word = f"{found.judgement} (shown only)" if test.shown else found.judgement
    return TestRow(
        asked=ASKED[test.relation](test),
        published="" if found.published is None else _figure(test, found.published),
        measured=_measured(found),
        word=word,
        kind=CLASSES.get(found.judgement, "open"),
        why=found.reason,
    )


def _measured(found: TestVerdict) -> str:
    """Our figure with its interval, as far as known."""
    if found.value is None:
        return ""
    test, value = found.test, found.value
    if found.low is None and found.high is None:
        return _figure(test, value)
    if found.low is None or found.high is None:
        return f"{BOUND_SIGNS['at most' if found.low is None else 'at least']}{_figure(test, value)}"
    if isinstance(test, HoldsTest):
        return f"none; the true share is below {one_in(found.high)}"
    if isinstance(test, LevelTest | LineTest):
        return f"{_figure(test, value)} [{_figure(test, found.low)}, {_figure(test, found.high)}]"
    return str(Interval(value, found.low, found.high))


def _figure(test: plan_claims.Test, value: float) -> str:
    """A figure in the unit of the test: the unit of its metric, the slope of a line, or a ratio."""
    if isinstance(test, LevelTest):
        return METRICS[_metric(test.of)].shown(value)
    return slope_words(value) if isinstance(test, LineTest) else f"{number(value)}x"


def _metric(quantity: Quantity) -> str:
    return quantity.leaves[0].metric


def _ratio(test: RatioTest) -> str:
    bounds = _bounds(test.at_least, test.at_most)
    return f"{_pair(test.of, test.to)}{bounds}"


def _order(test: OrderTest) -> str:
    metric, where = _metric(test.contestants[0]), _common([each.at for each in test.contestants])
    names = " > ".join(_brief(each, where) for each in test.contestants)
    return f"{METRICS[metric].title}: {names}{_at(where)}"


def _trend(test: TrendTest) -> str:
    shape = f"flat within {test.within:g}" if test.shape == "flat" else test.shape
    peak = f" at {test.peak_at}" if test.peak_at is not None else ""
    return f"{_quantity(test.of)} is {shape}{peak} along {_axis(test.along)}"


def _crossing(test: CrossingTest) -> str:
    along = _axis(test.along[0]) if test.axes else "the quantiles"
    return f"{_pair(test.of, test.to)}: the first is better up to some point along {along}, then the second"


def _line(test: LineTest) -> str:
    along = "the time of a trial" if test.along == plan_claims.TIME else _axis(test.along)
    slope = _bounds(test.slope_at_least, test.slope_at_most, "slope")
    fit = "" if test.r_squared_at_least is None else f", R squared at least {test.r_squared_at_least:g}"
    return f"{_quantity(test.of)} along {along} is a line{slope}{fit}"


def _level(test: LevelTest) -> str:
    row = METRICS[_metric(test.of)]
    low, high = (None if bound is None else row.shown(bound) for bound in (test.at_least, test.at_most))
    return f"{_quantity(test.of)}{_bounds(low, high)}"


def _identity(test: IdentityTest) -> str:
    over = {"trials": "every trial", "published": "every published row", "both": "every trial and published row"}
    return f"{LAWS[test.law]}, in {over[test.over]}{_at(test.at)}"


def _breaks(test: BreaksTest) -> str:
    phase = f" in phase {' or '.join(test.phase)}" if test.phase else ""
    ran_out = [each for each in test.cause if each not in SAW]
    saw = [words for each, words in SAW.items() if each in test.cause]
    cause = f" because it runs out of {' or '.join(ran_out)}" if ran_out else ""
    seen = f": the client sees that {' or that '.join(saw)}" if saw else ""
    after = "" if test.after_request is None else f", after request {test.after_request:,}"
    return f"{test.of} breaks{phase}{cause}{after}{_at(test.at)}{seen}"


def _holds(test: HoldsTest) -> str:
    return f"{' and '.join(test.contestants)} never fail{'s' if len(test.contestants) == 1 else ''}{_at(test.at)}"


def _stated(test: StatedTest) -> str:
    return f"stated{', ' + test.date if test.date else ''}"


# The question of each relation, in words.
ASKED: Mapping[str, Callable[..., str]] = {
    "ratio": _ratio,
    "order": _order,
    "trend": _trend,
    "crossing": _crossing,
    "line": _line,
    "level": _level,
    "identity": _identity,
    "breaks": _breaks,
    "holds": _holds,
    "stated": _stated,
}


def _pair(of: Quantity, to: Quantity) -> str:
    """Two quantities as a ratio; common parts are named once."""
    if of.of is not None or to.of is not None:
        return f"{_quantity(of)} / {_quantity(to)}"
    where = _common([of.at, to.at])
    metric = (
        METRICS[of.metric].title
        if of.metric == to.metric
        else f"{METRICS[of.metric].title} / {METRICS[to.metric].title}"
    )
    if of.contestant == to.contestant and of.at != to.at:
        names = f"{of.contestant}, {_values(of.at, where)} / {_values(to.at, where)}"
    else:
        names = f"{_brief(of, where)} / {_brief(to, where)}"
    return f"{metric}: {names}{_at(where)}"


def _quantity(quantity: Quantity) -> str:
    if quantity.of is not None and quantity.to is not None:
        return f"({_pair(quantity.of, quantity.to)})"
    side = "" if quantity.side == "server" else f" ({quantity.side})"
    return f"{METRICS[quantity.metric].title} of {quantity.contestant}{side}{_at(quantity.at)}"


def _brief(quantity: Quantity, common: Setting) -> str:
    own = _values(quantity.at, common)
    return f"{quantity.contestant} ({own})" if own else quantity.contestant


def _values(at: Setting, without: Setting) -> str:
    return ", ".join(f"{_axis(axis)} {value}" for axis, value in at.items() if axis not in without)


def _common(settings: Sequence[Setting]) -> Setting:
    """The values that all of these have in common."""
    first, *others = settings
    return {axis: value for axis, value in first.items() if all(each.get(axis) == value for each in others)}


def _at(setting: Setting) -> str:
    words = [str(value) if axis == TITLE else f"{_axis(axis)} {value}" for axis, value in setting.items()]
    return f", at {', '.join(words)}" if words else ""


def _axis(name: str) -> str:
    return "" if name == TITLE else SHORT.get(name, name).replace("_", " ")


def _bounds(low: object, high: object, what: str = "") -> str:
    said = [
        f"{name} {number(bound, 6, least=0)}" if isinstance(bound, float) else f"{name} {bound}"
        for name, bound in (("at least", low), ("at most", high))
        if bound is not None
    ]
    return f", {what + ' ' if what else ''}{' and '.join(said)}" if said else ""
