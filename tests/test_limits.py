"""Limits on a server alone: where control groups are created, how they bind the server, and that none is left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from iolab.machine import cgroups, doctor
from iolab.machine.cgroups import NoGroups
from iolab.machine.doctor import Tried
from iolab.machine.host_limits import HostLimits
from iolab.measure import limits
from iolab.measure.limits import Limits
from test_doctor import good_machine

# A limited process reports its niceness, its descriptors, and how many children it could start.
SAYS = """
import json, os, resource, signal
started = []
try:
    while len(started) < 40:
        if (pid := os.fork()) == 0:
            signal.pause()
            os._exit(0)
        started.append(pid)
except OSError:
    pass
for pid in started:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
print(json.dumps([os.getpriority(0, 0), resource.getrlimit(resource.RLIMIT_NOFILE), len(started)]))
"""


@dataclass(frozen=True)
class Server:
    """The settings of a server that limit it."""

    cpu_quota: float | None = None
    memory_limit_bytes: int | None = None
    nice: int | None = None
    processes_max: int | None = None
    descriptors_max: int | None = None


def mounted(tmp_path: Path, mounts: Mapping[str, str], membership: str, enabled: Mapping[str, str]) -> Path:
    """A /proc with control groups in `tmp_path`: mounts by options, and the controllers that each group passes on."""
    for folder, controllers in enabled.items():
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "cgroup.subtree_control").write_text(controllers)
        (tmp_path / folder / "cgroup.procs").touch()
    lines = [
        f"1 0 0:1 / {tmp_path / at} rw - {'cgroup2 cgroup2' if options == 'rw' else 'cgroup cgroup'} {options}"
        for at, options in mounts.items()
    ]
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text("\n".join(lines))
    (tmp_path / "proc/self/cgroup").write_text(membership)
    return tmp_path / "proc"


@pytest.mark.parametrize(
    ("mounts", "membership", "enabled", "expected"),
    [
        # Version 1: beside this process, or in the group that a container has mounted as its root.
        ({"cpu": "rw,cpu,cpuacct"}, "4:cpu,cpuacct:/mine\n0::/", {"cpu/mine": ""}, "1 cpu/mine"),
        ({"cpu": "rw,cpu"}, "4:cpu:/docker/of-the-host\n0::/", {"cpu": ""}, "1 cpu"),
        # Version 2: in the nearest ancestor that passes the controller on.
        ({"two": "rw"}, "0::/user/shell", {"two/user/shell": "", "two/user": "cpu memory", "two": "cpu"}, "2 two/user"),
        ({"two": "rw"}, "0::/a/b", {"two/a/b": "", "two/a": "memory", "two": "cpu memory"}, "2 two"),
        # Both: a controller that version 1 has is not available in version 2.
        ({"two": "rw", "cpu": "rw,cpu"}, "1:cpu:/\n0::/", {"two": "", "cpu": ""}, "1 cpu"),
        ({"two": "rw"}, "0::/a", {"two/a": "", "two": "memory"}, "no control group above this process passes cpu on"),
        ({}, "", {}, "the kernel has no control group for cpu"),
    ],
)
def test_a_group_is_made_where_the_controller_is_enabled_already(
    tmp_path: Path, mounts: Mapping[str, str], membership: str, enabled: Mapping[str, str], expected: str
) -> None:
    proc = mounted(tmp_path, mounts, membership, enabled)
    try:
        home = cgroups.homes(["cpu"], proc)["cpu"]
        found = f"{home.version} {home.folder.relative_to(tmp_path)}"
    except NoGroups as reason:
        found = str(reason).partition(":")[0]
    assert found == expected


def test_all_controllers_of_version_2_have_one_group(tmp_path: Path) -> None:
    enabled = {"two/a/b": "", "two/a": "memory", "two": "cpu memory pids"}
    proc = mounted(tmp_path, {"two": "rw"}, "0::/a/b", enabled)
    assert {home.folder for home in cgroups.homes(["cpu", "memory"], proc).values()} == {tmp_path / "two"}


def test_groups_that_cannot_be_written_say_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    for mounts, membership in (({"cpu": "rw,cpu"}, "1:cpu:/"), ({"two": "rw"}, "0::/")):
        folder = tmp_path / next(iter(mounts))
        proc = mounted(folder, mounts, membership, dict.fromkeys(mounts, "cpu"))
        with pytest.raises(NoGroups, match="cannot be written: run as root"):
            cgroups.homes(["cpu"], proc)


def ran(applied: Limits) -> list[object]:
    """The report of a process under these limits."""
    command = [*applied.words, sys.executable, "-I", "-S", "-c", SAYS]
    done = subprocess.run(command, capture_output=True, check=True, start_new_session=True)
    said: list[object] = json.loads(done.stdout)
    return said


def test_priority_and_descriptors_are_those_of_the_server_alone() -> None:
    applied = limits.apply(Server(nice=7, descriptors_max=64))
    assert ran(applied)[:2] == [7, [64, 64]]
    assert os.getpriority(os.PRIO_PROCESS, 0) != 7
    assert limits.apply(Server()) == limits.NONE, "without limits a server is started as ever"


def test_the_server_can_start_no_more_processes_than_its_limit() -> None:
    if why := limits.why_not("processes_max"):
        pytest.skip(why)
    applied = limits.apply(Server(processes_max=10))
    try:
        # The server itself counts. In a user namespace one more process does.
        assert ran(applied)[2] in ((9,) if applied.groups else (8, 9))
    finally:
        applied.undo()


def test_groups_go_with_the_trial_and_those_of_a_dead_lab_with_the_next_run() -> None:
    if why := limits.why_not("cpu_quota"):
        pytest.skip(why)
    home = cgroups.homes(["cpu"])["cpu"].folder
    left = home / f"{cgroups.PREFIX}0-0"
    left.mkdir()
    ours = limits.apply(Server(cpu_quota=0.5))
    try:
        assert ours.groups is not None
        folder = ours.groups.folders["cpu"].folder
        cgroups.remove_leftovers()
        assert not left.exists()
        assert folder.exists(), "it is empty, and in use"
        # A process that the server leaves behind is killed with its group.
        begun = subprocess.Popen([*ours.words, "sleep", "60"])
        while str(begun.pid) not in (folder / "cgroup.procs").read_text().split():
            assert begun.poll() is None
        ours.undo()
        assert not folder.exists()
        assert begun.wait() != 0
    finally:
        ours.undo()


def test_a_spent_quota_shows_as_throttled_periods() -> None:
    if why := limits.why_not("cpu_quota"):
        pytest.skip(why)
    ours = limits.apply(Server(cpu_quota=0.02))
    try:
        # 10 ms of work at 2 ms a period take several periods on any machine.
        work = "import time\nwhile time.process_time() < 0.01: pass"
        subprocess.run([*ours.words, sys.executable, "-I", "-S", "-c", work], check=True)
        throttling = ours.groups.throttling() if ours.groups else None
        assert throttling is not None
        assert 1 <= throttling.throttled <= throttling.periods
        assert throttling.throttled_ns > 0
    finally:
        ours.undo()


def test_a_program_that_the_limited_user_cannot_execute_is_named_before_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroups, "why_not", lambda controller: "there is no pids group")
    if why := limits.why_not("processes_max", "true"):
        pytest.skip(why)
    program = tmp_path / "server"
    program.write_text("#!/bin/sh\n")
    # Root may execute it. In a namespace other users keep their id and may execute their own files.
    program.chmod(0o700 if os.geteuid() == 0 else 0o600)
    reason = limits.why_not("processes_max", str(program))
    assert reason == (
        f"there is no pids group; and without one, as another user, {program} cannot be started: "
        "Permission denied: allow all users to read and execute it"
    )


def test_a_limit_that_cannot_be_set_ends_the_start_with_the_reason() -> None:
    applied = limits.apply(Server(nice=3))
    words = [*applied.words[:-1], json.dumps({"groups": ["/nowhere/cgroup.procs"], "nice": 3})]
    done = subprocess.run([*words, "true"], capture_output=True, check=False, text=True)
    assert (done.returncode, done.stderr) == (78, "the limits nice 3 cannot be set: No such file or directory\n")


def test_doctor_lists_each_limit() -> None:
    tried = Tried(limits={"cpu_quota": "", "processes_max": "why not"})
    checks = doctor.checks(good_machine(), HostLimits(), None, "none", tried=tried)
    listed = [check for check in checks if check.what.startswith("limit ")]
    assert [(check.status, check.what, check.found) for check in listed] == [
        ("ok", "limit cpu_quota", "can be set"),
        ("warn", "limit processes_max", "why not"),
    ]
