"""The warnings of a run as a table, and the warning that discarded most trials, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from iolab.judge.verdict import ComparisonVerdict
from iolab.plan.plan import Plan
from iolab.results.records import Result
from iolab.wording import NOTHING, words_of

# With more contestants, the table of warnings has no column for each.
WARNING_COLUMNS_MAX = 4


class WarningRow(NamedTuple):
    """One warning or kind of failure over the whole run: in how many trials of each contestant, and what to do."""

    word: str
    discards: bool
    cells: tuple[str, ...]
    advice: str


class WarningDetail(NamedTuple):
    """One warning or failure of one contestant at one setting, with the figures of its first occurrence."""

    comparison: str
    contestant: str
    word: str
    trials: int
    first: str


class WarningTable(NamedTuple):
    """All warnings of a run: those of its trials, and unequal replies, which belong to a whole comparison.

    `titles` are the heads of the columns of counts: one for each contestant, or one for all if there are many.
    """

    titles: tuple[str, ...]
    by_contestant: bool
    rows: tuple[WarningRow, ...]
    details: tuple[WarningDetail, ...]


def warning_table(plan: Plan, verdicts: Sequence[ComparisonVerdict], results: Sequence[Result]) -> WarningTable:
    """Warnings by contestant over all settings, those that discard a trial first, each with its settings."""
    trials = Counter(plan.comparisons[each.trial.comparison].titles[each.trial.slot] for each in results)
    titles = tuple(dict.fromkeys(title for comparison in plan.comparisons for title in comparison.titles))
    columns = titles if len(titles) <= WARNING_COLUMNS_MAX else ("Trials",)
    measured = Counter(
        plan.comparisons[each.trial.comparison].titles[each.trial.slot] for each in results if each.is_measured
    )
    counts: dict[str, Counter[str]] = {}
    kinds: dict[str, tuple[bool, str]] = {}
    details = []
    for found in verdicts:
        said = [
            (each.contestant, f"failed: {words_of(each.kind)}", True, each.message, each.message, each.trials)
            for each in found.failures
        ]
        said += [
            (
                each.contestant,
                words_of(each.warning.word),
                each.warning.discards,
                each.warning.advice,
                each.warning.detail,
                each.trials,
            )
            for each in found.warnings
        ]
        for title, word, discards, advice, first, count in said:
            counts.setdefault(word, Counter())[title] += count
            kinds.setdefault(word, (discards, advice))
            details.append(WarningDetail(found.name, title, word, count, first))
    rows = []
    for word, (discards, advice) in kinds.items():
        cells = [f"{counts[word][title]} of {trials[title]}" if counts[word][title] else NOTHING for title in titles]
        if columns != titles:
            named = (f"{title} {cell}" for title, cell in zip(titles, cells, strict=True) if cell != NOTHING)
            cells = ["all that were measured" if counts[word] == measured else ", ".join(named)]
        rows.append(WarningRow(word, discards, tuple(cells), advice))
    rows.sort(key=lambda row: (not row.discards, -counts[row.word].total()))
    return WarningTable(columns, columns == titles, tuple(rows), tuple(details))


def discard_reason(found: ComparisonVerdict) -> str:
    """The warning that discarded most trials of a comparison, in words."""
    counts: Counter[str] = Counter()
    for each in found.warnings:
        if each.warning.discards:
            counts[each.warning.word] += each.trials
    return words_of(counts.most_common(1)[0][0]) if counts else "trials failed"
