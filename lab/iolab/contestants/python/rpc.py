"""The Python RPC systems 1, 2 and 4 of the note S2, over iolab's protocol `rpc` or over S2's own transport.

Standard library only. systems.py describes the systems, and transports.py the two transports.
"""

from __future__ import annotations

import argparse
import resource
import signal
import sys
from functools import partial
from pathlib import Path
from typing import NoReturn

import work
from interpreter import announce
from systems import CachedConnections, one_call_each
from transports import Framed, Pickled, listen_tcp, listen_unix


def compute(target: int) -> int:
    """The answer to `target`, as docs/protocols.md of iolab defines it. work.py says why it is in this file, too."""
    x = target
    for _ in range(target):
        x = ((x ^ (x >> 15)) * 1664525 + 1013904223) & 0xFFFFFFFF
    return x


def main() -> None:
    asked = arguments()
    # Each connection takes a descriptor, and the usual limit of 1,024 is for programs that use select.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    try:
        if asked.transport == "unix":
            listeners = listen_unix(asked.scratch, asked.sockets)
        else:
            listeners = listen_tcp(asked.host, asked.sockets)
    except OSError as error:
        refuse(f"cannot listen: {error.strerror or error}")
    connection = Pickled if asked.transport == "unix" else Framed
    open_ = partial(
        connection,
        compute=work.compute if asked.work == "imported" else compute,
        calls_max=1 if asked.system == 1 else None,
    )
    announce(list(listeners))
    sockets = list(listeners.values())
    if asked.system == 1:
        one_call_each(sockets[0], open_, asked.workers)
    CachedConnections(open_, asked.select, asked.wait, asked.cached).run(sockets, asked.workers)


def arguments() -> argparse.Namespace:
    """The arguments; ends the program if they are invalid."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--system", type=int, choices=(1, 2, 4), default=2)
    parser.add_argument("--transport", choices=("tcp", "unix"), default="tcp")
    parser.add_argument("--select", choices=("all", "each"), default="all", help="how idle connections are waited for")
    parser.add_argument("--wait", choices=("select", "poll", "epoll"), default="select", help="with which selector")
    parser.add_argument("--cached", type=int, default=10_000, help="connections that are cached at most")
    parser.add_argument("--work", choices=("main", "imported"), default="main", help="where the work is defined")
    parser.add_argument("--workers", type=int, default=1, help="threads of the pool")
    parser.add_argument("--sockets", type=int, default=1, help="sockets of system 4")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--scratch", type=Path, default=Path(), help="a private folder for the sockets of unix")
    asked = parser.parse_args()
    if asked.sockets > 1 and asked.system != 4:
        refuse(f"system {asked.system} listens on one socket: use system=4")
    if asked.system == 1 and (asked.select, asked.wait, asked.cached) != ("all", "select", 10_000):
        refuse("system 1 caches no connections: leave out select, wait and cached")
    return asked


def refuse(why: str) -> NoReturn:
    """Ends the program with one line."""
    print(f"python-rpc: {why}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
