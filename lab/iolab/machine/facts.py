"""The facts of the machine that every record holds."""

from __future__ import annotations

import os
import platform
import resource
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from iolab.contract.types import Description
from iolab.machine.cpus import cores_of, topology
from iolab.machine.files import PROC, SYS_CPU, read
from iolab.machine.noise import interrupts_apart, ticks

CGROUP = Path("/sys/fs/cgroup")


def describe(engine: Description | None = None, versions: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The circumstances of a run, for machine.json. A value that cannot be read is None, never a guess."""
    cpuinfo = read(PROC / "cpuinfo") or ""
    meminfo = read(PROC / "meminfo") or ""
    here = topology()
    return {
        "schema": 1,
        # Trials are comparable only while these are the same; the store refuses to mix them.
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
            "cores": len(cores_of(here)),
            "topology": [cpu._asdict() for cpu in here],
            "caches": _caches(),
            "governor": read(SYS_CPU / "cpu0/cpufreq/scaling_governor"),
            "turbo_off": read(SYS_CPU / "intel_pstate/no_turbo"),
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
    """How many processors the control group's quota allows at once (v2, else v1); None without a limit.

    The smallest quota from our group up to the root counts, because each of them applies.
    """
    lines = (membership if membership is not None else read(PROC / "self/cgroup") or "").splitlines()
    limits = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            limits += [_v2_quota(folder) for folder in _up(cgroup, path)]
        elif "cpu" in controllers.split(","):
            limits += [_v1_quota(folder) for folder in _up(cgroup / "cpu", path)]
    known = [limit for limit in limits if limit is not None]
    return min(known) if known else None


def _caches() -> list[dict[str, str | None]]:
    names = ("level", "type", "size", "shared_cpu_list")
    return [{name: read(index / name) for name in names} for index in sorted((SYS_CPU / "cpu0/cache").glob("index*"))]


def _mitigations() -> dict[str, str | None]:
    return {path.name: read(path) for path in sorted((SYS_CPU / "vulnerabilities").glob("*"))}


def _thp() -> str | None:
    text = read(Path("/sys/kernel/mm/transparent_hugepage/enabled"))
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
    return read(PROC / "sys" / name)


def _up(root: Path, path: str) -> list[Path]:
    """The folders of a control group and its parents; in a container only the root may exist."""
    folder = root / path.strip("/")
    return [folder, *(parent for parent in folder.parents if parent == root or root in parent.parents)]


def _v2_quota(folder: Path) -> float | None:
    quota, _, period = (read(folder / "cpu.max") or "max").partition(" ")
    return None if quota == "max" else int(quota) / int(period)


def _v1_quota(folder: Path) -> float | None:
    quota, period = read(folder / "cpu.cfs_quota_us"), read(folder / "cpu.cfs_period_us")
    return None if quota is None or period is None or int(quota) <= 0 else int(quota) / int(period)


def _after(text: str, name: str) -> str | None:
    """The value of the first `name : value` line."""
    found = (line.partition(":")[2].strip() for line in text.splitlines() if line.partition(":")[0].strip() == name)
    return next(found, None)
