"""`identity`: an equation between figures, in every trial, in the published rows, or in both.

Published rows need no trial. Their figures are rounded, so a formula holds if any values within the rounding satisfy
it. If a printed figure breaks its formula and its correction does not, the row holds, and the reason says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from iolab.contract.histogram import decoded
from iolab.contract.types import Report, percent, updated
from iolab.judge.relations.holds import ended
from iolab.judge.relations.quantities import Evidence
from iolab.judge.relations.verdicts import Obstacle, TestVerdict, hindered
from iolab.judge.trial import LITTLE_MAX, littles_law
from iolab.plan.claims import IdentityTest, Published
from iolab.plan.plan import Comparison
from iolab.plan.settings import Cell
from iolab.results.records import Result
from iolab.wording import listed, number

# Half of the last digit that a tool prints, in base units (ns, per second).
ROUNDING: dict[str, dict[str, float]] = {
    "ab": {
        "time_to_finish": 5e5,
        "throughput": 0.005,
        "latency_mean": 500.0,
        "time_per_request": 500.0,
        "transfer_rate": 5.12,
    },
    "hey": {"time_to_finish": 5e4, "throughput": 5e-5, "latency_mean": 5e4},
}
# The tolerance for figures that are not a tool's output, and for Little's law at the edges of a window.
SHARE = 0.02
# The rate in a report follows from its count and its window, up to float rounding.
RATE_SHARE = 1e-6


class Span(NamedTuple):
    """The values a rounded figure may stand for."""

    low: float
    high: float

    def meets(self, other: Span) -> bool:
        return self.low <= other.high and other.low <= self.high


class Row(NamedTuple):
    """A published row of one contestant, and our cell at the same setting."""

    row: Published
    contestant: str
    law: str
    cell: Cell | None

    @property
    def name(self) -> str:
        return f"{self.row.id} ({self.contestant})"

    @property
    def requests(self) -> float | None:
        """The number of requests: as printed, else as in our cell."""
        ours = None if self.cell is None else self.cell.load.requests
        return self.row.number(self.contestant, "requests") or ours

    @property
    def connections(self) -> float | None:
        """The number of connections: as printed, else as in our cell."""
        ours = None if self.cell is None else self.cell.load.connections
        return self.row.number(self.contestant, "connections") or ours

    def span(self, metric: str) -> Span | None:
        """A figure with its rounding; None if the row lacks it."""
        value = self.row.number(self.contestant, metric)
        if value is None:
            return None
        half = ROUNDING[self.law].get(metric, 0.0) if self.law in ROUNDING else SHARE * abs(value)
        return Span(value - half, value + half)

    def as_printed(self, metric: str) -> Row:
        """The same row with this figure as printed, without its correction."""
        own = self.row.figures[self.contestant]
        printed = {metric: own[metric].model_copy(update={"should_be": None})}
        return self._replace(row=updated(self.row, figures={self.contestant: {**own, **printed}}))


class Formula(NamedTuple):
    """An equation: its words, the metric on its left side, and what the right side may be."""

    words: str
    metric: str
    right: Callable[[Row], Span | None]


def decide(test: IdentityTest, evidence: Evidence) -> TestVerdict:
    """The verdict on an equation."""
    parts: list[TestVerdict | Obstacle] = []
    if test.over in ("published", "both"):
        parts.append(_published(test, evidence))
    if test.over in ("trials", "both"):
        parts.append(_trials(test, evidence))
    stopped = [part for part in parts if isinstance(part, Obstacle)]
    found = [part for part in parts if isinstance(part, TestVerdict)]
    broken = next((part for part in found if part.judgement == "contradicted"), None)
    if broken is not None:
        return broken
    if not found:
        return hindered(test, stopped[0])
    weakest = next((part for part in found if part.judgement != "confirmed"), found[0])
    return weakest.model_copy(update={"reason": "; ".join(part.reason for part in parts)})


def _published(test: IdentityTest, evidence: Evidence) -> TestVerdict | Obstacle:
    """The verdict on the formulas, over the rows with the figures for them."""
    checked, corrected = 0, list[str]()
    for row in _rows(test, evidence):
        for formula in FORMULAS[test.law]:
            sides = _sides(formula, row)
            if sides is not None and not sides[0].meets(sides[1]):
                left, right = (f"{number(side.low, 6)} to {number(side.high, 6)}" for side in sides)
                reason = f"{formula.words} fails in {row.name}: {left} against {right}"
                return TestVerdict(test=test, judgement="contradicted", reason=reason)
            checked += sides is not None
        corrected += _corrections(row)
    if not checked:
        return Obstacle("undecided", "no published row has the figures for it")
    but = f"; {listed(list(dict.fromkeys(corrected)))}" if corrected else ""
    names = listed([formula.words for formula in FORMULAS[test.law]])
    return TestVerdict(test=test, judgement="confirmed", reason=f"{names}: {checked} published equations hold{but}")


def _sides(formula: Formula, row: Row) -> tuple[Span, Span] | None:
    """Both sides of an equation in a row; None if the row lacks a figure."""
    left, right = row.span(formula.metric), formula.right(row)
    return None if left is None or right is None else (left, right)


def _corrections(row: Row) -> Iterator[str]:
    """The figures of a row that break a formula as printed and hold as corrected."""
    for metric, figure in row.row.figures.get(row.contestant, {}).items():
        if figure.value is None or figure.should_be is None:
            continue
        printed = row.as_printed(metric)
        sides = (_sides(formula, printed) for formula in FORMULAS[row.law])
        if any(each is not None and not each[0].meets(each[1]) for each in sides):
            should_be, as_printed = number(figure.should_be, 6), number(figure.value, 6)
            yield f"{row.row.id} only with {metric} {should_be} instead of the printed {as_printed}"


def _rows(test: IdentityTest, evidence: Evidence) -> Iterator[Row]:
    for contestant, row in _reports(evidence.plan.published):
        if any(row.at.get(axis, value) != value for axis, value in test.at.items()):
            continue
        if not test.contestants or contestant in test.contestants:
            yield Row(row, contestant, test.law, _cell(evidence.plan.comparisons, row, contestant))


def _reports(published: Iterable[Published]) -> list[tuple[str, Published]]:
    """The rows of each contestant. Rows with different figures of one setting are lines of one report."""
    reports: list[tuple[str, Published]] = []
    for row in published:
        for contestant in dict.fromkeys((*row.figures, *row.bins)):
            figures, bins = row.figures.get(contestant, {}), row.bins.get(contestant)
            own = updated(row, figures={contestant: figures}, bins={} if bins is None else {contestant: bins})
            at = next((n for n, each in enumerate(reports) if _is_part(own, contestant, *each)), None)
            if at is None:
                reports.append((contestant, own))
            else:
                whole = reports[at][1]
                joined = {contestant: whole.figures[contestant] | figures}
                reports[at] = (contestant, updated(whole, figures=joined, bins=whole.bins | own.bins))
    return reports


def _is_part(own: Published, contestant: str, other: str, whole: Published) -> bool:
    """Whether a row of one contestant and a report of another belong to one measurement."""
    repeats = own.figures[contestant].keys() & whole.figures.get(contestant, {}).keys()
    return contestant == other and own.at == whole.at and not repeats


def _cell(comparisons: Sequence[Comparison], row: Published, contestant: str) -> Cell | None:
    """Our cell at the setting of a row."""
    cells = (
        each.cells[each.titles.index(contestant)]
        for each in comparisons
        if each.is_at(row.at) and contestant in each.titles
    )
    return next(cells, None)


def _rate(row: Row) -> Span | None:
    """Requests / time."""
    seconds = row.span("time_to_finish")
    if seconds is None or row.requests is None or seconds.low <= 0:
        return None
    return Span(row.requests / seconds.high * 1e9, row.requests / seconds.low * 1e9)


def _time_per_request(row: Row) -> Span | None:
    """Time / requests."""
    seconds = row.span("time_to_finish")
    if seconds is None or row.requests is None:
        return None
    return Span(seconds.low / row.requests, seconds.high / row.requests)


def _mean_latency(row: Row) -> Span | None:
    """Connections / throughput; for ab from the printed time, which has more digits than the rate."""
    each = _time_per_request(row) if row.law == "ab" else None
    rate = row.span("throughput")
    if each is None and rate is not None and rate.low > 0:
        each = Span(1e9 / rate.high, 1e9 / rate.low)
    if each is None or row.connections is None:
        return None
    return Span(each.low * row.connections, each.high * row.connections)


def _transfer_rate(row: Row) -> Span | None:
    rate, size = row.span("throughput"), row.row.number(row.contestant, "reply_bytes")
    return None if rate is None or size is None else Span(rate.low * size, rate.high * size)


def _bins(row: Row) -> Span | None:
    """The sum of the histogram."""
    bins = row.row.bins.get(row.contestant)
    return None if bins is None else Span(sum(bins.counts), sum(bins.counts))


RATE = Formula("requests / time = rate", "throughput", _rate)
FORMULAS: dict[str, tuple[Formula, ...]] = {
    "ab": (
        RATE,
        Formula("connections x time / requests = mean time per request", "latency_mean", _mean_latency),
        Formula("time / requests = time across all", "time_per_request", _time_per_request),
        Formula("bytes / time = transfer rate", "transfer_rate", _transfer_rate),
    ),
    "hey": (
        RATE,
        Formula("connections / rate = average", "latency_mean", _mean_latency),
        Formula("the histogram sums to the requests", "requests", _bins),
    ),
    "littles_law": (Formula("connections / throughput = mean latency", "latency_mean", _mean_latency),),
}


def _trials(test: IdentityTest, evidence: Evidence) -> TestVerdict | Obstacle:
    """The verdict on the equation in every trial with a report; discarded ones too, because a broken law discards."""
    names = test.contestants or tuple(dict.fromkeys(t for each in evidence.plan.comparisons for t in each.titles))
    trials, hindered_by = list[Result](), list[Obstacle]()
    for name in names:
        found = ended(evidence, name, test.at)
        if isinstance(found, Obstacle):
            if test.contestants or found.judgement == "full run only":
                return found
            hindered_by.append(found)
            continue
        trials += [each for each in found if each.report is not None and each.failure is None]
    if not trials:
        return hindered_by[0] if hindered_by else Obstacle("undecided", "no trial so far")
    broken = [why for each in trials if (why := _fault(test, each))]
    if broken:
        reason = f"{_law(test)} fails in {len(broken)} of {len(trials)} trials: {broken[0]}"
        return TestVerdict(test=test, judgement="contradicted", reason=reason)
    if test.law == "littles_law":
        return _littles_law(test, evidence, trials)
    return TestVerdict(test=test, judgement="confirmed", reason=f"{_law(test)} holds in all {len(trials)} trials")


def _littles_law(test: IdentityTest, evidence: Evidence, trials: Sequence[Result]) -> TestVerdict | Obstacle:
    """The verdict on Little's law if no trial breaks it; in some it may be only an upper bound."""
    laws = [law for each in trials if (law := littles_law(evidence.plan.cell(each.trial), each)) is not None]
    if not laws:
        return Obstacle("not measurable here", "in an open loop the number of requests in flight is not known")
    below = [law.share for law in laws if 1 - law.share > LITTLE_MAX]
    if not below:
        return TestVerdict(test=test, judgement="confirmed", reason=f"{_law(test)} holds in all {len(laws)} trials")
    ends = dict.fromkeys(percent(share) for share in (min(below), max(below)))
    reason = (
        f"connections >= throughput x mean latency holds in all {len(laws)} trials, but the equation does not hold in "
        f"{len(below)} of them: connections are reopened or the trial ends after a number of requests, so throughput x "
        f"mean latency is only {' to '.join(ends)} of the requests that can be in flight"
    )
    return TestVerdict(test=test, judgement="direction only", reason=reason)


