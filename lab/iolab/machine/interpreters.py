"""Python interpreters by the names that plans use: where each is, and whether a server ran on the requested one.

`gil` and `nogil` are the twins that `make interpreters` builds: one version, one set of flags. `system` is the python3
on PATH, `3.12` the python3.12 on PATH, `3.14t` the free-threaded python3.14t. One version never replaces another.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from iolab.contract.ready import PythonState
from iolab.errors import IolabError
from iolab.machine import twins

SYSTEM = "system"
ON_PATH = re.compile(r"python(3\.\d{1,2}t?)")
# How long an interpreter may take to describe itself.
ANSWERS_S_MAX = 15.0
# Makes an interpreter print what a server reports of its own, before any import that could turn the GIL on.
QUESTION = """
import json, sys, sysconfig
print(json.dumps({"program": sys.executable, "said": {
    "version": sys.version,
    "flags": sysconfig.get_config_var("CONFIG_ARGS"),
    "gil_built": not sysconfig.get_config_var("Py_GIL_DISABLED"),
    "gil": getattr(sys, "_is_gil_enabled", lambda: True)(),
    "extensions": [],
}}))
"""


class NoInterpreter(IolabError):
    """No such interpreter on this machine. The message is one line: its name and the `remedy`."""

    def __init__(self, name: str, remedy: str) -> None:
        super().__init__(f"needs the interpreter {name}: {remedy}")
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class Interpreter:
    """The interpreter found under a name, and its own description."""

    name: str
    program: Path
    said: PythonState

    @property
    def version(self) -> str:
        """Its version, such as 3.13.5."""
        return number(self.said)

    @property
    def words(self) -> str:
        """A description for display."""
        return f"{self.version} {'with' if self.said.gil_built else 'without'} the GIL: {self.program}"


def find(name: str) -> Interpreter:
    """The interpreter of a name; raises NoInterpreter."""
    if name in twins.TWINS:
        return _twin(name)
    if name != SYSTEM and ON_PATH.fullmatch(f"python{name}") is None:
        raise NoInterpreter(name, "there is none of that name: use gil, nogil, system, or a version such as 3.12")
    called = "python3" if name == SYSTEM else f"python{name}"
    # A wrapper of that name may stand for a version that is not installed, so each candidate is run.
    answers = (_asked(place / called) for place in _path())
    found = next((each for each in answers if each is not None and not refusal(name, each[1])), None)
    if found is None:
        raise NoInterpreter(name, f"no {called} on PATH answers: install Python{'' if name == SYSTEM else f' {name}'}")
    return Interpreter(name, *found)


def why_not(name: str) -> str:
    """Why there is no interpreter of a name, and what would help; empty if there is one."""
    found = _find(name)
    return str(found) if isinstance(found, NoInterpreter) else ""


def found() -> dict[str, Interpreter | NoInterpreter]:
    """The twins, the system's interpreter and every version on PATH that runs, by name."""
    hits = (ON_PATH.fullmatch(name) for place in _path() for name in _names(place))
    versions = sorted({hit[1] for hit in hits if hit is not None}, key=lambda text: (len(text.rstrip("t")), text))
    always = {name: _find(name) for name in (*twins.TWINS, SYSTEM)}
    return always | {name: each for name in versions if isinstance(each := _find(name), Interpreter)}


def refusal(asked: str, said: PythonState | None, twin: PythonState | None = None) -> str:
    """Why a server did not run on the requested interpreter, in one line; empty if it did.

    `said` is its description of its interpreter after its imports, and `twin` that of the same server on the twin. If
    both are known, they must match in all but the GIL, including the loaded compiled extensions.
    """
    if said is None:
        return f"asked for {asked}, and the ready line does not say what runs the server: add interpreter to it"
    wrong = _another_version(asked, said) or _another_gil(asked, said) or ("" if twin is None else _unlike(said, twin))
    return f"asked for {asked}, and {wrong}" if wrong else ""


