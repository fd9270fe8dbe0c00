"""Whether a machine meets the needs of an experiment, a contestant or a claim, and what is missing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from iolab.machine import interpreters
from iolab.machine.cpus import topology
from iolab.plan.needs import Needs
from iolab.wording import gigabytes


@dataclass(frozen=True, slots=True)
class Facts:
    """What the machine has of what may be needed. Each `why_not` is one reason, or empty if the feature is there."""

    cpus: tuple[int, ...]
    memory_bytes: int
    path_why_not: str = ""
    cpu_quota_why_not: str = ""
    memory_limit_why_not: str = ""
    processes_limit_why_not: str = ""
    models_why_not: Mapping[str, str] = field(default_factory=dict)
    is_installed: Callable[[str], bool] = lambda program: shutil.which(program) is not None
    interpreter_why_not: Callable[[str], str] = interpreters.why_not


def here(**why_not: Any) -> Facts:
    """The facts of this machine, with reasons that the caller knows."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Facts(tuple(cpu.id for cpu in topology()), memory_bytes, **why_not)


def unmet(needs: Needs, facts: Facts) -> str:
    """What is missing, such as `needs 4 processors (2 found)`; empty if nothing is."""
    return "; ".join(_missing(needs, facts))


def unmet_cpus(cpus: Iterable[int], facts: Facts) -> str:
    """The first of these processors that is missing; empty if all exist."""
    absent = sorted(set(cpus) - set(facts.cpus))
    return f"needs processor {absent[0]} ({len(facts.cpus)} found)" if absent else ""


def _missing(needs: Needs, facts: Facts) -> Iterator[str]:
    if needs.processors > len(facts.cpus):
        yield f"needs {needs.processors} processors ({len(facts.cpus)} found)"
    if (needs.memory_bytes or 0) > facts.memory_bytes:
        yield f"needs {gigabytes(needs.memory_bytes or 0)} of memory ({gigabytes(facts.memory_bytes)} found)"
    for is_needed, what, why_not in (
        (needs.path, "a network path", facts.path_why_not),
        (needs.cpu_quota, "a quota of processor time", facts.cpu_quota_why_not),
        (needs.memory_limit, "a limit of memory", facts.memory_limit_why_not),
        (needs.processes_limit, "a limit of processes", facts.processes_limit_why_not),
    ):
        if is_needed and why_not:
            yield f"needs {what} ({why_not})"
    yield from (f"needs the program {each} (not installed)" for each in needs.programs if not facts.is_installed(each))
    for model in needs.models:
        if why_not := facts.models_why_not.get(model, "the engine has no such model"):
            yield f"needs the model {model} ({why_not})"
    for name in needs.interpreters:
        if why_not := facts.interpreter_why_not(name):
            yield why_not
