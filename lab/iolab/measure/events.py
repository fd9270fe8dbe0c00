"""What the runner reports while a plan runs: one class for each event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from iolab.measure.contestants import Building
from iolab.plan.plan import Plan, Trial
from iolab.results.records import CostCount, Failure, Minute, Result


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan is about to be run; `why` says in words how its processors were chosen.

    It takes about `time_s`, and up to `probing_s` more where further trials are to show what limited a contestant.
    """

    plan: Plan
    why: tuple[str, ...]
    time_s: float
    probing_s: float


@dataclass(frozen=True, slots=True)
class Opened:
    """The run's folder is open. `done` of `planned` trials are there already; `faults` are lines it lost.

    An earlier run that this one does not go on with is `set_aside` under a new name; `changed` says what differs from
    it, empty where nothing does. `ended` is when a run that has nothing left to do came to its end.
    """

    folder: Path
    plan: Plan
    done: int
    planned: int
    faults: tuple[str, ...]
    set_aside: Path | None
    changed: str
    ended: str | None


@dataclass(frozen=True, slots=True)
class PutBack:
    """The new run ended before its first trial, so the earlier one has its folder again."""

    folder: Path


@dataclass(frozen=True, slots=True)
class Checked:
    """A contestant was looked at before the first block: the size of its replies, or why it is not compared.

    The size is None of one that only a client which is not ours speaks to. `ends_politely` says whether it ended when
    it was asked to.
    """

    contestant: str
    reply_bytes: int | None
    failure: Failure | None
    ends_politely: bool = True


@dataclass(frozen=True, slots=True)
class CapacityMeasured:
    """The capacity of the slowest contestant of a comparison, of which its rate is a share."""

    comparison: str
    capacity_per_s: float


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A contestant takes no part in a comparison: it cannot, and `why` says why in a word or a line."""

    contestant: str
    comparison: str
    why: str


@dataclass(frozen=True, slots=True)
class CanTakePart:
    """Contestants were left out when the run began, and could take part now: only a fresh run would measure them."""

    contestants: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MachineBusy:
    """Others use much of the machine before the first trial; `why` says what, in words."""

    why: str


@dataclass(frozen=True, slots=True)
class NothingUsable:
    """The first `blocks` blocks are over, and no trial of them can be used; `why` says what most of them failed for."""

    blocks: int
    why: str


@dataclass(frozen=True, slots=True)
class Probing:
    """Trials begin that show what limited a contestant, because the timed ones leave that open; `what` says which."""

    contestant: str
    comparison: str
    what: str


@dataclass(frozen=True, slots=True)
class Counted:
    """The syscalls of a contestant were counted, or could not be."""

    contestant: str
    comparison: str
    count: CostCount


@dataclass(frozen=True, slots=True)
class BlocksChosen:
    """The number of blocks has changed, now or in an earlier session: the pilot chose it, or the budget is used up.

    `plan` has the blocks, in `planned` trials.
    """

    plan: Plan
    planned: int


@dataclass(frozen=True, slots=True)
class TrialBegan:
    """A trial begins. `left_s` is how long the rest of the plan should take, this trial included."""

    trial: Trial
    title: str
    comparison: str
    left_s: float


@dataclass(frozen=True, slots=True)
class MinuteOver:
    """A minute of a long trial is over and in the store."""

    minute: Minute
    title: str


@dataclass(frozen=True, slots=True)
class TrialEnded:
    """A trial is over and in the store. `done` counts trials, the ones run again too; so does `planned`."""

    result: Result
    title: str
    comparison: str
    done: int
    planned: int


Event = (
    Planned
    | Opened
    | PutBack
    | LeftOut
    | CanTakePart
    | MachineBusy
    | Checked
    | CapacityMeasured
    | BlocksChosen
    | TrialBegan
    | MinuteOver
    | TrialEnded
    | NothingUsable
    | Probing
    | Counted
    | Building
)
OnEvent = Callable[[Event], None]