def other_build(found: Interpreter, said: PythonState | None) -> str:
    """Why a server did not run on the interpreter found under the requested name, in one line; empty if it did."""
    own = found.said
    if said is None or (said.version, said.flags, said.gil_built) == (own.version, own.flags, own.gil_built):
        return ""
    wrong = "on another build of it" if number(said) == found.version else f"on {number(said)}"
    return f"asked for {found.name}, which is {found.version} here ({found.program}), and the server runs {wrong}"


def number(said: PythonState) -> str:
    """The bare version number, such as 3.13.5."""
    return said.version.partition(" ")[0]


def _another_version(asked: str, said: PythonState) -> str:
    version = number(said)
    if asked == SYSTEM:
        return ""
    wanted, is_it = (
        (twins.VERSION, version == twins.VERSION)
        if asked in twins.TWINS
        else (asked, version.startswith(f"{asked.rstrip('t')}."))
    )
    return "" if is_it else f"the server runs on {version}, not on {wanted}"


def _another_gil(asked: str, said: PythonState) -> str:
    """Why the GIL is on or off against the request, as built and as it is now; empty if it matches."""
    if asked == SYSTEM:
        return ""
    wants_gil = asked != "nogil" and not asked.endswith("t")
    if said.gil_built != wants_gil:
        return f"the server runs on a build {'with' if said.gil_built else 'without'} the GIL"
    if said.gil == wants_gil:
        return ""
    if not said.gil:
        return "the GIL is off: leave PYTHON_GIL unset"
    blamed = f"one of {', '.join(said.extensions)} turns it on" if said.extensions else "leave PYTHON_GIL unset"
    return f"the GIL is on after the server's imports: {blamed}"


def _unlike(said: PythonState, twin: PythonState) -> str:
    """How two twins differ besides the GIL; empty if they do not."""
    for what, here, there in (
        ("runs on another version", (number(said),), (number(twin),)),
        ("was built with other flags", _flags(said), _flags(twin)),
        ("loads other compiled extensions", said.extensions, twin.extensions),
    ):
        if here != there:
            return f"its twin {what}: {_only(here, there)} here, {_only(there, here)} there"
    return ""


def _flags(said: PythonState) -> tuple[str, ...]:
    """The flags that affect how it runs: not the install location, and not the GIL."""
    flags = shlex.split(said.flags or "")
    return tuple(flag for flag in flags if flag != "--disable-gil" and not flag.startswith("--prefix="))


def _only(these: tuple[str, ...], those: tuple[str, ...]) -> str:
    return ", ".join(each for each in these if each not in those) or "nothing else"


def _find(name: str) -> Interpreter | NoInterpreter:
    try:
        return find(name)
    except NoInterpreter as error:
        return error


def _twin(name: str) -> Interpreter:
    if not twins.is_built(name):
        raise NoInterpreter(name, twins.TO_DO)
    found = _asked(twins.program(name))
    if found is None or refusal(name, found[1]):
        raise NoInterpreter(name, f"the one in {twins.prefix(name)} does not work: remove it, then {twins.TO_DO}")
    return Interpreter(name, *found)


def _path() -> Iterator[Path]:
    yield from (Path(each) for each in os.environ.get("PATH", os.defpath).split(os.pathsep) if each)


def _names(place: Path) -> list[str]:
    try:
        return os.listdir(place)
    except OSError:
        return []


def _asked(program: Path) -> tuple[Path, PythonState] | None:
    """The real path of an interpreter and its own description; None if it does not run."""
    try:
        found = program.stat()
        return _answer(program, found.st_mtime_ns, found.st_size)
    except OSError:
        return None


@functools.lru_cache(maxsize=64)
def _answer(program: Path, _changed_ns: int, _size: int) -> tuple[Path, PythonState] | None:
    # -I keeps variables and files of the user from changing the result.
    words = [str(program), "-I", "-S", "-c", QUESTION]
    try:
        ended = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=ANSWERS_S_MAX, check=True)
        answer = json.loads(ended.stdout)
        return Path(answer["program"]), PythonState.model_validate(answer["said"])
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError):
        return None
