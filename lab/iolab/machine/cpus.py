"""The processors of this machine, and how they are divided between a server and its load."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from iolab.errors import PlanError
from iolab.machine.files import SYS_CPU, read
from iolab.plan.settings import cpu_numbers


class Cpu(NamedTuple):
    """A logical processor. Two with the same package and core are SMT siblings."""

    id: int
    core: int
    package: int = 0
    node: int = 0


@dataclass(frozen=True, slots=True)
class CpuSets:
    """The processors that the server and the generator are bound to (empty: not bound), and why, in one sentence."""

    server: tuple[int, ...]
    load: tuple[int, ...]
    why: str


def choose_cpus(topology: Sequence[Cpu], workers: int = 1, threads: int = 1) -> CpuSets:
    """Processors for `workers` of a server and `threads` of a generator that share no core, not even as SMT siblings.

    One logical processor of each core is used first, on one NUMA node if one is enough. The first core is left to
    interrupts and to the lab if there are cores to spare. With too few cores, siblings are used, but a core never
    serves both sides. With too few siblings, the cores are divided in proportion and each side shares its part. On a
    single core nothing is bound.
    """
    cores = cores_of(topology)
    if len(cores) == 1:
        what = "one processor" if len(topology) == 1 else "one core"
        return CpuSets((), (), f"there is only {what}: server and generator share it, which slows both")
    wanted = workers + threads
    nodes = [cores_of([cpu for cpu in topology if cpu.node == node]) for node in sorted({cpu.node for cpu in topology})]
    near = next((node for node in nodes if len(node) >= wanted), cores)
    if len(near) >= wanted:
        spare = 1 if len(near) > wanted else 0
        first = [core[0] for core in near[spare : spare + wanted]]
        siblings = "; their SMT siblings stay idle" if any(len(core) > 1 for core in near) else ""
        return CpuSets(tuple(first[:workers]), tuple(first[workers:]), f"one core for each thread{siblings}")
    server, rest = _whole_cores(cores, workers)
    load, _ = _whole_cores(rest, threads)
    if len(server) >= workers and len(load) >= threads:
        return CpuSets(server[:workers], load[:threads], "too few cores, so SMT siblings are used, never across sides")
    of_load = min(max(round(len(cores) * threads / wanted), 1), len(cores) - 1)
    server, load = (tuple(cpu for core in part for cpu in core) for part in (cores[:-of_load], cores[-of_load:]))
    fewer = f"{workers} workers and {threads} generator threads have fewer processors, which each side shares"
    return CpuSets(server[:workers], load[:threads], fewer)


def cpus_beside(topology: Sequence[Cpu], taken: Sequence[int], wanted: int) -> tuple[int, ...]:
    """One processor each of at most `wanted` cores that contain none of `taken`.

    Cores of the same NUMA node come first. Empty if a taken processor does not exist.
    """
    known = {cpu.id: cpu for cpu in topology}
    if not set(taken) <= known.keys():
        return ()
    nodes = {known[number].node for number in taken}
    free = [core for core in cores_of(topology) if not set(core) & set(taken)]
    near_first = sorted(free, key=lambda core: known[core[0]].node not in nodes)
    return tuple(core[0] for core in near_first[:wanted])


def one_cpu(topology: Sequence[Cpu]) -> tuple[int, ...]:
    """One processor for both sides: on the second core if there is one, because the first serves interrupts."""
    cores = cores_of(topology)
    return (cores[1 if len(cores) > 1 else 0][0],)


def topology(sys_cpu: Path = SYS_CPU, allowed: Iterable[int] | None = None) -> tuple[Cpu, ...]:
    """The processors this process may use, sorted by number."""
    ids = sorted(os.sched_getaffinity(0) if allowed is None else allowed)
    return tuple(_cpu(sys_cpu / f"cpu{id_}", id_) for id_ in ids)


def parse_cpus(text: str) -> tuple[int, ...]:
    """Parses processors such as `0,2` or `0-3`; raises PlanError for one that this process may not use."""
    try:
        cpus = cpu_numbers(text)
    except ValueError as error:
        raise PlanError(str(error)) from None
    allowed = os.sched_getaffinity(0)
    absent = sorted(set(cpus) - allowed)
    if absent:
        raise PlanError(f"processor {absent[0]} may not be used here: choose among {sorted(allowed)}")
    return cpus


def cpu_words(cpus: Sequence[int]) -> str:
    """A CPU set for people."""
    return "on any CPU" if not cpus else f"on CPU {','.join(map(str, cpus))}"


def cores_of(topology: Sequence[Cpu]) -> list[list[int]]:
    """The logical processors of each physical core."""
    cores: dict[tuple[int, int, int], list[int]] = {}
    for cpu in topology:
        cores.setdefault((cpu.node, cpu.package, cpu.core), []).append(cpu.id)
    return list(cores.values())


def _whole_cores(cores: Sequence[list[int]], wanted: int) -> tuple[tuple[int, ...], list[list[int]]]:
    """The processors of enough whole cores for `wanted` threads, and the remaining cores."""
    taken: list[int] = []
    rest = list(cores)
    while rest and len(taken) < wanted:
        taken += rest.pop(0)
    return tuple(taken), rest


def _cpu(folder: Path, id_: int) -> Cpu:
    core, package = read(folder / "topology/core_id"), read(folder / "topology/physical_package_id")
    node = next((int(path.name[4:]) for path in folder.glob("node[0-9]*")), 0)
    # Without topology information, each processor counts as a core.
    return Cpu(id_, id_ if core is None else int(core), max(0, int(package or 0)), node)
