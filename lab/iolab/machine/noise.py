"""The load of other programs during a measurement."""

from __future__ import annotations

import gzip
import platform
from functools import cache
from pathlib import Path
from typing import NamedTuple

from iolab.machine.files import PROC, read
from iolab.machine.proc import TICK_NS
from iolab.results.records import MachineNoise

# Kernel work after the end of a thread or process: the kernel leaves the ended thread off the account of its process,
# or does the work in its own threads. Servers that start 15,000 to 30,000 threads a second took 5 to 8 microseconds for
# each. Without this allowance the ends of their own threads would look like foreign load.
END_NS_MAX = 10_000


class Ticks(NamedTuple):
    """The processor time in /proc/stat at one instant, in nanoseconds summed over all processors.

    `interrupts_ns` is time in interrupts if the kernel accounts for it separately from the interrupted tasks, else 0.
    `started` counts the processes and threads started since boot.
    """

    total_ns: int
    idle_ns: int
    steal_ns: int
    interrupts_ns: int = 0
    started: int = 0


def ticks(stat: str | None = None, *, apart: bool | None = None) -> Ticks:
    """Parses /proc/stat or `stat`; `apart` overrides `interrupts_apart`.

    Most of our loopback traffic is handled in soft interrupts. A kernel that bills them to no task would make our own
    traffic look like foreign load, so they are left out of the time of other programs.
    """
    text = (PROC / "stat").read_text() if stat is None else stat
    fields = [int(field) * TICK_NS for field in text.split("\n", 1)[0].split()[1:]]
    _user, _nice, _system, idle, iowait, irq, softirq, steal = (fields + [0] * 8)[:8]
    interrupts = irq + softirq if (interrupts_apart() if apart is None else apart) else 0
    started = next((int(line.split()[1]) for line in text.splitlines() if line.startswith("processes ")), 0)
    return Ticks(sum(fields[:8]), idle + iowait, steal, interrupts, started)


@cache
def interrupts_apart() -> bool:
    """Whether this kernel accounts for interrupts separately from tasks. Assumed, as on most kernels, if unknown."""
    try:
        config = gzip.decompress((PROC / "config.gz").read_bytes()).decode()
    except OSError:
        config = read(Path("/boot") / f"config-{platform.release()}") or "CONFIG_IRQ_TIME_ACCOUNTING=y"
    return "CONFIG_IRQ_TIME_ACCOUNTING=y" in config.split()


def noise(
    before: Ticks,
    after: Ticks,
    *,
    ours_ns: int,
    wall_ns: int,
    cpu_ns: int,
    run_delay_ns: int | None,
    core_to_core_ns: tuple[float, float] | None = None,
) -> MachineNoise:
    """The load of all other programs between two readings that are `wall_ns` apart.

    `ours_ns` is the processor time of server, generator and lab together; `cpu_ns` and `run_delay_ns` are the server's
    alone. Ticks are 10 ms, so a little noise over a short window may read as 0, never as less.
    """
    total_ns = max(1, after.total_ns - before.total_ns)
    steal_ns = max(0, after.steal_ns - before.steal_ns)
    busy_ns = total_ns - (after.idle_ns - before.idle_ns) - steal_ns - (after.interrupts_ns - before.interrupts_ns)
    ends_ns = END_NS_MAX * (after.started - before.started)
    delay = None if run_delay_ns is None else max(0, run_delay_ns) / max(1, cpu_ns)
    return MachineNoise(
        steal_share=min(1.0, steal_ns / total_ns),
        foreign_cpu_cores=max(0, busy_ns - ours_ns - ends_ns) / max(1, wall_ns),
        run_delay_share=delay,
        core_to_core_ns=core_to_core_ns,
    )
