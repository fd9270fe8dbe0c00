"""The sentences on a long trial."""

from __future__ import annotations

import pytest

from iolab.judge import endurance
from iolab.plan.experiment import vs_plan
from iolab.plan.schedule import schedule
from iolab.results.records import Failure, Minute, Result, pieces
from made import result

PLAN = vs_plan(["epoll", "thread"], {"protocol": "echo"})
TRIAL = next(iter(schedule(PLAN)))


def minute(number: int, started: str = "later", *, failed: int = 0, rss_bytes: int = 10 << 20) -> Minute:
    counts = {"correct": 1_000_000, "wrong": 0, "failed": failed, "p50_ns": 1, "p99_ns": 2, "max_ns": 3}
    sizes = {"rss_bytes": rss_bytes, "threads": 1, "processes": 1, "zombies": 0, "descriptors": 54}
    ours = {"generator_rss_bytes": 3 << 20, "lab_rss_bytes": 90 << 20}
    return Minute(trial=TRIAL, started=started, number=number, seconds=60.0, **counts, **sizes, **ours)


def finished(failed: int = 0, earlier: tuple[Minute, ...] = ()) -> Result:
    """A trial of 300,000 requests, after pieces that were interrupted."""
    made = result(PLAN, TRIAL)
    assert made.report is not None
    counted = made.report.requests.model_copy(update={"failed": failed})
    report = made.report.model_copy(update={"requests": counted})
    return made.model_copy(update={"report": report, "pieces": pieces(earlier)})


def broken() -> Result:
    """A trial whose server died in its third minute."""
    failure = Failure(kind="died", message="the server was ended by SIGSEGV", said=("a stack overflow",))
    return Result(trial=TRIAL, started="later", failure=failure, pieces=pieces((minute(1), minute(2))))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (finished(), "0 errors in 300,000 requests: the true rate is below 1 in 100,000 (95 %)"),
        (finished(3), "3 errors in 300,003 requests: a rate of 1 in 100,001"),
        (
            finished(earlier=(minute(1), minute(2))),
            "0 errors in 2,300,000 requests: the true rate is below 1 in 766,667 (95 %)",
        ),
        (finished(earlier=(minute(1, failed=2),)), "2 errors in 1,300,002 requests: a rate of 1 in 650,001"),
        (Result(trial=TRIAL, started="now"), "no request was answered"),
        (broken(), "0 errors in 2,000,000 requests of the whole minutes before"),
    ],
)
def test_errors_are_said_with_the_rate_that_could_have_been_missed(found: Result, expected: str) -> None:
    assert endurance.errors(found) == expected


def test_a_bound_on_a_rate_is_never_more_than_all() -> None:
    assert [endurance.rate_bound(requests) for requests in (1, 3, 300)] == [1.0, 1.0, 0.01]


def test_a_trial_that_broke_says_when_and_how() -> None:
    first, *others = endurance.lines(broken(), ())
    assert first == "failed in minute 3: the server was ended by SIGSEGV: a stack overflow"
    assert not any("cut off" in line for line in others)


def test_what_grew_is_said_of_the_last_trial() -> None:
    cut = (minute(1, "first", rss_bytes=50 << 20), minute(2, "first", rss_bytes=60 << 20))
    last = (minute(1), minute(2), minute(3, rss_bytes=11 << 20))
    said = list(endurance.lines(finished(earlier=cut), (*cut, *last)))
    assert said[1:3] == [
        "in 2 trials, because it was cut off",
        "memory of the server, MiB: 10.0 after the first minute, 11.0 at the end",
    ]
    assert said[-1] == "memory of the lab, MiB: 90.0 after the first minute, 90.0 at the end"
    assert len(list(endurance.lines(finished(), ()))) == 1, "a short trial has no minutes"
