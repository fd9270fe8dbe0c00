"""A server under load: what both sides of a trial share, whatever is measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from iolab.contract.types import HttpWorkload, LoadSpec, updated
from iolab.measure.agent import RunningLoad, RunningServer
from iolab.measure.engine import TrialFailed
from iolab.plan.settings import Cell

# Memory is sampled this often, and a dead server is noticed this soon.
TICK_S = 0.1
# How long after a failure of the generator a server may take to be seen dead.
DEATH_S_MAX = 0.5
Process = TypeVar("Process", RunningServer, RunningLoad)


def load_spec(cell: Cell, addresses: tuple[str, ...], **changes: object) -> LoadSpec:
    """The load of a cell on these addresses, with other values where they are given."""
    workload = cell.workload
    if isinstance(workload, HttpWorkload) and workload.host is None:
        workload = updated(workload, host=addresses[0])
    spec = LoadSpec(
        driver=cell.driver,
        workload=workload,
        connect=addresses,
        connections=cell.connections,
        threads=cell.threads,
        cpus=cell.load_cpus,
        warmup_ms=cell.warmup_ms,
        duration_ms=cell.duration_ms,
        timeout_ms=cell.timeout_ms,
        interval_ms=cell.interval_ms,
    )
    return updated(spec, **changes)


@contextmanager
def running(process: Process) -> Iterator[Process]:
    """Whatever happens, the process is stopped."""
    try:
        yield process
    finally:
        process.stop()


@contextmanager
def death_first(server: RunningServer) -> Iterator[None]:
    """Reports the death of the server rather than the generator's failure, which follows from it.

    A connection is reset before its process is seen to be dead: hence the wait.
    """
    try:
        yield
    except TrialFailed as failed:
        if failed.failure.kind != "died":
            server.check(DEATH_S_MAX)
        raise
