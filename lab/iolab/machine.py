"""The machine as it is: what goes into every record, which processors to use, and whether it is fit to measure.

Nothing here changes the machine. What could be better is said, with what to do, and the run goes on.
"""

from __future__ import annotations

import gzip
import os
import platform
import resource
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from iolab.contract import Description, percent
from iolab.plan import APART_MAX, MachineNoise, PlanError
from iolab.proc import TICK_NS

SYS_CPU = Path("/sys/devices/system/cpu")
CGROUP = Path("/sys/fs/cgroup")
PROC = Path("/proc")

# Beyond these, doctor says something. They are about the machine at rest, before anything is measured.
LOAD_PER_CPU_MAX = 0.2
FREE_BYTES_MIN = 1 << 30
NOFILE_MIN = 4_096
SOMAXCONN_MIN = 1_024
STEAL_SHARE_MAX = 0.01


class Cpu(NamedTuple):
    """A logical processor. Two with the same package and core are SMT siblings."""

    id: int
    core: int
    package: int = 0
    node: int = 0


@dataclass(frozen=True, slots=True)
class CpuSets:
    """Which processors the server and the generator are bound to (empty: not bound), and why, in one sentence."""

    server: tuple[int, ...]
    load: tuple[int, ...]
    why: str


def choose_cpus(topology: Sequence[Cpu], workers: int = 1, threads: int = 1) -> CpuSets:
    """Processors for `workers` of a server and `threads` of a generator that share no core, not even as SMT siblings.

    One logical processor of each core comes first, within one NUMA node if one suffices, and the first core is left to
    interrupts and to the lab where there are cores to spare. Where cores are short, siblings are used, but a core
    never serves both sides. Where even that is impossible nothing is bound: a worse split would measure the split.
    """
    cores = _cores(topology)
    if len(cores) == 1:
        what = "one processor" if len(topology) == 1 else "one core"
        return CpuSets((), (), f"there is only {what}: server and generator share it, which slows both")
    wanted = workers + threads
    nodes = [_cores([cpu for cpu in topology if cpu.node == node]) for node in sorted({cpu.node for cpu in topology})]
    near = next((node for node in nodes if len(node) >= wanted), cores)
    if len(near) >= wanted:
        spare = 1 if len(near) > wanted else 0
        first = [core[0] for core in near[spare : spare + wanted]]
        siblings = "; their SMT siblings stay idle" if any(len(core) > 1 for core in near) else ""
        return CpuSets(tuple(first[:workers]), tuple(first[workers:]), f"one core for each thread{siblings}")
    server, rest = _whole_cores(cores, workers)
    load, _ = _whole_cores(rest, threads)
    if len(server) >= workers and len(load) >= threads:
        return CpuSets(server[:workers], load[:threads], "too few cores, so SMT siblings are used, never across sides")
    return CpuSets(
        (), (), f"{workers} workers and {threads} generator threads do not fit on {len(topology)} processors: not bound"
    )


def topology(sys_cpu: Path = SYS_CPU, allowed: Iterable[int] | None = None) -> tuple[Cpu, ...]:
    """The processors this process may use, in order of their numbers."""
    ids = sorted(os.sched_getaffinity(0) if allowed is None else allowed)
    return tuple(_cpu(sys_cpu / f"cpu{id_}", id_) for id_ in ids)


class Ticks(NamedTuple):
    """The first line of /proc/stat at one instant, in nanoseconds of processor time summed over all processors.

    `interrupts_ns` is time in interrupts where the kernel keeps it apart from the tasks it interrupted, else 0.
    """

    total_ns: int
    idle_ns: int
    steal_ns: int
    interrupts_ns: int = 0


def ticks(stat: str | None = None, *, apart: bool | None = None) -> Ticks:
    """Reads /proc/stat, or the text of one; `apart` is what `interrupts_apart` says, unless given.

    Most of our traffic on loopback is handled in soft interrupts. A kernel that bills them to nobody would make us look
    like a foreign load, so there they are left out of what others used.
    """
    text = (PROC / "stat").read_text() if stat is None else stat
    fields = [int(field) * TICK_NS for field in text.split("\n", 1)[0].split()[1:]]
    _user, _nice, _system, idle, iowait, irq, softirq, steal = (fields + [0] * 8)[:8]
    interrupts = irq + softirq if (interrupts_apart() if apart is None else apart) else 0
    return Ticks(sum(fields[:8]), idle + iowait, steal, interrupts)


