"""What is to be measured, in which order, and the shape of what comes back. Frozen data and pure functions.

The words are those of the method. A *trial* is one server process started fresh and one run of the generator against
it. A *block* is one trial of each contestant, next to each other in time, in random order. A *comparison* is n
blocks of one setting of the axes. A *plan* is a question: its comparisons, their order, and what others published
about it.

Nothing here reads a clock or the network; only `load_experiment` reads a file. Order is a hash of the seed and not a
random generator's state, so any trial's place can be worked out alone: that is what makes a run resumable.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
import math
import re
import shlex
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeVar

from pydantic import Field, ValidationError, model_serializer, model_validator
from pydantic_core import ErrorDetails

from iolab import mistakes
from iolab.contract import (
    WORKLOADS,
    Frozen,
    HttpWorkload,
    Report,
    ServeReady,
    Workload,
    one_line,
)
from iolab.errors import BadInput
from iolab.literals import Driver, WorkerKind
from iolab.wording import instead, nearest

Record = TypeVar("Record", bound=Frozen)
Scalar = bool | int | str
Setting = dict[str, Scalar]
Axes = dict[str, Annotated[tuple[Scalar, ...], Field(min_length=1)]]
# The models there are, and the names of their options.
Models = Mapping[str, Sequence[str]]
Metric = Literal["throughput", "cpu_per_request", "latency_p50", "latency_p99", "rss"]

# Limits, in one place. Each is far beyond honest use and keeps a slip of the pen from becoming a week of measuring.
CONTESTANTS_MAX = 16
COMPARISONS_MAX = 256
BLOCKS_MAX = 1_000
CONNECTIONS_MAX = 100_000
SOCKETS_MAX = 64
TRIAL_MS_MAX = 3_600_000
TEXT_BYTES_MAX = 4_096
EXPERIMENT_BYTES_MAX = 1 << 20

# What begins a line for a shell, and is no program.
SHELL_WORDS = frozenset({".", "cd", "exec", "export", "source", "ulimit"})
# A command's name in tables and sentences is at most so long.
TITLE_MAX = 40

# The chance of a false alarm that every interval and every family of tests is held to.
ALPHA = 0.05
# A block that came out void is run again at most this often, and so is a void trial of many contestants; the void
# trials stay in the record.
RETRIES_MAX = 2
# A comparison runs at most this share of its trials again, so that it takes at most half as long again as planned.
RERUN_SHARE_MAX = 0.5
# Processors are equally far apart while a cache line takes less than this many times the least of what it took. Moved
# ones differ by a factor of three and more, and the measurement itself by a tenth.
APART_MAX = 1.7
# What a trial costs besides warm-up and window: two processes to start, connections to open, two to stop.
TRIAL_OVERHEAD_MS = 60
OVERHEAD_MS_A_CONNECTION = 0.1
QUICK_INTERVAL_MS = 10
# A trial in which system calls are counted is apart from those that are timed, because that takes time from the
# server. Such figures hardly vary, so one short window for each contestant and setting is enough.
COUNT_WARMUP_MS, COUNT_DURATION_MS = 100, 300
# Failures that are no fault: the contestant cannot hold so many connections, or this machine lacks what it needs.
LEFT_OUT = frozenset({"holds", "unavailable"})
# From so many contestants on, a comparison is told as a ranking (or a ladder), because a sentence about each is too
# much to read; and a void trial is run again alone, instead of voiding its block, because of fourteen trials one is
# nearly always disturbed.
MANY = 4


class PlanError(BadInput, ValueError):
    """A plan that cannot be. The message is one line: where, which key, and what to do."""


class Contestant(Frozen):
    """A server to be measured, named by the text a person types.

    `epoll` and `io_uring[recv=oneshot,send=silent]` name a server of the engine or of the contestants' list, with
    options in sorted order. `cmd:./mine --port {port}` is anybody's server: split as a shell would split it, but never
    given to a shell. As JSON a contestant is its text.
    """

    text: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads a contestant; raises PlanError with one line that says what to write instead."""
        try:
            return cls.model_validate(text)
        except ValidationError as error:
            raise PlanError(one_line(error)) from None

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: object) -> object:
        if isinstance(value, str):
            return {"text": _canonical(value)}
        if isinstance(value, dict) and isinstance(value.get("text"), str):
            return value | {"text": _canonical(value["text"])}
        return value

    @model_serializer
    def _to_text(self) -> str:
        return self.text

    @property
    def kind(self) -> Literal["named", "command"]:
        """`named`: found in the engine or the contestants' list. `command`: brought by the user."""
        return "command" if self.text.startswith("cmd:") else "named"

    @cached_property
    def name(self) -> str:
        """The name without options: `io_uring`. Of a command, its program."""
        return self._command[0] if self.kind == "command" else self.text.partition("[")[0]

    @cached_property
    def options(self) -> dict[str, str]:
        """The options in brackets: `{"recv": "oneshot"}`. A command has none."""
        inside = self.text.partition("[")[2].removesuffix("]") if self.kind == "named" else ""
        return dict(_pair(part) for part in inside.split(",")) if inside else {}

    def argv(self, port: int) -> tuple[str, ...]:
        """The argument list of a command, with `{port}` filled in; each argument arrives unchanged otherwise."""
        assert self.kind == "command", "only a command has an argument list"
        return tuple(argument.replace("{port}", str(port)) for argument in self._command)

    @cached_property
    def title(self) -> str:
        """A short name for display: of a long command without folders. It is no identity: see `Comparison.titles`."""
        if self.kind == "named":
            return self.text
        words = [word for word in self._command if "{port}" not in word and not word.startswith("-")]
        words = words or [self._command[0]]
        title = " ".join(words)
        if len(title) > TITLE_MAX:
            title = " ".join(word.rstrip("/").rpartition("/")[2] for word in words)
        return title if len(title) <= TITLE_MAX else f"{title[: TITLE_MAX - 1]}…"

    @cached_property
    def _command(self) -> tuple[str, ...]:
        return tuple(shlex.split(self.text.removeprefix("cmd:")))


