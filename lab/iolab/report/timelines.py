"""Throughput over time: the series of every trial, their median, and the drawing of both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from iolab.contract.types import Report
from iolab.judge import trial
from iolab.judge.verdict import ComparisonVerdict
from iolab.plan.plan import Plan
from iolab.report import charts, drawing, figures, formats
from iolab.report.charts import Line
from iolab.report.pictures import Drawing

# A median of two lines is neither of them.
MEDIAN_LINES_MIN = 3


def median_line(lines: Sequence[Line]) -> Line | None:
    """The median over the trials that are not discarded, at each time that all of them have; None below three."""
    kept = [line for line in lines if not line.discarded]
    if len(kept) < MEDIAN_LINES_MIN:
        return None
    begin, end = max(line.time_s[0] for line in kept), min(line.time_s[-1] for line in kept)
    times = [time for time in kept[0].time_s if begin <= time <= end]
    rates = np.median([np.interp(times, line.time_s, line.rate_per_s) for line in kept], axis=0)
    return Line(kept[0].slot, False, tuple(times), tuple(rates.round(1).tolist())) if times else None


def lines(plan: Plan, index: int, done: figures.Done) -> dict[int, list[Line]]:
    """Throughput over time of every trial of a comparison that has a report, discarded ones too, by slot."""
    found: dict[int, list[Line]] = {slot: [] for slot in range(len(plan.comparisons[index].cells))}
    for place, result in sorted(done.items()):
        if place.comparison == index and result.report is not None:
            line = _line(place.slot, result.report, discarded=result.discarded)
            if line.time_s:
                found[place.slot].append(line)
    return found


def _line(slot: int, report: Report, *, discarded: bool) -> Line:
    """The series in the batches of five that the rules of a trial use; the middle of each is its time."""
    intervals = report.intervals
    whole = len(intervals.completed) // trial.BATCH * trial.BATCH
    batches = np.asarray(intervals.completed[:whole], dtype=np.float64).reshape(-1, trial.BATCH).sum(axis=1)
    length_s = trial.BATCH * intervals.length_ns / 1e9
    begin_s = (intervals.begin_ns - report.begin_ns) / 1e9
    times = begin_s + (np.arange(batches.size) + 0.5) * length_s
    return Line(slot, discarded, tuple(times.round(4).tolist()), tuple((batches / length_s).round(1).tolist()))


def drawings(plan: Plan, index: int, found: ComparisonVerdict, done: figures.Done) -> Iterable[Drawing]:
    """A drawing for each contestant of a comparison, all with the same axes."""
    of_slots = lines(plan, index, done)
    drawn = [line for of_slot in of_slots.values() for line in of_slot]
    begin_s = min((line.time_s[0] for line in drawn), default=0.0)
    top_per_s = max((max(line.rate_per_s) for line in drawn), default=1.0) or 1.0
    for slot, of_slot in of_slots.items():
        if of_slot:
            discarded = sum(line.discarded for line in of_slot)
            said = formats.count(len(of_slot), "trial") + (f", {discarded} discarded" if discarded else "")
            title = found.titles[slot]
            chart = charts.timeline(of_slot, median_line(of_slot), begin_s, top_per_s)
            yield Drawing(title, said, drawing.inline(chart, f"Throughput of {title} over time", said))
