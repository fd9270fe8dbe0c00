#!/usr/bin/env python3
"""Load generators held against servers of exactly known latency: what they say, beside what was true.

A server (bench/truth) keeps every request for a time that is chosen beforehand, and writes down when each came and when
its reply went out. A generator loads it, and its p50, p90, p99 and p99.9 are compared with those of the truth:
right within 2 % or 0.3 ms, whichever is more. Wrong bodies, statuses and resets are counted on both sides.
docs/ground-truth.md has the formulas.

What is true of a closed loop: the times for which the server kept the requests that came. Of an open one: the times
from when requests were due, whether or not there was a connection free by then. For our generator that is the record
of the server held against the schedule; for those that have a schedule of their own, the schedule asked for is
simulated with the server's record. Beside it stands what a machine that loses no time would have shown.

What is not right is run twice more, for all generators alike, and right is then what two of the three were: what a
machine does to one run it rarely does to the next, and what a generator does wrong it does again. Two kinds of runs are
counted by themselves: what our generator itself calls not sound, and what the machine alone explains, by the record of
the server or by a sleeper in the generator's place.
The exit code is 1 if our generator said anything wrong, or if too many of its runs are of those kinds.
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

# A figure is right when it is this near to the truth.
TOLERANCE_SHARE = 0.02
TOLERANCE_NS = 0.3e6

QUANTILES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999))

# The profiles of the server.
DELAY_NS = 1e6
# In a closed loop, many connections would ask for more than one thread can answer in time, which then knows less of the
# truth: it sees late what has come.
DELAY_OF_MANY_NS = 10e6
SLOW_NS = 100e6
SLOW_SHARE = 0.01
SERVICE_NS = 0.4e6
# A stall takes this part of its period, which is as long as the run: so each run has one, in its middle.
STALL_SHARE = 0.1

CONNECTIONS = (1, 8, 64)
RATES = (200, 2000)
# With faults, counts are compared and not times: so many requests, and so many a second in an open loop.
FAULT_REQUESTS = 2000
FAULT_RATE = 1000
# With so many connections no request of the queue waits for one, and arrivals may come at random.
CONNECTIONS_ENOUGH = 64

# What part of the time a run gets that asks more of its connections than they can do: only the backlog grows in it.
BEYOND_PART = 0.5

STARVE_FIRST_S = 1.0
STARVE_EVERY_S = 2.0
STARVE_S = 0.4

# How often a run that is not right is made, and how often it must have been right to count as that.
TRIES_MAX = 3
TRIES_RIGHT = 2
# After a run that is not right, a sleeper takes the generator's place for so long, and is woken so often: replies are
# seen late at least as often as it is, within chance, by whatever generator sleeps until they come.
WATCH_S = 3.0
WAKE_S = 1e-3
LATE_FACTOR = 2.0
# With more runs that are not sound, or disturbed, the machine is too busy to say anything.
VOID_SHARE_MAX = 0.2

Floats = NDArray[np.float64]
Loop = Literal["open", "closed"]


@dataclass(frozen=True)
class Cell:
    """One setting: what the server does, and how it is loaded."""

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
        """Whether counts are compared, over a number of requests instead of a time."""
        return self.case in FAULTS

    @property
    def beyond(self) -> bool:
        """Whether more is asked than the connections can do, or the one server of a queue."""
        if self.rate_per_s is None or self.case not in KEPT_NS_MEAN:
            return False
        servers = 1 if self.case == "queue" else self.connections
        return self.rate_per_s * KEPT_NS_MEAN[self.case] / 1e9 >= servers

    @property
    def hides_stalls(self) -> bool:
        """Whether it cannot be measured how long users would have waited: it sends nothing during a stall."""
        return self.case == "stall" and self.loop == "closed"

    @property
    def numbered(self) -> bool:
        """Whether a generator is to end after a number of requests: then none is cut off, and every one has its place
        in the figures as in the truth. A stall and a stopped generator take a time."""
        return self.faulty or (self.loop == "closed" and self.case not in ("stall", "starve"))

    @property
    def requests(self) -> int:
        """How many an open loop asks for, how many a loop with faults, and how many a closed one has time for."""
        if self.faulty:
            return FAULT_REQUESTS
        if self.rate_per_s is not None:
            return round(self.rate_per_s * self.seconds)
        mixed_ns = self.delay_ns + SLOW_SHARE * (SLOW_NS - self.delay_ns)
        served_ns = {"mix": mixed_ns / self.connections, "queue": SERVICE_NS}
        return round(self.seconds * 1e9 / served_ns.get(self.case, self.delay_ns / self.connections))

    @property
    def random(self) -> bool:
        """Whether our generator sends at random times: for a queue that is more often busy than not, and that even
        arrivals would not make wait."""
        busy = self.case == "queue" and (self.rate_per_s or 0) * SERVICE_NS / 1e9 > 0.5
        return busy and self.connections >= CONNECTIONS_ENOUGH

    @property
    def delay_ns(self) -> float:
        """How long a request is kept at least, but in a queue."""
        many = self.loop == "closed" and self.connections >= CONNECTIONS_ENOUGH
        return DELAY_OF_MANY_NS if many else DELAY_NS

    @property
    def profile(self) -> list[str]:
        """What the server is started with."""
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
# How long a request is kept on average, where that bounds what can be asked.
KEPT_NS_MEAN = {
    "fixed": DELAY_NS,
    "mix": DELAY_NS + SLOW_SHARE * (SLOW_NS - DELAY_NS),
    "stall": DELAY_NS / (1 - STALL_SHARE),
    "queue": SERVICE_NS,
}


def cells(seconds: float) -> list[Cell]:
    """Everything there is to ask."""
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
    """What the server did: its own summary, and of every request that was answered when it came, when its reply was due
    and when that was written."""

    summary: dict[str, Any]
    arrival_ns: Floats
    due_ns: Floats
    reply_ns: Floats


def read_truth(summary: dict[str, Any], path: Path) -> Truth:
    rows: NDArray[np.uint64] = np.fromfile(path, dtype="<u8").reshape(-1, 4)
    rows = rows[rows[:, 2] > 0]
    # From the first request: a float holds nanoseconds for months then.
    origin = rows[:1, 0]
    arrival, due, reply = ((rows[:, column] - origin).astype(float) for column in range(3))
    return Truth(summary, arrival, due, reply)


def true_ns(cell: Cell, truth: Truth, keeps_schedule: bool) -> Floats:
    """How long each request really took."""
    # How long a queue is lies in how requests are spread, which is known of even arrivals only.
    queued_anyhow = cell.case == "queue" and not keeps_schedule
    if cell.loop == "closed" or cell.random or queued_anyhow:
        return truth.reply_ns - truth.arrival_ns
    assert cell.rate_per_s is not None
    if not keeps_schedule:
        return simulated_ns(cell, truth, late=True)
    # The requests come in the order of the schedule, and the one that lagged least shows where it begins.
    planned = np.arange(len(truth.arrival_ns)) * (1e9 / cell.rate_per_s)
    begin_ns = float((truth.arrival_ns - planned).min())
    return truth.reply_ns - planned - begin_ns


def simulated_ns(cell: Cell, truth: Truth, late: bool) -> Floats:
    """How long each request takes that comes when it is due; with what the server was late, or without.

    Requests wait in one line. The first goes out when it is due and one of the connections is free; its connection is
    busy until the reply. In a closed loop all are due at once, and their time is counted from when they go out.
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
    # A backlog is cut off by the end of the run.
    return took_ns[replied <= cell.seconds * 1e9] if cell.beyond else took_ns