class Cell(Frozen):
    """Everything that decides what one trial measures. Two cells with one key are the same measurement.

    CPU sets are numbers of logical processors; empty means not pinned. `threads` are the generator's, `workers` the
    server's, which listens on `sockets` addresses; the connections take those in turn. Times are in milliseconds; the
    warm-up is a multiple of the interval so that the window lies on an edge: see `whole_intervals_ms`.
    """

    contestant: Contestant
    workload: Workload
    connections: int = Field(default=50, ge=1, le=CONNECTIONS_MAX)
    driver: Driver = "epoll"
    threads: int = Field(default=1, ge=1, le=1024)
    workers: int = Field(default=1, ge=1, le=1024)
    worker_kind: WorkerKind = "thread"
    sockets: int = Field(default=1, ge=1, le=SOCKETS_MAX)
    server_cpus: tuple[int, ...] = ()
    load_cpus: tuple[int, ...] = ()
    warmup_ms: int = Field(default=1_000, ge=100, le=TRIAL_MS_MAX)
    duration_ms: int = Field(default=3_000, ge=100, le=TRIAL_MS_MAX)
    interval_ms: int = Field(default=20, ge=5, le=10_000)
    timeout_ms: int = Field(default=10_000, ge=100, le=TRIAL_MS_MAX)

    @model_validator(mode="after")
    def _window_on_an_edge(self) -> Self:
        if self.warmup_ms % self.interval_ms or self.duration_ms % self.interval_ms:
            raise ValueError(f"warmup_ms and duration_ms must be multiples of interval_ms ({self.interval_ms})")
        if self.threads > self.connections:
            raise ValueError(f"{self.threads} generator threads cannot share {self.connections} connections")
        if self.contestant.kind == "command" and self.sockets > 1:
            raise ValueError("sockets: a command is given one {port}, so it listens on one socket: use sockets 1")
        return self

    @cached_property
    def key(self) -> str:
        """16 hexadecimal digits that are the same on every machine and in every version that has these fields."""
        return _digest(self.model_dump(mode="json"))

    @property
    def trial_ms(self) -> int:
        """How long one trial of this cell is expected to take, overhead included."""
        return (
            self.warmup_ms + self.duration_ms + TRIAL_OVERHEAD_MS + round(OVERHEAD_MS_A_CONNECTION * self.connections)
        )

    @property
    def held(self) -> int:
        """How many connections the server must serve at the same time: where each ends with its reply, any will do."""
        takes_turns = isinstance(self.workload, HttpWorkload) and not self.workload.keep_alive
        return 1 if takes_turns else self.connections


class Comparison(Frozen):
    """One setting of the axes and its contestants as cells; the first cell is the reference of every ratio.

    `name` is unique in its plan, as `message_bytes=65`. `setting` holds the values of the axes alone (empty when there
    are none). One cell alone is measured but not compared. The same contestant twice is an A/A comparison. In a
    `ladder` each cell is compared with the one before it. `labels` name the cells, where their own texts are too long.
    """

    name: str = Field(min_length=1, max_length=200)
    setting: Setting = Field(default={})
    cells: tuple[Cell, ...] = Field(min_length=1, max_length=CONTESTANTS_MAX)
    ladder: bool = False
    labels: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _a_label_each(self) -> Self:
        if self.labels and len(self.labels) != len(self.cells):
            raise ValueError(f"labels: there are {len(self.labels)} for {len(self.cells)} contestants: name each once")
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
        """Whether a void trial does not void its block, and is run again alone."""
        return len(self.cells) >= MANY

    @property
    def ranked(self) -> bool:
        """Whether it is told as a ranking and not as a sentence about each contestant."""
        return self.many and not self.ladder

    def reference(self, slot: int) -> int:
        """The slot that the ratios of this one are to."""
        return slot - 1 if self.ladder else 0


class Published(Frozen):
    """One row of a published table: the value of `metric` for each contestant, at one setting of the axes.

    Units: throughput in requests per second, cpu_per_request and latencies in nanoseconds, rss in bytes.
    """

    id: str = Field(min_length=1, max_length=40)
    setting: Setting = Field(default={})
    metric: Metric = "throughput"
    values: dict[str, float] = Field(min_length=1)
    note: str = ""


class RatioTest(Frozen):
    """`metric` of contestant / reference, pooled over the comparisons that `setting` selects (all, when empty).

    `tolerance` is relative: a measured interval that touches published * (1 ± tolerance) agrees in magnitude.
    """

    relation: Literal["ratio"] = "ratio"
    metric: Metric = "throughput"
    contestant: str
    reference: str
    published: float = Field(gt=0)
    tolerance: float = Field(default=0.05, gt=0, lt=1)
    setting: Setting = Field(default={})


class WinsTest(Frozen):
    """In every comparison the interval of contestant / reference lies on the better side of 1."""

    relation: Literal["wins"] = "wins"
    metric: Metric = "throughput"
    contestant: str
    reference: str


class FlatTest(Frozen):
    """Over the values of `axis`, the largest median of `metric` is at most `at_most` times the smallest."""

    relation: Literal["flat"] = "flat"
    metric: Metric = "throughput"
    axis: str
    contestants: tuple[str, ...] = Field(min_length=1)
    at_most: float = Field(default=1.1, gt=1)
    published: dict[str, float] = Field(default={})


class LittlesLawTest(Frozen):
    """Mean latency is connections / throughput in every trial; `published_ms` is what the source's table implies.

    The published means are held against those of the comparisons that `setting` selects (all, when empty).
    """

    relation: Literal["littles_law"] = "littles_law"
    published_ms: dict[str, float] = Field(min_length=1)
    tolerance: float = Field(default=0.05, gt=0, lt=1)
    setting: Setting = Field(default={})


Test = Annotated[RatioTest | WinsTest | FlatTest | LittlesLawTest, Field(discriminator="relation")]


class Claim(Frozen):
    """A sentence somebody published, where it stands, and the test that decides it on our figures."""

    id: str = Field(min_length=1, max_length=40)
    text: str = Field(min_length=1)
    source: str = ""
    decide: Test


class Quick(Frozen):
    """What `--quick` makes of a plan: at most so many blocks, and trials of at most these times.

    Many short trials tell more than few long ones, because one disturbed block of six widens an interval to all there
    is, and one of ten hardly. An experiment of many contestants states its own, so that it ends within minutes.
    """

    blocks: int = Field(default=10, ge=1, le=BLOCKS_MAX)
    warmup_ms: int = Field(default=250, ge=100, le=TRIAL_MS_MAX)
    duration_ms: int = Field(default=800, ge=100, le=TRIAL_MS_MAX)