def _law(test: IdentityTest) -> str:
    return "connections = throughput x mean latency" if test.law == "littles_law" else f"what {test.law} prints"


def _fault(test: IdentityTest, result: Result) -> str:
    """What contradicts the equation in a trial; empty if nothing does.

    `judge.trial` checks Little's law and raises a warning, which is read here.
    """
    report = result.report
    assert report is not None, "a trial that ended has a report"
    if test.law == "littles_law":
        return next((warning.detail for warning in result.warnings if warning.word == "littles_law"), "")
    return _report_fault(report, has_histogram=test.law == "hey")


def _report_fault(report: Report, *, has_histogram: bool) -> str:
    """What is wrong if the rate does not follow from count and window, or the histogram misses requests."""
    requests, window_ns = report.requests.correct, report.end_ns - report.begin_ns
    if not report.gone and abs(report.rate_per_s * window_ns / 1e9 - requests) > RATE_SHARE * requests + 1e-3:
        return f"{requests} requests in {window_ns / 1e9:.3f} s are printed as {number(report.rate_per_s, 6)}/s"
    histogram = decoded(report.latency_ns.histogram) if has_histogram else None
    answered = requests + report.requests.wrong
    if histogram is not None and histogram.total not in (requests, answered):
        return f"the histogram holds {histogram.total} of {answered} requests"
    return ""
