"""What the limits of this machine mean for a user, and the commands that raise a low one."""

from __future__ import annotations

import math
from collections.abc import Iterator

from iolab.machine import fixes
from iolab.machine.check import Check, check
from iolab.machine.host_limits import CAP_IPC_LOCK, HostLimits
from iolab.wording import gigabytes

# Below these a limit is a finding. The published experiments need a few thousand connections and as many threads and
# processes, because some models have one for each connection.
CONNECTIONS_MIN = TASKS_MIN = 4_096
SOMAXCONN_MIN = 1_024
# Half of the default range of Linux.
PORTS_MIN = 14_116
AVAILABLE_BYTES_MIN = 1 << 30
# The default since Linux 5.16. The earlier 64 KiB are less than one ring takes.
LOCKED_BYTES_MIN = 8 << 20
# The engine keeps 64 descriptors for itself, and two for each listener (crates/engine/src/spec/limits.rs).
DESCRIPTORS_RESERVED = 66
# The targets for raised limits: the most that Linux allows by default.
DESCRIPTORS_WANTED, PIDS_WANTED, MAPS_WANTED, TASKS_WANTED = 1_048_576, 4_194_304, 1_048_576, 1_048_576
LOCKED_BYTES_WANTED = 1 << 30
# A thread maps its stack and a guard page.
MAPS_A_THREAD = 2
GROUP = "the control group"
# Other programs may pace their sends with timers.
UNPACED = frozenset({"cubic", "reno"})


def limit_checks(host: HostLimits, *, has_io_uring: bool) -> Iterator[Check]:
    """One check for each limit that this machine reports."""
    yield from _descriptors(host)
    yield from _tasks(host)
    yield from _memory(host)
    if has_io_uring:
        yield from _locked(host)
    yield from _accept_queue(host)
    yield from _ports(host)
    yield from _congestion(host)


