"""How often `iolab compare` is right: for the same build twice, and for a build with 5 % more work in each request.

    make bench-compare

Simulated runs go through the real store. They have noise in each trial, a slow drift, and a speed level that differs
between the two runs. With --real, the servers run on this machine: epoll twice, where the second run does 5 % more work
in each rpc call. Each pair takes two to three minutes.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import common

# The tests have the simulation.
sys.path.insert(0, str(common.ROOT / "tests"))

import simulated_runs
from iolab import api
from simulated_runs import Weather

WORK, THRESHOLD = 0.05, 0.03
# Per run: the noise of a trial, the number of blocks, the drift of the machine (standard deviations of the step between
# trials and of the level of a run), and whether the server runs alone.
STEADY, DRIFTING, WILD = (0.0, 0.0), (0.01, 0.03), (0.03, 0.0)
RUNS = (
    *((0.02, blocks, DRIFTING, False) for blocks in (12, 20, 40)),
    *((0.05, blocks, DRIFTING, False) for blocks in (40, 80)),
    *((0.02, 20, drift, True) for drift in (STEADY, DRIFTING, WILD)),
)
WORKS_ALONE = (0.0, WORK, 0.25)
REAL_BLOCKS = 20


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--pairs", type=common.at_least_one, default=40, help="pairs of runs for each line")
    options.add_argument("--real", action="store_true", help="measure servers on this machine instead of simulating")
    chosen = options.parse_args()
    print(f"threshold {THRESHOLD:.0%}; {chosen.pairs} pairs of runs a line\n")
    with tempfile.TemporaryDirectory() as folder:
        for line in real(Path(folder), chosen.pairs) if chosen.real else simulated(Path(folder), chosen.pairs):
            print(line, flush=True)


def simulated(folder: Path, pairs: int) -> Iterator[str]:
    """A line for each kind of run and amount of work."""
    yield f"{'':16}{'noise':>6}{'blocks':>7}{'drift':>7}{'level':>7}{'work':>7}  result"
    for noise, blocks, (step, level), alone in RUNS:
        plan = simulated_runs.plan_of(blocks, alone=alone)
        for work in WORKS_ALONE if alone else (0.0, WORK):
            # These runs need not survive a power failure.
            with mock.patch.object(os, "fsync"), tempfile.TemporaryDirectory(dir=folder) as runs:
                counts = simulated_runs.outcomes(
                    Path(runs), plan, Weather(noise, step, level), pairs, work=work, threshold=THRESHOLD
                )
            name = "unpaired" if alone else "paired"
            figures = f"{noise:6.0%}{blocks:7}{step:7.0%}{level:7.0%}{work:+7.0%}"
            yield f"{name:16}{figures}  {words(counts, pairs)}"


def real(folder: Path, pairs: int) -> Iterator[str]:
    """The same build twice and one with more work, measured on this machine."""
    counts: dict[str, Counter[str]] = {"the same build": Counter(), f"{WORK:+.0%} work": Counter()}
    for pair in range(pairs):
        first = api.run(common.beside_itself(REAL_BLOCKS), out=folder / f"{pair}-a")
        more_ns = common.work_ns(first, WORK)
        if more_ns is None:
            continue
        for name, work_ns in zip(counts, (0, more_ns), strict=True):
            second = api.run(common.beside_itself(REAL_BLOCKS, work_ns), out=folder / f"{pair}-{work_ns}")
            found = api.compare(first.folder, second.folder, threshold=THRESHOLD, allow={"plan"})
            counts[name][simulated_runs.outcome(found)] += 1
    for name, results in counts.items():
        yield f"{name:16}{words(results, results.total())}"


def words(counts: Counter[str], pairs: int) -> str:
    return ", ".join(f"{counts[each]} of {pairs} {each}" for each in ("passes", "regression", "too noisy"))


if __name__ == "__main__":
    main()