class Plan(Frozen):
    """A whole question. Prose, published rows and claims do not decide what is measured; the rest does."""

    schema_: Literal[1] = Field(default=1, alias="schema")
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    question: str = Field(min_length=1)
    source: str = ""
    comparisons: tuple[Comparison, ...] = Field(min_length=1, max_length=COMPARISONS_MAX)
    blocks: int = Field(default=12, ge=1, le=BLOCKS_MAX)
    seed: int = Field(default=1, ge=0, lt=1 << 63)
    short: Quick = Quick()
    published: tuple[Published, ...] = ()
    claims: tuple[Claim, ...] = ()
    analysis: str = ""

    @model_validator(mode="after")
    def _can_be_answered(self) -> Self:
        wrong = [*self._too_few_blocks(), *self._names_given_twice(), *self._not_measured()]
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

    def _not_measured(self) -> Iterator[str]:
        """What published rows and claims are about and no comparison has, a line each."""
        for row in self.published:
            yield from self._unknown(f"published[{row.id}]", {"values": row.values}, row.setting)
        for claim in self.claims:
            test, where = claim.decide, f"claims[{claim.id}].decide"
            setting = test.setting if isinstance(test, RatioTest | LittlesLawTest) else {}
            unknown = list(self._unknown(where, _named_by(test), setting))
            yield from unknown
            axes = {axis for comparison in self.comparisons for axis in comparison.setting}
            if isinstance(test, FlatTest) and test.axis not in axes:
                yield f"{where}.axis: {_no_axis(test.axis, axes)}"
            if (
                isinstance(test, WinsTest)
                and not unknown
                and not any(
                    test.contestant in each.titles and test.reference == each.titles[0] for each in self.comparisons
                )
            ):
                yield (
                    f"{where}.reference: no comparison has {test.reference!r} as its first contestant and "
                    f"{test.contestant!r} after it: list {test.reference!r} first, or swap the two here"
                )

    def _unknown(self, where: str, named: Mapping[str, Iterable[str]], setting: Setting) -> Iterator[str]:
        """The contestants, by the keys that name them, the axes and their values that are in no comparison."""
        titles = {title for comparison in self.comparisons for title in comparison.titles}
        for key, names in named.items():
            for contestant in sorted(set(names) - titles):
                known = instead(contestant, sorted(titles))
                yield f"{where}.{key}: no contestant is called {contestant!r}{known}"
        values: dict[str, dict[Scalar, None]] = {}
        for comparison in self.comparisons:
            for axis, value in comparison.setting.items():
                values.setdefault(axis, {})[value] = None
        for axis, value in setting.items():
            if axis not in values:
                yield f"{where}.setting.{axis}: {_no_axis(axis, values)}"
            elif value not in values[axis]:
                known = ", ".join(map(str, values[axis]))
                yield f"{where}.setting.{axis}: {value!r} is not measured: use one of {known}"

    @cached_property
    def digest(self) -> str:
        """16 hexadecimal digits over what decides the measurement: name, comparisons, blocks and seed."""
        return _digest(self.model_dump(mode="json", include={"name", "comparisons", "blocks", "seed"}))

    @property
    def duration_s(self) -> float:
        """How long the whole plan is expected to take when no block has to be run again."""
        return self.blocks * sum(cell.trial_ms for comparison in self.comparisons for cell in comparison.cells) / 1_000

    @property
    def counting_s(self) -> float:
        """How long it is expected to take to see what every contestant costs, once at each setting."""
        places = ((at, slot) for at, comparison in enumerate(self.comparisons) for slot in range(len(comparison.cells)))
        return sum(self.counting_cell(*place).trial_ms for place in places) / 1_000

    def counting_cell(self, comparison: int, slot: int) -> Cell:
        """What is run to see what it costs: the cell itself for a short while."""
        cell = self.comparisons[comparison].cells[slot]
        return _updated(
            cell,
            warmup_ms=COUNT_WARMUP_MS,
            duration_ms=COUNT_DURATION_MS,
            interval_ms=QUICK_INTERVAL_MS,
        )

    def cell(self, trial: Trial) -> Cell:
        """What a trial runs. A block that is run again warms up twice as long, the same for all its contestants.

        A trial of many that is run again alone warms up as long as the others of its block.
        """
        comparison = self.comparisons[trial.comparison]
        cell = comparison.cells[trial.slot]
        return (
            cell
            if trial.attempt == 0 or comparison.many
            else _updated(cell, warmup_ms=min(2 * cell.warmup_ms, TRIAL_MS_MAX))
        )

    def holds(self, trial: Trial) -> bool:
        """Whether a trial, read from somewhere, is one of this plan."""
        return (
            trial.block < self.blocks
            and trial.comparison < len(self.comparisons)
            and trial.slot < len(self.comparisons[trial.comparison].cells)
            and trial.cell == self.comparisons[trial.comparison].cells[trial.slot].key
        )

    def holds_count(self, count: CostCount) -> bool:
        """Whether a count, read from somewhere, is one of this plan."""
        return (
            count.comparison < len(self.comparisons)
            and count.slot < len(self.comparisons[count.comparison].cells)
            and count.cell == self.comparisons[count.comparison].cells[count.slot].key
        )

    def quick(self) -> Plan:
        """The same question with short trials and few blocks, yet enough for a 95 % interval."""
        comparisons = tuple(
            _updated(comparison, cells=tuple(_quick(cell, self.short) for cell in comparison.cells))
            for comparison in self.comparisons
        )
        return _updated(self, comparisons=comparisons, blocks=min(self.blocks, max(self.blocks_min, self.short.blocks)))

    @property
    def blocks_min(self) -> int:
        """The fewest blocks that can tell the contestants of the largest comparison apart."""
        return max(blocks_min(len(comparison.cells) - 1) for comparison in self.comparisons)


class Trial(Frozen):
    """One scheduled trial: where it stands and what it runs.

    `comparison` and `slot` are indices into the plan; slot 0 is the reference. `position` is its place in the order of
    its block. `attempt` is 0, and counts up when a void block is run again. `cell` is the key of the planned cell.
    """

    block: int = Field(ge=0)
    comparison: int = Field(ge=0)
    attempt: int = Field(default=0, ge=0, le=RETRIES_MAX)
    slot: int = Field(ge=0)
    position: int = Field(ge=0)
    cell: str

    @property
    def place(self) -> Place:
        """What tells this trial from every other of its plan."""
        return Place(self.comparison, self.block, self.attempt, self.slot)


