#!/usr/bin/env python3
"""Compares the reports of load generators with servers of exactly known latency.

A server (bench/truth) holds each request for a time chosen in advance, and records when the request arrived and when
its reply was written. The p50, p90, p99 and p99.9 of a generator are right within 2 % or 0.3 ms of the true ones,
whichever is more. Wrong bodies, statuses and resets are counted on both sides. docs/ground-truth.md has the formulas.

In a closed loop, the true latency is the time from arrival to reply. In an open loop, it starts when the request was
due, whether or not a connection was free. For our generator it comes from the server's record and the schedule; for
generators with a schedule of their own, the requested schedule is simulated with the server's record. The first figure
is what a machine without any lateness would give.

A run that is not right is repeated up to twice, for all generators alike, and is right if two of three are: a
disturbance of the machine rarely repeats, a mistake of the generator does. Two kinds of runs are counted separately:
those that our generator itself calls not sound, and those that the machine alone explains, by the server's record or by
a process that sleeps and wakes on the generator's CPU.
The exit code is 1 if our generator reported anything wrong, or if too many of its runs are of those kinds.
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from common import ROOT, SLACK_S, Skipped, build, find_engine, last_line, pinned
from numpy.typing import NDArray

# The tolerance of a figure: the larger of these.
TOLERANCE_SHARE = 0.02
TOLERANCE_NS = 0.3e6

QUANTILES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999))

# The profiles of the server.
DELAY_NS = 1e6
# In a closed loop, many connections would send more than one thread can answer in time, and the server would record
# arrivals late.
DELAY_OF_MANY_NS = 10e6
SLOW_NS = 100e6
SLOW_SHARE = 0.01
SERVICE_NS = 0.4e6
# The share of a stall in its period. The period is the length of the run: each run has one stall, in its middle.
STALL_SHARE = 0.1

CONNECTIONS = (1, 8, 64)
RATES = (200, 2000)
# With faults, counts are compared and not times: this many requests, at this rate in an open loop.
FAULT_REQUESTS = 2000
FAULT_RATE = 1000
# With this many connections no request of the queue waits for one, so arrivals may be random.
CONNECTIONS_ENOUGH = 64

# The share of the run time if the rate exceeds what the connections can do: only the backlog would grow.
BEYOND_PART = 0.5

STARVE_FIRST_S = 1.0
STARVE_EVERY_S = 2.0
STARVE_S = 0.4

# Attempts at a run that is not right, and how many of them must be right.
TRIES_MAX = 3
TRIES_RIGHT = 2
# After a wrong run, a process sleeps for WAKE_S at a time on the generator's CPU, for WATCH_S in all. A generator that
# sleeps until replies arrive is late at least as often, within chance.
WATCH_S = 3.0
WAKE_S = 1e-3
LATE_FACTOR = 2.0
# If a larger share of runs is not sound or disturbed, the machine is too busy for a conclusion.
VOID_SHARE_MAX = 0.2

Floats = NDArray[np.float64]
Loop = Literal["open", "closed"]


@dataclass(frozen=True)
class Cell:
    """One setting: the server's profile and the load."""

    case: str
    loop: Loop
    connections: int
    rate_per_s: int | None
    seconds: float

    @property
    def name(self) -> str:
        pace = f"{self.rate_per_s}/s" if self.rate_per_s else "closed"
        return f"{self.case} {self.connections} {pace}"

    @property
    def faulty(self) -> bool:
        """Whether counts are compared, over a fixed number of requests."""
        return self.case in FAULTS

    @property
    def beyond(self) -> bool:
        """Whether the rate exceeds what the connections, or the single server of a queue, can do."""
        if self.rate_per_s is None or self.case not in KEPT_NS_MEAN:
            return False
        servers = 1 if self.case == "queue" else self.connections
        return self.rate_per_s * KEPT_NS_MEAN[self.case] / 1e9 >= servers

    @property
    def hides_stalls(self) -> bool:
        """Whether the wait of users cannot be measured: a closed loop sends nothing during a stall."""
        return self.case == "stall" and self.loop == "closed"

    @property
    def numbered(self) -> bool:
        """Whether the run ends after a number of requests. Then none is cut off, and all are in the figures and in the
        truth. Runs with a stall or a stopped generator end after a time."""
        return self.faulty or (self.loop == "closed" and self.case not in ("stall", "starve"))

    @property
    def requests(self) -> int:
        """How many requests: fixed with faults, the schedule's in an open loop, what fits the time in a closed one."""
        if self.faulty:
            return FAULT_REQUESTS
        if self.rate_per_s is not None:
            return round(self.rate_per_s * self.seconds)
        mixed_ns = self.delay_ns + SLOW_SHARE * (SLOW_NS - self.delay_ns)
        served_ns = {"mix": mixed_ns / self.connections, "queue": SERVICE_NS}
        return round(self.seconds * 1e9 / served_ns.get(self.case, self.delay_ns / self.connections))

    @property
    def random(self) -> bool:
        """Whether our generator sends at random times: for a queue that is busy more than half of the time, where
        evenly spaced requests would never wait."""
        busy = self.case == "queue" and (self.rate_per_s or 0) * SERVICE_NS / 1e9 > 0.5
        return busy and self.connections >= CONNECTIONS_ENOUGH

    @property
    def delay_ns(self) -> float:
        """The shortest time that a request is held, except in a queue."""
        many = self.loop == "closed" and self.connections >= CONNECTIONS_ENOUGH
        return DELAY_OF_MANY_NS if many else DELAY_NS

    @property
    def profile(self) -> list[str]:
        """The arguments of the server."""
        delay = ["--delay", f"{self.delay_ns / 1e6}ms"]
        match self.case:
            case "mix":
                return ["mix", *delay, "--slow", f"{SLOW_NS / 1e6}ms", "--slow-share", f"{SLOW_SHARE}"]
            case "stall":
                return ["stall", *delay, "--stall", f"{self.seconds * STALL_SHARE}s", "--period", f"{self.seconds}s"]
            case "queue":
                return ["queue", "--service", f"{SERVICE_NS / 1e6}ms"]
            case "starve":
                return ["fixed", *delay]
            case _:
                return [self.case, *delay]


