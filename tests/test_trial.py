"""What discards a trial or adds a warning, and what limited the trial."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import scipy.signal
from pydantic import ValidationError

from iolab.contract.types import (
    ContractError,
    Description,
    Frozen,
    HttpWorkload,
    LoadSpec,
    PathSpec,
    ServeReady,
    ServeSpec,
    parse_load_event,
    parse_path_event,
    parse_serve_event,
)
from iolab.judge import bottleneck, trial
from iolab.plan import settings
from iolab.plan.experiment import vs_plan
from iolab.plan.plan import Plan, Trial
from iolab.plan.schedule import schedule
from iolab.results.records import MachineNoise
from made import report, result

PLAN = vs_plan(["epoll", "io_uring"], {"protocol": "echo", "connections": 50, "threads": 1})
FIRST = schedule(PLAN)[0]
GOOD = report(PLAN.cell(FIRST))
WINDOW_NS = GOOD.end_ns - GOOD.begin_ns


def check(words: list[str], *, plan: Plan = PLAN, at: Trial | None = None, **changes: Any) -> None:
    judged = result(plan, at or schedule(plan)[0], **changes)
    assert [warning.word for warning in judged.warnings] == words
    assert judged.discarded == any(warning.discards for warning in judged.warnings)
    assert all(warning.detail and warning.advice for warning in judged.warnings)


def changed(part: str, **values: Any) -> dict[str, Any]:
    """Replaces values in one part of the good report."""
    return {part: getattr(GOOD, part).model_dump() | values}


def slow(**generator: int) -> dict[str, Any]:
    """The good report with a median latency of 10 ms, and these values of the generator."""
    return changed("latency_ns", p50=10_000_000) | changed("generator", **generator)


def test_a_trial_whose_books_balance_raises_no_warning() -> None:
    check([])


@pytest.mark.parametrize(
    ("word", "changes"),
    [
        ("interrupted", {"interrupted": True}),
        ("connections_missing", {"connections": 51, "connections_open": 50}),
        ("wrong_replies", changed("errors", wrong=1)),
        ("counts_open", changed("requests", sent=GOOD.requests.sent + 1)),
        ("bytes_open", changed("bytes", received=GOOD.bytes.received - 200 * 64)),
        ("bytes_open", changed("bytes", sent=GOOD.bytes.sent + 200 * 64)),
        ("littles_law", changed("latency_ns", mean=GOOD.latency_ns.mean * 1.03)),
        ("littles_law", changed("latency_ns", mean=GOOD.latency_ns.mean * 0.97)),
        ("littles_law", {**changed("latency_ns", mean=GOOD.latency_ns.mean * 0.93), "age_end_ns": 2 * WINDOW_NS}),
        ("littles_law", {"age_begin_ns": 2 * WINDOW_NS}),
        ("littles_law", {"age_failed_ns": 2 * WINDOW_NS}),
        # However long a single request took.
        ("littles_law", changed("latency_ns", mean=GOOD.latency_ns.mean * 1.2, max=200_000_000)),
        ("generator_late", changed("generator", turn_ns_max=20_000_001)),
        ("generator_starved", changed("generator", turns=100, run_delay_ns=round(GOOD.generator.cpu_ns * 0.051))),
        ("generator_starved", changed("generator", turns=1, cpu_ns=WINDOW_NS // 10, run_delay_ns=WINDOW_NS // 50 + 1)),
        # More than its wake-ups explain, and more than any number of wake-ups may take.
        ("generator_starved", changed("generator", turns=20_000, cpu_ns=WINDOW_NS // 10, run_delay_ns=100_000_001)),
        ("generator_starved", changed("generator", turns=10**6, run_delay_ns=round(GOOD.generator.wall_ns * 0.061))),
        ("generator_starved", slow(turns=6_000, cpu_ns=WINDOW_NS // 10, run_delay_ns=60_000_001)),
        ("generator_saturated", {"generator_share": 0.81, "server_share": 0.89}),
        ("machine_busy", {"noise": MachineNoise(steal_share=0.051, foreign_cpu_cores=0.0)}),
        ("machine_busy", {"noise": MachineNoise(steal_share=0.0, foreign_cpu_cores=0.11)}),
        ("machine_noisy", {"noise": MachineNoise(steal_share=0.05, foreign_cpu_cores=0.0)}),
        ("machine_noisy", {"noise": MachineNoise(steal_share=0.011, foreign_cpu_cores=0.0)}),
        ("machine_noisy", {"noise": MachineNoise(steal_share=0.0, foreign_cpu_cores=0.06)}),
    ],
)
def test_each_rule_names_its_reason(word: str, changes: dict[str, Any]) -> None:
    check([word], **changes)


@pytest.mark.parametrize(
    "changes",
    [
        changed("bytes", received=GOOD.bytes.received - 90 * 64),
        changed("latency_ns", mean=GOOD.latency_ns.mean * 1.019),
        # A stall of 4 % at the end of the window: the time is in the window but in no latency.
        {**changed("latency_ns", mean=GOOD.latency_ns.mean * 0.96), "age_end_ns": 2 * WINDOW_NS},
        # The same stall just before the window: the time is in the latencies but not in the window.
        {**changed("latency_ns", mean=GOOD.latency_ns.mean * 1.04), "age_begin_ns": 2 * WINDOW_NS},
        # The same stall with requests that failed.
        {**changed("latency_ns", mean=GOOD.latency_ns.mean * 0.96), "age_failed_ns": 2 * WINDOW_NS},
        # The same at both edges.
        {"age_begin_ns": 2 * WINDOW_NS, "age_end_ns": 2 * WINDOW_NS},
        changed("generator", turn_ns_max=20_000_000),
        # Each wake-up waits some microseconds, a large share of the CPU time of a generator that mostly waits.
        changed("generator", cpu_ns=WINDOW_NS // 10, run_delay_ns=WINDOW_NS // 50),
        changed("generator", turns=20_000, cpu_ns=WINDOW_NS // 10, run_delay_ns=100_000_000),
        # Each wake-up waits a thousandth of the median latency.
        slow(turns=6_000, cpu_ns=WINDOW_NS // 10, run_delay_ns=60_000_000),
        {"generator_share": 0.99, "server_share": 0.95},
        {"generator_share": 0.79, "server_share": 0.50},
        {"noise": MachineNoise(steal_share=0.01, foreign_cpu_cores=0.05)},
    ],
)
def test_what_lies_within_a_limit_raises_no_warning(changes: dict[str, Any]) -> None:
    check([], **changes)


@pytest.mark.parametrize(
    ("keep_alive", "turn_ns", "is_late"),
    [(False, 50_000_000, False), (False, 50_000_001, True), (True, 20_000_001, True)],
)
def test_a_turn_may_take_longer_where_it_opens_a_connection_for_each_request(
    keep_alive: bool, turn_ns: int, is_late: bool
) -> None:
    http = HttpWorkload(keep_alive=keep_alive)
    generator = GOOD.generator.model_copy(update={"turn_ns_max": turn_ns})
    report = GOOD.model_copy(update={"workload": http, "connections": 1_000, "generator": generator})
    assert trial.is_late(report) == is_late


def test_failed_requests_are_an_error_rate_and_not_a_speed() -> None:
    correct = GOOD.requests.correct
    failed = changed("requests", sent=correct + 1_000, failed=1_000)
    check(["errors"], **failed, **changed("bytes", sent=GOOD.bytes.sent + 64_000), first_error="reset by peer")


def test_wrong_replies_have_a_latency_and_keep_littles_law() -> None:
    correct, wrong = round(GOOD.requests.correct * 0.9), GOOD.requests.correct - round(GOOD.requests.correct * 0.9)
    check(["wrong_replies"], **changed("requests", correct=correct, wrong=wrong))


def test_a_window_without_an_answer_is_void() -> None:
    check(["errors", "too_short"], rate_per_s=0.0, **changed("intervals", completed=(0,) * 200))


def test_too_few_requests_carry_no_p99_and_fewer_no_p50() -> None:
    check(["p99_not_supported"], rate_per_s=300.0)
    check(["too_short"], rate_per_s=5.0)


@pytest.mark.parametrize(
    ("load", "factor", "words"),
    [
        ({"active": 10}, 1.0, []),
        ({"active": 10}, 1.03, ["littles_law"]),
        ({"active": 10}, 0.97, ["littles_law"]),
        ({"pipeline": 4}, 1.0, []),
        ({"pipeline": 4}, 0.97, ["littles_law"]),
        ({"active": 10, "pipeline": 4}, 1.0, []),
        ({"idle": 20, "active": 10}, 0.97, ["littles_law"]),
        # A connection being opened has no request in flight, so Little's law is only an upper bound.
        ({"requests_per_connection": 100}, 0.5, []),
        ({"requests_per_connection": 100}, 1.03, ["littles_law"]),
        ({"keep_alive": False}, 0.5, []),
        ({"keep_alive": False}, 1.03, ["littles_law"]),
        # Likewise while the last requests of a fixed number are awaited.
        ({"requests": 100_000}, 0.9, []),
        ({"requests": 100_000}, 1.03, ["littles_law"]),
    ],
)
def test_littles_law_is_of_the_requests_that_can_be_in_flight(
    load: dict[str, Any], factor: float, words: list[str]
) -> None:
    plan = vs_plan(["epoll", "io_uring"], {"protocol": "http", **load})
    good = report(plan.comparisons[0].cells[0])
    latency = good.latency_ns.model_dump() | {"mean": good.latency_ns.mean * factor}
    opened = good.connections + load.get("idle", 0)
    check(words, plan=plan, latency_ns=latency, connections_open=opened)


@pytest.mark.parametrize(
    ("load", "words"),
    [
        pytest.param({"keep_alive": False}, [], id="a connection a request"),
        pytest.param({"requests_per_connection": 10}, [], id="a connection for ten requests"),
        pytest.param({}, ["connections_missing", "littles_law"], id="connections that stay open"),
    ],
)
def test_connections_that_are_just_being_opened_anew_are_not_missing(load: dict[str, Any], words: list[str]) -> None:
    # Over a path with a delay, a connection spends half of its time in the handshake.
    for opened in (0, 25):
        plan = vs_plan(["epoll", "io_uring"], {"protocol": "http", **load})
        check(words if opened or not words else ["connections_missing"], plan=plan, connections_open=opened)


def test_idle_connections_must_be_open_too() -> None:
    plan = vs_plan(["epoll", "io_uring"], {"protocol": "http", "idle": 20})
    check(["connections_missing", "littles_law"], plan=plan, connections_open=69)


def test_a_count_of_requests_need_not_be_steady() -> None:
    moving = changed("intervals", completed=tuple(range(200)))
    check(["never_steady"], **moving)
    check([], plan=vs_plan(["epoll", "io_uring"], {"protocol": "echo", "requests": 100_000}), **moving)


def open_loop(rate_per_s: float, *, asked_per_s: float = 20_000, late_ns: int = 0) -> dict[str, Any]:
    """The additional fields of an open loop's report."""
    latency = GOOD.latency_ns.model_dump()
    lateness = latency | {"p99": late_ns}
    schedule = {"due": 1, "unsent_begin": 0, "unsent_end": 0, "waited": 0, "asked_per_s": asked_per_s}
    views = {"service_ns": latency, "closed_ns": latency, "lateness_ns": lateness}
    return {"rate_per_s": rate_per_s, "views": views, "schedule": schedule}