def profile(cell: Cell, truth: Truth) -> Callable[[int, float], float]:
    """When the server has a request answered, from its number and from when it comes: as bench/truth does it."""
    match cell.case:
        case "mix":
            # Which ones are slow is for the server to draw.
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
    """What is left of a stall, or all of one that begins before a request that came then is answered."""
    phase_ns, stall_ns = (came_ns + period_ns / 2) % period_ns, STALL_SHARE * period_ns
    if phase_ns < stall_ns:
        return stall_ns - phase_ns
    return stall_ns if phase_ns + DELAY_NS > period_ns else 0.0


def quantile(sorted_ns: Floats, share: float, shift: int = 0) -> float:
    """The least value that so many do not exceed, or one so many ranks from it."""
    rank = int(np.ceil(len(sorted_ns) * share)) + shift
    return float(sorted_ns[min(max(rank, 1), len(sorted_ns)) - 1])


def is_right(figure_ns: float, sorted_ns: Floats, share: float, ranks: int) -> bool:
    """Whether a figure is near the quantile, or the quantiles so many ranks away: those requests may have been outside
    what the generator looked at."""
    low, high = quantile(sorted_ns, share, -ranks), quantile(sorted_ns, share, ranks)
    return low - tolerance_ns(low) <= figure_ns <= high + tolerance_ns(high)


