"""An experiment with other settings than those of its file: `iolab run --set`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from iolab.contract.types import updated
from iolab.errors import PlanError
from iolab.plan.cells import faults_of
from iolab.plan.plan import Comparison, Plan, name_of
from iolab.plan.settings import DOTTED, SETTINGS, Cell, changed
from iolab.wording import instead


def with_settings(plan: Plan, settings: Mapping[str, Any]) -> Plan:
    """The plan with these settings, by dotted names, for every contestant; raises PlanError with one line.

    If one of them was an axis, its comparisons become one. Times also apply to a quick run.
    """
    if not settings:
        return plan
    if unknown := [name for name in settings if name not in SETTINGS]:
        raise PlanError(f"{unknown[0]}: there is no such setting{instead(unknown[0], (*SETTINGS, *DOTTED))}")
    made: dict[str, Comparison] = {}
    for each in plan.comparisons:
        one = _with_settings(each, settings)
        made.setdefault(one.name, one)
    cells = [cell for one in made.values() for cell in one.cells]
    if untouched := [name for name in settings if not any(_has(cell, name) for cell in cells)]:
        raise PlanError(f"{untouched[0]}: is not a setting of {cells[0].workload.protocol}")
    times = {key: settings[f"trial.{key}"] for key in ("warmup_ms", "duration_ms") if f"trial.{key}" in settings}
    return updated(
        plan,
        comparisons=tuple(made.values()),
        short=updated(plan.short, **times),
        overrides={**plan.overrides, **settings},
    )


def _with_settings(comparison: Comparison, settings: Mapping[str, Any]) -> Comparison:
    setting = {name: value for name, value in comparison.setting.items() if name not in settings}
    name = comparison.name if setting == comparison.setting else name_of(comparison.group, setting)
    cells = tuple(_cell(cell, settings) for cell in comparison.cells)
    return updated(comparison, name=name, setting=setting, cells=cells)


def _cell(cell: Cell, settings: Mapping[str, Any]) -> Cell:
    """The cell with the settings that its protocol has; raises PlanError."""
    try:
        return changed(cell, {name: value for name, value in settings.items() if _has(cell, name)})
    except ValidationError as error:
        fault = faults_of(error)[0]
        raise PlanError(f"{fault.name}: {fault.why}") from None


def _has(cell: Cell, name: str) -> bool:
    return SETTINGS[name].table != "workload" or SETTINGS[name].key in type(cell.workload).model_fields
