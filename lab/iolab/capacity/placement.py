"""The processors of the generator of a search: apart from those of a server that runs on the same machine.

The server is a process that the lab did not start, so its own processors are read and never changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from iolab.machine import proc
from iolab.machine.cpus import Cpu, cpu_words, cpus_beside

# A server that spent more than this share of its processor time on the generator's processors shared them.
SHARED_MIN = 0.1


class Placement(NamedTuple):
    """The processors of the generator (none: not bound) and of the server, and why, in one sentence.

    `is_apart`: the server can do without those of the generator.
    """

    load: tuple[int, ...]
    server: tuple[int, ...]
    why: str
    is_apart: bool = False


def beside_server(topology: Sequence[Cpu], tasks: Collection[proc.Task], threads: int) -> Placement:
    """Processors for `threads` of a generator, apart from those on which a server may run, or else on which it ran."""
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
    """Processors of other cores than those taken; where there are none, their SMT siblings."""
    beside = cpus_beside(topology, taken, threads)
    return beside or tuple(cpu.id for cpu in topology if cpu.id not in taken)[:threads]


@dataclass(slots=True)
class Watched:
    """A server's threads through one run: on which processors it spent its time, by looking at them now and then."""

    tree: proc.Tree
    ran_ns: Counter[int] = field(default_factory=Counter)
    _before: Mapping[str, proc.Task] = field(default_factory=dict)

    def look(self) -> None:
        """Adds what each thread has run since the last look to the processor it is on now."""
        now = proc.tasks(self.tree)
        for path, task in now.items():
            if path in self._before:
                self.ran_ns[task.cpu] += task.ran_ns - self._before[path].ran_ns
        self._before = now

    def shares(self, cpus: Collection[int]) -> bool:
        """Whether the server spent a good part of its time on these processors."""
        return sum(self.ran_ns[cpu] for cpu in cpus) > SHARED_MIN * sum(self.ran_ns.values())
