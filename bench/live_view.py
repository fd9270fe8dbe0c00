#!/usr/bin/env python3
"""What the live view of a load run changes in its figures: nothing, or by how much.

Pairs of runs of `iolab load` on a terminal of their own, one with the view and one with --quiet, in random order,
against one server of the engine. Each pair gives a ratio of the rates and one of the 99th percentiles; printed are the
estimate of the ratio with its 95 % interval, and the lowest and highest pair. Once in a closed loop, which takes all
the generator can, and once by a schedule.

This prints and never judges: the exit code is 0 whatever comes out. An interval that holds 1 says that the view cannot
be told from none, at that many pairs.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pty
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from iolab.contract.types import HttpWorkload, ServeSpec
from iolab.judge import stats
from iolab.machine.cpus import choose_cpus, topology
from iolab.measure.binary import EngineError
from iolab.measure.engine import TrialFailed, open_engine, serve

LOADS = {"closed loop, 50 connections": ["-c", "50"], "5 000/s, 50 connections": ["-c", "50", "--rate", "5000"]}
METRICS = ("rate", "p99")
PROGRAM = "import sys; from iolab.__main__ import main; sys.exit(main())"
# What stands on the terminal while the view is there.
SHOWN = b"s left; Ctrl-C"
COLUMNS, LINES = 100, 30


def main() -> int:
    parser = argparse.ArgumentParser(description="Print what the live view changes in the figures of a load run.")
    parser.add_argument("--pairs", type=int, default=10, help="pairs of runs for each load (default 10)")
    parser.add_argument("--duration", default="3s", help="of the window of a run (default 3s)")
    parser.add_argument("--seed", type=int, default=1, help="decides the order within the pairs (default 1)")
    flags = parser.parse_args()
    try:
        engine = open_engine()
        cpus = choose_cpus(topology())
        spec = ServeSpec(model="epoll", workload=HttpWorkload(), cpus=cpus.server)
        child, ready = serve(engine, spec)
    except (EngineError, TrialFailed) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"Engine {engine.description.version}, build {engine.description.build}; {cpus.why}\n")
    print(
        "| load | figure | pairs | with the view / without | lowest and highest pair |\n| --- | --- | --- | --- | --- |"
    )
    choice = random.Random(flags.seed)
    try:
        for name, load in LOADS.items():
            processors = ["--cpus", ",".join(map(str, cpus.load))] if cpus.load else []
            argv = [f"http://{ready.listen[0]}/", "-z", flags.duration, *load, *processors]
            pairs = [pair(argv, choice) for _ in range(flags.pairs)]
            for metric in METRICS:
                print(row(name, metric, [math.log(seen[metric] / quiet[metric]) for seen, quiet in pairs]), flush=True)
    finally:
        child.stop()
    return 0


def pair(argv: Sequence[str], choice: random.Random) -> tuple[dict[str, float], dict[str, float]]:
    """The figures of a run with the view and of one without, one after the other in random order."""
    first = choice.random() < 0.5
    figures = {is_watched: run(argv, is_watched=is_watched) for is_watched in (first, not first)}
    return figures[True], figures[False]


def run(argv: Sequence[str], *, is_watched: bool) -> dict[str, float]:
    """The rate and the 99th percentile of one run on a terminal."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.json"
        words = ["load", *argv, "--write", str(path), *([] if is_watched else ["--quiet"])]
        shown = on_terminal([sys.executable, "-c", PROGRAM, *words])
        if (SHOWN in shown) != is_watched:
            raise SystemExit(f"the view was {'not ' if is_watched else ''}shown:\n{shown.decode(errors='replace')}")
        report: dict[str, Any] = json.loads(path.read_text())
    return {"rate": report["rate_per_s"], "p99": report["latency_ns"]["p99"]}


def on_terminal(argv: Sequence[str]) -> bytes:
    """All that a command shows on a terminal of its own."""
    ours, theirs = pty.openpty()
    size = {"COLUMNS": str(COLUMNS), "LINES": str(LINES), "TERM": "xterm"}
    child = subprocess.Popen(argv, env=os.environ | size, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = bytearray()
    try:
        while chunk := os.read(ours, 1 << 16):
            shown += chunk
    except OSError:
        # So Linux says that no process has the terminal open any more.
        pass
    os.close(ours)
    child.wait()
    return bytes(shown)


def row(name: str, metric: str, x: Sequence[float]) -> str:
    """A line of the table from the logarithms of the ratios."""
    ratio = stats.ratio_of_pairs(x)
    told = "too few pairs" if ratio is None else f"{ratio.ratio:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]"
    return f"| {name} | {metric} | {len(x)} | {told} | {math.exp(min(x)):.3f} to {math.exp(max(x)):.3f} |"


if __name__ == "__main__":
    sys.exit(main())
