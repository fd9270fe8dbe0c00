"""A server under load: the load of a cell, the generator followed to its report, and an end to what was started."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from iolab.contract.types import HttpWorkload, Interval, LoadSpec, Report, updated
from iolab.measure.agent import RunningLoad, RunningServer
from iolab.measure.engine import TrialFailed
from iolab.plan.settings import Cell

# A dead server is noticed this soon.
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


def follow(
    load: RunningLoad,
    *,
    ready: Callable[[], None] = lambda: None,
    measuring: Callable[[], None] = lambda: None,
    interval: Callable[[Interval], None] = lambda interval: None,
    measured: Callable[[], None] = lambda: None,
    tick: Callable[[], None] = lambda: None,
    tick_s: float = TICK_S,
) -> Report:
    """Follows a generator to its report, and calls what is to be done at each of its events.

    The generator waits until `ready` and `measured` have returned, so they take no time from the window. `tick` is
    called whenever there was no event for `tick_s`. Raises TrialFailed when an event comes out of order. A run that was
    cut short may leave events out before its report.
    """
    due = [("ready", ready), ("measuring", measuring), ("measured", measured)]
    for event in load.events(tick_s):
        if event is None:
            tick()
        elif isinstance(event, Interval):
            interval(event)
        elif isinstance(event, Report):
            return event
        else:
            word, called = due.pop(0) if due else ("report", tick)
            if event.event != word:
                message = f"the load generator said {event.event} where {word} was due"
                raise TrialFailed("contract", message, final=True)
            called()
    raise TrialFailed("contract", "the load generator ended without a report", final=True)


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
