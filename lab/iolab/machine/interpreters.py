"""Interpreters of Python that plans name: `gil` and `nogil` are twins of one version, `system` and `3.11` are found."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from iolab.errors import IolabError

ASK_S_MAX = 15.0
TWINS = ("gil", "nogil")
# What an interpreter is asked: its version, and whether it was built without a GIL.
QUESTION = "import sys, sysconfig; print(sys.version.split()[0], sysconfig.get_config_var('Py_GIL_DISABLED') or 0)"


class NoInterpreter(IolabError):
    """An interpreter is not here. The message is one line: why, and the command that provides it."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """An interpreter of this machine; `version` is as 3.13.5, `has_gil` how it was built."""

    name: str
    program: Path
    version: str
    has_gil: bool


@functools.cache
def find(name: str) -> Interpreter:
    """The interpreter of a name; raises NoInterpreter."""
    program = _program(name)
    if program is None:
        how = "make interpreters" if name in TWINS else f"install Python {name}"
        raise NoInterpreter(f"the interpreter {name} is not installed: {how}")
    try:
        ran = subprocess.run([program, "-I", "-c", QUESTION], capture_output=True, timeout=ASK_S_MAX, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise NoInterpreter(f"the interpreter {program} cannot be run: {error}") from None
    version, disabled = ran.stdout.decode().split()
    return Interpreter(name, program, version, disabled == "0")


def _program(name: str) -> Path | None:
    if name in TWINS:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        program = cache / "iolab/interpreters" / name / "bin/python3"
        return program if program.exists() else None
    found = shutil.which("python3" if name == "system" else f"python{name}")
    return None if found is None else Path(found)
