"""Contestants that broke under the load: how, in words, in place of their bar."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from iolab.contract.literals import Saw
from iolab.plan.claims import Published
from iolab.plan.plan import Comparison, Place
from iolab.results.records import Break, Result

PHASES = {
    "connect": "while it connected",
    "send": "while it sent the request",
    "receive": "while it waited for the reply",
    "close": "while it closed the connection",
}
SAW: Mapping[Saw, str] = {
    "refused": "the connection was refused",
    "reset": "the connection was reset",
    "timeout": "nothing came within the time-out",
    "closed": "the connection was closed early",
    "wrong": "the reply was wrong",
    "malformed": "the reply was malformed",
    "status": "the reply had another status",
}
RAN_OUT = {
    "descriptors": "the server had no file descriptors left",
    "processes": "the server could have no more processes",
    "threads": "the server could have no more threads",
    "memory": "the server had no memory left",
    "backlog": "the listen queue (backlog) was full",
    "ports": "the client had no ports left",
}


class Broken(NamedTuple):
    """A contestant that broke at one setting: in how many of its trials, how, and the published words on it."""

    slot: int
    title: str
    short: str
    words: str
    evidence: tuple[str, ...]
    published: tuple[str, ...]


def broken(
    comparison: Comparison, at: int, done: Mapping[Place, Result], published: Sequence[Published]
) -> tuple[Broken, ...]:
    """The contestants of a comparison that broke, in its order; the first broken trial of each says how."""
    found = []
    for slot, title in enumerate(comparison.titles):
        mine = [result for place, result in sorted(done.items()) if (place.comparison, place.slot) == (at, slot)]
        hows = [result.failure.how for result in mine if result.failure is not None and result.failure.how is not None]
        if hows:
            said = tuple(_published_words(comparison, title, published))
            requests = [how.request for how in hows if how.request is not None]
            words = f"{_sentence(hows[0])} {_trials(len(hows), len(mine), requests)}"
            found.append(Broken(slot, title, _short(requests), words, hows[0].evidence, said))
    return tuple(found)


def _sentence(how: Break) -> str:
    """What the client saw and what had run out, in two sentences."""
    where = "" if how.request is None else f" at request {how.request:,}"
    where += "" if how.connection is None else f", connection {how.connection:,}"
    phase = "" if how.phase is None else f" {PHASES[how.phase]}"
    saw = "the trial failed" if how.saw is None else SAW[how.saw]
    cause = "No resource was found exhausted" if how.ran_out is None else _capital(RAN_OUT[how.ran_out])
    after = {None: "", True: ", and it answered again after the load had stopped", False: ", and it did not recover"}
    return f"Broke{where}: the client saw{phase} that {saw}. {cause}{after[how.recovered]}."


def _trials(broken: int, trials: int, requests: Sequence[int]) -> str:
    if len(requests) > 1 and min(requests) != max(requests):
        span = f", between request {min(requests):,} and request {max(requests):,}"
    else:
        span = ""
    return f"This is the first of {broken} broken trials of {trials}{span}." if broken > 1 else f"1 of {trials} trials."


def _short(requests: Sequence[int]) -> str:
    """The text in place of the bar."""
    return f"broke at request {min(requests):,}" if requests else "broke"


def _published_words(comparison: Comparison, title: str, published: Iterable[Published]) -> Iterable[str]:
    """The published words on this contestant at this setting, such as "error"."""
    for row in published:
        if comparison.is_at(row.at):
            words = dict.fromkeys(figure.word for figure in row.figures.get(title, {}).values() if figure.word)
            yield from (f"{row.id}: “{word}”" for word in words)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
