"""Resources that a server may run out of: how much is used, and how much there is."""

from __future__ import annotations

import ipaddress
import os
import resource
import sys
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from iolab.machine.files import PROC, read

# TIME-WAIT in /proc/net/tcp.
TIME_WAIT = "06"


class Used(NamedTuple):
    """How much of a resource is used, and its limit."""

    used: int
    allowed: int

    @property
    def share(self) -> float:
        """The used share, 0 to 1."""
        return self.used / self.allowed if self.allowed else 0.0


def descriptors(pids: Iterable[int]) -> Used | None:
    """Descriptors of the process that is nearest to its limit; None if no process could be read."""
    found = (_descriptors(pid) for pid in pids)
    return max((used for used in found if used is not None), key=lambda used: used.share, default=None)


def tasks() -> Used | None:
    """Processes and threads of the whole machine, and the kernel's limit; None if it cannot be read."""
    now = (read(PROC / "loadavg") or "").split()
    limits = [read(PROC / "sys/kernel" / name) for name in ("threads-max", "pid_max")]
    known = [int(limit) for limit in limits if limit is not None]
    return Used(int(now[3].partition("/")[2]), min(known)) if len(now) > 3 and known else None


def ports(pid: int, server: Iterable[str]) -> Used | None:
    """The local ports in TIME-WAIT after connections to one of these server addresses.

    Counts the client address with most of them, in the network namespace of `pid`. None if the kernel's tables cannot
    be read. A connection that the server closed first waits at the server and takes no client port.
    """
    between = (read(PROC / "sys/net/ipv4/ip_local_port_range") or "").split()
    rows = [
        line.split() for table in ("tcp", "tcp6") for line in (read(PROC / f"{pid}/net/{table}") or "").splitlines()
    ]
    if len(between) != 2 or not rows:
        return None
    ends = {_in_table(address) for address in server if not address.startswith("unix:")}
    waiting = Counter(row[1].partition(":")[0] for row in rows if row[3] == TIME_WAIT and row[2] in ends)
    return Used(max(waiting.values(), default=0), int(between[1]) - int(between[0]) + 1)


def address_space_bytes(pid: int) -> int:
    """Mapped memory of a process, including the stacks of its threads; 0 once it has ended."""
    pages = (read(PROC / f"{pid}/statm") or "0").split()[0]
    return int(pages) * resource.getpagesize()


def _in_table(address: str) -> str:
    """An address such as 127.0.0.1:80 in the format of the kernel's tables."""
    host, _, port = address.rpartition(":")
    packed = ipaddress.ip_address(host.strip("[]")).packed
    # The kernel prints an address as words of four bytes, each in host byte order.
    words = (int.from_bytes(packed[at : at + 4], sys.byteorder) for at in range(0, len(packed), 4))
    return f"{''.join(f'{word:08X}' for word in words)}:{int(port):04X}"


def _descriptors(pid: int) -> Used | None:
    try:
        return Used(len(os.listdir(PROC / f"{pid}/fd")), resource.prlimit(pid, resource.RLIMIT_NOFILE)[0])
    except OSError:
        return None


def memory_in_use() -> int:
    """Memory of the machine that is not available to other processes, in bytes."""
    fields = dict(line.partition(":")[::2] for line in (read(PROC / "meminfo") or "").splitlines())
    total, available = (int(fields[name].split()[0]) << 10 for name in ("MemTotal", "MemAvailable"))
    return total - available
