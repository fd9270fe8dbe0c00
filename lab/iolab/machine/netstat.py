"""The kernel's counters of listening sockets: which connections a server had no room for.

They count for a whole network namespace. On loopback that is the machine's, so the connections of other programs are
among them; over a path it is the server's own.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class ListenCounters(NamedTuple):
    """How often, since the namespace exists, listening sockets had no room.

    `drops` counts every SYN and every last ACK of a handshake that a listening socket dropped. `overflows` are those of
    them that found the queue of `accept` full, and `syn_queue_drops` those that found too many handshakes under way and
    SYN cookies off. Where cookies are on, `syn_cookies_sent` counts the handshakes that went on without a place in that
    queue.
    """

    overflows: int = 0
    drops: int = 0
    syn_cookies_sent: int = 0
    syn_queue_drops: int = 0

    def since(self, before: ListenCounters) -> ListenCounters:
        """What was counted after `before`."""
        return ListenCounters(*(max(0, now - then) for now, then in zip(self, before, strict=True)))


# What the kernel calls them, in the order of the fields.
NAMES = ("ListenOverflows", "ListenDrops", "SyncookiesSent", "TCPReqQFullDrop")


def listen_counters(pid: int) -> ListenCounters | None:
    """The counters of the network namespace that a process is in; None where the process is gone."""
    try:
        return parsed(Path(f"/proc/{pid}/net/netstat").read_text())
    except OSError:
        return None


def parsed(text: str) -> ListenCounters:
    """The counters in a text of the form of /proc/net/netstat. One that this kernel does not have counts nothing."""
    rows = [line.split() for line in text.splitlines() if line.startswith("TcpExt:")]
    names, values = rows if len(rows) == 2 else ([], [])
    found = dict(zip(names, values, strict=False))
    return ListenCounters(*(int(found.get(name, 0)) for name in NAMES))