class Place(NamedTuple):
    """The identity of a trial within its plan."""

    comparison: int
    block: int
    attempt: int
    slot: int


class ServerUsage(Frozen):
    """What the server's whole process tree used over exactly the measured window.

    `cpu_ns` is the figure to judge by; its split into user and system is sampled by the kernel's tick and only
    informs. Context switches and run delay are None of a server of so many tasks that to read them would slow it down.
    `rss_bytes_max` is the highest resident size, `rss_bytes_median` the median of samples, both summed over
    processes; `pss_bytes` counts shared pages once (None where the kernel does not tell). `connections_taken` is how
    many it had accepted when the window began (None of a command, which does not say).
    """

    cpu_ns: int = Field(ge=0)
    wall_ns: int = Field(ge=1)
    user_ns: int = Field(ge=0)
    system_ns: int = Field(ge=0)
    rss_bytes_max: int = Field(ge=0)
    rss_bytes_median: int = Field(ge=0)
    pss_bytes: int | None = Field(default=None, ge=0)
    context_switches_voluntary: int | None = Field(default=None, ge=0)
    context_switches_involuntary: int | None = Field(default=None, ge=0)
    threads: int = Field(ge=0)
    processes: int = Field(ge=0)
    run_delay_ns: int | None = Field(default=None, ge=0)
    connections_taken: int | None = Field(default=None, ge=0)


class MachineNoise(Frozen):
    """What else the machine did during the window.

    `steal_share` is the share of all processor time the hypervisor took (0 to 1). `foreign_cpu_cores` is the processor
    time of everybody but the server, the generator and the lab, in cores (0.1: a tenth of one core). `run_delay_share`
    is the time the server's threads were runnable without a processor, over their run time; None where unknown.
    `apart_ns` is how long a cache line took from the server's processor to the generator's and back, before the load
    and after it; None where they share processors or are not pinned.
    """

    steal_share: float = Field(ge=0, le=1)
    foreign_cpu_cores: float = Field(ge=0)
    run_delay_share: float | None = Field(default=None, ge=0)
    apart_ns: tuple[float, float] | None = None


class Failure(Frozen):
    """A trial that gave no report. `kind` is a word (`address_in_use`, `died`), `message` one line for people.

    `final` says that trying again cannot help (the machine lacks io_uring, the option does not exist, a reply is
    wrong): the contestant is not started again in this comparison. `said` are the last lines of the standard error of
    the process that failed.
    """

    kind: str
    message: str
    final: bool = False
    said: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """All of it in one line: the message, and the last thing the process said."""
        return f"{self.message}: {self.said[-1].strip()}" if self.said else self.message

    @property
    def left_out(self) -> bool:
        """Whether the contestant was left out, because it cannot do this at all, and not because it went wrong."""
        return self.kind in LEFT_OUT


class DoubtKind(NamedTuple):
    """A word's meaning: whether it makes the trial void, and the advice to the reader in one sentence."""

    voids: bool
    advice: str


# Every doubt there is. The rules that raise them are in trial.py; none of them looks at which contestant is ahead.
DOUBTS: dict[str, DoubtKind] = {
    "generator_saturated": DoubtKind(
        False, "The generator was the limit: read throughput as at least this, and compare CPU per request."
    ),
    "too_short": DoubtKind(
        False, "Too few requests in the window: make it longer (vs: --duration, experiment: duration_ms)."
    ),
    "machine_noisy": DoubtKind(False, "Something else used the machine: close it, or run more blocks."),
    "unequal_replies": DoubtKind(
        False, "The contestants do not send equally many bytes: compare them with that in mind."
    ),
    "steadiness_unseen": DoubtKind(
        False,
        "The window is too short to see whether throughput had settled: "
        "leave --quick out, or make it longer (vs: --duration, experiment: duration_ms).",
    ),
    "not_steady": DoubtKind(
        False,
        "Throughput drifted within the window: make warm-up and window longer "
        "(vs: --warmup, --duration; experiment: warmup_ms, duration_ms).",
    ),
    "p99_not_supported": DoubtKind(
        False,
        "Too few requests for a p99: make the window longer "
        "(vs: --duration, experiment: duration_ms), or read the p50.",
    ),
    "never_steady": DoubtKind(
        True,
        "Throughput never settled: make the warm-up longer "
        "(vs: --warmup, experiment: warmup_ms), or look at the server's log.",
    ),
    "interrupted": DoubtKind(True, "The run was stopped before the window ended: start it again, it resumes."),
    "connections_missing": DoubtKind(
        True, "Not all connections were open: raise the limit of open files, or use fewer."
    ),
    "connections_waiting": DoubtKind(
        True,
        "The server had not accepted all connections: it served fewer than were asked for. "
        "Make the warm-up longer (vs: --warmup, experiment: warmup_ms).",
    ),
    "wrong_replies": DoubtKind(True, "Replies were wrong: a server is not compared before it is correct."),
    "errors": DoubtKind(True, "More than 0.1 % of the requests failed: this is an error rate and not a speed."),
    "counts_open": DoubtKind(True, "The generator's counts do not close: report this as a bug of the generator."),
    "bytes_open": DoubtKind(True, "The bytes do not match the replies: report this as a bug of the generator."),
    "littles_law": DoubtKind(True, "Connections, throughput and latency contradict each other: report this as a bug."),
    "generator_late": DoubtKind(True, "The generator stood still for too long: give it a processor of its own."),
    "generator_starved": DoubtKind(True, "The generator waited for a processor: give it one of its own."),
    "machine_busy": DoubtKind(True, "The machine was busy with other work: close it, or measure elsewhere."),
}

DoubtWord = Literal[
    "generator_saturated",
    "too_short",
    "machine_noisy",
    "unequal_replies",
    "steadiness_unseen",
    "not_steady",
    "p99_not_supported",
    "never_steady",
    "interrupted",
    "connections_missing",
    "connections_waiting",
    "wrong_replies",
    "errors",
    "counts_open",
    "bytes_open",
    "littles_law",
    "generator_late",
    "generator_starved",
    "machine_busy",
]


