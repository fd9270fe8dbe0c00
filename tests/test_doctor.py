"""What doctor reports of a machine: cases made of files and figures, independent of host, clock and engine."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fake_engine
from conftest import FakeHost, iolab
from iolab.contract.types import Description
from iolab.judge import resolution, stats
from iolab.judge.resolution import Need, Noise, Resolution
from iolab.machine import doctor, facts, fixes
from iolab.machine.check import CANNOT, Check
from iolab.machine.cpus import Cpu
from iolab.machine.doctor import Tried
from iolab.machine.host_limits import HostLimits, Limit, host_limits
from iolab.measure.noise_run import BLOCKS, noise_run
from iolab.measure.progress import Clocks
from test_machine import cores

Files = Mapping[str, str]


def good_machine() -> dict[str, Any]:
    return {
        "cpu": {"logical": 4, "cores": 4, "topology": [cpu._asdict() for cpu in cores(4)]},
        "memory": {"thp": "madvise"},
        "limits": {"cgroup_cpus": None},
        "load_average": [0.1, 0.1, 0.1],
        "steal_share_since_boot": 0.0,
    }


def limits(**given: tuple[int | str, int | str]) -> str:
    """/proc/self/limits, with the soft and hard limits given."""
    usual = {"processes": (95_000, 95_000), "open files": (1_048_576, 1_048_576), "locked memory": (8_388_608,) * 2}
    rows = usual | {name.replace("_", " "): both for name, both in given.items()}
    head = f"{'Limit':<26}{'Soft Limit':<21}{'Hard Limit':<21}Units\n"
    return head + "".join(f"{f'Max {name}':<26}{soft:<21}{hard:<21}units\n" for name, (soft, hard) in rows.items())


def user(number: int, capabilities: int = 0) -> str:
    return f"Name:\tiolab\nUid:\t{number}\t{number}\t{number}\t{number}\nCapEff:\t{capabilities:016x}\n"


ALL_CAPABILITIES, OF_A_CONTAINER = 0x1FFFFFFFFFF, 0xA80425FB
MOUNTS = "21 1 0:5 / /proc rw - proc proc rw\n22 1 0:6 / /sys rw - sysfs sysfs rw\n"
GROUPS = "30 22 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
SYSCTLS = {
    "fs/file-max": "9223372036854775807",
    "fs/nr_open": "1048576",
    "kernel/threads-max": "512000",
    "kernel/pid_max": "4194304",
    "vm/max_map_count": "1048576",
    "net/core/somaxconn": "4096",
    "net/ipv4/ip_local_port_range": "32768\t60999",
    "net/ipv4/tcp_congestion_control": "cubic",
    "kernel/io_uring_disabled": "0",
    "kernel/perf_event_paranoid": "2",
}
CPU = "sys/devices/system/cpu"
# A server with 64 cores and no findings; the user is root.
METAL: Files = {
    "proc/self/limits": limits(),
    "proc/self/status": user(0, ALL_CAPABILITIES),
    "proc/self/mountinfo": MOUNTS + GROUPS,
    "proc/self/cgroup": "0::/user.slice/a.scope",
    "proc/meminfo": "MemTotal: 264000000 kB\nMemAvailable: 250000000 kB\n",
    **{f"proc/sys/{name}": value for name, value in SYSCTLS.items()},
    "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids",
    "sys/fs/cgroup/user.slice/a.scope/cgroup.controllers": "cpu memory pids",
    "sys/fs/cgroup/user.slice/a.scope/pids.max": "max",
    "sys/fs/cgroup/user.slice/pids.max": "300000",
    f"{CPU}/cpu0/cpufreq/scaling_governor": "performance",
    f"{CPU}/intel_pstate/no_turbo": "1",
    f"{CPU}/smt/active": "1",
    "dev/net/tun": "",
}
# The same for an ordinary user, with the settings of a laptop distribution.
LAPTOP: Files = {
    **METAL,
    "proc/self/limits": limits(processes=(2_000, 2_000), open_files=(1_024, 1_048_576), locked_memory=(65_536,) * 2),
    "proc/self/status": user(1_000),
    "proc/sys/net/core/somaxconn": "128",
    "proc/sys/net/ipv4/ip_local_port_range": "60000 60999",
    "proc/sys/net/ipv4/tcp_congestion_control": "bbr",
    f"{CPU}/cpu0/cpufreq/scaling_governor": "powersave",
    f"{CPU}/cpufreq/boost": "1",
} | {f"{CPU}/intel_pstate/no_turbo": "0"}
# Root in a container without /sys/devices that can raise no limit and write no setting.
CONTAINER: Files = {
    "proc/self/limits": limits(open_files=(1_024, 4_096)),
    "proc/self/status": user(0, OF_A_CONTAINER),
    "proc/self/mountinfo": MOUNTS.replace("/sys rw", "/sys ro")
    + "23 21 0:5 /sys /proc/sys ro,nosuid - proc proc rw\n"
    + GROUPS,
    "proc/self/cgroup": "0::/docker/0123",
    "proc/meminfo": "MemTotal: 16000000 kB\nMemAvailable: 8000000 kB\n",
    **{f"proc/sys/{name}": value for name, value in SYSCTLS.items()},
    "proc/sys/net/core/somaxconn": "128",
    "proc/sys/kernel/pid_max": "4000",
    "sys/fs/cgroup/cgroup.controllers": "cpu memory pids",
    "sys/fs/cgroup/pids.max": "100",
    "sys/fs/cgroup/memory.max": "536870912",
}


def placed(root: Path, files: Files) -> HostLimits:
    """The limits of a machine that consists of these files."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")
    return host_limits(root)


