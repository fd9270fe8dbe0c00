"""Control groups: kernel limits on the processes of one server, and on nothing else.

A controller is in a hierarchy of version 2 or of version 1. Groups are made in this process's own group or above it,
and only if the controller is already enabled: the lab never changes the machine. A group is a locked folder, which
tells a leftover from one in use.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from iolab.errors import IolabError
from iolab.machine import locked_folders
from iolab.machine.files import PROC, read

Controller = Literal["cpu", "memory", "pids"]

PREFIX = "iolab-"
# The period of a quota: the kernel's default, and the usual choice of container runtimes.
PERIOD_US = 100_000
# Ended processes leave a group within milliseconds; one that waits for a disk takes longer.
REMOVE_S_MAX, PAUSE_S = 2.0, 0.01


class NoGroups(IolabError):
    """This machine does not allow a limit by control groups. The message is one line: why, and what to do."""


class Home(NamedTuple):
    """A folder in which groups can be made, and the version of its hierarchy."""

    version: Literal[1, 2]
    folder: Path


class Throttling(NamedTuple):
    """Since the group was made: periods of the CPU quota, exhausted periods, and how long tasks waited."""

    periods: int
    throttled: int
    throttled_ns: int


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups of one server, one folder for each hierarchy. `remove` undoes them."""

    folders: Mapping[Controller, Home]
    locks: list[int]

    @property
    def members(self) -> tuple[Path, ...]:
        """Files that a process writes 0 to in order to limit itself and all that it starts."""
        return tuple(folder / "cgroup.procs" for folder in self._each)

    def throttling(self) -> Throttling | None:
        """The use of the CPU quota so far; None without a quota."""
        if "cpu" not in self.folders:
            return None
        version, folder = self.folders["cpu"]
        said = _numbers(folder / "cpu.stat")
        waited_ns = said.get("throttled_time", 0) if version == 1 else 1_000 * said.get("throttled_usec", 0)
        return Throttling(said.get("nr_periods", 0), said.get("nr_throttled", 0), waited_ns)

    def processes_refused(self) -> int:
        """How many processes or threads the limit kept from starting."""
        return _numbers(self.folders["pids"].folder / "pids.events").get("max", 0) if "pids" in self.folders else 0

    def memory_refused(self) -> int:
        """How many processes were killed for exceeding the memory limit."""
        if "memory" not in self.folders:
            return 0
        version, folder = self.folders["memory"]
        return _numbers(folder / ("memory.oom_control" if version == 1 else "memory.events")).get("oom_kill", 0)

    def remove(self) -> None:
        """Kills the processes left in the groups and removes the groups. May be called again."""
        _remove(self._each, self.locks)

    @property
    def _each(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys(home.folder for home in self.folders.values()))


def why_not(controller: Controller) -> str:
    """Why groups with this controller cannot be made here; empty if they can."""
    try:
        homes({controller})
    except NoGroups as reason:
        return str(reason)
    return ""


def make(*, cores: float | None = None, memory_bytes: int | None = None, processes: int | None = None) -> Groups:
    """Makes groups with these limits; raises NoGroups and leaves nothing behind."""
    wanted: dict[Controller, float | None] = {"cpu": cores, "memory": memory_bytes, "pids": processes}
    limits = {controller: value for controller, value in wanted.items() if value is not None}
    places = homes(limits.keys())
    made: dict[Home, Path] = {}
    locks: list[int] = []
    try:
        for home in dict.fromkeys(places.values()):
            made[home], lock = locked_folders.made(home.folder, PREFIX)
            locks.append(lock)
        folders = {controller: Home(home.version, made[home]) for controller, home in places.items()}
        for controller, value in limits.items():
            _limit(controller, folders[controller], value)
    except OSError as error:
        _remove(tuple(made.values()), locks)
        raise NoGroups(f"a control group cannot be made: {error.strerror}: {error.filename}") from None
    return Groups(folders, locks)


def remove_leftovers() -> None:
    """Removes the empty groups of labs that have died. A group in use is locked or has tasks."""
    places = (homes({controller}).values() for controller in ("cpu", "memory", "pids") if not why_not(controller))
    for home in {home for place in places for home in place}:
        for folder in locked_folders.left(home.folder, PREFIX):
            with contextlib.suppress(OSError):
                folder.rmdir()


def homes(controllers: Collection[Controller], proc: Path = PROC) -> dict[Controller, Home]:
    """Where groups with each of these controllers can be made; raises NoGroups.

    All controllers of version 2 have one home, because a process is in one group of that hierarchy.
    """
    mounts = dict(_mounts(read(proc / "self/mountinfo") or ""))
    paths = dict(_paths(read(proc / "self/cgroup") or ""))
    first = {name: mounts[name] for name in controllers if name in mounts}
    found = {name: _first_home(name, mount, paths.get(name, "/")) for name, mount in first.items()}
    second = [name for name in controllers if name not in first]
    if second:
        home = _second_home(second, mounts.get(""), paths.get("", "/"))
        found |= dict.fromkeys(second, home)
    return found