FAULTS = ("wrong", "fail", "reset")
# The mean time that a request is held, for the profiles with a highest possible rate.
KEPT_NS_MEAN = {
    "fixed": DELAY_NS,
    "mix": DELAY_NS + SLOW_SHARE * (SLOW_NS - DELAY_NS),
    "stall": DELAY_NS / (1 - STALL_SHARE),
    "queue": SERVICE_NS,
}


def cells(seconds: float) -> list[Cell]:
    """All settings."""
    found = []
    for case in KEPT_NS_MEAN:
        for connections in CONNECTIONS:
            for rate in RATES:
                cell = Cell(case, "open", connections, rate, seconds)
                part = BEYOND_PART if cell.beyond else 1
                found.append(Cell(case, "open", connections, rate, seconds * part))
            found.append(Cell(case, "closed", connections, None, seconds))
    for case in FAULTS:
        for connections in CONNECTIONS:
            found.append(Cell(case, "closed", connections, None, 0))
        found.append(Cell(case, "open", CONNECTIONS[-1], FAULT_RATE, 0))
    starved_s = max(seconds / 2, STARVE_FIRST_S + 2 * STARVE_EVERY_S)
    found.append(Cell("starve", "open", CONNECTIONS[1], RATES[0], starved_s))
    found.append(Cell("starve", "closed", CONNECTIONS[1], None, starved_s))
    return found


# --- Truth


@dataclass(frozen=True)
class Truth:
    """The server's summary, and for each answered request its arrival, when its reply was due, and when the reply was
    written."""

    summary: dict[str, Any]
    arrival_ns: Floats
    due_ns: Floats
    reply_ns: Floats


def read_truth(summary: dict[str, Any], path: Path) -> Truth:
    rows: NDArray[np.uint64] = np.fromfile(path, dtype="<u8").reshape(-1, 4)
    rows = rows[rows[:, 2] > 0]
    # Relative to the first request: a float then holds nanoseconds exactly for months.
    origin = rows[:1, 0]
    arrival, due, reply = ((rows[:, column] - origin).astype(float) for column in range(3))
    return Truth(summary, arrival, due, reply)


