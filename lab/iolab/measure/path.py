"""A network path with a delay between server and generator: two network namespaces of the engine, for one trial.

Both ends are on this machine, each with its own address. The engine enters the namespace of an end by itself, a command
through its reaper.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from iolab.contract.types import PathReady, PathReport, PathSpec
from iolab.machine import proc
from iolab.measure import engine as engines
from iolab.measure.child import Child, ending
from iolab.measure.engine import Engine, TrialFailed


@dataclass(frozen=True, slots=True)
class RunningPath:
    """A path that carries packets until it is stopped. Its namespaces last as long as it and the processes in them."""

    child: Child
    ready: PathReady

    @property
    def server_netns(self) -> str:
        """The file of the server's network namespace."""
        return self.ready.server.netns

    @property
    def load_netns(self) -> str:
        """The file of the load's network namespace."""
        return self.ready.load.netns

    @property
    def server_address(self) -> str:
        """The address of the server's end, without a port."""
        return self.ready.server.address

    def carried(self) -> PathReport:
        """What it has carried since the last call; raises TrialFailed."""
        return engines.carried(self.child)

    def cpu_ns(self) -> int:
        """The processor time it has used."""
        return proc.process_cpu_ns(self.child.pid)

    def check(self) -> None:
        """Raises TrialFailed if it has ended."""
        if (code := self.child.wait(0.0)) is not None:
            raise TrialFailed("path_died", f"the path {ending(code)} while it was used", said=self.child.last_words())

    def stop(self) -> None:
        """Ends it. May be called again."""
        self.child.stop()


def start(engine: Engine, spec: PathSpec) -> RunningPath:
    """Makes a path; raises TrialFailed, with the kind `unavailable` if this machine cannot make one."""
    return RunningPath(*engines.path(engine, spec))


@contextmanager
def running_path(engine: Engine, spec: PathSpec) -> Iterator[RunningPath]:
    """A path that is always stopped at the end."""
    path = start(engine, spec)
    try:
        yield path
    finally:
        path.stop()


def why_not(engine: Engine) -> str:
    """Why no path can be made on this machine, in one line; empty if one can."""
    try:
        with running_path(engine, PathSpec()):
            return ""
    except TrialFailed as failed:
        return failed.failure.message
