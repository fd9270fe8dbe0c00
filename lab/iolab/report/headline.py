"""The verdict of a whole run in words: what was decided, where, and what is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from iolab.judge import sentences, stats
from iolab.judge.claims import ClaimVerdict
from iolab.judge.estimates import Estimate
from iolab.judge.verdict import ComparisonVerdict
from iolab.plan.plan import Plan
from iolab.report import warning_table

# The most lines of a headline.
LINES_MAX = 6
SAME = f"the same requests within {stats.EFFECT * 100:.0f} %"


# Why a ratio is not decided, in the order in which a sentence lists it.
TOO_MANY_RATIOS = "too few blocks for so many ratios"
TOO_WIDE = "interval too wide"
NOT_THE_LIMIT = "the server was not the limit"
WHY_UNDECIDED = (TOO_MANY_RATIOS, TOO_WIDE, NOT_THE_LIMIT)


class _Outcome(NamedTuple):
    """One outcome of a pair, and at how many settings; `ratios` is ` (low to high)`, or empty without a ratio."""

    words: str
    settings_count: int
    ratios: str = ""


def headline(verdicts: Sequence[ComparisonVerdict]) -> str:
    """The verdict of the whole run: a sentence for each pair of contestants, or a line for each ranking or ladder."""
    if len(verdicts) == 1:
        return verdicts[0].sentence
    if any(found.rankings or found.ladder for found in verdicts):
        return "\n".join(_lines(verdicts))
    if all(found.inconclusive is not None for found in verdicts):
        why = discarded_sentence(verdicts, len(verdicts))
        return f"No verdict. {why} Do not draw conclusions from the ratios below."
    pairs = dict.fromkeys((title, found.titles[0]) for found in verdicts for title in found.titles[1:])
    if not pairs:
        return " ".join(found.sentence for found in verdicts)
    return " ".join(_pair_sentence(verdicts, *pair) for pair in pairs)


def _lines(verdicts: Sequence[ComparisonVerdict]) -> list[str]:
    """A line for each ranking or ladder; if there are many, one for each sentence, the most common first."""
    if len(verdicts) <= LINES_MAX:
        return [f"{found.name}: {found.sentence}" for found in verdicts]
    places = Counter(found.sentence for found in verdicts)
    lines = [f"{sentence} At {count} of {len(verdicts)} settings." for sentence, count in places.most_common(LINES_MAX)]
    return lines if len(places) <= LINES_MAX else [*lines, "The other settings are below."]


def unequal(verdicts: Sequence[ComparisonVerdict], *, warned_only: bool = False) -> list[str]:
    """Differences between contestants that should be equal, each once with the settings it holds for."""
    places: dict[str, list[str]] = {}
    for found in verdicts:
        for line in dict.fromkeys(_unequal(found, warned_only=warned_only)):
            places.setdefault(line, []).append(found.name)
    total = len(verdicts)
    return [line if len(names) == total else f"{where(names, total)}: {line}" for line, names in places.items()]


def _unequal(found: ComparisonVerdict, *, warned_only: bool) -> Iterator[str]:
    if found.unequal_work:
        yield found.unequal_work
    for each in found.warnings:
        if each.warning.word == "unequal_replies":
            yield f"{each.contestant}: {each.warning.detail}."
    yield from (each.text for each in found.asymmetries if each.warns)
    if not warned_only:
        yield from (each.text for each in found.asymmetries if not each.warns)


def of_claims(judged: Sequence[ClaimVerdict]) -> str:
    """The verdicts on the claims, in one line; empty without claims."""
    words: dict[str, list[str]] = {}
    for each in judged:
        words.setdefault(each.judgement, []).append(each.claim.id)
    said = "; ".join(f"{len(ids)} {word} ({', '.join(ids)})" for word, ids in words.items())
    return f"Published claims: {said}." if said else ""


def _pair_sentence(verdicts: Sequence[ComparisonVerdict], contestant: str, reference: str) -> str:
    """Where one contestant served more, fewer or the same requests as the other, with the range of ratios."""
    settings = [found for found in verdicts if contestant in found.titles[1:] and found.titles[0] == reference]
    outcomes = list(_outcomes(settings, contestant, reference))
    largest = _largest_sentence(settings, contestant, reference)
    if len(outcomes) == 1:
        (only,) = outcomes
        at = where([found.name for found in settings], only.settings_count)
        return f"{contestant} against {reference}: {only.words} at {at}{only.ratios}.{largest}"
    parts = ", ".join(f"{each.words} at {each.settings_count}{each.ratios}" for each in outcomes)
    return f"{contestant} against {reference}, of {len(settings)} settings: {parts}.{largest}"


def _outcomes(settings: Sequence[ComparisonVerdict], contestant: str, reference: str) -> Iterator[_Outcome]:
    """The outcomes of a pair in requests; an outcome that no setting has is left out."""
    conclusive = [found for found in settings if found.inconclusive is None]
    known = [found.estimate("throughput", contestant, reference) for found in conclusive]
    estimates = [each for each in known if each is not None]
    differing = [each for each in estimates if each.word == "differs"]
    decided = {
        "more requests": [each for each in differing if each.ratio > 1],
        f"fewer requests, {reference} serves more": [each for each in differing if each.ratio < 1],
        SAME: [each for each in estimates if each.word == "same"],
    }
    yield from (_Outcome(words, len(group), f" ({_range(group)})") for words, group in decided.items() if group)
    undecided = Counter(_why_undecided(each) for each in estimates if each.word == "not decided")
    yield from (_Outcome(f"not decided ({why})", undecided[why]) for why in WHY_UNDECIDED if undecided[why])
    if len(conclusive) > len(estimates):
        yield _Outcome("too few blocks", len(conclusive) - len(estimates))
    if len(settings) > len(conclusive):
        yield _Outcome("inconclusive", len(settings) - len(conclusive))


def _why_undecided(estimate: Estimate) -> str:
    """Why a ratio is not decided."""
    if estimate.bound != "exact":
        return NOT_THE_LIMIT
    return TOO_MANY_RATIOS if estimate.differs_alone else TOO_WIDE


def _largest_sentence(settings: Sequence[ComparisonVerdict], contestant: str, reference: str) -> str:
    """The largest decided difference in latency or memory over all settings, if it is large enough to name."""
    named = [(found, each) for found in settings if (each := found.named_difference(contestant, reference)) is not None]
    if not named:
        return ""
    found, each = max(named, key=lambda one: one[1].size)
    clause = sentences.decided_clause(each)
    return f" Largest other difference: {clause}, at {found.name}."


def _range(group: Sequence[Estimate]) -> str:
    """The smallest and the largest ratio of a group, each in the direction of "more"."""
    ratios = sorted((sentences.turned(each)[2] for each in group), key=lambda each: each.ratio)
    return " to ".join(dict.fromkeys(each.alone for each in (ratios[0], ratios[-1])))


def discarded_sentence(verdicts: Sequence[ComparisonVerdict], total: int) -> str:
    """Where too many blocks were discarded for a verdict, and why, in one sentence."""
    places: dict[str, list[str]] = {}
    for found in verdicts:
        places.setdefault(warning_table.discard_reason(found), []).append(found.name)
    shares = sorted(verdicts, key=lambda found: found.blocks_discarded / (found.blocks_used + found.blocks_discarded))
    ends = [
        f"{each.blocks_discarded} of {each.blocks_used + each.blocks_discarded}" for each in (shares[0], shares[-1])
    ]
    span = " to ".join(dict.fromkeys(ends))
    if len(places) == 1:
        why = f"mostly for “{next(iter(places))}”"
    else:
        why = "mostly for " + " and for ".join(
            f"“{reason}” at {where(names, total)}" for reason, names in places.items()
        )
    return (
        f"Inconclusive at {where([f.name for f in verdicts], total)}: too many blocks were discarded ({span}), {why}."
    )


def unfinished(plan: Plan, verdicts: Sequence[ComparisonVerdict]) -> list[str]:
    """What the verdict still lacks, a sentence for each reason."""
    total = len(verdicts)
    inconclusive = [found for found in verdicts if found.inconclusive is not None]
    # If nothing is conclusive, the headline already says so.
    said = [discarded_sentence(inconclusive, total)] if 0 < len(inconclusive) < total else []
    places: dict[str, list[str]] = {}
    for found in verdicts:
        if found.inconclusive is None and found.blocks_used < found.blocks_planned:
            discarded = f", {found.blocks_discarded} discarded" if found.blocks_discarded else ""
            what = f"{found.blocks_used} of {found.blocks_planned} blocks count{discarded}"
            places.setdefault(what, []).append(found.name)
    return said + [f"{what} at {where(names, total)}." for what, names in places.items()]


def where(names: Sequence[str], total: int) -> str:
    """These settings by name, their common axis once, or one word for all of them."""
    if len(names) < total or total == 1:
        axes = {name.partition("=")[0] for name in names}
        values = [name.partition("=")[2] for name in names]
        alike = len(axes) == 1 and all(value and "=" not in value for value in values)
        return f"{axes.pop()}={', '.join(values)}" if alike else ", ".join(names)
    return "both settings" if total == 2 else f"all {total} settings"
