"""Experiment files: TOML in, a plan out, or a line for each mistake."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from iolab.contract.types import WORKLOADS, Frozen, updated
from iolab.errors import PlanError
from iolab.plan import mistakes, toml_file
from iolab.plan.claims import Claim, FlatTest, LittlesLawTest, Published, RatioTest, WinsTest
from iolab.plan.contestant import Contestant
from iolab.plan.plan import COMPARISONS_MAX, CONTESTANTS_MAX, Comparison, Plan, Quick
from iolab.plan.settings import Cell, Scalar, Setting
from iolab.wording import instead, nearest

Axes = dict[str, Annotated[tuple[Scalar, ...], Field(min_length=1)]]
# The models there are, and the names of their options.
Models = Mapping[str, Sequence[str]]


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
        text = path.read_bytes()[: toml_file.BYTES_MAX + 1]
    except OSError as error:
        raise PlanError(f"{path}: cannot be read: {error.strerror or error}") from None
    try:
        return parse_experiment(text, models)
    except PlanError as error:
        raise PlanError("\n".join(f"{path}: {line}" for line in str(error).split("\n"))) from None


def parse_experiment(text: bytes, models: Models | None = None) -> Plan:
    """The pure half of `load_experiment`: bytes of TOML in, a plan out; raises PlanError with a line a mistake."""
    table = toml_file.table_of(text, "an experiment")
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
            return [updated(comparison, ladder=group.ladder, labels=group.labels)], wrong


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
            yield f"{where}[{number}]: there is no contestant {each.name!r}{instead(each.name, models)}"
            continue
        for unknown in (option for option in each.options if option not in models[each.name]):
            known = instead(unknown, models[each.name]) if models[each.name] else ": it has none"
            yield f"{where}[{number}]: {each.name} has no option {unknown!r}{known}"


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