class CostCount(Frozen):
    """What a request and a connection cost one contestant at one setting, seen in a short trial that is not timed.

    `comparison` and `slot` are indices into the plan, `cell` the key of the planned cell. `calls` are the server's
    system calls for `requests`; None where they could not be counted, and `why_not` then says why. The server's own
    memory, in bytes, is taken before the first connection and while all are at work; None where it is unknown.
    """

    comparison: int = Field(ge=0)
    slot: int = Field(ge=0)
    cell: str
    requests: int = Field(default=0, ge=0)
    calls: int | None = Field(default=None, ge=0)
    why_not: str | None = None
    own_bytes_before: int | None = Field(default=None, ge=0)
    own_bytes: int | None = Field(default=None, ge=0)

    @property
    def per_request(self) -> float | None:
        """System calls per request; None where they could not be counted."""
        return self.calls / self.requests if self.calls is not None and self.requests else None


class Doubt(Frozen):
    """A reason to believe a trial less. `detail` gives the figures in one sentence."""

    word: DoubtWord
    detail: str

    @property
    def voids(self) -> bool:
        """Whether the trial is void: kept in the record, used for nothing."""
        return DOUBTS[self.word].voids

    @property
    def advice(self) -> str:
        """What the reader can do, in one sentence."""
        return DOUBTS[self.word].advice


class Result(Frozen):
    """A finished trial, good or bad. A failed one has a `failure` and may lack the rest.

    `started` is wall time as ISO 8601, a label only; no interval is ever computed from it.
    """

    trial: Trial
    started: str
    ready: ServeReady | None = None
    report: Report | None = None
    server: ServerUsage | None = None
    noise: MachineNoise | None = None
    doubts: tuple[Doubt, ...] = ()
    failure: Failure | None = None

    @property
    def void(self) -> bool:
        """Whether the trial counts for nothing, by rules that do not look at who is ahead."""
        return self.failure is not None or self.report is None or any(doubt.voids for doubt in self.doubts)


def blocks_min(rivals: int) -> int:
    """The fewest blocks from which `rivals` contestants can be told from one reference by the exact signed-rank law.

    The smallest p-value of n blocks is 2 / 2**n, and Holm multiplies it by the number of rivals: 6 blocks for one.
    """
    return next(n for n in itertools.count(1) if 2 * rivals / 2**n <= ALPHA) if rivals else 1


def schedule(plan: Plan) -> tuple[Trial, ...]:
    """All trials of the plan in the order they run: blocks in turn, comparisons shuffled in each, contestants too."""
    return tuple(
        trial
        for block in range(plan.blocks)
        for comparison in _shuffled(range(len(plan.comparisons)), plan.seed, block)
        for trial in block_trials(plan, comparison, block, attempt=0)
    )


def block_trials(plan: Plan, comparison: int, block: int, attempt: int) -> tuple[Trial, ...]:
    """The trials of one block of one comparison, in their random order."""
    cells = plan.comparisons[comparison].cells
    order = _shuffled(range(len(cells)), plan.seed, block, comparison, attempt)
    return tuple(
        Trial(block=block, comparison=comparison, attempt=attempt, slot=slot, position=at, cell=cells[slot].key)
        for at, slot in enumerate(order)
    )


def remaining(plan: Plan, results: Iterable[Result]) -> tuple[Trial, ...]:
    """What is still to be run, in order, as far as it is known; ask again after each result.

    A contestant whose failure was final is left out of its comparison. A resumed run goes on within the block it was
    torn from. Of many contestants a void trial is run again at the end of its own block, before the next block begins:
    see `_Reruns`. Other comparisons have whole blocks run again after all others, void ones and unsettled ones
    alike, until a comparison has had half as many of them as it has blocks: so a run keeps near its planned time, and
    a comparison that needs more is inconclusive anyway. An empty answer means that the plan is done.
    """
    done = {result.trial.place: result for result in results if plan.holds(result.trial)}
    gone = given_up(done)
    blocks = [
        (comparison, block)
        for block in range(plan.blocks)
        for comparison in _shuffled(range(len(plan.comparisons)), plan.seed, block)
    ]
    again = _Reruns(plan, done)
    first = [
        trial
        for comparison, block in blocks
        for trial in (*block_trials(plan, comparison, block, attempt=0), *again.of_block(comparison, block))
        if trial.place not in done and (comparison, trial.slot) not in gone
    ]
    return tuple(first) or _whole_blocks_again(plan, done, gone, blocks)


class _Reruns:
    """The void trials of comparisons of many that are run again, block by block in the order of the schedule.

    Pairing relies on nearness in time: a trial that is run again some seconds later, at the end of its own block, is
    still beside the others of it; at the end of the run it would share nothing with them. That it comes last does not
    favour anybody, because no rule that voids a trial looks at its result. The budget has three parts. Each trial is
    run again RETRIES_MAX times at most: three void trials in a row are no accident. A contestant has as many reruns as
    there are blocks, so that one that is always void cannot spend those of the others. And a comparison has half as
    many as it has trials, so that it takes half as long again at most, as with two contestants.
    """

    def __init__(self, plan: Plan, done: Mapping[Place, Result]) -> None:
        self._plan, self._done = plan, done
        self._gone = given_up(done)
        self._spent = Counter[int]()
        self._spent_by = Counter[tuple[int, int]]()

    def of_block(self, comparison: int, block: int) -> Iterator[Trial]:
        """What is run again in this block, done or not, as far as it is known. Ask for the blocks in their order."""
        if not self._plan.comparisons[comparison].many:
            return
        void = self._void(block_trials(self._plan, comparison, block, attempt=0))
        for attempt in range(1, RETRIES_MAX + 1):
            trials = block_trials(self._plan, comparison, block, attempt)
            chosen = [trial for trial in trials if trial.slot in void and self._may_run(trial)]
            yield from chosen
            void = self._void(chosen)

    def _void(self, trials: Iterable[Trial]) -> Set[int]:
        """The slots whose trials came out void; none while a trial is still to be run."""
        void = set()
        for trial in trials:
            result = self._done.get(trial.place)
            if result is None and (trial.comparison, trial.slot) not in self._gone:
                return set()
            if result is not None and result.void:
                void.add(trial.slot)
        return void

    def _may_run(self, trial: Trial) -> bool:
        """Whether the budget allows this rerun, which it is then charged for."""
        place = (trial.comparison, trial.slot)
        trials = self._plan.blocks * len(self._plan.comparisons[trial.comparison].cells)
        is_done = trial.place in self._done
        if not is_done and (
            place in self._gone
            or self._spent_by[place] >= self._plan.blocks
            or self._spent[trial.comparison] >= max(1, int(trials * RERUN_SHARE_MAX))
        ):
            return False
        self._spent[trial.comparison] += 1
        self._spent_by[place] += 1
        return True