def true_ns(cell: Cell, truth: Truth, keeps_schedule: bool) -> Floats:
    """The true latency of each request."""
    # The length of a queue depends on the spacing of requests, which is known only for even arrivals.
    queued_anyhow = cell.case == "queue" and not keeps_schedule
    if cell.loop == "closed" or cell.random or queued_anyhow:
        return truth.reply_ns - truth.arrival_ns
    assert cell.rate_per_s is not None
    if not keeps_schedule:
        return simulated_ns(cell, truth, late=True)
    # Requests arrive in the order of the schedule; the one with the least lag gives its start.
    planned = np.arange(len(truth.arrival_ns)) * (1e9 / cell.rate_per_s)
    begin_ns = float((truth.arrival_ns - planned).min())
    return truth.reply_ns - planned - begin_ns


def simulated_ns(cell: Cell, truth: Truth, late: bool) -> Floats:
    """The latency of each request if it arrives when it is due, with the server's recorded lateness or without.

    Requests wait in one line. The first is sent when it is due and a connection is free, and occupies that connection
    until the reply. In a closed loop all are due at once, and their time counts from the send.
    """
    count = len(truth.arrival_ns) if cell.rate_per_s is None else cell.requests
    planned = np.zeros(count) if cell.rate_per_s is None else np.arange(count) * (1e9 / cell.rate_per_s)
    reply_after = profile(cell, truth)
    lateness = np.resize(truth.reply_ns - truth.due_ns, count) if late else np.zeros(count)
    free = [0.0] * cell.connections
    started, replied = np.zeros(count), np.zeros(count)
    for number in range(count):
        started[number] = max(planned[number], free[0])
        replied[number] = reply_after(number, started[number]) + lateness[number]
        heapq.heapreplace(free, float(replied[number]))
    took_ns = replied - (started if cell.loop == "closed" else planned)
    # The end of the run cuts off the backlog.
    return took_ns[replied <= cell.seconds * 1e9] if cell.beyond else took_ns


def profile(cell: Cell, truth: Truth) -> Callable[[int, float], float]:
    """A function from a request's number and arrival to its due reply, as bench/truth computes it."""
    match cell.case:
        case "mix":
            # The server draws the slow ones.
            slow = truth.due_ns - truth.arrival_ns > (cell.delay_ns + SLOW_NS) / 2
            return lambda number, came_ns: came_ns + (SLOW_NS if slow[number % len(slow)] else cell.delay_ns)
        case "stall":
            return lambda _, came_ns: came_ns + cell.delay_ns + stalled_ns(came_ns, cell.seconds * 1e9)
        case "queue":
            free_ns = 0.0

            def in_turn(_: int, came_ns: float) -> float:
                nonlocal free_ns
                free_ns = max(free_ns, came_ns) + SERVICE_NS
                return free_ns

            return in_turn
        case _:
            return lambda _, came_ns: came_ns + cell.delay_ns


def stalled_ns(came_ns: float, period_ns: float) -> float:
    """The remaining time of a stall, or all of a stall that begins before the request's reply is due."""
    phase_ns, stall_ns = (came_ns + period_ns / 2) % period_ns, STALL_SHARE * period_ns
    if phase_ns < stall_ns:
        return stall_ns - phase_ns
    return stall_ns if phase_ns + DELAY_NS > period_ns else 0.0


def quantile(sorted_ns: Floats, share: float, shift: int = 0) -> float:
    """The smallest value that this share does not exceed, or the one `shift` ranks away."""
    rank = int(np.ceil(len(sorted_ns) * share)) + shift
    return float(sorted_ns[min(max(rank, 1), len(sorted_ns)) - 1])


def is_right(figure_ns: float, sorted_ns: Floats, share: float, ranks: int) -> bool:
    """Whether a figure is near the quantile or the quantiles up to `ranks` away, because the generator may not have
    counted so many requests."""
    low, high = quantile(sorted_ns, share, -ranks), quantile(sorted_ns, share, ranks)
    return low - tolerance_ns(low) <= figure_ns <= high + tolerance_ns(high)


def tolerance_ns(value_ns: float) -> float:
    return max(TOLERANCE_SHARE * value_ns, TOLERANCE_NS)


# --- Generators


