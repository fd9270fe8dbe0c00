#!/usr/bin/env python3
"""What each I/O model costs, as a Markdown table: syscalls per request, memory per connection, processes and threads.

Syscalls: the kernel counts those of the whole server, for a short and a long run over the same number of connections.
The difference of the counts divided by the difference of the requests excludes the cost of accepting and closing
connections, and needs no clock.

Memory: how much the server's processes grow from ten idle connections to many, each after one request, divided by the
number of connections. It is proportional (shared pages count once) and excludes file pages. A second column has the
kernel memory that can be attributed to a connection: page tables, and a stack for each task. The sockets of both ends
are extra, and the same for all models.

It only prints: the exit code is 0 whatever the figures. docs/models.md has a table from it.
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

# Measured beside each default model: variants that wait in another way or suit another number of connections.
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

# Where syscalls are counted: connections, and the requests of the longer run.
SETTINGS = ((1, 1_000), (50, 10_000), (1_000, 30_000))
# Requests per connection in the shorter run: just enough to serve each connection once.
REQUESTS_FEW = 1
# Time for a server to re-enter its waiting syscall, and to close what the generator has closed.
SETTLE_S = 0.05
# How often to check that a server has started all its processes and threads.
LOOKS_MAX = 50

# Memory grows between these numbers of idle connections, or up to the most that a model serves.
IDLE_FEW = 10
IDLE_MANY = 10_000
# The most connections of a model with a process for each.
IDLE_MANY_OF = {"fork": 1_000}
# With fewer, the memory of a connection is lost in other changes of the server.
IDLE_LEAST = 100
# Idle connections while processes and threads are counted.
IDLE_TASKS = 50
# Descriptors that this process and the server need for other things.
DESCRIPTORS_RESERVED = 100
REPLY_S_MAX = 5.0

# The kernel stack of a task in Linux on x86-64 and 64-bit Arm.
KERNEL_STACK_BYTES = 16 * 1024

# Closes a connection with a reset, which leaves nothing in TIME-WAIT.
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
        """A new server and its address; raises TrialFailed."""
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
    """The figures of a model, or why it has none."""
    try:
        about = variant(engine, Contestant.parse(text))
    except PlanError as error:
        return [str(error)]
    if not about.available:
        return [about.why_not or "not available"]
    row = Row(text, about, engine, cpus)
    return [*calls_cells(row), *idle_cells(row)]


def calls_cells(row: Row) -> list[str]:
    """Syscalls per request for each setting, or why they were not counted."""
    try:
        with row.server(count_calls=True) as (child, address):
            return [calls_cell(row, child, address, connections, many) for connections, many in SETTINGS]
    except TrialFailed as failed:
        return [str(failed), *("-" for _ in SETTINGS[1:])]


def calls_cell(row: Row, child: Child, address: str, connections: int, many: int) -> str:
    if row.about.holds is not None and row.about.holds < connections:
        return f"holds {row.about.holds:,}"
    few = REQUESTS_FEW * connections
    # A server allocates for its largest number of connections once, and keeps that memory.
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
    """Waits until the number of threads is stable: a server is ready before it has started them all, and threads of
    closed connections end a little later.
    """
    earlier = 0
    for _ in range(LOOKS_MAX):
        time.sleep(SETTLE_S)
        now = proc.look(child.pid).threads
        if now == earlier:
            return
        earlier = now


def calls_so_far(child: Child) -> int | None:
    """The syscalls of the server; None if the kernel does not allow counting. Raises TrialFailed."""
    settle(child)
    ask_served(child)
    return served(child).calls


def load(row: Row, address: str, connections: int, requests: int) -> None:
    """Sends this many requests; raises TrialFailed unless all are answered."""
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
    """Memory at rest and per idle connection, and the numbers of processes and threads."""
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
    """The memory that a connection adds; "-" if the server has shrunk."""
    return f"{growth_kib:.{digits}f}" if growth_kib >= 0 else "-"


def connect(row: Row, address: str, count: int, clients: contextlib.ExitStack) -> None:
    """Opens `count` connections, sends one request over each, and leaves them open; raises OSError."""
    host, _, port = address.rpartition(":")
    request = HTTP_REQUEST if row.workload is HTTP else bytes(ECHO.message_bytes)
    for _ in range(count):
        client = clients.enter_context(socket.create_connection((host, int(port)), timeout=REPLY_S_MAX))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        client.sendall(request)
        # A reply this small arrives in one piece.
        if not client.recv(4096):
            raise OSError("the server closed a connection without a reply")


def server_bytes(child: Child) -> int:
    """The memory of the server's processes; raises OSError if the kernel does not report it."""
    own_bytes = proc.own_bytes(proc.look(child.pid).pids)
    if own_bytes is None:
        raise OSError("the kernel does not say how much memory a process has")
    return own_bytes


def kernel_bytes(child: Child) -> int:
    """Kernel memory of the server's processes and threads: page tables, and a kernel stack for each thread."""
    total = 0
    for pid in proc.look(child.pid).pids:
        # The process may have ended.
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            fields = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
            total += int(fields["VmPTE"][0]) * 1024 + int(fields["Threads"][0]) * KERNEL_STACK_BYTES
    return total


if __name__ == "__main__":
    sys.exit(main())
