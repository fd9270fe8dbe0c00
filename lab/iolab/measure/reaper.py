"""Starts a server or client that is not ours on its processors, and ends all of it when the lab is gone.

Run as a program, by its path, with a list of processors, the file of a network namespace, the descriptor of a file for
the server's standard output (each may be empty) and the command. It prints the server's process id. At the end it
prints the server's exit code, negative for a signal, when the server ended (CLOCK_MONOTONIC), and the processor time of
all its processes, both in nanoseconds; then it exits like the server. Its standard input is the lab's lifeline: when
that closes, even because the lab was killed, it kills everything that the server started. It is a subreaper, so it
adopts background processes and finds them too. It is a separate process, so that the server's process tree holds the
server alone.
"""

from __future__ import annotations

import ctypes
import fcntl
import glob
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

# Namespace types, and the ioctl for the user namespace that owns a namespace (linux/sched.h, linux/nsfs.h).
CLONE_NEWNET, CLONE_NEWUSER, NS_GET_USERNS = 0x40000000, 0x10000000, 0xB701
# A process that sets this adopts the orphans among its descendants (linux/prctl.h).
PR_SET_CHILD_SUBREAPER = 36
# How often, and how many times, it kills children that are still there.
AGAIN_S, AGAIN_MAX = 0.01, 500


def main() -> int:
    """Returns the exit code of the command; 127 if it cannot be started, 128 plus the signal if one ended it."""
    cpus, netns, stdout, command = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
    if cpus:
        os.sched_setaffinity(0, map(int, cpus.split(",")))
    # SIGTERM to the group is for the server. It is caught rather than ignored, because the server would inherit that.
    signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        if netns:
            enter(netns)
        checked(ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
        to = int(stdout) if stdout else subprocess.DEVNULL
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=to)
    except OSError as error:
        print(f"{command[0]} cannot be started: {error.strerror}", file=sys.stderr)  # noqa: T201 (its last words)
        return 127
    threading.Thread(target=end_with_the_lab, daemon=True).start()
    tell(server.pid)
    code = server.returncode = wait_for(server.pid)
    ended_ns = time.monotonic_ns()
    kill_children()
    tell(code, ended_ns, used_ns())
    return code if code >= 0 else 128 - code


def tell(*figures: int) -> None:
    """Prints a line for the lab. If the lab is gone, standard input has ended too, and with it the server."""
    with suppress(BrokenPipeError):
        os.write(sys.stdout.fileno(), f"{' '.join(map(str, figures))}\n".encode())


def wait_for(server: int) -> int:
    """The exit code of the server, negative for a signal. Also reaps orphans that end meanwhile."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == server:
            return os.waitstatus_to_exitcode(status)


def used_ns() -> int:
    """The processor time of all ended children, including the children that they waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round((used.ru_utime + used.ru_stime) * 1e9)


def kill_children() -> None:
    """Kills all children, including those it adopts meanwhile, and prints any that are left after a while.

    A process in an uninterruptible wait ends only after that wait, and a process of another user cannot be killed.
    """
    for _ in range(AGAIN_MAX):
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        left = children()
        if not left:
            return
        for pid in left:
            kill(pid)
        time.sleep(AGAIN_S)
    print(f"processes are left that cannot be killed: {', '.join(map(named, left))}", file=sys.stderr)  # noqa: T201


def end_with_the_lab() -> None:
    """Waits for the end of standard input, then ends the server, everything it started, and this process."""
    while os.read(sys.stdin.fileno(), 4_096):
        pass
    # The main thread reaps them.
    for _ in range(AGAIN_MAX):
        if not (pids := children()):
            break
        for pid in pids:
            kill(pid)
        time.sleep(AGAIN_S)
    os.killpg(0, signal.SIGKILL)


def children() -> list[int]:
    """The children of this process."""
    found = list[int]()
    for path in glob.glob("/proc/self/task/*/children"):
        with suppress(OSError), open(path, encoding="ascii") as file:
            found += map(int, file.read().split())
    return found


def named(pid: int) -> str:
    """A process for display: its id, name and state."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            name, _, rest = file.read().partition("(")[2].rpartition(")")
        return f"{pid} ({name}, state {rest.split()[0]})"
    except OSError:
        return str(pid)


def kill(pid: int) -> None:
    """Kills a process if it still exists and may be killed."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def enter(netns: str) -> None:
    """Moves this process into a network namespace, and if necessary into the user namespace that owns it."""
    with open(netns, "rb") as namespace:
        try:
            set_namespace(namespace.fileno(), CLONE_NEWNET)
        except PermissionError:
            owner = fcntl.ioctl(namespace, NS_GET_USERNS)
            set_namespace(owner, CLONE_NEWUSER)
            os.close(owner)
            set_namespace(namespace.fileno(), CLONE_NEWNET)


def set_namespace(descriptor: int, kind: int) -> None:
    """setns(2); os.setns exists only since Python 3.12."""
    checked(ctypes.CDLL(None, use_errno=True).setns(descriptor, kind))


def checked(result: int) -> None:
    """Raises OSError if a call of the C library failed."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    sys.exit(main())
