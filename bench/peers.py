#!/usr/bin/env python3
"""Compares our servers and load generator with their peers: ratios, with their spread and a bar.

All contenders of a scene run in turn, in random order, round after round, so changes of the machine affect all of them.
A ratio is taken within each round and printed as median [min, max] over the rounds. Server and generator have a CPU
each. Where a hypervisor moves virtual CPUs, a message between them can cost two to three times as much from one moment
to the next. So the core-to-core latency is measured before and after each run, and a run whose CPUs were far apart is
repeated. It only prints: the exit code is 0 whatever the figures.

CPU of a server: the CPU time of its processes within the measured window, per request of the window.
CPU of a generator: all its CPU time from start to end, per request that it reports as completed; its start-up is
negligible over two seconds or more. Syscalls are counted in a separate pass, because counting costs time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal

from common import (
    SLACK_S,
    Distance,
    Server,
    Skipped,
    at_least_one,
    completed,
    last_line,
    load_spec,
    pinned,
    processor_words,
    processors,
    raise_descriptor_limit,
    run_with_edges,
    spread,
)
from servers import start_server

from iolab.contract.types import EchoWorkload, HttpWorkload, Workload
from iolab.machine import proc
from iolab.measure.binary import EngineError
from iolab.measure.engine import Engine, open_engine

# hey keeps at most a million results, and would report only a part of a longer run.
SECONDS_MAX = 20


@dataclass(frozen=True)
class Contender:
    """An HTTP load generator: its command after the program's name, and where its output has the completed requests."""

    name: str
    program: str
    arguments: str
    completed: str
    # Where its output has the lateness of its sends, in nanoseconds; empty if it has none.
    lateness: str = ""

    def command(self, program: str, url: str, connections: int, seconds: int) -> list[str]:
        values = {"url": url, "connections": connections, "seconds": seconds}
        return [program, *(word.format(**values) for word in shlex.split(self.arguments))]


ENGINE = "iolab-engine"
OURS = "load {url} -c {connections} -z {seconds}s --warmup 0s --json --driver "

GENERATORS = (
    Contender("iolab io_uring", ENGINE, OURS + "io_uring", r'"correct":(\d+)'),
    Contender("iolab epoll", ENGINE, OURS + "epoll", r'"correct":(\d+)'),
    Contender("wrk", "wrk", "-t1 -c{connections} -d{seconds}s {url}", r"(\d+) requests in"),
    # The order matters: -t would set -n to 50,000.
    Contender("ab", "ab", "-q -r -k -c {connections} -t {seconds} -n 100000000 {url}", r"Complete requests:\s+(\d+)"),
    Contender("h2load", "h2load", "--h1 -t1 -c{connections} -D {seconds} {url}", r"requests: .* (\d+) succeeded"),
    Contender("hey", "hey", "-z {seconds}s -c {connections} -cpus 1 {url}", r"\[200\]\s+(\d+) responses"),
    Contender(
        "oha",
        "oha",
        "--worker-threads 1 --no-tui --output-format json -z {seconds}s -c {connections} {url}",
        r'"200":\s*(\d+)',
    ),
)

# A connection for each request. wrk needs a header for that; ab does it without -k.
ANEW = (
    Contender("iolab io_uring", ENGINE, OURS + "io_uring --no-keepalive", r'"correct":(\d+)'),
    Contender("iolab epoll", ENGINE, OURS + "epoll --no-keepalive", r'"correct":(\d+)'),
    Contender("wrk", "wrk", "-t1 -c{connections} -d{seconds}s -H 'Connection: close' {url}", r"(\d+) requests in"),
    Contender("ab", "ab", "-q -r -c {connections} -t {seconds} -n 100000000 {url}", r"Complete requests:\s+(\d+)"),
)

# No sleep between two sends is short enough for this rate.
RATE = OURS.replace("--json", "--json --rate 100k --spin 50us")
LATE = r'"lateness_ns":\{[^}]*?"p99":(\d+)'
PACED = (
    Contender("iolab io_uring", ENGINE, RATE + "io_uring", r'"correct":(\d+)', LATE),
    Contender("iolab epoll", ENGINE, RATE + "epoll", r'"correct":(\d+)', LATE),
)