@pytest.mark.parametrize(
    ("report_of", "words"),
    [
        (open_loop(20_000), []),
        (open_loop(19_500), []),
        (open_loop(18_000), ["rate_missed"]),
        (open_loop(20_000, late_ns=900_000), []),
        (open_loop(20_000, late_ns=1_500_000), ["generator_late"]),
        # Two kinds of lateness give one warning.
        (open_loop(20_000, late_ns=1_500_000) | changed("generator", turn_ns_max=25_000_000), ["generator_late"]),
    ],
)
def test_an_open_loop_is_judged_by_its_lateness_and_the_rate_it_reached(
    report_of: dict[str, Any], words: list[str]
) -> None:
    plan = vs_plan(["epoll", "io_uring"], {"protocol": "echo", "rate": "20k"})
    check(words, plan=plan, **report_of)
    made = result(plan, schedule(plan)[0], server_share=0.5)
    assert bottleneck.bottleneck(plan.cell(made.trial), made) is bottleneck.Bottleneck.RATE


def test_a_shared_processor_makes_a_late_generator_a_warning() -> None:
    late = changed("generator", turn_ns_max=25_000_000)
    check(["generator_late"], **late)
    shared = vs_plan(["epoll", "io_uring"], {"protocol": "echo", "processors": "shared"})
    check(["processor_shared"], plan=shared, **late)