def _descriptors(host: HostLimits) -> Iterator[Check]:
    limit, in_all = host.descriptors, host.number("fs.file-max")
    if limit is None:
        return
    wanted = min(DESCRIPTORS_WANTED, host.number("fs.nr_open") or DESCRIPTORS_WANTED)
    if in_all is not None and in_all / 2 < limit.hard - DESCRIPTORS_RESERVED:
        means = (
            f"At most {in_all // 2:,} connections: server and generator share the {in_all:,} descriptors of this "
            "machine (fs.file-max)."
        )
        fix = fixes.sysctl(host, "fs.file-max", str(4 * wanted))
        yield check("limits", in_all // 2 >= CONNECTIONS_MIN, "descriptors", f"{in_all:,} in all", means, fix)
        return
    means = (
        f"At most {_connections(limit.hard)} connections to a server of one process; for more, iolab's generator "
        "starts more processes by itself."
    )
    if limit.soft < limit.hard:
        means += (
            f" iolab's servers raise the limit to {limit.hard:,.0f} by themselves; others may stop at "
            f"{_connections(limit.soft)} connections."
        )
    good = limit.soft - DESCRIPTORS_RESERVED >= CONNECTIONS_MIN
    fix = fixes.ulimit(host, "nofile", limit, CONNECTIONS_MIN + DESCRIPTORS_RESERVED, wanted)
    yield check("limits", good, "descriptors", f"{_number(limit.soft)} a process", means, fix)


def _connections(descriptors: float) -> str:
    return _number(max(1.0, descriptors - DESCRIPTORS_RESERVED))


def _tasks(host: HostLimits) -> Iterator[Check]:
    """Processes and threads: the least of the limits of user, kernel, control group and one process's mappings."""
    if not (bounds := list(_task_bounds(host))):
        return
    most, name, fix = min(bounds)
    means = f"A server with a process for each connection serves fewer than {_number(most)} connections."
    maps = host.number("vm.max_map_count")
    threads = most if maps is None else min(most, maps // MAPS_A_THREAD)
    if threads < most:
        means = f"{means[:-1]}, one with a thread for each fewer than {_number(threads)} (vm.max_map_count)."
        if most >= TASKS_MIN:
            fix = fixes.sysctl(host, "vm.max_map_count", str(MAPS_WANTED))
    yield check("limits", threads >= TASKS_MIN, "processes and threads", f"{_number(most)} ({name})", means, fix)


def _task_bounds(host: HostLimits) -> Iterator[tuple[float, str, str]]:
    """Each limit on processes and threads: the number, its name, and the command that raises it."""
    for name, wanted in (("kernel.threads-max", TASKS_WANTED), ("kernel.pid_max", PIDS_WANTED)):
        if (number := host.number(name)) is not None:
            yield number, name, fixes.sysctl(host, name, str(wanted))
    # The limit of a user does not apply to root.
    if host.processes is not None and not host.is_root:
        yield host.processes.soft, "ulimit -u", fixes.ulimit(host, "nproc", host.processes, TASKS_MIN, TASKS_WANTED)
    if host.group_processes is not None:
        yield host.group_processes, GROUP, fixes.MORE_TASKS


def _memory(host: HostLimits) -> Iterator[Check]:
    if host.available_bytes is None:
        return
    found, free = f"{gigabytes(host.available_bytes)} available", host.available_bytes
    fix = fixes.WHAT_TAKES_MEMORY
    if host.group_bytes is not None and host.group_bytes < host.available_bytes:
        found, free = f"{found}, {gigabytes(host.group_bytes)} for {GROUP}", host.group_bytes
        fix = fixes.MORE_MEMORY
    means = "" if free >= AVAILABLE_BYTES_MIN else "The kernel may end a server of many connections, or its generator."
    yield check("limits", free >= AVAILABLE_BYTES_MIN, "memory", found, means, fix)


def _locked(host: HostLimits) -> Iterator[Check]:
    """Memory that the kernel keeps locked. It is counted per user without CAP_IPC_LOCK."""
    limit = host.locked_bytes
    if limit is None or host.may(CAP_IPC_LOCK):
        return
    means = "All rings and zero-copy sends of this user share it: with many workers io_uring may not start."
    found = "unlimited" if math.isinf(limit.soft) else f"{limit.soft / 1_024:,.0f} KiB"
    fix = fixes.ulimit(host, "memlock", limit, LOCKED_BYTES_MIN, LOCKED_BYTES_WANTED)
    yield check("limits", limit.soft >= LOCKED_BYTES_MIN, "locked memory", found, means, fix)


def _accept_queue(host: HostLimits) -> Iterator[Check]:
    if (most := host.number("net.core.somaxconn")) is None:
        return
    means = f"At most {most:,} connections wait for a server to accept them; more at once wait a second or fail."
    fix = fixes.sysctl(host, "net.core.somaxconn", "4096")
    yield check("limits", most >= SOMAXCONN_MIN, "accept queue", f"{most:,} (net.core.somaxconn)", means, fix)


def _ports(host: HostLimits) -> Iterator[Check]:
    words = (host.sysctl("net.ipv4.ip_local_port_range") or "").split()
    if len(words) != 2:
        return
    count = int(words[1]) - int(words[0]) + 1
    means = (
        f"A client has at most {count:,} connections to one address of a server, those in TIME-WAIT included. iolab's "
        "generator uses more loopback addresses where it needs them; ab, wrk and hey do not."
    )
    fix = fixes.sysctl(host, "net.ipv4.ip_local_port_range", "10240 65535")
    yield check("limits", count >= PORTS_MIN, "ports of clients", f"{count:,} ({'-'.join(words)})", means, fix)


def _congestion(host: HostLimits) -> Iterator[Check]:
    if (found := host.sysctl("net.ipv4.tcp_congestion_control")) is None:
        return
    means = "" if found in UNPACED else "It may pace sends with timers, even on loopback: read ratios only."
    fix = fixes.sysctl(host, "net.ipv4.tcp_congestion_control", "cubic")
    yield check("limits", found in UNPACED, "congestion control", found, means, fix)


def _number(value: float) -> str:
    return "unlimited" if math.isinf(value) else f"{value:,.0f}"
