"""One trial's value of each metric."""

from __future__ import annotations

from iolab.judge import trial
from iolab.plan.claims import Metric
from iolab.results.records import Result

METRICS: tuple[Metric, ...] = ("throughput", "cpu_per_request", "latency_p50", "latency_p99", "rss")


def value_of(result: Result | None, metric: Metric) -> float | None:
    """One trial's value of a metric; None where it was not measured or its quantile is not supported."""
    if result is None or result.report is None:
        return None
    report, server = result.report, result.server
    if report.requests.correct == 0 or report.end_ns <= report.begin_ns:
        return None
    per_ns = report.requests.correct / (report.end_ns - report.begin_ns)
    if metric == "throughput":
        return per_ns * 1e9
    if metric == "latency_p50":
        return float(report.latency_ns.p50)
    if metric == "latency_p99":
        return float(report.latency_ns.p99) if trial.quantile_supported(report.requests.correct, 0.99) else None
    if server is None:
        return None
    return server.cpu_ns / server.wall_ns / per_ns if metric == "cpu_per_request" else float(server.rss_bytes_median)