@cache
def interrupts_apart() -> bool:
    """Whether this kernel keeps the time of interrupts apart from tasks. Where it does not tell: most kernels do."""
    try:
        config = gzip.decompress((PROC / "config.gz").read_bytes()).decode()
    except OSError:
        config = _read(Path("/boot") / f"config-{platform.release()}") or "CONFIG_IRQ_TIME_ACCOUNTING=y"
    return "CONFIG_IRQ_TIME_ACCOUNTING=y" in config.split()


def noise(
    before: Ticks,
    after: Ticks,
    *,
    ours_ns: int,
    wall_ns: int,
    cpu_ns: int,
    run_delay_ns: int | None,
    apart_ns: tuple[float, float] | None = None,
) -> MachineNoise:
    """What everybody else did between two readings that lie `wall_ns` apart.

    `ours_ns` is the processor time of server, generator and lab together; `cpu_ns` and `run_delay_ns` are the server's
    alone. Ticks are 10 ms, so little noise over a short window may come out as none, never as less than none.
    """
    total_ns = max(1, after.total_ns - before.total_ns)
    steal_ns = max(0, after.steal_ns - before.steal_ns)
    busy_ns = total_ns - (after.idle_ns - before.idle_ns) - steal_ns - (after.interrupts_ns - before.interrupts_ns)
    delay = None if run_delay_ns is None else max(0, run_delay_ns) / max(1, cpu_ns)
    return MachineNoise(
        steal_share=min(1.0, steal_ns / total_ns),
        foreign_cpu_cores=max(0, busy_ns - ours_ns) / max(1, wall_ns),
        run_delay_share=delay,
        apart_ns=apart_ns,
    )