@dataclass(frozen=True, kw_only=True)
class Said:
    """The report of a generator; figures that it does not report are absent."""

    quantiles_ns: dict[str, float] = field(default_factory=dict)
    # Latency from the actual send, if the report has both.
    service_ns: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    # Why the generator calls its figures not sound, in its own words.
    unsound: str | None = None
    # The generator or the machine limited the run.
    own_doing: bool = False
    # The report says that fewer requests were sent than scheduled, or that the loop does not show stalls.
    beyond: bool = False
    shows_no_stalls: bool = False


@dataclass(frozen=True)
class Generator:
    """A load generator: its program, its flags for a cell (None if it cannot run that), and a parser of its output."""

    name: str
    program: str
    flags: Callable[[Cell, str, Path], list[str] | None]
    read: Callable[[int, str, Path], Said]
    ours: bool = False


def ours(driver: str) -> Generator:
    def flags(cell: Cell, url: str, _: Path) -> list[str]:
        words = ["load", url, "-c", str(cell.connections), "--driver", driver, "--strict"]
        # Our generator says in its text output that a stall cannot be measured; everything else is read from JSON.
        words += [] if cell.hides_stalls else ["--json"]
        if cell.rate_per_s is not None:
            words += ["--rate", str(cell.rate_per_s), "--arrivals", "poisson" if cell.random else "even"]
        # A run with a growing backlog has no last request.
        if cell.numbered or (cell.loop == "open" and not cell.beyond and cell.case != "starve"):
            return [*words, "-n", str(cell.requests)]
        return [*words, "-z", f"{cell.seconds}s", "--warmup", "0s"]

    return Generator(f"iolab {driver}", "iolab-engine", flags, read_ours, ours=True)


def read_ours(code: int, output: str, _: Path) -> Said:
    if not output.startswith("{"):
        return Said(shows_no_stalls="does not show stalls" in output)
    report = json.loads(output)
    latency, errors, schedule = report["latency_ns"], report["errors"], report["schedule"]
    if (code == 1) != bool(report["unsound"]):
        raise ValueError(f"exit code {code} with {report['unsound']}")
    service = report["views"]["service_ns"] if report["views"] else latency
    return Said(
        quantiles_ns={name: latency[name.replace(".", "_")] for name, _ in QUANTILES},
        service_ns={name: service[name.replace(".", "_")] for name, _ in QUANTILES},
        counts={
            "right": report["requests"]["correct"],
            "wrong": errors["wrong"],
            "unavailable": report["statuses"].get("503", 0),
            "reset": errors["reset"],
        },
        unsound="; ".join(report["unsound"]) or None,
        own_doing=report["bound"]["by"] == "generator",
        beyond=schedule is not None
        and schedule["unsent_end"] > 0
        and report["rate_per_s"] < 0.99 * schedule["asked_per_s"],
    )


def ab_flags(cell: Cell, url: str, folder: Path) -> list[str] | None:
    if cell.loop == "open":
        return None
    # The order matters: -t would set -n to 50,000.
    limit = ["-n", str(cell.requests)] if cell.numbered else ["-t", whole(cell.seconds), "-n", "10000000"]
    return ["-q", "-r", "-k", "-c", str(cell.connections), *limit, "-e", str(folder / "ab.csv"), url]


def read_ab(_: int, output: str, folder: Path) -> Said:
    percentiles = dict(line.split(",") for line in (folder / "ab.csv").read_text().splitlines()[1:])
    kinds = re.search(r"Connect: (\d+), Receive: (\d+), Length: (\d+), Exceptions: (\d+)", output)
    connect, receive, length, _exceptions = map(int, kinds.groups()) if kinds else (0, 0, 0, 0)
    bad = number(r"Non-2xx responses:\s+(\d+)", output)
    return Said(
        quantiles_ns={
            name: float(percentiles[word]) * 1e6 for name, word in (("p50", "50"), ("p90", "90"), ("p99", "99"))
        },
        # A 503 without a body also has another length.
        counts={"wrong": max(length - bad, 0), "unavailable": bad, "reset": connect + receive},
    )


def hey_flags(cell: Cell, url: str, _: Path) -> list[str]:
    limit = ["-n", str(cell.requests)] if cell.numbered else ["-z", f"{cell.seconds}s"]
    # -q is the rate of each connection.
    pace = ["-q", f"{cell.rate_per_s / cell.connections}"] if cell.rate_per_s else []
    return [*limit, *pace, "-c", str(cell.connections), "-cpus", "1", url]