# The largest CPU per request of our generators relative to another's, by the number of connections.
BARS = {
    50: {"wrk": 0.70, "ab": 0.70, "h2load": 0.60, "oha": 0.45, "hey": 0.17},
    1000: {"wrk": 0.60},
}

HTTP = HttpWorkload()
ECHO_64_B = EchoWorkload(message_bytes=64)
ECHO_4_KIB = EchoWorkload(message_bytes=4 * 1024)
ECHO_64_KIB = EchoWorkload(message_bytes=64 * 1024)

Measure = Literal["cpu_ns", "syscalls", "rss_bytes", "lateness_ns"]


@dataclass(frozen=True)
class Comparison:
    """One line of the output: a contender's figure, relative to `base` if there is one, and its bar."""

    subject: str
    base: str | None
    measure: Measure = "cpu_ns"
    bar: float | None = None


@dataclass(frozen=True)
class Scene:
    """Generators against the one server, or our generator against each of several servers."""

    name: str
    about: str
    subject: Literal["generators", "servers"]
    servers: tuple[str, ...]
    workload: Workload
    connections: int
    comparisons: tuple[Comparison, ...]
    contenders: tuple[Contender, ...] = GENERATORS


def generators(server: str, connections: int) -> Scene:
    """Our generator and its peers, all against the same server."""
    peers = [contender.name for contender in GENERATORS if contender.program != ENGINE]
    ours = [contender.name for contender in GENERATORS if contender.program == ENGINE]
    comparisons = [Comparison(our, peer, bar=BARS[connections].get(peer)) for peer in peers for our in ours]
    comparisons += [
        Comparison(one.name, None, "rss_bytes", 8e6 if connections == 1000 and one.name in ours else None)
        for one in GENERATORS
    ]
    comparisons += [Comparison(one.name, None, "syscalls") for one in GENERATORS]
    about = f"generators against {server}, {connections} connections"
    name = f"generators-{server}-{connections}"
    return Scene(name, about, "generators", (server,), HTTP, connections, tuple(comparisons))


def reconnecting(server: str) -> Scene:
    """A connection for each request, with the generators that can do that."""
    ours = [one.name for one in ANEW if one.program == ENGINE]
    comparisons = tuple(
        Comparison(our, peer, bar=0.9 if peer == "wrk" else None) for peer in ("wrk", "ab") for our in ours
    )
    about = f"generators against {server}, a connection for each request, 50 at a time"
    return Scene(f"reconnecting-{server}", about, "generators", (server,), HTTP, 50, comparisons, ANEW)


def paced(server: str) -> Scene:
    """The lateness of our generator's sends at a high rate."""
    comparisons = tuple(Comparison(one.name, None, "lateness_ns", 100e3) for one in PACED)
    about = f"100,000 requests a second against {server}, 50 connections"
    return Scene(f"paced-{server}", about, "generators", (server,), HTTP, 50, comparisons, PACED)


def http_servers(connections: int) -> Scene:
    """Our servers and others, all under our generator."""
    few = connections == 50
    comparisons = (
        Comparison("epoll", "nginx", bar=0.75),
        Comparison("epoll", "raw-hyper", bar=0.85 if few else None),
        Comparison("io_uring", "epoll", bar=0.95),
        Comparison("coroutine", "may_minihttp", bar=0.8 if few else 0.6),
        Comparison("epoll", None, "syscalls", 2.1 if few else None),
        Comparison("io_uring", None, "syscalls", 0.1 if few else None),
        Comparison("nginx", None, "syscalls"),
    )
    about = f"HTTP servers, {connections} connections"
    return Scene(f"http-{connections}", about, "servers", named(comparisons), HTTP, connections, comparisons)


def echo_servers(workload: EchoWorkload, size: str, *comparisons: Comparison) -> Scene:
    """Event loops, ours and others', with no protocol work."""
    about = f"echo of {size}, 50 connections"
    name = f"echo-{workload.message_bytes}"
    return Scene(name, about, "servers", named(comparisons), workload, 50, comparisons)


def named(comparisons: tuple[Comparison, ...]) -> tuple[str, ...]:
    """The names in the comparisons, each once."""
    both = [name for comparison in comparisons for name in (comparison.subject, comparison.base) if name]
    return tuple(dict.fromkeys(both))