def tolerance_ns(value_ns: float) -> float:
    return max(TOLERANCE_SHARE * value_ns, TOLERANCE_NS)


# --- Generators


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a generator says of a run; what it does not speak of is absent."""

    quantiles_ns: dict[str, float] = field(default_factory=dict)
    # The same from when requests were sent, if the two are kept apart.
    service_ns: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    # Why its figures should not be believed, in its own words.
    unsound: str | None = None
    # What limited the run was the generator itself, or the machine.
    own_doing: bool = False
    # It says that less went out than was asked, or that the loop does not show stalls.
    beyond: bool = False
    shows_no_stalls: bool = False


@dataclass(frozen=True)
class Generator:
    """A load generator: its program, its flags for a cell (None: it has none for that), and how its output is read."""

    name: str
    program: str
    flags: Callable[[Cell, str, Path], list[str] | None]
    read: Callable[[int, str, Path], Said]
    ours: bool = False


def ours(driver: str) -> Generator:
    def flags(cell: Cell, url: str, _: Path) -> list[str]:
        words = ["load", url, "-c", str(cell.connections), "--driver", driver, "--strict"]
        # What cannot be measured is said in words; all else is read as figures.
        words += [] if cell.hides_stalls else ["--json"]
        if cell.rate_per_s is not None:
            words += ["--rate", str(cell.rate_per_s), "--arrivals", "poisson" if cell.random else "even"]
        # A backlog without end has no last request.
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
        raise ValueError(f"exit code {code}, and yet {report['unsound']}")
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
        # A 503 without a body has another length too.
        counts={"wrong": max(length - bad, 0), "unavailable": bad, "reset": connect + receive},
    )


def hey_flags(cell: Cell, url: str, _: Path) -> list[str]:
    limit = ["-n", str(cell.requests)] if cell.numbered else ["-z", f"{cell.seconds}s"]
    # Its rate is that of each connection.
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
    """For generators that know no fractions of a second."""
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
    """What all runs share."""

    engine: str | None
    server: str
    server_cpu: int
    generator_cpu: int


@contextlib.contextmanager
def truth_server(cell: Cell, bench: Bench, record: Path) -> Iterator[subprocess.Popen[str]]:
    """A server that ends with its standard input."""
    command = before_others(bench.server_cpu, [bench.server, *cell.profile, "--record", str(record)])
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def run(generator: Generator, cell: Cell, bench: Bench) -> tuple[Said, Truth] | None:
    """Runs a generator against a fresh server; None if it has no flags for that."""
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
            raise Skipped(f"it said nothing to be read ({error}): {last_line(errors + output)}") from error
        truth = read_truth(json.loads(lines), folder / "record")
        if len(truth.arrival_ns) == 0:
            raise Skipped(f"it asked nothing: {last_line(errors + output)}")
        return said, truth


def late_share(cpu: int) -> float:
    """How often a sleeper on this processor is woken later than the tolerance: what the machine does by itself."""
    watch = "import sys, time; wake_s, end = float(sys.argv[1]), time.monotonic() + float(sys.argv[2])\n"
    watch += "while time.monotonic() < end:\n"
    watch += "  due = time.monotonic() + wake_s; time.sleep(wake_s); print(time.monotonic() - due)"
    command = before_others(cpu, [sys.executable, "-c", watch, str(WAKE_S), str(WATCH_S)])
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    late_s = [float(line) for line in ran.stdout.split()]
    return sum(each * 1e9 > TOLERANCE_NS for each in late_s) / len(late_s)


def before_others(cpu: int, command: list[str]) -> list[str]:
    """The command on one processor, and, where that is allowed, before all that has no claim to real time: what is
    asked here is whether figures are true, not how they suffer from neighbours."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError:
        return pinned(cpu, command)
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    return pinned(cpu, ["chrt", "--fifo", "1", *command])


