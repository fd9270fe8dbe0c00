"""What went wrong in a comparison: warnings, failures, and whether too much is discarded to judge it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import NamedTuple

from iolab.contract.types import Frozen
from iolab.judge.blocks import Used
from iolab.plan.plan import Comparison
from iolab.results.records import Result, TrialWarning
from iolab.wording import words_of

# If a larger share of blocks is discarded, disturbances of the machine decided which blocks were kept.
DISCARDED_SHARE_MAX = 0.20
# This many blocks may be discarded by chance: two of nine are more than a fifth, and if one block in ten is disturbed,
# that happens in one comparison of five.
DISCARDED_BY_CHANCE = 2


class WarningCount(Frozen):
    """A warning with the figures of its first occurrence, and the number of trials that raised it."""

    warning: TrialWarning
    contestant: str
    trials: int


class FailureCount(Frozen):
    """A failure of one contestant, and the number of trials it ended."""

    contestant: str
    kind: str
    message: str
    trials: int


class DiscardReason(NamedTuple):
    """What discarded most trials: the word of a warning or the kind of a failure, in how many, and its first line."""

    word: str
    is_warning: bool
    trials: int
    line: str

    @property
    def title(self) -> str:
        """The word as a sentence writes it."""
        return words_of(self.word)


def too_many_discarded(comparison: Comparison, used: Used, gone: Set[int], results: Sequence[Result]) -> dict[str, str]:
    """The contestants with too many discarded trials in the blocks that count: how many, and the main reason."""
    found = {}
    for slot, title in enumerate(comparison.titles):
        count = sum(row[slot] is None for row in used.values())
        if slot not in gone and count > DISCARDED_SHARE_MAX * len(used):
            mine = [each for each in results if each.trial.slot == slot]
            reason = discarded_for(mine)
            assert reason is not None, "a trial that does not count has a reason"
            again = sum(each.trial.attempt > 0 for each in mine)
            reruns = f" after {again} rerun{'' if again == 1 else 's'}" if again else ""
            found[title] = f"{count} of {len(used)} discarded{reruns}: {reason.title}"
    return found


def discarded_for(results: Iterable[Result]) -> DiscardReason | None:
    """What discarded most of these trials; None if all of them count."""
    lines: dict[tuple[str, bool], list[str]] = {}
    for result in results:
        for word, is_warning, line in _reasons(result):
            lines.setdefault((word, is_warning), []).append(line)
    if not lines:
        return None
    most = max(lines, key=lambda reason: len(lines[reason]))
    return DiscardReason(*most, len(lines[most]), lines[most][0])


def _reasons(result: Result) -> Iterator[tuple[str, bool, str]]:
    """Why a trial is discarded: a word, whether it is a warning, and a line, for its failure or for each warning."""
    if result.failure is not None:
        yield result.failure.kind, False, result.failure.line
    elif not result.is_measured:
        yield "no_report", False, "no report"
    else:
        discarding = (each for each in result.warnings if each.discards)
        yield from ((each.word, True, f"{words_of(each.word)}: {each.detail}") for each in discarding)


def inconclusive_of(results: Iterable[Result], complete: int, discarded: int) -> str | None:
    """Why a comparison is not decided, from its numbers of complete and discarded blocks; None if it is."""
    if discarded <= DISCARDED_SHARE_MAX * complete or (discarded <= DISCARDED_BY_CHANCE and discarded < complete):
        return None
    share = f"{discarded} of {complete} blocks were discarded"
    reason = discarded_for(results)
    if reason is None or not reason.is_warning:
        return f"inconclusive: {share}, because trials failed"
    if reason.word in ("machine_busy", "generator_starved", "generator_late"):
        return f"inconclusive: the machine was too busy ({share})"
    return f"inconclusive: {share}, most of them for {reason.title}"


def warnings_of(comparison: Comparison, results: Sequence[Result]) -> tuple[WarningCount, ...]:
    first: dict[tuple[str, str], TrialWarning] = {}
    counts: Counter[tuple[str, str]] = Counter()
    for result in results:
        for warning in result.warnings:
            place = (warning.word, comparison.titles[result.trial.slot])
            first.setdefault(place, warning)
            counts[place] += 1
    return tuple(
        WarningCount(warning=warning, contestant=place[1], trials=counts[place]) for place, warning in first.items()
    )


def failures_of(comparison: Comparison, results: Sequence[Result]) -> tuple[FailureCount, ...]:
    counts = Counter(
        (comparison.titles[result.trial.slot], result.failure.kind, result.failure.line)
        for result in results
        if result.failure is not None and not result.failure.left_out
    )
    return tuple(
        FailureCount(contestant=title, kind=kind, message=message, trials=count)
        for (title, kind, message), count in counts.items()
    )


def left_out_of(comparison: Comparison, results: Sequence[Result]) -> dict[str, str]:
    return {
        comparison.titles[result.trial.slot]: result.failure.message
        for result in results
        if result.failure is not None and result.failure.left_out
    }
