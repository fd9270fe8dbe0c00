"""What a server may run out of: how much of it is used, and how much there is."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable
from typing import NamedTuple

from iolab.machine.files import PROC, read


class Used(NamedTuple):
    """So much of so much."""

    used: int
    allowed: int

    @property
    def share(self) -> float:
        """How much of it is used, 0 to 1."""
        return self.used / self.allowed if self.allowed else 0.0


def descriptors(pids: Iterable[int]) -> Used | None:
    """The descriptors of the process that has used most of those it may have; None where none can be asked."""
    found = (_descriptors(pid) for pid in pids)
    return max((used for used in found if used is not None), key=lambda used: used.share, default=None)


def tasks() -> Used | None:
    """The processes and threads of the whole machine, and how many the kernel allows; None where it does not say."""
    now = (read(PROC / "loadavg") or "").split()
    limits = [read(PROC / "sys/kernel" / name) for name in ("threads-max", "pid_max")]
    known = [int(limit) for limit in limits if limit is not None]
    return Used(int(now[3].partition("/")[2]), min(known)) if len(now) > 3 and known else None


def ports(pid: int) -> Used | None:
    """The connections in TIME-WAIT in the network namespace of a process, and how many ports an address has for them.

    None where the kernel does not say.
    """
    said = (read(PROC / f"{pid}/net/sockstat") or "").split()
    between = (read(PROC / "sys/net/ipv4/ip_local_port_range") or "").split()
    if "tw" not in said or len(between) != 2:
        return None
    return Used(int(said[said.index("tw") + 1]), int(between[1]) - int(between[0]) + 1)


def address_space_bytes(pid: int) -> int:
    """How much a process has mapped, its threads' stacks included; 0 once it is gone."""
    pages = (read(PROC / f"{pid}/statm") or "0").split()[0]
    return int(pages) * resource.getpagesize()


def _descriptors(pid: int) -> Used | None:
    try:
        return Used(len(os.listdir(PROC / f"{pid}/fd")), resource.prlimit(pid, resource.RLIMIT_NOFILE)[0])
    except OSError:
        return None
