"""`holds`: nothing ever fails. The reason states the number of requests and the failure rate that could be missed.

Without a failure in n requests the true rate is below 3 / n (95 %). Discarded trials count too: noise does not make a
request fail.
"""

from __future__ import annotations

from collections.abc import Sequence

from iolab.judge.endurance import rate_bound
from iolab.judge.relations.quantities import Evidence, nowhere
from iolab.judge.relations.verdicts import Obstacle, TestVerdict, hindered
from iolab.plan.claims import HoldsTest, Quantity
from iolab.plan.settings import Setting
from iolab.results.records import Result
from iolab.wording import one_in


def decide(test: HoldsTest, evidence: Evidence) -> TestVerdict:
    """The verdict on contestants that should never fail."""
    requests = trials = 0
    for contestant in test.contestants:
        found = ended(evidence, contestant, test.at)
        if isinstance(found, Obstacle):
            return hindered(test, found)
        broken = [result for result in found if is_broken(result)]
        if broken:
            reason = f"{contestant} failed in {len(broken)} of {len(found)} trials: {what_broke(broken[0])}"
            return TestVerdict(test=test, judgement="contradicted", reason=reason)
        requests += sum(each.answered for each in found)
        trials += len(found)
    if requests == 0:
        return hindered(test, Obstacle("undecided", "no request was answered so far"))
    rate = rate_bound(requests)
    reason = f"no failure in {requests:,} requests of {trials} trials: the true rate is below {one_in(rate)}"
    return TestVerdict(test=test, judgement="confirmed", reason=reason, value=0.0, low=0.0, high=rate)


def ended(evidence: Evidence, contestant: str, at: Setting) -> list[Result] | Obstacle:
    """The trials of a contestant that ran to their end or to a failure of the server; or why there are none."""
    leaf = Quantity(contestant=contestant, at=at)
    if not evidence.chosen(leaf):
        return nowhere(evidence)
    trials = evidence.trials(leaf)
    left_out = next((each.failure for each in trials if each.failure is not None and each.failure.left_out), None)
    if left_out is not None:
        return Obstacle("not measurable here", f"{contestant} was left out: {left_out.message}")
    found = [
        each
        for each in trials
        if (each.report is not None and not each.report.interrupted)
        or (each.failure is not None and each.failure.of_the_server)
    ]
    return found or _unmeasured(contestant, trials)


def _unmeasured(contestant: str, trials: Sequence[Result]) -> Obstacle:
    """Why a contestant has no trial to judge: it was given up, or none has ended so far."""
    failure = next((each.failure for each in trials if each.failure is not None and each.failure.final), None)
    reason = f"no trial of {contestant} so far" if failure is None else f"{contestant} was given up: {failure.line}"
    return Obstacle("undecided", reason)


def is_broken(result: Result) -> bool:
    """Whether something failed: the trial as a whole, a request, or a reply."""
    if result.report is None:
        return True
    errors = result.report.errors.model_dump().values()
    return result.failure is not None or bool(result.unanswered or any(errors))


def what_broke(result: Result) -> str:
    """What failed, in words."""
    if result.failure is not None:
        return result.failure.line
    assert result.report is not None, "a trial without a failure has a report"
    errors = {kind: count for kind, count in result.report.errors.model_dump().items() if count}
    kinds = ", ".join(f"{kind} {count}" for kind, count in errors.items())
    return result.report.first_error or kinds or f"{result.unanswered} requests failed"