def without_trouble() -> Description:
    """The description of an engine with all its models available."""
    said = fake_engine.description()
    return Description.model_validate(said | {"models": [each for each in said["models"] if each["available"]]})


def findings(checks: Sequence[Check]) -> dict[str, tuple[str, str]]:
    """Everything found that is not ok, with its fix, by what was checked."""
    assert all(bool(each.fix) == (each.status != "ok") for each in checks), "a finding has a fix, and nothing else"
    return {each.what: (each.found, each.fix) for each in checks if each.status != "ok"}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({}, {}, id="a machine that says nothing of itself"),
        pytest.param(METAL, {}, id="64 cores"),
        pytest.param(
            LAPTOP,
            {
                "descriptors": ("1,024 a process", "ulimit -S -n 1048576"),
                "processes and threads": ("2,000 (ulimit -u)", "sudo prlimit --pid $$ --nproc=1048576:1048576"),
                "locked memory": ("64 KiB", "sudo prlimit --pid $$ --memlock=1073741824:1073741824"),
                "accept queue": ("128 (net.core.somaxconn)", "sudo sysctl -w net.core.somaxconn=4096"),
                "ports of clients": (
                    "1,000 (60000-60999)",
                    "sudo sysctl -w net.ipv4.ip_local_port_range='10240 65535'",
                ),
                "congestion control": ("bbr", "sudo sysctl -w net.ipv4.tcp_congestion_control=cubic"),
                "frequency governor": (
                    "powersave",
                    "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
                ),
                "turbo": ("on", "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo"),
            },
            id="a user who is not root",
        ),
        pytest.param(
            CONTAINER,
            {
                "descriptors": (
                    "1,024 a process",
                    f"{CANNOT}this container lacks CAP_SYS_RESOURCE: start it with --ulimit nofile=1048576:1048576",
                ),
                "processes and threads": (
                    "100 (the control group)",
                    f"{CANNOT}start the container with --pids-limit -1, or the unit with TasksMax=infinity",
                ),
                "memory": (
                    "8.19 GB available, 0.537 GB for the control group",
                    f"{CANNOT}start the container with more --memory, or the unit with more MemoryMax",
                ),
                "accept queue": (
                    "128 (net.core.somaxconn)",
                    f"{CANNOT}/proc/sys is read-only: start the container with --sysctl net.core.somaxconn=4096",
                ),
            },
            id="a container without /sys/devices",
        ),
        pytest.param(
            {
                **METAL,
                "proc/self/limits": limits(open_files=(1_024, 4_096)),
                "proc/sys/fs/nr_open": "65536",
                "proc/sys/vm/max_map_count": "2000",
            },
            {
                "descriptors": ("1,024 a process", "ulimit -n 65536"),
                "processes and threads": ("300,000 (the control group)", "sysctl -w vm.max_map_count=1048576"),
            },
            id="root, who may raise limits",
        ),
        pytest.param(
            {**METAL, "proc/sys/fs/file-max": "6000", "proc/sys/kernel/pid_max": "1000"},
            {
                "descriptors": ("6,000 in all", "sysctl -w fs.file-max=4194304"),
                "processes and threads": ("1,000 (kernel.pid_max)", "sysctl -w kernel.pid_max=4194304"),
            },
            id="limits of the whole machine",
        ),
    ],
)
def test_a_limit_that_is_low_is_a_finding_with_the_command_that_raises_it(
    tmp_path: Path, files: Files, expected: dict[str, tuple[str, str]]
) -> None:
    checks = doctor.checks(good_machine(), placed(tmp_path, files), without_trouble())
    assert findings(checks) == expected


