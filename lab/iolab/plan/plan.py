"""A question as data: its comparisons, the number of blocks, and the published results about it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import BeforeValidator, Field, model_validator

from iolab.contract.types import Frozen, updated
from iolab.plan.claims import TITLE, Claim, Published
from iolab.plan.contestant import client_title
from iolab.plan.needs import Needs, of_settings
from iolab.plan.settings import (
    QUICK_INTERVAL_MS,
    SHORT,
    TRIAL_MS_MAX,
    Axes,
    Cell,
    Scalar,
    Setting,
    changed,
    digest_of,
    dotted,
)

# Limits, in one place. Each is far beyond ordinary use and keeps a typing mistake from becoming a week of measuring.
CONTESTANTS_MAX = 16
COMPARISONS_MAX = 256
BLOCKS_MAX = 1_000
# The false-alarm rate of every interval and of every family of tests.
ALPHA = 0.05
# How often a discarded block, or a discarded trial among many contestants, runs again at most. Discarded trials stay in
# the record.
RETRIES_MAX = 2
# The longest budget.
BUDGET_MS_MAX = 7 * 24 * 3_600_000
# Counting syscalls takes time from the server, so counted trials are separate from timed ones. The figures hardly vary,
# so one short window for each contestant and setting is enough.
COUNT_WARMUP_MS, COUNT_DURATION_MS = 100, 300
# From this many contestants on, a comparison is reported as a ranking (or a ladder), because a sentence about each is
# too much to read. And a discarded trial runs again alone instead of discarding its block, because among fourteen
# trials one is nearly always disturbed.
MANY = 4


class Cut(Frozen):
    """A part of an experiment: a setting of the axes, a comparison and a contestant.

    Omitted fields match everything. A setting may have several values.
    """

    at: Annotated[dict[str, Scalar | tuple[Scalar, ...]], BeforeValidator(dotted)] = Field(
        default={}, description="values of axes, by their names"
    )
    comparison: str = Field(default="", description="the title of a comparison")
    contestant: str = Field(default="", description="name of a contestant")

    @property
    def words(self) -> str:
        """A description: `thread at connections=1000`."""
        at = {name: "|".join(map(str, value)) if isinstance(value, tuple) else value for name, value in self.at.items()}
        where = " ".join(part for part in (self.comparison, spelt(at)) if part)
        return " at ".join(part for part in (self.contestant, where) if part) or "everything"

    def takes(self, comparison: Comparison, title: str) -> bool:
        """Whether a contestant of a comparison is in this part."""
        return self.contestant in ("", title) and self._is_at(comparison.group, comparison.setting)

    def takes_all(self, group: str, setting: Setting) -> bool:
        """Whether every contestant is, at a point of the axes."""
        return not self.contestant and self._is_at(group, setting)

    def _is_at(self, group: str, setting: Setting) -> bool:
        return self.comparison in ("", group) and all(
            name in setting and setting[name] in (values if isinstance(values, tuple) else (values,))
            for name, values in self.at.items()
        )


class Skip(Cut):
    """A combination that makes no sense, and the reason."""

    reason: str = Field(min_length=1, max_length=300, description="why it is left out")


class Comparison(Frozen):
    """One setting of the axes and its contestants as cells; the first cell is the reference of every ratio.

    `name` is unique in its plan, such as `message_bytes=65`. `setting` holds the values of the axes alone, by dotted
    names (empty without axes). A single cell is measured but not compared. The same contestant twice is an A/A
    comparison. In a `ladder` each cell is compared with the previous one. `labels` name the cells if their own texts
    are too long. `group` is its title in the experiment. `needs` are those of each cell, if there are any.
    """

    name: str = Field(min_length=1, max_length=200)
    setting: Setting = Field(default={})
    cells: tuple[Cell, ...] = Field(min_length=1, max_length=CONTESTANTS_MAX)
    ladder: bool = False
    labels: tuple[str, ...] = ()
    group: str = ""
    needs: tuple[Needs, ...] = ()

    @model_validator(mode="after")
    def _a_label_each(self) -> Self:
        if self.labels and len(self.labels) != len(self.cells):
            raise ValueError(f"labels: there are {len(self.labels)} for {len(self.cells)} contestants: name each once")
        return self

    def is_at(self, at: Setting) -> bool:
        """Whether the `at` of a claim or of a published row selects it, by axes, group or name."""
        return all(
            value in (self.group, self.name) if axis == TITLE else value == self.setting.get(axis)
            for axis, value in at.items()
        )

    @model_validator(mode="after")
    def _one_kind_of_load(self) -> Self:
        if len({cell.load.client is None for cell in self.cells}) > 1:
            raise ValueError(
                "load.driver: the replies to a client that is not iolab's are not verified, so its figures stand in "
                "comparisons of their own: use [[comparisons]], or make load.driver an axis"
            )
        return self

    @property
    def titles(self) -> tuple[str, ...]:
        """A title for each cell, no two alike: the second `epoll` is `epoll (2)`."""
        seen: dict[str, int] = {}
        titles = []
        for title in self.labels or (cell.contestant.title for cell in self.cells):
            seen[title] = seen.get(title, 0) + 1
            titles.append(title if seen[title] == 1 else f"{title} ({seen[title]})")
        return tuple(titles)

    @property
    def many(self) -> bool:
        """Whether a discarded trial runs again alone instead of discarding its block."""
        return len(self.cells) >= MANY

    @property
    def ranked(self) -> bool:
        """Whether it is reported as a ranking instead of a sentence about each contestant."""
        return self.many and not self.ladder

    def reference(self, slot: int) -> int:
        """The reference slot for the ratios of a slot."""
        return slot - 1 if self.ladder else 0

    def without(self, cuts: Sequence[Cut]) -> Comparison | None:
        """The comparison without the contestants that are cut; None if none is left."""
        titles = self.titles
        kept = [slot for slot, title in enumerate(titles) if not any(cut.takes(self, title) for cut in cuts)]
        if len(kept) == len(titles):
            return self
        parts = {
            name: tuple(getattr(self, name)[slot] for slot in kept)
            for name in ("cells", "labels", "needs")
            if getattr(self, name)
        }
        return updated(self, **parts) if kept else None


class Quick(Frozen):
    """The reduction of a plan by `--quick`: at most this many blocks, shorter trials, and a part of the plan.

    `axes` are the values kept of an axis, and `comparisons` the titles kept; `skip` is left to the full run.

    Many short trials tell more than few long ones: one disturbed block of six widens an interval to all values, one of
    ten hardly. An experiment of many contestants sets its own times, so that it ends within minutes.
    """

    blocks: int = Field(default=10, ge=1, le=BLOCKS_MAX, description="maximum number of blocks")
    warmup_ms: int = Field(default=250, ge=100, le=TRIAL_MS_MAX, description="maximum warm-up")
    duration_ms: int = Field(default=800, ge=100, le=TRIAL_MS_MAX, description="maximum window")
    axes: Axes = Field(default={}, description="values to keep of an axis, by its name")
    comparisons: tuple[str, ...] = Field(default=(), description="titles of the comparisons to keep; all by default")
    skip: tuple[Cut, ...] = Field(default=(), description="parts that only the full run has")

    def of(self, comparisons: Iterable[Comparison]) -> tuple[Comparison, ...]:
        """The part that a quick run has."""
        chosen = (
            each
            for each in comparisons
            if not self.comparisons or each.group in self.comparisons
            if all(each.setting.get(name, values[0]) in values for name, values in self.axes.items())
        )
        return tuple(kept for each in chosen if (kept := each.without(self.skip)) is not None)


class Aim(Frozen):
    """A target given instead of a number of blocks, which is then chosen once, after a pilot.

    `within` is the half-width of the deciding ratios' intervals, as a share: with 0.02 each is known to a factor of
    1.02. `budget_ms` limits the whole run, except the building of servers.
    """

    within: float | None = Field(default=None, gt=0, lt=1)
    budget_ms: int | None = Field(default=None, ge=1_000, le=BUDGET_MS_MAX)

    @property
    def budget_s(self) -> float | None:
        """The budget in seconds; None without one."""
        return None if self.budget_ms is None else self.budget_ms / 1_000


class Choice(Frozen):
    """The number of blocks chosen after a pilot of `pilot` blocks, and its basis.

    `half_width` is that of the widest deciding ratio in the pilot, as a share, and `widest` names that ratio; it is
    None if too few blocks count. `needed` blocks give the target half-width; None without a target or if unknown.
    `affordable` is how many fit in the budget, if there is one. A block took `block_s` in the pilot, reruns included,
    and everything else takes at most `others_s`. The budget `is_used_up` if there was no time for the next block or
    rerun; `blocks` are then those that have begun, but at least as many as an interval needs.
    """

    pilot: int = Field(ge=1)
    blocks: int = Field(ge=1)
    half_width: float | None = Field(default=None, ge=0)
    widest: str = ""
    needed: int | None = Field(default=None, ge=1)
    affordable: int | None = Field(default=None, ge=0)
    block_s: float = Field(ge=0)
    others_s: float = Field(ge=0)
    is_used_up: bool = False

    def time_s(self, blocks: int) -> float:
        """The time of the whole run with this many blocks."""
        return blocks * self.block_s + self.others_s


class Plan(Frozen):
    """A whole question. Prose, published rows, claims and needs do not affect what is measured; the rest does.

    `skipped` parts are in no comparison. `overrides` are settings given besides the file. With them, and in a plan that
    `is_quick`, a claim may have no comparison. With an `aim`, `blocks` are those of the pilot until there is a
    `choice`, and then the chosen ones.
    """

    schema_: Literal[1] = Field(default=1, alias="schema")
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    question: str = Field(min_length=1)
    source: str = ""
    comparisons: tuple[Comparison, ...] = Field(min_length=1, max_length=COMPARISONS_MAX)
    blocks: int = Field(default=12, ge=1, le=BLOCKS_MAX)
    seed: int = Field(default=1, ge=0, lt=1 << 63)
    short: Quick = Quick()
    needs: Needs = Needs()
    skipped: tuple[Skip, ...] = ()
    is_quick: bool = False
    aim: Aim | None = None
    choice: Choice | None = None
    overrides: dict[str, Any] = Field(default={})
    published: tuple[Published, ...] = ()
    claims: tuple[Claim, ...] = ()
    analysis: str = ""

    @model_validator(mode="after")
    def _can_be_answered(self) -> Self:
        wrong = [*self._too_few_blocks(), *self._names_given_twice()]
        if wrong:
            raise ValueError("\n".join(line.replace("\n", " ") for line in wrong))
        return self

    def _too_few_blocks(self) -> Iterator[str]:
        if self.blocks < self.blocks_min:
            yield f"blocks: {self.blocks} cannot give a 95 % interval here: use {self.blocks_min} or more"

    def _names_given_twice(self) -> Iterator[str]:
        for what, names in (
            ("comparison", [comparison.name for comparison in self.comparisons]),
            ("claim", [claim.id for claim in self.claims]),
            ("published row", [row.id for row in self.published]),
        ):
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                yield f"two of the {what}s are called {twice!r}: give each its own name"

    @cached_property
    def digest(self) -> str:
        """16 hexadecimal digits over what affects the measurement: name, comparisons, blocks and seed.

        An aim replaces the blocks chosen for it, so that the run has the same folder before and after its pilot.
        """
        comparisons = [
            {
                **each.model_dump(mode="json", exclude={"cells", "group", "needs"}),
                "cells": [cell.key for cell in each.cells],
            }
            for each in self.comparisons
        ]
        blocks = self.blocks if self.aim is None else self.aim.model_dump()
        return digest_of({"name": self.name, "comparisons": comparisons, "blocks": blocks, "seed": self.seed})

    @property
    def is_pilot(self) -> bool:
        """Whether the number of blocks is still to be chosen."""
        return self.aim is not None and self.choice is None

    @property
    def is_used_up(self) -> bool:
        """Whether its budget has no room for another block or rerun."""
        return self.choice is not None and self.choice.is_used_up

    @property
    def duration_s(self) -> float:
        """The expected time of the whole plan without reruns."""
        return self.blocks * sum(cell.trial_ms for comparison in self.comparisons for cell in comparison.cells) / 1_000

    @property
    def counting_s(self) -> float:
        """The expected time to count every contestant's costs, once at each setting."""
        places = ((at, slot) for at, comparison in enumerate(self.comparisons) for slot in range(len(comparison.cells)))
        return sum(self.counting_cell(*place).trial_ms for place in places) / 1_000

    def counting_cell(self, comparison: int, slot: int) -> Cell:
        """The cell for counting costs: the same for a short while, always with a window."""
        cell = self.comparisons[comparison].cells[slot]
        return changed(
            cell,
            {
                "load.requests": None,
                "trial.warmup_ms": COUNT_WARMUP_MS,
                "trial.duration_ms": COUNT_DURATION_MS,
                "trial.interval_ms": QUICK_INTERVAL_MS,
            },
        )

    def cell(self, trial: Trial) -> Cell:
        """The cell of a trial. A block that runs again warms up twice as long, the same for all its contestants.

        A trial that runs again alone warms up as long as the others of its block.
        """
        comparison = self.comparisons[trial.comparison]
        cell = comparison.cells[trial.slot]
        return (
            cell
            if trial.attempt == 0 or comparison.many
            else changed(cell, {"trial.warmup_ms": min(2 * cell.trial.warmup_ms, TRIAL_MS_MAX)})
        )

    def holds(self, trial: Trial) -> bool:
        """Whether a stored trial belongs to this plan."""
        return (
            trial.block < self.blocks
            and trial.comparison < len(self.comparisons)
            and trial.slot < len(self.comparisons[trial.comparison].cells)
            and trial.cell == self.comparisons[trial.comparison].cells[trial.slot].key
        )

    def quick(self) -> Plan:
        """The same question with short trials and few blocks, but enough for a 95 % interval."""
        if self.is_quick:
            return self
        comparisons = tuple(
            updated(comparison, cells=tuple(_quick(cell, self.short) for cell in comparison.cells))
            for comparison in self.short.of(self.comparisons)
        )
        blocks = min(self.blocks, max(_blocks_min(comparisons), self.short.blocks))
        return updated(self, comparisons=comparisons, blocks=blocks, is_quick=True)

    @property
    def blocks_min(self) -> int:
        """The fewest blocks that can distinguish the contestants of the largest comparison."""
        return _blocks_min(self.comparisons)

    def needs_of(self, comparison: int, slot: int) -> Needs:
        """All needs of a contestant of a comparison."""
        found = self.comparisons[comparison]
        of_contestant = found.needs[slot] if found.needs else Needs()
        return self.needs.and_those(of_contestant).and_those(of_settings(found.cells[slot]))


