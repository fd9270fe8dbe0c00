"""Commands that change a limit or a setting of this machine, as this user would type them.

They are only printed: the lab changes nothing. If no command here can do it, the line says why and who can.
"""

from __future__ import annotations

import shlex

from iolab.machine.check import CANNOT
from iolab.machine.host_limits import CAP_SYS_RESOURCE, HostLimits, Limit

# The flag of ulimit for each limit, and the unit of its value in bytes.
ULIMITS = {"nofile": ("-n", 1), "nproc": ("-u", 1), "memlock": ("-l", 1_024)}
# Shows which programs are in the way.
WHAT_RUNS = "top -b -n 1 -o %CPU | head -15  # end what should not run"
WHAT_TAKES_MEMORY = "ps aux --sort=-rss | head  # end what should not run"
# What can be set only when a container, or the unit of a service, starts.
START = f"{CANNOT}start the container with"
NO_QUOTA = f"{CANNOT}start the container without --cpus, or the unit without CPUQuota"
MORE_TASKS = f"{START} --pids-limit -1, or the unit with TasksMax=infinity"
MORE_MEMORY = f"{START} more --memory, or the unit with more MemoryMax"
TUN_DEVICE = f"{START} --device /dev/net/tun --cap-add NET_ADMIN"
NAMESPACES = f"{START} --cap-add SYS_ADMIN --cap-add NET_ADMIN"
COUNTERS = f"{START} --cap-add PERFMON --cap-add SYS_ADMIN"
ANY_SYSCALL = f"{START} --security-opt seccomp=unconfined, or use a newer kernel"


def sysctl(host: HostLimits, name: str, value: str) -> str:
    """Sets a setting of the kernel until the next boot."""
    setting = f"{name}={shlex.quote(value)}"
    if "/proc/sys" not in host.read_only:
        return f"{_sudo(host)}sysctl -w {setting}"
    # Settings of the network belong to its namespace, so a container has its own.
    is_own = name.startswith("net.")
    remedy = f"start the container with --sysctl {setting}" if is_own else f"on the host, sysctl -w {setting}"
    return f"{CANNOT}/proc/sys is read-only: {remedy}"


def into_file(host: HostLimits, file: str, value: str) -> str:
    """Writes a value into a file of /sys, or into all files that match a pattern."""
    if "/sys" in host.read_only:
        return f"{CANNOT}/sys is read-only: on the host, write {value} into {file}"
    return f"echo {value} | {_sudo(host)}tee {file}"


def ulimit(host: HostLimits, name: str, limit: Limit, needed: int, wanted: int) -> str:
    """Raises a limit of the shell that starts iolab: up to the hard limit if that is enough, else to `wanted`."""
    flag, unit = ULIMITS[name]
    if limit.hard >= needed:
        return f"ulimit -S {flag} {int(min(limit.hard, wanted)) // unit}"
    if host.may(CAP_SYS_RESOURCE):
        return f"ulimit {flag} {wanted // unit}"
    if host.is_root:
        return f"{CANNOT}this container lacks CAP_SYS_RESOURCE: start it with --ulimit {name}={wanted}:{wanted}"
    return f"sudo prlimit --pid $$ --{name}={wanted}:{wanted}"


def as_root(command: str) -> str:
    """Runs iolab as root, with the PATH that finds it."""
    return f'sudo env "PATH=$PATH" {command}'


def tun(host: HostLimits) -> str:
    """Loads the kernel module behind /dev/net/tun; a container is given the device instead."""
    return TUN_DEVICE if "/proc/sys" in host.read_only else f"{_sudo(host)}modprobe tun"


def in_scope(command: str) -> str:
    """Runs iolab in a control group that belongs to the user."""
    return f"systemd-run --user --scope {command}"


def _sudo(host: HostLimits) -> str:
    return "" if host.is_root else "sudo "
