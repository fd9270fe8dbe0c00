"""Limits on a server alone: a share of the processors, memory, processes, descriptors, and its priority.

The server is started by a small program that limits itself and then becomes the server (see `limited`). What the
kernel keeps, a control group, is removed when the trial ends; what a killed lab leaves, at the start of the next run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from iolab.machine import cgroups
from iolab.machine.cgroups import Groups, NoGroups
from iolab.machine.files import PROC, read
from iolab.measure import limited
from iolab.measure.child import ending
from iolab.measure.engine import TrialFailed

# No user has such a number: distributions and containers give out lower ones.
USER_MIN = 2_000_000_000
# The limit under which a program is tried as another user, and how long that may take.
TRIED_PROCESSES, TRY_S_MAX = 64, 15.0
# Where the kernel says whether a user may have a namespace, on the distributions that forbid it.
FORBIDS = {"kernel/unprivileged_userns_clone": "0", "user/max_user_namespaces": "0"}


class Settings(Protocol):
    """What a server may use; None is no limit of its own."""

    @property
    def cpu_quota(self) -> float | None: ...
    @property
    def memory_limit_bytes(self) -> int | None: ...
    @property
    def nice(self) -> int | None: ...
    @property
    def processes_max(self) -> int | None: ...
    @property
    def descriptors_max(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one server. `words` are put before its command; `undo` removes what the kernel keeps."""

    words: tuple[str, ...] = ()
    groups: Groups | None = None

    def undo(self) -> None:
        """Removes the control groups. May be called again."""
        if self.groups is not None:
            self.groups.remove()


NONE = Limits()


def apply(settings: Settings) -> Limits:
    """Prepares the limits of a server that is about to be started; raises TrialFailed where this machine has none."""
    by_group = settings.processes_max is None or not cgroups.why_not("pids")
    try:
        groups = _groups(settings, by_group=by_group)
    except NoGroups as reason:
        raise TrialFailed("cannot_limit", str(reason), final=True) from None
    given: dict[str, Any] = {
        "groups": [str(members) for members in groups.members] if groups else None,
        "nice": settings.nice,
        "descriptors": settings.descriptors_max,
    }
    if not by_group:
        given |= {"processes": settings.processes_max, "user": USER_MIN + os.getpid()}
    given = {name: value for name, value in given.items() if value is not None}
    if not given:
        return NONE
    return Limits((sys.executable, "-I", "-S", limited.__file__, json.dumps(given)), groups)


def why_not(setting: str, program: str = sys.executable) -> str:
    """Why a limit, named as its setting, cannot be set here on a server of this program; empty where it can."""
    return LIMITS[setting](program)


def reasons(program: str = sys.executable) -> Mapping[str, str]:
    """For each limit why it cannot be set here on a server of this program; empty where it can."""
    return {setting: reason(program) for setting, reason in LIMITS.items()}


def _groups(settings: Settings, *, by_group: bool) -> Groups | None:
    processes = settings.processes_max if by_group else None
    if settings.cpu_quota is None and settings.memory_limit_bytes is None and processes is None:
        return None
    return cgroups.make(cores=settings.cpu_quota, memory_bytes=settings.memory_limit_bytes, processes=processes)


def _why_no_processes(program: str) -> str:
    """Without a group, root becomes another user, and other users need a namespace. This tries whether that works."""
    why = cgroups.why_not("pids")
    if not why:
        return ""
    forbidden = next((name for name, word in FORBIDS.items() if read(PROC / "sys" / name) == word), "")
    if forbidden and os.geteuid() != 0:
        return f"{why}; and {forbidden} forbids user namespaces"
    failed = _failed_as_another_user(program)
    return f"{why}; and without one, {failed}" if failed else ""


def _failed_as_another_user(program: str) -> str:
    """Why a program cannot be started under a limit of processes without a group; empty where it can."""
    given = {"processes": TRIED_PROCESSES, "user": USER_MIN + os.getpid()}
    command = [sys.executable, "-I", "-S", limited.__file__, json.dumps(given), program, "--version"]
    try:
        tried = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=TRY_S_MAX, check=False)
    except subprocess.TimeoutExpired:
        return f"as another user, {program} did not end within {TRY_S_MAX:.0f} s"
    if tried.returncode == 0:
        return ""
    said = tried.stderr.decode(errors="replace").strip().splitlines()
    advice = ": allow all users to read and execute it" if tried.returncode == limited.CANNOT_START else ""
    return f"as another user, {said[-1] if said else f'{program} {ending(tried.returncode)}'}{advice}"


LIMITS: Mapping[str, Callable[[str], str]] = {
    "cpu_quota": lambda _: cgroups.why_not("cpu"),
    "memory_limit_bytes": lambda _: cgroups.why_not("memory"),
    "processes_max": _why_no_processes,
    # Any process may lower these; a value that it may not set is refused when the server is started.
    "descriptors_max": lambda _: "",
    "nice": lambda _: "",
}
