"""Stored runs as tables for other tools: one row a trial, in plain units that the names of the columns state."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from iolab.metrics import METRICS, QUANTILES, value_of
from iolab.plan.plan import Plan
from iolab.results.records import Result

LATENCIES = ("min", "mean", *QUANTILES, "max")


def trial_rows(plan: Plan, results: Iterable[Result]) -> list[dict[str, Any]]:
    """One row a trial, discarded ones too, which have a reason. What a trial did not measure is None."""
    axes = list(dict.fromkeys(axis for comparison in plan.comparisons for axis in comparison.setting))
    return [_trial_row(plan, result, axes) for result in results if plan.holds(result.trial)]


def _trial_row(plan: Plan, result: Result, axes: Sequence[str]) -> dict[str, Any]:
    comparison = plan.comparisons[result.trial.comparison]
    report, client, server, noise = result.report, result.client, result.server, result.noise
    counts = report.requests if report else None
    discarded: list[str] = [warning.word for warning in result.warnings if warning.discards]
    if result.failure is not None:
        discarded.append(result.failure.kind)
    row: dict[str, Any] = {
        "comparison": comparison.name,
        "contestant": comparison.titles[result.trial.slot],
        **{axis: comparison.setting.get(axis) for axis in axes},
        "block": result.trial.block,
        "attempt": result.trial.attempt,
        "position": result.trial.position,
        "started": result.started,
        "discarded": " ".join(discarded),
        "warnings": " ".join(warning.word for warning in result.warnings if not warning.discards),
        "requests": counts.correct if counts else client and client.requests,
        "wrong": counts and counts.wrong,
        "failed": counts.failed if counts else client and client.failed,
        "window_ns": report.end_ns - report.begin_ns if report else server and server.wall_ns,
        "rate_per_s": (measured := report or client) and measured.rate_per_s,
        **{f"latency_{name}_ns": report and getattr(report.latency_ns, name) for name in LATENCIES},
        "cpu_per_request_ns": _cpu_per_request_ns(result),
        "server_cpu_ns": server and server.cpu_ns,
        "generator_cpu_ns": report.generator.cpu_ns if report else client and client.cpu_ns,
        "rss_median_bytes": server and server.rss_bytes_median,
        "rss_max_bytes": server and server.rss_bytes_max,
        "pss_bytes": server and server.pss_bytes,
        "threads": server and server.threads,
        "processes": server and server.processes,
        "steal_share": noise and noise.steal_share,
        "foreign_cpu_cores": noise and noise.foreign_cpu_cores,
    }
    # What the record holds as it is has its column already.
    return row | {m.column: value_of(result, m.key) for m in METRICS.values() if m.column not in row}


def _cpu_per_request_ns(result: Result) -> float | None:
    """The server's processor time over the requests that were answered, by whichever client counted them."""
    requests = result.report.requests.correct if result.report else result.client.requests if result.client else 0
    return result.server.cpu_ns / requests if result.server is not None and requests else None


def csv_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """A header and the rows, as RFC 4180 writes them but with line feeds alone. None is an empty field."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
