"""What a process tree has used: processor time, memory and context switches, read from /proc and the CPU clocks.

A server is a tree that changes while it is read: threads end, children are forked for one connection and reaped.
Three facts of Linux make an exact account possible all the same:

- the CPU clock of a process counts nanoseconds of all its threads, the dead ones too;
- a child that was waited for is added to `cutime + cstime` of its parent, in ticks of 10 ms but summed exactly;
- anything may vanish between two reads, which is an ordinary outcome and never an error.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

PROC = "/proc"
# Enough to read most files of /proc whole, and a thousand children at once.
READ_BYTES = 16_384
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")

# A tree that grows without end must not hold up the sampler; none of our models has more processes than connections.
PROCESSES_MAX = 65_536

# Above this many tasks, switches and run delay are not read: two files each at 35 µs a file would take a processor from
# the server for longer than a short window allows.
TASKS_READ_MAX = 64

# A tree of at most this many tasks is small: listing it takes a millisecond.
SMALL_MAX = 16

# How often the CPU clocks are read again because a child died during the reading.
READINGS_MAX = 8

# How many processes have figures of their own: enough for all workers of a server, but not for every child of a server
# that forks for each connection.
EACH_MAX = 256

# The name of the kernel thread that polls an io_uring ring (SQPOLL), a thread of the server since Linux 5.12. It spins
# even without work.
POLLER = "iou-sqp-"

_CPUCLOCK_SCHED = 2

# The processor in /proc/PID/stat, counted from the field after the name.
PROCESSOR_FIELD = 36


@dataclass(frozen=True, slots=True)
class Tree:
    """The processes of a tree, parents before children; empty once it has ended.

    Listing a thousand tasks takes up to a tenth of a second, so it is done while a server is idle. `accounts` are the
    processes whose ended children are read with every reading; `settled_ns` is the sum for the other processes.
    `user_ns` and `system_ns` are sampled by the kernel's tick. Minor page faults need no disk access, major ones do.
    """

    pids: tuple[int, ...]
    accounts: tuple[int, ...]
    settled_ns: int
    user_ns: int
    system_ns: int
    threads: int
    faults_minor: int = 0
    faults_major: int = 0

    @property
    def is_small(self) -> bool:
        """Whether it may be listed, and its memory read, during a measurement."""
        return self.threads <= SMALL_MAX


@dataclass(frozen=True, slots=True)
class Usage:
    """A process tree at one instant; two readings are subtracted.

    `read_ns` is when the CPU clocks were read (CLOCK_MONOTONIC, the middle of the reading). `cpu_ns` only grows.
    `each_ns` is the processor time of each of the first EACH_MAX processes, without ended children. Switches, run delay
    and `tasks_ns` cover the tasks alive now; None above TASKS_READ_MAX tasks. `polling` are the tasks among them that
    poll: see POLLER.
    """

    read_ns: int
    cpu_ns: int
    run_delay_ns: int | None
    switches_voluntary: int | None
    switches_involuntary: int | None
    each_ns: Mapping[int, int] = field(default_factory=dict)
    tasks_ns: Mapping[str, int] | None = None
    polling: Set[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Size:
    """What a process tree takes of a machine at one instant.

    Resident memory is summed over its processes, so a shared page counts once for each; `rss_bytes_max` is the sum of
    their high-water marks. `zombies` have ended and were not waited for; `processes` includes them.
    """

    rss_bytes: int
    rss_bytes_max: int
    threads: int
    processes: int
    zombies: int
    descriptors: int


class Task(NamedTuple):
    """A thread: the processors it may run on, the one it ran on last, and how long it has run."""

    affinity: frozenset[int]
    cpu: int
    ran_ns: int


class Memory(NamedTuple):
    """Memory of processes, counted in three ways.

    In `pss_bytes` a page is divided among all processes that share it, so forks add up. `private_bytes` are pages of no
    other process. `anonymous_bytes` belong to no file (heap and stacks); each page counts in full, however many
    processes share it.
    """

    pss_bytes: int
    private_bytes: int
    anonymous_bytes: int


class Spent(NamedTuple):
    """What processes have used so far: times by the kernel's tick, context switches and page faults.

    Switches are None for more than TASKS_READ_MAX tasks.
    """

    user_ns: int
    system_ns: int
    switches_voluntary: int | None
    switches_involuntary: int | None
    faults_minor: int
    faults_major: int


def spent(*roots: int) -> Spent:
    """What the trees below (and with) these roots have used so far."""
    tree = look(*roots)
    switching = _switching(tree.pids) if tree.threads <= TASKS_READ_MAX else _Switching()
    times = (tree.user_ns, tree.system_ns)
    return Spent(*times, switching.voluntary, switching.involuntary, tree.faults_minor, tree.faults_major)


def look(*roots: int) -> Tree:
    """Lists the trees below (and with) these roots, as one."""
    family = _family(roots)
    times = {pid: _times(pid) for pid in family}
    # In a small tree, even processes without children are read every time: they may have had some.
    is_small = len(family) <= SMALL_MAX
    accounts = tuple(pid for pid, children in family.items() if is_small or children or pid in roots)
    return Tree(
        pids=tuple(family),
        accounts=accounts,
        settled_ns=sum(times[pid].children_ns for pid in family.keys() - set(accounts)),
        user_ns=sum(spent.user_ns + spent.children_user_ns for spent in times.values()),
        system_ns=sum(spent.system_ns + spent.children_system_ns for spent in times.values()),
        threads=sum(_threads(pid) for pid in family),
        faults_minor=sum(spent.faults_minor for spent in times.values()),
        faults_major=sum(spent.faults_major for spent in times.values()),
    )


def usage(tree: Tree, *, now: Callable[[], int] = time.monotonic_ns) -> Usage:
    """Reads a tree, its CPU clocks first, because they delimit a window.

    A child started after the listing is missing here until it has ended; then its parent accounts for it.
    """
    begin_ns = now()
    alive, dead_ns = cpu_ns(tree.pids, tree.accounts)
    end_ns = now()
    switching = _switching(tree.pids) if tree.threads <= TASKS_READ_MAX else _Switching()
    return Usage(
        read_ns=(begin_ns + end_ns) // 2,
        cpu_ns=sum(alive) + dead_ns + tree.settled_ns,
        run_delay_ns=switching.run_delay_ns,
        switches_voluntary=switching.voluntary,
        switches_involuntary=switching.involuntary,
        each_ns=dict(zip(tree.pids[:EACH_MAX], alive, strict=False)),
        tasks_ns=switching.tasks_ns,
        polling=switching.polling,
    )


def cpu_ns(pids: Sequence[int], parents: Sequence[int]) -> tuple[list[int], int]:
    """Processor time of each of these processes, and of all children that `parents` have waited for.

    The account of ended children is read before the clocks of the living and again after them. A child that ended in
    between is in neither or in both, so everything is read again. If children end faster than the tree can be read, the
    last reading stands, with an error of at most the children in flight.
    """
    dead = _dead_children_ns(parents)
    for _ in range(READINGS_MAX):
        before, alive = dead, [process_cpu_ns(pid) for pid in pids]
        dead = _dead_children_ns(parents)
        if dead == before:
            break
    return alive, before


def process_cpu_ns(pid: int) -> int:
    """Processor time of one process, with its ended threads and without its children; 0 once it has ended."""
    try:
        # The clock id of another process, as clock_getcpuclockid(3) computes it.
        return time.clock_gettime_ns((~pid << 3) | _CPUCLOCK_SCHED)
    except OSError:
        return 0


def tasks(tree: Tree) -> dict[str, Task]:
    """The first threads of a tree: where each may run and where it ran last. Ended threads are left out."""
    found = {}
    for path in [task for pid in tree.pids[:TASKS_READ_MAX] for task in _tasks(pid)][:TASKS_READ_MAX]:
        fields = (_read(f"{path}/stat") or "").rpartition(")")[2].split()
        with suppress(OSError):
            affinity = frozenset(os.sched_getaffinity(int(path.rpartition("/")[2])))
            if fields:
                found[path] = Task(affinity, int(fields[PROCESSOR_FIELD]), _scheduled_ns(path)[0])
    return found


def size(*roots: int) -> Size:
    """What the trees below (and with) these roots take now; all zero for a root that has ended, reaped or not."""
    rss, peak, threads, processes, zombies, descriptors = 0, 0, 0, 0, 0, 0
    found = [*roots]
    for pid in found:
        status = _fields(f"{PROC}/{pid}/status")
        is_zombie = status.get("State", "").startswith("Z")
        if is_zombie and pid in roots:
            continue
        threads += int(status.get("Threads", "0"))
        processes += 1 if status else 0
        if is_zombie:
            # A zombie has neither memory nor descriptors, and its children were reparented.
            zombies += 1
        elif status:
            rss += _bytes(status.get("VmRSS"))
            peak += _bytes(status.get("VmHWM"))
            descriptors += _descriptors(pid)
            found.extend(_children(pid) if len(found) < PROCESSES_MAX else ())
    return Size(rss, peak, threads, processes, zombies, descriptors)


def rss_bytes(pid: int) -> int:
    """The resident memory of one process, without its children; 0 once it has ended."""
    return _bytes(_fields(f"{PROC}/{pid}/status").get("VmRSS"))


def memory_each(pids: Iterable[int]) -> dict[int, Memory]:
    """The memory of each of these processes. Walks page tables, so use it on idle processes only.

    Leaves out processes that the kernel does not report, or not to this user.
    """
    sizes = {pid: _fields(f"{PROC}/{pid}/smaps_rollup") for pid in pids}
    return {
        pid: Memory(
            _bytes(size["Pss"]),
            _bytes(size.get("Private_Clean")) + _bytes(size.get("Private_Dirty")),
            _bytes(size.get("Anonymous")),
        )
        for pid, size in sizes.items()
        if "Pss" in size
    }


def together(memories: Iterable[Memory]) -> Memory | None:
    """The memory of all processes together; None if none is known."""
    known = tuple(memories)
    return Memory(*map(sum, zip(*known, strict=True))) if known else None


def own_bytes(pids: Iterable[int]) -> int | None:
    """Proportional memory of these processes without that of files, which every process of the same program shares.

    This makes a server comparable before and under load, although the generator, which runs the same program, starts in
    between. None if the kernel does not report it, or not to this user.
    """
    sizes = [_fields(f"{PROC}/{pid}/smaps_rollup") for pid in pids]
    known = [_bytes(size["Pss"]) - _bytes(size["Pss_File"]) for size in sizes if {"Pss", "Pss_File"} <= size.keys()]
    return sum(known) if known else None


def _family(roots: Sequence[int]) -> dict[int, list[int]]:
    """The living children of each process of the trees, parents before children; without ended roots."""
    found = [root for root in roots if _threads(root)]
    family: dict[int, list[int]] = {}
    for pid in found:
        family[pid] = _children(pid)
        found.extend(family[pid])
        if len(found) > PROCESSES_MAX:
            break
    return family


def _children(pid: int) -> list[int]:
    """The children of every thread of `pid`: a child belongs to the thread that forked it."""
    # A single-threaded process has its own id as thread id: this saves listing a folder for each of a thousand
    # processes.
    tasks = [f"{PROC}/{pid}/task/{pid}"] if _threads(pid) == 1 else _tasks(pid)
    return [int(word) for task in tasks for word in (_read(f"{task}/children") or "").split()]


def _tasks(pid: int) -> list[str]:
    folder = f"{PROC}/{pid}/task"
    try:
        return [f"{folder}/{name}" for name in os.listdir(folder)]
    except OSError:
        return []


def threads(pid: int) -> list[int]:
    """The threads of a process by number; empty once it has ended."""
    return [int(task.rpartition("/")[2]) for task in _tasks(pid)]


def _descriptors(pid: int) -> int:
    """How many descriptors a process has; 0 once it has ended, or if it is another user's."""
    folder = f"{PROC}/{pid}/fd"
    try:
        # Since Linux 6.2 this is the size of the folder, which is otherwise 0.
        return os.stat(folder).st_size or len(os.listdir(folder))
    except OSError:
        return 0


