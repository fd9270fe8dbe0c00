#!/usr/bin/env python3
"""How fairly each event-driven model serves many connections with messages of each size, relative to epoll.

A server that serves some connections again and again while others wait has a long tail, which shows in its p99 and not
in its median. So each model runs in pairs with epoll, one right after the other in random order. Each pair gives ratios
of p99, of CPU per request and of requests served. The table shows median [min, max] over the rounds, and marks what
is above its bar. Our generator loads both in a closed loop; server and generator have a CPU each.

The p99 covers answered requests, so it misses a connection that is never served. The table therefore shows the age of
the oldest request in flight at the end of the window, and marks a row where that exceeds the p99.

Where a hypervisor moves virtual CPUs, a message between them can cost two to three times as much from one moment to the
next. A run whose CPUs were far apart is repeated; a pair without a good run is left out, and counted.

`hyper` speaks only HTTP: it runs beside epoll over HTTP, with replies of the message size of the other models.

It only prints: the exit code is 0 whatever the figures.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import statistics
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from common import (
    Distance,
    Server,
    Skipped,
    at_least_one,
    completed,
    load_spec,
    pinned,
    processor_words,
    processors,
    raise_descriptor_limit,
    run_with_edges,
    spread,
)
from servers import start_server

from iolab.contract.literals import Driver
from iolab.contract.types import EchoWorkload, HttpWorkload, Workload
from iolab.measure.binary import EngineError
from iolab.measure.engine import Engine, open_engine

BASE = "epoll"
MODELS = (
    "epoll[trigger=level]",
    "epoll[trigger=oneshot]",
    "select[set=big]",
    "poll",
    "libevent",
    "thread_pool",
    "io_uring",
    "coroutine",
    "tokio",
    "monoio",
    "hyper",
)
HTTP_MODELS = ("hyper",)

SIZES = (1024, 16 * 1024, 64 * 1024, 1024 * 1024)
CONNECTIONS = (50, 1000)

# The largest p99 of a model, relative to epoll's.
P99_BAR = 1.5
# The largest CPU per request relative to epoll's, by model, size and connections.
CPU_BARS: Mapping[tuple[str, int, int], float] = {("io_uring", 16 * 1024, 1000): 1.0}
# The largest age of the oldest request in flight at the end of a window, relative to the p99.
OLDEST_BAR = 1.0

WARMUP_MS = 500


@dataclass(frozen=True)
class Bench:
    """Shared by all pairs."""

    engine: Engine
    driver: Driver
    server_cpu: int
    generator_cpu: int
    rounds: int
    seconds: int
    shuffle: random.Random
    distance: Distance


@dataclass(frozen=True)
class Run:
    """One server under load. `oldest_ns` is the age of the oldest request in flight at the end."""

    p99_ns: int
    oldest_ns: int
    cpu_ns: float
    requests: int


@dataclass(frozen=True)
class Pair:
    """A run of a model and one of epoll, one right after the other."""

    model: Run
    base: Run


@dataclass(frozen=True)
class Setting:
    """The size of a message and the number of connections."""

    size: int
    connections: int

    def workload(self, model: str) -> Workload:
        if model in HTTP_MODELS:
            return HttpWorkload(reply_bytes=self.size)
        return EchoWorkload(message_bytes=self.size)

    def __str__(self) -> str:
        for unit, factor in (("MiB", 2**20), ("KiB", 2**10)):
            if self.size % factor == 0:
                return f"{self.size // factor} {unit}, {self.connections:,} connections"
        return f"{self.size} B, {self.connections:,} connections"


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
        driver=flags.driver,
        server_cpu=cpus[0],
        generator_cpu=cpus[1],
        rounds=flags.rounds,
        seconds=flags.seconds,
        shuffle=random.Random(flags.seed),
        distance=Distance(engine, cpus),
    )
    bench.distance.look_often()
    print(
        f"{flags.rounds} rounds of {flags.seconds} s, seed {flags.seed}; "
        f"{processor_words(cpus, f'generator ({flags.driver})')}\n"
        f"Ratios are to {BASE}: median [min, max].\n{bench.distance.words()}"
    )
    for connections in flags.connections or CONNECTIONS:
        for size in flags.bytes or SIZES:
            print_scene(Setting(size, connections), [name for name in MODELS if flags.only in name], bench)
    return 0


def parse_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Print how fairly models serve many connections, relative to epoll.")
    parser.add_argument("--rounds", type=at_least_one, default=5, help="pairs of each model (5)")
    parser.add_argument("--seconds", type=at_least_one, default=3, help="length of each run (3)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the order within pairs (1)")
    parser.add_argument(
        "--only", metavar="TEXT", default="", help=f"models whose name contains this: {', '.join(MODELS)}"
    )
    sizes = ", ".join(map(str, SIZES))
    parser.add_argument(
        "--bytes", type=at_least_one, action="append", help=f"size of a message; may be repeated ({sizes})"
    )
    counts = ", ".join(map(str, CONNECTIONS))
    parser.add_argument("--connections", type=at_least_one, action="append", help=f"may be repeated ({counts})")
    parser.add_argument(
        "--driver", choices=("epoll", "io_uring"), default="epoll", help="driver of the generator (epoll)"
    )
    flags = parser.parse_args()
    if not any(flags.only in name for name in MODELS):
        parser.error(f"no model has {flags.only} in its name; choose from {', '.join(MODELS)}")
    return flags


def print_scene(setting: Setting, models: list[str], bench: Bench) -> None:
    print(f"\n{setting}\n")
    columns = (
        *("model", "p99, ms", f"{BASE}'s", "p99, ratio", "oldest in flight, ms", f"{BASE}'s"),
        *("CPU per request, ratio", "requests, ratio", ""),
    )
    print(f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}", flush=True)
    for model in models:
        try:
            pairs = list(run_pairs(model, setting, bench))
        except Skipped as reason:
            print(f"| `{model}` | skipped: {reason} |", flush=True)
            continue
        print(f"| `{model}` | {' | '.join(cells(model, setting, pairs, bench.rounds))} |", flush=True)


def cells(model: str, setting: Setting, pairs: list[Pair], rounds: int) -> list[str]:
    if not pairs:
        return [*"-------", "CPUs too far apart in every round"]
    tails = [pair.model.p99_ns / pair.base.p99_ns for pair in pairs]
    cpu = [pair.model.cpu_ns / pair.base.cpu_ns for pair in pairs]
    return [
        milliseconds(pair.model.p99_ns for pair in pairs),
        milliseconds(pair.base.p99_ns for pair in pairs),
        spread(tails, 2),
        milliseconds(pair.model.oldest_ns for pair in pairs),
        milliseconds(pair.base.oldest_ns for pair in pairs),
        spread(cpu, 2),
        spread([pair.model.requests / pair.base.requests for pair in pairs], 2),
        ", ".join(remarks(tails, cpu, CPU_BARS.get((model, setting.size, setting.connections)), pairs, rounds)),
    ]


def milliseconds(times_ns: Iterator[int]) -> str:
    return f"{statistics.median(times_ns) / 1e6:.2f}"


def remarks(
    tails: list[float], cpu: list[float], cpu_bar: float | None, pairs: list[Pair], rounds: int
) -> Iterator[str]:
    """What exceeds its bar, and what the figures miss."""
    if statistics.median(tails) > P99_BAR:
        yield f"p99 above {P99_BAR}"
    if cpu_bar is not None:
        yield f"CPU bar {cpu_bar:g} {'ok' if statistics.median(cpu) <= cpu_bar else 'MISSED'}"
    for name, runs in (("", [pair.model for pair in pairs]), (f"{BASE}'s ", [pair.base for pair in pairs])):
        oldest = statistics.median(run.oldest_ns / run.p99_ns for run in runs)
        if oldest > OLDEST_BAR:
            yield f"{name}p99 is too low: {oldest:.1f} times as long is in flight"
    if len(pairs) < rounds:
        yield f"{rounds - len(pairs)} rounds left out"


def run_pairs(model: str, setting: Setting, bench: Bench) -> Iterator[Pair]:
    """Runs a model and epoll in turn; yields the pairs whose CPUs were close together. Raises Skipped."""
    workload = setting.workload(model)
    with contextlib.ExitStack() as running:
        servers = {
            name: running.enter_context(start_server(name, workload, bench.engine, bench.server_cpu))
            for name in (model, BASE)
        }
        for _ in range(bench.rounds):
            order = [model, BASE]
            bench.shuffle.shuffle(order)
            runs = {name: made for name in order if (made := run(servers[name], workload, setting, bench))}
            if len(runs) == 2:
                yield Pair(runs[model], runs[BASE])


def run(server: Server, workload: Workload, setting: Setting, bench: Bench) -> Run | None:
    """One run with the CPUs close together; None if no attempt had them so."""
    spec = load_spec(
        server,
        workload,
        driver=bench.driver,
        connections=setting.connections,
        warmup_ms=WARMUP_MS,
        seconds=bench.seconds,
    )
    command = pinned(bench.generator_cpu, [str(bench.engine.path), "load", "--spec", "-"])

    def make() -> Run:
        report, cpu_ns = run_with_edges(command, spec, server)
        requests = completed(report)
        return Run(report["latency_ns"]["p99"], report["unanswered_ns_max"], cpu_ns / requests, requests)

    made = bench.distance.together(make)
    return None if made is None else made[0]


if __name__ == "__main__":
    sys.exit(main())
