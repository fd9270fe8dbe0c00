"""On which processors processes spend their time, by looking at their threads now and then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from iolab.machine import proc

# A server that spent more than this share of its processor time on the generator's processors shared them; and the
# generator has a processor where it spends more than this share of its own.
SHARED_MIN = 0.1


@dataclass(slots=True)
class Watched:
    """The threads of a process tree, and what they ran on each processor since the first look, in nanoseconds."""

    tree: proc.Tree
    ran_ns: Counter[int] = field(default_factory=Counter)
    _before: Mapping[str, proc.Task] = field(default_factory=dict)

    def look(self) -> Counter[int]:
        """Adds what each thread has run since the last look to the processor it is on now; returns what was added."""
        added, now = Counter[int](), proc.tasks(self.tree)
        for path, task in now.items():
            if path in self._before:
                added[task.cpu] += task.ran_ns - self._before[path].ran_ns
        self._before = now
        self.ran_ns.update(added)
        return added

    def shares(self, cpus: Collection[int]) -> bool:
        """Whether it spent a good part of its time on these processors."""
        return sum(self.ran_ns[cpu] for cpu in cpus) > SHARED_MIN * self.ran_ns.total()


@dataclass(slots=True)
class Pair:
    """A server and the generator that loads it, which may both move. `shared_ns` is what the server ran, by processor,
    where the generator ran at about the same time."""

    server: Watched
    load: Watched
    shared_ns: Counter[int] = field(default_factory=Counter)

    def look(self) -> None:
        """Looks at both."""
        server, load = self.server.look(), self.load.look()
        for cpu, ran_ns in server.items():
            if load[cpu] > SHARED_MIN * load.total():
                self.shared_ns[cpu] += ran_ns

    @property
    def shared_share(self) -> float:
        """The share of the server's time that it spent where the generator was."""
        return self.shared_ns.total() / max(1, self.server.ran_ns.total())
