"""A live view of a load by hand on a terminal: progress, rate, latencies and errors.

The engine reports events on a separate pipe and never waits for this process. This process draws at most twice a
second, at the lowest priority, and not on the generator's processors. It also detects a server on this machine that
shares a processor with the generator; without a terminal it only does that and draws nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import IO, Any, NamedTuple

from iolab.machine import port_owner, proc
from iolab.machine.task_cpus import SHARED_MIN, Pair, Watched

# The shortest time between two drawings, and between two samples of the processes.
LOOK_S = 0.5
# The number of slices in a drawing.
SHOWN_MAX = 60
BARS = "▁▂▃▄▅▆▇█"
CHUNK_BYTES = 1 << 16


class Slice(NamedTuple):
    """The part of one engine `interval` event that is shown."""

    rate_per_s: float
    p50_ns: int
    p99_ns: int


@dataclass(frozen=True)
class Seen:
    """The state of a run: its spec, the begin and end of its window, and its last slices."""

    connect: str = ""
    duration_ns: int | None = None
    requests: int | None = None
    cpus: tuple[int, ...] = ()
    began_ns: int | None = None
    is_over: bool = False
    slices: tuple[Slice, ...] = ()
    correct: int = 0
    wrong: int = 0
    failed: int = 0


def after(seen: Seen, line: str | bytes) -> Seen:
    """The state after one more line of the engine: first the spec, then events."""
    event: dict[str, Any] = json.loads(line)
    match event.get("event"):
        case None:
            duration_ms = event.get("duration_ms")
            duration_ns = None if duration_ms is None else duration_ms * 1_000_000
            connect, *_ = event.get("connect") or [""]
            requests, cpus = event.get("requests"), tuple(event["cpus"])
            return replace(seen, connect=connect, duration_ns=duration_ns, requests=requests, cpus=cpus)
        case "measuring":
            return replace(seen, began_ns=event["monotonic_ns"])
        case "interval":
            latency_ns = event["latency_ns"]
            last = Slice(event["rate_per_s"], latency_ns["p50"], latency_ns["p99"])
            return replace(
                seen,
                slices=(*seen.slices, last)[-SHOWN_MAX:],
                correct=seen.correct + event["correct"],
                wrong=seen.wrong + event["wrong"],
                failed=seen.failed + event["failed"],
            )
        case "measured":
            return replace(seen, is_over=True)
        case _:
            return seen


def drawing(seen: Seen, now_ns: int, width: int) -> str:
    """The view as lines of at most `width` columns."""
    lines = [progress(seen, now_ns)]
    if seen.slices:
        last = seen.slices[-1]
        rows = (
            ("rate", f"{last.rate_per_s:,.0f}/s", [each.rate_per_s for each in seen.slices]),
            ("p50", time_text(last.p50_ns), [float(each.p50_ns) for each in seen.slices]),
            ("p99", time_text(last.p99_ns), [float(each.p99_ns) for each in seen.slices]),
        )
        room = max(0, width - 22)
        lines += [f"{name:<6}{value:>14}  {sparkline(values[-room:] if room else [])}" for name, value, values in rows]
        lines.append(f"{'errors':<6}{seen.wrong + seen.failed:>14,}  {seen.wrong:,} wrong, {seen.failed:,} failed")
    return "\n".join(line[:width].rstrip() for line in lines)


def progress(seen: Seen, now_ns: int) -> str:
    """The progress of the run, in one line."""
    if seen.is_over:
        return "measured; writing the report"
    if seen.began_ns is None:
        return "connecting and warming up; Ctrl-C ends it"
    gone_s = max(0.0, (now_ns - seen.began_ns) / 1e9)
    if seen.requests is not None:
        done = seen.correct + seen.wrong + seen.failed
        return f"measuring: {gone_s:.0f} s, {done:,} of {seen.requests:,} requests; Ctrl-C ends it early"
    whole_s = (seen.duration_ns or 0) / 1e9
    left_s = max(0.0, whole_s - gone_s)
    return f"measuring: {min(gone_s, whole_s):.0f} s, {left_s:.0f} s left; Ctrl-C ends it early"


def sparkline(values: Sequence[float]) -> str:
    """A bar for each value, in proportion to the highest."""
    most = max(values, default=0.0)
    if most <= 0:
        return BARS[0] * len(values)
    return "".join(BARS[round(value / most * (len(BARS) - 1))] for value in values)


def time_text(ns: float) -> str:
    """A time with three digits and a suitable unit."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= 0.9995 * size:
            value = ns / size
            return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f} {unit}"
    return f"{ns:.0f} ns"


