"""Prints the number of the trace point at the entry of every syscall, where tracefs is not mounted.

Run as a program, by its path, as root. It mounts tracefs in a mount namespace of its own, which ends with it, so
nothing on the machine changes.
"""

from __future__ import annotations

import ctypes
import os
import sys

CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x2_0000, 0x4000, 0x4_0000
TRACEFS = "/sys/kernel/tracing"


def main() -> int:
    """Returns the exit code; the error goes to standard error in one line."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        checked(libc.unshare(CLONE_NEWNS))
        # The mounts below stay private to this namespace.
        checked(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
        if not os.path.isdir(f"{TRACEFS}/events"):
            checked(libc.mount(b"tracefs", TRACEFS.encode(), b"tracefs", 0, None))
        with open(f"{TRACEFS}/events/raw_syscalls/sys_enter/id") as file:
            print(file.read().strip())  # noqa: T201
    except OSError as error:
        print(error.strerror, file=sys.stderr)  # noqa: T201
        return 1
    return 0


def checked(returned: int) -> None:
    """Raises OSError for the result of a call that failed."""
    if returned != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    sys.exit(main())
