#!/usr/bin/env python3
"""What each I/O model costs, as a Markdown table: syscalls per request, memory per connection, processes and threads.

Calls: the kernel counts those of the whole server. It is asked for few requests and then for many, over as many
connections, and the difference of the counts is divided by that of the requests: so what it costs to accept and to
close connections falls out, and no clock is involved.

Memory: what the server's processes grow by from ten idle connections to many, each after one request, divided by
their number. It is proportional, so what processes share counts once, and leaves out the pages of files. What the
kernel holds for a connection stands beside it as far as it can be told from the rest: page tables, and a stack for each
task. The sockets of both ends come to that, for all models alike.

This prints and never judges: the exit code is 0 whatever comes out. docs/models.md shows a table of it.
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import socket
import struct
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from iolab.contract.types import EchoWorkload, HttpWorkload, LoadSpec, ModelAbout, Report, ServeSpec
from iolab.errors import PlanError
from iolab.machine import facts, proc
from iolab.machine.cpus import CpuSets, choose_cpus, topology
from iolab.measure.binary import EngineError
from iolab.measure.child import Child
from iolab.measure.engine import Engine, Load, TrialFailed, ask_served, open_engine, serve, served, variant
from iolab.plan.contestant import Contestant

# Beside each model as it is: the variants that wait in another way, or for another number of connections.
VARIANTS = (
    "prefork[processes=1000]",
    "select[set=big]",
    "epoll[trigger=level]",
    "epoll[trigger=oneshot]",
    "libevent[backend=select]",
    "io_uring[buffers=none]",
    "io_uring[send=plain]",
    "io_uring[send=zerocopy]",
    "io_uring[send=bundle]",
    "io_uring[submit=sqpoll]",
    "monoio[driver=legacy]",
)

ECHO = EchoWorkload(message_bytes=64)
# For models that do not speak echo.
HTTP = HttpWorkload()
HTTP_REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"

# Where calls are counted: connections, and the requests of the longer run.
SETTINGS = ((1, 1_000), (50, 10_000), (1_000, 30_000))
# The shorter run has so many requests for each connection: just enough that each is served once.
REQUESTS_FEW = 1
# How long a server may take to enter the call it waits in again, and to close what the generator has closed.
SETTLE_S = 0.05
# How often it is looked at whether a server has started all its processes and threads.
LOOKS_MAX = 50

# Memory grows from so many idle connections to so many, or to as many as a model holds.
IDLE_FEW = 10
IDLE_MANY = 10_000
# No server is run with more processes than this.
IDLE_MANY_OF = {"fork": 1_000}
# Of fewer, what each takes cannot be told from what else a server does.
IDLE_LEAST = 100
# Processes and threads are counted with so many connections.
IDLE_TASKS = 50
# This process needs descriptors for other things, and so does a server.
DESCRIPTORS_RESERVED = 100
REPLY_S_MAX = 5.0

# What Linux gives each task on x86-64 and on 64-bit Arm.
KERNEL_STACK_BYTES = 16 * 1024

# A connection that is closed with this leaves nothing behind that waits for late packets.
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass(frozen=True)
class Row:
    """One line of the table: a model with its options, as the engine knows it."""

    text: str
    about: ModelAbout
    engine: Engine
    cpus: CpuSets

    @property
    def workload(self) -> EchoWorkload | HttpWorkload:
        return ECHO if "echo" in self.about.protocols else HTTP

    @contextlib.contextmanager
    def server(self, *, count_calls: bool = False) -> Iterator[tuple[Child, str]]:
        """The server, fresh, and its address; raises TrialFailed."""
        contestant = Contestant.parse(self.text)
        spec = ServeSpec(
            model=contestant.name,
            options=contestant.options,
            workload=self.workload,
            cpus=self.cpus.server,
            count_calls=count_calls,
        )
        child, ready = serve(self.engine, spec)
        try:
            settle(child)
            yield child, ready.listen[0]
        finally:
            child.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description="Print what each I/O model costs, as a Markdown table.")
    parser.add_argument("--only", metavar="TEXT", default="", help="models and variants whose name contains this")
    flags = parser.parse_args()
    try:
        engine = open_engine()
    except EngineError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    cpus = choose_cpus(topology())
    print_header(engine, cpus)
    for model in engine.description.models:
        for text in (model.name, *(text for text in VARIANTS if text.startswith(f"{model.name}["))):
            if flags.only in text:
                print(f"| `{text}` | {' | '.join(cells(text, engine, cpus))} |", flush=True)
    return 0


def print_header(engine: Engine, cpus: CpuSets) -> None:
    known = facts.describe(engine.description)
    processor, kernel = known["cpu"]["model"], known["system"]["kernel"]
    print(f"{processor}, {known['cpu']['logical']} processors ({cpus.why}), Linux {kernel}")
    print(f"Engine {engine.description.version}, build {engine.description.build}")
    calls = [f"syscalls per request, {connections:,} busy" for connections, _ in SETTINGS]
    memory = ["memory at rest, MiB", "a connection adds, KiB", "and in the kernel, KiB", "idle connections"]
    columns = ["model", *calls, *memory, f"processes / threads, {IDLE_TASKS} idle"]
    print(f"\n| {' | '.join(columns)} |\n|{' --- |' * len(columns)}", flush=True)


def cells(text: str, engine: Engine, cpus: CpuSets) -> list[str]:
    """The figures of a model, or why there are none."""
    try:
        about = variant(engine, Contestant.parse(text))
    except PlanError as error:
        return [str(error)]
    if not about.available:
        return [about.why_not or "it cannot run here"]
    row = Row(text, about, engine, cpus)
    return [*calls_cells(row), *idle_cells(row)]


def calls_cells(row: Row) -> list[str]:
    """Syscalls per request, or why there is no such figure, for each setting."""
    try:
        with row.server(count_calls=True) as (child, address):
            return [calls_cell(row, child, address, connections, many) for connections, many in SETTINGS]
    except TrialFailed as failed:
        return [str(failed), *("-" for _ in SETTINGS[1:])]


def calls_cell(row: Row, child: Child, address: str, connections: int, many: int) -> str:
    if row.about.holds is not None and row.about.holds < connections:
        return f"holds {row.about.holds:,}"
    few = REQUESTS_FEW * connections
    # The first time a server holds so many connections it makes room for them, which nothing gives back.
    load(row, address, connections, few)
    counts = [calls_so_far(child)]
    for requests in (few, many):
        load(row, address, connections, requests)
        counts.append(calls_so_far(child))
    start, middle, end = counts
    if start is None or middle is None or end is None:
        return "not counted"
    return f"{((end - middle) - (middle - start)) / (many - few):.2f}"


def settle(child: Child) -> None:
    """Waits until a server starts and ends no more processes and threads: it is ready before it has them all, and those
    of connections that were closed end a little later.
    """
    earlier = 0
    for _ in range(LOOKS_MAX):
        time.sleep(SETTLE_S)
        now = proc.look(child.pid).threads
        if now == earlier:
            return
        earlier = now


def calls_so_far(child: Child) -> int | None:
    """None where the kernel does not let the server count; raises TrialFailed."""
    settle(child)
    ask_served(child)
    return served(child).calls


def load(row: Row, address: str, connections: int, requests: int) -> None:
    """Asks for so many replies; raises TrialFailed unless all come."""
    spec = LoadSpec(
        workload=row.workload,
        connect=(address,),
        connections=connections,
        cpus=row.cpus.load,
        requests=requests,
    )
    generator = Load(row.engine, spec)
    try:
        report = next(event for event in generator.events(REPLY_S_MAX) if isinstance(event, Report))
    finally:
        generator.stop()
    if report.requests.correct != requests:
        raise TrialFailed("failed", f"{report.requests.correct} of {requests} replies: {report.first_error}")


def idle_cells(row: Row) -> list[str]:
    """Memory at rest and for each idle connection, and processes and threads."""
    room = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - DESCRIPTORS_RESERVED
    many = min(IDLE_MANY_OF.get(row.about.name, IDLE_MANY), row.about.holds or IDLE_MANY, room)
    few, some = min(IDLE_FEW, many), min(IDLE_TASKS, many)
    try:
        with row.server() as (child, address), contextlib.ExitStack() as clients:
            at_rest = server_bytes(child)
            connect(row, address, few, clients)
            before = (server_bytes(child), kernel_bytes(child))
            connect(row, address, some - few, clients)
            tasks = proc.look(child.pid)
            connect(row, address, many - some, clients)
            after = (server_bytes(child), kernel_bytes(child))
    except (TrialFailed, OSError) as failed:
        return [str(failed)]
    growth = [(late - early) / max(1, many - few) / 1024 for early, late in zip(before, after, strict=True)]
    words = [added(growth[0], 2), added(growth[1], 1), f"{many:,}"] if many >= IDLE_LEAST else ["-", "-", "-"]
    return [f"{at_rest / 2**20:.1f}", *words, f"{len(tasks.pids)} / {tasks.threads}"]


def added(growth_kib: float, digits: int) -> str:
    """What a connection adds. Where the server has shrunk meanwhile, it adds nothing that can be told."""
    return f"{growth_kib:.{digits}f}" if growth_kib >= 0 else "-"


def connect(row: Row, address: str, count: int, clients: contextlib.ExitStack) -> None:
    """Opens so many connections, each for one request, and leaves them open; raises OSError."""
    host, _, port = address.rpartition(":")
    request = HTTP_REQUEST if row.workload is HTTP else bytes(ECHO.message_bytes)
    for _ in range(count):
        client = clients.enter_context(socket.create_connection((host, int(port)), timeout=REPLY_S_MAX))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        client.sendall(request)
        # So small a reply comes in one piece.
        if not client.recv(4096):
            raise OSError("the server has closed a connection that was to be idle")


def server_bytes(child: Child) -> int:
    """The memory of the server's processes; raises OSError where the kernel does not say."""
    own_bytes = proc.own_bytes(proc.look(child.pid).pids)
    if own_bytes is None:
        raise OSError("the kernel does not say how much memory a process has")
    return own_bytes


def kernel_bytes(child: Child) -> int:
    """What the kernel holds for the server's processes and threads: page tables, and a stack of its own for each."""
    total = 0
    for pid in proc.look(child.pid).pids:
        # It may have ended meanwhile.
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            fields = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
            total += int(fields["VmPTE"][0]) * 1024 + int(fields["Threads"][0]) * KERNEL_STACK_BYTES
    return total


if __name__ == "__main__":
    sys.exit(main())