@pytest.mark.parametrize(
    ("load", "words"),
    [
        ({}, ["connections_waiting"]),
        # With a number of requests the window begins with the first, and connections that end make room for others.
        ({"requests": 100_000}, []),
        ({"requests_per_connection": 100}, []),
        ({"open": "as_needed"}, []),
    ],
)
def test_connections_must_be_accepted_before_the_window_where_there_is_a_before(
    load: dict[str, Any], words: list[str]
) -> None:
    plan = vs_plan(["epoll", "io_uring"], {"protocol": "echo", **load})
    good = result(plan, schedule(plan)[0])
    assert good.server is not None
    usage = good.server.model_copy(update={"connections_taken": 49})
    judged = trial.judged(plan.cell(good.trial), good.model_copy(update={"server": usage}))
    assert [warning.word for warning in judged.warnings] == words


def test_http_replies_hold_at_least_the_body_that_was_asked_for() -> None:
    plan = vs_plan(["epoll", "io_uring"], {"protocol": "http", "reply_bytes": 1_000})
    check(["bytes_open"], plan=plan)
    theirs = vs_plan(["cmd:./a {port}", "cmd:./b {port}"], {"protocol": "http", "reply_bytes": 1_000})
    check([], plan=theirs)


def check_series(words: list[str], shape: np.ndarray[Any, np.dtype[np.float64]]) -> None:
    """`shape` is throughput relative to its level, one value per interval; the first quarter is warm-up."""
    assert shape.size == 200
    check(words, **changed("intervals", completed=tuple(int(v) for v in 10_000 * shape)))