class Trial(Frozen):
    """One scheduled trial: its place and its cell.

    `comparison` and `slot` are indices into the plan; slot 0 is the reference. `position` is its place in the order of
    its block. `attempt` is 0, and increases when a discarded block runs again. `cell` is the key of the planned cell.
    """

    block: int = Field(ge=0)
    comparison: int = Field(ge=0)
    attempt: int = Field(default=0, ge=0, le=RETRIES_MAX)
    slot: int = Field(ge=0)
    position: int = Field(ge=0)
    cell: str

    @property
    def place(self) -> Place:
        """Its identity among the trials of its plan."""
        return Place(self.comparison, self.block, self.attempt, self.slot)


class Place(NamedTuple):
    """The identity of a trial within its plan."""

    comparison: int
    block: int
    attempt: int
    slot: int


def blocks_min(rivals: float) -> int:
    """The fewest blocks that distinguish `rivals` contestants from one reference by the exact signed-rank test.

    The smallest p-value of n blocks is 2 / 2**n, and Holm's correction multiplies it by the number of rivals: 6 blocks
    for one.
    """
    return next(n for n in itertools.count(1) if 2 * rivals / 2**n <= ALPHA) if rivals else 1


def _blocks_min(comparisons: Iterable[Comparison]) -> int:
    return max(blocks_min(len(comparison.cells) - 1) for comparison in comparisons)


