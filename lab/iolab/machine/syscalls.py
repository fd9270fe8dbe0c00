"""Counts the syscalls of any process from outside, with the kernel's perf counters.

A counter on a thread also counts the threads and processes it starts later, even after they end. Counting needs root or
CAP_PERFMON and slows each syscall a little, so counted runs are not timed.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import platform
import struct
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path

from iolab.machine import private_tracefs, proc

FOLDERS = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")
# libc has no function for perf_event_open; its number depends on the processor.
PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241, "riscv64": 241}
TRACEPOINT, INHERIT, CLOSE_ON_EXEC = 2, 1 << 1, 8
# The fields of the first version of perf_event_attr: type, size, config, three more words, flags, rest.
ATTRIBUTES = "=IIQQQQQQQ"
# A counter takes a descriptor, and the lab needs some itself.
THREADS_MAX = 512
# An idle server starts no threads; one that has just begun to listen may still start its workers.
TRIES_MAX = 5
MOUNT_S_MAX = 10.0


class CannotCountError(Exception):
    """Why syscalls cannot be counted, in one line."""


class Counter:
    """A count of the syscalls of some processes since its creation; close it after use."""

    def __init__(self, pids: Callable[[], Iterable[int]]) -> None:
        """Counts the threads that these processes have now and all that they start. Raises CannotCountError.

        A thread that starts between the listing and the opening would have no counter, so `pids` is called again
        afterwards.
        """
        self._counters = list[int]()
        for _ in range(TRIES_MAX):
            listed = _threads(pids())
            self._open(listed)
            if _threads(pids()) <= listed:
                break
            self.close()
        else:
            raise CannotCountError("the server starts threads all the time")
        if not self._counters:
            raise CannotCountError("the server has ended")

    def _open(self, threads: Collection[int]) -> None:
        point = entry_point()
        if len(threads) > THREADS_MAX:
            raise CannotCountError(f"{len(threads)} threads to count; at most {THREADS_MAX} can be")
        try:
            for thread in threads:
                # A thread may end after the listing; the others are counted all the same.
                with suppress(ProcessLookupError):
                    self._counters.append(_opened(point, thread))
        except OSError as error:
            self.close()
            raise CannotCountError(_why_not(error)) from None
        except BaseException:
            self.close()
            raise

    def calls(self) -> int:
        """The number of syscalls so far."""
        return sum(struct.unpack("=Q", os.read(counter, 8))[0] for counter in self._counters)

    def close(self) -> None:
        """Ends the count."""
        while self._counters:
            os.close(self._counters.pop())


def _threads(pids: Iterable[int]) -> set[int]:
    return {thread for pid in pids for thread in proc.threads(pid)}


@functools.cache
def entry_point() -> int:
    """The number of the trace point at the entry of every syscall; raises CannotCountError."""
    for folder in FOLDERS:
        with suppress(OSError, ValueError):
            return int(Path(folder, "events/raw_syscalls/sys_enter/id").read_text())
    program = [sys.executable, "-I", "-S", private_tracefs.__file__]
    try:
        ended = subprocess.run(program, capture_output=True, text=True, timeout=MOUNT_S_MAX, check=False)
        return int(ended.stdout)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotCountError(f"tracefs cannot be mounted: {error}") from None
    except ValueError:
        raise CannotCountError(f"tracefs cannot be mounted ({ended.stderr.strip()}): run it as root") from None


def _why_not(error: OSError) -> str:
    """Why the kernel refused a counter, and what to do about it."""
    said = f"perf_event_open: {error.strerror}"
    match error.errno:
        case errno.EACCES | errno.EPERM:
            return f"{said}: run it as root or with CAP_PERFMON"
        case errno.ENOENT | errno.EOPNOTSUPP | errno.ENOSYS:
            return f"{said}: this kernel has no such counter"
        case errno.EMFILE | errno.ENFILE:
            return f"{said}: a counter is a descriptor for each thread: raise ulimit -n, or use fewer threads"
        case _:
            return said


def _opened(point: int, thread: int) -> int:
    """A counter of one thread, as a descriptor; raises OSError or CannotCountError."""
    number = PERF_EVENT_OPEN.get(platform.machine())
    if number is None:
        raise CannotCountError(f"the counters of {platform.machine()} are not known")
    size = struct.calcsize(ATTRIBUTES)
    attributes = struct.pack(ATTRIBUTES, TRACEPOINT, size, point, 0, 0, 0, INHERIT, 0, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    any_cpu, no_group = -1, -1
    counter = libc.syscall(
        number, ctypes.c_char_p(attributes), thread, any_cpu, no_group, ctypes.c_ulong(CLOSE_ON_EXEC)
    )
    if counter < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(counter)