def test_a_slow_start_within_the_warm_up_is_forgiven() -> None:
    check_series([], np.concatenate([np.linspace(0.1, 1, 40), np.ones(160)]))


def test_throughput_that_settles_only_after_the_half_is_never_steady() -> None:
    check_series(["never_steady"], np.concatenate([np.full(120, 0.7), np.ones(80)]))


def test_throughput_that_drifts_within_the_window_is_not_steady() -> None:
    check_series(["not_steady"], np.concatenate([np.ones(125), np.full(75, 1.06)]))


def test_a_drift_below_five_percent_is_one_figure() -> None:
    check_series([], np.concatenate([np.ones(50), np.linspace(1, 1.04, 150)]))


def test_noise_alone_is_seldom_taken_for_a_drift() -> None:
    generator = np.random.default_rng(1)
    series = 1 + 0.2 * generator.standard_normal((500, 200))
    assert np.mean([trial.never_steady(one) for one in series]) <= 0.02
    assert np.mean([trial.drift(one[50:]) > trial.DRIFT_MAX for one in series]) <= 0.07


QUICK = vs_plan(["epoll", "io_uring"], {"protocol": "echo"}).quick().comparisons[0].cells[0]
QUICK_WARMUP = QUICK.trial.warmup_ms // QUICK.trial.interval_ms
QUICK_WINDOW = QUICK.trial.duration_ms // QUICK.trial.interval_ms


def share_never_steady(shape: np.ndarray[Any, np.dtype[np.float64]], noise: float, memory: float) -> float:
    """How often a series of a quick run's length counts as never steady: `shape` times AR(1) noise."""
    generator = np.random.default_rng(3)
    shocks = generator.normal(0, noise * np.sqrt(1 - memory**2), (500, 200 + shape.size))
    weather = scipy.signal.lfilter([1], [1, -memory], shocks, axis=1)[:, 200:]
    return float(np.mean([trial.never_steady(shape * (1 + one), QUICK_WARMUP) for one in weather]))


