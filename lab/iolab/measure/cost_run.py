"""What a request and a connection cost a server: syscalls and memory, measured in an untimed run."""

from __future__ import annotations

from typing import Any

from iolab.contract.types import Report
from iolab.measure.agent import Calls, Host
from iolab.measure.engine import TrialFailed
from iolab.measure.follower import death_first, follow, load_spec, running
from iolab.plan.settings import Cell

# The share of its window that a count spans. The rest allows for a late lab.
COUNTED_SHARE = 0.5


def costs(host: Host, cell: Cell) -> dict[str, Any]:
    """The fields of a count from one trial; raises TrialFailed.

    Memory is read at the end of the window, while the server is idle. Syscalls are counted within the window; the
    requests between the two readings come from the generator's intervals.
    """
    if cell.load.client is not None or cell.load.connections == 0:
        return {"why_not": "only requests of iolab's generator are counted"}
    counted, own_bytes = list[Calls](), list[int | None]()

    def count() -> None:
        counted.append(server.calls())

    def count_again() -> None:
        if len(counted) == 1:
            count()

    def weigh() -> None:
        own_bytes.append(server.own_bytes())

    with running(host.start(cell, count_calls=True)) as server, death_first(server):
        weigh()
        with running(host.load(load_spec(cell, server))) as load:
            tick_s = COUNTED_SHARE * cell.trial.duration_ms / 1_000
            report = follow(load, measuring=count, measured=weigh, tick=count_again, tick_s=tick_s)
    if len(counted) < 2 or len(own_bytes) < 2 or counted[-1].read_ns > report.end_ns:
        raise TrialFailed("lab_late", "the lab ran too late to count syscalls: stop other programs")
    before, after = counted
    memory = {"own_bytes_before": own_bytes[0], "own_bytes": own_bytes[1]}
    if before.calls is None or after.calls is None:
        return {"why_not": before.why_not or "the server did not say why", **memory}
    requests = _completed(report, before.read_ns, after.read_ns)
    return {"requests": requests, "calls": max(0, after.calls - before.calls), **memory}


def _completed(report: Report, begin_ns: int, end_ns: int) -> int:
    """The requests answered between two instants, by the generator's intervals and fractions of them."""
    series = report.intervals
    completed = 0.0
    for number, count in enumerate(series.completed):
        slice_ns = series.begin_ns + number * series.length_ns
        inside_ns = min(end_ns, slice_ns + series.length_ns) - max(begin_ns, slice_ns)
        completed += count * max(0, inside_ns) / series.length_ns
    return round(completed)