@pytest.mark.parametrize(
    ("files", "what", "means"),
    [
        (
            METAL,
            "descriptors",
            "At most 1,048,510 connections to a server of one process; for more, iolab's generator starts more "
            "processes by itself.",
        ),
        (
            LAPTOP,
            "descriptors",
            "At most 1,048,510 connections to a server of one process; for more, iolab's generator starts more "
            "processes by itself. iolab's servers raise the limit to 1,048,576 by themselves; others may stop at 958 "
            "connections.",
        ),
        (
            {**METAL, "proc/sys/fs/file-max": "20000"},
            "descriptors",
            "At most 10,000 connections: server and generator share the 20,000 descriptors of this machine "
            "(fs.file-max).",
        ),
        (
            {**METAL, "proc/sys/vm/max_map_count": "65530"},
            "processes and threads",
            "A server with a process for each connection serves fewer than 300,000 connections, one with a thread for "
            "each fewer than 32,765 (vm.max_map_count).",
        ),
        (
            CONTAINER,
            "locked memory",
            "All rings and zero-copy sends of this user share it: with many workers io_uring may not start.",
        ),
        (METAL, "SMT", "Siblings share a core, so server and generator never do."),
    ],
)  # fmt: skip
def test_a_limit_is_said_as_what_a_user_can_do(tmp_path: Path, files: Files, what: str, means: str) -> None:
    checks = doctor.checks(good_machine(), placed(tmp_path, files), without_trouble())
    assert [each.means for each in checks if each.what == what] == [means]


def test_the_memory_of_a_large_machine_has_no_exponent(tmp_path: Path) -> None:
    host = placed(tmp_path, {**METAL, "proc/meminfo": "MemAvailable: 4000000000 kB\n"})
    checks = doctor.checks(good_machine(), host, without_trouble())
    assert [each.found for each in checks if each.what == "memory"] == ["4,096 GB available"]


def test_everything_that_is_read_is_a_fact(tmp_path: Path) -> None:
    said = placed(tmp_path, {**METAL, "proc/self/limits": limits(processes=("unlimited",) * 2)}).facts()
    assert json.loads(json.dumps(said)) == {
        "user": 0,
        "capabilities": ALL_CAPABILITIES,
        "read_only": [],
        "descriptors": {"soft": 1_048_576, "hard": 1_048_576},
        "processes": {"soft": "unlimited", "hard": "unlimited"},
        "locked_bytes": {"soft": 8_388_608, "hard": 8_388_608},
        "sysctls": {name.replace("/", "."): value for name, value in SYSCTLS.items()},
        "groups": {"cpu": 2, "memory": 2, "pids": 2},
        "group_processes": 300_000,
        "group_bytes": None,
        "available_bytes": 256_000_000_000,
        "governor": "performance",
        "turbo": {"is_on": False, "file": "/sys/devices/system/cpu/intel_pstate/no_turbo", "off": "1"},
        "smt": True,
        "has_tun": True,
    }


def test_control_groups_of_version_1_are_read(tmp_path: Path) -> None:
    mounts = "".join(f"3{at} 22 0:3{at} / /sys/fs/cgroup/{name} rw - cgroup cgroup rw,{name}\n"
                     for at, name in enumerate(("cpu", "memory", "pids")))  # fmt: skip
    files = {
        "proc/self/mountinfo": MOUNTS + mounts,
        "proc/self/cgroup": "3:pids:/a/b\n2:memory:/a\n1:cpu:/\n0::/",
        "sys/fs/cgroup/pids/a/b/pids.max": "max",
        "sys/fs/cgroup/pids/a/pids.max": "77",
        "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "1000000",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
    }
    found = placed(tmp_path, files)
    assert found.groups == {"cpu": 1, "memory": 1, "pids": 1}
    assert (found.group_processes, found.group_bytes) == (77, 1_000_000)