@pytest.mark.parametrize("noise", [0.1, 0.15, 0.2])
@pytest.mark.parametrize("memory", [0.0, 0.3, 0.5, 0.7])
def test_a_quick_run_seldom_cries_wolf_over_noise_that_remembers(noise: float, memory: float) -> None:
    assert share_never_steady(np.ones(QUICK_WARMUP + QUICK_WINDOW), noise, memory) < 0.02


@pytest.mark.parametrize(("noise", "memory", "found"), [(0.03, 0.7, 0.95), (0.1, 0.0, 0.95), (0.1, 0.3, 0.9)])
def test_a_quick_run_finds_throughput_that_rises_by_half_over_most_of_its_window(
    noise: float, memory: float, found: float
) -> None:
    rising = round(0.8 * QUICK_WINDOW)
    parts = (np.ones(QUICK_WARMUP), np.linspace(1, 1.5, rising), np.full(QUICK_WINDOW - rising, 1.5))
    assert share_never_steady(np.concatenate(parts), noise, memory) >= found


def test_a_warm_up_that_is_a_little_short_does_not_void_a_trial() -> None:
    check_series(["not_steady"], np.concatenate([np.full(120, 0.92), np.ones(80)]))


def test_the_cut_of_mser_is_that_of_its_definition() -> None:
    generator = np.random.default_rng(2)
    for length in (10, 57, 200):
        series = generator.normal(100, 10, length) + np.where(np.arange(length) < length // 4, 30, 0)
        batches = series[: length // 5 * 5].reshape(-1, 5).mean(axis=1)
        m = batches.size
        cost = [((batches[d:] - batches[d:].mean()) ** 2).sum() / (m - d) ** 2 for d in range(m - 1)]
        assert trial.mser5(series) == (int(np.argmin(cost)), m)


def test_a_generator_of_several_threads_is_measured_by_the_processors_it_has() -> None:
    plan = vs_plan(["epoll", "io_uring"], {"protocol": "echo", "threads": 4})
    cell = plan.comparisons[0].cells[0]
    made = report(cell, generator_share=0.4)
    assert bottleneck.generator_share(cell, made) == pytest.approx(0.4)
    assert bottleneck.generator_share(settings.changed(cell, {"load.cpus": (0, 1)}), made) == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("server", "generator", "limit"),
    [
        (0.97, 0.50, "server"),
        (0.97, 0.95, "both"),
        (0.60, 0.95, "generator"),
        (0.60, 0.50, "latency"),
        (0.89, 0.81, "generator"),
        (0.90, 0.80, "server"),
    ],
)
def test_what_limited_a_trial_follows_from_the_processor_time_of_both_sides(
    server: float, generator: float, limit: str
) -> None:
    judged = result(PLAN, FIRST, server_share=server, generator_share=generator)
    assert bottleneck.bottleneck(PLAN.cell(FIRST), judged) == limit


@pytest.mark.parametrize(
    ("load", "server", "generator", "limit"),
    [
        # On separate CPUs the first three would be limited by neither, the generator and the server.
        ({}, 0.50, 0.49, "shared"),
        ({}, 0.10, 0.85, "shared"),
        ({}, 0.92, 0.07, "shared"),
        ({}, 0.30, 0.30, "latency"),
        ({"rate": "20k"}, 0.30, 0.30, "rate"),
        ({"threads": 2}, 0.50, 0.24, "shared"),
    ],
)
def test_on_a_shared_processor_the_limit_is_what_both_sides_used_together(
    load: dict[str, Any], server: float, generator: float, limit: str
) -> None:
    plan = vs_plan(["epoll", "io_uring"], {"protocol": "echo", "processors": "shared", **load})
    judged = result(plan, schedule(plan)[0], server_share=server, generator_share=generator)
    assert bottleneck.bottleneck(plan.cell(judged.trial), judged) == limit
    assert "generator_saturated" not in [warning.word for warning in judged.warnings]


def test_without_the_servers_account_a_busy_generator_is_the_limit() -> None:
    judged = result(PLAN, FIRST, generator_share=0.9).model_copy(update={"server": None})
    assert bottleneck.bottleneck(PLAN.cell(FIRST), judged) == "generator"


def test_a_report_survives_its_own_json() -> None:
    assert parse_load_event(GOOD.model_dump_json()) == GOOD


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "the load generator broke the contract: Invalid JSON"),
        ("[]", "the load generator broke the contract: "),
        ('{"schema":2,"event":"measured","role":"load","monotonic_ns":1}', "schema"),
        ('{"schema":1,"event":"measured","role":"load","monotonic_ns":1,"x":1}', "x"),
        ('{"schema":1,"event":"measured","role":"load","monotonic_ns":-1}', "monotonic_ns"),
        ('{"schema":1,"event":"boo"}', "boo"),
    ],
)
def test_a_broken_event_is_one_line_that_names_the_fault(line: str, message: str) -> None:
    with pytest.raises(ContractError) as caught:
        parse_load_event(line)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


