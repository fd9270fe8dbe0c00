"""How often a verdict is right: for two equal servers, and for one with 5 or 10 % more CPU per request.

    make bench-verdicts

Simulated suites go through plan, schedule, store and judge; only the figures of trials are random, for machines that
are steady, drift, have two states, or slow down with heavy tails. The seed is fixed: every run of the command prints
the same table. With --real, the servers run on this machine: epoll twice, where the second does more work in each rpc
call, calibrated in each round by the run of equal servers before it. The command first prints how long that takes.

"different": for equal servers, the suites that call any metric different at any setting; for others, those that find
CPU per request different. "wrong direction": the suites that call the server with more work better in any metric.
"coverage": of the 95 % intervals of CPU per request, with its own 95 % interval.

The exit code is 1 if more than 5 % of the suites call equal servers different, if any direction is wrong, or if 5 or
10 % more CPU is found in fewer than 8 of 10 suites (measured, 10 % more: in fewer than all). It is also 1 if fewer than
93 % of a simulated machine's intervals cover the truth, or if a measured run with more work takes longer than 5 minutes
(10 % more: 2 minutes).
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import common

# The tests have the simulation.
sys.path.insert(0, str(common.ROOT / "tests"))

import simulated_runs
from iolab import api
from iolab.contract.types import percent
from iolab.judge import stats
from iolab.judge.results import Results
from simulated_runs import Said, Study

CALLED_MAX, COVERED_MIN = 0.05, 0.93
# The settings of a suite of equal servers; a suite with more work has one setting.
CONNECTIONS = (10, 100)
SUITE_BLOCKS, WORK_BLOCKS = 12, 20
HEAD = "| machine | more CPU | suites | different | wrong direction | coverage |"


class Bar(NamedTuple):
    """How often more work must be found, simulated and measured; the blocks and longest time of a measured run."""

    simulated: float
    measured: float
    blocks: int
    seconds_max: float


# Keys: the extra work, as a share of a request's CPU time. Equal servers come first: their run measures that CPU time.
BARS = {
    0.0: Bar(0.0, 0.0, 20, math.inf),
    0.05: Bar(0.8, 0.8, 40, 300.0),
    0.10: Bar(0.8, 1.0, 20, 120.0),
}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--suites", type=common.at_least_one, default=200, help="simulated suites for each line (200)")
    options.add_argument("--real", action="store_true", help="measure servers on this machine instead of simulating")
    options.add_argument(
        "--rounds", type=common.at_least_one, default=20, help="runs of equal servers; half as many with more work (20)"
    )
    flags = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            return real(Path(folder), flags.rounds) if flags.real else simulated(Path(folder), flags.suites)
        except common.Skipped as reason:
            print(reason, file=sys.stderr)
            return 1


def simulated(folder: Path, suites: int) -> int:
    """A line for each machine and amount of work."""
    print(f"{HEAD}\n{'|---' * 6}|")
    missed = []
    for machine in simulated_runs.WEATHERS:
        studies = []
        for work, bar in BARS.items():
            with tempfile.TemporaryDirectory(dir=folder) as runs:
                studies.append(simulated_study(Path(runs), machine, suites, work))
            print(row(machine, work, studies[-1]), flush=True)
            missed += [f"{machine}, {percent(work)} more: {why}" for why in of_words(studies[-1], work, bar.simulated)]
        missed += [f"{machine}: {why}" for why in of_intervals(studies)]
    return ended(missed)


def simulated_study(runs: Path, machine: str, suites: int, work: float) -> Study:
    """Suites of one machine: of equal servers at several settings, or of one with more work at one setting."""
    plan = simulated_runs.plan_of(WORK_BLOCKS) if work else simulated_runs.suite_of(SUITE_BLOCKS, CONNECTIONS)
    # These runs need not survive a power failure. The bootstrap decides nothing and would take most of the time.
    with mock.patch.object(os, "fsync"), mock.patch.object(stats, "BOOTSTRAP_RESAMPLES", 99):
        return simulated_runs.study(runs, plan, simulated_runs.WEATHERS[machine], suites, work=work)


def of_intervals(studies: Sequence[Study]) -> Iterator[str]:
    """What the intervals of a machine miss, over all its lines."""
    covered, intervals = sum(each.covered for each in studies), sum(each.intervals for each in studies)
    if covered < COVERED_MIN * intervals:
        yield f"the intervals cover the truth in {covered} of {intervals}"


def of_words(study: Study, work: float, found_min: float) -> Iterator[str]:
    """What the verdicts of these suites miss."""
    if not work and study.different > CALLED_MAX * study.suites:
        yield f"{study.different} of {study.suites} suites call equal servers different"
    if study.different < found_min * study.suites:
        yield f"found in {study.different} of {study.suites}"
    if study.wrong:
        yield f"{study.wrong} of {study.suites} in the wrong direction"


def row(machine: str, work: float, study: Study) -> str:
    """The cells of a line of the table."""
    share, low, high = (f"{100 * each:.1f}" for each in study.coverage)
    wrong = study.wrong if work else "–"
    return f"| {machine} | {percent(work)} | {study.suites} | {study.different} | {wrong} | {share} % [{low}, {high}] |"


def ended(missed: list[str]) -> int:
    """Prints what was missed; returns the exit code."""
    for line in missed:
        print(f"MISSED {line}")
    return 1 if missed else 0


def real(folder: Path, rounds: int) -> int:
    """Measures on this machine. Every second round also has more work, so all kinds run in the same hours."""
    print(cost(rounds), flush=True)
    said: dict[float, list[Said]] = {work: [] for work in BARS}
    longest_s = dict.fromkeys(BARS, 0.0)
    for number in range(rounds):
        for work, found, took_s in round_of(folder / f"{number}", list(BARS)[: 1 if number % 2 else None]):
            said[work].append(simulated_runs.said(found, work))
            longest_s[work] = max(longest_s[work], took_s)
            print(f"{number + 1}: {percent(work)} more CPU: {found.verdicts[0].sentence}", flush=True)
    print(f"\n{HEAD} longest run |\n{'|---' * 7}|")
    missed = []
    for work, bar in BARS.items():
        study = simulated_runs.total(said[work])
        print(f"{row('this one', work, study)} {longest_s[work]:.0f} s |")
        missed += [f"{percent(work)} more: {why}" for why in of_words(study, work, bar.measured)]
        if longest_s[work] > bar.seconds_max:
            missed.append(f"{percent(work)} more: a run took longer than {bar.seconds_max:.0f} s")
    return ended(missed)


def round_of(out: Path, works: Iterable[float]) -> Iterator[tuple[float, Results, float]]:
    """One run for each amount of work, with its duration: equal servers first, then more work relative to their CPU."""
    same = None
    for work in works:
        more_ns = common.work_ns(same, work) if same else 0
        if same and more_ns is None:
            raise common.Skipped(f"no CPU time was measured: {same.verdicts[0].sentence}")
        began = time.monotonic()
        found = api.run(common.beside_itself(BARS[work].blocks, more_ns or 0), out=out)
        yield work, found, time.monotonic() - began
        same = same or found


def cost(rounds: int) -> str:
    """How long the measurement takes, printed before it starts."""
    counts = {work: (rounds + 1) // 2 if work else rounds for work in BARS}
    seconds = sum(count * common.beside_itself(BARS[work].blocks).duration_s for work, count in counts.items())
    parts = (f"{count} with {percent(work)} more ({BARS[work].blocks} blocks)" for work, count in counts.items())
    runs = ", ".join(parts)
    return f"Runs: {runs}. They take about {seconds / 60:.0f} minutes; leave the machine idle meanwhile."


if __name__ == "__main__":
    sys.exit(main())
