"""How long a server takes to recover from an overload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from iolab.capacity import limits
from iolab.capacity.limits import Measurement
from iolab.capacity.measurement import errors_share, measurement, times
from iolab.capacity.records import Record
from iolab.capacity.spec import CapacitySpec
from iolab.capacity.steps import BEFORE, SLICE_REQUESTS, WATCHED, recovery_rates
from iolab.contract.types import Interval
from iolab.judge.trial import BATCH


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice of a recovery, in seconds from the begin of the window, and whether the limits held in it.

    Its `asked_per_s` is the rate of all requests that ended in it, answered or not.
    """

    begin_s: float
    end_s: float
    seen: Measurement
    holds: bool


@dataclass(frozen=True, slots=True)
class Recovery:
    """The recovery from an overload. `back_s` is the time until the limits held again, None if they did not.

    `generator` says why the generator was the limit; it is empty if it was not.
    """

    overload_per_s: float
    afterwards_per_s: float
    begin_s: float
    end_s: float
    watched_s: float
    goodput_per_s: float
    back_s: float | None
    generator: str
    slices: tuple[Slice, ...] = field(repr=False)


def recovery(spec: CapacitySpec, record: Record) -> Recovery:
    """The time from the end of an overload until the limits hold again, from a record with slices.

    The server is back at the end of the first slice from which on the limits hold to the end of the run, for at least
    `BATCH` slices. Each slice counts as the majority of the `BATCH` around it, so no single slow or fast slice decides.
    """
    step, first = record.step, record.slices[0]
    light_per_s, overload_per_s = recovery_rates(step)
    begin_s, end_s = BEFORE * step.duration_ms / 1_000, (BEFORE + 1) * step.duration_ms / 1_000
    # The window may end within a slice, which then has too few requests.
    whole = [each for each in record.slices if each.end_ns - each.begin_ns >= first.end_ns - first.begin_ns]
    slices = [_slice(spec, each, first.begin_ns) for each in whole]
    back = [each for each in _held_to_the_end(slices) if each.begin_s >= end_s]
    overloaded = [each.seen.achieved_per_s for each in slices if begin_s <= each.begin_s and each.end_s <= end_s]
    return Recovery(
        overload_per_s=overload_per_s,
        afterwards_per_s=light_per_s,
        begin_s=begin_s,
        end_s=end_s,
        watched_s=WATCHED * step.duration_ms / 1_000,
        goodput_per_s=fmean(overloaded) if overloaded else 0.0,
        back_s=back[0].end_s - end_s if len(back) >= BATCH else None,
        generator=measurement(record.report).generator,
        slices=tuple(slices),
    )


def _slice(spec: CapacitySpec, interval: Interval, begin_ns: int) -> Slice:
    """A slice, judged like a run: the limits must hold, and its requests must end with correct replies.

    Its median is judged even if it has few replies.
    """
    length_s, replies = (interval.end_ns - interval.begin_ns) / 1e9, interval.correct + interval.wrong
    seen = Measurement(
        asked_per_s=(replies + interval.failed) / length_s,
        achieved_per_s=interval.correct / length_s,
        replies=replies,
        errors_share=errors_share(interval),
        times_ns=times(interval.latency_ns),
    )
    judged = limits.judge(spec.parsed, replace(seen, replies=max(SLICE_REQUESTS, replies) if replies else 0))
    return Slice(
        (interval.begin_ns - begin_ns) / 1e9, (interval.end_ns - begin_ns) / 1e9, seen, judged.word != "breaks"
    )


def _held_to_the_end(slices: Sequence[Slice]) -> Sequence[Slice]:
    """The slices at the end of the run that all hold by the majority of those around them."""
    first = len(slices)
    while first > 0:
        around = [each.holds for each in slices[max(0, first - 1 - BATCH // 2) : first + BATCH // 2]]
        if 2 * sum(around) < len(around):
            break
        first -= 1
    return slices[first:]
