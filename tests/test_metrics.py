"""The table of metrics: it is complete, and each row has its words and its value."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from fake_engine import histogram
from iolab.contract.histogram import decoded
from iolab.metrics import COMPARED, METRICS, QUANTILES, Metric, Side, quantile_supported, value_of
from iolab.plan.experiment import vs_plan
from iolab.plan.schedule import schedule
from iolab.results.records import Growth, ProcessUsage
from made import result

PLAN = vs_plan(["epoll", "io_uring"], {"protocol": "echo", "connections": 50})


def test_each_metric_has_a_column_of_its_own_and_those_that_rank_have_a_verb() -> None:
    assert len({row.column for row in METRICS.values()}) == len(METRICS)
    assert all(row.verb for row in METRICS.values() if row.is_ranked), "a ranking says which uses or serves less"
    assert list(COMPARED) == ["throughput", "cpu_per_request", "latency_p50", "latency_p99", "rss"]


def test_a_metric_that_there_is_none_of_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(ValidationError, match="there is no metric 'trougput': did you mean 'throughput'"):
        TypeAdapter(Metric).validate_python("trougput")


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
    assert value_of(made.model_copy(update={"report": None, "server": None}), metric) is None
    assert METRICS[metric].clause("A", "2x", "B") == clause


@pytest.mark.parametrize(
    ("requests", "quantile", "supported"), [(1_000, 0.99, True), (999, 0.99, False), (10_000, 0.999, True)]
)
def test_a_quantile_needs_ten_requests_beyond_it(requests: int, quantile: float, supported: bool) -> None:
    assert quantile_supported(requests, quantile) is supported


@pytest.mark.parametrize(
    ("metric", "side", "value"),
    [
        ("latency_mean", "server", 500_000.0),
        ("latency_min", "server", 1_000.0),
        ("latency_max", "server", 2_500_000.0),
        ("latency_p10", "server", 500_223.0),
        ("latency_p95", "server", 500_223.0),
        ("service_p50", "server", 500_000.0),
        ("lateness_p99", "server", None),
        ("connect_max", "server", None),
        ("time_to_finish", "server", None),
        ("time_per_request", "server", 10_000.0),
        ("transfer_rate", "server", 6.4e6),
        ("reply_bytes", "server", 64.0),
        ("cores_used", "server", 0.97),
        ("cores_used", "client", 0.5),
        ("cores_used", "both", 1.47),
        ("cpu_per_request", "client", 5_000.0),
        ("share_of_machine", "server", 0.97 / 4),
        ("context_switches_per_request", "server", 30 / 300_000),
        ("wakeups_per_request", "server", 10 / 300_000),
        ("preemptions_per_request", "server", 20 / 300_000),
        ("user_time_per_request", "server", 0.25 * 9_700.0),
        ("kernel_time_per_request", "server", 0.75 * 9_700.0),
        ("wakeups_per_request", "client", None),
        ("kernel_time_per_request", "client", None),
        ("run_delay_per_request", "server", None),
        ("pss", "server", 3e6),
        ("bytes_per_connection", "server", 60_000.0),
        ("rss_max", "client", 3e6),
        ("threads", "server", 1.0),
        ("connections", "server", 50.0),
        ("requests", "server", 300_000.0),
        ("failed", "server", 0.0),
        ("errors_reset", "server", 0.0),
        ("errors_in_receive", "server", 0.0),
        ("connections_made", "server", 50.0),
        ("time_elapsed", "server", 3.6e9),
        ("error_share", "server", 0.0),
    ],
)
def test_a_metric_is_read_from_what_the_records_hold(metric: Metric, side: Side, value: float | None) -> None:
    made = result(PLAN, schedule(PLAN)[0])
    assert made.report is not None
    latency = made.report.latency_ns.model_copy(update={"histogram": histogram(500_000, 300_000)})
    more = {"latency_ns": latency, "connections_made": 50, "elapsed_ns": 3_600_000_000}
    made = made.model_copy(update={"report": made.report.model_copy(update=more)})
    found = value_of(made, metric, side, processors=4)
    assert found == (None if value is None else pytest.approx(value))


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("pss_largest_process", 5e6),
        ("pss_mean_process", 4e6),
        ("anonymous_mean_process", 2e6),
        ("processes_serving", 2.0),
        ("threads_serving", None),
        ("faults_per_request", 900 / 300_000),
        ("listen_overflows", 3.0),
        ("listen_drops", 4.0),
        ("syn_cookies", None),
        ("zombies", 9.0),
        ("descriptors", 60.0),
        ("rss_growth", 500.0),
    ],
)
def test_a_metric_is_read_from_the_accounts_of_a_server(metric: Metric, value: float | None) -> None:
    made = result(PLAN, schedule(PLAN)[0])
    assert made.server is not None
    assert value_of(made, metric) is None, "not of what was stored before there were such accounts"
    each = (
        ProcessUsage(pid=1, cpu_ns=1, pss_bytes=5_000_000, anonymous_bytes=1_000_000),
        ProcessUsage(pid=2, cpu_ns=1, pss_bytes=3_000_000, anonymous_bytes=3_000_000),
    )
    series = {"times_ns": (0, 10**9, 2 * 10**9), "rss_bytes": (1_000, 9_000, 2_000), "zombies": (0, 9, 0)}
    ones = dict.fromkeys(("threads", "processes"), (1, 1, 1))
    accounts = {
        "processes_each": (*each, ProcessUsage(pid=3, cpu_ns=1)),
        "processes_serving": 2,
        "faults_minor": 900,
        "faults_major": 0,
        "listen_overflows": 3,
        "listen_drops": 4,
        "growth": Growth(**series, **ones, descriptors=(6, 60, 6)),
    }
    server = made.server.model_copy(update=accounts)
    assert value_of(made.model_copy(update={"server": server}), metric) == (
        None if value is None else pytest.approx(value)
    )


@pytest.mark.parametrize(
    ("value_ns", "shown"),
    [(4_560, "4.56 µs"), (999_400, "999 µs"), (999_700, "1,000 µs"), (1_234_000, "1,234 µs")],
)
def test_a_value_is_shown_with_three_digits_and_no_exponent(value_ns: float, shown: str) -> None:
    assert METRICS["latency_p50"].shown(value_ns) == shown


def test_only_a_load_of_a_number_of_requests_has_a_time_to_finish() -> None:
    made = result(PLAN, schedule(PLAN)[0])
    assert made.report is not None
    counted = made.report.model_copy(update={"finish_ns": 2_500_000_000})
    assert value_of(made, "time_to_finish") is None
    assert value_of(made.model_copy(update={"report": counted}), "time_to_finish") == 2.5e9


def test_a_small_share_of_failures_is_not_shown_as_none() -> None:
    assert METRICS["error_share"].shown(5 / 1.38e9) == "0.000000362 %"


def test_a_cell_that_answers_nothing_has_errors_and_no_speed() -> None:
    made = result(PLAN, schedule(PLAN)[0], rate_per_s=0.0, errors={"reset": 7})
    assert value_of(made, "errors_reset") == 7
    assert value_of(made, "throughput") is None


@pytest.mark.parametrize("value", [1, 7, 1_023, 1_024, 2_047, 2_048, 81_407, 3_252_223, 60_000_000_000])
def test_a_histogram_is_read_to_its_three_digits(value: int) -> None:
    found = decoded(histogram(value, 5))
    assert found is not None
    assert found.total == 5
    assert value <= (found.at(0.5) or 0) <= value * 1.001 + 1


@pytest.mark.parametrize("text", ["", "AAAA", "no base64", histogram(5, 5)[:-8]])
def test_what_is_no_histogram_is_none(text: str) -> None:
    assert decoded(text) is None


def test_each_metric_is_in_the_documents() -> None:
    documented = (Path(__file__).parent.parent / "docs/claims.md").read_text()
    assert [key for key in METRICS if f"\n| `{key}` |" not in documented] == []