EXAMPLES = Path(__file__).parent.parent / "schema" / "examples"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.json")), ids=lambda path: path.stem)
def test_the_engines_examples_are_understood(path: Path) -> None:
    document = json.loads(path.read_text())
    if "models" in document:
        parsed: Frozen = Description.model_validate(document)
    elif "event" in document:
        events = {"serve": parse_serve_event, "load": parse_load_event, "path": parse_path_event}
        parsed = events[document["role"]](path.read_bytes())
    else:
        specs: dict[str, type[Frozen]] = {"serve": ServeSpec, "load": LoadSpec, "path": PathSpec}
        parsed = specs[document["role"]].model_validate(document)
    # A missing field gets its default; a given one is unchanged.
    assert document == _only(parsed.model_dump(mode="json"), document)


def _only(whole: Any, given: Any) -> Any:
    """The part of a document with the keys of another, at every level."""
    if isinstance(given, dict):
        return {key: _only(whole[key], value) for key, value in given.items()}
    return [_only(*pair) for pair in zip(whole, given, strict=True)] if isinstance(given, list) else whole


@pytest.mark.parametrize("workload", [{"protocol": "echo", "framing": "crlf"}, {"protocol": "http", "host": "a:80"}])
def test_what_the_lab_writes_is_valid_for_the_engine(workload: dict[str, Any]) -> None:
    serve = {"model": "epoll", "workload": workload, "listen": ["127.0.0.1:0"]}
    load = {"workload": workload, "connect": ["127.0.0.1:1"], "connections": 1, "duration_ms": 100}
    for document, spec in (
        ("serve-spec", ServeSpec.model_validate(serve)),
        ("load-spec", LoadSpec.model_validate(load)),
    ):
        schema = json.loads((EXAMPLES.parent / f"{document}.json").read_text())
        jsonschema.validate(spec.model_dump(mode="json", exclude_none=True), schema)


def test_there_is_an_example_of_every_event() -> None:
    documents = [json.loads(path.read_text()) for path in EXAMPLES.glob("*.json")]
    assert {document.get("event") for document in documents} >= {"ready", "measuring", "measured", "report", "failed"}


def test_a_load_has_one_end() -> None:
    load = {"workload": {"protocol": "echo"}, "connect": ["127.0.0.1:1"], "connections": 1}
    ends: tuple[dict[str, int], ...] = ({}, {"duration_ms": 100, "requests": 100})
    for end in ends:
        with pytest.raises(ValidationError, match="either duration_ms or requests"):
            LoadSpec.model_validate(load | end)


@pytest.mark.parametrize(
    ("duration_ms", "steal", "foreign", "words"),
    [
        (200, 0.19, 0.19, []),
        (200, 0.21, 0.0, ["machine_busy"]),
        (200, 0.0, 0.21, ["machine_busy"]),
        (400, 0.0, 0.09, ["machine_noisy"]),
        (400, 0.0, 0.11, ["machine_busy"]),
    ],
)
def test_a_short_window_sees_too_few_ticks_for_a_fine_limit(
    duration_ms: int, steal: float, foreign: float, words: list[str]
) -> None:
    plan = vs_plan(["epoll", "io_uring"], {"protocol": "echo", "duration_ms": duration_ms, "interval_ms": 10})
    noise = MachineNoise(steal_share=steal, foreign_cpu_cores=foreign)
    words = ["machine_noisy"] if not words and max(steal, foreign) > 0.1 else words
    assert [warning.word for warning in result(plan, schedule(plan)[0], noise=noise).warnings] == words


