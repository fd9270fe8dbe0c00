"""Which contradictions on a page survive correction for all tests shown there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from iolab.judge import results
from iolab.judge.claims import VOTES, ClaimVerdict
from iolab.judge.relations.verdicts import TestVerdict
from iolab.judge.results import Results
from iolab.plan.plan import ALPHA
from iolab.wording import listed

# Relations without chance: a figure that breaks a formula, or a failed request, is a fact.
FACTS = ("identity", "holds")

# The index of a run, and the id of one of its claims.
Place = tuple[int, str]


class Together(NamedTuple):
    """The number of statistical tests on a page, the contradicted claims, and those that stay so after correction.

    Claims are given by their ids, in the order of the page.
    """

    tests: int
    alone: tuple[str, ...]
    held: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """How the correction changes the contradictions; empty if there is nothing to correct."""
        if not self.alone or self.tests <= 1:
            return ""
        by_itself = "Each contradiction holds at 95 % by itself."
        corrected = f"Corrected for all {self.tests} tests shown here together (Holm)"
        if self.held == self.alone:
            return f"{corrected}, every contradiction holds at 95 %."
        if not self.held:
            return f"{by_itself} {corrected}, none does: that takes more blocks."
        return f"{by_itself} {corrected}, these do: {listed(self.held)}."


def together(runs: Iterable[Results]) -> Together:
    """Holm's method over all tests of these runs: each claim that stays contradicted leaves one test fewer to correct
    for, until none is added. A claim contradicted by a fact does not count, because a fact is none of the tests.
    """
    runs = tuple(runs)
    tests = sum(map(_is_by_chance, (test for run in runs for claim in run.claims for test in claim.tests)))
    alone = tuple(_contradicted(run.claims, at) for at, run in enumerate(runs))
    places = [place for of_run in alone for place in of_run]
    facts = {(at, each.claim.id) for at, run in enumerate(runs) for each in run.claims if _is_refuted_by_fact(each)}
    held: frozenset[Place] = frozenset()
    while len(held) < len(places):
        confidence = 1 - ALPHA / max(1, tests - len(held - facts))
        stay = held.union(*(_held(run, at, alone[at], confidence) for at, run in enumerate(runs)))
        if stay == held:
            break
        held = stay
    return Together(tests, tuple(claim for _, claim in places), tuple(place[1] for place in places if place in held))


def _is_by_chance(test: TestVerdict) -> bool:
    return not test.test.shown and test.judgement in VOTES and test.test.relation not in FACTS


def _is_refuted_by_fact(found: ClaimVerdict) -> bool:
    """Whether a fact contradicts a claim."""
    against = (each.test for each in found.tests if each.judgement == "contradicted")
    return any(not test.shown and test.relation in FACTS for test in against)


def _held(run: Results, at: int, chosen: Sequence[Place], confidence: float) -> list[Place]:
    """The claims of a run, out of `chosen`, that are contradicted at this confidence of each test."""
    asked = tuple(each for each in run.plan.claims if (at, each.id) in chosen)
    plan = run.plan.model_copy(update={"claims": asked})
    return _contradicted(results.claims_of(plan, run.machine, run.trials, run.verdicts, confidence), at)


def _contradicted(found: Iterable[ClaimVerdict], at: int) -> list[Place]:
    return [(at, each.claim.id) for each in found if each.judgement == "contradicted"]
