"""The runs of a search as rows of a table. The terminal and the page show the same words and figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from iolab.capacity.limits import QUANTILES, Measurement, Word, rate_number, time_words
from iolab.capacity.progress import Probe, SearchState
from iolab.capacity.sentences import disturbance_words
from iolab.contract.types import percent
from iolab.metrics import quantile_supported
from iolab.wording import NOTHING, number

# Whether a run held the limits.
WORDS: dict[Word, str] = {"holds": "yes", "breaks": "no", "generator": "no (generator)", "unjudged": "too few requests"}


class Row(NamedTuple):
    """One run as printed: rates per second, quantiles, errors, CPU in µs per request, verdict, reasons, purpose."""

    asked: str
    achieved: str
    times: Mapping[str, str]
    errors: str
    cpu: str
    word: str
    why: str
    purpose: str


def rows(state: SearchState) -> list[Row]:
    """The runs at a fixed rate, the lowest first, after those in a closed loop."""
    closed = [probe for probe in state.probes if probe.step.purpose == "closed loop"]
    return [_row(probe) for probe in (*closed, *state.curve)]


def _row(probe: Probe) -> Row:
    asked, cpu_ns, errors = probe.step.rate_per_s, probe.cpu_per_request_ns, probe.seen.errors_share
    return Row(
        asked="closed loop" if asked is None else rate_number(asked),
        achieved=rate_number(probe.seen.achieved_per_s),
        times={name: quantile_words(probe.seen, name) for name in QUANTILES},
        errors=percent(errors, 2) if errors else "0",
        cpu=NOTHING if cpu_ns is None else number(cpu_ns / 1e3),
        word="" if asked is None else WORDS[probe.judged.word],
        why=reasons(probe),
        purpose=probe.step.purpose,
    )


def reasons(probe: Probe) -> str:
    """Why a run did not hold and what disturbed it, without advice, which the end of the search gives once.

    A run in a closed loop is not judged.
    """
    why = "" if probe.step.rate_per_s is None else probe.judged.why.partition(":")[0]
    return ", ".join(filter(None, (why, disturbance_words(probe.seen))))


def quantile_words(seen: Measurement, name: str) -> str:
    """The time of a quantile, or a dash if there were too few requests for it."""
    return time_words(seen.times_ns[name]) if has_quantile(seen, name) else NOTHING


def has_quantile(seen: Measurement, name: str) -> bool:
    """Whether there were enough requests for a quantile."""
    return quantile_supported(seen.replies, QUANTILES[name])
