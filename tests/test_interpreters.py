"""Python interpreters in plans: how the twins are built, which are found, and servers that ran on another."""

from __future__ import annotations

import fcntl
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from iolab.contract.ready import PythonState, parse_ready_line
from iolab.contract.types import ContractError
from iolab.machine import doctor, facts, interpreters, needs, twins
from iolab.machine.doctor import Tried
from iolab.machine.host_limits import HostLimits
from iolab.machine.interpreters import Interpreter, NoInterpreter
from iolab.machine.needs import Facts
from iolab.machine.twins import Builder, CannotBuild, Ran
from iolab.plan.needs import Needs

ROOT = Path(__file__).resolve().parent.parent
SOURCE = b"the source of an interpreter"
# The commands of a whole build, in order. It looks for missing parts and gets the source before it builds anything.
LOOK = [f"header {name}" for name in twins.HEADERS]
GET = ["apt-get indextargets", "apt-get update", "apt-get source"]
STEPS = ["tar", "configure", "make", "make install", "strip", "check"]
PACKAGES = [f"pip {Path(name).name}" for name in twins.PACKAGES]
BUILT = [f"{twin}: {step}" for twin in twins.TWINS for step in STEPS]
PACKED = [f"{twin}: {step}" for twin in twins.TWINS for step in PACKAGES]
ALL = [*LOOK, *GET, *BUILT, *PACKED]
# Commands in one step with the command before them.
SECOND = ("strip", PACKAGES[1])


class CutOff(Exception):
    """Interrupts a build during a command."""


