"""The Python that a server runs on: the requested program, and whether it is the one that ran.

A server on another version, another build or with the GIL on is never measured under the requested name.
"""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Iterable, Mapping

from iolab.contract.ready import PythonState
from iolab.machine import interpreters
from iolab.machine.interpreters import Interpreter, NoInterpreter
from iolab.machine.twins import TO_DO
from iolab.measure import programs
from iolab.measure.engine import TrialFailed
from iolab.plan.plan import Plan
from iolab.plan.settings import Cell
from iolab.results.records import Failure, Result

# {python} without a requested interpreter.
PYTHON = "python3"
# The other one of two builds that differ in the GIL alone.
TWIN = {"gil": "nogil", "nogil": "gil"}
IMPORT_S_MAX = 30.0
# The working directory is skipped, as by a server of the registry.
IMPORT = """
import sys
sys.path[:] = filter(None, sys.path)
import importlib
for name in sys.argv[1:]: importlib.import_module(name)
"""
OTHER = "other_interpreter"


def program(name: str | None) -> str:
    """The value of `{python}`; raises TrialFailed if the interpreter is not here."""
    return PYTHON if name is None else str(_found(name).program)


def _found(name: str) -> Interpreter:
    try:
        return interpreters.find(name)
    except NoInterpreter as error:
        raise TrialFailed("unavailable", str(error), final=True) from None


def why_not(name: str | None, packages: tuple[str, ...] = (), install: str = "") -> str:
    """Why a server cannot run on an interpreter here, and what to do about it, in one line; empty if it can."""
    if name is None:
        return _no_package(PYTHON, packages, install)
    if why := interpreters.why_not(name):
        return why
    python = str(interpreters.find(name).program)
    install = TO_DO if name in TWIN else f"{python} -m pip install {' '.join(packages)}"
    return _no_package(python, packages, install)


@functools.cache
def _no_package(python: str, packages: tuple[str, ...], install: str) -> str:
    """Why an interpreter cannot import packages, and how to install them; empty if it can."""
    if not packages:
        return ""
    try:
        ran = subprocess.run(
            [python, "-c", IMPORT, *packages],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=IMPORT_S_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{python} did not say whether it can import {', '.join(packages)}: {error}"
    said = ran.stderr.decode(errors="replace").strip().splitlines() or ["it printed nothing"]
    return f"{python} cannot import {', '.join(packages)} ({said[-1]}): {install}" if ran.returncode else ""


def refuse_other(name: str | None, said: PythonState | None) -> None:
    """Raises TrialFailed unless a server runs on the requested interpreter.

    A name such as `system` does not identify a build, so the server must run on the one found under that name, which
    the record of the run also names.
    """
    if name is None:
        return
    if why := interpreters.refusal(name, said) or interpreters.other_build(_found(name), said):
        raise TrialFailed(OTHER, why, final=True)


def beside_its_twin(plan: Plan, earlier: Iterable[Result], cell: Cell, measured: Result) -> Result:
    """The result of a trial; a failure if its interpreter differs from its twin in more than the GIL.

    The twin is the interpreter that the same server described in an earlier trial.
    """
    name, said = cell.server.interpreter, _said(measured)
    if name is None or name not in TWIN or said is None:
        return measured
    for each in earlier:
        other = plan.cell(each.trial) if plan.holds(each.trial) else cell
        if other.contestant == cell.contestant and other.server.interpreter == TWIN[name] and _said(each) is not None:
            why = interpreters.refusal(name, said, _said(each))
            failure = Failure(kind=OTHER, message=why, final=True) if why else None
            return Result(trial=measured.trial, started=measured.started, failure=failure) if failure else measured
    return measured


def _said(result: Result) -> PythonState | None:
    return None if result.ready_line is None else result.ready_line.interpreter


def executed(plan: Plan) -> Mapping[str, dict[str, str]]:
    """The digests of the interpreters that a plan names and this machine has, by their names."""
    names = {cell.server.interpreter for comparison in plan.comparisons for cell in comparison.cells}
    found = {}
    for name in sorted(name for name in names if name is not None and not interpreters.why_not(name)):
        interpreter = interpreters.find(name)
        digest = programs.digest(interpreter.program) or ""
        found[f"interpreter {name}"] = {
            str(interpreter.program): digest,
            f"the version of {name}": interpreter.version,
        }
    return found
