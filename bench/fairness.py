#!/usr/bin/env python3
"""How fairly each event-driven model serves many connections with messages of each size, beside epoll, as Markdown.

A server that serves some connections again and again while others wait has a long tail: its p99 shows it, and its
median hides it. So each model runs in pairs with epoll, one right after the other and in random order, and the ratios
of a pair are taken: of p99, of CPU per request, and of the requests served. The table shows median [least, most] over
the rounds, and marks a p99 above the bar. Our load generator loads both, in a closed loop; server and generator have a
processor each.

Where a hypervisor moves those, a message between them costs two or three times as much at one moment as at another. A
pair that had them much nearer for one than for the other is left out, and the number of those is printed.

`hyper` speaks HTTP only: it runs beside epoll with HTTP, and replies have the size that messages have for the others.

This prints and never judges: the exit code is 0 whatever comes out.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from peers import Distance, at_least_one, completed, find_engine, raise_descriptor_limit, run_with_edges
from servers import Server, Skipped, pinned, start_server

from iolab.results.records import APART_MAX

BASE = "epoll"
MODELS = (
    "epoll[trigger=level]",
    "epoll[trigger=oneshot]",
    "select[set=big]",
    "poll",
    "libevent",
    "io_uring",
    "coroutine",
    "tokio",
    "monoio",
    "hyper",
)
HTTP_MODELS = ("hyper",)

SIZES = (1024, 16 * 1024, 64 * 1024, 1024 * 1024)
CONNECTIONS = (50, 1000)

# What the p99 of a model may be of that of epoll.
P99_BAR = 1.5

WARMUP_MS = 500


@dataclass(frozen=True)
class Bench:
    """What all pairs share."""

    engine: str
    driver: str
    server_cpu: int
    generator_cpu: int
    rounds: int
    seconds: int
    shuffle: random.Random
    distance: Distance


@dataclass(frozen=True)
class Run:
    """One server under load."""

    p99_ns: int
    cpu_ns: float
    requests: int
    apart_ns: float | None


@dataclass(frozen=True)
class Pair:
    """A model and epoll, one right after the other."""

    model: Run
    base: Run

    @property
    def is_even(self) -> bool:
        """Whether both had the processors equally near."""
        if self.model.apart_ns is None or self.base.apart_ns is None:
            return True
        nearer, farther = sorted((self.model.apart_ns, self.base.apart_ns))
        return farther <= APART_MAX * nearer


def main() -> int:
    flags = parse_flags()
    engine = find_engine()
    if engine is None:
        print("there is no engine to measure: run make first, or name one in IOLAB_ENGINE", file=sys.stderr)
        return 1
    raise_descriptor_limit()
    cpus = sorted(os.sched_getaffinity(0))
    bench = Bench(
        engine=engine,
        driver=flags.driver,
        server_cpu=cpus[0],
        generator_cpu=cpus[-1],
        rounds=flags.rounds,
        seconds=flags.seconds,
        shuffle=random.Random(flags.seed),
        distance=Distance(engine, (cpus[0], cpus[-1])),
    )
    same = " (the same, for want of another: not comparable)" if cpus[0] == cpus[-1] else ""
    print(
        f"{flags.rounds} rounds of {flags.seconds} s, seed {flags.seed}; server on CPU {cpus[0]}, "
        f"generator ({flags.driver}) on CPU {cpus[-1]}{same}\n"
        f"Ratios are to {BASE}: median [least, most]."
    )
    for connections in flags.connections or CONNECTIONS:
        for size in flags.bytes or SIZES:
            print_scene(size, connections, [name for name in MODELS if flags.only in name], bench)
    return 0


def parse_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Print how fairly models serve many connections, beside epoll.")
    parser.add_argument("--rounds", type=at_least_one, default=5, help="pairs of each model (5)")
    parser.add_argument("--seconds", type=at_least_one, default=1, help="length of each run (1)")
    parser.add_argument("--seed", type=int, default=1, help="of the order within pairs (1)")
    parser.add_argument(
        "--only", metavar="TEXT", default="", help=f"models whose name contains this: {', '.join(MODELS)}"
    )
    sizes = ", ".join(map(str, SIZES))
    parser.add_argument(
        "--bytes", type=at_least_one, action="append", help=f"size of a message; may be repeated ({sizes})"
    )
    counts = ", ".join(map(str, CONNECTIONS))
    parser.add_argument("--connections", type=at_least_one, action="append", help=f"may be repeated ({counts})")
    parser.add_argument("--driver", choices=("epoll", "io_uring"), default="epoll", help="of the generator (epoll)")
    flags = parser.parse_args()
    if not any(flags.only in name for name in MODELS):
        parser.error(f"no model is called anything like {flags.only}; there are {', '.join(MODELS)}")
    return flags


def print_scene(size: int, connections: int, models: list[str], bench: Bench) -> None:
    print(f"\n{words_of(size)}, {connections:,} connections\n")
    columns = ("model", "p99, ms", f"{BASE}'s", "p99, ratio", "CPU per request, ratio", "requests, ratio", "")
    print(f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}", flush=True)
    for model in models:
        try:
            pairs = list(run_pairs(model, size, connections, bench))
        except Skipped as reason:
            print(f"| `{model}` | skipped: {reason} |", flush=True)
            continue
        print(f"| `{model}` | {' | '.join(cells(pairs))} |", flush=True)


def words_of(size: int) -> str:
    for unit, factor in (("MiB", 2**20), ("KiB", 2**10)):
        if size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} B"


def cells(pairs: list[Pair]) -> list[str]:
    even = [pair for pair in pairs if pair.is_even]
    if not even:
        return ["-", "-", "-", "-", "-", "the processors were moved in every round"]
    tails = [pair.model.p99_ns / pair.base.p99_ns for pair in even]
    remarks = [f"p99 above {P99_BAR}"] if statistics.median(tails) > P99_BAR else []
    remarks += [f"{len(pairs) - len(even)} rounds left out"] if len(even) < len(pairs) else []
    return [
        f"{statistics.median(pair.model.p99_ns for pair in even) / 1e6:.2f}",
        f"{statistics.median(pair.base.p99_ns for pair in even) / 1e6:.2f}",
        spread(tails),
        spread([pair.model.cpu_ns / pair.base.cpu_ns for pair in even]),
        spread([pair.model.requests / pair.base.requests for pair in even]),
        ", ".join(remarks),
    ]


def spread(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):.2f} [{min(ratios):.2f}, {max(ratios):.2f}]"


def run_pairs(model: str, size: int, connections: int, bench: Bench) -> Iterator[Pair]:
    """Runs a model and epoll in turn; raises Skipped."""
    workload = workload_of(model, size)
    with contextlib.ExitStack() as running:
        servers = {
            name: running.enter_context(start_server(name, workload, bench.engine, bench.server_cpu))
            for name in (model, BASE)
        }
        for _ in range(bench.rounds):
            order = [model, BASE]
            bench.shuffle.shuffle(order)
            runs = {name: run(servers[name], workload, connections, bench) for name in order}
            yield Pair(runs[model], runs[BASE])


def workload_of(model: str, size: int) -> dict[str, Any]:
    if model in HTTP_MODELS:
        return {"protocol": "http", "reply_bytes": size}
    return {"protocol": "echo", "framing": "raw", "message_bytes": size}


def run(server: Server, workload: dict[str, Any], connections: int, bench: Bench) -> Run:
    spec = {
        "schema": 1,
        "role": "load",
        "driver": bench.driver,
        "workload": workload,
        "connect": [f"127.0.0.1:{server.port}"],
        "connections": connections,
        "warmup_ms": WARMUP_MS,
        "duration_ms": bench.seconds * 1000,
    }
    before_ns = bench.distance.look()
    report, cpu_ns = run_with_edges(pinned(bench.generator_cpu, [bench.engine, "load", "--spec", "-"]), spec, server)
    after_ns = bench.distance.look()
    requests = completed(report)
    apart_ns = None if before_ns is None or after_ns is None else max(before_ns, after_ns)
    return Run(report["latency_ns"]["p99"], cpu_ns / requests, requests, apart_ns)


if __name__ == "__main__":
    sys.exit(main())