@pytest.mark.parametrize(
    ("warmup_ms", "duration_ms", "words"), [(1_000, 1_000, []), (1_000, 900, ["steadiness_unseen"])]
)
def test_a_series_too_short_to_show_whether_it_settled_says_so(
    warmup_ms: int, duration_ms: int, words: list[str]
) -> None:
    plan = vs_plan(["epoll", "io_uring"], {"protocol": "echo", "warmup_ms": warmup_ms, "duration_ms": duration_ms})
    found = result(plan, schedule(plan)[0])
    assert [warning.word for warning in found.warnings] == words
    assert not found.discarded


def test_a_server_that_has_not_accepted_all_connections_is_not_measured_as_if_it_had() -> None:
    good = result(PLAN, schedule(PLAN)[0])
    assert good.server is not None
    for taken, words in ((None, []), (50, []), (49, ["connections_waiting"])):
        usage = good.server.model_copy(update={"connections_taken": taken})
        judged = trial.judged(PLAN.cell(good.trial), good.model_copy(update={"server": usage}))
        assert [warning.word for warning in judged.warnings] == words
        assert judged.discarded == bool(words)


@pytest.mark.parametrize(
    ("setting", "size", "word"),
    [
        ({"protocol": "line", "message_bytes": 12}, 12, None),
        ({"protocol": "line", "message_bytes": 12}, 11, "bytes_open"),
        ({"protocol": "rpc", "text_bytes": 11}, 40, None),
        ({"protocol": "rpc", "text_bytes": 11}, 10, "bytes_open"),
    ],
)
def test_bytes_must_fit_the_replies_of_every_protocol(setting: dict[str, Any], size: int, word: str | None) -> None:
    plan = vs_plan(["epoll", "io_uring"], setting)
    first = schedule(plan)[0]
    correct = result(plan, first).report.requests.correct  # type: ignore[union-attr]
    sizes = {"sent": correct * size, "received": correct * size}
    assert [warning.word for warning in result(plan, first, bytes=sizes).warnings] == ([word] if word else [])


@pytest.mark.parametrize(
    ("protocol", "holds", "words"),
    [("http", None, ["littles_law"]), ("http", 1, []), ("http", 16, ["littles_law"]), ("echo", 1, ["littles_law"])],
)
def test_a_server_of_one_connection_ends_it_with_its_http_reply(
    protocol: str, holds: int | None, words: list[str]
) -> None:
    plan = vs_plan(["blocking", "epoll"], {"protocol": protocol, "connections": 1})
    good = result(plan, schedule(plan)[0])
    assert good.report is not None
    ready = ServeReady(model="blocking", listen=("127.0.0.1:1",), pid=1, build="b", workers=1, holds=holds)
    # A third of the time goes into opening connections, which no request's latency includes.
    latency = good.report.latency_ns.model_copy(update={"mean": good.report.latency_ns.mean * 0.67})
    report = good.report.model_copy(update={"latency_ns": latency})
    judged = trial.judged(plan.cell(good.trial), good.model_copy(update={"ready": ready, "report": report}))
    assert [warning.word for warning in judged.warnings] == words


@pytest.mark.parametrize(
    ("protocol", "made", "errors", "words"),
    [
        ("http", 1_587, {}, []),
        ("http", 50, {}, ["connections_missing", "littles_law"]),
        ("http", 1_587, {"reset": 1}, ["connections_missing", "littles_law"]),
        ("echo", 1_587, {}, ["connections_missing", "littles_law"]),
    ],
)
def test_a_server_that_ends_its_connections_over_http_misses_none(
    protocol: str, made: int, errors: dict[str, int], words: list[str]
) -> None:
    """Like `python3 -m http.server` with HTTP/1.0: some connections are always being reopened."""
    plan = vs_plan(["cmd:./mine {port}", "epoll"], {"protocol": protocol, "connections": 50})
    good = result(plan, schedule(plan)[0], connections_open=48, connections_made=made, errors=errors)
    assert [warning.word for warning in good.warnings] == words
