#!/usr/bin/env python3
"""How much the live view of a load run changes its figures.

Runs `iolab load` in pairs, each on its own terminal, one run with the view and one with --quiet, in random order,
against one server of the engine. Each pair gives a ratio of the rates and one of the p99s. The table has the estimate
of each ratio with its 95 % interval, and the lowest and highest pair: for a closed loop at the generator's maximum, and
for a fixed rate.

It only prints: the exit code is 0 whatever the figures. An interval that contains 1 means that this many pairs show no
effect.
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
# A part of the view's text.
SHOWN = b"s left; Ctrl-C"
COLUMNS, LINES = 100, 30


def main() -> int:
    parser = argparse.ArgumentParser(description="Print how much the live view changes the figures of a load run.")
    parser.add_argument("--pairs", type=int, default=10, help="pairs of runs for each load (default 10)")
    parser.add_argument("--duration", default="3s", help="length of a run (default 3s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the order within pairs (default 1)")
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
    """The figures of a run with the view and of one without, in random order."""
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
    """Everything that a command prints on its own terminal."""
    ours, theirs = pty.openpty()
    size = {"COLUMNS": str(COLUMNS), "LINES": str(LINES), "TERM": "xterm"}
    child = subprocess.Popen(argv, env=os.environ | size, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = bytearray()
    try:
        while chunk := os.read(ours, 1 << 16):
            shown += chunk
    except OSError:
        # Linux reports EIO once no process has the terminal open.
        pass
    os.close(ours)
    child.wait()
    return bytes(shown)


def row(name: str, metric: str, x: Sequence[float]) -> str:
    """A line of the table, from the logarithms of the ratios."""
    ratio = stats.ratio_of_pairs(x)
    told = "too few pairs" if ratio is None else f"{ratio.ratio:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]"
    return f"| {name} | {metric} | {len(x)} | {told} | {math.exp(min(x)):.3f} to {math.exp(max(x)):.3f} |"


if __name__ == "__main__":
    sys.exit(main())
