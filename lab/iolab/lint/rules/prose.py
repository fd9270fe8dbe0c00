"""Checks a page's text against its figures: claims, contestants without results, processors, sizes, code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import NamedTuple

from iolab.lint.figures import shown
from iolab.lint.record import Finding, Line, Page, Run, impossible, inconclusive
from iolab.lint.rules.comparison import by_name

# A claim of 10 % may stand for 8 to 12.
CLAIM_POINTS = 2.0
SAME_PERCENT = 5.0
_FASTER = re.compile(
    r"(?P<bound>(?:more than|over|at least|up to|less than|under|within|at most) (?:about )?)?"
    r"\b(?P<percent>\d{1,4}(?:\.\d{1,3})?) ?% (?P<way>faster|higher|more|better|slower|lower)\b"
)
_SLOWER = ("slower", "lower")
_SAME = re.compile(r"\babout (?:the same|equal)\b|\bnearly (?:the same|equal)\b|\bequally fast\b|\balmost the same\b")
# The subject of a sentence; only claims about rates are checked.
_OF_RATES = re.compile(
    r"\b(?:throughput|requests|req/s|rps|qps|tps|rates?|per second|messages|queries)\b", re.IGNORECASE
)
_OF_OTHERS = re.compile(
    r"\b(?:latenc\w+|p\d{2}(?:\.\d+)?|percentiles?|tails?|jitter|cpu|memory|rss|energy|power|syscalls?|errors?|"
    r"time|start-?up|compil\w+|builds?|costs?|lines|binary|binaries)\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.;!?])\s{1,4}")
_ITEM = re.compile(r"^\s{0,8}(?:[-*+]|\d{1,3}[.)]) {1,4}[`*]{0,2}([A-Za-z][A-Za-z_]{1,30})[ -]?(\d{1,4})\b")
_PACKAGES = re.compile(r"\b(one|two|four|eight|\d{1,3}) (?:cpus?|sockets?|packages?)\b", re.IGNORECASE)
_LOGICAL = re.compile(r"\b(\d{1,4}) (?:logical|hardware threads)\b", re.IGNORECASE)
_CORES = re.compile(r"\b(\d{1,4}) (?:physical )?cores\b(?! each| per)", re.IGNORECASE)
_NUMBERS = {"one": 1, "two": 2, "four": 4, "eight": 8}
_REPEATED = re.compile(
    r"\b(\d{1,6})[ -]bytes?\b.{0,120}\brepeat(?:s|ing)? (?:it|this|that|them|the (?:same )?(?:message|text|string))\b",
    re.IGNORECASE,
)
_DEFINED = re.compile(r"^\s{0,8}#\s?define ([A-Z][A-Z0-9_]{3,60})\b")
_CAPITALS = re.compile(r"\b[A-Z][A-Z0-9]{1,30}_[A-Z0-9_]{2,60}\b")
# How a server waits for a socket, and how many clients it serves at once. Every server has one of each.
WAITING = {"blocking", "non-blocking", "nonblocking", "asynchronous", "synchronous"}
ARRANGEMENT = {"sequential", "iterative", "concurrent", "parallel"}
# Opposite ways to wait: a list of alternatives has both.
WAITS, DOES_NOT_WAIT = {"blocking", "synchronous"}, {"non-blocking", "nonblocking", "asynchronous"}
_TERM = "|".join(sorted(WAITING | ARRANGEMENT, key=lambda word: (-len(word), word)))
_LIST = re.compile(rf"\b(?:{_TERM})\b(?:(?:,? (?:and|or) |, ?| ?/ ?)(?:{_TERM})\b){{2,9}}")
# Limits that bound the time for any text: the names, the runs of a contestant and the sizes that are checked, the
# tables searched for a claim, and the claims checked.
NAMES_MAX = 100
TABLES_MAX = 20
CLAIMS_MAX = 1_000
# The largest number of gains in a sentence.
LISTED_MAX = 10


class _Gains(NamedTuple):
    """Gains in percent of the first, which has the higher rates, for each pair of runs with equal settings."""

    names: tuple[str, str]
    percent: list[float]


def check(page: Page) -> Iterator[Finding]:
    """Findings on the text of a page."""
    yield from _claims(page)
    yield from _announced(page)
    sizes = sorted({run.figures["size"].value for run in page.runs if "size" in run.figures})[:NAMES_MAX]
    for line in page.prose:
        yield from _processors(line)
        yield from _axes(line)
        yield from _sizes(line, sizes)
    yield from _names(page)
    yield from _settings(page)


def _claims(page: Page) -> Iterator[Finding]:
    """A percentage, or `about the same`, that the rates of two contestants contradict."""
    measured = [_Rates(runs) for runs in (page.outputs, *(table.runs for table in page.tables[:TABLES_MAX]))]
    for line, faster, same in islice(_claimed(page), CLAIMS_MAX):
        gained = next(filter(None, (rates.gains_in(line.text) for rates in measured)), None)
        if gained is None:
            continue
        names, gains = gained
        said = [f"{each:+.1f} %" for each in gains[:LISTED_MAX]]
        said += [f"{len(gains) - LISTED_MAX} others"] if len(gains) > LISTED_MAX else []
        if faster and not any(_agrees(faster, each) for each in gains):
            words = f"the text says {faster[0]}"
        elif same and not faster and max(map(abs, gains)) > SAME_PERCENT:
            words = f"the text says {same[0]!r}"
        else:
            continue
        message = f"{words}, but the rates of {names[0]} over {names[1]} give {', '.join(said)}"
        yield impossible("claim", line.number, message)


def _claimed(page: Page) -> Iterator[tuple[Line, re.Match[str] | None, re.Match[str] | None]]:
    """The lines with a claim about rates: a percentage, `about the same`, or both."""
    for line in page.prose:
        for sentence in _SENTENCE.split(line.text):
            faster, same = _FASTER.search(sentence), _SAME.search(sentence)
            if (faster or same) and _is_of_rates(sentence, faster):
                yield line, faster, same


def _is_of_rates(sentence: str, faster: re.Match[str] | None) -> bool:
    """Whether a claim is about rates: `faster` is, unless the sentence names others; `more` only if it names rates."""
    if _OF_RATES.search(sentence):
        return True
    return (faster is None or faster["way"] in ("faster", "slower")) and not _OF_OTHERS.search(sentence)


def _agrees(claim: re.Match[str], gain: float) -> bool:
    """Whether a gain agrees with a claim; 25 % faster is 20 % slower in the other direction."""
    slower = 100 - 100 / (1 + gain / 100) if gain > -100 else gain
    size, said = abs(slower if claim["way"] in _SLOWER else gain), float(claim["percent"])
    bound = claim["bound"] or ""
    if bound.startswith(("more", "over", "at least")):
        return size >= said - CLAIM_POINTS
    if bound:
        return size <= said + CLAIM_POINTS
    return abs(size - said) <= CLAIM_POINTS


class _Rates:
    """The runs of a table, or of all outputs, that have a rate, by name. Every claim of a page asks for their gains."""

    def __init__(self, runs: Sequence[Run]) -> None:
        named = islice(by_name(runs).items(), NAMES_MAX)
        self._runs = {name: [run for run in each if "rate" in run.figures and _rate(run)] for name, each in named}
        self._known: dict[tuple[str, str], _Gains | None] = {}

    def gains_in(self, text: str) -> _Gains | None:
        """The gains between the two that a text names, or the only two that there are."""
        lowered = text.lower()
        named = [name for name in self._runs if name.lower() in lowered]
        pair = named if len(named) == 2 else list(self._runs)
        if len(pair) != 2:
            return None
        first, second = pair
        if (first, second) not in self._known:
            self._known[first, second] = self._gains(first, second)
        return self._known[first, second]

    def _gains(self, first: str, second: str) -> _Gains | None:
        ones, others = (self._runs[name][:NAMES_MAX] for name in (first, second))
        pairs = [(one, other) for one in ones for other in others if _equal(one, other)]
        gains = [100 * (_rate(one) / _rate(other) - 1) for one, other in pairs]
        if not gains:
            return None
        if sum(gains) >= 0:
            return _Gains((first, second), gains)
        return _Gains((second, first), [100 * (_rate(other) / _rate(one) - 1) for one, other in pairs])


def _rate(run: Run) -> float:
    return run.figures["rate"].value


def _equal(one: Run, other: Run) -> bool:
    return all(
        one.figures[name].value == other.figures[name].value
        for name in ("connections", "size", "processes")
        if name in one.figures and name in other.figures
    ) and (one.tool != "table" or one.line == other.line or one.settings != other.settings)


def _announced(page: Page) -> Iterator[Finding]:
    """Numbered contestants in a list, such as server-1 to server-4, of which some have no row."""
    cells = [cell.text for table in page.tables for row in table.rows for cell in row]
    measured = " | ".join((*cells, *(table.heading for table in page.tables), *(run.name for run in page.runs))).lower()
    items = [(line, match[1].lower(), match[2]) for line in page.prose if (match := _ITEM.match(line.text))]
    has_result = {
        (stem, number): bool(re.search(rf"\b{stem}[ -]?{number}\b", measured)) for _, stem, number in items[:NAMES_MAX]
    }
    for line, stem, number in items[:NAMES_MAX]:
        others = [each for (each, _), found in has_result.items() if each == stem and found]
        if others and not has_result[stem, number]:
            yield inconclusive(
                "no-result",
                line.number,
                f"{stem} {number} is announced and has no result, as {len(others)} others have: nothing can be said "
                "of it",
            )


def _processors(line: Line) -> Iterator[Finding]:
    packages, logical, cores = (each.search(line.text) for each in (_PACKAGES, _LOGICAL, _CORES))
    if not packages or not logical or not cores:
        return
    sockets = _NUMBERS.get(packages[1].lower()) or int(packages[1])
    threads, each = int(logical[1]), int(cores[1])
    if sockets and each and threads / each not in (1.0, 2.0) and threads in (sockets * each, 2 * sockets * each):
        yield impossible(
            "processors",
            line.number,
            f"{threads} logical processors are not {each} cores x 1 or 2 threads: {threads} = {sockets} x {each} "
            "cores x "
            f"{threads // (sockets * each)} threads, so {each} is the cores of one",
        )


def _axes(line: Line) -> Iterator[Finding]:
    """A list of models that mixes ways to wait with ways to serve many clients."""
    if not re.search(r"\bmodels?\b", line.text, re.IGNORECASE):
        return
    found = _LIST.search(line.text.lower())
    words = set(re.findall(_TERM, found[0])) if found else set()
    waits, arranges = sorted(words & WAITING), sorted(words & ARRANGEMENT)
    if words & WAITS and words & DOES_NOT_WAIT and arranges:
        yield inconclusive(
            "mixed-axes",
            line.number,
            f"{', '.join(waits)} say how a server waits, {', '.join(arranges)} how many clients it serves at once: a "
            "server has one of "
            "each, so they are no alternatives",
        )


def _sizes(line: Line, sizes: Sequence[float]) -> Iterator[Finding]:
    """Sizes that are not multiples of the repeated message."""
    repeated = _REPEATED.search(line.text)
    if not repeated or not int(repeated[1]):
        return
    unit = int(repeated[1])
    odd = [each for each in sizes if each % unit]
    if odd:
        yield impossible(
            "sizes",
            line.number,
            f"repeating {unit} bytes gives multiples of {unit}, but the table has sizes of "
            f"{', '.join(map(shown, odd))}: the client that was "
            "measured is another one",
        )


def _names(page: Page) -> Iterator[Finding]:
    """A name in code that is not defined but resembles a defined one."""
    defined = {match[1] for line in page.prose if (match := _DEFINED.match(line.text))}
    if not defined:
        return
    used = {name: line.number for line in reversed(page.prose) for name in _CAPITALS.findall(line.text)}
    for name in sorted(used.keys() - defined)[:NAMES_MAX]:
        near = get_close_matches(name, sorted(defined)[:NAMES_MAX], n=1, cutoff=0.9)
        if near:
            yield impossible(
                "code",
                used[name],
                f"{name} is not defined, but {near[0]} is: this program does not compile, so it is not the one that "
                "was "
                "measured",
            )


def _settings(page: Page) -> Iterator[Finding]:
    """Two columns of settings for one contestant, one of which lacks settings of the other."""
    for table in page.tables:
        stems = [re.search(r"\b(?:system|server|sys) ?-?(\d{1,3})\b", title, re.IGNORECASE) for title in table.titles]
        for at, first in enumerate(stems):
            for other in range(at + 1, len(stems)):
                second = stems[other]
                if not first or not second or first[1] != second[1]:
                    continue
                rows = [row for row in table.rows if other < len(row)]
                only = [row[0] for row in rows if row[at].text in ("-", "") and row[other].text not in ("-", "")]
                if only:
                    yield inconclusive(
                        "settings",
                        only[0].line,
                        f"{table.titles[other]} has {', '.join(cell.text for cell in only)}, which "
                        f"{table.titles[at]} lacks: it is another "
                        "system",
                    )