def name_of(group: str, setting: Setting) -> str:
    """The name of a comparison, from the title of its group and the values of the axes."""
    title = "" if group == "all" and setting else group
    return " ".join(part for part in (title, spelt(setting)) if part)


def spelt(setting: Setting) -> str:
    """The values of axes in short form: `connections=50 message_bytes=65`."""
    return " ".join(f"{SHORT.get(name, name)}={_short(value)}" for name, value in setting.items())


def _short(value: Scalar) -> Scalar:
    """The name of a setting's value, shortened for the command of a client."""
    return client_title(value) if isinstance(value, str) and value.startswith("cmd:") else value


def _quick(cell: Cell, short: Quick) -> Cell:
    """The cell with times of whole intervals: the requested ones, rounded up."""
    usual = cell.trial
    interval_ms = min(usual.interval_ms, QUICK_INTERVAL_MS)
    warmup_ms, duration_ms = (
        math.ceil(min(asked, least) / interval_ms) * interval_ms
        for asked, least in ((usual.warmup_ms, short.warmup_ms), (usual.duration_ms, short.duration_ms))
    )
    times = {"warmup_ms": warmup_ms, "duration_ms": duration_ms, "interval_ms": interval_ms}
    return changed(cell, {f"trial.{key}": value for key, value in times.items()})
