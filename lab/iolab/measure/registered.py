"""Servers of the registry on this machine: whether they are installed, how they are built, and their start commands.

Builds are kept: for iolab's own servers in `target/contestants` of a checkout, otherwise in the user's cache.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from iolab.errors import IolabError
from iolab.measure import binary, programs, pythons, reaper
from iolab.measure.child import Child
from iolab.measure.scratch import writing
from iolab.plan import registry
from iolab.plan.registry import Listed, filled
from iolab.plan.settings import Cell, values_of

# Folders of daemons, which are not on every user's PATH.
DAEMONS = "/usr/sbin:/usr/local/sbin"
BUILD_S_MAX = 1_800.0
VERSION_S_MAX = 15.0
VERSION_CHARACTERS_MAX = 100


class Absent(IolabError):
    """A server cannot run here. The message is one line: why, and what to install."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A server of the registry that can be started here, and the version it reports (empty if none)."""

    listed: Listed
    version: str

    def command(self, cell: Cell, host: str, port: int, scratch: Path) -> Command:
        """The command that starts it for a cell; its files are written to `scratch`."""
        values = values_of(cell) | self.listed.chosen(cell.contestant)
        values |= {"host": host, "port": str(port), "scratch": str(scratch)}
        values |= _places(self.listed, pythons.program(cell.server.interpreter))
        entry = self.listed.entry
        for name in entry.files:
            text = filled((self.listed.folder / name).read_text(encoding="utf-8"), values)
            with writing():
                (scratch / Path(name).name).write_text(text, encoding="utf-8")
        environment = {name: filled(value, values) for name, value in entry.environment.items()}
        return Command(_words(entry.start, values), environment)

    def executed(self) -> dict[str, str]:
        """The digests of what it executes and of what determines how, by name; its program is the first."""
        words = self._words
        files = programs.of_command([_found(words[0]) or words[0], *words[1:]])
        name, folder = self.listed.name, self.listed.folder
        # Other files that its program loads are in its folder too, as are the sources of a build.
        own = {
            str(file): programs.digest(file)
            for file in (*sorted(folder.glob("*")), *(folder / each for each in self.listed.entry.files))
        }
        # A changed description does not make it another server.
        entry = self.listed.entry.model_dump_json(exclude={"about", "install"})
        entry = hashlib.sha256(entry.encode()).hexdigest()
        said = {f"the entry of {name}": entry, f"the version of {name}": self.version}
        return files | {file: digest for file, digest in own.items() if digest is not None} | said

    def facts(self) -> dict[str, object]:
        """Its entry in the record of a run."""
        entry, places = self.listed.entry, _places(self.listed)
        environment = {name: filled(value, places) for name, value in entry.environment.items()}
        start = {"start": self._words, "environment": environment, "options": self.listed.defaults}
        return {"version": self.version or None, "about": entry.about, **start}

    @property
    def _words(self) -> list[str]:
        """Its command; placeholders that only a start can fill in remain."""
        places = _places(self.listed)
        return [filled(word, places) for word in self.listed.entry.start]


