#!/usr/bin/env python3
"""Compares `iolab capacity` with servers of known capacity.

By default, runs ten searches with the command's default flags against a token bucket of 20,000 requests per second
(bench/truth) on a CPU of its own. Random arrivals queue at a bucket even slightly below its rate; the true capacity,
at which half of the runs meet the limit, comes from simulating the bucket.

With --simulated, runs many searches of simulated servers, without waiting: a steady one, a noisy one, one on a machine
with two states, one that pauses, and one limited by the generator.

The exit code is 1 if a real search has no figure, or one more than 2 % off, or if the figures differ by more than 5 %;
and if fewer than 93 % of the intervals of simulated searches cover the truth.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from common import ROOT, SLACK_S, Skipped, at_least_one, build, last_line, pinned

SLO, LIMIT_S = "p99<5ms", 5e-3
# The bucket, and the simulated run: warm-up and window as in a run of a search.
BURST = 100
WARMUP_S, WINDOW_S = 0.5, 1.0
WINDOWS = 100
# Largest error of a figure, largest spread of the figures, and smallest share of intervals that cover the truth.
ERROR_MAX, SPREAD_MAX, COVERED_MIN = 0.02, 0.05, 0.93
CAPACITY_S_MAX = 600.0


@dataclass(frozen=True)
class Found:
    """The result of one search, and how long the whole command took."""

    rate_per_s: float
    low_per_s: float
    high_per_s: float
    runs: int
    seconds: float

    @property
    def words(self) -> str:
        interval = f"[{self.low_per_s:,.0f}, {self.high_per_s:,.0f}]"
        return f"{self.rate_per_s:,.0f}/s {interval}, {self.runs} runs, {self.seconds:.0f} s"


def bucket_capacity_per_s(rate_per_s: float) -> float:
    """The rate of random arrivals at which a bucket meets the limit in half of the runs."""
    low, high = 0.8 * rate_per_s, 1.2 * rate_per_s
    while high - low > 1e-4 * rate_per_s:
        middle = (low + high) / 2
        held = sum(bucket_holds(rate_per_s, middle, np.random.default_rng(seed)) for seed in range(WINDOWS))
        low, high = (middle, high) if 2 * held >= WINDOWS else (low, middle)
    return low


def bucket_holds(rate_per_s: float, asked_per_s: float, chance: np.random.Generator) -> bool:
    """Whether p99 is under the limit in one run."""
    arrivals_s = np.cumsum(chance.exponential(1 / asked_per_s, size=round(asked_per_s * (WARMUP_S + WINDOW_S))))
    order, interval_s = np.arange(len(arrivals_s)), 1 / rate_per_s
    full_s = np.maximum.accumulate(arrivals_s - interval_s * order) + interval_s * (order + 1)
    waits_s = np.maximum(full_s - BURST * interval_s - arrivals_s, 0)
    return float(np.quantile(waits_s[arrivals_s >= WARMUP_S], 0.99)) < LIMIT_S


@contextmanager
def bucket(program: str, rate_per_s: int) -> Iterator[str]:
    """Runs a bucket on the first CPU; yields its URL."""
    command = pinned(
        min(os.sched_getaffinity(0)), [program, "bucket", "--rate", str(rate_per_s), "--burst", str(BURST)]
    )
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            yield f"http://{json.loads(process.stdout.readline())['listen']}/"
        finally:
            # The bucket exits when its standard input closes.
            process.stdin.close()
            process.stdout.read()
            process.wait(SLACK_S)


def search(url: str) -> Found:
    """Runs one search with the default flags."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as runs:
        iolab = [sys.executable, "-m", "iolab", "capacity", "--slo", SLO, "--json", "--out", runs, url]
        done = subprocess.run(iolab, capture_output=True, text=True, timeout=CAPACITY_S_MAX, check=False)
    if done.returncode != 0 and not done.stdout.startswith("{"):
        raise Skipped(last_line(done.stderr))
    document: dict[str, Any] = json.loads(done.stdout)
    if document["kind"] != "capacity":
        raise Skipped(document["sentences"][0])
    low, high = document["interval_per_s"]
    return Found(document["capacity_per_s"], low, high, len(document["runs"]), time.monotonic() - began)


