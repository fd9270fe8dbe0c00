"""Shared by the benchmarks: the engine, the CPUs and their core-to-core latency, runs of our generator, and figures."""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from iolab.contract.literals import Driver
from iolab.contract.types import Workload
from iolab.judge.results import Results
from iolab.machine import proc
from iolab.measure import binary, registered
from iolab.measure.binary import EngineError
from iolab.measure.engine import Engine, core_to_core_ns
from iolab.measure.registered import Absent
from iolab.plan.experiment import parse_experiment
from iolab.plan.plan import Plan
from iolab.results.records import SAME_TOPOLOGY_MAX

ROOT = Path(__file__).resolve().parent.parent
# Allowed beyond the run time of a process: to connect, drain and print.
SLACK_S = 20.0
# Attempts at a run with both CPUs close together. After that, the round goes without it.
TRIES_MAX = 6
# Measurements before the first run, and the pause between them, to find the smallest latency.
LOOKS, LOOK_PAUSE_S = 30, 0.1

Made = TypeVar("Made")


class Skipped(Exception):
    """A contender cannot run here; the message says why."""


@dataclass(frozen=True)
class Server:
    """A running server: its first process, its port, and its kind and version."""

    pid: int
    port: int
    about: str


@dataclass
class Distance:
    """Core-to-core latency between the CPUs of server and generator; None if unknown or if both use the same CPU."""

    engine: Engine
    cpus: tuple[int, int]
    least_ns: float = math.inf

    def look(self) -> float | None:
        """Measures the latency now, in nanoseconds."""
        ns = None if self.cpus[0] == self.cpus[1] else core_to_core_ns(self.engine, *self.cpus)
        self.least_ns = min(self.least_ns, math.inf if ns is None else ns)
        return ns

    def look_often(self) -> None:
        """Measures for a few seconds, to find the latency of CPUs that are close together."""
        for _ in range(LOOKS):
            self.look()
            time.sleep(LOOK_PAUSE_S)

    def is_together(self, apart_ns: float | None) -> bool:
        """Whether this latency is about the smallest measured so far."""
        return apart_ns is None or apart_ns <= SAME_TOPOLOGY_MAX * self.least_ns

    def together(self, make: Callable[[], Made]) -> tuple[Made, float | None] | None:
        """Repeats a run until the CPUs are close together before and after it.

        Returns the result and the larger latency, or None after TRIES_MAX attempts.
        """
        for _ in range(TRIES_MAX):
            before_ns, made, after_ns = self.look(), make(), self.look()
            if self.is_together(before_ns) and self.is_together(after_ns):
                return made, None if before_ns is None or after_ns is None else max(before_ns, after_ns)
        return None

    def words(self) -> str:
        """The rule for repeating runs, for the head of the output."""
        if math.isinf(self.least_ns):
            return "The core-to-core latency is unknown on this machine, and may differ between runs."
        return (
            "Core-to-core latency before and after every run: at most "
            f"{SAME_TOPOLOGY_MAX * self.least_ns:.0f} ns for the round trip of a cache line "
            f"(smallest measured: {self.least_ns:.0f} ns)."
        )


def processors() -> tuple[int, int]:
    """One CPU for the server and one for the generator; the same one if there is no other."""
    cpus = sorted(os.sched_getaffinity(0))
    return cpus[0], cpus[-1]


def processor_words(cpus: tuple[int, int], generator: str = "generator") -> str:
    same = " (the only CPU: figures are not comparable)" if cpus[0] == cpus[1] else ""
    return f"server on CPU {cpus[0]}, {generator} on CPU {cpus[1]}{same}"


def load_spec(
    server: Server,
    workload: Workload,
    *,
    driver: Driver,
    connections: int,
    warmup_ms: int,
    seconds: int,
) -> dict[str, Any]:
    """The spec for our generator."""
    return {
        "schema": 1,
        "role": "load",
        "driver": driver,
        "workload": workload.model_dump(mode="json", exclude_none=True),
        "connect": [f"127.0.0.1:{server.port}"],
        "connections": connections,
        "warmup_ms": warmup_ms,
        "duration_ms": seconds * 1000,
    }


def run_with_edges(command: Sequence[str], spec: dict[str, Any], server: Server) -> tuple[dict[str, Any], int]:
    """Runs our generator; returns its report and the server's CPU time within the window, in nanoseconds."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(spec) + "\n")
        process.stdin.flush()
        cpu_ns = {}
        for line in process.stdout:
            event = json.loads(line)
            match event["event"]:
                case "measuring" | "measured" as edge:
                    cpu_ns[edge] = proc.usage(proc.look(server.pid)).cpu_ns
                case "report":
                    return event, cpu_ns["measured"] - cpu_ns["measuring"]
                case "failed":
                    raise Skipped(event["message"])
    raise Skipped("our generator exited without a report")


def completed(report: dict[str, Any]) -> int:
    """The number of correct replies; raises Skipped if any request failed."""
    requests = report["requests"]
    if requests["wrong"] + requests["failed"] > 0:
        raise Skipped(f"{requests['wrong']} wrong replies and {requests['failed']} failed requests")
    if requests["correct"] == 0:
        raise Skipped("no request was answered")
    return int(requests["correct"])


def spread(values: Sequence[float], digits: int, width: int = 0) -> str:
    """The median, padded to `width`, with the minimum and maximum in brackets."""
    return f"{statistics.median(values):{width}.{digits}f} [{min(values):.{digits}f}, {max(values):.{digits}f}]"


def at_least_one(text: str) -> int:
    """The argparse type of a count."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def find_engine() -> str | None:
    """The engine in IOLAB_ENGINE, or the one that make built."""
    with suppress(EngineError):
        return binary.find()
    return None


def raise_descriptor_limit() -> None:
    """A thousand connections need more descriptors than many shells allow."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def pinned(cpu: int, command: Sequence[str]) -> list[str]:
    """The command, pinned to one CPU if taskset is installed."""
    taskset = shutil.which("taskset")
    return [taskset, "--cpu-list", str(cpu), *command] if taskset else list(command)


def build(command: Sequence[str]) -> None:
    """Builds a program; does nothing if it is up to date."""
    try:
        registered.build(command)
    except Absent as why:
        raise Skipped(str(why)) from None


def last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no output")


# rpc calls can use extra CPU time, set to the nanosecond.
BESIDE_ITSELF = """
name = "beside-itself"
question = "Is the same build the same?"
blocks = {blocks}
contestants = ["epoll", {{ name = "mine", server = "epoll", workload = {{ work_ns = {work_ns} }} }}]
[fixed.workload]
protocol = "rpc"
[fixed.trial]
warmup_ms = 260
duration_ms = 800
"""


def beside_itself(blocks: int, work_ns: int = 0) -> Plan:
    """A server of ours twice, the second with `work_ns` more work in each request."""
    return parse_experiment(BESIDE_ITSELF.format(blocks=blocks, work_ns=work_ns).encode())


def work_ns(same: Results, share: float) -> int | None:
    """This share of a request's CPU time, from a run of equal servers; None if that run measured none."""
    level = same.verdicts[0].level("cpu_per_request", "mine")
    return None if level is None else round(share * level.median)
