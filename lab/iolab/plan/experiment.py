"""Experiment files: parses TOML into a plan, or a line for each mistake."""

from __future__ import annotations

import copy
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from iolab.contract.types import Frozen
from iolab.errors import PlanError
from iolab.plan import mistakes, toml_file
from iolab.plan.cells import Entrant, Fault, Table, cell_or_faults
from iolab.plan.claims import RELATIONS, Claim, Figure, Published, Quantity
from iolab.plan.contestant import Contestant
from iolab.plan.needs import Needs
from iolab.plan.plan import COMPARISONS_MAX, CONTESTANTS_MAX, Comparison, Cut, Plan, Quick, Skip, name_of
from iolab.plan.settings import DOTTED, SETTINGS, SHORT, Axes, Cell, Setting, dotted
from iolab.plan.unmeasured import unmeasured
from iolab.wording import instead

# The known models, and the names of their options.
Models = Mapping[str, Sequence[str]]


def vs_plan(
    contestants: Sequence[str | Contestant], settings: Mapping[str, Any], *, blocks: int = 12, seed: int = 1
) -> Plan:
    """The plan of `iolab vs`: one comparison with `settings` by their dotted or short names.

    Given times also apply to a quick run. Raises PlanError with one line.
    """
    if len(contestants) < 2:
        raise PlanError("name two contestants or more, as in: iolab vs epoll io_uring")
    cells, values = _cells_by_hand(contestants, settings)
    try:
        comparison = Comparison(name="vs", setting={}, cells=cells)
        titles = " or ".join(comparison.titles)
        times = {key: values[f"trial.{key}"] for key in ("warmup_ms", "duration_ms") if f"trial.{key}" in values}
        short = Quick.model_validate(times)
        return Plan(name="vs", question=f"{titles}?", comparisons=(comparison,), blocks=blocks, seed=seed, short=short)
    except ValidationError as error:
        raise PlanError(mistakes.of_settings(error)) from None


def soak_plan(contestant: str, settings: Mapping[str, Any]) -> Plan:
    """The plan of `iolab soak`: one trial of one contestant. Raises PlanError with one line."""
    cells, _ = _cells_by_hand([contestant], settings)
    comparison = Comparison(name="soak", setting={}, cells=cells)
    return Plan(name="soak", question=f"Does {comparison.titles[0]} last?", comparisons=(comparison,), blocks=1)


def _cells_by_hand(
    contestants: Sequence[str | Contestant], settings: Mapping[str, Any]
) -> tuple[tuple[Cell, ...], dict[str, Any]]:
    """The cells of contestants from the command line, and their settings by dotted names; raises PlanError."""
    if unknown := [name for name in settings if name not in DOTTED and name not in SETTINGS]:
        known = SETTINGS if "." in unknown[0] else DOTTED
        raise PlanError(f"{unknown[0]}: there is no such setting{instead(unknown[0], known)}")
    values = {DOTTED.get(name, name): value for name, value in settings.items()}
    cells, faults = _cells([Entrant.of(each) for each in contestants], values)
    if faults:
        fault = faults[0].fault
        # A fault of several settings names them itself.
        where = f"{SHORT[fault.name]}: " if fault.name in SHORT else ""
        raise PlanError(f"{where}{fault.for_flag}")
    if any(cell.load.connections == 0 for cell in cells):
        raise PlanError("connections: without any, only memory is measured, which is for an experiment: use 1 or more")
    return cells, values


class _Wrong(NamedTuple):
    """A fault in the settings of one contestant."""

    entrant: Entrant
    fault: Fault


def _cells(entrants: Sequence[Entrant], settings: Mapping[str, Any]) -> tuple[tuple[Cell, ...], list[_Wrong]]:
    """The cells of contestants with common settings and their own, or all mistakes in them."""
    cells, wrong = list[Cell](), list[_Wrong]()
    for entrant in entrants:
        made = cell_or_faults(entrant.server, {**settings, **entrant.settings})
        if isinstance(made, Cell):
            cells.append(made)
        else:
            wrong += [_Wrong(entrant, fault) for fault in made]
    return tuple(cells), wrong