def real(flags: argparse.Namespace) -> int:
    program = flags.server or build_server()
    truth = bucket_capacity_per_s(flags.rate)
    print(f"A token bucket of {flags.rate:,}/s meets {SLO} in half of the runs at {truth:,.0f}/s (computed).")
    found: list[Found] = []
    for number in range(1, flags.runs + 1):
        with bucket(program, flags.rate) as url:
            try:
                found.append(search(url))
            except Skipped as why:
                print(f"{number:>3}: no figure: {why}", flush=True)
                continue
        error = found[-1].rate_per_s / truth - 1
        print(f"{number:>3}: {found[-1].words}: {100 * error:+.1f} %", flush=True)
    if not found:
        return 1
    rates = [each.rate_per_s for each in found]
    error, spread = max(abs(rate / truth - 1) for rate in rates), (max(rates) - min(rates)) / statistics.median(rates)
    covered = sum(each.low_per_s <= truth <= each.high_per_s for each in found)
    seconds = statistics.median(each.seconds for each in found)
    print(
        f"{len(found)} of {flags.runs} have a figure; largest error {100 * error:.1f} %, spread {100 * spread:.1f} %, "
        f"the interval covers the truth in {covered}; {seconds:.0f} s (median)"
    )
    return 1 if len(found) < flags.runs or error > ERROR_MAX or spread > SPREAD_MAX else 0


def simulated(flags: argparse.Namespace) -> int:
    sys.path.insert(0, str(ROOT / "tests"))
    import simulated_servers as servers

    print("| server | figures | covered | error: median | 95 % | largest | probes | seconds |\n" + 8 * "|---" + "|")
    is_good = True
    for name, (make, truths) in servers.STUDIES.items():
        done = servers.study(make, truths, flags.simulated)
        covered = done.covered / done.searches
        is_good &= len(done.errors) == done.searches and covered >= COVERED_MIN
        errors = " | ".join(f"{100 * done.error(share):.1f} %" for share in (0.5, 0.95, 1.0))
        figures = f"{len(done.errors)} of {done.searches} | {100 * covered:.1f} %"
        spans = f"{done.probes[0]:.0f}, at most {done.probes[1]} | {done.seconds[0]:.0f}, at most {done.seconds[1]:.0f}"
        print(f"| {name} | {figures} | {errors} | {spans} |", flush=True)
    is_good &= of_unseen_states(servers, flags.simulated)
    is_good &= of_a_generator(servers, flags.simulated)
    return 0 if is_good else 1


def of_unseen_states(servers: Any, searches: int) -> bool:
    """A machine with two states that no measurement shows: the figure is between them."""
    settings, states = servers.Settings(servers.LIMITS), (servers.SLOW, servers.FAST)
    chances = (np.random.default_rng(seed) for seed in range(searches))
    done = [servers.searched(servers.Moving(states, each, labels=False), settings).done for each in chances]
    slow, fast = (state.capacity_per_s for state in states)
    between = sum(each.kind == "capacity" and 0.97 * slow <= each.rate_per_s <= 1.03 * fast for each in done)
    print(f"two states, not visible ({slow:,.0f}/s and {fast:,.0f}/s): {between} of {searches} figures are in between")
    return between == searches


def of_a_generator(servers: Any, searches: int) -> bool:
    """A server limited by the generator: "at least" the generator's rate, within 5 %."""
    settings, server = servers.Settings(servers.LIMITS), servers.Server(1e9, generator_per_s=80_000.0)
    chances = (np.random.default_rng(seed) for seed in range(searches))
    noisy = ((replace(server, generator_per_s=80_000 * (1 + 0.02 * each.standard_normal())), each) for each in chances)
    good = 0
    for machine, chance in noisy:
        done = servers.searched(servers.alone(machine, chance), settings).done
        share = (done.rate_per_s or 0.0) / machine.generator_per_s
        good += done.kind == "at least" and 0.95 <= share <= 1.0
    print(f'limited by the generator: {good} of {searches} say "at least" 95 to 100 % of its rate')
    return good == searches


def build_server() -> str:
    target = ROOT / "target/truth"
    manifest = ["--manifest-path", str(ROOT / "bench/truth/Cargo.toml"), "--target-dir", str(target)]
    build(["cargo", "build", "--quiet", "--release", "--locked", *manifest])
    return str(target / "release/truth")


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare `iolab capacity` with servers of known capacity.")
    parser.add_argument("--runs", type=at_least_one, default=10, help="searches of the token bucket (10)")
    parser.add_argument("--rate", type=at_least_one, default=20_000, help="requests per second of the bucket (20000)")
    parser.add_argument("--server", metavar="PATH", help="a built bench/truth, instead of building it")
    parser.add_argument(
        "--simulated", type=at_least_one, metavar="N", help="N searches of each simulated server instead"
    )
    flags = parser.parse_args()
    try:
        return simulated(flags) if flags.simulated else real(flags)
    except Skipped as reason:
        print(f"no server of known capacity: {reason}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