def run_to_end(command: list[str], cell: Cell) -> tuple[int, str, str]:
    """Runs a generator; one that is to starve is stopped for a while again and again."""
    # Files take all it says; pipes that are not read would fill.
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors)
        # In a backlog, a number of requests takes longer than the schedule.
        end = time.monotonic() + 3 * cell.seconds + SLACK_S
        try:
            wait_s = STARVE_FIRST_S if cell.case == "starve" else end - time.monotonic()
            while True:
                try:
                    process.wait(timeout=wait_s)
                    break
                except subprocess.TimeoutExpired:
                    if time.monotonic() > end:
                        raise Skipped(f"it has not ended after {3 * cell.seconds + SLACK_S:.0f} s") from None
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

# A figure is disturbed when it is off by no more than the machine itself moved that quantile on the server's side: what
# came between the reply and the generator may be the same, and is in no record. So is a quantile so far out that a
# sleeper in the generator's place is late as often.
Verdict = Literal["right", "WRONG", "not sound", "disturbed"]


@dataclass(frozen=True)
class Row:
    """What is printed of a run: its figures in words, and whether they are right."""

    verdict: Verdict
    figures: list[str]
    note: str


def judge(generator: Generator, cell: Cell, said: Said, truth: Truth, late: float = 0.0) -> Row:
    """Holds what a generator says against what was true; `late` is how often its processor wakes a sleeper late."""
    if cell.faulty:
        return judge_counts(generator, cell, said, truth)
    if cell.case == "starve":
        return judge_starved(cell, said, truth)
    if cell.hides_stalls:
        return judge_closed_stall(said, truth)
    sorted_ns = np.sort(true_ns(cell, truth, generator.ours))
    ideal_ns = np.sort(truth.due_ns - truth.arrival_ns if cell.random else simulated_ns(cell, truth, late=False))
    # When requests at random times were due, the server cannot know; how long it had them, it does.
    figures_ns = said.service_ns if cell.random and generator.ours else said.quantiles_ns
    # Where the end of the run cuts requests off, those that were under way are in the record alone: in a backlog, and
    # with wrk, which runs for a time only.
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
        note = f"beyond the connections' capacity, {'' if said.beyond else 'NOT '}said"
        verdicts |= set() if said.beyond else {"WRONG"}
    worst: tuple[Verdict, ...] = ("WRONG", "disturbed")
    return Row(next((verdict for verdict in worst if verdict in verdicts), "right"), figures, note)


def judge_counts(generator: Generator, cell: Cell, said: Said, truth: Truth) -> Row:
    """Replies of a kind, counted by the server and by the generator; and the right ones, by those that tell."""
    kind = {"wrong": "wrong", "fail": "unavailable", "reset": "reset"}[cell.case]
    counted = {name: said.counts[name] for name in (kind, "right") if name in said.counts}
    # wrk knows runs of a time only.
    room = cell.connections if generator.program == "wrk" else 0
    near = all(abs(truth.summary[name] - count) <= room for name, count in counted.items())
    note = ", ".join(f"{name}: {count} of {truth.summary[name]}" for name, count in counted.items())
    return Row("right" if near and truth.summary[kind] > 0 else "WRONG", NO_FIGURES, note)


def judge_starved(cell: Cell, said: Said, truth: Truth) -> Row:
    """A generator that was stopped itself must say so, whatever its figures are."""
    kept_ns = np.sort(truth.reply_ns - truth.arrival_ns)
    figures = [f"— · {ms(quantile(kept_ns, share))} · {ms(said.quantiles_ns.get(name))}" for name, share in QUANTILES]
    if said.unsound is None:
        return Row("WRONG", figures, "not said")
    return Row("right", figures, f"said so: {said.unsound}")


