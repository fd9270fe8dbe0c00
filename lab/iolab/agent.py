"""What the lab can do on one host: describe it, start a server, put load on it, and read what both used.

The runner knows only the protocols below. Here is the host the lab itself runs on; tests bring one that takes no time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from iolab import contestants, machine, proc
from iolab.contract import LoadSpec, ServeReady
from iolab.engine import Engine, Load, LoadEvent
from iolab.plan import Cell


@dataclass(frozen=True, slots=True)
class Sample:
    """The counters of a server, of the whole machine and of the lab itself, at one instant."""

    server: proc.Usage
    machine: machine.Ticks
    lab_cpu_ns: int


class RunningServer(Protocol):
    """A server that accepts connections at `address`."""

    @property
    def address(self) -> str: ...
    @property
    def ready(self) -> ServeReady | None: ...
    def check(self) -> None: ...
    def sample(self) -> Sample: ...
    def memory(self) -> proc.Memory: ...
    def pss_bytes(self) -> int | None: ...
    def stop(self) -> None: ...


class RunningLoad(Protocol):
    """A load generator at work; its last event is the report."""

    def events(self, tick_s: float) -> Iterator[LoadEvent | None]: ...
    def stop(self) -> None: ...


class Host(Protocol):
    """A machine to measure on. `start` and `load` raise TrialFailed."""

    def describe(self) -> dict[str, Any]: ...
    def start(self, cell: Cell) -> RunningServer: ...
    def load(self, spec: LoadSpec) -> RunningLoad: ...


@dataclass(frozen=True, slots=True)
class Agent:
    """The host the lab runs on. The engine is needed for all but its own description."""

    engine: Engine

    def describe(self) -> dict[str, Any]:
        """The circumstances of a run, for its record."""
        described = machine.describe(self.engine.description)
        described["engine"]["sha256"] = self.engine.digest
        return described

    def start(self, cell: Cell) -> RunningServer:
        """Starts the contestant of a cell, fresh, and waits until it accepts connections."""
        return LocalServer(contestants.start(cell, self.engine))

    def load(self, spec: LoadSpec) -> RunningLoad:
        """Starts the load generator."""
        return Load(self.engine, spec)


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A server of this host, and the account of its process tree."""

    server: contestants.Server

    @property
    def address(self) -> str:
        """Host and port."""
        return self.server.address

    @property
    def ready(self) -> ServeReady | None:
        """What it said when it was ready, if it speaks the contract."""
        return self.server.ready

    def check(self) -> None:
        """Raises TrialFailed when it has died."""
        self.server.check()

    def sample(self) -> Sample:
        """Reads the counters, the server's CPU clocks first."""
        return Sample(proc.usage(self.server.pid), machine.ticks(), proc.process_cpu_ns(os.getpid()))

    def memory(self) -> proc.Memory:
        """Its resident memory now."""
        return proc.memory(self.server.pid)

    def pss_bytes(self) -> int | None:
        """Its proportional memory; slow, so only for a server at rest."""
        return proc.pss_bytes(self.server.pid)

    def stop(self) -> None:
        """Ends it and everything it started."""
        self.server.child.stop()