class Machine:
    """Records commands instead of running them, and leaves the files of a build."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.words: dict[str, Sequence[str]] = {}
        self.cut_off_at = ""
        self.answers: dict[str, Ran] = {"apt-get indextargets": Ran(0, "http://mirror/other/\nhttp://mirror/debian/\n")}
        self.source = SOURCE

    def run(self, words: Sequence[str], at: Path, environment: Mapping[str, str]) -> Ran:
        label = label_of(words, at)
        self.ran.append(label)
        self.words[label] = words
        assert not [name for name in environment if name.startswith("PYTHON")]
        if label == self.cut_off_at:
            raise CutOff
        step = label.rpartition(": ")[2]
        if step == "apt-get source":
            (at / f"{twins.PACKAGE}_{twins.VERSION}.orig.tar.xz").write_bytes(self.source)
        if step == "make install":
            install(label.partition(":")[0])
        is_nogil = label.startswith("nogil")
        state = Ran(0, json.dumps([twins.VERSION, not is_nogil, is_nogil])) if step == "check" else Ran(0, "")
        return self.answers.get(label, state)


def label_of(words: Sequence[str], at: Path) -> str:
    """A short name of a command, with its twin."""
    if words[0] == "apt-get":
        return f"apt-get {next(word for word in words if word in ('indextargets', 'update', 'source'))}"
    if words[0] == "cc":
        return f"header {Path(words[-1]).read_text().split()[1].strip('<>')}"
    twin = "nogil" if "nogil" in f"{at} {words[0]}" else "gil"
    if "pip" in words:
        assert (at / words[-1]).is_file()
        return f"{twin}: pip {Path(words[-1]).name}"
    if twins.CHECK in words:
        return f"{twin}: check"
    return f"{twin}: {'make install' if 'install' in words else words[0].removeprefix('./')}"


def install(twin: str) -> None:
    program = twins.program(twin)
    library = twins.prefix(twin) / "lib" / program.name
    for folder in (program.parent, library / "lib-dynload", library / "test"):
        folder.mkdir(parents=True)
    program.touch()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine with all programs that a build needs, and its own cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", "lab")
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("iolab.machine.twins.shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(twins, "SOURCE_SHA256", hashlib.sha256(SOURCE).hexdigest())
    return Machine()


def build(machine: Machine) -> list[str]:
    """Builds; returns the commands."""
    machine.ran.clear()
    with twins.alone():
        Builder(machine.run, lambda line: None, Path("requirements")).build()
    return machine.ran


def test_both_twins_are_built_in_order_without_what_no_server_needs(machine: Machine) -> None:
    assert build(machine) == ALL
    for twin in twins.TWINS:
        assert twins.is_built(twin)
        assert not (twins.prefix(twin) / "lib" / twins.program(twin).name / "test").exists()
    left = {path.name for path in twins.folder().iterdir()}
    assert left == {"lock", twins.SOURCE, *(twins.prefix(twin).name for twin in twins.TWINS)}


def test_the_twins_differ_only_in_the_gil_and_in_their_folders(machine: Machine) -> None:
    build(machine)
    with_gil, without = (set(machine.words[f"{twin}: configure"]) for twin in twins.TWINS)
    folders = {f"--prefix={twins.prefix(twin)}" for twin in twins.TWINS}
    assert without ^ with_gil == {"--disable-gil", *folders}


def test_a_second_build_runs_nothing(machine: Machine) -> None:
    build(machine)
    assert build(machine) == []


@pytest.mark.parametrize("at", [*GET, *BUILT, *PACKED])
def test_a_build_that_was_cut_off_goes_on_at_the_step_it_was_in(machine: Machine, at: str) -> None:
    machine.cut_off_at = at
    with pytest.raises(CutOff):
        build(machine)
    machine.cut_off_at = ""
    done = ALL.index(at) - (1 if at.endswith(SECOND) else 0)
    # Missing parts are looked for again, and a package index is read again before the package is downloaded.
    again = [] if at in PACKED else LOOK
    again = [*again, *GET[: GET.index(at)]] if at in GET else again
    assert build(machine) == [*again, *ALL[done:]]


def test_a_step_that_has_changed_is_run_again_and_those_before_it_are_not(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.cut_off_at = "gil: make install"
    with pytest.raises(CutOff):
        build(machine)
    machine.cut_off_at = ""
    monkeypatch.setattr(twins, "VARIABLES", ("OPT=-O2",))
    assert build(machine) == [*LOOK, *BUILT[1:], *PACKED]


def test_a_source_that_was_put_there_by_hand_is_used(machine: Machine) -> None:
    twins.folder().mkdir(parents=True)
    (twins.folder() / twins.SOURCE).write_bytes(SOURCE)
    assert build(machine) == [*LOOK, *BUILT, *PACKED]


def check_refused(machine: Machine, *words: str) -> None:
    """Expects that a build fails with one line that contains these words."""
    with pytest.raises(CannotBuild) as caught:
        build(machine)
    line = str(caught.value)
    assert "\n" not in line
    for word in words:
        assert word in line


@pytest.mark.parametrize(
    ("label", "answer", "words"),
    [
        pytest.param("header zlib.h", Ran(1, ""), ["zlib.h", "apt-get install zlib1g-dev"], id="a header is missing"),
        pytest.param("apt-get indextargets", Ran(0, "http://other/"), ["no mirror of Debian"], id="no Debian"),
        pytest.param("apt-get update", Ran(100, "E: no route\n"), ["E: no route", twins.SOURCE], id="no network"),
        pytest.param("apt-get source", Ran(100, "E: gone"), ["cannot download", "E: gone"], id="the package is gone"),
        pytest.param("gil: make", Ran(2, "a\nno x\n\n"), ["gil: make failed", "no x"], id="it does not compile"),
        pytest.param("nogil: check", Ran(0, '["3.13.5", true, true]'), ["nogil", "does not work"], id="the GIL is on"),
        pytest.param(f"nogil: {PACKAGES[1]}", Ran(1, "no index"), ["is ready", "no index"], id="no packages"),
    ],
)  # fmt: skip
def test_a_build_that_fails_says_why_in_one_line(
    machine: Machine, label: str, answer: Ran, words: Sequence[str]
) -> None:
    machine.answers[label] = answer
    check_refused(machine, *words)


def test_programs_that_are_missing_are_named_with_their_packages(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iolab.machine.twins.shutil.which", lambda name: None if name in ("cc", "xz") else name)
    check_refused(machine, "needs cc, xz", "apt-get install gcc xz-utils")
    assert machine.ran == []


def test_without_apt_the_source_can_be_put_there(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iolab.machine.twins.shutil.which", lambda name: None if name == "apt-get" else name)
    check_refused(machine, "no apt-get", twins.SOURCE, twins.SOURCE_SHA256, str(twins.folder()))


def test_another_source_than_that_of_the_version_is_not_built(machine: Machine) -> None:
    machine.source = b"another version"
    check_refused(machine, "another source")
    machine.source = SOURCE
    assert build(machine) == ALL


def test_two_builds_do_not_run_at_once(machine: Machine) -> None:
    twins.folder().mkdir(parents=True)
    with (twins.folder() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        check_refused(machine, "another build is at work")
    assert machine.ran == []


FLAGS = "--prefix=/here OPT=-O3"


def said(version: str = twins.VERSION, gil: bool = True, **changes: object) -> PythonState:
    """The report of a server that runs on a build with or without the GIL."""
    flags = FLAGS if gil else f"{FLAGS} --disable-gil"
    known = {"version": f"{version} (main) [GCC]", "flags": flags, "gil_built": gil, "gil": gil, "extensions": ()}
    return PythonState.model_validate(known | changes)


@pytest.mark.parametrize(
    ("asked", "state", "why"),
    [
        ("gil", said(), ""),
        ("nogil", said(gil=False), ""),
        ("nogil", said(gil=False, extensions=("a",)), ""),
        ("3.11", said("3.11.7"), ""),
        ("3.14t", said("3.14.0", gil=False), ""),
        ("system", said("3.9.2"), ""),
        ("gil", None, "the ready line does not say what runs the server: add interpreter to it"),
        ("gil", said("3.13.2"), "the server runs on 3.13.2, not on 3.13.5"),
        ("3.1", said("3.11.7"), "the server runs on 3.11.7, not on 3.1"),
        ("gil", said(gil=False), "the server runs on a build without the GIL"),
        ("nogil", said(), "the server runs on a build with the GIL"),
        ("3.14t", said("3.14.0"), "the server runs on a build with the GIL"),
        ("3.14", said("3.14.0", gil=False), "the server runs on a build without the GIL"),
        ("nogil", said(gil_built=False), "the GIL is on after the server's imports: leave PYTHON_GIL unset"),
        (
            "nogil",
            said(gil_built=False, extensions=("a", "b.c")),
            "the GIL is on after the server's imports: one of a, b.c turns it on",
        ),
    ],
)
def test_a_server_on_another_interpreter_is_refused(asked: str, state: PythonState | None, why: str) -> None:
    assert interpreters.refusal(asked, state) == (f"asked for {asked}, and {why}" if why else "")


@pytest.mark.parametrize(
    ("asked", "state", "why"),
    [
        ("system", said("3.9.2"), ""),
        ("system", said("3.9.2", gil=False, gil_built=True, flags=FLAGS), ""),
        ("system", said("3.9.2", extensions=("uvloop.loop",)), ""),
        ("system", said("3.9.7"), "on 3.9.7"),
        ("system", said("3.13.5"), "on 3.13.5"),
        ("system", said("3.9.2", flags="OPT=-O0"), "on another build of it"),
        ("system", said("3.9.2").model_copy(update={"version": "3.9.2 (main) [Clang]"}), "on another build of it"),
        ("3.9", said("3.9.7"), "on 3.9.7"),
        ("gil", said("3.9.2", flags="OPT=-O0"), "on another build of it"),
    ],
)
def test_a_server_on_another_build_than_the_one_that_was_found_is_refused(
    asked: str, state: PythonState, why: str
) -> None:
    found = Interpreter(asked, Path("/bin/python3"), said("3.9.2"))
    line = f"asked for {asked}, which is 3.9.2 here (/bin/python3), and the server runs {why}"
    assert interpreters.other_build(found, state) == (line if why else "")


@pytest.mark.parametrize(
    ("state", "twin", "why"),
    [
        (said(extensions=("tornado.speedups",)), said(gil=False, extensions=("tornado.speedups",)), ""),
        (said(), said(gil=False, flags="--prefix=/there OPT=-O3 --disable-gil"), ""),
        (said(), said("3.13.6", gil=False), "runs on another version: 3.13.5 here, 3.13.6 there"),
        (said(), said(gil=False, flags="OPT=-O2"), "was built with other flags: OPT=-O3 here, OPT=-O2 there"),
        (
            said(extensions=("a", "b")),
            said(gil=False, extensions=("a",)),
            "loads other compiled extensions: b here, nothing else there",
        ),
    ],
)
def test_twins_that_differ_in_more_than_the_gil_are_refused(state: PythonState, twin: PythonState, why: str) -> None:
    assert interpreters.refusal("gil", state, twin) == (f"asked for gil, and its twin {why}" if why else "")


@pytest.mark.parametrize(
    "change",
    [
        {"gil": "yes"},
        {"gil": 1},
        {"gil_built": None},
        {"gil_built": "false"},
        {"version": 3},
        {"extensions": "a"},
        {"more": 1},
    ],
    ids=str,
)  # fmt: skip
def test_what_a_server_says_of_its_interpreter_is_parsed_strictly(change: dict[str, object]) -> None:
    line = {"event": "ready", "listen": ["127.0.0.1:1"], "interpreter": said().model_dump(mode="json")}
    assert parse_ready_line(json.dumps(line).encode()).interpreter == said()
    wrong = line | {"interpreter": said().model_dump(mode="json") | change}
    with pytest.raises(ContractError):
        parse_ready_line(json.dumps(wrong).encode())


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, PythonState | None], Path]:
    """Puts a fake interpreter into a folder of PATH; without a state it exits with an error."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'first'}:{tmp_path / 'second'}")

    def put(folder: str, name: str, state: PythonState | None) -> Path:
        program = tmp_path / folder / name
        program.parent.mkdir(parents=True, exist_ok=True)
        answer = "" if state is None else json.dumps({"program": str(program), "said": state.model_dump(mode="json")})
        program.write_text("#!/bin/sh\nexit 127\n" if state is None else f"#!/bin/sh\necho '{answer}'\n")
        program.chmod(0o700)
        return program

    return put


