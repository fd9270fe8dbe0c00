"""What this machine allows a process and a user: descriptors, tasks, memory, ports, and kernel features.

Everything is read from files below one folder: /, or a test's. A value that cannot be read is None, never a guess.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from iolab.machine import cgroups
from iolab.machine.files import read

ROOT = Path("/")
# Capabilities by their bits in /proc/self/status (linux/capability.h).
CAP_IPC_LOCK, CAP_SYS_RESOURCE = 14, 24
SYSCTLS = (
    *("fs.file-max", "fs.nr_open", "kernel.threads-max", "kernel.pid_max", "vm.max_map_count"),
    *("net.core.somaxconn", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_congestion_control"),
    *("kernel.io_uring_disabled", "kernel.perf_event_paranoid"),
    *("user.max_user_namespaces", "kernel.unprivileged_userns_clone", "kernel.apparmor_restrict_unprivileged_userns"),
)
# Folders of settings that containers often mount read-only.
SETTINGS = ("/proc/sys", "/sys")
# The file below SYS_CPU that turns turbo frequencies on and off, and its values for on and off.
TURBO = (("intel_pstate/no_turbo", "0", "1"), ("cpufreq/boost", "1", "0"))
SYS_CPU = "sys/devices/system/cpu"


class Limit(NamedTuple):
    """A limit of a process, which may raise the soft one up to the hard one. Infinite if unlimited."""

    soft: float
    hard: float


class Turbo(NamedTuple):
    """Whether turbo frequencies are on, the file that controls them, and the value that turns them off."""

    is_on: bool
    file: str
    off: str


@dataclass(frozen=True, slots=True)
class HostLimits:
    """What this machine allows. `sysctls` holds those that this kernel has, `groups` the version of each controller's
    hierarchy. `group_processes` and `group_bytes` are the smallest limits from our control group up to the root.
    """

    user: int | None = None
    capabilities: int = 0
    read_only: tuple[str, ...] = ()
    descriptors: Limit | None = None
    processes: Limit | None = None
    locked_bytes: Limit | None = None
    sysctls: Mapping[str, str] | None = None
    groups: Mapping[str, int] | None = None
    group_processes: int | None = None
    group_bytes: int | None = None
    available_bytes: int | None = None
    governor: str | None = None
    turbo: Turbo | None = None
    smt: bool | None = None
    has_tun: bool = False

    @property
    def is_root(self) -> bool:
        """Whether this process is root within its user namespace."""
        return self.user == 0

    def may(self, capability: int) -> bool:
        """Whether this process has a capability."""
        return bool(self.capabilities >> capability & 1)

    def sysctl(self, name: str) -> str | None:
        """A kernel setting; None if this kernel does not have it."""
        return (self.sysctls or {}).get(name)

    def number(self, name: str) -> int | None:
        """A numeric kernel setting."""
        text = self.sysctl(name)
        return int(text) if text is not None and text.lstrip("-").isdigit() else None

    def facts(self) -> dict[str, Any]:
        """Everything as JSON; an infinite limit is "unlimited"."""
        return {name: _plain(value) for name, value in asdict(self).items()}


def host_limits(root: Path = ROOT) -> HostLimits:
    """Reads what this machine allows."""
    limits, status = read(root / "proc/self/limits") or "", _fields(read(root / "proc/self/status") or "")
    meminfo = _fields(read(root / "proc/meminfo") or "")
    mountinfo = read(root / "proc/self/mountinfo") or ""
    sysctls = {name: read(root / "proc/sys" / name.replace(".", "/")) for name in SYSCTLS}
    uids, available_kib = status.get("Uid", "").split(), meminfo.get("MemAvailable", "").split()
    smt = read(root / SYS_CPU / "smt/active")
    return HostLimits(
        user=int(uids[1]) if len(uids) > 1 else None,
        capabilities=int(status.get("CapEff", "0"), 16),
        read_only=tuple(folder for folder in SETTINGS if _is_read_only(mountinfo, folder)),
        descriptors=_limit(limits, "Max open files"),
        processes=_limit(limits, "Max processes"),
        locked_bytes=_limit(limits, "Max locked memory"),
        sysctls={name: text for name, text in sysctls.items() if text is not None},
        groups=cgroups.versions(root),
        group_processes=_least(cgroups.said("pids", ("pids.max",), root)),
        group_bytes=_least(cgroups.said("memory", ("memory.limit_in_bytes", "memory.max"), root)),
        available_bytes=int(available_kib[0]) << 10 if available_kib else None,
        governor=read(root / SYS_CPU / "cpu0/cpufreq/scaling_governor"),
        turbo=_turbo(root),
        smt=None if smt is None else smt == "1",
        has_tun=(root / "dev/net/tun").exists(),
    )


def _plain(value: Any) -> Any:
    if isinstance(value, Limit):
        return {name: "unlimited" if math.isinf(each) else int(each) for name, each in value._asdict().items()}
    return value._asdict() if isinstance(value, Turbo) else value


def _fields(text: str) -> dict[str, str]:
    """Parses a file of `name: value` lines."""
    return {name: value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}


def _limit(text: str, name: str) -> Limit | None:
    """A line of /proc/self/limits: name, soft limit, hard limit and unit."""
    line = next((line for line in text.splitlines() if line.startswith(name)), None)
    if line is None:
        return None
    soft, hard = (math.inf if word == "unlimited" else float(word) for word in line.removeprefix(name).split()[:2])
    return Limit(soft, hard)


def _least(texts: Iterable[str]) -> int | None:
    return min((int(text) for text in texts if text.isdigit()), default=None)


def _is_read_only(mountinfo: str, folder: str) -> bool:
    """Whether the innermost mount of a folder is read-only; of stacked mounts, the last one counts."""
    innermost, is_read_only = "", False
    for line in mountinfo.splitlines():
        point, options = line.split()[4:6]
        holds = folder == point or folder.startswith(point.rstrip("/") + "/")
        if holds and len(point) >= len(innermost):
            innermost, is_read_only = point, "ro" in options.split(",")
    return is_read_only


def _turbo(root: Path) -> Turbo | None:
    for file, on, off in TURBO:
        if (said := read(root / SYS_CPU / file)) is not None:
            return Turbo(said == on, f"/{SYS_CPU}/{file}", off)
    return None
