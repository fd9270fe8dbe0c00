"""Chooses the generator's processors for a search: not those of a server on the same machine.

The lab did not start the server, so it reads the server's processors and never changes them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from iolab.machine import proc
from iolab.machine.cpus import Cpu, cpu_words, cpus_beside


class Placement(NamedTuple):
    """The processors of the generator (none: not bound) and of the server, and why, in one sentence.

    `is_apart`: the server has processors besides the generator's.
    """

    load: tuple[int, ...]
    server: tuple[int, ...]
    why: str
    is_apart: bool = False


def beside_server(topology: Sequence[Cpu], tasks: Collection[proc.Task], threads: int) -> Placement:
    """Processors for a generator with `threads`: none the server may run on, or else none it ran on."""
    here = {cpu.id for cpu in topology}
    may_run = set().union(*(task.affinity for task in tasks)) & here
    ran = tuple(sorted({task.cpu for task in tasks} & here))
    if len(here) == 1:
        return Placement((), ran, "there is only one processor: server and generator share it, which slows both")
    if free := _free(topology, sorted(may_run), threads):
        bound = tuple(sorted(may_run))
        return Placement(free, bound, f"the generator runs {cpu_words(free)}, the server {cpu_words(bound)}", True)
    if free := _free(topology, ran, threads):
        moves = f"the server, which may move, ran {cpu_words(ran)}"
        return Placement(free, ran, f"the generator runs {cpu_words(free)}; {moves}", True)
    advice = "start the server on some of them, as with taskset -c 0"
    return Placement((), ran, f"the server uses every processor, so the generator shares them: {advice}")


def _free(topology: Sequence[Cpu], taken: Sequence[int], threads: int) -> tuple[int, ...]:
    """Processors of other cores than those taken, or else the SMT siblings of those."""
    beside = cpus_beside(topology, taken, threads)
    return beside or tuple(cpu.id for cpu in topology if cpu.id not in taken)[:threads]