def read_hey(_: int, output: str, _folder: Path) -> Said:
    found = dict(re.findall(r"(50|90|99)%+ in ([\d.]+) secs", output))
    errors = output.partition("Error distribution")[2]
    return Said(
        quantiles_ns={f"p{word}": float(value) * 1e9 for word, value in found.items()},
        counts={
            "wrong": 0,
            "unavailable": number(r"\[503\]\s+(\d+) responses", output),
            "reset": sum(map(int, re.findall(r"\[(\d+)\].*(?:reset|EOF)", errors))),
        },
    )


def wrk_flags(cell: Cell, url: str, _: Path) -> list[str] | None:
    if cell.loop == "open":
        return None
    seconds = 2.0 if cell.faulty else cell.seconds
    return ["-t1", f"-c{cell.connections}", f"-d{whole(seconds)}s", "--latency", url]


def read_wrk(_: int, output: str, _folder: Path) -> Said:
    units = {"us": 1e3, "ms": 1e6, "s": 1e9}
    found = re.findall(r"^\s+(50|90|99)%\s+([\d.]+)(us|ms|s)$", output, re.MULTILINE)
    resets = re.search(r"Socket errors: connect \d+, read (\d+)", output)
    return Said(
        quantiles_ns={f"p{word}": float(value) * units[unit] for word, value, unit in found},
        counts={
            "wrong": 0,
            "unavailable": number(r"Non-2xx or 3xx responses: (\d+)", output),
            "reset": int(resets[1]) if resets else 0,
        },
    )


def oha_flags(*corrected: str) -> Callable[[Cell, str, Path], list[str] | None]:
    def flags(cell: Cell, url: str, _: Path) -> list[str] | None:
        if corrected and cell.loop == "closed":
            return None
        limit = ["-n", str(cell.requests)] if cell.numbered else ["-z", f"{cell.seconds}s", "-w"]
        pace = ["-q", str(cell.rate_per_s), *corrected] if cell.rate_per_s else []
        words = ["--worker-threads", "1", "--no-tui", "--output-format", "json"]
        return [*words, *limit, *pace, "-c", str(cell.connections), url]

    return flags


def read_oha(_: int, output: str, _folder: Path) -> Said:
    document = json.loads(output)
    resets = [count for text, count in document["errorDistribution"].items() if "deadline" not in text]
    percentiles = document["latencyPercentiles"]
    return Said(
        quantiles_ns={name: percentiles[name] * 1e9 for name, _ in QUANTILES if percentiles[name] is not None},
        counts={"wrong": 0, "unavailable": document["statusCodeDistribution"].get("503", 0), "reset": sum(resets)},
    )


def whole(seconds: float) -> str:
    """For generators that take only whole seconds."""
    return str(max(1, round(seconds)))


def number(pattern: str, output: str) -> int:
    found = re.search(pattern, output)
    return int(found[1]) if found else 0


OTHERS = (
    Generator("ab", "ab", ab_flags, read_ab),
    Generator("hey", "hey", hey_flags, read_hey),
    Generator("wrk", "wrk", wrk_flags, read_wrk),
    Generator("oha", "oha", oha_flags(), read_oha),
    Generator("oha --latency-correction", "oha", oha_flags("--latency-correction"), read_oha),
)


# --- Runs


@dataclass(frozen=True)
class Bench:
    """Shared by all runs."""

    engine: str | None
    server: str
    server_cpu: int
    generator_cpu: int


@contextlib.contextmanager
def truth_server(cell: Cell, bench: Bench, record: Path) -> Iterator[subprocess.Popen[str]]:
    """Starts a server that exits when its standard input closes."""
    command = before_others(bench.server_cpu, [bench.server, *cell.profile, "--record", str(record)])
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def run(generator: Generator, cell: Cell, bench: Bench) -> tuple[Said, Truth] | None:
    """Runs a generator against a new server; None if it cannot run the cell."""
    program = bench.engine if generator.ours else shutil.which(generator.program)
    assert program is not None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with truth_server(cell, bench, folder / "record") as server:
            assert server.stdout is not None
            url = f"http://{json.loads(server.stdout.readline())['listen']}/"
            flags = generator.flags(cell, url, folder)
            if flags is None:
                return None
            code, output, errors = run_to_end(before_others(bench.generator_cpu, [program, *flags]), cell)
            lines, _ = server.communicate(timeout=SLACK_S)
        try:
            said = generator.read(code, output, folder)
        except (ValueError, KeyError, IndexError, OSError) as error:
            raise Skipped(f"unreadable output ({error}): {last_line(errors + output)}") from error
        truth = read_truth(json.loads(lines), folder / "record")
        if len(truth.arrival_ns) == 0:
            raise Skipped(f"no request was answered: {last_line(errors + output)}")
        return said, truth


