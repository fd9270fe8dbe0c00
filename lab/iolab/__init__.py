"""iolab: which I/O and concurrency model should my network server use, answered with evidence.

From Python, start with `iolab.vs("epoll", "io_uring")`; docs/python.md shows the rest.

`contract`, `plan` and `results` hold the data; `judge` and `report` are functions over it and need no engine.
`machine`, `measure` and `capacity` measure. Each module begins with its purpose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iolab.api import bundle, compare, doctor, export, open_run, query, run, soak, verify, vs, write_report
    from iolab.errors import IolabError
    from iolab.judge.results import Results

__all__ = [
    "IolabError",
    "Results",
    "bundle",
    "compare",
    "doctor",
    "export",
    "open_run",
    "query",
    "run",
    "soak",
    "verify",
    "vs",
    "write_report",
]

# The modules of names outside `api`. Names are imported on first use, because commands start faster without `api`.
_HOMES = {"IolabError": "errors", "Results": "judge.results"}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'api')}"), name)