class _Tables(Frozen):
    """Fields of an experiment and of each of its comparisons: contestants, and settings that are fixed or an axis."""

    contestants: tuple[Entrant, ...] = Field(
        default=(), max_length=CONTESTANTS_MAX, description="servers, as text or as tables; the first is the reference"
    )
    fixed: Annotated[Table, BeforeValidator(dotted)] = Field(
        default={}, description="settings of all contestants, in the tables below"
    )
    axes: Axes = Field(default={}, description="settings with lists of values; every combination is measured")

    @model_validator(mode="after")
    def _a_name_each(self) -> _Tables:
        names = [entrant.name for entrant in self.contestants if entrant.name]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"contestants: two of them are called {twice!r}: give each its own name")
        return self


class _Group(_Tables):
    """A `[[comparisons]]` table of an experiment: its own contestants, and its differences from [fixed] and [axes].

    With `ladder` each contestant is compared with the previous one; `labels` are short names for them.
    """

    title: str = Field(
        min_length=1, max_length=80, description="its name, and the prefix of the names of its comparisons"
    )
    contestants: tuple[Entrant, ...] = Field(
        min_length=1, max_length=CONTESTANTS_MAX, description="as above, if the file has no list for all"
    )
    ladder: bool = Field(default=False, description="compare each contestant with the one before it")
    labels: tuple[str, ...] = Field(default=(), description="short names of the contestants, one each")

    @model_validator(mode="after")
    def _a_label_each(self) -> _Group:
        if self.labels and len(self.labels) != len(self.contestants):
            raise ValueError(
                f"labels: there are {len(self.labels)} for {len(self.contestants)} contestants: name each once"
            )
        return self

    @property
    def titles(self) -> tuple[str, ...]:
        """The titles of its contestants, if they differ from those of their servers."""
        return self.labels or tuple(each.title for each in self.contestants if any(e.name for e in self.contestants))


class _Experiment(_Tables):
    """An experiment file as written: see experiments/*.toml."""

    name: str = Field(description="name of its runs: small letters, digits, '.', '_' and '-'")
    question: str = Field(description="the question in one sentence")
    source: str = Field(default="", description="source of the question or of the published figures")
    blocks: int = Field(default=12, description="trials of each contestant, in paired blocks")
    seed: int = Field(default=1, description="seed of the random order")
    quick: Quick = Field(default=Quick(), description="what --quick changes")
    needs: Needs = Field(default=Needs(), description="what the machine must have")
    comparisons: tuple[_Group, ...] = Field(default=(), description="several comparisons in one file")
    skip: tuple[Skip, ...] = Field(default=(), description="combinations to leave out")
    published: tuple[Published, ...] = Field(default=(), description="figures that others published")
    claims: tuple[Claim, ...] = Field(default=(), description="published sentences to test")
    analysis: str = Field(default="", description="further text for the report, in paragraphs")