def _threads(pid: int) -> int:
    """How many threads a process has, from the link count of the task folder minus 2. 0 once it has ended."""
    try:
        return os.stat(f"{PROC}/{pid}/task").st_nlink - 2
    except OSError:
        return 0


class _Switching(NamedTuple):
    """Context switches, run delay and run time of tasks; None if they were not read."""

    voluntary: int | None = None
    involuntary: int | None = None
    run_delay_ns: int | None = None
    tasks_ns: Mapping[str, int] | None = None
    polling: Set[str] = frozenset()


def _switching(pids: Iterable[int]) -> _Switching:
    voluntary, involuntary, delay_ns = 0, 0, 0
    tasks_ns: dict[str, int] = {}
    polling = set[str]()
    for task in (task for pid in pids for task in _tasks(pid)):
        status = _fields(f"{task}/status")
        voluntary += int(status.get("voluntary_ctxt_switches", "0"))
        involuntary += int(status.get("nonvoluntary_ctxt_switches", "0"))
        ran_ns, waited_ns = _scheduled_ns(task)
        tasks_ns[task] = ran_ns
        delay_ns += waited_ns
        if status.get("Name", "").startswith(POLLER):
            polling.add(task)
    return _Switching(voluntary, involuntary, delay_ns, tasks_ns, polling)


