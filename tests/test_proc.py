"""The CPU time and memory of a process tree, compared with what the processes report themselves."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from iolab.machine import proc

MS = 1_000_000

BURN = """
import json, os, resource, sys, threading, time
def burn(ms):
    end = time.thread_time_ns() + ms * 1_000_000
    while time.thread_time_ns() < end: pass
def own():
    return sum(resource.getrusage(who).ru_utime + resource.getrusage(who).ru_stime
               for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
def say(**what):
    print(json.dumps(what), flush=True)
def rest():  # What a forked child does last: it never goes on with what its parent does.
    time.sleep(60)
    os._exit(0)
"""


@contextmanager
def running(program: str) -> Iterator[tuple[int, dict[str, float]]]:
    """Runs Python code that prints one line and then waits; yields the process id and the line.

    The process leads a session, which is killed as a whole before the leader's id can be reused.
    """
    argv = [sys.executable, "-c", f"{BURN}{program}\nsys.stdin.read()"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            yield process.pid, json.loads(process.stdout.readline())
        finally:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("program", "processes", "threads"),
    [
        pytest.param("burn(60); say(cpu_s=own())", 1, 1, id="one process"),
        pytest.param(
            # `join` returns a moment before the kernel has removed the thread.
            "t = threading.Thread(target=burn, args=(60,)); t.start(); t.join()\n"
            "while len(os.listdir('/proc/self/task')) > 1: time.sleep(0.001)\nsay(cpu_s=own())",
            1,
            1,
            id="a thread that has ended",
        ),
        pytest.param(
            "for _ in range(3):\n  if os.fork() == 0: burn(40); os._exit(0)\n"
            "for _ in range(3): os.wait()\nsay(cpu_s=own())",
            1,
            1,
            id="children that have ended and were waited for",
        ),
        pytest.param(
            "r, w = os.pipe()\n"
            "for _ in range(2):\n  if os.fork() == 0: burn(40); os.write(w, b'x'); rest()\n"
            "for _ in range(2): os.read(r, 1)\nsay(cpu_s=own() + 0.08)",
            3,
            3,
            id="children that are alive",
        ),
        pytest.param(
            "for _ in range(4): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
            "burn(40); say(cpu_s=own())",
            1,
            5,
            id="threads that sleep",
        ),
        pytest.param(
            "open('/proc/self/comm', 'w').write('a) S (1 2 3')\n"
            "if os.fork() == 0: burn(50); os._exit(0)\nos.wait(); say(cpu_s=own())",
            1,
            1,
            id="a name made to confuse",
        ),
    ],
)
def test_the_tree_has_used_what_its_processes_say(program: str, processes: int, threads: int) -> None:
    with running(program) as (pid, said):
        tree = proc.look(pid)
        cpu_ns = proc.usage(tree).cpu_ns
        # The CPU time of reaped children is counted in ticks of 10 ms.
        assert cpu_ns == pytest.approx(said["cpu_s"] * 1e9, abs=25 * MS)
        assert tree.user_ns + tree.system_ns == pytest.approx(cpu_ns, abs=processes * 30 * MS)
        assert (len(tree.pids), tree.threads) == (processes, threads)


def test_voluntary_switches_are_counted_over_all_threads() -> None:
    program = (
        "rested = threading.Semaphore(0)\n"
        "def nap():\n  for _ in range(50): time.sleep(0.0005)\n  rested.release()\n  time.sleep(60)\n"
        "for _ in range(2): threading.Thread(target=nap, daemon=True).start()\n"
        "for _ in range(2): rested.acquire()\nsay()"
    )
    with running(program) as (pid, _):
        assert (proc.usage(proc.look(pid)).switches_voluntary or 0) >= 100


def test_of_too_many_tasks_only_the_number_and_the_processor_time_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        "for _ in range(4): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "for _ in range(2):\n  if os.fork() == 0: rest()\nburn(40); say(cpu_s=own())"
    )
    monkeypatch.setattr(proc, "TASKS_READ_MAX", 6)
    with running(program) as (pid, said):
        tree = proc.look(pid)
        usage = proc.usage(tree)
        assert (len(tree.pids), tree.threads) == (3, 7)
        assert (usage.switches_voluntary, usage.switches_involuntary, usage.run_delay_ns) == (None, None, None)
        assert usage.cpu_ns == pytest.approx(said["cpu_s"] * 1e9, abs=25 * MS)
        monkeypatch.setattr(proc, "TASKS_READ_MAX", 7)
        assert proc.usage(tree).run_delay_ns is not None


@pytest.mark.parametrize("accounts", [0, 16], ids=["many processes", "few"])
def test_what_the_dead_children_of_a_child_have_used_counts_too(accounts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The child has no children left, and had none at any time it was read."""
    monkeypatch.setattr(proc, "SMALL_MAX", accounts)
    program = (
        "r, w = os.pipe()\nif os.fork() == 0:\n  if os.fork() == 0: burn(60); os._exit(0)\n"
        "  os.wait(); os.write(w, b'x'); rest()\nos.read(r, 1); say()"
    )
    with running(program) as (pid, _):
        tree = proc.look(pid)
        assert proc.usage(tree).cpu_ns >= 50 * MS
        assert len(tree.pids) == 2
        assert (tree.settled_ns >= 50 * MS) == (accounts == 0)


def test_forked_memory_is_counted_once_by_pss_and_in_full_for_each_process_by_rss_and_anonymous_memory() -> None:
    program = "held = bytearray(b'x') * (32 << 20)\nif os.fork() == 0: rest()\nsay(held=len(held))"
    with running(program) as (pid, said):
        size, memory = proc.size(pid), proc.memory_each(proc.look(pid).pids)
        assert size.rss_bytes > 2 * said["held"]
        assert size.rss_bytes_max >= size.rss_bytes * 0.95
        if not memory:
            pytest.skip("this kernel does not say proportional sizes")
        assert len(memory) == 2
        both = proc.together(memory.values())
        assert both is not None
        assert said["held"] < both.pss_bytes < 1.8 * said["held"]
        assert both.private_bytes < said["held"], "what they share is private to neither"
        assert all(each.anonymous_bytes > said["held"] for each in memory.values())


@pytest.mark.parametrize(
    ("program", "processes", "zombies", "threads", "descriptors"),
    [
        # Standard input, output and error are three.
        pytest.param("say()", 1, 0, 1, 3, id="one process"),
        pytest.param("kept = [os.dup(0) for _ in range(7)]\nsay()", 1, 0, 1, 10, id="open descriptors"),
        pytest.param(
            "for _ in range(3): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\nsay()",
            *(1, 0, 4, 3),
            id="threads",
        ),
        pytest.param("if os.fork() == 0: rest()\nsay()", 2, 0, 2, 6, id="a child"),
        pytest.param(
            "for _ in range(5):\n  if os.fork() == 0: os._exit(0)\n"
            "for _ in range(5): os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)\n"
            # The first zombie is visible a moment before the others.
            "def ended(): return sum(open(f'/proc/{p}/stat').read().rpartition(')')[2].split()[0] == 'Z' "
            "for p in open('/proc/thread-self/children').read().split())\n"
            "while ended() < 5: time.sleep(0.001)\nsay()",
            *(6, 5, 6, 3),
            id="children that were not waited for",
        ),
    ],
)
def test_the_size_of_a_tree_counts_what_it_takes_from_the_machine(
    program: str, processes: int, zombies: int, threads: int, descriptors: int
) -> None:
    with running(program) as (pid, _):
        size = proc.size(pid)
    assert (size.processes, size.zombies, size.threads, size.descriptors) == (processes, zombies, threads, descriptors)


def test_processor_time_is_kept_for_each_process_and_each_thread() -> None:
    program = (
        "r, w = os.pipe()\nif os.fork() == 0: burn(60); os.write(w, b'x'); rest()\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\nos.read(r, 1); say()"
    )
    with running(program) as (pid, _):
        tree = proc.look(pid)
        usage = proc.usage(tree)
    assert tuple(usage.each_ns) == tree.pids
    assert usage.each_ns[tree.pids[1]] >= 55 * MS
    assert usage.tasks_ns is not None
    assert len(usage.tasks_ns) == 3
    assert max(usage.tasks_ns.values()) >= 55 * MS


def test_a_thread_of_the_kernel_that_polls_is_known_by_its_name() -> None:
    # A user thread with the name of a kernel thread: no ring is needed.
    program = (
        "def poll():\n"
        "  with open(f'/proc/self/task/{threading.get_native_id()}/comm', 'w') as name: name.write('iou-sqp-12345')\n"
        "  say(); time.sleep(60)\n"
        "threading.Thread(target=poll, daemon=True).start()"
    )
    with running(program) as (pid, _):
        usage = proc.usage(proc.look(pid))
    assert usage.tasks_ns is not None
    assert len(usage.tasks_ns) == 2
    assert len(usage.polling) == 1
    assert usage.polling < usage.tasks_ns.keys()


def test_page_faults_are_counted_with_those_of_dead_children() -> None:
    program = "if os.fork() == 0: held = bytearray(b'x') * (8 << 20); os._exit(0)\nos.wait(); say()"
    with running("say()") as (pid, _):
        before = proc.look(pid).faults_minor
    with running(program) as (pid, _):
        # With pages of 4 KiB, or of 64 KiB on other processors.
        assert proc.look(pid).faults_minor - before >= (8 << 20) // (64 << 10)


def test_own_memory_grows_with_what_is_written_and_not_with_what_is_read() -> None:
    """A mapped file is shared by its readers; written memory belongs to the process."""
    before, after = (grown_bytes(program) for program in ("keep = b''", "keep = b'x' * (32 << 20)"))
    assert 30 << 20 <= after - before <= 36 << 20
    assert proc.own_bytes([0x7FFFFFFF]) is None


def grown_bytes(program: str) -> int:
    with running(f"{program}\nsay()") as (pid, _):
        size = proc.own_bytes([pid])
    assert size is not None, "this kernel says it"
    return size


def test_a_process_that_is_gone_has_used_nothing_and_is_no_error() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, gone.pid, os.WEXITED | os.WNOWAIT)
    assert proc.size(gone.pid) == proc.Size(0, 0, 0, 0, 0, 0), "before it is reaped, too"
    gone.wait()
    tree = proc.look(gone.pid)
    assert (tree.pids, tree.threads) == ((), 0)
    assert proc.usage(proc.Tree((gone.pid,), (gone.pid,), 0, 0, 0, 1)).cpu_ns == 0
    assert proc.size(gone.pid) == proc.Size(0, 0, 0, 0, 0, 0)
    assert proc.memory_each([gone.pid]) == {}
    assert proc.together([]) is None