def versions(root: Path = Path("/")) -> dict[str, int]:
    """The hierarchy version of each controller that the lab uses and this kernel has."""
    mounts = dict(_mounts(read(root / "proc/self/mountinfo") or ""))
    second = next(said("", ("cgroup.controllers",), root), "").split()
    return {name: 1 if name in mounts else 2 for name in get_args(Controller) if name in mounts or name in second}


def said(controller: str, names: Sequence[str], root: Path = Path("/")) -> Iterator[str]:
    """The contents of these files in the control group of this process and in its ancestors, nearest first.

    In a container the group's path may be the host's; then only the root of the hierarchy exists.
    """
    mounts = dict(_mounts(read(root / "proc/self/mountinfo") or ""))
    key = controller if controller in mounts else ""
    if key not in mounts:
        return
    top = root / mounts[key].relative_to("/")
    own = top / dict(_paths(read(root / "proc/self/cgroup") or "")).get(key, "/").strip("/")
    for folder in (each for each in (own, *own.parents) if each == top or top in each.parents):
        yield from (text for name in names if (text := read(folder / name)) is not None)


def _first_home(controller: str, mount: Path, path: str) -> Home:
    folder = mount / path.strip("/")
    # In a container the path may be the host's, and the container's own group is mounted.
    folder = folder if folder.is_dir() else mount
    if not os.access(folder, os.W_OK):
        raise NoGroups(f"{folder} cannot be written: run as root, or with control groups of your own")
    return Home(1, folder)


def _second_home(controllers: Sequence[str], mount: Path | None, path: str) -> Home:
    names = " and ".join(sorted(controllers))
    if mount is None:
        raise NoGroups(f"the kernel has no control group for {names}: mount them at /sys/fs/cgroup")
    own = mount / path.strip("/")
    above = [folder for folder in (own, *own.parents) if folder == mount or mount in folder.parents]
    enabled = [
        folder for folder in above if set(controllers) <= set((read(folder / "cgroup.subtree_control") or "").split())
    ]
    if not enabled:
        raise NoGroups(f"no control group above this process passes {names} on: start iolab in a systemd scope")
    # Moving a process requires write access to the common ancestor of its old and new group.
    usable = (folder for folder in enabled if all(os.access(at, os.W_OK) for at in (folder, folder / "cgroup.procs")))
    folder = next(usable, None)
    if folder is None:
        raise NoGroups(f"{enabled[0]} cannot be written: run as root, or start iolab in a systemd scope of yours")
    return Home(2, folder)


def _mounts(mountinfo: str) -> Iterator[tuple[str, Path]]:
    """The mount point of each version 1 controller, and of version 2 under the name ""."""
    for line in mountinfo.splitlines():
        head, _, tail = line.partition(" - ")
        kind, _, options = (*tail.split(), "", "")[:3]
        folder = Path(head.split()[4])
        if kind == "cgroup2":
            yield "", folder
        elif kind == "cgroup":
            yield from ((name, folder) for name in options.split(","))


def _paths(membership: str) -> Iterator[tuple[str, str]]:
    """The group of this process by controller; version 2 is under the name ""."""
    for line in membership.splitlines():
        _, names, path = line.split(":", 2)
        yield from ((name, path) for name in names.split(","))


def _limit(controller: Controller, home: Home, value: float) -> None:
    """Sets the limit of a controller; raises OSError."""
    version, folder = home
    if controller == "pids":
        (folder / "pids.max").write_text(str(int(value)))
    elif controller == "cpu" and version == 2:
        (folder / "cpu.max").write_text(f"{round(value * PERIOD_US)} {PERIOD_US}")
    elif controller == "cpu":
        (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (folder / "cpu.cfs_quota_us").write_text(str(round(value * PERIOD_US)))
    else:
        sizes = ("memory.max",) if version == 2 else ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
        # Swap would be memory without a limit. The kernel has these files only if it counts swap.
        swap = {"memory.swap.max": "0"} if version == 2 else {}
        for name, text in ({size: str(int(value)) for size in sizes} | swap).items():
            if name in sizes[:1] or (folder / name).exists():
                (folder / name).write_text(text)


def _members(folder: Path) -> list[int]:
    # Processes of another container have the number 0.
    return [int(pid) for pid in (read(folder / "cgroup.procs") or "").split() if pid != "0"]


def _remove(folders: Sequence[Path], locks: list[int]) -> None:
    """Kills the processes left in these groups, removes the groups, and releases their locks."""
    deadline = time.monotonic() + REMOVE_S_MAX
    while folders := [folder for folder in folders if not _removed(folder)]:
        for pid in {pid for folder in folders for pid in _members(folder)}:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            break
        time.sleep(PAUSE_S)
    while locks:
        os.close(locks.pop())


def _removed(folder: Path) -> bool:
    """Removes a group; False while it has tasks."""
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _numbers(path: Path) -> dict[str, int]:
    """Parses a file of `name number` lines; empty once the group is removed."""
    rows = (line.split() for line in (read(path) or "").splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}
