"""Worker processes of a Python server: each listens on the same address by itself (SO_REUSEPORT)."""

import os
import signal
from collections.abc import Callable

# Blocked, and waited for once all workers are known. When one ends, all others are ended too.
ENDS = {signal.SIGTERM, signal.SIGCHLD}


def spread(workers: int, serve: Callable[[], object]) -> None:
    """Serves in this process, or in `workers` processes that end with this one."""
    if workers == 1:
        serve()
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
    children = [_forked(serve) for _ in range(workers)]
    signal.sigwait(ENDS)
    for child in children:
        os.kill(child, signal.SIGTERM)


def _forked(serve: Callable[[], object]) -> int:
    """The process id of a worker."""
    if child := os.fork():
        return child
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)
    serve()
    os._exit(1)
