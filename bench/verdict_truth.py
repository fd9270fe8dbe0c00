"""How often a verdict is right: a server beside itself, and beside one that takes 5 or 10 % more CPU for each request.

    make bench-verdicts

Simulated suites go through plan, schedule, store and judge; only the figures of a trial are random, those of machines
that are steady, drift, have two states or slow down with heavy tails. The seed is fixed, so every run of the command
prints the same table. With --real, servers are measured here: epoll beside epoll, whose second does more work in rpc,
calibrated anew in each round by the run of equal servers before it. The command says beforehand how long that takes.

"Different": of equal servers, a suite that calls any metric different at any setting; of others, one that finds the CPU
per request different. "Wrong direction": the server with more work is called better in any metric. The coverage is that
of the 95 % intervals of CPU per request, with its own 95 % interval.

The exit code is 1 where more than 5 % of the suites of equal servers call them different, any direction is wrong, or
5 or 10 % more CPU is found in less than 8 of 10 (measured, 10 % more: in less than all). Simulated, it
is also 1 where all intervals of a machine cover the truth in less than 93 %; measured, where a run with more work takes
longer than 5 minutes (10 % more: 2 minutes).
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

# The simulation is that of the tests.
sys.path.insert(0, str(common.ROOT / "tests"))

import simulated_runs
from iolab import api
from iolab.contract.types import percent
from iolab.judge import stats
from iolab.judge.results import Results
from simulated_runs import Said, Study

CALLED_MAX, COVERED_MIN = 0.05, 0.93
# The settings of a page of equal servers; one with more work has one.
CONNECTIONS = (10, 100)
SUITE_BLOCKS, WORK_BLOCKS = 12, 20
HEAD = "| machine | more CPU | suites | different | wrong direction | coverage |"


class Bar(NamedTuple):
    """How often more work has to be found: simulated, and measured in runs of so many blocks and at most this time."""

    simulated: float
    measured: float
    blocks: int
    seconds_max: float


# By how much more work there is, as a share of a request's CPU time. Equal servers come first: their run says how much
# that is.
BARS = {
    0.0: Bar(0.0, 0.0, 20, math.inf),
    0.05: Bar(0.8, 0.8, 40, 300.0),
    0.10: Bar(0.8, 1.0, 20, 120.0),
}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--suites", type=common.at_least_one, default=200, help="simulated suites for each line (200)")
    options.add_argument("--real", action="store_true", help="measure servers here, and simulate nothing")
    options.add_argument(
        "--rounds", type=common.at_least_one, default=20, help="runs of equal servers; half as many of others (20)"
    )
    flags = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            return real(Path(folder), flags.rounds) if flags.real else simulated(Path(folder), flags.suites)
        except common.Skipped as reason:
            print(reason, file=sys.stderr)
            return 1


def simulated(folder: Path, suites: int) -> int:
    """A line for each machine and each amount of work."""
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
    """Suites of one machine: of equal servers at several settings, of one with more work at one."""
    plan = simulated_runs.plan_of(WORK_BLOCKS) if work else simulated_runs.suite_of(SUITE_BLOCKS, CONNECTIONS)
    # Nothing here has to survive a loss of power. The bootstrap decides nothing, and would take most of the time.
    with mock.patch.object(os, "fsync"), mock.patch.object(stats, "BOOTSTRAP_RESAMPLES", 99):
        return simulated_runs.study(runs, plan, simulated_runs.WEATHERS[machine], suites, work=work)


def of_intervals(studies: Sequence[Study]) -> Iterator[str]:
    """What the intervals of all lines of a machine miss."""
    covered, intervals = sum(each.covered for each in studies), sum(each.intervals for each in studies)
    if covered < COVERED_MIN * intervals:
        yield f"the intervals cover the truth in {covered} of {intervals}"


def of_words(study: Study, work: float, found_min: float) -> Iterator[str]:
    """What the words of these suites miss."""
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
    """Prints what was missed; the exit code."""
    for line in missed:
        print(f"MISSED {line}")
    return 1 if missed else 0


def real(folder: Path, rounds: int) -> int:
    """Rounds on this machine. Every second one has more work too, so that all kinds see the same hours."""
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
    """A run of each kind, and how long it took: equal servers first, and then more work in shares of their CPU time."""
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
    """How long the measurement takes, to be said before it begins."""
    counts = {work: (rounds + 1) // 2 if work else rounds for work in BARS}
    seconds = sum(count * common.beside_itself(BARS[work].blocks).duration_s for work, count in counts.items())
    parts = (f"{count} with {percent(work)} more ({BARS[work].blocks} blocks)" for work, count in counts.items())
    runs = ", ".join(parts)
    return f"Runs: {runs}. They take about {seconds / 60:.0f} minutes, in which this machine should do nothing else."


if __name__ == "__main__":
    sys.exit(main())
