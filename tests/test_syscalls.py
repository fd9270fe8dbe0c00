"""Syscalls of a process that is not ours, counted from outside."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from iolab.machine import syscalls
from iolab.machine.syscalls import CannotCountError, Counter

# 1,000 calls of its own, 2,000 of a thread and 500 of a child that it starts afterwards, each after a line on stdin.
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
        return Counter([pid])
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
    # Beside its 3,500 the interpreter makes some for the thread, the child and the pipes.
    assert 3_500 <= calls < 4_500


def test_a_process_that_is_gone_cannot_be_counted() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
        with pytest.raises(CannotCountError):
            Counter([process.pid])


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
