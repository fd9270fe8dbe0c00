"""Interpreters of Python by the names that plans use, and whether a server ran on the one it was to run on."""

from __future__ import annotations

import functools
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from iolab.contract.ready import PythonState
from iolab.errors import IolabError

ASK_S_MAX = 15.0
QUESTION = "import sys; print(sys.version.split()[0])"


class NoInterpreter(IolabError):
    """There is no such interpreter here. The message is one line: its name, and the remedy."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """An interpreter that was found under a name; `version` is as 3.13.5."""

    name: str
    program: Path
    version: str


@functools.cache
def find(name: str) -> Interpreter:
    """The interpreter of a name; raises NoInterpreter."""
    program = shutil.which("python3" if name == "system" else f"python{name}")
    if program is None:
        raise NoInterpreter(f"needs the interpreter {name}: make interpreters, or install Python {name}")
    ran = subprocess.run([program, "-I", "-c", QUESTION], capture_output=True, timeout=ASK_S_MAX, check=True)
    return Interpreter(name, Path(program), ran.stdout.decode().strip())


def why_not(name: str) -> str:
    """Why there is no interpreter of a name, and what would help; empty where there is one."""
    try:
        find(name)
    except NoInterpreter as error:
        return str(error)
    return ""


def refusal(asked: str, said: PythonState | None, twin: PythonState | None = None) -> str:
    """Why a server did not run on the interpreter that was asked for, in one line; empty where it did."""
    if said is None:
        return f"asked for {asked}, and the ready line does not say what runs the server: add interpreter to it"
    version = said.version.partition(" ")[0]
    if asked not in ("gil", "nogil", "system") and not version.startswith(f"{asked.rstrip('t')}."):
        return f"asked for {asked}, and the server runs on {version}"
    if asked != "system" and said.gil is not (asked != "nogil"):
        return f"asked for {asked}, and the GIL is {'on' if said.gil else 'off'} after the server's imports"
    if twin is not None and twin.extensions != said.extensions:
        return f"asked for {asked}, and its twin loads other compiled extensions"
    return ""
