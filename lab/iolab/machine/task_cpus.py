"""Samples on which processors the threads of processes run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from iolab.machine import proc

# Above this share of its processor time on the generator's processors, a server shares them. Above this share of its
# own time on a processor, the generator occupies that processor.
SHARED_MIN = 0.1


@dataclass(slots=True)
class Watched:
    """The threads of a process tree, and how long they ran on each processor since the first sample, in nanoseconds."""

    tree: proc.Tree
    ran_ns: Counter[int] = field(default_factory=Counter)
    _before: Mapping[str, proc.Task] = field(default_factory=dict)

    def look(self) -> Counter[int]:
        """Adds each thread's run time since the last sample to its current processor; returns what was added."""
        added, now = Counter[int](), proc.tasks(self.tree)
        for path, task in now.items():
            if path in self._before:
                added[task.cpu] += task.ran_ns - self._before[path].ran_ns
        self._before = now
        self.ran_ns.update(added)
        return added

    def shares(self, cpus: Collection[int]) -> bool:
        """Whether it spent more than SHARED_MIN of its time on these processors."""
        return sum(self.ran_ns[cpu] for cpu in cpus) > SHARED_MIN * self.ran_ns.total()


@dataclass(slots=True)
class Pair:
    """A server and its generator, both of which may migrate. `shared_ns` is the server's run time by processor, counted
    while the generator used that processor too.
    """

    server: Watched
    load: Watched
    shared_ns: Counter[int] = field(default_factory=Counter)

    def look(self) -> None:
        """Samples both."""
        server, load = self.server.look(), self.load.look()
        for cpu, ran_ns in server.items():
            if load[cpu] > SHARED_MIN * load.total():
                self.shared_ns[cpu] += ran_ns

    @property
    def shared_share(self) -> float:
        """The share of the server's time that it spent on processors the generator used."""
        return self.shared_ns.total() / max(1, self.server.ran_ns.total())
