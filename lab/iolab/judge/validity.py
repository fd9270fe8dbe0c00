"""What went wrong in a comparison: warnings, failures, and whether too much of it is discarded to judge it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set

from iolab.contract.types import Frozen
from iolab.judge.blocks import Used
from iolab.plan.plan import Comparison, Place
from iolab.results.records import Result, TrialWarning

# If more blocks than this are discarded, the disturbances of the machine decided which blocks were kept.
DISCARDED_SHARE_MAX = 0.20
# So many blocks may be discarded by chance: of nine, two are more than a fifth, and a machine that spoils one block in
# ten does that in one comparison of five.
DISCARDED_BY_CHANCE = 2


class WarningCount(Frozen):
    """A warning, in how many trials it was raised, and the figures of its first appearance."""

    warning: TrialWarning
    contestant: str
    trials: int


class FailureCount(Frozen):
    """A failure of one contestant, and in how many trials."""

    contestant: str
    kind: str
    message: str
    trials: int


def too_many_discarded(comparison: Comparison, used: Used, gone: Set[int], results: Sequence[Result]) -> dict[str, str]:
    """The contestants with too many discarded trials in the blocks that count: how many, and mostly for what."""
    found = {}
    for slot, title in enumerate(comparison.titles):
        count = sum(row[slot] is None for row in used.values())
        if slot not in gone and count > DISCARDED_SHARE_MAX * len(used):
            words = Counter(word for each in results if each.trial.slot == slot for word in _discarded_for(each))
            (word, _), *_ = words.most_common(1)
            again = sum(each.trial.slot == slot and each.trial.attempt > 0 for each in results)
            reruns = f" after {again} rerun{'' if again == 1 else 's'}" if again else ""
            found[title] = f"{count} of {len(used)} discarded{reruns}: {word.replace('_', ' ')}"
    return found


def _discarded_for(result: Result) -> list[str]:
    """Why a trial is discarded: the kind of its failure, or the warnings that discard it."""
    if result.failure is not None:
        return [result.failure.kind]
    if not result.is_measured:
        return ["no_report"]
    return [warning.word for warning in result.warnings if warning.discards]


def inconclusive_of(
    comparison: Comparison, index: int, done: Mapping[Place, Result], complete: int, discarded: int
) -> str | None:
    if discarded <= DISCARDED_SHARE_MAX * complete or (discarded <= DISCARDED_BY_CHANCE and discarded < complete):
        return None
    words = Counter(
        warning.word
        for place, result in done.items()
        if place.comparison == index
        for warning in result.warnings
        if warning.discards
    )
    share = f"{discarded} of {complete} blocks were discarded"
    if not words:
        return f"inconclusive: {share}, because trials failed"
    word, _ = words.most_common(1)[0]
    if word in ("machine_busy", "generator_starved", "generator_late"):
        return f"inconclusive: the machine was too busy ({share})"
    return f"inconclusive: {share}, most of them for {word.replace('_', ' ')}"


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