def judge_closed_stall(said: Said, truth: Truth) -> Row:
    """A generator that sends nothing during a stall cannot say how long users would have waited, and must say that."""
    kept_ns = np.sort(truth.reply_ns - truth.arrival_ns)
    figures = [f"— · — · {ms(said.quantiles_ns.get(name))}" for name, _ in QUANTILES]
    kept = f"not measurable (the server kept p99 {ms(quantile(kept_ns, 0.99))})"
    verdict: Verdict = "right" if said.shows_no_stalls else "WRONG"
    return Row(verdict, figures, f"{kept}, {'' if said.shows_no_stalls else 'not '}said")


NO_FIGURES = [""] * len(QUANTILES)


def ms(value_ns: float | None) -> str:
    return "—" if value_ns is None else f"{value_ns / 1e6:.2f}"


def main() -> int:
    flags = parse_flags()
    try:
        server = flags.server or build_server()
    except Skipped as reason:
        print(f"there is no server of known latency: {reason}", file=sys.stderr)
        return 1
    bench = Bench(
        engine=flags.engine or find_engine(),
        server=server,
        server_cpu=min(os.sched_getaffinity(0)),
        generator_cpu=max(os.sched_getaffinity(0)),
    )
    generators = present(flags, bench)
    if not generators:
        print("there is no generator to run: make ours first, or name it with --engine", file=sys.stderr)
        return 1
    print("Times in ms: without any lateness · true · said.\n")
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
    print(f"ours: {sentence(own)}" if own else "ours was not run")
    void = own["not sound"] + own["disturbed"]
    return 1 if own["WRONG"] > 0 or void > VOID_SHARE_MAX * own.total() else 0


def sentence(tally: Counter[Verdict]) -> str:
    """How many runs came out how; what is void is named only where there is some."""
    void: tuple[Verdict, ...] = ("not sound", "disturbed")
    some = [f", {tally[verdict]} {verdict}" for verdict in void if tally[verdict]]
    return f"{tally['right']} right, {tally['WRONG']} WRONG{''.join(some)}"


def measure(generator: Generator, cell: Cell, bench: Bench) -> Row | None:
    """The verdict on a run. One that is not right is made again, and most of the runs then decide."""
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
    """Whether more runs would change nothing: the first was right, or enough of them were, or no longer can be."""
    right = sum(row.verdict == "right" for row in rows)
    lost = len(rows) - right
    return (right == 1 and lost == 0) or right >= TRIES_RIGHT or lost > TRIES_MAX - TRIES_RIGHT


def present(flags: argparse.Namespace, bench: Bench) -> list[Generator]:
    """The generators that are asked for and installed."""
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
    parser = argparse.ArgumentParser(description="Hold load generators against servers of exactly known latency.")
    parser.add_argument("--seconds", type=float, default=10, help="length of a run with a schedule (10)")
    parser.add_argument("--only", metavar="TEXT", help="settings whose name contains this, as in 'stall 8' or 'closed'")
    parser.add_argument("--generators", metavar="PATTERN", help="generators whose name matches this, as in 'iolab|wrk'")
    parser.add_argument("--driver", choices=("both", "epoll", "io_uring"), default="both", help="of ours (both)")
    parser.add_argument("--engine", metavar="PATH", help="our generator (IOLAB_ENGINE, or the one that make has built)")
    parser.add_argument("--server", metavar="PATH", help="bench/truth, if it has been built already")
    flags = parser.parse_args()
    if not 1 <= flags.seconds <= 60:
        parser.error(f"--seconds is {flags.seconds}; it can be from 1 to 60")
    if not wanted(flags):
        parser.error(
            f"no setting has {flags.only} in its name; there are, for instance, stall 8 200/s and mix 1 closed"
        )
    for path in (flags.engine, flags.server):
        if path is not None and not os.access(path, os.X_OK):
            parser.error(f"{path} is no program")
    return flags


def wanted(flags: argparse.Namespace) -> list[Cell]:
    return [cell for cell in cells(flags.seconds) if flags.only is None or flags.only in cell.name]


if __name__ == "__main__":
    sys.exit(main())
