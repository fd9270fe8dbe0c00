"""Starts a server that is not ours on its processors, and ends all of it when the lab is gone.

Run as a program, by its path, with a list of processors, the file of a network namespace, the descriptor of a file for
the server's standard output (each may be empty) and the command. It prints the server's process id. At the end it
prints the server's exit code, negative for a signal, when the server ended (CLOCK_MONOTONIC), and the processor time
that all of it used, both in nanoseconds; then it ends as the server ended. Its standard input is the lab's lifeline: at
its end, also when the lab was killed, it kills whatever the server has started. What goes into the background becomes
its child, so it finds that too. It is a process of its own, so that the server's process tree holds the server alone.
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

# The kinds of namespaces, and the request for the user namespace that one belongs to (linux/sched.h, linux/nsfs.h).
CLONE_NEWNET, CLONE_NEWUSER, NS_GET_USERNS = 0x40000000, 0x10000000, 0xB701
# The orphans among its descendants become children of a process that has set this (linux/prctl.h).
PR_SET_CHILD_SUBREAPER = 36
# How often, and how many times, it is looked for processes that are still there after they were killed.
AGAIN_S, AGAIN_MAX = 0.01, 500


def main() -> int:
    """Returns the exit code of the command; 127 when it cannot be started, 128 and the signal when one ended it."""
    cpus, netns, stdout, command = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
    if cpus:
        os.sched_setaffinity(0, map(int, cpus.split(",")))
    # A polite word to the group is for the server. It is caught and not ignored: the server would inherit that.
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
    """Prints a line for the lab. The lab may be gone; then standard input has ended too, and with it the server."""
    with suppress(BrokenPipeError):
        os.write(sys.stdout.fileno(), f"{' '.join(map(str, figures))}\n".encode())


def wait_for(server: int) -> int:
    """The exit code of the server, negative for a signal. Orphans that end meanwhile are waited for too."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == server:
            return os.waitstatus_to_exitcode(status)


def used_ns() -> int:
    """The processor time of all that has ended so far, with the children that it has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round((used.ru_utime + used.ru_stime) * 1e9)


def kill_children() -> None:
    """Kills all children, and theirs as they become its own, and says which are left after a while.

    A process in an uninterruptible wait ends only when the wait is over, and that of another user is not to be killed.
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
    """Waits for the end of standard input, and then ends the server, what it has started, and this process."""
    while os.read(sys.stdin.fileno(), 4_096):
        pass
    # The main thread waits for those that end.
    for _ in range(AGAIN_MAX):
        if not (pids := children()):
            break
        for pid in pids:
            kill(pid)
        time.sleep(AGAIN_S)
    os.killpg(0, signal.SIGKILL)


def children() -> list[int]:
    """The processes that this one is the parent of."""
    found = list[int]()
    for path in glob.glob("/proc/self/task/*/children"):
        with suppress(OSError), open(path, encoding="ascii") as file:
            found += map(int, file.read().split())
    return found


def named(pid: int) -> str:
    """A process as people look for it: its id, name and state."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            name, _, rest = file.read().partition("(")[2].rpartition(")")
        return f"{pid} ({name}, state {rest.split()[0]})"
    except OSError:
        return str(pid)


def kill(pid: int) -> None:
    """Kills a process, if it is still there."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def enter(netns: str) -> None:
    """Moves this process into a network namespace, and with it into the user namespace that it may belong to."""
    with open(netns, "rb") as namespace:
        try:
            set_namespace(namespace.fileno(), CLONE_NEWNET)
        except PermissionError:
            owner = fcntl.ioctl(namespace, NS_GET_USERNS)
            set_namespace(owner, CLONE_NEWUSER)
            os.close(owner)
            set_namespace(namespace.fileno(), CLONE_NEWNET)


def set_namespace(descriptor: int, kind: int) -> None:
    """setns(2), which Python has a name for only since 3.12."""
    checked(ctypes.CDLL(None, use_errno=True).setns(descriptor, kind))


def checked(result: int) -> None:
    """Raises OSError where a call of the C library has failed."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    sys.exit(main())
