"""An external client as the load of a trial, behind a reaper on the generator's processors.

The client itself reports how many requests were answered and how long that took: iolab verifies none of its replies.
The use of its processes is accounted for like a server's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from iolab.contract.client import ClientFigures, parse_client_figures
from iolab.contract.types import ContractError
from iolab.machine import proc, resources
from iolab.measure import processes
from iolab.measure.child import Ended, ending
from iolab.measure.engine import LOAD_SLACK_S, TrialFailed
from iolab.measure.observer import SAMPLE_S, pause_s
from iolab.measure.output import TAIL_BYTES
from iolab.measure.processes import Place
from iolab.measure.registered import Command
from iolab.plan.settings import Cell
from iolab.results.records import ClientRun

# How much of a client's output is kept with its run: the end.
KEPT_BYTES = 64 << 10
# The longest pause between two samples of a client with many processes. They stay idle for a few seconds only, and one
# sample must fall within them.
REST_S_MAX = 2.0
# Reads the memory of a server.
Weigh = Callable[[], proc.Memory | None]


class Peak:
    """The most at one time of a client's processes, its server, and the whole machine."""

    def __init__(self, server: Weigh) -> None:
        self.rss_bytes = self.processes = self.threads = self.machine_bytes = 0
        self.memory: proc.Memory | None = None
        self.server: proc.Memory | None = None
        self._weigh = server

    def sample(self, pid: int) -> None:
        """Takes one more sample."""
        size, memory = proc.size(pid), proc.together(proc.memory_each(proc.look(pid).pids).values())
        self.rss_bytes = max(self.rss_bytes, size.rss_bytes)
        self.processes = max(self.processes, size.processes)
        self.threads = max(self.threads, size.threads)
        self.machine_bytes = max(self.machine_bytes, resources.memory_in_use())
        self.memory, self.server = _most(self.memory, memory), _most(self.server, self._weigh())


def _most(one: proc.Memory | None, other: proc.Memory | None) -> proc.Memory | None:
    if one is None or other is None:
        return one or other
    return proc.Memory(*map(max, zip(one, other, strict=True)))


class Client:
    """A running client and its use so far."""

    def __init__(self, argv: Sequence[str], place: Place, server: Weigh = lambda: None) -> None:
        """Starts it; raises TrialFailed. `server` reads the memory of its server."""
        processes.refuse_missing(argv[0], "load.driver = cmd:")
        self.begin_ns = time.monotonic_ns()
        self.peak = Peak(server)
        self._instance = processes.spawn(Command(tuple(argv), {}), place, keeps_stdout=True)
        self._next_s = 0.0
        self._ended: tuple[int, int] | None = None
        self.end_ns = self.begin_ns

    def ended(self, wait_s: float) -> bool:
        """Whether it has ended, or ends within `wait_s`; raises TrialFailed if it floods its output."""
        self._sample()
        try:
            line = self._instance.child.line(wait_s)
        except Ended as ended:
            raise TrialFailed("client_failed", f"the reaper of the client {ended}") from None
        if line is not None:
            code, self.end_ns, cpu_ns = map(int, line.split())
            self._ended = (code, cpu_ns)
        self._instance.refuse_flood()
        return line is not None

    def run(self) -> ClientRun:
        """The report and use of a client that has ended; raises TrialFailed."""
        assert self._ended is not None, "it has ended"
        code, cpu_ns = self._ended
        if code != 0:
            said = self._instance.child.last_words()
            raise TrialFailed("client_failed", f"the client {ending(code)}", said=said)
        figures, stdout = self._figures()
        peak = self.peak
        return ClientRun(
            **figures.model_dump(),
            wall_ns=max(1, self.end_ns - self.begin_ns),
            cpu_ns=cpu_ns,
            rss_bytes_max=peak.rss_bytes,
            pss_bytes_max=peak.memory and peak.memory.pss_bytes,
            private_bytes_max=peak.memory and peak.memory.private_bytes,
            processes_max=peak.processes,
            threads_max=peak.threads,
            stdout=stdout.decode(errors="replace"),
        )

    @property
    def server_memory(self) -> proc.Memory | None:
        """The most memory that its server took meanwhile; None if the kernel does not report it."""
        return self.peak.server

    @property
    def machine_bytes(self) -> int:
        """The most memory of the machine in use meanwhile."""
        return self.peak.machine_bytes

    def stop(self) -> None:
        """Ends it and all it started, at any point of its run."""
        self._instance.stop()

    def _figures(self) -> tuple[ClientFigures, bytes]:
        """The figures in its last line, and the end of its output."""
        assert self._instance.stdout is not None, "it is kept"
        stdout = self._instance.stdout.tail(TAIL_BYTES)
        line = stdout.rstrip().rpartition(b"\n")[2]
        try:
            return parse_client_figures(line), stdout[-KEPT_BYTES:]
        except ContractError as error:
            example = '{"requests": 1000, "failed": 0, "elapsed_s": 1.5, "clients_s": [1.5]}'
            message = f"the client printed no figures: its last line must be like {example} ({error})"
            raise TrialFailed("no_figures", message, final=True, said=_shown(line)) from None

    def _sample(self) -> None:
        """Samples its processes, seldom enough to take little of their time."""
        now_s = time.monotonic()
        if now_s >= self._next_s:
            self.peak.sample(self._instance.pid)
            ended_s = time.monotonic()
            self._next_s = ended_s + min(REST_S_MAX, pause_s(SAMPLE_S, ended_s - now_s))


def limit_s(cell: Cell) -> float:
    """How long a client may take in all. It ends by itself, so only one that hangs takes longer."""
    return (cell.trial.duration_ms + cell.trial.timeout_ms) / 1_000 + LOAD_SLACK_S


def _shown(line: bytes) -> tuple[str, ...]:
    """A line for a message, if there is one."""
    text = "".join(each if each.isprintable() else " " for each in line.decode(errors="replace"))[:200].strip()
    return (text,) if text else ()