Put = Callable[[str, str, PythonState | None], Path]


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("gil", "needs the interpreter gil: make interpreters"),
        ("nogil", "needs the interpreter nogil: make interpreters"),
        ("3.14t", "needs the interpreter 3.14t: no python3.14t on PATH answers: install Python 3.14t"),
        ("system", "needs the interpreter system: no python3 on PATH answers: install Python"),
        (
            "3.x",
            "needs the interpreter 3.x: there is none of that name: use gil, nogil, system, or a version such as 3.12",
        ),
    ],
)  # fmt: skip
def test_an_interpreter_that_is_not_here_is_named_with_what_would_help(name: str, why: str) -> None:
    assert interpreters.why_not(name) == why
    here = Facts((0, 1), memory_bytes=1 << 30)
    assert name == "3.x" or needs.unmet(Needs(interpreters=(name,)), here) == why


def test_a_wrapper_that_stands_for_nothing_is_passed_over(place: Put) -> None:
    place("first", "python3.12", None)
    there = place("second", "python3.12", said("3.12.4"))
    found = interpreters.find("3.12")
    assert (found.program, found.version) == (there, "3.12.4")
    assert found.words == f"3.12.4 with the GIL: {there}"


@pytest.mark.parametrize(
    ("called", "state"),
    [
        pytest.param("python3.12", said("3.11.7"), id="another version"),
        pytest.param("python3.12", said("3.12.4", gil=False), id="without the GIL"),
        pytest.param("python3.14t", said("3.14.0"), id="with the GIL"),
    ],
)
def test_no_interpreter_is_taken_for_another(place: Put, called: str, state: PythonState) -> None:
    place("first", called, state)
    with pytest.raises(NoInterpreter):
        interpreters.find(called.removeprefix("python"))