def test_this_machine_can_be_read() -> None:
    assert host_limits().descriptors is not None
    assert json.dumps(host_limits().facts())
    assert doctor.checks(facts.describe(), host_limits(), None, "none")


ROOT_HERE = HostLimits(user=0, capabilities=ALL_CAPABILITIES)
USER_HERE = HostLimits(user=1_000)
IN_CONTAINER = HostLimits(user=0, read_only=("/proc/sys", "/sys"))


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (fixes.sysctl(ROOT_HERE, "kernel.pid_max", "9"), "sysctl -w kernel.pid_max=9"),
        (
            fixes.sysctl(IN_CONTAINER, "kernel.pid_max", "9"),
            f"{CANNOT}/proc/sys is read-only: on the host, sysctl -w kernel.pid_max=9",
        ),
        (fixes.into_file(ROOT_HERE, "/sys/a", "1"), "echo 1 | tee /sys/a"),
        (
            fixes.into_file(IN_CONTAINER, "/sys/a", "1"),
            f"{CANNOT}/sys is read-only: on the host, write 1 into /sys/a",
        ),
        (fixes.ulimit(USER_HERE, "nofile", Limit(10, 100), 50, 1_000), "ulimit -S -n 100"),
        (fixes.ulimit(USER_HERE, "nofile", Limit(10, math.inf), 50, 1_000), "ulimit -S -n 1000"),
        (fixes.ulimit(ROOT_HERE, "memlock", Limit(1, 1), 4_096, 8_192), "ulimit -l 8"),
        (fixes.tun(USER_HERE), "sudo modprobe tun"),
        (
            fixes.tun(IN_CONTAINER),
            f"{CANNOT}start the container with --device /dev/net/tun --cap-add NET_ADMIN",
        ),
    ],
)
def test_a_fix_is_what_this_user_would_type(said: str, expected: str) -> None:
    assert said == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param({}, {}, id="a good machine"),
        pytest.param(
            {"load_average": [3.0, 0, 0]},
            {"load average": ("3.00 on 4 processors", "top -b -n 1 -o %CPU | head -15  # end what should not run")},
            id="busy",
        ),
        pytest.param(
            {"steal_share_since_boot": 0.2},
            {
                "stolen time": (
                    "20.00 % since boot",
                    f"{CANNOT}measure at another hour, or on processors of your own",
                )
            },
            id="stolen from",
        ),
        pytest.param(
            {"memory": {"thp": "always"}},
            {
                "transparent huge pages": (
                    "always",
                    "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
                )
            },
            id="huge pages",
        ),
        pytest.param(
            {"limits": {"cgroup_cpus": 1.5}},
            {
                "CPU quota": (
                    "1.5 of 4 processors",
                    f"{CANNOT}start the container without --cpus, or the unit without CPUQuota",
                )
            },
            id="a quota",
        ),
        pytest.param(
            {"cpu": {"logical": 1, "cores": 1, "topology": [Cpu(0, 0)._asdict()]}},
            {
                "processors": (
                    "1 core (1 logical)",
                    f"{CANNOT}use a machine of two cores or more; until then trust CPU per request more than "
                    "throughput",
                )
            },
            id="one core",
        ),
    ],
)
def test_what_is_wrong_with_the_processors_is_a_finding(
    change: dict[str, Any], expected: dict[str, tuple[str, str]]
) -> None:
    assert findings(doctor.checks(good_machine() | change, USER_HERE, without_trouble())) == expected


FORBIDDEN = HostLimits(
    user=1_000, sysctls={"kernel.io_uring_disabled": "2", "user.max_user_namespaces": "0"}, has_tun=True
)
SECOND = HostLimits(user=1_000, groups={"cpu": 2, "memory": 2, "pids": 2})


