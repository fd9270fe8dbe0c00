"""Sets limits on itself and then becomes the program it was given: how a server comes under limits that bind it alone.

Run as a program, by its path, with the limits as JSON and the command. Its process id stays that of the server. It is a
program of its own, because the lab has threads, and code between fork and exec could wait for a lock of one of them.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

# What a shell says of a command that cannot be started, and what the engine says of a machine that cannot do it.
CANNOT_START, CANNOT_DO = 127, 78
CLONE_NEWUSER = 0x1000_0000


def main() -> int:
    """Returns the exit code of a program that could not be started."""
    limits, command = json.loads(sys.argv[1]), sys.argv[2:]
    try:
        limit(limits)
    except OSError as error:
        # Its last words.
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
    """Limits the processes of a user of its own, because the kernel counts those of a user; raises OSError.

    Root is not bound, so it becomes another user. Others get a user namespace, which has a count of its own.
    """
    resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    elif ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def describe(limits: dict[str, Any]) -> str:
    """The limits in words, without where they are set."""
    return ", ".join(f"{name} {value}" for name, value in limits.items() if name not in ("groups", "user"))


if __name__ == "__main__":
    sys.exit(main())