def test_twins_are_found_once_they_are_built_to_the_end(machine: Machine, place: Put) -> None:
    folder = twins.program("nogil").parent.relative_to(twins.folder().parent.parent.parent)
    machine.cut_off_at = "nogil: check"
    with pytest.raises(CutOff):
        build(machine)
    place(str(folder), "python3.13t", said(gil=False))
    assert interpreters.why_not("nogil") == "needs the interpreter nogil: make interpreters"
    machine.cut_off_at = ""
    build(machine)
    assert interpreters.find("nogil").program == twins.program("nogil")
    place(str(folder), "python3.13t", said())
    assert "does not work: remove it, then make interpreters" in interpreters.why_not("nogil")


def test_doctor_lists_the_interpreters(place: Put) -> None:
    there = place("second", "python3.9", said("3.9.2"))
    place("first", "python3.10", None)
    found = interpreters.found()
    assert list(found) == ["gil", "nogil", "system", "3.9"]
    assert isinstance(found["3.9"], Interpreter)
    checks = doctor.checks(facts.describe(), HostLimits(), None, "none", tried=Tried(interpreters=found))
    checks = tuple(each for each in checks if each.what in ("interpreter nogil", "interpreter 3.9"))
    assert [(each.status, each.found, each.fix) for each in checks] == [
        ("warn", "not here", "make interpreters"),
        ("ok", f"3.9.2 with the GIL: {there}", ""),
    ]