def late_share(cpu: int) -> float:
    """How often a sleeping process on this CPU wakes later than the tolerance: the lateness of the machine."""
    watch = "import sys, time; wake_s, end = float(sys.argv[1]), time.monotonic() + float(sys.argv[2])\n"
    watch += "while time.monotonic() < end:\n"
    watch += "  due = time.monotonic() + wake_s; time.sleep(wake_s); print(time.monotonic() - due)"
    command = before_others(cpu, [sys.executable, "-c", watch, str(WAKE_S), str(WATCH_S)])
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    late_s = [float(line) for line in ran.stdout.split()]
    return sum(each * 1e9 > TOLERANCE_NS for each in late_s) / len(late_s)


def before_others(cpu: int, command: list[str]) -> list[str]:
    """The command on one CPU and, where allowed, with real-time priority: the bench tests whether figures are true, not
    how other programs disturb them."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError:
        return pinned(cpu, command)
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    return pinned(cpu, ["chrt", "--fifo", "1", *command])


def run_to_end(command: list[str], cell: Cell) -> tuple[int, str, str]:
    """Runs a generator; in the case `starve`, stops and continues it repeatedly."""
    # Files take all the output; an unread pipe would fill.
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors)
        # With a backlog, the requests take longer than the schedule.
        end = time.monotonic() + 3 * cell.seconds + SLACK_S
        try:
            wait_s = STARVE_FIRST_S if cell.case == "starve" else end - time.monotonic()
            while True:
                try:
                    process.wait(timeout=wait_s)
                    break
                except subprocess.TimeoutExpired:
                    if time.monotonic() > end:
                        raise Skipped(f"still running after {3 * cell.seconds + SLACK_S:.0f} s") from None
                process.send_signal(signal.SIGSTOP)
                time.sleep(STARVE_S)
                process.send_signal(signal.SIGCONT)
                wait_s = STARVE_EVERY_S - STARVE_S
        finally:
            process.kill()
            process.wait()
        output.seek(0)
        errors.seek(0)
        return process.returncode, output.read(), errors.read()


# --- Verdicts

# A figure is disturbed if its error is at most the lateness of the server at that quantile: the path from the reply to
# the generator, which no record covers, may be as late. So is a figure at a quantile so far out that a sleeping process
# on the generator's CPU is late as often.
Verdict = Literal["right", "WRONG", "not sound", "disturbed"]


@dataclass(frozen=True)
class Row:
    """The result of a run: its figures as text, and the verdict."""

    verdict: Verdict
    figures: list[str]
    note: str


def judge(generator: Generator, cell: Cell, said: Said, truth: Truth, late: float = 0.0) -> Row:
    """Compares a report with the truth; `late` is how often a sleeping process wakes late on the generator's CPU."""
    if cell.faulty:
        return judge_counts(generator, cell, said, truth)
    if cell.case == "starve":
        return judge_starved(cell, said, truth)
    if cell.hides_stalls:
        return judge_closed_stall(said, truth)
    sorted_ns = np.sort(true_ns(cell, truth, generator.ours))
    ideal_ns = np.sort(truth.due_ns - truth.arrival_ns if cell.random else simulated_ns(cell, truth, late=False))
    # The server does not know when random requests were due, only how long it held them.
    figures_ns = said.service_ns if cell.random and generator.ours else said.quantiles_ns
    # Requests cut off by the end of the run are only in the server's record: in a backlog, and with wrk, which always
    # runs for a time.
    is_cut_off = cell.beyond or (cell.loop == "closed" and generator.program == "wrk")
    ranks = cell.connections + 1 if is_cut_off else 1
    figures, verdicts = [], set[Verdict]()
    for name, share in QUANTILES:
        ideal, true, figure_ns = quantile(ideal_ns, share), quantile(sorted_ns, share), figures_ns.get(name)
        words = f"{ms(ideal)} · {ms(true)} · {ms(figure_ns)}"
        if figure_ns is not None and not is_right(figure_ns, sorted_ns, share, ranks):
            is_wakened_late = figure_ns > true and 1 - share <= LATE_FACTOR * late
            excused = not cell.beyond and (is_wakened_late or abs(figure_ns - true) <= abs(true - ideal))
            verdicts.add("disturbed" if excused else "WRONG")
            words += " disturbed" if excused else " WRONG"
        figures.append(words)
    note = f"server late {ms(truth.summary['late_ns']['p99'])}"
    if said.unsound and (said.own_doing or not cell.beyond):
        return Row("not sound", figures, said.unsound)
    if cell.beyond:
        note = f"beyond the connections' capacity, {'' if said.beyond else 'NOT '}reported"
        verdicts |= set() if said.beyond else {"WRONG"}
    worst: tuple[Verdict, ...] = ("WRONG", "disturbed")
    return Row(next((verdict for verdict in worst if verdict in verdicts), "right"), figures, note)


