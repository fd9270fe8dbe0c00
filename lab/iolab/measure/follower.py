"""A server under load: the load of a cell, and the generator followed to its report."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar, cast

from iolab.contract.literals import Driver
from iolab.contract.types import ClosedLoop, HttpWorkload, Interval, LoadSpec, OpenLoop, Pace, Report, Stage, updated
from iolab.measure.agent import RunningClient, RunningLoad, RunningServer
from iolab.measure.engine import TrialFailed
from iolab.plan.settings import Cell, Load, Times

# A dead server is noticed within this time.
TICK_S = 0.1
# The most points of a series: three minutes in intervals of 20 ms.
INTERVALS_MAX = 10_000
# How long after a failure of the generator a server may be seen to die.
DEATH_S_MAX = 0.5
Process = TypeVar("Process", RunningServer, RunningLoad, RunningClient)


def load_spec(cell: Cell, server: RunningServer, *, seed: int = 1, **changes: object) -> LoadSpec:
    """The load of a cell on its server, with overrides; raises TrialFailed.

    `seed` determines the times of random arrivals. A number of requests ends the window and has no warm-up.
    """
    workload, load, times = cell.workload, cell.load, cell.trial
    if isinstance(workload, HttpWorkload) and workload.host is None:
        workload = updated(workload, host=server.addresses[0])
    counts = load.requests is not None
    assert load.client is None, "it is no load of the generator"
    spec = LoadSpec(
        driver=cast("Driver", load.driver),
        workload=workload,
        connect=server.addresses,
        connections=load.connections,
        idle=load.idle,
        connect_per_s=load.connect_per_s,
        pace=_pace(load, seed),
        active=load.active,
        pipeline=load.pipeline,
        requests_per_connection=load.requests_per_connection,
        probes=load.probes,
        spin_us=load.spin_us,
        threads=load.threads,
        processes=load.processes,
        cpus=load.cpus,
        netns=server.load_netns,
        warmup_ms=0 if counts else times.warmup_ms,
        duration_ms=None if counts else times.duration_ms,
        requests=load.requests,
        timeout_ms=times.timeout_ms,
        verify=load.verify,
        open=load.open,
        details=load.details,
        interval_ms=_interval_ms(times),
    )
    return updated(spec, **changes)


def _interval_ms(times: Times) -> int:
    """The interval of a trial, lengthened by a whole factor that keeps a series short."""
    intervals = math.ceil((times.warmup_ms + times.duration_ms) / times.interval_ms)
    return times.interval_ms * math.ceil(intervals / INTERVALS_MAX)


def _pace(load: Load, seed: int) -> Pace:
    """The pacing of requests."""
    if load.rate is None:
        return ClosedLoop()
    if load.rate_per_s is None:
        raise TrialFailed("cannot", f"load.rate: {load.rate} has not been measured: give a number", final=True)
    rate_per_s = load.rate_per_s
    return OpenLoop(arrivals=load.arrivals, seed=seed, stages=(Stage(from_per_s=rate_per_s, to_per_s=rate_per_s),))


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
    """Follows a generator to its report and calls the function for each of its events.

    The generator waits until `ready` and `measured` have returned, so they take no time from the window. `tick` is
    called after every `tick_s` without an event. Raises TrialFailed if an event is out of order. An interrupted run may
    leave out events before its report.
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
    """Stops the process in any case."""
    try:
        yield process
    finally:
        process.stop()


@contextmanager
def death_first(server: RunningServer) -> Iterator[None]:
    """Reports the death of the server rather than the generator's failure, which follows from it.

    A connection is reset before its process is seen to be dead, hence the wait.
    """
    try:
        yield
    except TrialFailed as failed:
        if failed.failure.kind != "died":
            server.check(DEATH_S_MAX)
        raise