def describe(engine: Description | None = None, versions: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The circumstances of a run, for machine.json. What cannot be read is None, never a guess."""
    cpuinfo = _read(PROC / "cpuinfo") or ""
    meminfo = _read(PROC / "meminfo") or ""
    here = topology()
    return {
        "schema": 1,
        # Trials are comparable only while these stay as they are; the store refuses to mix them.
        "identity": {
            "host": platform.node(),
            "kernel": platform.release(),
            "processor": _after(cpuinfo, "model name"),
            "engine": None if engine is None else engine.build,
        },
        "system": {"os": platform.system(), "kernel": platform.release(), "architecture": platform.machine()},
        "cpu": {
            "model": _after(cpuinfo, "model name"),
            "logical": len(here),
            "cores": len(_cores(here)),
            "topology": [cpu._asdict() for cpu in here],
            "caches": _caches(),
            "governor": _read(SYS_CPU / "cpu0/cpufreq/scaling_governor"),
            "turbo_off": _read(SYS_CPU / "intel_pstate/no_turbo"),
            "hypervisor": "hypervisor" in (_after(cpuinfo, "flags") or "").split(),
            "mitigations": _mitigations(),
        },
        "memory": {"total": _after(meminfo, "MemTotal"), "available": _after(meminfo, "MemAvailable"), "thp": _thp()},
        "limits": {
            "cgroup_cpus": cgroup_cpus(),
            "nofile": list(resource.getrlimit(resource.RLIMIT_NOFILE)),
            "somaxconn": _sysctl("net/core/somaxconn"),
            "port_range": _sysctl("net/ipv4/ip_local_port_range"),
        },
        "network": {"congestion_control": _sysctl("net/ipv4/tcp_congestion_control")},
        "interrupts_apart": interrupts_apart(),
        "load_average": list(os.getloadavg()),
        "steal_share_since_boot": _steal_share_since_boot(),
        "io_uring": _io_uring(engine),
        "engine": None if engine is None else {"version": engine.version, "build": engine.build},
        "versions": {"python": platform.python_version(), **(versions or {})},
    }


def cgroup_cpus(cgroup: Path = CGROUP, membership: str | None = None) -> float | None:
    """How many processors the control group's quota allows at once (v2, else v1); None when it sets no limit.

    The smallest quota from our group up to the root counts, because each of them binds.
    """
    lines = (membership if membership is not None else _read(PROC / "self/cgroup") or "").splitlines()
    limits = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            limits += [_v2_quota(folder) for folder in _up(cgroup, path)]
        elif "cpu" in controllers.split(","):
            limits += [_v1_quota(folder) for folder in _up(cgroup / "cpu", path)]
    known = [limit for limit in limits if limit is not None]
    return min(known) if known else None


Status = Literal["ok", "warn", "bad"]


class Check(NamedTuple):
    """One thing doctor looked at: what it found, and what to do about it (empty when it is ok)."""

    status: Status
    what: str
    found: str
    advice: str = ""


def doctor(
    machine: Mapping[str, Any], engine: Description | None, trouble: str = "", distances_ns: Sequence[float] = ()
) -> tuple[Check, ...]:
    """Judges a description of a machine. `trouble` says why there is no engine, `distances_ns` how far apart the
    processors of a server and of its generator were over a few seconds. Reads nothing, changes nothing.
    """
    return (
        *_engine_checks(engine, trouble),
        *_cpu_checks(machine),
        *_distance_checks(distances_ns),
        *_limit_checks(machine),
    )


def _engine_checks(engine: Description | None, trouble: str) -> list[Check]:
    if engine is None:
        return [Check("bad", "engine", trouble, "Nothing can be measured without it.")]
    checks = [Check("ok", "engine", f"{engine.version}, build {engine.build}")]
    for kind, items in (("model", engine.models), ("driver", engine.drivers)):
        for item in items:
            if not item.available:
                advice = "It is left out; allow it (container profile, sysctl) or use a newer kernel."
                checks.append(Check("warn", f"{kind} {item.name}", item.why_not or "not available", advice))
    return checks


def _cpu_checks(machine: Mapping[str, Any]) -> list[Check]:
    cpu, logical = machine["cpu"], machine["cpu"]["logical"]
    sets = choose_cpus([Cpu(**c) for c in cpu["topology"]])
    load, quota, steal = machine["load_average"][0], machine["limits"]["cgroup_cpus"], machine["steal_share_since_boot"]
    governor = cpu["governor"]
    return [
        _check(
            bool(sets.server),
            "processors",
            f"{cpu['cores']} cores ({logical} logical): {sets.why}",
            "Trust CPU per request more than throughput: the generator takes what the server could use.",
        ),
        _check(
            load <= LOAD_PER_CPU_MAX * logical,
            "load average",
            f"{load:.2f} on {logical} processors",
            "Something else is running: end it, or expect discarded trials and wide intervals.",
        ),
        _check(
            quota is None or quota >= logical,
            "CPU quota",
            "none" if quota is None else f"{quota:g} of {logical} processors",
            "A quota stops all threads for the rest of each period, which ruins tail latency: lift it.",
        ),
        _check(
            governor in (None, "performance"),
            "frequency governor",
            governor or "not visible",
            "Speed follows the load: set it to performance while you measure, as in cpupower frequency-set.",
        ),
        _check(
            steal is None or steal <= STEAL_SHARE_MAX,
            "steal since boot",
            "unknown" if steal is None else percent(steal, 2),
            "The hypervisor gives this machine's time to others: measure at another hour, or run more blocks.",
        ),
    ]


def _distance_checks(distances_ns: Sequence[float]) -> list[Check]:
    if not distances_ns:
        return []
    least_ns, most_ns = min(distances_ns), max(distances_ns)
    stays = most_ns <= APART_MAX * least_ns
    return [
        _check(
            stays,
            "distance of processors",
            f"{least_ns:.0f} ns to and fro"
            if stays
            else f"{least_ns:.0f} to {most_ns:.0f} ns to and fro, within seconds",
            "The host moves the processors, and rates change threefold: run more blocks, or ask for pinned processors.",
        )
    ]


def _limit_checks(machine: Mapping[str, Any]) -> list[Check]:
    nofile, somaxconn = machine["limits"]["nofile"][0], machine["limits"]["somaxconn"]
    congestion = machine["network"]["congestion_control"]
    return [
        _check(
            nofile == resource.RLIM_INFINITY or nofile >= NOFILE_MIN,
            "open files",
            "unlimited" if nofile == resource.RLIM_INFINITY else str(nofile),
            f"At most about {nofile - 64} connections can be open: raise it with ulimit -n.",
        ),
        _check(
            somaxconn is None or int(somaxconn) >= SOMAXCONN_MIN,
            "listen queue",
            somaxconn or "unknown",
            "Many connections at once may be refused: raise net.core.somaxconn, or use fewer.",
        ),
        _check(
            congestion in (None, "cubic", "reno"),
            "congestion control",
            congestion or "unknown",
            "It paces with timers even on loopback: set net.ipv4.tcp_congestion_control to cubic, or read ratios only.",
        ),
        _check(
            machine["memory"]["thp"] != "always",
            "transparent huge pages",
            machine["memory"]["thp"] or "unknown",
            "Resident sizes are rounded up to huge pages: compare memory with that in mind.",
        ),
    ]


def parse_cpus(text: str) -> tuple[int, ...]:
    """Reads processors written as `0,2` or `0-3`; raises PlanError for what this process may not use."""
    cpus: list[int] = []
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            cpus += range(int(first), int(last or first) + 1)
    except ValueError:
        raise PlanError(f"{text!r} names no processors: write 0,2 or 0-3") from None
    allowed = os.sched_getaffinity(0)
    absent = sorted(set(cpus) - allowed)
    if absent:
        raise PlanError(f"processor {absent[0]} may not be used here: choose among {sorted(allowed)}")
    return tuple(dict.fromkeys(cpus))


def cpu_words(cpus: Sequence[int]) -> str:
    """A CPU set for people."""
    return "on any CPU" if not cpus else f"on CPU {','.join(map(str, cpus))}"


def _check(good: bool, what: str, found: str, advice: str) -> Check:
    return Check("ok", what, found) if good else Check("warn", what, found, advice)


def _cores(topology: Sequence[Cpu]) -> list[list[int]]:
    """The logical processors of each physical core."""
    cores: dict[tuple[int, int, int], list[int]] = {}
    for cpu in topology:
        cores.setdefault((cpu.node, cpu.package, cpu.core), []).append(cpu.id)
    return list(cores.values())


def _whole_cores(cores: Sequence[list[int]], wanted: int) -> tuple[tuple[int, ...], list[list[int]]]:
    """The processors of as many whole cores as hold `wanted` threads, and the cores that are left."""
    taken: list[int] = []
    rest = list(cores)
    while rest and len(taken) < wanted:
        taken += rest.pop(0)
    return tuple(taken), rest


def _cpu(folder: Path, id_: int) -> Cpu:
    core, package = _read(folder / "topology/core_id"), _read(folder / "topology/physical_package_id")
    node = next((int(path.name[4:]) for path in folder.glob("node[0-9]*")), 0)
    # A machine that does not tell has a core for each processor, as far as anyone can know.
    return Cpu(id_, id_ if core is None else int(core), max(0, int(package or 0)), node)


def _caches() -> list[dict[str, str | None]]:
    names = ("level", "type", "size", "shared_cpu_list")
    return [{name: _read(index / name) for name in names} for index in sorted((SYS_CPU / "cpu0/cache").glob("index*"))]


def _mitigations() -> dict[str, str | None]:
    return {path.name: _read(path) for path in sorted((SYS_CPU / "vulnerabilities").glob("*"))}


def _thp() -> str | None:
    text = _read(Path("/sys/kernel/mm/transparent_hugepage/enabled"))
    return None if text is None else text.partition("[")[2].partition("]")[0]


def _io_uring(engine: Description | None) -> dict[str, Any] | None:
    about = next((driver for driver in engine.drivers if driver.name == "io_uring"), None) if engine else None
    if about is None:
        return None
    return {"available": about.available, "why_not": about.why_not, "lacks": list(about.lacks)}


def _steal_share_since_boot() -> float | None:
    try:
        now = ticks()
    except OSError:
        return None
    return now.steal_ns / max(1, now.total_ns)


def _sysctl(name: str) -> str | None:
    return _read(PROC / "sys" / name)


def _up(root: Path, path: str) -> list[Path]:
    """The folders of a control group and of all its parents; in a container only the root may exist."""
    folder = root / path.strip("/")
    return [folder, *(parent for parent in folder.parents if parent == root or root in parent.parents)]


def _v2_quota(folder: Path) -> float | None:
    quota, _, period = (_read(folder / "cpu.max") or "max").partition(" ")
    return None if quota == "max" else int(quota) / int(period)


def _v1_quota(folder: Path) -> float | None:
    quota, period = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
    return None if quota is None or period is None or int(quota) <= 0 else int(quota) / int(period)


def _after(text: str, name: str) -> str | None:
    """The value of the first line `name : value`."""
    found = (line.partition(":")[2].strip() for line in text.splitlines() if line.partition(":")[0].strip() == name)
    return next(found, None)


def _read(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None
