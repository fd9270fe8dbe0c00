"""Limits on a server alone: a share of the processors, memory, processes, descriptors, and its priority.

A small program sets the limits on itself and then becomes the server (see `limited`). The server's control group is
removed when the trial ends; the leftovers of a killed lab are removed when the next run starts.
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

# The first of the user ids for servers. Distributions and containers give out lower ones.
USER_MIN = 2_000_000_000
# The limit for trying a program as another user, and how long the try may take.
TRIED_PROCESSES, TRY_S_MAX = 64, 15.0
# Settings by which some distributions forbid user namespaces, and the value that forbids them.
FORBIDS = {"kernel/unprivileged_userns_clone": "0", "user/max_user_namespaces": "0"}


class Settings(Protocol):
    """The limits of a server; None is no limit of its own."""

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
    """The limits of one server. `words` are put before its command; `undo` removes its control groups."""

    words: tuple[str, ...] = ()
    groups: Groups | None = None

    def undo(self) -> None:
        """Removes the control groups. May be called again."""
        if self.groups is not None:
            self.groups.remove()


NONE = Limits()


def apply(settings: Settings) -> Limits:
    """Prepares the limits of a server before it starts; raises TrialFailed if this machine cannot set them."""
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
    """Why a limit, named by its setting, cannot be set here on a server of this program; empty if it can."""
    return LIMITS[setting](program)


def reasons(program: str = sys.executable) -> Mapping[str, str]:
    """`why_not` of every limit, by setting."""
    return {setting: reason(program) for setting, reason in LIMITS.items()}


def _groups(settings: Settings, *, by_group: bool) -> Groups | None:
    processes = settings.processes_max if by_group else None
    if settings.cpu_quota is None and settings.memory_limit_bytes is None and processes is None:
        return None
    return cgroups.make(cores=settings.cpu_quota, memory_bytes=settings.memory_limit_bytes, processes=processes)


def _why_no_processes(program: str) -> str:
    """Without a group, root becomes another user, and other users need a namespace. Tries whether that works."""
    why = cgroups.why_not("pids")
    if not why:
        return ""
    forbidden = next((name for name, word in FORBIDS.items() if read(PROC / "sys" / name) == word), "")
    if forbidden and os.geteuid() != 0:
        return f"{why}; and {forbidden} forbids user namespaces"
    failed = _failed_as_another_user(program)
    return f"{why}; and without one, {failed}" if failed else ""


def _failed_as_another_user(program: str) -> str:
    """Why a program cannot be started under a limit of processes without a group; empty if it can."""
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
    # Any process may lower these; a refused value shows when the server starts.
    "descriptors_max": lambda _: "",
    "nice": lambda _: "",
}
