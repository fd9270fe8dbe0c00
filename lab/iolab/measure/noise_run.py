"""Short trials of one server against itself, in random pairs: how much equal servers differ on this machine.

The trials are those of any comparison, with the real generator, so they meet the same disturbances.
"""

from __future__ import annotations

from collections.abc import Sequence

from iolab.judge.resolution import Noise, noise_of
from iolab.judge.trial import judged
from iolab.machine.cpus import Cpu
from iolab.measure.agent import Host
from iolab.measure.placement import placed
from iolab.measure.progress import CLOCKS, Clocks
from iolab.measure.trial_run import measure
from iolab.plan.experiment import vs_plan
from iolab.plan.plan import Plan
from iolab.plan.schedule import block_trials
from iolab.plan.settings import QUICK_INTERVAL_MS
from iolab.results.records import Result

# The server that runs everywhere and does the least per request, so that only the machine varies.
SERVER = "epoll"
# More than an interval needs, because one or two are often discarded, and more blocks show the spread better.
BLOCKS = 10
WARMUP_MS, DURATION_MS = 100, 300
# No block begins after this. All blocks take about nine seconds; a machine on which they take longer is busy.
BEGIN_S_MAX = 15.0


def noise_plan() -> Plan:
    """A comparison of a server with itself, in trials as short as those that count syscalls."""
    times = {"warmup_ms": WARMUP_MS, "duration_ms": DURATION_MS, "interval_ms": QUICK_INTERVAL_MS}
    settings = {"workload.protocol": "echo", **{f"trial.{name}": value for name, value in times.items()}}
    return vs_plan((SERVER, SERVER), settings, blocks=BLOCKS)


def noise_run(host: Host, topology: Sequence[Cpu], clocks: Clocks = CLOCKS) -> Noise:
    """Runs the trials one after another and summarises them. A final failure ends the run."""
    plan, _ = placed(noise_plan(), topology)
    begin_s, results = clocks.monotonic_s(), list[Result]()
    for block in range(plan.blocks):
        if clocks.monotonic_s() - begin_s > BEGIN_S_MAX:
            break
        for scheduled in block_trials(plan, 0, block, attempt=0):
            cell = plan.cell(scheduled)
            results.append(judged(cell, measure(host, cell, scheduled, clocks)))
            failure = results[-1].failure
            if failure is not None and failure.final:
                return noise_of(plan, results, clocks.monotonic_s() - begin_s)
    return noise_of(plan, results, clocks.monotonic_s() - begin_s)