SCENES = (
    generators("nginx", 50),
    generators("nginx", 1000),
    generators("epoll", 50),
    generators("epoll", 1000),
    reconnecting("epoll"),
    paced("epoll"),
    http_servers(50),
    http_servers(1000),
    echo_servers(
        ECHO_64_B,
        "64 B",
        Comparison("io_uring", "epoll"),
        Comparison("io_uring", "raw-monoio", bar=0.8),
        Comparison("epoll", "raw-libevent", bar=1.0),
        Comparison("epoll", "raw-tokio", bar=1.0),
    ),
    echo_servers(
        ECHO_4_KIB,
        "4 KiB",
        Comparison("epoll", "raw-libevent", bar=1.0),
        Comparison("epoll", "raw-tokio", bar=1.0),
    ),
    echo_servers(ECHO_64_KIB, "64 KiB", Comparison("io_uring", "epoll", bar=1.1)),
)

UNITS: dict[Measure, tuple[str, float]] = {
    "cpu_ns": ("CPU per request (µs)", 1e3),
    "syscalls": ("syscalls per request", 1.0),
    "rss_bytes": ("peak memory (MB)", 1e6),
    "lateness_ns": ("p99 lateness of sends (µs)", 1e3),
}


@dataclass(frozen=True)
class Sample:
    """The figures of one contender in one round; None for what the pass did not measure."""

    scene: str
    round: int
    contender: str
    requests: int
    cpu_ns: int | None = None
    rss_bytes: int | None = None
    syscalls: int | None = None
    lateness_ns: int | None = None
    # The core-to-core latency before or after the run, whichever is larger.
    apart_ns: float | None = None

    def figure(self, measure: Measure) -> float | None:
        value = getattr(self, measure)
        if value is None:
            return None
        return float(value) if measure in ("rss_bytes", "lateness_ns") else value / self.requests


@dataclass(frozen=True)
class Bench:
    """Shared by all scenes: the engine, the CPUs, and the length of runs."""

    engine: Engine
    server_cpu: int
    generator_cpu: int
    rounds: int
    seconds: int
    shuffle: random.Random
    counts_syscalls: bool
    distance: Distance


def main() -> int:
    flags = parse_flags()
    try:
        engine = open_engine()
    except EngineError as error:
        print(error, file=sys.stderr)
        return 1
    raise_descriptor_limit()
    cpus = processors()
    bench = Bench(
        engine=engine,
        server_cpu=cpus[0],
        generator_cpu=cpus[1],
        rounds=flags.rounds,
        seconds=flags.seconds,
        shuffle=random.Random(flags.seed),
        counts_syscalls=can_count_syscalls(),
        distance=Distance(engine, cpus),
    )
    bench.distance.look_often()
    print_header(bench, flags.seed)
    outcomes: dict[str, Outcome] = {}
    for scene in SCENES:
        if flags.only is None or flags.only in scene.name:
            outcomes[scene.name] = measure_scene(scene, bench)
            print_scene(scene, outcomes[scene.name])
            if flags.out:
                write_rounds(flags.out, flags, outcomes)
    return 0


def write_rounds(path: Path, flags: argparse.Namespace, outcomes: dict[str, Outcome]) -> None:
    """Writes all rounds so far. Called after each scene: a bench that is stopped loses only the current scene."""
    document = {
        "seed": flags.seed,
        "seconds": flags.seconds,
        "servers": {name: outcome.about for name, outcome in outcomes.items()},
        "samples": [asdict(sample) for outcome in outcomes.values() for sample in outcome.samples],
    }
    path.write_text(json.dumps(document, indent=1) + "\n")


def parse_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare our servers and generator with their peers.")
    parser.add_argument("--rounds", type=at_least_one, default=7, help="rounds of each scene (7)")
    parser.add_argument("--seconds", type=at_least_one, default=2, help="length of each run (2)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the order within rounds (1)")
    names = ", ".join(scene.name for scene in SCENES)
    parser.add_argument("--only", metavar="TEXT", help=f"scenes whose name contains this: {names}")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write all rounds to FILE as JSON")
    flags = parser.parse_args()
    if flags.seconds > SECONDS_MAX:
        parser.error(f"--seconds is {flags.seconds}; use at most {SECONDS_MAX}")
    if flags.only is not None and not any(flags.only in scene.name for scene in SCENES):
        parser.error(f"no scene has {flags.only} in its name; choose from {names}")
    return flags


