"""The servers of the benchmarks: the engine's models and those of the registry, started and stopped by the lab."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from common import Server, Skipped

from iolab.contract.types import Workload
from iolab.measure import contestants, registered
from iolab.measure.contestants import Prepared
from iolab.measure.engine import Engine, TrialFailed
from iolab.measure.registered import Absent
from iolab.plan import registry, settings
from iolab.plan.contestant import Contestant
from iolab.plan.settings import Cell

REGISTRY = registry.load()


@contextlib.contextmanager
def start_server(name: str, workload: Workload, engine: Engine, cpu: int) -> Iterator[Server]:
    """Runs a server on one CPU; raises Skipped."""
    cell = Cell(contestant=Contestant.parse(name), workload=workload, server=settings.Server(cpus=(cpu,)))
    prepared = prepare(name, cell)
    try:
        server = contestants.start(cell, engine, prepared)
    except TrialFailed as failed:
        raise Skipped(failed.failure.line) from None
    try:
        if server.ready is None:
            entry = prepared[name]
            about = f"{entry.version}: {entry.listed.entry.about}"
        else:
            without = f", without {', '.join(server.ready.lacks)}" if server.ready.lacks else ""
            about = f"ours, build {server.ready.build}{without}"
        yield Server(server.pids[0], int(server.addresses[0].rpartition(":")[2]), about)
    finally:
        server.stop()


def prepare(name: str, cell: Cell) -> Prepared:
    """Builds a server of the registry; empty for a model of the engine. Raises Skipped."""
    listed = REGISTRY.get(name)
    if listed is None:
        return {}
    if why := registry.refusal(listed, cell):
        raise Skipped(why)
    try:
        return {name: registered.prepare(listed)}
    except Absent as why_not:
        raise Skipped(str(why_not)) from None
