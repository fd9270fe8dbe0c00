"""Published claims tested against the measurements of a run.

A claim has tests, each of one relation (see `judge/relations`), judged from the same whole blocks as the verdicts. The
verdict on a claim is the weakest verdict of its tests that is in VOTES.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from iolab.contract.types import Frozen
from iolab.judge import stats
from iolab.judge.blocks import used_blocks
from iolab.judge.relations import breaks, crossing, holds, identity, level, line, order, ratio, stated, trend
from iolab.judge.relations.quantities import Evidence
from iolab.judge.relations.verdicts import Judgement, Obstacle, TestVerdict, hindered
from iolab.judge.verdict import ComparisonVerdict
from iolab.plan.claims import Claim, Test
from iolab.plan.needs import Needs
from iolab.plan.plan import Plan
from iolab.results.records import Result

# The function that decides each relation.
DECIDE: Mapping[str, Callable[[Any, Evidence], TestVerdict]] = {
    "ratio": ratio.decide,
    "order": order.decide,
    "trend": trend.decide,
    "crossing": crossing.decide,
    "line": line.decide,
    "level": level.decide,
    "identity": identity.decide,
    "breaks": breaks.decide,
    "holds": holds.decide,
    "stated": stated.decide,
}
# The weakest verdict first. Only these are votes.
VOTES: tuple[Judgement, ...] = ("contradicted", "undecided", "direction only", "confirmed")
# The verdict on a claim without a vote; those that could still be decided come first.
WITHOUT_VOTE: tuple[Judgement, ...] = ("full run only", "not measurable here", "stated")

# The needs of claims that the machine does not meet, with the reason in words.
Unmet = Mapping[Needs, str]
NOTHING: Unmet = {}


class ClaimVerdict(Frozen):
    """A claim with its verdict, the reason in one sentence, and the verdict on each of its tests."""

    claim: Claim
    judgement: Judgement
    reason: str
    tests: tuple[TestVerdict, ...]


def judge(
    plan: Plan,
    results: Iterable[Result],
    verdicts: Sequence[ComparisonVerdict],
    *,
    processors: int | None = None,
    unmet: Unmet = NOTHING,
    confidence: float = stats.CONFIDENCE,
) -> tuple[ClaimVerdict, ...]:
    """A verdict on every claim of the plan, in its order; `verdicts` are those on its comparisons.

    `confidence` is that of each test.
    """
    if not plan.claims:
        return ()
    done = {result.trial.place: result for result in results if plan.holds(result.trial)}
    used = [used_blocks(plan, index, done)[0] for index in range(len(verdicts))]
    evidence = Evidence(plan, done, used, verdicts, processors, confidence)
    return tuple(_judge_claim(claim, evidence, unmet) for claim in plan.claims)


def _judge_claim(claim: Claim, evidence: Evidence, unmet: Unmet) -> ClaimVerdict:
    tests = tuple(_judge_test(test, claim.needs, evidence, unmet) for test in claim.tests)
    decisive = _decisive(tests)
    return ClaimVerdict(claim=claim, judgement=decisive.judgement, reason=decisive.reason, tests=tests)


def _judge_test(test: Test, needs: Needs, evidence: Evidence, unmet: Unmet) -> TestVerdict:
    lacking = unmet.get(needs) or unmet.get(test.needs)
    if lacking:
        return hindered(test, Obstacle("not measurable here", lacking))
    if evidence.plan.is_quick and not test.quick:
        return hindered(test, Obstacle("full run only", "the quick run cannot decide it"))
    return DECIDE[test.relation](test, evidence)


def _decisive(tests: Sequence[TestVerdict]) -> TestVerdict:
    """The test that gives the claim its verdict: the weakest that has a vote, the first of equals."""
    voting = [each for each in tests if not each.test.shown]
    words = {each.judgement for each in voting}
    word = next(word for word in (*VOTES, *WITHOUT_VOTE) if word in words)
    return next(each for each in voting if each.judgement == word)