def judge_counts(generator: Generator, cell: Cell, said: Said, truth: Truth) -> Row:
    """Compares the count of a kind of reply, and of right replies if the generator reports them."""
    kind = {"wrong": "wrong", "fail": "unavailable", "reset": "reset"}[cell.case]
    counted = {name: said.counts[name] for name in (kind, "right") if name in said.counts}
    # wrk always runs for a time.
    room = cell.connections if generator.program == "wrk" else 0
    near = all(abs(truth.summary[name] - count) <= room for name, count in counted.items())
    note = ", ".join(f"{name}: {count} of {truth.summary[name]}" for name, count in counted.items())
    return Row("right" if near and truth.summary[kind] > 0 else "WRONG", NO_FIGURES, note)


def judge_starved(cell: Cell, said: Said, truth: Truth) -> Row:
    """A generator that was stopped must report that, whatever its figures are."""
    kept_ns = np.sort(truth.reply_ns - truth.arrival_ns)
    figures = [f"— · {ms(quantile(kept_ns, share))} · {ms(said.quantiles_ns.get(name))}" for name, share in QUANTILES]
    if said.unsound is None:
        return Row("WRONG", figures, "not reported")
    return Row("right", figures, f"reported: {said.unsound}")


def judge_closed_stall(said: Said, truth: Truth) -> Row:
    """A generator that sends nothing during a stall cannot measure how long users would wait, and must say so."""
    kept_ns = np.sort(truth.reply_ns - truth.arrival_ns)
    figures = [f"— · — · {ms(said.quantiles_ns.get(name))}" for name, _ in QUANTILES]
    kept = f"not measurable (the server kept p99 {ms(quantile(kept_ns, 0.99))})"
    verdict: Verdict = "right" if said.shows_no_stalls else "WRONG"
    return Row(verdict, figures, f"{kept}, {'' if said.shows_no_stalls else 'not '}reported")


NO_FIGURES = [""] * len(QUANTILES)


def ms(value_ns: float | None) -> str:
    return "—" if value_ns is None else f"{value_ns / 1e6:.2f}"


def main() -> int:
    flags = parse_flags()
    try:
        server = flags.server or build_server()
    except Skipped as reason:
        print(f"no server of known latency: {reason}", file=sys.stderr)
        return 1
    bench = Bench(
        engine=flags.engine or find_engine(),
        server=server,
        server_cpu=min(os.sched_getaffinity(0)),
        generator_cpu=max(os.sched_getaffinity(0)),
    )
    generators = present(flags, bench)
    if not generators:
        print("no generator to run: run make, or pass --engine PATH", file=sys.stderr)
        return 1
    print("Times in ms: simulated · true · reported.\n")
    columns = ["server, connections, pace", "generator", *(name for name, _ in QUANTILES), "", ""]
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    tallies: dict[str, Counter[Verdict]] = {generator.name: Counter() for generator in generators}
    for cell in wanted(flags):
        for generator in generators:
            row = measure(generator, cell, bench)
            if row is not None:
                tallies[generator.name][row.verdict] += 1
                words = [cell.name, generator.name, *row.figures, row.verdict, row.note]
                print(f"| {' | '.join(words)} |", flush=True)
    print()
    for name, tally in tallies.items():
        print(f"{name}: {sentence(tally)}")
    own = sum((tallies[generator.name] for generator in generators if generator.ours), Counter[Verdict]())
    print(f"ours: {sentence(own)}" if own else "ours: not run")
    void = own["not sound"] + own["disturbed"]
    return 1 if own["WRONG"] > 0 or void > VOID_SHARE_MAX * own.total() else 0


