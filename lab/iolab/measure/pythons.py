"""The Python that a server runs on: the program that a plan asks for, and whether that is what ran.

What runs on another version, another build or with the GIL on is never measured under the name that was asked for.
"""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Mapping

from iolab.contract.ready import PythonState
from iolab.machine import interpreters
from iolab.machine.interpreters import NoInterpreter
from iolab.measure import programs
from iolab.measure.engine import TrialFailed
from iolab.plan.plan import Plan

# What {python} is where a plan names no interpreter.
PYTHON = "python3"
IMPORT_S_MAX = 30.0
IMPORT = "import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]"


def program(name: str | None) -> str:
    """What `{python}` stands for; raises TrialFailed where it is not here."""
    try:
        return PYTHON if name is None else str(interpreters.find(name).program)
    except NoInterpreter as error:
        raise TrialFailed("unavailable", str(error), final=True) from None


def why_not(name: str | None, packages: tuple[str, ...] = (), install: str = "") -> str:
    """Why a server cannot run on an interpreter here, and what to do about it, in one line; empty where it can."""
    try:
        python = PYTHON if name is None else str(interpreters.find(name).program)
    except NoInterpreter as error:
        return str(error)
    by_pip = f"{python} -m pip install {' '.join(packages)}"
    return _no_package(python, packages, install if name is None else by_pip)


@functools.cache
def _no_package(python: str, packages: tuple[str, ...], install: str) -> str:
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
        return f"{python} cannot be asked for {', '.join(packages)}: {error}"
    said = ran.stderr.decode(errors="replace").strip().splitlines() or ["it said nothing"]
    return f"{python} cannot import it ({said[-1]}): {install}" if ran.returncode else ""


def refuse_other(name: str | None, said: PythonState | None) -> None:
    """Raises TrialFailed where a server does not run on the interpreter that was asked for."""
    if name is not None and (why := _difference(name, said)):
        raise TrialFailed("other_interpreter", f"the interpreter is not {name}: {why}", final=True)


def _difference(name: str, said: PythonState | None) -> str:
    if said is None:
        return "the ready line does not say which it is, so add `interpreter` to it"
    asked, version = interpreters.find(name), said.version.partition(" ")[0]
    if version != asked.version:
        return f"the server runs on Python {version}, and {name} is {asked.version}"
    if said.gil_built != asked.has_gil:
        return f"the server runs on a build {'with' if said.gil_built else 'without'} a GIL"
    if said.gil != asked.has_gil:
        return f"the GIL is {'on' if said.gil else 'off'} after the server's imports{_turned_on_by(said)}"
    return ""


def _turned_on_by(said: PythonState) -> str:
    return f", which load {', '.join(said.extensions)}" if said.gil and said.extensions else ""


def executed(plan: Plan) -> Mapping[str, dict[str, str]]:
    """The digests of the interpreters that a plan names and this machine has, by their names."""
    names = {cell.server.interpreter for comparison in plan.comparisons for cell in comparison.cells}
    found = {}
    for name in sorted(name for name in names if name is not None and not why_not(name)):
        interpreter = interpreters.find(name)
        digest = programs.digest(interpreter.program)
        version = {f"the version of {name}": interpreter.version}
        found[f"interpreter {name}"] = {str(interpreter.program): digest or "", **version}
    return found
