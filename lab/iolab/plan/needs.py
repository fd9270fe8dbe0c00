"""What an experiment, a contestant, a claim or a test needs of a machine: data alone."""

from __future__ import annotations

from typing import Self

from pydantic import Field

from iolab.contract.types import Frozen
from iolab.plan.settings import Bytes, Cell, InterpreterName


class Needs(Frozen):
    """Requirements without which a figure would not mean what it says. None by default."""

    processors: int = Field(default=0, ge=0, le=4_096, description="logical processors that may be used")
    path: bool = Field(default=False, description="a network path with a delay between server and generator")
    cpu_quota: bool = Field(default=False, description="a quota of processor time for the server")
    memory_limit: bool = Field(default=False, description="a limit of memory for the server")
    processes_limit: bool = Field(default=False, description="a limit of processes for the server alone")
    memory_bytes: Bytes | None = Field(default=None, description="memory of the machine; or as 12GB")
    programs: tuple[str, ...] = Field(default=(), description="programs that are installed")
    models: tuple[str, ...] = Field(default=(), description="models of the engine that are available")
    interpreters: tuple[InterpreterName, ...] = Field(
        default=(), description="interpreters of Python: gil, nogil, system or a version"
    )

    def and_those(self, other: Self) -> Self:
        """The combined needs of both."""
        return type(self)(
            processors=max(self.processors, other.processors),
            path=self.path or other.path,
            cpu_quota=self.cpu_quota or other.cpu_quota,
            memory_limit=self.memory_limit or other.memory_limit,
            processes_limit=self.processes_limit or other.processes_limit,
            memory_bytes=max(self.memory_bytes or 0, other.memory_bytes or 0) or None,
            programs=tuple(dict.fromkeys((*self.programs, *other.programs))),
            models=tuple(dict.fromkeys((*self.models, *other.models))),
            interpreters=tuple(dict.fromkeys((*self.interpreters, *other.interpreters))),
        )


def of_settings(cell: Cell) -> Needs:
    """The needs that follow from the settings of a cell."""
    server = cell.server
    return Needs(
        path=cell.path is not None,
        cpu_quota=server.cpu_quota is not None,
        memory_limit=server.memory_limit_bytes is not None,
        processes_limit=server.processes_max is not None,
        interpreters=() if server.interpreter is None else (server.interpreter,),
    )