def test_a_child_that_dies_between_the_two_accounts_is_in_just_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child is reaped after the dead were counted and before its own clock is read. This happens once."""
    parent, child, spent_ns = 1, 2, 70 * MS
    waited_for = False

    def clock(pid: int) -> int:
        nonlocal waited_for
        waited_for = True
        return 3 * MS if pid == parent else 0

    def dead_children(_: object) -> int:
        return spent_ns if waited_for else 0

    monkeypatch.setattr(proc, "process_cpu_ns", clock)
    monkeypatch.setattr(proc, "_dead_children_ns", dead_children)
    alive, dead_ns = proc.cpu_ns([parent, child], [parent])
    assert sum(alive) + dead_ns == 3 * MS + spent_ns


def test_children_that_come_and_go_while_they_are_read_never_break_a_reading() -> None:
    program = (
        "say()\nend = time.monotonic() + 60\n"
        "while time.monotonic() < end:\n  if os.fork() == 0: burn(2); os._exit(0)\n  os.wait()"
    )
    with running(program) as (pid, _):
        readings: list[proc.Usage] = []
        while len(readings) < 200 or readings[-1].cpu_ns < readings[0].cpu_ns + 50 * MS:
            tree = proc.look(pid)
            readings.append(proc.usage(tree))
            proc.size(pid)
        # One reading may miss a child as it ends, by at most the child's CPU time.
        for before, after in itertools.pairwise(readings):
            assert after.cpu_ns - before.cpu_ns > -30 * MS
        spent_ns = readings[-1].read_ns - readings[0].read_ns
        assert readings[-1].cpu_ns - readings[0].cpu_ns <= 1.5 * spent_ns
