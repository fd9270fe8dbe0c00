"""Starts a server that is not ours on its processors, and ends all of it when the lab is gone.

Run as a program, by its path, with a list of processors (may be empty) and the command. It prints the server's process
id, and at the end the server's exit code, negative for a signal; then it ends as the server ended. Its standard input
is the lab's lifeline: at its end, also when the lab was killed, it kills its whole process group, so that the workers a
server forked go with it. It is a process of its own, so that the server's process tree holds the server alone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading


def main() -> int:
    """Returns the exit code of the command; 127 when it cannot be started, 128 and the signal when one ended it."""
    cpus, command = sys.argv[1], sys.argv[2:]
    if cpus:
        os.sched_setaffinity(0, map(int, cpus.split(",")))
    # A polite word to the group is for the server. It is caught and not ignored: the server would inherit that.
    signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    except OSError as error:
        print(f"{command[0]} cannot be started: {error.strerror}", file=sys.stderr)  # noqa: T201 (its last words)
        return 127
    print(server.pid, flush=True)  # noqa: T201 (what the lab reads)
    threading.Thread(target=end_with_the_lab, daemon=True).start()
    code = server.wait()
    print(code, flush=True)  # noqa: T201 (what the lab reads)
    return code if code >= 0 else 128 - code


def end_with_the_lab() -> None:
    """Waits for the end of standard input, and then ends the group, this process included."""
    while os.read(sys.stdin.fileno(), 4_096):
        pass
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
