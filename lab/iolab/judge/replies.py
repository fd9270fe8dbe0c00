"""The size of each contestant's replies: unequal sizes mean different work."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

import numpy as np

from iolab.judge import stats
from iolab.judge.blocks import Used
from iolab.judge.validity import WarningCount
from iolab.plan.plan import Comparison
from iolab.results.records import TrialWarning

# A larger difference raises a warning: a header more or less, but not a digit of a counter.
REPLY_SHARE_MAX = 0.005
# Replies that differ by more than both limits are different work, and such a pair gets no verdict. The headers of
# common servers differ by less than 512 bytes, and sending those costs far less than a request. A difference in size
# below 2 % cannot explain a difference that counts.
WORK_BYTES_MAX = 512
WORK_SHARE_MAX = stats.EFFECT


def reply_bytes_of(comparison: Comparison, used: Used) -> dict[str, float]:
    """The size of each contestant's replies on the wire: the median over its trials."""
    sizes = {}
    for slot, title in enumerate(comparison.titles):
        reports = [result.report for row in used.values() if (result := row[slot]) is not None]
        measured = [r.bytes.received / r.requests.correct for r in reports if r is not None and r.requests.correct]
        if measured:
            sizes[title] = float(np.median(measured))
    return sizes


def unequal_replies(comparison: Comparison, sizes: Mapping[str, float], trials: int) -> tuple[WarningCount, ...]:
    """A warning for each contestant with replies of another size than the reference's."""
    reference = sizes.get(comparison.titles[0])
    warnings = []
    for title, size in sizes.items():
        if reference is not None and abs(size - reference) > REPLY_SHARE_MAX * reference:
            warning = TrialWarning(
                word="unequal_replies", detail=f"{size:,.0f} bytes a reply, the reference {reference:,.0f}"
            )
            warnings.append(WarningCount(warning=warning, contestant=title, trials=trials))
    return tuple(warnings)


def different_work(sizes: Mapping[str, float]) -> dict[str, str]:
    """The contestants that get no word because their replies are too far from the usual size, and why.

    The usual size is the median; of two sizes in the middle it is the smaller.
    """
    usual = statistics.median_low(sizes.values()) if sizes else 0.0
    limit = max(WORK_BYTES_MAX, WORK_SHARE_MAX * usual)
    return {
        title: f"its replies have {size:,.0f} bytes instead of {usual:,.0f}"
        for title, size in sizes.items()
        if abs(size - usual) > limit
    }


def unequal_work_of(sizes: Mapping[str, float], different: Mapping[str, str]) -> str | None:
    """A sentence on different work, with the sizes of the replies; None if the work was equal."""
    if not different:
        return None
    usual = next(title for title in sizes if title not in different)
    parts = [f"{size:,.0f} bytes from {title}" for title, size in sizes.items() if title == usual or title in different]
    return f"The replies differ in size ({', '.join(parts)}): this compares different work."