def _whole_blocks_again(
    plan: Plan, done: Mapping[Place, Result], gone: Set[tuple[int, int]], blocks: Sequence[tuple[int, int]]
) -> tuple[Trial, ...]:
    """The next blocks that are run again as a whole, of the comparisons of few; empty when none is left to be."""
    blocks = [(comparison, block) for comparison, block in blocks if not plan.comparisons[comparison].many]
    reruns = Counter[int]()
    reruns_max = max(1, int(plan.blocks * RERUN_SHARE_MAX))
    for attempt in range(RETRIES_MAX):
        again = []
        for comparison, block in blocks:
            slots = range(len(plan.comparisons[comparison].cells))
            places = (Place(comparison, block, attempt, slot) for slot in slots if (comparison, slot) not in gone)
            if any(done[place].void for place in places) and reruns[comparison] < reruns_max:
                reruns[comparison] += 1
                again.append((comparison, block))
        rest = tuple(
            trial
            for comparison, block in again
            for trial in block_trials(plan, comparison, block, attempt + 1)
            if trial.place not in done and (comparison, trial.slot) not in gone
        )
        if rest:
            return rest
        blocks = again
    return ()


def uncounted(plan: Plan, results: Iterable[Result], counts: Iterable[CostCount]) -> tuple[tuple[int, int], ...]:
    """The (comparison, slot) pairs that take part and whose costs have not been seen yet."""
    gone = given_up({result.trial.place: result for result in results if plan.holds(result.trial)})
    known = {(count.comparison, count.slot) for count in counts if plan.holds_count(count)}
    return tuple(
        (at, slot)
        for at, comparison in enumerate(plan.comparisons)
        for slot in range(len(comparison.cells))
        if (at, slot) not in gone | known
    )


def given_up(done: Mapping[Place, Result]) -> frozenset[tuple[int, int]]:
    """The (comparison, slot) pairs that failed for good: they take no part, so the others can still be compared."""
    return frozenset(
        (place.comparison, place.slot)
        for place, result in done.items()
        if result.failure is not None and result.failure.final
    )


def whole_intervals_ms(time_ms: int) -> int:
    """A time of a trial, as much longer as whole intervals of the usual length take."""
    interval_ms: int = Cell.model_fields["interval_ms"].default
    return math.ceil(time_ms / interval_ms) * interval_ms


def vs_plan(
    contestants: Sequence[str | Contestant], setting: Mapping[str, Scalar], *, blocks: int = 12, seed: int = 1
) -> Plan:
    """The plan of `iolab vs`: one comparison; `setting` takes the keys an experiment's [fixed] takes.

    Times that are given hold for a quick run too. Raises PlanError with one line.
    """
    entrants = [c if isinstance(c, Contestant) else Contestant.parse(c) for c in contestants]
    if len(entrants) < 2:
        raise PlanError("name two contestants or more, as in: iolab vs epoll io_uring")
    try:
        comparison = _comparison("vs", entrants, dict(setting), {})
        titles = " or ".join(comparison.titles)
        short = Quick.model_validate({key: setting[key] for key in ("warmup_ms", "duration_ms") if key in setting})
        return Plan(name="vs", question=f"{titles}?", comparisons=(comparison,), blocks=blocks, seed=seed, short=short)
    except ValidationError as error:
        raise PlanError(mistakes.of_settings(error)) from None


class _Group(Frozen):
    """A `[[comparisons]]` table of an experiment: its own contestants, and what differs from [fixed] and [axes].

    With `ladder` each contestant is compared with the one before it; `labels` are short names for them.
    """

    title: str = Field(min_length=1, max_length=80)
    contestants: tuple[Contestant, ...] = Field(min_length=1, max_length=CONTESTANTS_MAX)
    ladder: bool = False
    labels: tuple[str, ...] = ()
    fixed: Setting = Field(default={})
    axes: Axes = Field(default={})

    @model_validator(mode="after")
    def _a_label_each(self) -> Self:
        if self.labels and len(self.labels) != len(self.contestants):
            raise ValueError(
                f"labels: there are {len(self.labels)} for {len(self.contestants)} contestants: name each once"
            )
        return self


class _Experiment(Frozen):
    """An experiment file as it is written: see experiments/*.toml."""

    name: str
    question: str
    source: str = ""
    contestants: tuple[Contestant, ...] = Field(default=(), max_length=CONTESTANTS_MAX)
    blocks: int = 12
    seed: int = 1
    quick: Quick = Quick()
    fixed: Setting = Field(default={})
    axes: Axes = Field(default={})
    comparisons: tuple[_Group, ...] = ()
    published: tuple[Published, ...] = ()
    claims: tuple[Claim, ...] = ()
    analysis: str = ""


def load_experiment(path: Path, models: Models | None = None) -> Plan:
    """Reads an experiment; raises PlanError with a line for each mistake: the file, the key, what is wrong and what to
    write.

    With `models` a contestant that the engine does not have is refused too, where it is listed.
    """
    try:
        text = path.read_bytes()[: EXPERIMENT_BYTES_MAX + 1]
    except OSError as error:
        raise PlanError(f"{path}: cannot be read: {error.strerror or error}") from None
    try:
        return parse_experiment(text, models)
    except PlanError as error:
        raise PlanError("\n".join(f"{path}: {line}" for line in str(error).split("\n"))) from None


def parse_experiment(text: bytes, models: Models | None = None) -> Plan:
    """The pure half of `load_experiment`: bytes of TOML in, a plan out; raises PlanError with a line a mistake."""
    table = _toml(text)
    keys = {**{name: kind.model_fields for name, kind in _TABLES.items()}, "fixed": SETTINGS}
    wrong: list[str] = []
    try:
        experiment = _Experiment.model_validate(table)
    except ValidationError as error:
        wrong = mistakes.of_file(error, table, keys, tuple(_TESTS))
        unknown = [fault["loc"] for fault in error.errors(include_url=False) if fault["type"] == "extra_forbidden"]
        if len(unknown) < error.error_count():
            raise PlanError("\n".join(wrong)) from None
        # Without the keys that mean nothing, the rest of the file can be looked at too.
        experiment = _Experiment.model_validate(_without(table, unknown, tuple(_TESTS)))
    try:
        plan = _plan_of(experiment, models)
    except ValidationError as error:
        raise PlanError("\n".join(wrong + mistakes.of_file(error, table, keys, tuple(_TESTS)))) from None
    except PlanError as error:
        raise PlanError("\n".join([*wrong, str(error)])) from None
    if wrong:
        raise PlanError("\n".join(wrong))
    return plan


