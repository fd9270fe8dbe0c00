"""Results for tests: trials whose counts agree, with changes to the part under test."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from iolab.contract.types import Report
from iolab.judge.trial import judged
from iolab.machine.cpus import Cpu
from iolab.measure import placement
from iolab.plan.plan import Plan, Trial
from iolab.plan.schedule import schedule
from iolab.plan.settings import Cell
from iolab.results.records import MachineNoise, Result, ServerUsage

BEGIN_NS = 10_000_000_000


def on_two_processors(plan: Plan) -> Plan:
    """The plan as placed on a machine with two CPUs: the server on 0, the generator on 1."""
    return placement.placed(plan, [Cpu(number, number, 0, 0) for number in range(2)])[0]


def report(cell: Cell, *, rate_per_s: float = 100_000.0, generator_share: float = 0.5, **changes: Any) -> Report:
    """A report of `rate_per_s` with consistent counts that satisfies Little's law; `changes` replace whole fields."""
    window_ns = cell.trial.duration_ms * 1_000_000
    correct = round(rate_per_s * window_ns / 1e9)
    in_flight = (cell.load.active or cell.load.connections) * cell.load.pipeline
    mean_ns = in_flight * window_ns / max(correct, 1)
    size = getattr(cell.workload, "message_bytes", 200)
    slices = (cell.trial.warmup_ms + cell.trial.duration_ms) // cell.trial.interval_ms
    each = correct * cell.trial.interval_ms // cell.trial.duration_ms
    fields: dict[str, Any] = {
        "build": "0123456789abcdef",
        "driver": cell.load.driver,
        "workload": cell.workload,
        "connect": ("127.0.0.1:40001",),
        "connections": cell.load.connections,
        "connections_open": cell.load.connections,
        "threads": cell.load.threads,
        "cpus": cell.load.cpus,
        "interrupted": False,
        "begin_ns": BEGIN_NS,
        "end_ns": BEGIN_NS + window_ns,
        "requests": {
            "sent": correct,
            "correct": correct,
            "wrong": 0,
            "failed": 0,
            "in_flight_begin": in_flight,
            "in_flight_end": in_flight,
        },
        "errors": {},
        "first_error": None,
        "bytes": {"sent": correct * size, "received": correct * size},
        "rate_per_s": correct / window_ns * 1e9,
        "latency_ns": {
            "min": 1_000,
            "mean": mean_ns,
            "p50": round(mean_ns),
            "p90": round(mean_ns * 1.5),
            "p99": round(mean_ns * 2),
            "p99_9": round(mean_ns * 3),
            "p99_99": round(mean_ns * 4),
            "max": round(mean_ns * 5),
            "stdev": mean_ns / 4,
            "histogram": "",
        },
        "intervals": {
            "begin_ns": BEGIN_NS - cell.trial.warmup_ms * 1_000_000,
            "length_ns": cell.trial.interval_ms * 1_000_000,
            "completed": (each,) * slices,
        },
        "generator": {
            "cpu_ns": round(generator_share * window_ns * cell.load.threads),
            "wall_ns": window_ns * cell.load.threads,
            "run_delay_ns": 0,
            "turn_ns_max": 900_000,
            "turns": 20_000,
            "rss_bytes_max": 3_000_000,
        },
    }
    return Report.model_validate(fields | changes)


def result(
    plan: Plan,
    trial: Trial,
    *,
    rate_per_s: float = 100_000.0,
    server_share: float = 0.97,
    generator_share: float = 0.5,
    noise: MachineNoise | None = None,
    **changes: Any,
) -> Result:
    """A finished trial, judged by the rules; `changes` replace fields of the report."""
    cell = plan.cell(trial)
    window_ns = cell.trial.duration_ms * 1_000_000
    usage = ServerUsage(
        cpu_ns=round(server_share * window_ns),
        wall_ns=window_ns,
        user_ns=round(server_share * window_ns * 0.25),
        system_ns=round(server_share * window_ns * 0.75),
        rss_bytes_max=4_200_000,
        rss_bytes_median=4_000_000,
        pss_bytes=3_000_000,
        polling_ns=0,
        context_switches_voluntary=10,
        context_switches_involuntary=20,
        threads=1,
        processes=1,
    )
    made = Result(
        trial=trial,
        started="2026-01-01T00:00:00+00:00",
        report=report(cell, rate_per_s=rate_per_s, generator_share=generator_share, **changes),
        server=usage,
        noise=noise or MachineNoise(steal_share=0.0, foreign_cpu_cores=0.01),
    )
    return judged(cell, made)


def results(
    plan: Plan, rate_of: Callable[[Trial], float], trials: Iterable[Trial] | None = None, **changes: Any
) -> list[Result]:
    """A whole run; `rate_of` gives the throughput of each trial."""
    return [
        result(plan, trial, rate_per_s=rate_of(trial), **changes)
        for trial in (schedule(plan) if trials is None else trials)
    ]