def sentence(tally: Counter[Verdict]) -> str:
    """The number of runs by verdict; discarded kinds only if there are any."""
    void: tuple[Verdict, ...] = ("not sound", "disturbed")
    some = [f", {tally[verdict]} {verdict}" for verdict in void if tally[verdict]]
    return f"{tally['right']} right, {tally['WRONG']} WRONG{''.join(some)}"


def measure(generator: Generator, cell: Cell, bench: Bench) -> Row | None:
    """The verdict on a cell. A run that is not right is repeated, and the majority decides."""
    rows: list[Row] = []
    while not is_settled(rows):
        try:
            outcome = run(generator, cell, bench)
        except Skipped as reason:
            return Row("WRONG", NO_FIGURES, str(reason))
        if outcome is None:
            return None
        row = judge(generator, cell, *outcome)
        if row.verdict == "WRONG":
            row = judge(generator, cell, *outcome, late_share(bench.generator_cpu))
        rows.append(row)
    if len(rows) == 1:
        return rows[0]
    right = [row for row in rows if row.verdict == "right"]
    row = right[-1] if len(right) >= TRIES_RIGHT else next(row for row in reversed(rows) if row.verdict != "right")
    return Row(row.verdict, row.figures, f"{row.note}; {len(right)} of {len(rows)} runs right")


def is_settled(rows: list[Row]) -> bool:
    """Whether more runs cannot change the verdict: the first was right, or enough were right, or too many were not."""
    right = sum(row.verdict == "right" for row in rows)
    lost = len(rows) - right
    return (right == 1 and lost == 0) or right >= TRIES_RIGHT or lost > TRIES_MAX - TRIES_RIGHT


def present(flags: argparse.Namespace, bench: Bench) -> list[Generator]:
    """The installed generators among those requested."""
    drivers = ("epoll", "io_uring") if flags.driver == "both" else (flags.driver,)
    found = [ours(driver) for driver in drivers if bench.engine] + [
        one for one in OTHERS if shutil.which(one.program) is not None
    ]
    return [one for one in found if flags.generators is None or re.search(flags.generators, one.name)]


def build_server() -> str:
    target = ROOT / "target/truth"
    manifest = ["--manifest-path", str(ROOT / "bench/truth/Cargo.toml"), "--target-dir", str(target)]
    build(["cargo", "build", "--quiet", "--release", "--locked", *manifest])
    return str(target / "release/truth")


def parse_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare load generators with servers of exactly known latency.")
    parser.add_argument("--seconds", type=float, default=10, help="length of a run with a schedule (10)")
    parser.add_argument("--only", metavar="TEXT", help="settings whose name contains this, as in 'stall 8' or 'closed'")
    parser.add_argument("--generators", metavar="PATTERN", help="generators whose name matches this, as in 'iolab|wrk'")
    parser.add_argument(
        "--driver", choices=("both", "epoll", "io_uring"), default="both", help="driver of our generator (both)"
    )
    parser.add_argument("--engine", metavar="PATH", help="our generator (IOLAB_ENGINE, or the one that make built)")
    parser.add_argument("--server", metavar="PATH", help="a built bench/truth, instead of building it")
    flags = parser.parse_args()
    if not 1 <= flags.seconds <= 60:
        parser.error(f"--seconds is {flags.seconds}; use 1 to 60")
    if not wanted(flags):
        parser.error(f"no setting has {flags.only} in its name; examples: stall 8 200/s, mix 1 closed")
    for path in (flags.engine, flags.server):
        if path is not None and not os.access(path, os.X_OK):
            parser.error(f"{path}: not executable")
    return flags


def wanted(flags: argparse.Namespace) -> list[Cell]:
    return [cell for cell in cells(flags.seconds) if flags.only is None or flags.only in cell.name]


if __name__ == "__main__":
    sys.exit(main())