def load_experiment(path: Path, models: Models | None = None) -> Plan:
    """Reads an experiment; raises PlanError with a line for each mistake: the file, the key, what is wrong and what to
    write.

    With `models`, a contestant that the engine lacks is a mistake too.
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
    """The pure half of `load_experiment`: bytes of TOML in, a plan out; raises PlanError with a line for each
    mistake.
    """
    table = toml_file.table_of(text, "an experiment")
    keys = {name: [field.alias or key for key, field in kind.model_fields.items()] for name, kind in TABLES.items()}
    wrong: list[str] = []
    try:
        experiment = _Experiment.model_validate(table)
    except ValidationError as error:
        wrong = mistakes.of_file(error, table, keys, tuple(RELATIONS))
        unknown = [fault["loc"] for fault in error.errors(include_url=False) if fault["type"] == "extra_forbidden"]
        if len(unknown) < error.error_count():
            raise PlanError("\n".join(wrong)) from None
        # Without the unknown keys, the rest of the file can be checked too, unless one was misspelt.
        try:
            experiment = _Experiment.model_validate(_without(table, unknown, tuple(RELATIONS)))
        except ValidationError:
            raise PlanError("\n".join(wrong)) from None
    try:
        plan = _plan_of(experiment, models)
    except ValidationError as error:
        raise PlanError("\n".join(wrong + mistakes.of_file(error, table, keys, tuple(RELATIONS)))) from None
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
            # pydantic's place includes the kind of a test and the number of a single one, which are no keys of the
            # file.
            at = at if isinstance(at, dict) and part not in at and (part in relations or part == 0) else at[part]
        at.pop(key, None)
    return copied


def _plan_of(experiment: _Experiment, models: Models | None) -> Plan:
    groups = list(experiment.comparisons)
    if bool(groups) == bool(experiment.contestants):
        raise PlanError("contestants: name them once, as a list at the top or in each of the [[comparisons]]")
    if not groups:
        groups = [_Group(title="all", contestants=experiment.contestants)]
    comparisons, impossible = list[Comparison](), list[tuple[str, Setting]]()
    # A mistake in a setting repeats in every comparison of its group.
    wrong: dict[str, None] = {}
    for group in groups:
        where = f"comparisons[{group.title}]." if experiment.comparisons else ""
        axes = experiment.axes | group.axes
        if math.prod(len(values) for values in axes.values()) > COMPARISONS_MAX:
            raise PlanError(f"axes: their values make more than {COMPARISONS_MAX} comparisons: use fewer")
        servers = [entrant.server for entrant in group.contestants]
        wrong |= dict.fromkeys(_unknown(servers, f"{where}contestants", models))
        wrong |= dict.fromkeys(_fixed_and_varied(experiment, group))
        for point in itertools.product(*axes.values()):
            setting = dict(zip(axes, point, strict=True))
            made, faults = _made(experiment, group, setting)
            comparisons += made
            # A skipped point may be impossible: more connections active than there are.
            if faults and any(each.takes_all(group.title, setting) for each in experiment.skip):
                impossible.append((group.title, setting))
            else:
                wrong |= dict.fromkeys(faults)
    if wrong:
        raise PlanError("\n".join(line.replace("\n", " ") for line in wrong))
    wrong |= dict.fromkeys(_cuts_nothing(experiment, comparisons, impossible))
    if wrong:
        raise PlanError("\n".join(wrong))
    absent = list(unmeasured(comparisons, experiment.published, experiment.claims))
    try:
        plan = _question(experiment, comparisons)
    except ValidationError as error:
        absent = [*mistakes.of_file(error, {}, {}, ()), *absent]
    if absent:
        raise PlanError("\n".join(line.replace("\n", " ") for line in absent))
    return plan


def _question(experiment: _Experiment, comparisons: Iterable[Comparison]) -> Plan:
    return Plan(
        name=experiment.name,
        question=experiment.question,
        source=experiment.source,
        comparisons=tuple(left for each in comparisons if (left := each.without(experiment.skip)) is not None),
        needs=experiment.needs,
        skipped=experiment.skip,
        blocks=experiment.blocks,
        seed=experiment.seed,
        short=experiment.quick,
        published=experiment.published,
        claims=experiment.claims,
        analysis=experiment.analysis,
    )


def _cuts_nothing(
    experiment: _Experiment, comparisons: Sequence[Comparison], impossible: Sequence[tuple[str, Setting]]
) -> Iterator[str]:
    """Cuts that match nothing, and cuts that leave nothing. Points in `impossible` have no comparison."""
    parts: list[tuple[str, Cut]] = [(f"skip[{at}]", each) for at, each in enumerate(experiment.skip, start=1)]
    parts += [(f"quick.skip[{at}]", each) for at, each in enumerate(experiment.quick.skip, start=1)]
    for where, cut in parts:
        is_there = any(cut.takes(each, title) for each in comparisons for title in each.titles)
        if not is_there and not any(cut.takes_all(*point) for point in impossible):
            yield f"{where}: nothing is like that: check its axes, comparison and contestant"
    left = [kept for each in comparisons if (kept := each.without(experiment.skip)) is not None]
    if not left:
        yield "skip: leaves nothing to measure: skip less"
    elif not experiment.quick.of(left):
        yield "quick: leaves nothing to measure: check its axes, comparisons and skip"


def _made(experiment: _Experiment, group: _Group, setting: Setting) -> tuple[list[Comparison], list[str]]:
    """The comparison at one point of the axes, or the mistakes in its settings."""
    cells, wrong = _cells(group.contestants, {**experiment.fixed, **group.fixed, **setting})
    if wrong:
        return [], [_line(each, experiment, group) for each in wrong]
    needs = tuple(each.needs for each in group.contestants)
    made = Comparison(
        name=name_of(group.title, setting),
        setting=setting,
        cells=cells,
        ladder=group.ladder,
        labels=group.titles,
        group=group.title,
        needs=needs if any(each != Needs() for each in needs) else (),
    )
    return [made], []


def _line(wrong: _Wrong, experiment: _Experiment, group: _Group) -> str:
    """A fault with its place in the file."""
    name, why, _, meant = wrong.fault
    table = _table_of(wrong, experiment, group)
    if meant and table.endswith("fixed"):
        why += f", in [{table}.{SETTINGS[meant].table}]"
    if table == _place(wrong.entrant, experiment, group):
        name = re.sub("^server(?=[.]|$)", "server_settings", name)
    return f"{table}.{name}".rstrip(".") + f": {why}"


def _fixed_and_varied(experiment: _Experiment, group: _Group) -> Iterator[str]:
    """The keys of a group that are fixed and also an axis, which would override them silently."""
    tables = (("fixed", experiment.fixed), (f"comparisons[{group.title}].fixed", group.fixed))
    axes = ((f"comparisons[{group.title}].axes", group.axes), ("axes", experiment.axes))
    own = [(_place(each, experiment, group), each.settings) for each in group.contestants]
    for (fixed, values), (axis, varied) in itertools.product((*tables, *own), axes):
        for twice in (key for key in values if key in varied):
            yield f"{fixed}.{twice}: is also in {axis}: keep one of the two"


def _place(entrant: Entrant, experiment: _Experiment, group: _Group) -> str:
    """The place of a contestant in the file."""
    where = f"comparisons[{group.title}]." if experiment.comparisons else ""
    return f"{where}contestants[{entrant.name or group.contestants.index(entrant) + 1}]"


def _unknown(contestants: Iterable[Contestant], where: str, models: Models | None) -> Iterator[str]:
    """The models and options that the engine does not have."""
    for number, each in enumerate(contestants, start=1):
        if models is None or each.kind == "command":
            continue
        if each.name not in models:
            yield f"{where}[{number}]: there is no contestant {each.name!r}{instead(each.name, models)}"
            continue
        for unknown in (option for option in each.options if option not in models[each.name]):
            known = instead(unknown, models[each.name]) if models[each.name] else ": it has none"
            yield f"{where}[{number}]: {each.name} has no option {unknown!r}{known}"


# The model of each table, by the last name of its path.
TABLES: dict[str, type[Frozen]] = {
    "": _Experiment,
    "contestants": Entrant,
    "comparisons": _Group,
    "published": Published,
    "claims": Claim,
    "figures": Figure,
    "quick": Quick,
    "needs": Needs,
    "skip": Skip,
    "of": Quantity,
    "to": Quantity,
    **RELATIONS,
}


def _table_of(wrong: _Wrong, experiment: _Experiment, group: _Group) -> str:
    """The table of the file in which a setting was written."""
    of_group, name = f"comparisons[{group.title}].", wrong.fault.name
    tables: dict[str, Iterable[str]] = {
        _place(wrong.entrant, experiment, group): wrong.entrant.settings,
        f"{of_group}axes": group.axes,
        "axes": experiment.axes,
        f"{of_group}fixed": group.fixed,
    }
    # A fault of a whole table is located by any setting of it.
    return next(
        (
            table
            for table, names in tables.items()
            if any(each == name or each.startswith(f"{name}.") for each in names)
        ),
        "fixed",
    )
