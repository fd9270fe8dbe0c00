"""Builds the twins: one version of CPython with its GIL and without, from one source with one set of flags.

`make interpreters` runs this file with any Python: it needs only the standard library. The source is CPython's own
release: apt downloads it as Debian's source package, without root, or the user puts it into the folder. Its digest is
checked either way. Each step leaves a mark. An interrupted run resumes at its step, a changed recipe restarts at the
changed step, and a finished build does nothing.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from iolab.errors import IolabError

VERSION = "3.13.5"
TWINS = ("gil", "nogil")
# The page of this version's Debian source package.
SUITE, PACKAGE = "trixie", "python3.13"
SOURCE = f"Python-{VERSION}.tar.xz"
SOURCE_SHA256 = "93e583f243454e6e9e4588ca2c2662206ad961659863277afcdb96801647d640"

# The flags of both, besides --disable-gil. Profile-guided optimisation would optimise each for its own profile.
CONFIGURE = ("--with-ensurepip=install", "--disable-test-modules", "--without-static-libpython")
VARIABLES = ("OPT=-DNDEBUG -fwrapv -O3 -Wall", "py_cv_module__tkinter=n/a")
# Folders of the standard library that no server needs.
TRIMMED = ("idlelib", "turtledemo", "turtle.py", "tkinter", "test", "**/*.opt-[12].pyc")
# Programs and headers that a build needs, and their Debian packages.
PROGRAMS = {"cc": "gcc", "make": "make", "tar": "tar", "xz": "xz-utils", "strip": "binutils"}
HEADERS = {"openssl/ssl.h": "libssl-dev", "zlib.h": "zlib1g-dev", "ffi.h": "libffi-dev"}
# Requirements files of the checkout with hashes: the build tools of Tornado and uvloop, and the two packages.
PACKAGES = ("requirements/interpreters-build.txt", "requirements/interpreters.txt")

# Runs in a finished twin: imports what a server may need, and prints the state that was built.
CHECK = """
import bz2, ctypes, hashlib, json, lzma, multiprocessing, selectors, ssl, sys, sysconfig, zlib
print(json.dumps([sys.version.split()[0], sys._is_gil_enabled(), sysconfig.get_config_var("Py_GIL_DISABLED") == 1]))
"""
# The log of a failed command.
FAILED = "failed.log"
TO_DO = "make interpreters"


class CannotBuild(IolabError):
    """The twins cannot be built here. The message is one line: what is missing, and what to do."""


class Ran(NamedTuple):
    """A finished command and its output."""

    code: int
    output: str


# Runs a command in a folder with an environment; tests pass one that runs nothing.
Run = Callable[[Sequence[str], Path, Mapping[str, str]], Ran]


def folder() -> Path:
    """The folder of the twins, outside any checkout, so that all checkouts share one build."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "iolab/interpreters"


def prefix(twin: str) -> Path:
    """The folder that a twin is installed in."""
    return folder() / f"{VERSION}-{twin}"


def program(twin: str) -> Path:
    """The program of a twin, which may not exist."""
    return prefix(twin) / "bin" / f"python{VERSION.rpartition('.')[0]}{'t' if twin == 'nogil' else ''}"


def is_built(twin: str) -> bool:
    """Whether this recipe has built a twin completely."""
    return _Marks(prefix(twin)).has(_INSTALLED, _chain(_steps(twin)))


@dataclass(frozen=True)
class Step:
    """One step of a build: its name and everything that decides its outcome. A step can safely be repeated."""

    name: str
    words: tuple[str, ...]


_INSTALLED, _PACKED = "installed", "packages"


def _steps(twin: str) -> tuple[Step, ...]:
    return (
        Step("unpack", (SOURCE_SHA256,)),
        Step("configure", ("./configure", "-q", f"--prefix={prefix(twin)}", *_flags(twin), *VARIABLES)),
        Step("make", ("make", "-s")),
        Step("install", ("make", "-s", "install", *TRIMMED)),
        Step("check", (CHECK,)),
    )


def _flags(twin: str) -> tuple[str, ...]:
    return (*CONFIGURE, "--disable-gil") if twin == "nogil" else CONFIGURE


def _chain(steps: Sequence[Step]) -> str:
    """The mark of the last of these steps: it differs if any step does."""
    return hashlib.sha256(json.dumps([[step.name, *step.words] for step in steps]).encode()).hexdigest()


@dataclass(frozen=True)
class _Marks:
    """The finished steps, one file each in a folder."""

    folder: Path

    def has(self, name: str, digest: str) -> bool:
        try:
            return (self.folder / f"{name}.done").read_text() == digest
        except OSError:
            return False

    def leave(self, name: str, digest: str) -> None:
        """Writes the mark whole or not at all."""
        half = self.folder / f"{name}.half"
        half.write_text(digest)
        half.replace(self.folder / f"{name}.done")


