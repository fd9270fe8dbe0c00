"""Short trials, apart from the timed ones, that show what limited a cell when idle processors leave that open.

They answer two questions. Does the server serve more with twice as many requests in flight? The trials of a pair run
next to each other, so the machine is the same for both. And can the generator do more under this load? The run's
fastest server shows it, or the cheapest server there is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from statistics import median

from iolab.judge import trial
from iolab.judge.blocks import Used, used_blocks
from iolab.judge.bottleneck import (
    CEILING_SHARE,
    Bottleneck,
    Limit,
    generator_share,
    is_closed_loop,
    is_open_question,
    limits_of,
    load_shape,
    reached_per_s,
    server_share,
)
from iolab.measure.agent import Host
from iolab.measure.trial_run import measure
from iolab.plan.contestant import Contestant
from iolab.plan.plan import Plan
from iolab.plan.schedule import block_trials
from iolab.plan.settings import Cell, Server, changed, whole_intervals_ms
from iolab.results.records import LimitProbe, Result

# One pair of trials decides, unless its gain is between these: the noise of a machine, and less than twice the rate.
PAIRS_MAX = 3
GAIN_NONE, GAIN_SURE = 1.02, 1.5
# The times of a trial, longer if requests take long: at least this many requests on each connection.
WARMUP_MS, DURATION_MS, REQUESTS = 200, 500, 20
# The server that loads only the generator: the model that runs everywhere and does the least per request.
NULL_SERVER = "epoll"
NULL_TRIALS = 3

# Runs a short trial of a cell and judges it; None if it cannot be used.
Try = Callable[[Cell], Result | None]
# Reports which trials begin next, in words and as cells. Returns False if the budget has no time for them.
Begins = Callable[[str, Sequence[Cell]], bool]


class Timed:
    """What a run's timed trials show about its cells, computed once for each comparison."""

    def __init__(self, plan: Plan, results: Sequence[Result]) -> None:
        self.plan, self._results = plan, results
        self._done = {result.trial.place: result for result in results if plan.holds(result.trial)}
        self._known: dict[int, tuple[Used, Mapping[str, Limit]]] = {}

    @cached_property
    def ceilings(self) -> dict[str, float]:
        """The highest known rate of the generator for each shape of load. A probe that measures one adds it."""
        return reached_per_s(self.plan, self._results)

    def of(self, comparison: int, slot: int) -> tuple[Cell, Bottleneck | None, list[Result]]:
        """A cell, what limited it, and its trials that count."""
        if comparison not in self._known:
            used, _, _ = used_blocks(self.plan, comparison, self._done)
            self._known[comparison] = used, limits_of(self.plan, comparison, used, (), {})
        rows, limits = self._known[comparison]
        mine = [each for row in rows.values() if (each := row[slot]) is not None and each.report is not None]
        limit = limits.get(self.plan.comparisons[comparison].titles[slot])
        return self.plan.comparisons[comparison].cells[slot], None if limit is None else limit.kind, mine


def limit_probe(host: Host, timed: Timed, comparison: int, slot: int, begins: Begins) -> LimitProbe | None:
    """Runs short trials that show what limited a cell; None if the timed trials show it, or no trial can.

    The probe calls `begins` before its trials, and skips them if it returns False.
    """
    cell, kind, mine = timed.of(comparison, slot)
    if not mine or not is_closed_loop(cell):
        return None
    (scheduled,) = (each for each in block_trials(timed.plan, comparison, 0, 0) if each.slot == slot)

    def attempt(asked: Cell) -> Result | None:
        result = trial.judged(asked, measure(host, asked, scheduled))
        return None if result.report is None or result.discarded else result

    ceiling = None
    if kind is Bottleneck.GENERATOR:
        rate = median(_rate(each) for each in mine)
        ceiling = _ceiling_per_s(cell, rate, timed.ceilings, attempt, begins)
        if ceiling is None:
            return None
        timed.ceilings[load_shape(cell)] = ceiling
        if rate >= CEILING_SHARE * ceiling:
            return LimitProbe(ceiling_per_s=ceiling)
        kind = Bottleneck.LATENCY
    if not is_open_question(cell, kind):
        return None
    return _doubled(_short(cell, _mean_ms(mine)), attempt, begins).model_copy(update={"ceiling_per_s": ceiling})


