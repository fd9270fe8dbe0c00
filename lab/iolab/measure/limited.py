"""Sets limits on itself and then becomes the given program, so that the limits apply to a server alone.

Run as a program, by its path, with the limits as JSON and the command. The server keeps its process id. It is a
separate program because the lab has threads: code between fork and exec could wait for a lock that one of them holds.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

# The exit codes of a shell for a command that cannot be started, and of the engine for an unsupported machine.
CANNOT_START, CANNOT_DO = 127, 78
CLONE_NEWUSER = 0x1000_0000


def main() -> int:
    """Returns only an exit code for a failure."""
    limits, command = json.loads(sys.argv[1]), sys.argv[2:]
    try:
        limit(limits)
    except OSError as error:
        print(f"the limits {describe(limits)} cannot be set: {error.strerror}", file=sys.stderr)  # noqa: T201
        return CANNOT_DO
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"{command[0]} cannot be started: {error.strerror}", file=sys.stderr)  # noqa: T201
        return CANNOT_START


def limit(limits: dict[str, Any]) -> None:
    """Sets each limit that is given; raises OSError."""
    for members in limits.get("groups", ()):
        Path(members).write_text("0")
    if "nice" in limits:
        os.setpriority(os.PRIO_PROCESS, 0, limits["nice"])
    if "descriptors" in limits:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limits["descriptors"],) * 2)
    if "processes" in limits:
        limit_processes(limits["processes"], limits["user"])


def limit_processes(processes: int, user: int) -> None:
    """Limits the processes of a separate user, because the kernel counts per user; raises OSError.

    The limit does not apply to root, so root becomes another user. Others get a user namespace, which has its own
    count.
    """
    resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    elif ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def describe(limits: dict[str, Any]) -> str:
    """The limits in words, without groups and user."""
    return ", ".join(f"{name} {value}" for name, value in limits.items() if name not in ("groups", "user"))


if __name__ == "__main__":
    sys.exit(main())