@pytest.mark.parametrize(
    ("host", "tried", "what", "fix"),
    [
        (USER_HERE, Tried(limits={"cpu_quota": "why"}), "limit cpu_quota", 'sudo env "PATH=$PATH" iolab vs A B'),
        (SECOND, Tried(limits={"cpu_quota": "why"}), "limit cpu_quota", "systemd-run --user --scope iolab vs A B"),
        (
            ROOT_HERE,
            Tried(limits={"processes_max": "why"}),
            "limit processes_max",
            f"{CANNOT}the control groups above this process are not its own: run it on the host",
        ),
        (USER_HERE, Tried(no_path="why"), "network path", "sudo modprobe tun"),
        (FORBIDDEN, Tried(no_path="why"), "network path", "sudo sysctl -w user.max_user_namespaces=10000"),
        (
            HostLimits(user=1_000, has_tun=True),
            Tried(no_path="why"),
            "network path",
            'sudo env "PATH=$PATH" iolab vs A B',
        ),
        (
            HostLimits(user=0, has_tun=True),
            Tried(no_path="why"),
            "network path",
            f"{CANNOT}start the container with --cap-add SYS_ADMIN --cap-add NET_ADMIN",
        ),
        (USER_HERE, Tried(no_count="why"), "syscall counts", 'sudo env "PATH=$PATH" iolab vs A B'),
        (
            ROOT_HERE,
            Tried(no_count="why"),
            "syscall counts",
            f"{CANNOT}start the container with --cap-add PERFMON --cap-add SYS_ADMIN",
        ),
    ],
)
def test_what_some_trials_need_is_a_finding_where_it_is_not_to_be_had(
    host: HostLimits, tried: Tried, what: str, fix: str
) -> None:
    checks = doctor.checks(good_machine(), host, without_trouble(), tried=tried)
    assert findings(checks) == {what: ("why", fix)}


@pytest.mark.parametrize(
    ("host", "name", "why_not", "fix"),
    [
        (FORBIDDEN, "io_uring", "io_uring is forbidden here", "sudo sysctl -w kernel.io_uring_disabled=0"),
        (
            USER_HERE,
            "io_uring",
            "io_uring is forbidden here",
            f"{CANNOT}start the container with --security-opt seccomp=unconfined, or use a newer kernel",
        ),
        (USER_HERE, "thread", "no threads", f"{CANNOT}the kernel or the container lacks what it needs"),
    ],
)
def test_a_model_that_is_not_here_is_a_finding(host: HostLimits, name: str, why_not: str, fix: str) -> None:
    said = without_trouble().model_dump(mode="json", by_alias=True)
    said["models"] = [{**said["models"][0], "name": name, "available": False, "why_not": why_not}]
    checks = doctor.checks(good_machine(), host, Description.model_validate(said))
    assert findings(checks) == {f"model {name}": (why_not, fix)}


@pytest.mark.parametrize(
    ("trouble", "fix"),
    [
        ("there is no engine: run: make build", "make build, in a checkout; elsewhere install iolab again"),
        ("IOLAB_ENGINE names no file: /none", "unset IOLAB_ENGINE"),
    ],
)
def test_without_an_engine_nothing_can_be_measured(trouble: str, fix: str) -> None:
    checks = doctor.checks(good_machine(), ROOT_HERE, None, trouble)
    assert [each for each in checks if each.status == "bad"] == [
        Check("features", "bad", "engine", trouble, "Nothing can be measured without it.", fix)
    ]


def scattered(spread: float) -> tuple[float, ...]:
    """x = ln(B / A) of eight pairs of equal servers with this spread."""
    return (spread / 1.4826, -spread / 1.4826) * 4


@pytest.mark.parametrize(
    ("spread", "smallest", "needs"),
    [
        (
            0.01,
            "differences below 0.14 % need more than 10 min here",
            "a difference of 10 % takes about 7 s of trials, of 3 % 7 s, of 1 % 12 s",
        ),
        (
            0.3,
            "differences below 4.2 % need more than 10 min here",
            "a difference of 10 % takes about 2 min of trials, of 3 % 19 min, of 1 % 2 h 52 min",
        ),
    ],
)
def test_the_spread_of_pairs_says_how_long_a_difference_takes(spread: float, smallest: str, needs: str) -> None:
    found = resolution.resolution("throughput", scattered(spread), blocks=8, seconds=9.6)
    assert (found.words, found.needs_words) == (smallest, needs)
    assert [each.blocks for each in found.needs] == [stats.blocks_for(scattered(spread), d) for d in (0.1, 0.03, 0.01)]