class _Times(NamedTuple):
    """The CPU times and page faults of /proc/PID/stat; children are those that were waited for."""

    user_ns: int = 0
    system_ns: int = 0
    children_user_ns: int = 0
    children_system_ns: int = 0
    faults_minor: int = 0
    faults_major: int = 0

    @property
    def children_ns(self) -> int:
        return self.children_user_ns + self.children_system_ns


def _times(pid: int) -> _Times:
    """All zero once the process has ended."""
    text = _read(f"{PROC}/{pid}/stat")
    if text is None:
        return _Times()
    # The name in brackets may itself contain spaces and brackets, so fields are counted from the last bracket.
    fields = text.rpartition(")")[2].split()
    minor, minor_children, major, major_children = map(int, fields[7:11])
    user_ns, system_ns, children_user_ns, children_system_ns = (int(ticks) * TICK_NS for ticks in fields[11:15])
    faults = (minor + minor_children, major + major_children)
    return _Times(user_ns, system_ns, children_user_ns, children_system_ns, *faults)


def _dead_children_ns(pids: Iterable[int]) -> int:
    """Processor time of the children these processes have waited for."""
    return sum(_times(pid).children_ns for pid in pids)


def _scheduled_ns(task: str) -> tuple[int, int]:
    """How long a task has run, and how long it was runnable without a processor: the first fields of schedstat."""
    fields = (_read(f"{task}/schedstat") or "").split()
    return (int(fields[0]), int(fields[1])) if len(fields) > 1 else (0, 0)


def _fields(path: str) -> dict[str, str]:
    """Parses a file of `Name: value` lines; empty once the process has ended."""
    lines = (_read(path) or "").splitlines()
    return {name: value.strip() for name, colon, value in (line.partition(":") for line in lines) if colon}


def _bytes(size: str | None) -> int:
    """A size such as `1234 kB`, in bytes."""
    return int(size.split()[0]) * 1024 if size else 0


def _read(path: str) -> str | None:
    """A file of /proc as text; None once it is gone. The layers of `open` would take longer than the kernel."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        parts = []
        while part := os.read(file, READ_BYTES):
            parts.append(part)
        return b"".join(parts).decode(errors="replace")
    except OSError:
        return None
    finally:
        os.close(file)
