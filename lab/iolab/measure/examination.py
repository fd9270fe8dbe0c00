"""Examines this machine for `doctor`: measures its noise, reads its limits, and tries what some trials need."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from iolab.judge.resolution import Noise
from iolab.machine import cpus, doctor, facts, interpreters, syscalls
from iolab.machine.check import Check
from iolab.machine.doctor import Tried
from iolab.machine.host_limits import HostLimits, host_limits
from iolab.measure import agent, limits, path
from iolab.measure.binary import EngineError
from iolab.measure.engine import Engine, open_engine
from iolab.measure.noise_run import noise_plan, noise_run


class Examination(NamedTuple):
    """The results. `noise` is None if it was not measured."""

    checks: tuple[Check, ...]
    noise: Noise | None
    limits: HostLimits

    @property
    def is_fit(self) -> bool:
        """Whether this machine can measure at all."""
        return not any(check.status == "bad" for check in self.checks)

    def facts(self) -> dict[str, Any]:
        """Everything as JSON."""
        return {
            "is_fit": self.is_fit,
            "checks": [check._asdict() for check in self.checks],
            "noise": None if self.noise is None else self.noise.model_dump(mode="json"),
            "limits": self.limits.facts(),
        }


def examine(*, with_noise: bool, on_noise: Callable[[float], None]) -> Examination:
    """Whether this machine is fit to measure. A missing engine is a finding too.

    `on_noise` is called before the noise measurement, with its length in seconds.
    """
    engine: Engine | None = None
    trouble = ""
    try:
        engine = open_engine()
    except EngineError as error:
        trouble = str(error)
    description = None if engine is None else engine.description
    # Read first: the trials below are a load of their own.
    described, host = facts.describe(description), host_limits()
    noise = None
    if with_noise and engine is not None:
        on_noise(noise_plan().duration_s)
        noise = noise_run(agent.Agent(engine), cpus.topology())
    checks = doctor.checks(described, host, description, trouble, noise, _tried(engine))
    return Examination(checks, noise, host)


def _tried(engine: Engine | None) -> Tried:
    """Why this machine lacks what some trials need; empty where it has it."""
    return Tried(
        limits=limits.reasons(sys.executable if engine is None else str(engine.path)),
        no_path=None if engine is None else path.why_not(engine),
        no_count=_why_no_count(),
        interpreters=interpreters.found(),
    )


def _why_no_count() -> str:
    """Why the syscalls of a server cannot be counted; empty if they can. Tried on this process."""
    try:
        syscalls.Counter(lambda: [os.getpid()]).close()
    except syscalls.CannotCountError as error:
        return str(error)
    return ""
