"""The events of a running plan: one class each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from iolab.measure.contestants import Building
from iolab.plan.plan import Plan, Trial
from iolab.results.records import CostCount, Failure, Minute, Result


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan is about to run; `why` explains how its processors were chosen.

    It takes about `time_s`, and up to `probing_s` more if further trials are needed to show what limited a contestant.
    """

    plan: Plan
    why: tuple[str, ...]
    time_s: float
    probing_s: float


@dataclass(frozen=True, slots=True)
class Opened:
    """The run's folder is open and has `done` of `planned` trials; `faults` are lines it lost.

    `set_aside` is the new name of an earlier run that this one does not continue; `changed` is the difference to it,
    empty if there is none. `ended` is when a run with nothing left to do ended.
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
    """A contestant was checked before the first block: the size of its replies, or why it is not compared.

    The size is None if only an external client speaks to it. `ends_politely` says whether it ended when asked to.
    """

    contestant: str
    reply_bytes: int | None
    failure: Failure | None
    ends_politely: bool = True


@dataclass(frozen=True, slots=True)
class CapacityMeasured:
    """The capacity of the slowest contestant of a comparison; the comparison's rate is a share of it."""

    comparison: str
    capacity_per_s: float


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A contestant cannot take part in a comparison; `why` gives the reason in a word or a line."""

    contestant: str
    comparison: str
    why: str


@dataclass(frozen=True, slots=True)
class CanTakePart:
    """Contestants left out when the run began could take part now, but only a fresh run would measure them."""

    contestants: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MachineBusy:
    """Other programs use much of the machine before the first trial; `why` says what, in words."""

    why: str


@dataclass(frozen=True, slots=True)
class NothingUsable:
    """The first `blocks` blocks are over and have no usable trial; `why` is the most common reason."""

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
    """A trial begins. `left_s` is the estimated time of the rest of the plan, this trial included."""

    trial: Trial
    title: str
    comparison: str
    left_s: float


@dataclass(frozen=True, slots=True)
class MinuteOver:
    """A minute of a long trial is over and stored."""

    minute: Minute
    title: str


@dataclass(frozen=True, slots=True)
class TrialEnded:
    """A trial is over and stored. `done` and `planned` count trials, including reruns."""

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
