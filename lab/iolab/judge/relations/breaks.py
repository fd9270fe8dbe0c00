"""`breaks`: the cell fails, for a stated cause, in a stated phase, after a stated request.

A cell that breaks in half of its trials may pass a handful of them, so the claim is contradicted only after five trials
without a failure (0.5 to the fifth is 3 %). If the cell breaks only in some trials, or for another cause, the verdict
is "direction only".
"""

from __future__ import annotations

import math

from iolab.judge.relations.holds import ended, is_broken, what_broke
from iolab.judge.relations.quantities import Evidence
from iolab.judge.relations.verdicts import Obstacle, TestVerdict, hindered
from iolab.plan.claims import BreaksTest
from iolab.results.records import Result


def decide(test: BreaksTest, evidence: Evidence) -> TestVerdict:
    """The verdict on a cell that should break."""
    found = ended(evidence, test.of, test.at)
    if isinstance(found, Obstacle):
        return hindered(test, found)
    broken = [result for result in found if is_broken(result)]
    if not broken:
        return _whole(test, len(found), evidence.alpha)
    reason = f"{test.of} failed in {len(broken)} of {len(found)} trials: {what_broke(broken[0])}"
    other = next((why for why in (_other(test, result) for result in broken) if why), "")
    if other:
        return TestVerdict(test=test, judgement="direction only", reason=f"{reason}; {other}")
    judgement = "confirmed" if len(broken) == len(found) else "direction only"
    return TestVerdict(test=test, judgement=judgement, reason=reason)


def _whole(test: BreaksTest, trials: int, alpha: float) -> TestVerdict:
    """The verdict if no trial broke: contradicted once there are enough trials, undecided before."""
    trials_min = math.ceil(-math.log2(alpha))
    if trials < trials_min:
        reason = f"{test.of} did not fail in {trials} trials, and it takes {trials_min} to say that it does not"
        return TestVerdict(test=test, judgement="undecided", reason=reason, blocks_more=trials_min - trials)
    return TestVerdict(test=test, judgement="contradicted", reason=f"{test.of} did not fail in any of {trials} trials")


def _other(test: BreaksTest, result: Result) -> str:
    """How the failure differs from the claimed one; empty if it does not."""
    if not (test.cause or test.phase or test.after_request):
        return ""
    looked = None if result.failure is None else result.failure.how
    # A trial that runs for a time keeps its report and has no failure, so only the generator describes what it saw.
    seen = None if result.report is None else result.report.first_failure
    how = looked or seen
    if how is None:
        return "how it failed was not recorded"
    ran_out = None if looked is None else looked.ran_out
    if test.cause and not {ran_out, how.saw} & set(test.cause):
        return f"the cause is {ran_out or how.saw or 'unknown'}, not {' or '.join(test.cause)}"
    if test.phase and how.phase not in test.phase:
        return f"it failed in the phase {how.phase}, not in {' or '.join(test.phase)}"
    if test.after_request and (how.request is None or how.request <= test.after_request):
        return f"it failed at request {how.request}, not after {test.after_request:,}"
    return ""