def _toml(text: bytes) -> dict[str, Any]:
    if len(text) > EXPERIMENT_BYTES_MAX:
        raise PlanError(f"an experiment has at most {EXPERIMENT_BYTES_MAX >> 10} KiB")
    try:
        return tomllib.loads(text.decode())
    except UnicodeDecodeError:
        raise PlanError("is not UTF-8 text: save it as UTF-8") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise PlanError(f"is not TOML: {mistakes.of_toml(str(error), text.decode())}") from None


def _without(table: dict[str, Any], places: Iterable[Sequence[int | str]], relations: Sequence[str]) -> dict[str, Any]:
    """A copy of a file's table without the keys at these places."""
    copied = copy.deepcopy(table)
    for *above, key in places:
        at: Any = copied
        for part in above:
            # The kind of a claim's test is in its place, and is no key of the file.
            at = at if part in relations and isinstance(at, dict) and part not in at else at[part]
        at.pop(key, None)
    return copied


def _plan_of(experiment: _Experiment, models: Models | None) -> Plan:
    groups = list(experiment.comparisons)
    if bool(groups) == bool(experiment.contestants):
        raise PlanError("contestants: name them once, as a list at the top or in each of the [[comparisons]]")
    if not groups:
        groups = [_Group(title="all", contestants=experiment.contestants)]
    comparisons: list[Comparison] = []
    # A mistake in a setting is in every comparison of its group.
    wrong: dict[str, None] = {}
    for group in groups:
        where = f"comparisons[{group.title}]." if experiment.comparisons else ""
        axes = experiment.axes | group.axes
        if math.prod(len(values) for values in axes.values()) > COMPARISONS_MAX:
            raise PlanError(f"axes: their values make more than {COMPARISONS_MAX} comparisons: use fewer")
        wrong |= dict.fromkeys(_unknown(group.contestants, f"{where}contestants", models))
        wrong |= dict.fromkeys(_fixed_and_varied(experiment, group))
        for point in itertools.product(*axes.values()):
            made, faults = _made(experiment, group, dict(zip(axes, point, strict=True)))
            wrong |= dict.fromkeys(faults)
            comparisons += made
    if wrong:
        raise PlanError("\n".join(line.replace("\n", " ") for line in wrong))
    return Plan(
        name=experiment.name,
        question=experiment.question,
        source=experiment.source,
        comparisons=tuple(comparisons),
        blocks=experiment.blocks,
        seed=experiment.seed,
        short=experiment.quick,
        published=experiment.published,
        claims=experiment.claims,
        analysis=experiment.analysis,
    )


def _made(experiment: _Experiment, group: _Group, setting: Setting) -> tuple[list[Comparison], list[str]]:
    """The comparison at one point of the axes, or what is wrong with its settings."""
    spelt = " ".join(f"{key}={value}" for key, value in setting.items())
    title = "" if group.title == "all" and spelt else group.title
    name = " ".join(part for part in (title, spelt) if part)
    fixed, wrong = experiment.fixed | group.fixed, list[str]()
    while True:
        try:
            comparison = _comparison(name, group.contestants, fixed, setting)
        except _SettingError as error:
            wrong.append(f"{_table_of(error.key, experiment, group)}.{error}")
            if "protocol" not in fixed | setting or error.key == "protocol":
                return [], wrong
            # The other settings are looked at without it.
            fixed, setting = ({k: v for k, v in each.items() if k != error.key} for each in (fixed, setting))
        except ValidationError as error:
            return [], wrong + [_of_setting(fault, experiment, group) for fault in error.errors(include_url=False)]
        else:
            return [_updated(comparison, ladder=group.ladder, labels=group.labels)], wrong


def _of_setting(fault: ErrorDetails, experiment: _Experiment, group: _Group) -> str:
    key = str(fault["loc"][0]) if fault["loc"] else ""
    where = f"{_table_of(key, experiment, group)}.{key}".rstrip(".")
    return f"{where}: {mistakes.words(fault)}"


def _fixed_and_varied(experiment: _Experiment, group: _Group) -> Iterator[str]:
    """The keys of a group that are fixed and an axis too, which would be overridden silently."""
    tables = (("fixed", experiment.fixed), (f"comparisons[{group.title}].fixed", group.fixed))
    axes = ((f"comparisons[{group.title}].axes", group.axes), ("axes", experiment.axes))
    for (fixed, values), (axis, varied) in itertools.product(tables, axes):
        for twice in (key for key in values if key in varied):
            yield f"{fixed}.{twice}: is also in {axis}: keep one of the two"


def _unknown(contestants: Iterable[Contestant], where: str, models: Models | None) -> Iterator[str]:
    """The models and the options that the engine does not have."""
    for number, each in enumerate(contestants, start=1):
        if models is None or each.kind == "command":
            continue
        if each.name not in models:
            yield f"{where}[{number}]: there is no model {each.name!r}{instead(each.name, models)}"
            continue
        for unknown in (option for option in each.options if option not in models[each.name]):
            known = instead(unknown, models[each.name]) if models[each.name] else ": it has none"
            yield f"{where}[{number}]: {each.name} has no option {unknown!r}{known}"


def _no_axis(axis: str, axes: Iterable[str]) -> str:
    return f"there is no axis {axis!r}: the axes are {', '.join(sorted(axes)) or 'none here'}"


# The relations a claim may be decided by, and what may be written in each table, by the last name of its path.
_TESTS: dict[str, type[Frozen]] = {
    "ratio": RatioTest,
    "wins": WinsTest,
    "flat": FlatTest,
    "littles_law": LittlesLawTest,
}
_TABLES: dict[str, type[Frozen]] = {
    "": _Experiment,
    "comparisons": _Group,
    "published": Published,
    "claims": Claim,
    "quick": Quick,
    **_TESTS,
}


