"""One chart of a run as an SVG file that stands alone: the ratios with their intervals, as for the head of a README."""

from __future__ import annotations

from collections.abc import Iterable

from iolab import verdict
from iolab.plan import Metric, Plan, Result
from iolab.report import charts, drawing
from iolab.report.page import METRICS, ratio_rows
from iolab.store import StoreError


def ratios_svg(plan: Plan, results: Iterable[Result], metric: Metric = "throughput") -> str:
    """The ratios of one metric over all comparisons; raises StoreError when there is none to draw yet."""
    rows = ratio_rows(verdict.judge(plan, results), metric)
    if not rows:
        raise StoreError(f"{plan.name}: has no ratio of {metric} yet: run more blocks first")
    shown = METRICS[metric]
    chart = charts.ratios(rows, f"{shown.name}, ratio ({shown.better} is better)")
    return drawing.standalone(chart, plan.question, "; ".join(f"{row.heading} {row.label} {row.text}" for row in rows))
