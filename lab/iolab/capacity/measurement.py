"""The figures of a generator's report that limits apply to."""

from __future__ import annotations

from iolab.capacity.limits import TIMES, Measurement
from iolab.contract.types import Interval, Latency, Report, Requests


def measurement(report: Report) -> Measurement:
    """The figures of a report, with the reason if the generator was the limit."""
    requests, window_s = report.requests, (report.end_ns - report.begin_ns) / 1e9
    return Measurement(
        # If the generator got no processor during the window, its begin and its end are the same time.
        asked_per_s=None if report.schedule is None or window_s == 0 else report.schedule.due / window_s,
        achieved_per_s=report.rate_per_s,
        replies=requests.correct + requests.wrong,
        errors_share=errors_share(requests),
        times_ns=times(report.latency_ns),
        late_ns={} if report.views is None else times(report.views.lateness_ns),
        generator=report.bound.why if report.bound is not None and report.bound.by == "generator" else "",
        window_s=window_s,
    )


def errors_share(counts: Requests | Interval) -> float:
    """The share of the ended requests that failed or had a wrong reply."""
    ended = counts.correct + counts.wrong + counts.failed
    return (counts.wrong + counts.failed) / ended if ended else 0.0


def times(latency: Latency) -> dict[str, float]:
    """A distribution by the names of limits. A missing quantile counts as the longest time."""
    found = {name: getattr(latency, name.replace(".", "_")) for name in TIMES}
    return {name: float(latency.max if time_ns is None else time_ns) for name, time_ns in found.items()}
