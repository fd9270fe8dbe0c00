"""The kernel's counters of listening sockets: connections that a server had no room for.

They count for a whole network namespace. On loopback they include the connections of other programs; over a path they
are the server's own.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class ListenCounters(NamedTuple):
    """How often listening sockets had no room, since the namespace was created.

    `drops` counts every SYN and every final ACK of a handshake that a listening socket dropped. Of these, `overflows`
    found the accept queue full, and `syn_queue_drops` found too many open handshakes with SYN cookies off. With cookies
    on, `syn_cookies_sent` counts the handshakes that continued without a place in that queue.
    """

    overflows: int = 0
    drops: int = 0
    syn_cookies_sent: int = 0
    syn_queue_drops: int = 0

    def since(self, before: ListenCounters) -> ListenCounters:
        """The counts since `before`."""
        return ListenCounters(*(max(0, now - then) for now, then in zip(self, before, strict=True)))


# The kernel's names, in the order of the fields.
NAMES = ("ListenOverflows", "ListenDrops", "SyncookiesSent", "TCPReqQFullDrop")


def listen_counters(pid: int) -> ListenCounters | None:
    """The counters of the network namespace of a process; None if the process has ended."""
    try:
        return parsed(Path(f"/proc/{pid}/net/netstat").read_text())
    except OSError:
        return None


def parsed(text: str) -> ListenCounters:
    """Parses counters in the format of /proc/net/netstat. A counter that this kernel lacks is 0."""
    rows = [line.split() for line in text.splitlines() if line.startswith("TcpExt:")]
    names, values = rows if len(rows) == 2 else ([], [])
    found = dict(zip(names, values, strict=False))
    return ListenCounters(*(int(found.get(name, 0)) for name in NAMES))
