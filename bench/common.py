"""What the benches share: the engine, the processors and how far apart they are, runs of our generator, and figures."""

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
# What a process may take beyond the time it was asked to run: to connect, to drain and to print.
SLACK_S = 20.0
# How often a run is made until both processors were together. One round then goes without it.
TRIES_MAX = 6
# Looks before the first run, and the pause between them, to have seen them together.
LOOKS, LOOK_PAUSE_S = 30, 0.1

Made = TypeVar("Made")


class Skipped(Exception):
    """A contender cannot run here; the text says why."""


@dataclass(frozen=True)
class Server:
    """A running server: its first process, the port where it listens, and what it is, with its version."""

    pid: int
    port: int
    about: str


@dataclass
class Distance:
    """How far apart the processors of server and generator are; None where that is unknown, as of one and the same."""

    engine: Engine
    cpus: tuple[int, int]
    least_ns: float = math.inf

    def look(self) -> float | None:
        """Measures it now, in nanoseconds."""
        ns = None if self.cpus[0] == self.cpus[1] else core_to_core_ns(self.engine, *self.cpus)
        self.least_ns = min(self.least_ns, math.inf if ns is None else ns)
        return ns

    def look_often(self) -> None:
        """Measures it over a few seconds, so that the least is that of processors that are together."""
        for _ in range(LOOKS):
            self.look()
            time.sleep(LOOK_PAUSE_S)

    def is_together(self, apart_ns: float | None) -> bool:
        """Whether so far is as near as they come, as far as was seen."""
        return apart_ns is None or apart_ns <= SAME_TOPOLOGY_MAX * self.least_ns

    def together(self, make: Callable[[], Made]) -> tuple[Made, float | None] | None:
        """Makes a run, and makes it again while it had the processors apart, and how far they were; None if it always
        had them apart.
        """
        for _ in range(TRIES_MAX):
            before_ns, made, after_ns = self.look(), make(), self.look()
            if self.is_together(before_ns) and self.is_together(after_ns):
                return made, None if before_ns is None or after_ns is None else max(before_ns, after_ns)
        return None

    def words(self) -> str:
        """The rule for runs, for the head of the output."""
        if math.isinf(self.least_ns):
            return "How far apart the processors are is not known here, and may differ from run to run."
        return (
            "Every run had both processors together, before it and after: at most "
            f"{SAME_TOPOLOGY_MAX * self.least_ns:.0f} ns for the round trip of a cache line "
            f"({self.least_ns:.0f} is the least seen)."
        )


def processors() -> tuple[int, int]:
    """One for the server and one for the generator; the same where there is no other."""
    cpus = sorted(os.sched_getaffinity(0))
    return cpus[0], cpus[-1]


def processor_words(cpus: tuple[int, int], generator: str = "generator") -> str:
    same = " (the same, for want of another: not comparable)" if cpus[0] == cpus[1] else ""
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
    """What our generator is to do."""
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
    """Runs our generator; returns its report, and what the server has used between the edges of its window."""
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
    raise Skipped("our generator ended without a report")


def completed(report: dict[str, Any]) -> int:
    """The requests of a report, unless it is not worth a figure."""
    requests = report["requests"]
    if requests["wrong"] + requests["failed"] > 0:
        raise Skipped(f"{requests['wrong']} replies were wrong and {requests['failed']} requests failed")
    if requests["correct"] == 0:
        raise Skipped("no request was answered")
    return int(requests["correct"])


def spread(values: Sequence[float], digits: int, width: int = 0) -> str:
    """The median of several rounds, at least so wide, and the least and the most."""
    return f"{statistics.median(values):{width}.{digits}f} [{min(values):.{digits}f}, {max(values):.{digits}f}]"


def at_least_one(text: str) -> int:
    """The type of a flag that counts something."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("it must be 1 or more")
    return number


def find_engine() -> str | None:
    """The engine that IOLAB_ENGINE names, or the one that make has built."""
    with suppress(EngineError):
        return binary.find()
    return None


def raise_descriptor_limit() -> None:
    """A thousand connections need more descriptors than many shells give."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def pinned(cpu: int, command: Sequence[str]) -> list[str]:
    """The command on one processor, where that can be done."""
    taskset = shutil.which("taskset")
    return [taskset, "--cpu-list", str(cpu), *command] if taskset else list(command)


def build(command: Sequence[str]) -> None:
    """Builds a program; nothing is done where nothing has changed."""
    try:
        registered.build(command)
    except Absent as why:
        raise Skipped(str(why)) from None


def last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "it said nothing")


# The calls of rpc can take more processor time, which is set to the nanosecond.
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
    """A server of ours beside itself, the second of which does so much more work for each request."""
    return parse_experiment(BESIDE_ITSELF.format(blocks=blocks, work_ns=work_ns).encode())


def work_ns(same: Results, share: float) -> int | None:
    """So much of a request's CPU time as more work, from a run beside itself; None where that measured nothing."""
    level = same.verdicts[0].level("cpu_per_request", "mine")
    return None if level is None else round(share * level.median)
