"""Finds the process that listens at an address, to account for a server that the lab did not start.

The kernel lists its sockets with their inodes, and each process its descriptors with theirs. Only loopback addresses
and sockets in the file system are searched, because any other address may be on another machine.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from iolab.errors import BadInput

# The state of a listening socket in the kernel's TCP table.
LISTENING = "0A"
# Established, and closed by the peer (CLOSE_WAIT); and a connected Unix socket.
CONNECTED, CONNECTED_UNIX = frozenset({"01", "08"}), "03"
SOCKET = "socket:["
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class _Listener(NamedTuple):
    """A listening TCP socket and its inode."""

    host: Address
    port: int
    inode: str

    @property
    def text(self) -> str:
        """The address for display."""
        return f"[{self.host}]:{self.port}" if self.host.version == 6 else f"{self.host}:{self.port}"


def find(connect: str) -> int | None:
    """The process that listens at an address; if several do, the one that started the others.

    None if it is not on this machine or belongs to another user, so its processor time is unknown.
    """
    inodes = set(_listening(connect))
    pids = {pid for pid in _processes() if inodes & set(_sockets(pid))} if inodes else set()
    return next((pid for pid in sorted(pids) if _parent(pid) not in pids), None)


def addresses(pids: Sequence[int]) -> tuple[str, ...]:
    """The TCP addresses at which these processes listen, such as `127.0.0.1:8080`, sorted by port.

    The processes must share one network namespace.
    """
    inodes = {inode for pid in pids for inode in _sockets(pid)}
    found = {at for pid in pids[:1] for at in _tcp_listeners(pid) if at.inode in inodes}
    return tuple(dict.fromkeys(at.text for at in sorted(found, key=lambda at: (at.port, at.text))))


def is_listened_on(connect: str, pid: int) -> bool:
    """Whether a socket listens at an address in the network namespace of a process."""
    host, _, port = connect.rpartition(":")
    wanted = ipaddress.ip_address(host.strip("[]"))
    return any(at.port == int(port) and _covers(at.host, wanted) for at in _tcp_listeners(pid))


def connections(pids: Sequence[int]) -> dict[int, int]:
    """How many connections each of these processes holds. They must share one network namespace.

    An inherited socket counts for each process that has it. Empty if the kernel shows no connections.
    """
    open_now = set(_connected(pids[0])) if pids else set()
    return {pid: sum(inode in open_now for inode in _sockets(pid)) for pid in pids} if open_now else {}


def _connected(pid: int) -> Iterator[str]:
    """The inodes of the connected sockets in the network namespace of a process."""
    for table in ("tcp", "tcp6"):
        for row in (line.split() for line in _lines(f"/proc/{pid}/net/{table}")[1:]):
            if row[3] in CONNECTED:
                yield row[9]
    for row in (line.split() for line in _lines(f"/proc/{pid}/net/unix")[1:]):
        if row[5] == CONNECTED_UNIX:
            yield row[6]


def refuse_absent(pid: int) -> None:
    """Raises BadInput if there is no such process."""
    if not Path(f"/proc/{pid}").is_dir():
        raise BadInput(f"there is no process {pid}: leave --server-pid out, or name the server's")


def name(pid: int) -> str:
    """The kernel's name for a process."""
    return "".join(_lines(f"/proc/{pid}/comm")) or "gone"


def _listening(connect: str) -> Iterator[str]:
    """The inodes of the sockets that listen at an address."""
    if connect.startswith("unix:"):
        rows = (line.split() for line in _lines("/proc/net/unix"))
        yield from (row[6] for row in rows if len(row) == 8 and row[7] == connect.removeprefix("unix:"))
        return
    host, _, port = connect.rpartition(":")
    wanted = ipaddress.ip_address(host.strip("[]"))
    if not wanted.is_loopback:
        return
    yield from (at.inode for at in _tcp_listeners() if at.port == int(port) and _covers(at.host, wanted))


def _tcp_listeners(pid: int | str = "self") -> Iterator[_Listener]:
    """The listening TCP sockets in the network namespace of a process."""
    for table in ("tcp", "tcp6"):
        for row in (line.split() for line in _lines(f"/proc/{pid}/net/{table}")[1:]):
            host, _, port = row[1].partition(":")
            if row[3] == LISTENING:
                words = bytes.fromhex(host)
                # The kernel prints an address as words of four bytes, each in host byte order.
                packed = b"".join(words[at : at + 4][::-1] for at in range(0, len(words), 4))
                yield _Listener(ipaddress.ip_address(packed), int(port, 16), row[9])


def _covers(bound: Address, wanted: Address) -> bool:
    """Whether a socket bound to one address accepts connections to another."""
    return bound.is_unspecified or bound == wanted or getattr(bound, "ipv4_mapped", None) == wanted


def _processes() -> Iterator[int]:
    return (int(entry) for entry in os.listdir("/proc") if entry.isdigit())


def _sockets(pid: int) -> Iterator[str]:
    """The inodes of a process's sockets; none if it has ended or is another user's."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                place = os.readlink(entry.path)
                if place.startswith(SOCKET):
                    yield place[len(SOCKET) : -1]


def _parent(pid: int) -> int:
    fields = "".join(_lines(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return int(fields[1]) if len(fields) > 1 else 0


def _lines(path: str) -> list[str]:
    with contextlib.suppress(OSError):
        return Path(path).read_text(errors="replace").splitlines()
    return []