@dataclass(slots=True)
class Sharing:
    """Whether the server and the generator of a run shared a processor; unknown for a server on another machine."""

    load_pid: int
    server_pid: int | None = None
    pair: Pair | None = None

    def look(self, seen: Seen) -> None:
        """Samples both during the window."""
        if seen.began_ns is None or seen.is_over:
            return
        if self.pair is None and seen.connect:
            self.server_pid = port_owner.find(seen.connect)
            self.pair = Pair(Watched(proc.look(self.server_pid or 0)), Watched(proc.look(self.load_pid)))
        if self.server_pid is not None and self.pair is not None:
            self.pair.look()

    def warning(self) -> str:
        """One line if the server spent more than SHARED_MIN of its time on the generator's processors; else empty."""
        if self.server_pid is None or self.pair is None or self.pair.shared_share <= SHARED_MIN:
            return ""
        share, cpus = f"{100 * self.pair.shared_share:.0f} %", ",".join(map(str, sorted(self.pair.shared_ns)))
        server = f"the server (process {self.server_pid}, {port_owner.name(self.server_pid)})"
        advice = "start each on its own, as with taskset -c 0 and taskset -c 1"
        return f"warning: {server} ran on the generator's CPU ({cpus}) for {share} of its time: {advice}"


def show(events: IO[bytes], load_pid: int) -> str:
    """Draws the engine's events until the last; returns a warning or an empty text."""
    from rich.console import Console  # only for drawing
    from rich.live import Live
    from rich.text import Text

    sharing, console = Sharing(load_pid), Console(stderr=True)
    with Live(
        console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
    ) as live:
        for seen in _followed(events, sharing):
            live.update(Text(drawing(seen, time.monotonic_ns(), console.width)), refresh=True)
    return sharing.warning()


def look_on(events: IO[bytes], load_pid: int) -> str:
    """Samples both sides until the window ends and draws nothing; returns a warning or an empty text."""
    sharing = Sharing(load_pid)
    for seen in _followed(events, sharing):
        if seen.is_over:
            break
    return sharing.warning()


def _followed(events: IO[bytes], sharing: Sharing) -> Iterator[Seen]:
    """Yields the state of a run after every sample, until the engine's last event."""
    _stand_aside(frozenset())
    seen, begun, looked_s = Seen(), b"", 0.0
    while True:
        wait_s = max(0.0, looked_s + LOOK_S - time.monotonic())
        if select.select([events], [], [], wait_s or LOOK_S)[0]:
            chunk = events.read(CHUNK_BYTES)
            if not chunk:
                return
            *lines, begun = (begun + chunk).split(b"\n")
            known = seen.cpus
            for line in lines:
                seen = after(seen, line)
            if seen.cpus != known:
                _stand_aside(frozenset(seen.cpus))
        now_s = time.monotonic()
        if now_s >= looked_s + LOOK_S:
            looked_s = now_s
            sharing.look(seen)
            yield seen


def _stand_aside(cpus: frozenset[int]) -> None:
    """Runs at idle priority, and away from these processors if there are others."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        if others := os.sched_getaffinity(0) - cpus:
            os.sched_setaffinity(0, others)