def test_a_longer_run_has_its_share_of_blocks_that_do_not_count() -> None:
    found = resolution.resolution("throughput", scattered(0.3), blocks=16, seconds=19.2)
    counting = stats.blocks_for(scattered(0.3), 0.03)
    assert (found.pairs, found.needs[1].blocks) == (8, 2 * counting)
    assert found.needs[1].seconds == pytest.approx(2.4 * counting)


@pytest.mark.parametrize("spread", [0.005, 0.02, 0.3])
@pytest.mark.parametrize("blocks", [6, 40, 1_000])
def test_the_smallest_difference_is_what_so_many_blocks_are_planned_for(spread: float, blocks: int) -> None:
    x = scattered(spread)
    # Rounding up may add one block.
    assert stats.blocks_for(x, stats.effect_for(x, blocks)) in (blocks, blocks + 1)


def test_the_plan_of_a_spread_finds_the_difference_as_often_as_it_says() -> None:
    """Plans for 3 % and simulates 1,000 comparisons: in about four of five the interval excludes 1.

    The seed is fixed; with 1,000 comparisons the share is known to about 1 %.
    """
    spread, generator = 0.06, np.random.default_rng(7)
    blocks = stats.blocks_for(scattered(spread), 0.03)
    _, low, _ = stats.hodges_lehmann(generator.normal(math.log(1.03), spread, size=(1_000, blocks)))
    assert 0.77 <= np.mean(low > 0) <= 0.9


def noise(**changes: Any) -> Noise:
    """Trials on a quiet machine, with changes to the part under test."""
    fine = Resolution(metric="throughput", pairs=8, spread=0.01, needs=needs(10, 40, 300), smallest=0.004)
    usual = {"resolutions": (fine,), "blocks": 8, "seconds": 9.0, "warmup_ms": 100, "duration_ms": 400}
    return Noise.model_validate(usual | changes)


def needs(*blocks: int) -> tuple[Need, ...]:
    """The blocks needed for 10, 3 and 1 %, at 1.2 s each."""
    pairs = zip(resolution.DIFFERENCES, blocks, strict=True)
    return tuple(Need(difference=each, blocks=count, seconds=1.2 * count) for each, count in pairs)


