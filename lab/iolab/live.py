"""A run of the load generator by hand, watched: how far it is, its rate, its latencies and its errors, on a terminal.

The engine runs as a child and tells what happens on a pipe of its own. It never waits for this process, which stands
aside: it draws at most twice a second, with the lowest priority there is, and not on the generator's processors. What
the engine says for people is kept until the view is gone, because both go to the same terminal.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import IO, Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from iolab.contract import Interval

# Flags with which the engine is wanted alone: its answer is for a program, or for no run at all.
ALONE = frozenset({"--json", "--quiet", "-q", "--spec", "--help", "-h", "--self-test"})
# How long a drawing stands at least.
DRAW_S = 0.5
# Slices that are drawn beside each other.
SHOWN_MAX = 60
BARS = "▁▂▃▄▅▆▇█"
CHUNK_BYTES = 1 << 16


@dataclass(frozen=True)
class Seen:
    """What is known of a run: what it is to be, when its window began and ended, and its last slices."""

    duration_ns: int | None = None
    requests: int | None = None
    cpus: tuple[int, ...] = ()
    began_ns: int | None = None
    is_over: bool = False
    slices: tuple[Interval, ...] = ()
    correct: int = 0
    wrong: int = 0
    failed: int = 0


def is_wanted(arguments: Sequence[str]) -> bool:
    """Whether a run with these arguments is one to watch, if there is a terminal to show it on."""
    return not any(argument.partition("=")[0] in ALONE for argument in arguments)


def has_terminal() -> bool:
    """Whether standard error is a terminal that can be drawn on."""
    console = Console(stderr=True)
    return console.is_terminal and not console.is_dumb_terminal


def after(seen: Seen, line: str | bytes) -> Seen:
    """What is known after one more line of the engine: first what the run is to be, then what happens."""
    told: dict[str, Any] = json.loads(line)
    match told.get("event"):
        case None:
            duration_ms = told.get("duration_ms")
            duration_ns = None if duration_ms is None else duration_ms * 1_000_000
            return replace(seen, duration_ns=duration_ns, requests=told.get("requests"), cpus=tuple(told["cpus"]))
        case "measuring":
            return replace(seen, began_ns=told["monotonic_ns"])
        case "interval":
            interval = Interval.model_validate(told)
            return replace(
                seen,
                slices=(*seen.slices, interval)[-SHOWN_MAX:],
                correct=seen.correct + interval.correct,
                wrong=seen.wrong + interval.wrong,
                failed=seen.failed + interval.failed,
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
            ("p50", time_text(last.latency_ns.p50), [float(each.latency_ns.p50) for each in seen.slices]),
            ("p99", time_text(last.latency_ns.p99), [float(each.latency_ns.p99) for each in seen.slices]),
        )
        room = max(0, width - 22)
        lines += [f"{name:<6}{value:>14}  {sparkline(values[-room:] if room else [])}" for name, value, values in rows]
        lines.append(f"{'errors':<6}{seen.wrong + seen.failed:>14,}  {seen.wrong:,} wrong, {seen.failed:,} failed")
    return "\n".join(line[:width].rstrip() for line in lines)


def progress(seen: Seen, now_ns: int) -> str:
    """How far the run is, in one line."""
    if seen.is_over:
        return "measured; writing it down"
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
    """A time with three digits and the unit that suits it."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= 0.9995 * size:
            value = ns / size
            return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f} {unit}"
    return f"{ns:.0f} ns"


def watch(engine: Path, arguments: Sequence[str]) -> int:
    """Runs `load` with these arguments and shows it; returns the exit code. Raises OSError if it cannot be started."""
    reading, writing = os.pipe()
    is_shared = sys.stdout.isatty()
    with tempfile.TemporaryFile() as said, open(reading, "rb", buffering=0) as events:
        try:
            child = subprocess.Popen(
                ["iolab", "load", "--events-fd", str(writing), *arguments],
                executable=engine,
                stdout=said if is_shared else None,
                stderr=said,
                pass_fds=(writing,),
                # Ctrl-C comes to this process, which passes it on: the engine is to get it once.
                process_group=0,
            )
        finally:
            os.close(writing)
        with _passing_on(child):
            _stand_aside(frozenset())
            # A terminal that is gone is no reason to end the run.
            with contextlib.suppress(OSError):
                _show(events)
            code = child.wait()
        said.seek(0)
        with contextlib.suppress(OSError):
            _repeat(said, sys.stdout.buffer if is_shared else sys.stderr.buffer)
    return code if code >= 0 else 128 - code


def _show(events: IO[bytes]) -> None:
    """Draws what the engine tells until it tells no more."""
    seen, begun, drawn_s = Seen(), b"", 0.0
    console = Console(stderr=True)
    with Live(
        console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
    ) as live:
        while True:
            wait_s = max(0.0, drawn_s + DRAW_S - time.monotonic())
            if select.select([events], [], [], wait_s or DRAW_S)[0]:
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
            if now_s >= drawn_s + DRAW_S:
                drawn_s = now_s
                live.update(Text(drawing(seen, time.monotonic_ns(), console.width)), refresh=True)


def _stand_aside(cpus: frozenset[int]) -> None:
    """Runs when nobody else wants to, and not on these processors if there are others."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        if others := os.sched_getaffinity(0) - cpus:
            os.sched_setaffinity(0, others)


@contextlib.contextmanager
def _passing_on(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Passes on to the engine what asks this process to end; the engine then reports what it has measured."""

    def pass_on(number: int, _frame: FrameType | None) -> None:
        child.send_signal(signal.SIGINT if number == signal.SIGINT else signal.SIGTERM)

    kept = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def _repeat(said: IO[bytes], out: IO[bytes]) -> None:
    while chunk := said.read(CHUNK_BYTES):
        out.write(chunk)
    out.flush()