def can_count_syscalls() -> bool:
    perf = shutil.which("perf")
    if perf is None:
        return False
    probe = [perf, "stat", "-e", "raw_syscalls:sys_enter", "true"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


@dataclass
class Outcome:
    """The result of a scene: all rounds, a description of each server, and why a contender could not run."""

    samples: list[Sample] = field(default_factory=list)
    about: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)


# Measures one contender once. Arguments: the number of the round, and whether to count syscalls instead of time.
Run = Callable[[int, bool], Sample]


def measure_scene(scene: Scene, bench: Bench) -> Outcome:
    outcome = Outcome()
    reasons = outcome.reasons
    with contextlib.ExitStack() as running:
        servers: dict[str, Server] = {}
        for name in scene.servers:
            try:
                start = start_server(name, scene.workload, bench.engine, bench.server_cpu)
                servers[name] = running.enter_context(start)
            except Skipped as reason:
                reasons[name] = str(reason)
        outcome.about = {name: server.about for name, server in servers.items()}
        runs = runs_of(scene, servers, bench, reasons)
        for number in range(bench.rounds + bench.counts_syscalls):
            counting = number == bench.rounds
            order = [name for name in runs if name not in reasons]
            bench.shuffle.shuffle(order)
            for name in order:
                try:
                    outcome.samples += run_together(runs[name], number, bench.distance, counting=counting)
                except Skipped as reason:
                    reasons[name] = str(reason)
    return outcome


def run_together(run: Run, number: int, distance: Distance, *, counting: bool) -> list[Sample]:
    """Repeats a run until the CPUs are close together; empty if no attempt succeeds. Syscalls need no repeat."""
    if counting:
        return [run(number, counting)]
    made = distance.together(lambda: run(number, counting))
    return [] if made is None else [replace(made[0], apart_ns=made[1])]


def runs_of(scene: Scene, servers: dict[str, Server], bench: Bench, reasons: dict[str, str]) -> dict[str, Run]:
    """A function for each contender of a scene; those without an installed program go to `reasons`."""
    if scene.subject == "servers":
        return {name: server_run(scene, name, server, bench) for name, server in servers.items()}
    runs: dict[str, Run] = {}
    for contender in scene.contenders:
        program = str(bench.engine.path) if contender.program == ENGINE else shutil.which(contender.program)
        if not servers:
            reasons[contender.name] = reasons[scene.servers[0]]
        elif program is None:
            reasons[contender.name] = f"{contender.program} is not installed"
        else:
            runs[contender.name] = generator_run(scene, contender, program, servers[scene.servers[0]], bench)
    return runs


def generator_run(scene: Scene, contender: Contender, program: str, server: Server, bench: Bench) -> Run:
    """Returns a function that runs a generator to its end."""

    def run(number: int, counting: bool) -> Sample:
        url = f"http://127.0.0.1:{server.port}/"
        command = pinned(bench.generator_cpu, contender.command(program, url, scene.connections, bench.seconds))
        with tempfile.NamedTemporaryFile() as counts:
            whole = run_to_end(counted(command, Path(counts.name)) if counting else command, bench.seconds + SLACK_S)
            syscalls = read_count(Path(counts.name)) if counting else None
        found = re.findall(contender.completed, whole.output)
        if whole.code != 0 or not found or int(found[-1]) == 0:
            raise Skipped(f"no request completed (exit code {whole.code}): {last_line(whole.output)}")
        requests = int(found[-1])
        if counting:
            return Sample(scene.name, number, contender.name, requests, syscalls=syscalls)
        late = re.findall(contender.lateness, whole.output) if contender.lateness else []
        lateness_ns = int(late[-1]) if late else None
        return Sample(
            scene.name, number, contender.name, requests, whole.cpu_ns, whole.rss_bytes, lateness_ns=lateness_ns
        )

    return run