def coarse(*blocks: int) -> Resolution:
    return Resolution(metric="latency_p99", pairs=8, spread=0.4, needs=needs(*blocks), smallest=0.08)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(noise(), {}, id="a quiet machine"),
        pytest.param(
            noise(resolutions=(coarse(20, 700, 5_000),)),
            {
                "Latency p99": (
                    "differences below 8 % need more than 10 min here",
                    "iolab vs A B --warmup 100ms --duration 400ms --blocks 700",
                )
            },
            id="more blocks find it",
        ),
        pytest.param(
            noise(resolutions=(coarse(20, 1_700, 9_000),)),
            {
                "Latency p99": (
                    "differences below 8 % need more than 10 min here",
                    f"{CANNOT}it takes 1,700 blocks: measure at another hour, or on processors of your own",
                )
            },
            id="more blocks than a run has",
        ),
        pytest.param(
            noise(resolutions=(), discarded=5, why="machine busy: other programs used 0.45 cores"),
            {
                "what it resolves": (
                    "unknown: 5 of 8 pairs of trials cannot be used",
                    "top -b -n 1 -o %CPU | head -15  # end what should not run",
                )
            },
            id="too few pairs",
        ),
        pytest.param(
            noise(core_to_core_ns=(41.2, 50.0, 402.7)),
            {
                "core-to-core latency": (
                    "41 to 403 ns round trip: its state changed",
                    f"{CANNOT}ask the host for pinned processors, or run more blocks",
                )
            },
            id="processors that are moved",
        ),
        pytest.param(noise(core_to_core_ns=(400.0, 390.0)), {}, id="processors that stay apart"),
        pytest.param(
            noise(steal_share=0.03),
            {
                "stolen time": (
                    "3.0 % during trials, 0.00 % since boot",
                    f"{CANNOT}measure at another hour, or on processors of your own",
                )
            },
            id="stolen from",
        ),
        pytest.param(
            noise(foreign_cpu_cores=0.2),
            {
                "other programs": (
                    "0.20 processors, during 9 s of trials",
                    "top -b -n 1 -o %CPU | head -15  # end what should not run",
                )
            },
            id="other programs",
        ),
    ],
)
def test_noise_is_a_finding_where_it_hides_three_percent(seen: Noise, expected: dict[str, tuple[str, str]]) -> None:
    assert findings(doctor.checks(good_machine(), USER_HERE, without_trouble(), noise=seen)) == expected


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize(
    ("faults", "resolved", "discarded", "why"),
    [
        pytest.param({}, 3, 0, "", id="a quiet machine"),
        pytest.param({0: "busy", 2: "busy"}, 3, 2, "machine busy: ", id="eight pairs are enough"),
        pytest.param({3: "dies"}, 3, 1, "the server ended", id="a server that dies once"),
        pytest.param(
            {1: "dies", 2: "busy", 4: "busy", 6: "busy"}, 3, 4, "machine busy: ", id="what discarded most is the reason"
        ),
        pytest.param(dict.fromkeys(range(0, 10, 2), "busy"), 0, 5, "machine busy: ", id="five pairs give no interval"),
    ],
)
def test_noise_is_measured_in_pairs_of_trials_of_one_server(
    faults: dict[int, str], resolved: int, discarded: int, why: str
) -> None:
    host = FakeHost(faults, core_to_core_series_ns=(50.0, 60.0))
    found = noise_run(host, cores(2), host.clocks())
    assert host.started == ["epoll"] * 2 * BLOCKS
    assert (len(found.resolutions), found.blocks, found.discarded) == (resolved, BLOCKS, discarded)
    assert found.why.startswith(why) if why else not found.why
    assert set(found.core_to_core_ns) == {50.0, 60.0}
    assert host.running == []


def test_a_server_that_cannot_start_ends_the_measurement() -> None:
    host = FakeHost({3: "no_io_uring"})
    found = noise_run(host, cores(2), host.clocks())
    assert len(host.started) == 4
    assert (found.resolutions, found.why) == ((), "io_uring is forbidden here")


def test_no_pair_begins_when_the_time_is_over() -> None:
    host = FakeHost()
    found = noise_run(host, cores(2), Clocks(monotonic_s=lambda: 4.0 * len(host.started)))
    assert (len(host.started), found.blocks) == (4, 2)


def is_whole(line: str) -> bool:
    """Whether a line is a command to copy, or a single long word."""
    return line.startswith("     fix: ") or " " not in line.strip()


@pytest.mark.usefixtures("quiet")
def test_the_command_prints_what_is_found(simulated: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = iolab("doctor")
    assert done.exit_code == 0
    assert done.stderr == "measuring noise for about 9 s: one server against itself, in short trials\n"
    assert len(simulated.started) == 2 * BLOCKS
    lines = done.stdout.splitlines()
    assert [line for line in lines if not line.startswith((" ", "warn", "This"))] == [
        "noise",
        "processors",
        "limits",
        "features",
    ]
    assert lines[1].startswith("  ok Throughput: differences below ")
    assert lines[-1].startswith("This machine can measure: ")
    assert all(len(line) <= 80 or is_whole(line) for line in lines)


@pytest.mark.usefixtures("quiet")
def test_the_same_as_one_document(simulated: FakeHost) -> None:
    done = iolab("doctor", "--json")
    said = json.loads(done.stdout)
    assert (done.exit_code, said["is_fit"]) == (0, True)
    assert {each["topic"] for each in said["checks"]} == {"noise", "processors", "limits", "features"}
    assert [each["metric"] for each in said["noise"]["resolutions"]] == ["throughput", "cpu_per_request", "latency_p99"]
    assert said["limits"]["descriptors"]
    assert len(simulated.started) == 2 * BLOCKS


def test_without_noise_nothing_is_started(simulated: FakeHost) -> None:
    done = iolab("doctor", "--no-noise", "--json")
    said = json.loads(done.stdout)
    assert (done.exit_code, done.stderr, said["noise"]) == (0, "", None)
    assert "noise" not in {each["topic"] for each in said["checks"]}
    assert simulated.started == []
