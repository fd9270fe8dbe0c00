"""Syscalls of a foreign process, counted from outside."""

from __future__ import annotations

import errno
import os
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from iolab.machine import proc, syscalls
from iolab.machine.syscalls import CannotCountError, Counter

# Makes 1,000 syscalls itself, 2,000 in a thread and 500 in a child that it starts later, each after a line on stdin.
PROGRAM = """
import os, sys, threading
def calls(number):
    for _ in range(number):
        os.getppid()
print("ready", flush=True)
sys.stdin.readline()
calls(1000)
thread = threading.Thread(target=calls, args=(2000,))
thread.start()
thread.join()
if os.fork() == 0:
    calls(500)
    os._exit(0)
os.wait()
print("done", flush=True)
sys.stdin.readline()
"""


def counted(pid: int) -> Counter:
    try:
        return Counter(lambda: [pid])
    except CannotCountError as error:
        pytest.skip(str(error))


def test_the_calls_of_a_process_and_of_threads_and_children_that_it_starts_are_counted() -> None:
    argv = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        counter = counted(process.pid)
        begin = counter.calls()
        process.stdin.write("\n")
        process.stdin.flush()
        process.stdout.readline()
        calls = counter.calls() - begin
        counter.close()
        process.stdin.close()
    # The interpreter makes some more for the thread, the child and the pipes.
    assert 3_500 <= calls < 4_500


def test_a_process_that_is_gone_cannot_be_counted() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
        with pytest.raises(CannotCountError):
            Counter(lambda: [process.pid])


def counter_of(monkeypatch: pytest.MonkeyPatch, opened: Mapping[int, int]) -> Counter:
    """A counter for these threads, with the descriptor or the negative error number of each."""

    def open_one(_point: int, thread: int) -> int:
        if opened[thread] < 0:
            raise OSError(-opened[thread], os.strerror(-opened[thread]))
        return opened[thread]

    monkeypatch.setattr(syscalls, "entry_point", lambda: 1)
    monkeypatch.setattr(syscalls, "_opened", open_one)
    monkeypatch.setattr(proc, "threads", lambda _pid: list(opened))
    return Counter(lambda: [1])


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (errno.EPERM, "Operation not permitted: run it as root or with CAP_PERFMON"),
        (errno.EACCES, "Permission denied: run it as root or with CAP_PERFMON"),
        (errno.ENOENT, "No such file or directory: this kernel has no such counter"),
        (errno.EOPNOTSUPP, "Operation not supported: this kernel has no such counter"),
        (errno.EMFILE, "Too many open files: a counter is a descriptor for each thread: raise ulimit -n, or use fewer"),
        (errno.EINVAL, "Invalid argument"),
        (errno.ESRCH, "the server has ended"),
    ],
)
def test_each_error_of_the_kernel_has_its_own_advice(monkeypatch: pytest.MonkeyPatch, code: int, advice: str) -> None:
    with pytest.raises(CannotCountError) as error:
        counter_of(monkeypatch, {1: -code})
    assert advice in str(error.value)
    assert ("CAP_PERFMON" in str(error.value)) is (code in (errno.EPERM, errno.EACCES))


def test_a_thread_that_ends_before_it_is_counted_is_skipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "count").write_bytes(struct.pack("=Q", 25))
    file = os.open(tmp_path / "count", os.O_RDONLY)
    counter = counter_of(monkeypatch, {1: -errno.ESRCH, 2: file})
    assert counter.calls() == 25
    counter.close()


@pytest.mark.parametrize("late", [1, 2, syscalls.TRIES_MAX])
def test_a_worker_that_starts_while_counters_are_opened_is_counted_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, late: int
) -> None:
    """Another thread appears at each of the first `late` readings after a counter is opened."""
    (tmp_path / "count").write_bytes(struct.pack("=Q", 1))
    looks = iter(range(100))
    monkeypatch.setattr(syscalls, "entry_point", lambda: 1)
    monkeypatch.setattr(syscalls, "_opened", lambda _point, _thread: os.open(tmp_path / "count", os.O_RDONLY))
    monkeypatch.setattr(proc, "threads", lambda _pid: list(range(1 + min((next(looks) + 1) // 2, late))))
    before = os.listdir("/proc/self/fd")
    if late == syscalls.TRIES_MAX:
        with pytest.raises(CannotCountError, match="starts threads all the time"):
            Counter(lambda: [1])
    else:
        counter = Counter(lambda: [1])
        assert counter.calls() == 1 + late
        counter.close()
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_counters_that_were_opened_before_an_error_are_closed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "count").touch()
    file = os.open(tmp_path / "count", os.O_RDONLY)
    with pytest.raises(CannotCountError):
        counter_of(monkeypatch, {1: file, 2: -errno.EMFILE})
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(file)


def test_the_entry_point_is_read_without_a_mount_that_outlives_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = Path("/proc/self/mounts").read_text()
    monkeypatch.setattr(syscalls, "FOLDERS", ())
    syscalls.entry_point.cache_clear()
    try:
        assert syscalls.entry_point() > 0
    except CannotCountError as error:
        pytest.skip(str(error))
    finally:
        syscalls.entry_point.cache_clear()
    assert Path("/proc/self/mounts").read_text() == mounts
