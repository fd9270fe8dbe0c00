"""Which differences a machine can show, from trials of one server against itself: how many blocks, and how long.

The ratio of every such pair should be 1. Their scatter decides how many pairs it takes to find a difference in 80 % of
cases at 95 % confidence, by the formula the lab plans with (`stats.blocks_for`). These are estimates: ten pairs give
their scatter to within a factor of two in nine of ten cases.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean, median

from iolab.contract.types import Frozen
from iolab.judge import stats
from iolab.judge.blocks import Used, paired, used_blocks, values_of
from iolab.judge.validity import discarded_for
from iolab.metrics import METRICS
from iolab.plan.plan import Plan, blocks_min
from iolab.results.records import Result
from iolab.wording import duration, number

# Differences that users ask about, and how long they wait for an answer.
DIFFERENCES = (0.10, 0.03, 0.01)
WAIT_S = 600.0
# The difference that a machine fit to measure shows within that time.
DIFFERENCE_WANTED = 0.03
# The metrics every verdict begins with, and the tail.
OF = ("throughput", "cpu_per_request", "latency_p99")


class Need(Frozen):
    """What it takes to find a difference (0.03: 3 %)."""

    difference: float
    blocks: int
    seconds: float


class Resolution(Frozen):
    """What it takes to find differences in a metric, and the smallest one found within WAIT_S.

    `spread` is the standard deviation of ln(B / A) over the `pairs` of trials.
    """

    metric: str
    pairs: int
    spread: float
    needs: tuple[Need, ...]
    smallest: float

    @property
    def is_fine(self) -> bool:
        """Whether DIFFERENCE_WANTED is found within WAIT_S."""
        return self.smallest <= DIFFERENCE_WANTED

    @property
    def words(self) -> str:
        """The smallest difference, in a sentence."""
        return f"differences below {_share(self.smallest)} need more than {duration(WAIT_S)} here"

    @property
    def needs_words(self) -> str:
        """How long each difference takes, in a sentence."""
        first, *others = ((f"{_share(each.difference)}", duration(each.seconds)) for each in self.needs)
        parts = [f"a difference of {first[0]} takes about {first[1]} of trials"]
        return ", ".join(parts + [f"of {difference} {time}" for difference, time in others])


class Noise(Frozen):
    """The noise of a machine, from trials of one server against itself.

    `blocks` were run in `seconds`, and `discarded` of them could not be used; `why` is the main reason, or what ended
    the run. `steal_share` is a share of all processor time. `core_to_core_ns` has the latencies before and after each
    trial, in order. `warmup_ms` and `duration_ms` are those of each trial.
    """

    resolutions: tuple[Resolution, ...] = ()
    blocks: int = 0
    discarded: int = 0
    seconds: float = 0.0
    why: str = ""
    steal_share: float = 0.0
    foreign_cpu_cores: float = 0.0
    core_to_core_ns: tuple[float, ...] = ()
    warmup_ms: int = 0
    duration_ms: int = 0


def noise_of(plan: Plan, results: Sequence[Result], seconds: float) -> Noise:
    """The noise by the trials of a plan that compares a server with itself; they took `seconds` in all."""
    used, blocks, discarded = used_blocks(plan, 0, {result.trial.place: result for result in results})
    seen = [result.noise for result in results if result.noise is not None]
    times = plan.comparisons[0].cells[0].trial
    return Noise(
        resolutions=tuple(_resolutions(used, blocks, seconds)),
        blocks=blocks,
        discarded=discarded,
        seconds=seconds,
        why=_why(results),
        steal_share=fmean(each.steal_share for each in seen) if seen else 0.0,
        foreign_cpu_cores=median(each.foreign_cpu_cores for each in seen) if seen else 0.0,
        core_to_core_ns=tuple(ns for each in seen for ns in each.core_to_core_ns or ()),
        warmup_ms=times.warmup_ms,
        duration_ms=times.duration_ms,
    )


def _resolutions(used: Used, blocks: int, seconds: float) -> Iterator[Resolution]:
    for metric in OF:
        x = paired((values_of(used, metric, 1), values_of(used, metric, 0)))
        if len(x) >= blocks_min(1):
            yield resolution(metric, x, blocks, seconds)


def resolution(metric: str, x: Sequence[float], blocks: int, seconds: float) -> Resolution:
    """What it takes to find differences, from the x = ln(B / A) of equal contestants.

    `x` has the blocks that count, out of `blocks`, which took `seconds`. A longer run should lose the same share.
    """
    needs = list[Need]()
    for difference in DIFFERENCES:
        count = stats.blocks_for(x, difference)
        all_blocks, time_s = math.ceil(count * blocks / len(x)), count * seconds / len(x)
        needs.append(Need(difference=difference, blocks=all_blocks, seconds=time_s))
    smallest = stats.effect_for(x, max(blocks_min(1), int(WAIT_S * len(x) / seconds)))
    return Resolution(metric=metric, pairs=len(x), spread=stats.spread(x), needs=tuple(needs), smallest=smallest)


def _why(results: Sequence[Result]) -> str:
    """What ended the run, else what discarded most trials, in words; empty if all count."""
    last = results[-1].failure if results else None
    if last is not None and last.final:
        return last.line
    reason = discarded_for(results)
    return "" if reason is None else reason.line


def title(found: Resolution) -> str:
    """The title of a resolution's metric."""
    return METRICS[found.metric].title


def _share(share: float) -> str:
    """A difference as printed: `3 %`, `0.87 %`."""
    return f"{number(100 * share, 2)} %"