class Command(NamedTuple):
    """An argument list and its additions to the environment."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]


def must_be_built(server: Listed) -> bool:
    """Whether it has sources and is not built yet; building takes a while."""
    return bool(server.entry.build) and _unmade(server) is not None


def _unmade(server: Listed) -> str | None:
    """The first missing file of its build: a word of its start that begins with {built}, or else its program."""
    words = [word for word in server.entry.start if word.startswith("{built}")] or server.entry.start[:1]
    made = (filled(word, _places(server)) for word in words)
    return next((word for word in made if _found(word) is None and not Path(word).exists()), None)


def missing(server: Listed) -> str:
    """Its missing program and what to install for it, in one line; empty if it is installed."""
    entry = server.entry
    program = entry.build[0] if entry.build else filled(entry.start[0], _places(server))
    return "" if _found(program) else f"{program} is not installed: {entry.install}"


def prepare(server: Listed) -> Registered:
    """Builds a server that has sources, and reads its version; raises Absent."""
    if why := missing(server):
        raise Absent(why)
    if server.entry.build:
        _build(server)
        if _found(program := filled(server.entry.start[0], _places(server))) is None:
            raise Absent(f"{program} is not installed: {server.entry.install}")
    # Without its packages it cannot print its version; the interpreter of a plan may have them.
    lacks = pythons.why_not(None, server.entry.packages, server.entry.install)
    return Registered(server, "" if lacks else _version(server))


def state(server: Listed) -> str:
    """Its installed version, or how to get it; builds nothing."""
    if why := missing(server):
        return f"NOT HERE: {why}"
    unbuilt = "not built yet: the first run builds it" if must_be_built(server) else ""
    is_told_by_what_is_built = any("{built}" in word for word in server.entry.version)
    # Listing servers must not run a file of the working directory.
    if server.file != registry.OURS or (unbuilt and is_told_by_what_is_built):
        return unbuilt or "installed"
    if why := pythons.why_not(None, server.entry.packages, server.entry.install):
        return f"NOT HERE: {why}"
    try:
        version = _version(server)
    except Absent as absent:
        return f"NOT HERE: {absent}"
    return unbuilt or version or "installed"


def _build(server: Listed) -> None:
    built = _built(server)
    try:
        built.mkdir(parents=True, exist_ok=True)
    except OSError as why:
        raise Absent(f"it cannot be built in {built}: {why.strerror or why}") from None
    build(_words(server.entry.build, _places(server)))
    if (unmade := _unmade(server)) is not None:
        raise Absent(f"its build made no {unmade}: correct build or start")


def build(command: Sequence[str]) -> None:
    """Runs a build; raises Absent. It ends with the lab, even a killed one, as does any lock it holds."""
    child = Child([sys.executable, "-I", "-S", reaper.__file__, "", "", "", *command], b"")
    try:
        code, said = child.wait(BUILD_S_MAX), child.last_words()
    finally:
        child.stop()
    if code is None:
        raise Absent(f"{command[0]} did not end within {BUILD_S_MAX:.0f} s")
    if code != 0:
        error = next((line for line in said if "error" in line), said[0] if said else "it printed nothing")
        raise Absent(f"it cannot be built: {error.strip()}: see what {shlex.join(command)} says")


def _version(server: Listed) -> str:
    """The version it reports; empty if none."""
    if server.entry.crates:
        versions = _locked(server)
        return " on ".join(f"{name} {versions.get(name, 'unknown')}" for name in server.entry.crates)
    if not server.entry.version:
        return ""
    # Python would import a file of the working directory in place of the package.
    at = "/" if server.file == registry.OURS else None
    code, lines = _run(_words(server.entry.version, _places(server)), VERSION_S_MAX, at)
    if code != 0:
        raise Absent(f"its version command failed: {lines[0]}: {server.entry.install}")
    # `nginx version: nginx/1.22.1`
    return lines[0].rpartition("version: ")[2][:VERSION_CHARACTERS_MAX]


def _locked(server: Listed) -> dict[str, str]:
    """The versions of the packages in its Cargo.lock, or in that of the workspace it belongs to."""
    for folder in (server.folder, server.file.parent):
        with suppress(OSError):
            packages = tomllib.loads((folder / "Cargo.lock").read_text())["package"]
            return {package["name"]: package["version"] for package in packages}
    return {}


def _run(command: Sequence[str], seconds_max: float, at: str | None) -> tuple[int, list[str]]:
    """The exit code of a command run in a folder and its output lines, at least one; raises Absent if it cannot run."""
    try:
        ran = subprocess.run(
            command,
            cwd=at,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds_max,
            check=False,
        )
    except OSError as error:
        raise Absent(f"{command[0]} cannot be run: {error.strerror or error}") from None
    except subprocess.TimeoutExpired:
        raise Absent(f"{command[0]} did not end within {seconds_max:.0f} s") from None
    lines = (line.strip() for line in ran.stdout.decode(errors="replace").splitlines())
    return ran.returncode, [line for line in lines if line] or ["it printed nothing"]


def _places(server: Listed, python: str = pythons.PYTHON) -> dict[str, str]:
    """The placeholders known before a server starts."""
    contestants = str(registry.OURS.parent)
    return {"folder": str(server.folder), "contestants": contestants, "built": str(_built(server)), "python": python}


def _built(server: Listed) -> Path:
    """The build folder of a server. Servers of one registry share it, and so share what they compile alike."""
    root = binary.checkout()
    if root is not None and server.file == registry.OURS:
        return Path(root) / "target/contestants"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "iolab/contestants" / hashlib.sha256(str(server.file.parent.resolve()).encode()).hexdigest()[:16]


def _words(words: Sequence[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """A command with its placeholders filled in, and the path of its program if it was found."""
    program, *rest = (filled(word, values) for word in words)
    return (_found(program) or program, *rest)


def _found(program: str) -> str | None:
    """The absolute path of a program: PATH may have folders relative to the working directory."""
    found = shutil.which(program) or shutil.which(program, path=DAEMONS)
    return None if found is None else os.path.abspath(found)
