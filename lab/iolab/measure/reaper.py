"""Starts a server that is not ours on its processors, and ends all of it when the lab is gone.

Run as a program, by its path, with a list of processors, the file of a network namespace (either may be empty) and the
command. It prints the server's process id, and at the end the server's exit code, negative for a signal; then it ends
as the server ended. Its standard input is the lab's lifeline: at its end, also when the lab was killed, it kills its
whole process group, so that the workers a server forked go with it. It is a process of its own, so that the server's
process tree holds the server alone.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading

# The kinds of namespaces, and the request for the user namespace that one belongs to (linux/sched.h, linux/nsfs.h).
CLONE_NEWNET, CLONE_NEWUSER, NS_GET_USERNS = 0x40000000, 0x10000000, 0xB701


def main() -> int:
    """Returns the exit code of the command; 127 when it cannot be started, 128 and the signal when one ended it."""
    cpus, netns, command = sys.argv[1], sys.argv[2], sys.argv[3:]
    if cpus:
        os.sched_setaffinity(0, map(int, cpus.split(",")))
    # A polite word to the group is for the server. It is caught and not ignored: the server would inherit that.
    signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        if netns:
            enter(netns)
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    except OSError as error:
        print(f"{command[0]} cannot be started: {error.strerror}", file=sys.stderr)  # noqa: T201 (its last words)
        return 127
    print(server.pid, flush=True)  # noqa: T201 (what the lab reads)
    threading.Thread(target=end_with_the_lab, daemon=True).start()
    code = server.wait()
    print(code, flush=True)  # noqa: T201 (what the lab reads)
    return code if code >= 0 else 128 - code


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
    import ctypes

    if ctypes.CDLL(None, use_errno=True).setns(descriptor, kind) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def end_with_the_lab() -> None:
    """Waits for the end of standard input, and then ends the group, this process included."""
    while os.read(sys.stdin.fileno(), 4_096):
        pass
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
