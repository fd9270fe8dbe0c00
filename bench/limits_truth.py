"""Provokes each kind of limit and prints which kind iolab named: 5 kinds, 10 ways each.

    .venv/bin/python bench/limits_truth.py [--only KIND] [--blocks 3] [--duration 500]

A row of the table is the provoked kind, a column the named one. A wrong name is printed below the table with its
figures, and the exit code is then 1. Ways that this machine cannot run are left out and listed. Each cell is a run of
its own, with the extra trials that decide open cases; all cells take about ten minutes on an idle machine.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from iolab import api
from iolab.errors import IolabError
from iolab.judge.bottleneck import Bottleneck, Limit
from iolab.plan.experiment import soak_plan

SERVER = Path(__file__).resolve().with_name("limited_server.py")
KINDS = (Bottleneck.SERVER, Bottleneck.GENERATOR, Bottleneck.LATENCY, Bottleneck.RESOURCE, Bottleneck.INVALID)
# "both" counts as the server: the generator is only nearly as busy.
SERVERS = {Bottleneck.BOTH: Bottleneck.SERVER}
# How the reason starts if other programs disturbed the cell, and how often such a cell is measured.
DISTURBED, TRIES = ("generator starved", "generator late", "machine busy", "path late", "the lab "), 3


class Way(NamedTuple):
    """A kind of limit, with a server and settings that provoke it."""

    kind: Bottleneck
    server: str
    settings: Mapping[str, Any]

    @property
    def words(self) -> str:
        shown = ", ".join(f"{name.partition('.')[2]} {value}" for name, value in self.settings.items())
        return f"{self.server.replace(str(SERVER), SERVER.name)} ({shown})"


def limited(**options: object) -> str:
    """The command of bench/limited_server.py with these options."""
    flags = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in options.items())
    return f"cmd:{sys.executable} {SERVER} --port {{port}} --reply-bytes {{reply_bytes}} {flags}"


def http(connections: int, **more: Any) -> dict[str, Any]:
    settings = {"workload.protocol": "http", "load.connections": connections}
    return settings | {name.replace("__", "."): value for name, value in more.items()}


def echo(connections: int, **more: Any) -> dict[str, Any]:
    return http(connections, **more) | {"workload.protocol": "echo"}


def ways() -> Iterator[Way]:
    """Ten ways for each kind."""
    for rate, connections in ((200, 4), (500, 8), (1_000, 8), (2_000, 16)):
        yield Way(Bottleneck.SERVER, limited(per_second=rate), http(connections))
    for work_us, connections in ((200, 4), (500, 10), (2_000, 2)):
        yield Way(Bottleneck.SERVER, limited(work_us=work_us), http(connections))
    yield Way(Bottleneck.SERVER, "select", echo(1_000, load__active=1))
    yield Way(Bottleneck.SERVER, "poll", echo(1_000, load__active=4))
    yield Way(Bottleneck.SERVER, "fork", http(10, workload__keep_alive=False))
    # With a connection per request, a single-threaded generator works harder than the server.
    for connections in (10, 20, 50, 100, 200):
        for model in ("blocking", "epoll"):
            yield Way(Bottleneck.GENERATOR, model, http(connections, workload__keep_alive=False))
    for model in ("epoll", "thread", "io_uring"):
        yield Way(Bottleneck.LATENCY, model, echo(1))
    yield Way(Bottleneck.LATENCY, "epoll", echo(1_000, load__active=1))
    for delay_ms, connections in ((2, 2), (10, 8), (50, 32)):
        yield Way(Bottleneck.LATENCY, limited(delay_ms=delay_ms), http(connections))
    for delay_ms, connections in ((1, 1), (5, 4), (20, 16)):
        yield Way(Bottleneck.LATENCY, "epoll", echo(connections, path__delay_ms=delay_ms))
    for quota in (0.1, 0.3, 0.5, 0.7):
        yield Way(Bottleneck.RESOURCE, "epoll", echo(50, server__cpu_quota=quota))
    for allowed in (24, 48):
        yield Way(Bottleneck.RESOURCE, "epoll", echo(100, server__descriptors_max=allowed, load__requests=2_000))
    for bits_per_s in (1e6, 1e7):
        settings = echo(8, path__rate_bits_per_s=bits_per_s, workload__message_bytes=1_000)
        yield Way(Bottleneck.RESOURCE, "epoll", settings)
    for connections in (20, 40):
        settings = http(connections, workload__keep_alive=False, path__delay_ms=10, path__syn_cookies=False)
        yield Way(Bottleneck.RESOURCE, "thread[backlog=1]", settings)
    for fault in ("wrong", "status", "reset", "close", "exit"):
        for after in (100, 400):
            yield Way(Bottleneck.INVALID, limited(delay_ms=1, fault=fault, after=after), http(4))


def settled(way: Way, blocks: int, duration_ms: int, runs: Path) -> Limit:
    """What limited a cell according to iolab, measured again while other programs disturb it; raises IolabError if the
    cell cannot be measured here.
    """
    for _ in range(TRIES):
        limit = limit_of(way, blocks, duration_ms, runs)
        if way.kind is Bottleneck.INVALID or not limit.reason.startswith(DISTURBED):
            return limit
    raise IolabError(f"the machine was too busy {TRIES} times: {limit.reason}")


def limit_of(way: Way, blocks: int, duration_ms: int, runs: Path) -> Limit:
    """What limited a cell according to iolab, from a new run; raises IolabError if it cannot be measured."""
    times = {"trial.warmup_ms": 300, "trial.duration_ms": duration_ms}
    plan = soak_plan(way.server, times | dict(way.settings)).model_copy(update={"name": "limit", "blocks": blocks})
    found = api.run(plan, out=runs, fresh=True).verdicts[0]
    title = found.titles[0]
    if title not in found.limits:
        raise IolabError(found.left_out.get(title, found.sentence))
    return found.limits[title]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=[str(kind) for kind in KINDS], help="only ways of this kind")
    parser.add_argument("--ways", type=int, default=10, help="ways of each kind")
    parser.add_argument("--blocks", type=int, default=3, help="timed trials of each way")
    parser.add_argument("--duration", type=int, default=500, help="window of a trial, in ms")
    options = parser.parse_args()
    named: dict[Bottleneck, Counter[Bottleneck]] = {kind: Counter() for kind in KINDS}
    wrong = []
    begun = Counter[Bottleneck]()
    with tempfile.TemporaryDirectory() as runs:
        for way in ways():
            begun[way.kind] += 1
            if options.only not in (None, way.kind) or begun[way.kind] > options.ways:
                continue
            try:
                limit = settled(way, options.blocks, options.duration, Path(runs))
            except IolabError as error:
                print(f"left out: {way.words}: {error}", flush=True)
                continue
            kind = SERVERS.get(limit.kind, limit.kind)
            named[way.kind][kind] += 1
            line = f"{way.kind}: {way.words}: {limit.label}: {limit.reason}"
            print(line, flush=True)
            wrong += [line] if kind is not way.kind else []
    print_table(named)
    print("\n".join(["", *(f"WRONG {line}" for line in wrong)]) if wrong else "\nno wrong names")
    return 1 if wrong else 0


def print_table(named: Mapping[Bottleneck, Counter[Bottleneck]]) -> None:
    """The confusion table."""
    print("\nprovoked".ljust(12), *(str(kind).rjust(10) for kind in Bottleneck))
    for kind, counts in named.items():
        print(str(kind).ljust(11), *(str(counts[each] or "-").rjust(10) for each in Bottleneck))


if __name__ == "__main__":
    sys.exit(main())