def _table_of(key: str, experiment: _Experiment, group: _Group) -> str:
    """The table of the file that a setting is written in."""
    of_group = f"comparisons[{group.title}]."
    tables: dict[str, Set[str]] = {
        f"{of_group}axes": group.axes.keys(),
        "axes": experiment.axes.keys(),
        f"{of_group}fixed": group.fixed.keys(),
    }
    return next((name for name, keys in tables.items() if key in keys), "fixed")


# All that may be fixed or an axis, whatever the protocol.
SETTINGS: Set[str] = frozenset(
    {key for kind in (Cell, *WORKLOADS.values()) for key in kind.model_fields} - {"contestant", "workload"}
)


class _SettingError(PlanError):
    """A setting that cannot be: its key, and why."""

    def __init__(self, key: str, why: str) -> None:
        super().__init__(f"{key}: {why}")
        self.key = key


def _comparison(name: str, contestants: Sequence[Contestant], fixed: Setting, setting: Setting) -> Comparison:
    """Sorts the keys of a setting into those of the workload and those of the cell, and refuses the rest."""
    values: dict[str, Any] = {**fixed, **setting}
    protocol = values.pop("protocol", None)
    if protocol is None:
        raise _without_protocol(values)
    if protocol not in WORKLOADS:
        raise _SettingError("protocol", f"there is no protocol {protocol!r}{instead(str(protocol), WORKLOADS)}")
    kind = WORKLOADS[protocol]
    workload = {key: values.pop(key) for key in kind.model_fields if key in values}
    known = (set(kind.model_fields) | set(Cell.model_fields)) & SETTINGS - {"protocol"}
    for key in values:
        if key not in known:
            is_another = any(key in each.model_fields for each in WORKLOADS.values())
            advice = ": leave it out" if is_another else instead(key, sorted(known))
            raise _SettingError(key, f"is not a setting of {protocol}{advice}")
    cells = tuple(
        Cell.model_validate({"contestant": contestant, "workload": kind(**workload), **values})
        for contestant in contestants
    )
    return Comparison(name=name, setting=setting, cells=cells)


def _without_protocol(values: Iterable[str]) -> _SettingError:
    """That no protocol is given, or the key that may have been meant for it."""
    for key in values:
        if key not in SETTINGS and nearest(key, SETTINGS) == "protocol":
            return _SettingError(key, "there is no such setting: did you mean 'protocol'?")
    return _SettingError("protocol", f"must be one of {', '.join(WORKLOADS)}")


def _named_by(test: Test) -> dict[str, Iterable[str]]:
    """The contestants a claim's test speaks of, by the keys that name them."""
    if isinstance(test, FlatTest):
        return {"contestants": test.contestants, "published": test.published}
    if isinstance(test, LittlesLawTest):
        return {"published_ms": test.published_ms}
    return {"contestant": [test.contestant], "reference": [test.reference]}


def _quick(cell: Cell, short: Quick) -> Cell:
    """The cell with times of whole intervals: those that are asked for, or as little longer as it takes."""
    interval_ms = min(cell.interval_ms, QUICK_INTERVAL_MS)
    warmup_ms, duration_ms = (
        math.ceil(min(usual, least) / interval_ms) * interval_ms
        for usual, least in ((cell.warmup_ms, short.warmup_ms), (cell.duration_ms, short.duration_ms))
    )
    return _updated(cell, warmup_ms=warmup_ms, duration_ms=duration_ms, interval_ms=interval_ms)


def _canonical(text: str) -> str:
    """The text of a contestant in its one spelling; raises ValueError that says what to write instead."""
    text = text.strip()
    if len(text.encode(errors="surrogatepass")) > TEXT_BYTES_MAX:
        raise ValueError(f"a contestant is at most {TEXT_BYTES_MAX} bytes of text")
    if text.startswith("cmd:"):
        return _canonical_command(text)
    match = re.fullmatch(r"([a-z][a-z0-9_.-]*)(?:\[([^\[\]]*)\])?", text)
    if match is None:
        raise ValueError(
            f"{_shown(text)} is no contestant: write a name such as epoll, a name with options such as "
            "io_uring[recv=oneshot], or 'cmd:./mine --port {port}'"
        )
    name, inside = match[1], match[2]
    if inside is None:
        return name
    pairs = [_pair(part) for part in inside.split(",")]
    if len(dict(pairs)) < len(pairs):
        raise ValueError(f"{_shown(text)} names an option twice: name it once")
    return f"{name}[{','.join(f'{option}={value}' for option, value in sorted(pairs))}]"


def _canonical_command(text: str) -> str:
    if "\0" in text:
        raise ValueError("a command cannot hold a NUL byte: take it out")
    try:
        words = shlex.split(text.removeprefix("cmd:"))
    except ValueError as error:
        raise ValueError(f"{_shown(text)} cannot be split into words ({error}): balance its quotes") from None
    if not words or not words[0]:
        raise ValueError("cmd: needs a program after it, as in 'cmd:./mine --port {port}'")
    if re.match(r"[A-Za-z_]\w*=", words[0]):
        raise ValueError(
            f"{_shown(text)}: no shell reads the command: "
            "write it as in cmd:env PORT={port} node app.js, or as cmd:sh -c '…'"
        )
    if words[0] in SHELL_WORDS:
        raise ValueError(
            f"{_shown(text)}: no shell reads the command, and {words[0]} is no program: write cmd:sh -c '…'"
        )
    if not any("{port}" in word for word in words):
        raise ValueError(f"{_shown(text)} does not say where its port goes: write {{port}} there")
    return text


def _pair(part: str) -> tuple[str, str]:
    match = re.fullmatch(r"\s*([a-z][a-z0-9_]*)=([A-Za-z0-9_.+-]+)\s*", part)
    if match is None:
        raise ValueError(f"{_shown(part)} is no option: write name=value, as in io_uring[recv=oneshot]")
    return match[1], match[2]


def _shown(text: str) -> str:
    """Text from outside, fit for one line of a message."""
    return repr(text if len(text) <= 60 else f"{text[:59]}…")


def _updated(record: Record, **changes: object) -> Record:
    """A copy with other values that has been validated again, which pydantic's own copy is not."""
    values = {name: getattr(record, name) for name in type(record).model_fields}
    return type(record)(**(values | changes))


def _shuffled(items: Iterable[int], *place: int) -> list[int]:
    """The items in an order that is random in `place` and the same wherever and whenever it is worked out."""
    return sorted(items, key=lambda item: hashlib.sha256(repr((*place, item)).encode()).digest())


def _digest(document: object) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
