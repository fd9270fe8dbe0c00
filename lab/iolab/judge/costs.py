"""The cost of a request and a connection for each contestant, besides processor time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from iolab.contract.types import Frozen
from iolab.judge.blocks import Used
from iolab.plan.plan import Comparison
from iolab.results.records import CostCount

# With fewer connections, other allocations of the server hide the memory of connections.
MEMORY_CONNECTIONS_MIN = 500


class Cost(Frozen):
    """The cost of a request and a connection for one contestant, besides processor time.

    `calls_per_request` was counted in a separate trial, or is None; `calls_why_not` says why counting failed.
    `connection_bytes` is the growth of the server's own memory per connection, from before the load to the end of the
    window; None below MEMORY_CONNECTIONS_MIN connections. `processes` and `threads` are those of most timed trials.
    """

    contestant: str
    calls_per_request: float | None
    calls_why_not: str | None
    connection_bytes: float | None
    processes: int
    threads: int


Calls = Mapping[tuple[int, int], CostCount]


def _connection_bytes(connections: int, count: CostCount | None) -> float | None:
    if count is None or count.own_bytes is None or count.own_bytes_before is None:
        return None
    grown = count.own_bytes - count.own_bytes_before
    return grown / connections if connections >= MEMORY_CONNECTIONS_MIN else None


def costs_of(index: int, comparison: Comparison, used: Used, calls: Calls) -> tuple[Cost, ...]:
    costs = []
    for slot, title in enumerate(comparison.titles):
        results = [row[slot] for row in used.values()]
        usages = [each.server for each in results if each is not None and each.server is not None]
        if not usages:
            continue
        (processes, threads), _ = Counter((usage.processes, usage.threads) for usage in usages).most_common(1)[0]
        count = calls.get((index, slot))
        costs.append(
            Cost(
                contestant=title,
                calls_per_request=count.per_request if count else None,
                calls_why_not=count.why_not if count else None,
                connection_bytes=_connection_bytes(comparison.cells[slot].load.connections, count),
                processes=processes,
                threads=threads,
            )
        )
    return tuple(costs)
