"""Every metric there is, in one table: how it is called, measured, compared and said. A new metric is a row here.

Plans name metrics, verdicts judge them, and the terminal, the page and the exports show them: all of them read this
table. So do those who need the quantiles of a report, which are the fields of the contract's `Latency`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from iolab.contract.types import Latency, Report
from iolab.wording import Bound

# A quantile q needs this many requests beyond it: n (1 - q) >= 10.
BEYOND_QUANTILE_MIN = 10
# The quantiles of a report by their fields: "p99_9" is 0.999.
QUANTILES = {name: float(f"0.{name[1:].replace('_', '')}") for name in Latency.model_fields if name[1:2].isdigit()}

Metric = Literal["throughput", "cpu_per_request", "latency_p50", "latency_p99", "rss"]


class Used(Protocol):
    """What is known of a server's use of the machine in a trial."""

    @property
    def cpu_ns(self) -> int: ...
    @property
    def wall_ns(self) -> int: ...
    @property
    def rss_bytes_median(self) -> int: ...


class Finished(Protocol):
    """A finished trial, as far as metrics are read from it."""

    @property
    def report(self) -> Report | None: ...
    @property
    def server(self) -> Used | None: ...


@dataclass(frozen=True, slots=True)
class Row:
    """One metric.

    `read` gives the value of a trial in the base unit that the name of its `column` in exports states. It is shown in
    `unit`, after it is divided by `scale`. `heading` is that of a column of figures, `short` the same for a narrow
    terminal. A sentence calls it `noun`: with a `verb` "A serves 2x the requests of B", else "the memory of A is 2x
    that of B"; less of it is `fewer`.

    `limited` is what a saturated generator leaves of a figure: a bound, or all of it. By those that are ranked many
    contestants are put in order. A time is drawn with the quantiles, and in a closed loop it mirrors the requests.
    """

    key: Metric
    title: str
    unit: str
    scale: float
    heading: str
    column: str
    noun: str
    read: Callable[[Report, Used | None], float | None]
    short: str = ""
    verb: str = ""
    fewer: str = "less"
    more_is_better: bool = False
    limited: Bound = "exact"
    is_ranked: bool = False
    is_time: bool = False

    @property
    def better(self) -> str:
        """The side of a chart on which the better contestants are."""
        return "right" if self.more_is_better else "left"

    @property
    def best(self) -> str:
        """What the first of a ranking has of it."""
        return f"{'Most' if self.more_is_better else 'Least'} {self.noun}"

    def clause(self, more: str, ratio: object, less: str) -> str:
        """Who has more of it than the other, and by how much, in words."""
        if self.verb:
            return f"{more} {self.verb} {ratio} the {self.noun} of {less}"
        return f"the {self.noun} of {more} is {ratio} that of {less}"


def value_of(trial: Finished | None, metric: Metric) -> float | None:
    """One trial's value of a metric; None where it was not measured or its quantile is not supported."""
    if trial is None or trial.report is None:
        return None
    report = trial.report
    if report.requests.correct == 0 or report.end_ns <= report.begin_ns:
        return None
    return METRICS[metric].read(report, trial.server)


def quantile_supported(requests: int, quantile: float) -> bool:
    """Whether so many requests carry this quantile: 1,000 for a p99, 10,000 for a p99.9."""
    return requests * (1 - quantile) >= BEYOND_QUANTILE_MIN - 1e-6


def quantile_ns(report: Report, name: str) -> float | None:
    """A quantile of the latency, by its field; None where there are too few requests for it."""
    is_supported = quantile_supported(report.requests.correct, QUANTILES[name])
    return float(getattr(report.latency_ns, name)) if is_supported else None


def _per_ns(report: Report) -> float:
    return report.requests.correct / (report.end_ns - report.begin_ns)


def _latency(key: Metric, quantile: str, noun: str) -> Row:
    name = quantile.replace("_", ".")
    return Row(
        key=key,
        title=f"Latency {name}",
        unit="µs",
        scale=1e3,
        heading=f"{name} µs",
        column=f"latency_{quantile}_ns",
        noun=noun,
        read=lambda report, server: quantile_ns(report, quantile),
        limited="at most",
        is_time=True,
    )


_ROWS = (
    Row(
        key="throughput",
        title="Throughput",
        unit="requests/s",
        scale=1.0,
        heading="Requests/s",
        short="requests/s",
        column="rate_per_s",
        noun="requests",
        verb="serves",
        fewer="fewer",
        read=lambda report, server: _per_ns(report) * 1e9,
        more_is_better=True,
        limited="at least",
        is_ranked=True,
    ),
    Row(
        key="cpu_per_request",
        title="CPU per request",
        unit="µs",
        scale=1e3,
        heading="CPU µs/request",
        short="CPU µs",
        column="cpu_per_request_ns",
        noun="CPU per request",
        verb="uses",
        read=lambda report, server: None if server is None else server.cpu_ns / server.wall_ns / _per_ns(report),
        is_ranked=True,
    ),
    _latency("latency_p50", "p50", "median latency"),
    _latency("latency_p99", "p99", "p99 latency"),
    Row(
        key="rss",
        title="Resident memory",
        unit="MiB",
        scale=float(1 << 20),
        heading="RSS MiB",
        column="rss_median_bytes",
        noun="memory",
        read=lambda report, server: None if server is None else float(server.rss_bytes_median),
    ),
)
METRICS: dict[Metric, Row] = {row.key: row for row in _ROWS}
RANKED_BY = tuple(row.key for row in _ROWS if row.is_ranked)
