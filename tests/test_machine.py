"""The choice of CPUs, and what counts as noise: tables that depend on no host."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from iolab.machine import cpus, facts, netstat, noise, proc
from iolab.machine import needs as machine_needs
from iolab.machine.cpus import Cpu, CpuSets
from iolab.machine.needs import Facts
from iolab.machine.netstat import ListenCounters
from iolab.machine.noise import Ticks
from iolab.plan.needs import Needs

S = 1_000_000_000


def cores(count: int, siblings: int = 1, nodes: int = 1) -> list[Cpu]:
    """A machine numbered as in Linux: first one CPU of every core, node by node, then their siblings."""
    return [
        Cpu(id=core + sibling * count, core=core, package=core * nodes // count, node=core * nodes // count)
        for sibling in range(siblings)
        for core in range(count)
    ]


@pytest.mark.parametrize(
    ("topology", "workers", "threads", "server", "load"),
    [
        pytest.param(cores(1), 1, 1, (), (), id="one processor is shared"),
        pytest.param(cores(1, siblings=2), 1, 1, (), (), id="siblings of one core are shared"),
        pytest.param(cores(2), 1, 1, (0,), (1,), id="two processors"),
        pytest.param(cores(2), 2, 1, (0,), (1,), id="workers share a processor where there are two"),
        pytest.param(cores(2), 1, 4, (0,), (1,), id="generator threads share one"),
        pytest.param(cores(4), 32, 1, (0, 1, 2), (3,), id="workers share all but one of four"),
        pytest.param(cores(4), 3, 5, (0, 1), (2, 3), id="both share in proportion"),
        pytest.param(cores(2, siblings=2), 1, 1, (0,), (1,), id="two cores, their siblings idle"),
        pytest.param(cores(2, siblings=2), 2, 2, (0, 2), (1, 3), id="two cores, siblings on one side each"),
        pytest.param(cores(2, siblings=2), 3, 1, (0, 2), (1,), id="a core never serves both sides"),
        pytest.param(cores(4, siblings=2), 1, 1, (1,), (2,), id="the first core is left to interrupts"),
        pytest.param(cores(4, siblings=2), 2, 2, (0, 1), (2, 3), id="all four cores"),
        pytest.param(cores(4, siblings=2), 4, 2, (0, 4, 1, 5), (2, 6), id="siblings where cores are short"),
        pytest.param(cores(4, siblings=2), 3, 3, (0, 4, 1), (2, 6, 3), id="an odd number of siblings"),
        pytest.param(cores(64, siblings=2, nodes=2), 1, 1, (1,), (2,), id="near each other on a big machine"),
        pytest.param(
            cores(64, siblings=2, nodes=2), 16, 15, tuple(range(1, 17)), tuple(range(17, 32)), id="within a NUMA node"
        ),
        pytest.param(
            cores(64, siblings=2, nodes=2), 40, 20, tuple(range(1, 41)), tuple(range(41, 61)), id="over two nodes"
        ),
        pytest.param([Cpu(5, 5), Cpu(9, 9)], 1, 1, (5,), (9,), id="only what this process may use"),
    ],
)
def test_processors_are_chosen(
    topology: list[Cpu], workers: int, threads: int, server: tuple[int, ...], load: tuple[int, ...]
) -> None:
    chosen = cpus.choose_cpus(topology, workers, threads)
    assert (chosen.server, chosen.load) == (server, load), chosen.why
    assert chosen.why


@pytest.mark.parametrize("count", [2, 3, 4, 8, 64])
@pytest.mark.parametrize("siblings", [1, 2])
@pytest.mark.parametrize("workers", [1, 2, 3, 7])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_server_and_generator_never_share_a_core(count: int, siblings: int, workers: int, threads: int) -> None:
    topology = cores(count, siblings)
    core_of = {cpu.id: cpu.core for cpu in topology}
    chosen: CpuSets = cpus.choose_cpus(topology, workers, threads)
    assert not {core_of[cpu] for cpu in chosen.server} & {core_of[cpu] for cpu in chosen.load}
    assert 1 <= len(chosen.server) <= workers
    assert 1 <= len(chosen.load) <= threads
    has_all = (len(chosen.server), len(chosen.load)) == (workers, threads)
    assert has_all or workers + threads > count, "enough cores, but too few were chosen"


def test_the_topology_is_read_from_sysfs(tmp_path: Path) -> None:
    for id_, core in ((0, 0), (1, 1), (2, 0), (3, 1)):
        folder = tmp_path / f"cpu{id_}"
        (folder / "topology").mkdir(parents=True)
        (folder / "topology/core_id").write_text(f"{core}\n")
        (folder / "topology/physical_package_id").write_text("0\n")
        (folder / f"node{core}").mkdir()
    assert cpus.topology(tmp_path, {1, 2, 3}) == (Cpu(1, 1, 0, 1), Cpu(2, 0, 0, 0), Cpu(3, 1, 0, 1))


def test_a_machine_that_hides_its_topology_has_a_core_for_each_processor(tmp_path: Path) -> None:
    assert cpus.topology(tmp_path, {0, 7}) == (Cpu(0, 0), Cpu(7, 7))


@pytest.mark.parametrize(
    ("apart", "expected"),
    [
        pytest.param(False, Ticks(2_550_000_000, 1_050_000_000, 50_000_000, 0, 77), id="interrupts billed to tasks"),
        pytest.param(
            True, Ticks(2_550_000_000, 1_050_000_000, 50_000_000, 250_000_000, 77), id="interrupts kept apart"
        ),
    ],
)
def test_proc_stat_is_read(apart: bool, expected: Ticks) -> None:
    stat = "cpu  100 10 10 100 5 5 20 5 0 0\ncpu0 1 2 3\nprocesses 77\nprocs_running 1\n"
    assert proc.TICK_NS == 10_000_000, "the figures below are in ticks of 10 ms"
    assert noise.ticks(stat, apart=apart) == expected


@pytest.mark.parametrize(
    ("before", "after", "ours_ns", "steal", "foreign"),
    [
        pytest.param(Ticks(0, 0, 0), Ticks(4 * S, 2 * S, 0), 2 * S, 0.0, 0.0, id="only ours"),
        pytest.param(Ticks(0, 0, 0), Ticks(4 * S, 1 * S, 0), 2 * S, 0.0, 0.5, id="half a core is foreign"),
        pytest.param(
            Ticks(0, 0, 0), Ticks(4 * S, 1 * S, 1 * S), 2 * S, 0.25, 0.0, id="steal is the work of no process"
        ),
        pytest.param(Ticks(0, 0, 0), Ticks(4 * S, 3 * S, 0), 2 * S, 0.0, 0.0, id="ticks may miss some of ours"),
        pytest.param(Ticks(0, 0, 0, 0), Ticks(4 * S, 1 * S, 0, S), 2 * S, 0.0, 0.0, id="interrupts kept apart"),
        pytest.param(
            Ticks(0, 0, 0, 0, 10), Ticks(4 * S, 1 * S, 0, 0, 50_010), 2 * S, 0.0, 0.25, id="50,000 threads have ended"
        ),
        pytest.param(Ticks(5, 5, 5), Ticks(5, 5, 5), 0, 0.0, 0.0, id="no time at all"),
    ],
)
def test_noise_is_what_others_used(before: Ticks, after: Ticks, ours_ns: int, steal: float, foreign: float) -> None:
    found = noise.noise(before, after, ours_ns=ours_ns, wall_ns=2 * S, cpu_ns=S, run_delay_ns=S // 10)
    assert found.steal_share == pytest.approx(steal)
    assert found.foreign_cpu_cores == pytest.approx(foreign, abs=1e-6)
    assert found.run_delay_share == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("files", "membership", "limit"),
    [
        pytest.param({}, "0::/", None, id="no control groups"),
        pytest.param({"cpu.max": "max 100000"}, "0::/", None, id="v2 without a limit"),
        pytest.param({"cpu.max": "150000 100000"}, "0::/", 1.5, id="v2 at the root of a container"),
        pytest.param({"a/cpu.max": "max 100000", "cpu.max": "200000 100000"}, "0::/a", 2.0, id="v2, a parent's limit"),
        pytest.param({"a/cpu.max": "50000 100000", "cpu.max": "200000 100000"}, "0::/a", 0.5, id="v2, the smaller one"),
        pytest.param({"cpu.max": "100000 100000"}, "0::/not/visible/here", 1.0, id="v2, a path from outside"),
        pytest.param(
            {"cpu/b/cpu.cfs_quota_us": "-1", "cpu/b/cpu.cfs_period_us": "100000"}, "3:cpu,cpuacct:/b", None,
            id="v1 without a limit",
        ),
        pytest.param(
            {"cpu/b/cpu.cfs_quota_us": "300000", "cpu/b/cpu.cfs_period_us": "100000"}, "3:cpu,cpuacct:/b\n0::/", 3.0,
            id="v1",
        ),
    ],
)  # fmt: skip
def test_the_quota_of_a_control_group_is_found(
    tmp_path: Path, files: dict[str, str], membership: str, limit: float | None
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    assert facts.cgroup_cpus(tmp_path, membership) == limit


def test_this_machine_can_be_described_and_the_lab_may_use_its_processors() -> None:
    described = facts.describe()
    assert described["cpu"]["logical"] == len(cpus.topology()) >= 1
    assert described["identity"]["kernel"]


@pytest.mark.parametrize(
    ("topology", "taken", "wanted", "beside"),
    [
        (cores(2), (0,), 1, (1,)),
        (cores(2), (1,), 1, (0,)),
        (cores(2), (0, 1), 1, ()),
        (cores(2, siblings=2), (0, 2), 1, (1,)),
        (cores(2, siblings=2), (2,), 1, (1,)),
        (cores(4, siblings=2), (0, 1), 2, (2, 3)),
        (cores(4, siblings=2), (0, 1), 3, (2, 3)),
        (cores(64, siblings=2, nodes=2), (40,), 2, (32, 33)),
        (cores(64, siblings=2, nodes=2), tuple(range(32)), 1, (32,)),
        (cores(2), (7,), 1, ()),
    ],
)
def test_processors_beside_given_ones_share_no_core_with_them(
    topology: list[Cpu], taken: tuple[int, ...], wanted: int, beside: tuple[int, ...]
) -> None:
    assert cpus.cpus_beside(topology, taken, wanted) == beside


def test_one_processor_for_both_sides_is_of_the_second_core() -> None:
    assert [cpus.one_cpu(cores(count)) for count in (1, 2, 24)] == [(0,), (1,), (1,)]


FACTS = Facts(
    cpus=(0, 1),
    memory_bytes=8_000_000_000,
    path_why_not="no /dev/net/tun",
    models_why_not={"epoll": "", "io_uring": "forbidden by seccomp"},
    is_installed=lambda program: program == "ab",
)


@pytest.mark.parametrize(
    ("needs", "unmet"),
    [
        ({}, ""),
        ({"processors": 2, "memory_bytes": "8GB", "programs": ("ab",), "models": ("epoll",), "cpu_quota": True}, ""),
        ({"processors": 4}, "needs 4 processors (2 found)"),
        ({"memory_bytes": "12GB"}, "needs 12 GB of memory (8 GB found)"),
        ({"path": True}, "needs a network path (no /dev/net/tun)"),
        ({"programs": ("ab", "hey")}, "needs the program hey (not installed)"),
        ({"models": ("io_uring",)}, "needs the model io_uring (forbidden by seccomp)"),
        ({"models": ("fibre",)}, "needs the model fibre (the engine has no such model)"),
        (
            {"processors": 4, "programs": ("hey",)},
            "needs 4 processors (2 found); needs the program hey (not installed)",
        ),
    ],
)
def test_what_is_needed_and_missing_is_said_with_what_was_found(needs: dict[str, Any], unmet: str) -> None:
    assert machine_needs.unmet(Needs.model_validate(needs), FACTS) == unmet


def test_a_processor_that_is_named_must_be_there() -> None:
    assert machine_needs.unmet_cpus((0, 1), FACTS) == ""
    assert machine_needs.unmet_cpus((1, 7, 5), FACTS) == "needs processor 5 (2 found)"


TCP_EXT = "TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPReqQFullDrop\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(TCP_EXT + "TcpExt: 3 10 14 4\n", ListenCounters(10, 14, 3, 4), id="each by its name"),
        pytest.param(
            "TcpExt: ListenOverflows Later\nTcpExt: 10 7\nIpExt: InNoRoutes\nIpExt: 5\n",
            ListenCounters(overflows=10),
            id="other kernels have others",
        ),
        pytest.param("", ListenCounters(), id="a kernel without TCP counts nothing"),
    ],
)
def test_the_counters_of_listening_sockets_are_read(text: str, expected: ListenCounters) -> None:
    assert netstat.parsed(text) == expected


def test_counters_of_listening_sockets_are_those_of_a_window() -> None:
    assert ListenCounters(10, 14, 3, 4).since(ListenCounters(4, 4, 3, 0)) == ListenCounters(6, 10, 0, 4)
    counted = netstat.listen_counters(os.getpid())
    assert counted is not None
    assert counted.since(counted) == ListenCounters()
    assert netstat.listen_counters(2**22 + 1) is None, "no process has a number beyond the kernel's largest"
