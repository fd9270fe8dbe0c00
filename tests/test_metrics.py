"""The table of metrics: that it is whole, and what a row says and reads."""

from __future__ import annotations

from typing import get_args

import pytest

from iolab.metrics import METRICS, QUANTILES, Metric, quantile_supported, value_of
from iolab.plan.experiment import vs_plan
from iolab.plan.schedule import schedule
from made import result

PLAN = vs_plan(["epoll", "io_uring"], {"protocol": "echo", "connections": 50})


def test_each_metric_that_can_be_named_has_its_row_and_its_column() -> None:
    assert set(METRICS) == set(get_args(Metric))
    assert len({row.column for row in METRICS.values()}) == len(METRICS)
    assert all(row.verb for row in METRICS.values() if row.is_ranked), "a ranking says who uses or serves less"


def test_the_quantiles_are_those_of_the_contract() -> None:
    assert QUANTILES == {
        "p50": 0.5,
        "p90": 0.9,
        "p99": 0.99,
        "p99_9": 0.999,
        "p99_99": 0.9999,
        "p99_999": 0.99999,
    }


@pytest.mark.parametrize(
    ("metric", "value", "clause"),
    [
        ("throughput", 100_000.0, "A serves 2x the requests of B"),
        ("cpu_per_request", 9_700.0, "A uses 2x the CPU per request of B"),
        ("latency_p50", 500_000.0, "the median latency of A is 2x that of B"),
        ("latency_p99", 1_000_000.0, "the p99 latency of A is 2x that of B"),
        ("rss", 4_000_000.0, "the memory of A is 2x that of B"),
    ],
)
def test_a_metric_is_read_from_a_trial_and_said(metric: Metric, value: float, clause: str) -> None:
    made = result(PLAN, schedule(PLAN)[0])
    assert value_of(made, metric) == pytest.approx(value)
    assert value_of(made.model_copy(update={"report": None}), metric) is None
    assert METRICS[metric].clause("A", "2x", "B") == clause


@pytest.mark.parametrize(
    ("requests", "quantile", "supported"), [(1_000, 0.99, True), (999, 0.99, False), (10_000, 0.999, True)]
)
def test_a_quantile_needs_ten_requests_beyond_it(requests: int, quantile: float, supported: bool) -> None:
    assert quantile_supported(requests, quantile) is supported
