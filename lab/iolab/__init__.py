"""iolab: which I/O and concurrency model should my network server use, answered with evidence.

From Python, start with `iolab.vs("epoll", "io_uring")`; docs/python.md shows the rest.

The modules are nouns, and each says first what it is for. `plan` and `contract` hold the data; `stats`, `trial`,
`verdict` and `claims` are pure functions over it; `store` keeps it. They run without an engine or a Rust toolchain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iolab.api import open_run, run, vs, write_report
    from iolab.errors import IolabError
    from iolab.results import Results

__all__ = ["IolabError", "Results", "open_run", "run", "vs", "write_report"]

# Where each name is. They are looked up when they are used, because commands start faster without what is behind them.
_HOMES = {"IolabError": "errors", "Results": "results"}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'api')}"), name)