def longest_ms(plan: Plan, results: Sequence[Result] = ()) -> list[int]:
    """The lengths of the trials that may run to show what limited the cells: an upper bound, given the results so far.

    With results, cells whose limit the timed trials show are left out, and slow servers get longer trials. Without
    results, neither is known.
    """
    timed = Timed(plan, results)
    trials, shapes = list[int](), set[str]()
    for at, comparison in enumerate(plan.comparisons):
        for slot in range(len(comparison.cells)):
            cell, kind, mine = timed.of(at, slot)
            kind = kind if results else Bottleneck.GENERATOR
            if not is_closed_loop(cell) or kind not in (Bottleneck.GENERATOR, Bottleneck.LATENCY):
                continue
            if kind is Bottleneck.GENERATOR and load_shape(cell) not in shapes:
                shapes.add(load_shape(cell))
                trials += [_short(cell, 0.0).trial_ms] * NULL_TRIALS
            if is_open_question(cell, Bottleneck.LATENCY):
                trials += [_short(cell, _mean_ms(mine)).trial_ms] * 2 * PAIRS_MAX
    return trials


def _ceiling_per_s(cell: Cell, rate: float, known: Mapping[str, float], attempt: Try, begins: Begins) -> float | None:
    """The highest known rate of the generator under the load of a cell, measured if the known rates do not decide.

    None if there is no time to measure it.
    """
    ceiling = known.get(load_shape(cell), rate)
    if rate < CEILING_SHARE * ceiling:
        return ceiling
    server = Server(workers=cell.server.workers, cpus=cell.server.cpus)
    null = _short(cell.model_copy(update={"contestant": Contestant.parse(NULL_SERVER), "server": server}), 0.0)
    if not begins(f"{NULL_TRIALS} trials of the generator against the cheapest server", [null] * NULL_TRIALS):
        return None
    return max(ceiling, *(_rate(attempt(null)) for _ in range(NULL_TRIALS)))


def _doubled(cell: Cell, attempt: Try, begins: Begins) -> LimitProbe:
    """The gain of twice as many requests in flight, and how busy both sides were then; empty if the trials failed or
    there was no time for them.
    """
    more = twice(cell)
    gains, seen = list[float](), None
    for pair in range(1, PAIRS_MAX + 1):
        if not begins(f"pair {pair} of at most {PAIRS_MAX}, with twice as many requests in flight", (cell, more)):
            break
        before, after = attempt(cell), attempt(more)
        if before is None or after is None or not _rate(before):
            continue
        gains.append(_rate(after) / _rate(before))
        seen = after
        if not GAIN_NONE < gains[0] < GAIN_SURE:
            break
    if seen is None or seen.report is None:
        return LimitProbe()
    return LimitProbe(
        gain=median(gains), server_share=server_share(more, seen), generator_share=generator_share(more, seen.report)
    )


def twice(cell: Cell) -> Cell:
    """The cell with twice as many requests in flight, and twice the threads if the generator has idle processors."""
    load = cell.load
    active = None if load.active is None else 2 * load.active
    connections = 2 * load.connections if active is None else max(load.connections, active)
    threads = 2 * load.threads if len(load.cpus) >= 2 * load.threads else load.threads
    return changed(cell, {"load.connections": connections, "load.active": active, "load.threads": threads})


def _mean_ms(results: Sequence[Result]) -> float:
    """The median of the trials' mean latencies; 0 without trials."""
    means = [each.report.latency_ns.mean for each in results if each.report is not None]
    return median(means) / 1e6 if means else 0.0


def _short(cell: Cell, mean_ms: float) -> Cell:
    """The cell with trials as short as its latency allows."""
    times = cell.trial
    longer = REQUESTS * mean_ms
    return changed(
        cell,
        {
            "trial.interval_ms": 20,
            "trial.warmup_ms": whole_intervals_ms(round(min(times.warmup_ms, max(WARMUP_MS, longer / 2)))),
            "trial.duration_ms": whole_intervals_ms(round(min(times.duration_ms, max(DURATION_MS, longer)))),
        },
    )


def _rate(result: Result | None) -> float:
    return 0.0 if result is None or result.report is None else result.report.rate_per_s
