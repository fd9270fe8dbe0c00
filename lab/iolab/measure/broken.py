"""How a server broke: what the client saw, and what had run out, found by examining the server before it is stopped.

The evidence is figures of the kernel and of the server itself. A resource is named as exhausted only if a figure
reaches its limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from iolab.contract.types import FirstFailure
from iolab.machine.netstat import ListenCounters
from iolab.machine.resources import Used
from iolab.results.records import Break, Growth, RanOut

# A server often keeps a descriptor or two for refusing connections.
DESCRIPTORS_SPARE = 2
# A machine with this share of its tasks or ports in use occasionally refuses new ones.
NEARLY_ALL = 0.95
# The limits that the engine's servers report for refused connections, and the exhausted resource. The lab allows them
# more connections than it opens, so they reach connections_max only if too few descriptors have lowered it.
REFUSED: Mapping[str, RanOut] = {
    "connections_max": "descriptors",
    "descriptors": "descriptors",
    "set_size": "descriptors",
    "processes": "processes",
    "threads": "threads",
    "memory": "memory",
}


@dataclass(frozen=True, slots=True)
class Vitals:
    """What a server had and was allowed when it failed.

    `refused` is its own count of refused connections, by limit. `processes_refused` and `memory_refused` count how
    often a limit of the lab refused it a process or thread, and ended one of its processes.
    """

    descriptors: Used | None = None
    address_space_bytes: int = 0
    refused: Mapping[str, int] | None = None
    processes_refused: int = 0
    memory_refused: int = 0
    tasks: Used | None = None
    ports: Used | None = None


class Finding(NamedTuple):
    """One finding: a figure in words, and the resource that it shows to be exhausted, if any."""

    words: str
    ran_out: RanOut | None = None


def how(
    first: FirstFailure | None,
    growth: Growth,
    vitals: Vitals,
    listening: ListenCounters | None,
    *,
    recovered: bool | None,
) -> Break:
    """How a server broke, from the client's first failure and from all observations of the server."""
    found = tuple(_findings(growth, vitals, listening))
    return Break(
        request=(first and first.request) or None,
        connection=(first and first.connection) or None,
        phase=first and first.phase,
        saw=first and first.saw,
        ran_out=next((finding.ran_out for finding in found if finding.ran_out is not None), None),
        evidence=tuple(finding.words for finding in found),
        recovered=recovered,
    )


def _findings(growth: Growth, vitals: Vitals, listening: ListenCounters | None) -> Iterator[Finding]:
    """All findings, the most certain first."""
    yield from _refusals(growth, vitals)
    yield from _sizes(growth, vitals)
    if listening is not None and listening.drops:
        full = f"{listening.overflows} found the queue of accept full"
        under_way = f", {listening.syn_queue_drops} too many handshakes under way" if listening.syn_queue_drops else ""
        again = "the client sends them again after a second or more"
        yield Finding(f"listeners dropped {listening.drops} handshake packets ({full}{under_way}): {again}", "backlog")


def _refusals(growth: Growth, vitals: Vitals) -> Iterator[Finding]:
    """What the kernel refused because of a limit, and what the server reports that it refused."""
    if vitals.processes_refused:
        # The kernel counts both as tasks: the server wanted whichever it has more of.
        what: RanOut = "threads" if max(growth.threads) > 2 * max(growth.processes) else "processes"
        yield Finding(f"the limit on processes and threads refused {vitals.processes_refused}", what)
    if vitals.memory_refused:
        yield Finding(f"the limit on memory ended {_counted(vitals.memory_refused, 'process', 'processes')}", "memory")
    for limit, count in (vitals.refused or {}).items():
        if count:
            yield Finding(f"the server refused {count} connections: {limit.replace('_', ' ')}", REFUSED.get(limit))


def _sizes(growth: Growth, vitals: Vitals) -> Iterator[Finding]:
    """The server's maxima along the trial, and what the machine had left."""
    zombies, threads = max(growth.zombies), max(growth.threads)
    yield Finding(f"{_counted(max(growth.processes), 'process', 'processes')}, {zombies} of them ended and not reaped")
    # A dead server has no address space.
    space = f", {vitals.address_space_bytes >> 20} MiB of address space" if vitals.address_space_bytes else ""
    yield Finding(_counted(threads, "thread", "threads") + space)
    yield Finding(f"{max(growth.rss_bytes) >> 20} MiB of resident memory")
    if (used := vitals.descriptors) is not None:
        # For a single process the series has the most open descriptors; the load has closed some since.
        most = max(used.used, max(growth.descriptors)) if max(growth.processes) == 1 else used.used
        is_out = most >= used.allowed - DESCRIPTORS_SPARE
        yield Finding(f"{most} of {used.allowed} descriptors in one process", "descriptors" if is_out else None)
    if (tasks := vitals.tasks) is not None and tasks.share >= NEARLY_ALL:
        yield Finding(f"{tasks.used} of {tasks.allowed} processes and threads of the machine", "processes")
    if (ports := vitals.ports) is not None and ports.share >= NEARLY_ALL:
        yield Finding(f"{ports.used} of {ports.allowed} ports of the client in TIME-WAIT", "ports")


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
