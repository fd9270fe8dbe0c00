"""Everything that decides what one trial measures, with its limits and defaults."""

from __future__ import annotations

import hashlib
import json
import math
from functools import cached_property
from typing import Self

from pydantic import Field, model_validator

from iolab.contract.literals import Driver, WorkerKind
from iolab.contract.types import Connections, Count, Frozen, HttpWorkload, Threads, Workload
from iolab.plan.contestant import Contestant

Scalar = bool | int | str
Setting = dict[str, Scalar]
# A trial is at most an hour: it is lost as a whole, and a slip of the pen must not become a week of measuring.
TRIAL_MS_MAX = 3_600_000
# What a trial costs besides warm-up and window: two processes to start, connections to open, two to stop.
TRIAL_OVERHEAD_MS = 60
OVERHEAD_MS_A_CONNECTION = 0.1
QUICK_INTERVAL_MS = 10


class Cell(Frozen):
    """Everything that decides what one trial measures. Two cells with one key are the same measurement.

    CPU sets are numbers of logical processors; empty means not pinned. `threads` are the generator's, `workers` the
    server's, which listens on `sockets` addresses; the connections take those in turn. Times are in milliseconds; the
    warm-up is a multiple of the interval so that the window lies on an edge: see `whole_intervals_ms`.
    """

    contestant: Contestant
    workload: Workload
    connections: Connections = 50
    driver: Driver = "epoll"
    threads: Threads = 1
    workers: Threads = 1
    worker_kind: WorkerKind = "thread"
    sockets: int = Field(default=1, ge=1, le=64)
    server_cpus: tuple[Count, ...] = ()
    load_cpus: tuple[Count, ...] = ()
    warmup_ms: int = Field(default=1_000, ge=100, le=TRIAL_MS_MAX)
    duration_ms: int = Field(default=3_000, ge=100, le=TRIAL_MS_MAX)
    interval_ms: int = Field(default=20, ge=5, le=10_000)
    timeout_ms: int = Field(default=10_000, ge=1, le=TRIAL_MS_MAX)

    @model_validator(mode="after")
    def _window_on_an_edge(self) -> Self:
        if self.warmup_ms % self.interval_ms or self.duration_ms % self.interval_ms:
            raise ValueError(f"warmup_ms and duration_ms must be multiples of interval_ms ({self.interval_ms})")
        if self.threads > self.connections:
            raise ValueError(f"{self.threads} generator threads cannot share {self.connections} connections")
        if self.contestant.kind == "command" and self.sockets > 1:
            raise ValueError("sockets: a command is given one {port}, so it listens on one socket: use sockets 1")
        return self

    @cached_property
    def key(self) -> str:
        """16 hexadecimal digits that are the same on every machine and in every version that has these fields."""
        return digest_of(self.model_dump(mode="json"))

    @property
    def trial_ms(self) -> int:
        """How long one trial of this cell is expected to take, overhead included."""
        return (
            self.warmup_ms + self.duration_ms + TRIAL_OVERHEAD_MS + round(OVERHEAD_MS_A_CONNECTION * self.connections)
        )

    @property
    def held(self) -> int:
        """How many connections the server must serve at the same time: where each ends with its reply, any will do."""
        takes_turns = isinstance(self.workload, HttpWorkload) and not self.workload.keep_alive
        return 1 if takes_turns else self.connections


def whole_intervals_ms(time_ms: int) -> int:
    """A time of a trial, as much longer as whole intervals of the usual length take."""
    interval_ms: int = Cell.model_fields["interval_ms"].default
    return math.ceil(time_ms / interval_ms) * interval_ms


def digest_of(document: object) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