def server_run(scene: Scene, name: str, server: Server, bench: Bench) -> Run:
    """Returns a function that loads a server with our generator and reads the server's usage within the window."""

    def run(number: int, counting: bool) -> Sample:
        spec = load_spec(
            server,
            scene.workload,
            driver="io_uring",
            connections=scene.connections,
            warmup_ms=0 if counting else 500,
            seconds=bench.seconds,
        )
        command = pinned(bench.generator_cpu, [str(bench.engine.path), "load", "--spec", "-"])
        if not counting:
            report, cpu_ns = run_with_edges(command, spec, server)
            return Sample(scene.name, number, name, completed(report), cpu_ns)
        with tempfile.NamedTemporaryFile() as counts:
            pids = ",".join(map(str, proc.look(server.pid).pids))
            report, _ = run_with_edges(counted(command, Path(counts.name), pids), spec, server)
            return Sample(scene.name, number, name, completed(report), syscalls=read_count(Path(counts.name)))

    return run


@dataclass(frozen=True)
class Whole:
    """The result of a whole process."""

    code: int
    output: str
    cpu_ns: int
    rss_bytes: int


def run_to_end(command: list[str], seconds_max: float) -> Whole:
    """Runs a command and polls its memory meanwhile, because the kernel's maximum for a child includes the memory of
    the parent that forked it."""
    with tempfile.TemporaryFile(mode="w+") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + seconds_max
        rss_bytes = 0
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > deadline:
                process.kill()
            rss_bytes = max(rss_bytes, proc.size(process.pid).rss_bytes_max)
            time.sleep(0.05)
        # wait4 has reaped it, so Popen must not wait again.
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        cpu_ns = round((usage.ru_utime + usage.ru_stime) * 1e9)
        return Whole(process.returncode, output.read(), cpu_ns, rss_bytes)


def counted(command: list[str], counts: Path, pids: str | None = None) -> list[str]:
    """The command under perf, which counts its syscalls, or those of other processes while it runs."""
    whose = ["--pid", pids] if pids else []
    return ["perf", "stat", "-x", ",", "-e", "raw_syscalls:sys_enter", "-o", str(counts), *whose, "--", *command]


def read_count(counts: Path) -> int:
    found = re.search(r"^(\d+),", counts.read_text(), re.MULTILINE)
    if found is None:
        raise Skipped("perf counted nothing")
    return int(found[1])


def print_header(bench: Bench, seed: int) -> None:
    print(
        f"{bench.rounds} rounds of {bench.seconds} s, seed {seed}; "
        f"{processor_words((bench.server_cpu, bench.generator_cpu))}\n"
        "Columns: comparison, median [min, max] (rounds), bar. Generators are measured from start to end,\n"
        f"servers within the measured window.\n{bench.distance.words()}"
    )
    if not bench.counts_syscalls:
        print("Syscalls are not counted: perf or its tracepoints are not available.")


def print_scene(scene: Scene, outcome: Outcome) -> None:
    print(f"\n{scene.about} ({scene.name})")
    for name, about in outcome.about.items():
        print(f"  {name}: {about}")
    for comparison in scene.comparisons:
        print("  " + line(comparison, outcome.samples, outcome.reasons))


def line(comparison: Comparison, samples: list[Sample], reasons: dict[str, str]) -> str:
    """One comparison with its figures."""
    subject, base, measure, bar = comparison.subject, comparison.base, comparison.measure, comparison.bar
    words, unit = UNITS[measure]
    what = f"{subject} / {base}, CPU per request" if base else f"{subject}, {words}"
    for name in (subject, base):
        if name in reasons:
            return f"{what:<46} skipped: {name}: {reasons[name]}"
    ours, others = figures(samples, subject, measure), figures(samples, base, measure)
    # A round counts if both were measured.
    values = [ours[n] / others[n] for n in ours if n in others] if base else [value / unit for value in ours.values()]
    if not values:
        return f"{what:<46} skipped: not measured here"
    median = statistics.median(values)
    found = f"{what:<46} " + (f"{spread(values, 3, 8)} ({len(values)})" if len(values) > 1 else f"{median:8.3f}")
    if bar is None:
        return found
    limit = bar if base else bar / unit
    return f"{found}  bar {limit:g}  {'ok' if median <= limit else 'MISSED'}"


def figures(samples: list[Sample], contender: str | None, measure: Measure) -> dict[int, float]:
    """A contender's figures by round."""
    found = {sample.round: sample.figure(measure) for sample in samples if sample.contender == contender}
    return {number: figure for number, figure in found.items() if figure is not None}


if __name__ == "__main__":
    sys.exit(main())