class Builder:
    """Builds both twins below `folder()` and reports each step to `say`, one line each."""

    def __init__(self, run: Run, say: Callable[[str], None], requirements: Path) -> None:
        # Commands run in other folders, so a relative path would not work.
        self._run, self._say, self._requirements = run, say, requirements.resolve()
        # The environment of the Python that runs this file must not affect the one it builds.
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def build(self) -> None:
        """Builds what is missing, then installs the packages; raises CannotBuild."""
        wanted = [twin for twin in TWINS if not is_built(twin)]
        if wanted:
            self._refuse_without_tools()
            self._source()
        for twin in wanted:
            self._build(twin)
        for twin in TWINS:
            self._packages(twin)
        (folder() / FAILED).unlink(missing_ok=True)
        for twin in TWINS:
            self._say(f"{twin}: CPython {VERSION}, {_megabytes(prefix(twin))} MB: {program(twin)}")

    def _refuse_without_tools(self) -> None:
        """Lists everything that is missing, before any download."""
        missing = {name: package for name, package in PROGRAMS.items() if shutil.which(name) is None}
        if "cc" not in missing:
            missing |= {name: package for name, package in HEADERS.items() if not self._has(name)}
        if missing:
            raise CannotBuild(
                f"a build needs {', '.join(missing)}, not installed here: "
                f"apt-get install {' '.join(missing.values())}, and then: {TO_DO}"
            )

    def _has(self, header: str) -> bool:
        name = hashlib.sha256(header.encode()).hexdigest()[:8]
        probe = folder() / f"probe-{name}.c"
        probe.write_text(f"#include <{header}>\n")
        code = self._run(["cc", "-E", "-o", os.devnull, str(probe)], folder(), self._environment).code
        probe.unlink()
        return code == 0

    def _source(self) -> None:
        """CPython's own release, checked: already in the folder, or downloaded by apt."""
        here = folder() / SOURCE
        if _sha256(here) == SOURCE_SHA256:
            return
        by_hand = f"put {SOURCE} (SHA-256 {SOURCE_SHA256}) into {folder()}, and then: {TO_DO}"
        if shutil.which("apt-get") is None:
            raise CannotBuild(f"there is no apt-get here to get the source with: {by_hand}")
        self._say(f"getting the source of CPython {VERSION} from Debian {SUITE}")
        found = self._from_debian(by_hand)
        if _sha256(found) != SOURCE_SHA256:
            found.unlink(missing_ok=True)
            raise CannotBuild(f"Debian {SUITE} has another source than CPython {VERSION}: {by_hand}")
        found.replace(here)
        shutil.rmtree(folder() / "apt")

    def _from_debian(self, by_hand: str) -> Path:
        """Downloads the source package into folders of its own, without root and without changes to the system.

        apt resumes an interrupted download.
        """
        apt = folder() / "apt"
        for name in ("sources", "lists/partial", "cache/archives/partial", "download"):
            (apt / name).mkdir(parents=True, exist_ok=True)
        targets = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
        mirrors = self._run(targets, apt, self._environment).output.split()
        mirror = next((each for each in mirrors if each.rstrip("/").endswith("/debian")), None)
        if mirror is None:
            raise CannotBuild(f"apt knows no mirror of Debian: {by_hand}")
        (apt / "sources/source.list").write_text(f"deb-src {mirror} {SUITE} main\n")
        folders = {
            "Dir::Etc::sourcelist": "/dev/null",
            "Dir::Etc::sourceparts": apt / "sources",
            "Dir::State::lists": apt / "lists",
            "Dir::Cache": apt / "cache",
            # As root, apt would otherwise download as a user who cannot write to these folders.
            "APT::Sandbox::User": "root",
        }
        ours = ["apt-get", "-q", *(word for name, value in folders.items() for word in ("-o", f"{name}={value}"))]
        self._must([*ours, "update"], apt, f"apt cannot read the index of Debian {SUITE}", f": {by_hand}")
        source = [*ours, "source", "--download-only", "--tar-only", "--only-source", PACKAGE]
        self._must(source, apt / "download", f"apt cannot download {PACKAGE}", f": {by_hand}")
        return apt / "download" / f"{PACKAGE}_{VERSION}.orig.tar.xz"

    def _build(self, twin: str) -> None:
        began = time.monotonic()
        tree = folder() / f"build-{twin}"
        tree.mkdir(exist_ok=True)
        marks, steps = _Marks(tree), _steps(twin)
        actions = (self._unpack, self._configure, self._make, self._install, self._check)
        for at, (step, act) in enumerate(zip(steps, actions, strict=True), 1):
            digest = _chain(steps[:at])
            if not marks.has(step.name, digest):
                self._say(f"{twin}: {step.name}")
                act(twin, tree / "tree")
                marks.leave(step.name, digest)
        _Marks(prefix(twin)).leave(_INSTALLED, _chain(steps))
        shutil.rmtree(tree)
        self._say(f"{twin}: built in {time.monotonic() - began:.0f} s")

    def _unpack(self, twin: str, tree: Path) -> None:
        shutil.rmtree(tree, ignore_errors=True)
        tree.mkdir()
        self._must(["tar", "-xJf", str(folder() / SOURCE), "--strip-components=1"], tree, f"{twin}: unpack failed")

    def _configure(self, twin: str, tree: Path) -> None:
        self._must(_steps(twin)[1].words, tree, f"{twin}: configure failed")

    def _make(self, twin: str, tree: Path) -> None:
        jobs = f"-j{len(os.sched_getaffinity(0))}"
        self._must(["make", "-s", jobs], tree, f"{twin}: make failed")

    def _install(self, twin: str, tree: Path) -> None:
        """Installs it into an empty folder, without the parts that no server needs."""
        shutil.rmtree(prefix(twin), ignore_errors=True)
        self._must(["make", "-s", "install"], tree, f"{twin}: make install failed")
        library = prefix(twin) / "lib" / program(twin).name
        for found in (path for pattern in TRIMMED for path in library.glob(pattern)):
            shutil.rmtree(found) if found.is_dir() else found.unlink()
        compiled = [program(twin), *(library / "lib-dynload").glob("*.so")]
        self._must(["strip", "--strip-unneeded", *map(str, compiled)], tree, f"{twin}: strip failed")

    def _check(self, twin: str, tree: Path) -> None:
        """Raises CannotBuild unless the interpreter is the requested one and complete."""
        wrong = f"{twin}: the interpreter that was built does not work"
        said = self._must([str(program(twin)), "-I", "-c", CHECK], tree, wrong)
        if json.loads(said) != [VERSION, twin == "gil", twin == "nogil"]:
            raise CannotBuild(f"{wrong}: it says it is {said.strip()}: remove {folder()}, and then: {TO_DO}")

    def _packages(self, twin: str) -> None:
        """Installs Tornado and uvloop, compiled here for both twins, so that both have the same extensions."""
        files = [self._requirements / Path(name).name for name in PACKAGES]
        digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
        marks = _Marks(prefix(twin))
        if marks.has(_PACKED, digest):
            return
        self._say(f"{twin}: Tornado and uvloop")
        pip = [str(program(twin)), "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        from_source = ["--no-build-isolation", "--no-binary=:all:"]
        wrong = f"{twin}: the interpreter is ready, and its packages cannot be installed"
        for file, more in zip(files, ([], from_source), strict=True):
            self._must([*pip, *more, "--require-hashes", "-r", str(file)], folder(), wrong)
        marks.leave(_PACKED, digest)

    def _must(self, words: Sequence[str], at: Path, wrong: str, advice: str = "") -> str:
        """The output of a command; raises CannotBuild with its last line, and the file that has all, if it failed."""
        code, output = self._run(words, at, self._environment)
        if code == 0:
            return output
        log = folder() / FAILED
        log.write_text(f"{shlex.join(words)}\n{output}")
        last = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "it said nothing")
        raise CannotBuild(f"{wrong}: {last}{advice or f': see {log}'}")


@contextmanager
def alone() -> Iterator[None]:
    """Allows one build at a time; raises CannotBuild while another is running."""
    try:
        folder().mkdir(parents=True, exist_ok=True)
        with (folder() / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
    except BlockingIOError:
        raise CannotBuild(f"another build is at work in {folder()}: wait until it has ended") from None
    except OSError as error:
        raise CannotBuild(f"{folder()}: {error.strerror or error}: set XDG_CACHE_HOME to another folder") from None


def run(words: Sequence[str], at: Path, environment: Mapping[str, str]) -> Ran:
    """Runs a command to its end and keeps its output, errors included."""
    try:
        ended = subprocess.run(
            words, cwd=at, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            check=False,
        )  # fmt: skip
    except OSError as error:
        return Ran(127, f"{words[0]}: {error.strerror or error}")
    return Ran(ended.returncode, ended.stdout.decode(errors="replace"))


def _sha256(path: Path) -> str:
    """The digest of a file; empty if it does not exist."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return ""


def _megabytes(path: Path) -> int:
    return round(sum(each.lstat().st_size for each in path.rglob("*")) / 1e6)


def main(words: Sequence[str]) -> int:
    """Builds the twins with the requirements in the given folder; prints each step, and why a build fails."""
    try:
        with alone():
            Builder(run, lambda line: print(line, flush=True), Path(words[0])).build()
    except CannotBuild as error:
        print(error, file=sys.stderr)
        return error.code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
