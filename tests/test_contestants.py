"""Servers of the registry: iolab's own, a user's, mistakes in a registry, and a run from build to report."""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import get_args

import pytest

from conftest import FAKE_ENGINE, PATIENCE_S, Done, iolab, is_alive, wait_until
from iolab.contract.types import WORKLOADS
from iolab.errors import PlanError
from iolab.machine import needs
from iolab.measure import contestants, registered, scratch
from iolab.measure.engine import Engine
from iolab.measure.scratch import Scratch
from iolab.plan import registry
from iolab.plan.experiment import vs_plan
from iolab.plan.settings import Cell, Server
from iolab.report import commands
from iolab.results import layout

ROOT = Path(__file__).resolve().parent.parent
# A user's server in one file, which answers the fake generator.
MINE = f"""
[mine]
about = "a server in Python"
protocols = ["echo"]
settings = ["workers", "message_bytes"]
start = [{sys.executable!r}, "-S", "{{folder}}/server.py", "plain", "{{port}}"]
environment = {{ WORKERS = "{{workers}}", WAIT = "{{wait}}" }}
options = {{ wait = ["select", "poll"] }}
files = ["settings.ini"]
version = [{sys.executable!r}, "-S", "-c", "print('mine version: 1.2')"]
install = "install mine"
"""
INTERPRETERS = "interpreters of Python, for server.interpreter"
LEAST = b'[mine]\nabout = "a"\nprotocols = ["http"]\nstart = ["mine", "{port}"]\ninstall = "install mine"\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a user's registry, and its own cache."""
    server = tmp_path / "mine"
    server.mkdir()
    (server / "server.py").write_text(FAKE_ENGINE.read_text())
    (server / "settings.ini").write_text("port = {port}, workers = {workers}, { this stays }")
    (tmp_path / "contestants.toml").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def vs(folder: Path, *words: str) -> Done:
    return iolab("vs", *words, "--quick", "--blocks", "6", "--out", folder / "runs")


def machine(folder: Path) -> dict[str, object]:
    """The machine record of the only run in a folder."""
    (path,) = folder.glob(f"runs/*[!.][!.]/{layout.MACHINE}")
    found: dict[str, object] = json.loads(path.read_text())
    return found


@pytest.mark.usefixtures("fake", "quiet", "no_charts")
def test_a_server_of_a_users_registry_is_compared_by_name_and_its_version_is_in_record_and_report(folder: Path) -> None:
    done = vs(folder, "epoll", "mine")
    assert done.exit_code == 0, done.stderr
    assert "mine / epoll" in done.stdout
    found = machine(folder)
    assert found["servers"]["mine"]["version"] == "1.2"  # type: ignore[index]
    executed = found["identity"]["programs"]["mine"]  # type: ignore[index]
    assert {sys.executable, str(folder / "mine/server.py"), str(folder / "mine/settings.ini")} <= set(executed)
    assert executed["the version of mine"] == "1.2"
    report = next(folder.glob("runs/*/report.html")).read_text()
    assert "version of mine" in report
    assert "1.2" in report


@pytest.mark.usefixtures("fake", "quiet", "no_charts")
def test_a_run_begins_anew_when_the_entry_of_its_server_has_changed(folder: Path) -> None:
    (folder / "some.toml").write_text(
        'name = "some"\nquestion = "Which?"\ncontestants = ["epoll", "mine"]\nblocks = 6\n'
        'fixed.workload.protocol = "echo"\n'
    )
    command = ("run", folder / "some.toml", "--quick", "--out", folder / "runs")
    assert iolab(*command).exit_code == 0
    (folder / "contestants.toml").write_text(MINE.replace("a server in Python", "the same with other words"))
    assert "has changed" not in iolab(*command).stderr
    (folder / "contestants.toml").write_text(MINE.replace("WORKERS =", 'MORE = "1", WORKERS ='))
    assert "the entry of mine has changed: the earlier run is kept" in iolab(*command).stderr


@pytest.mark.usefixtures("fake", "quiet", "no_charts")
def test_the_registry_beside_an_experiment_is_found_from_anywhere(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = 'name = "some"\nquestion = "Which?"\ncontestants = ["epoll", "mine", "gone"]\nblocks = 7\n[fixed.workload]\n'
    (folder / "some.toml").write_text(text + 'protocol = "echo"\n')
    gone = LEAST.decode().replace("[mine]", "[gone]").replace('"http"', '"echo"').replace('"mine"', '"/nowhere"')
    (folder / "contestants.toml").write_text(MINE + gone)
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    done = iolab("run", folder / "some.toml", "--quick", "--out", folder / "runs")
    assert done.exit_code == 0, done.stderr
    assert "all: gone is left out: /nowhere is not installed: install mine" in done.stderr


def test_a_server_is_started_with_its_files_and_environment_and_nothing_of_it_is_left(folder: Path) -> None:
    (server,) = [each for each in registry.load(folder / "contestants.toml").values() if each.name == "mine"]
    cell = Cell.model_validate(
        {"contestant": "mine[wait=poll]", "workload": {"protocol": "echo"}, "server": {"workers": 3}}
    )
    started = contestants.start(cell, None, {"mine": registered.prepare(server)})
    scratch = started.instances[0].scratch
    try:
        assert scratch is not None
        port = started.addresses[0].rpartition(":")[2]
        assert (scratch.folder / "settings.ini").read_text() == f"port = {port}, workers = 3, {{ this stays }}"
        assert {b"WORKERS=3", b"WAIT=poll"} <= set(Path(f"/proc/{started.pids[0]}/environ").read_bytes().split(b"\0"))
    finally:
        started.stop()
    assert not scratch.folder.exists()
    assert not Path(f"/proc/{started.pids[0]}").exists()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["epoll", "mime"], "there is no contestant 'mime': did you mean 'mine'?"),
        (["epoll", "epol"], "there is no contestant 'epol': did you mean 'epoll'?"),
        (["epoll", "ngin"], "there is no contestant 'ngin': did you mean 'nginx'?"),
        (["epoll", "mine", "--protocol", "http"], "mine does not speak http: it speaks echo"),
        (["epoll", "nginx[x=1]", "--protocol", "http"], "nginx has no option 'x': it has none"),
        (["epoll", "mine[x=1]"], "mine has no option 'x': use one of wait"),
        (["epoll", "mine[wait=epoll]"], "mine has no wait=epoll: it has select, poll"),
        (
            ["epoll", "mine", "--sockets", "2"],
            "mine does not take sockets: it takes workers and message_bytes; leave sockets at 1, or leave mine out",
        ),
        (
            ["epoll", "mine", "--framing", "prefix"],
            "mine does not take framing: it takes workers and message_bytes; leave framing at raw, or leave mine out",
        ),
        (["epoll", "nginx", "--protocol", "http", "--reply-bytes", "4001"], "nginx takes reply_bytes up to 4000"),
    ],
)
def test_what_a_server_does_not_take_is_refused_in_one_line_before_anything_runs(
    fake: Engine, folder: Path, words: list[str], said: str
) -> None:
    done = vs(folder, *words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"iolab vs: {said}")
    assert len(done.stderr.splitlines()) == 1
    assert not (folder / "runs").exists()


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("start = [", 'start = ["/nowhere/mine", '), "/nowhere/mine is not installed: install mine"),
        (("version = [", 'build = ["/nowhere/cc"]\nversion = ['), "/nowhere/cc is not installed: install mine"),
        (
            ("version = [", f"build = [{sys.executable!r}, '-S', '-c', 'raise SystemExit(\"error: 7\")']\nversion = ["),
            f"it cannot be built: error: 7: see what {sys.executable} -S -c 'raise SystemExit(\"error: 7\")' says",
        ),
        (
            ("print('mine version: 1.2')", "raise SystemExit('broken')"),
            "its version command failed: broken: install mine",
        ),
        (
            ("start = [", f"build = [{sys.executable!r}, '-S', '-c', '']\nstart = ['/nowhere/mine', "),
            "its build made no /nowhere/mine: correct build or start",
        ),
    ],
)
def test_a_server_that_is_absent_says_what_to_install(folder: Path, change: tuple[str, str], said: str) -> None:
    (folder / "contestants.toml").write_text(MINE.replace(*change))
    done = vs(folder, "epoll", "mine")
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1] == f"iolab vs: mine cannot run here: {said}"


@pytest.mark.usefixtures("fake", "quiet", "no_charts")
def test_a_server_with_sources_is_built_when_it_is_first_used(folder: Path) -> None:
    start = 'start = ["{built}/mine", "-S", "{folder}/server.py", "plain", "{port}"]'
    links = "import os, pathlib, sys; pathlib.Path(sys.argv[1]).exists() or os.symlink(sys.executable, sys.argv[1])"
    build = f'build = [{sys.executable!r}, "-S", "-c", "{links}", "{{built}}/mine"]'
    (folder / "contestants.toml").write_text(re.sub("start = .*", f"{start}\n{build}", MINE))
    assert "not built yet: the first run builds it" in iolab("list", "contestants").stdout
    done = vs(folder, "epoll", "mine")
    assert done.exit_code == 0, done.stderr
    assert f"building mine with {sys.executable}: this is done once" in done.stderr
    again = vs(folder, "epoll", "mine")
    assert again.exit_code == 0, again.stderr
    assert "building" not in again.stderr


def test_the_list_names_each_server_with_what_it_takes_and_runs_no_command_of_a_user(folder: Path) -> None:
    gone = LEAST.decode().replace("[mine]", "[gone]").replace('"mine"', '"/nowhere"')
    (folder / "contestants.toml").write_text(MINE + gone)
    done = iolab("list", "contestants")
    assert done.exit_code == 0, done.stderr
    lines = [line.strip() for line in done.stdout.splitlines()]
    at = lines.index("mine         a server in Python")
    takes, options = "speaks echo; takes workers, message_bytes", "[wait=select|poll]"
    assert lines[at + 1 : at + 4] == [takes, options, "installed"]
    assert "NOT HERE: /nowhere is not installed: install mine" in lines
    assert any(line.startswith(("system: ", "gil: ")) for line in lines[lines.index(INTERPRETERS) :])
    assert {line.split()[0] for line in done.stdout.splitlines() if not line.startswith(" ")} >= {"nginx", "raw-hyper"}


@pytest.mark.parametrize("is_ours", [True, False])
def test_iolabs_own_servers_are_asked_for_their_version_outside_the_working_directory(
    folder: Path, monkeypatch: pytest.MonkeyPatch, is_ours: bool
) -> None:
    (folder / "contestants.toml").write_text(
        MINE.replace("print('mine version: 1.2')", "import os; print(os.getcwd())")
    )
    mine = registry.load(folder / "contestants.toml")["mine"]
    if is_ours:
        monkeypatch.setattr(registry, "OURS", mine.file)
    assert registered.prepare(mine).version == ("/" if is_ours else str(folder))


def test_a_program_that_says_it_cannot_run_is_not_here_also_before_its_server_is_built(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "OURS", folder / "contestants.toml")
    old = MINE.replace("print('mine version: 1.2')", "raise SystemExit('needs mine 2 or later, and this is 1')")
    build = f"build = [{sys.executable!r}]\nstart = ['{{built}}/no-such-server', "
    (folder / "contestants.toml").write_text(old.replace("start = [", build))
    (found,) = registry.load(None).values()
    assert registered.must_be_built(found)
    said = "NOT HERE: its version command failed: needs mine 2 or later, and this is 1: install mine"
    assert registered.state(found) == said


def test_files_of_a_server_that_a_killed_lab_left_are_removed_and_those_in_use_are_not() -> None:
    ours, home = Scratch.make(), scratch.home()
    left, others = home / f"{scratch.PREFIX}1-0", [home / f"{scratch.PREFIX}notes", home / "iolab-1-0"]
    for folder in (left, *others):
        folder.mkdir()
        (folder / "file").touch()
    try:
        scratch.remove_leftovers()
        assert not left.exists()
        assert ours.folder.is_dir(), "it is in use"
        assert all((folder / "file").exists() for folder in others), "they have other names"
    finally:
        ours.remove()
        for folder in others:
            shutil.rmtree(folder)
    assert not ours.folder.exists()
    ours.remove()


@pytest.mark.parametrize(("length", "is_long"), [(64, False), (65, True)])
def test_a_unix_socket_of_a_server_has_a_path_that_the_kernel_takes(
    monkeypatch: pytest.MonkeyPatch, length: int, is_long: bool
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", f"/{'x' * (length - 1)}")
    home = scratch.home()
    assert (home == Path("/tmp")) is is_long
    longest = home / f"{scratch.PREFIX}4194304-99999"
    with socket.socket(socket.AF_UNIX) as unix, pytest.raises(FileNotFoundError):
        unix.bind(str(longest / "socket-number1"))


def no_space(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.usefixtures("fake", "quiet", "no_charts")
@pytest.mark.parametrize("at", [0, 1, 5])
def test_a_full_disk_is_one_clear_line_and_what_was_measured_is_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    make, made = tempfile.TemporaryFile, itertools.count()
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda: no_space() if next(made) == at else make())
    done = vs(folder, "epoll", "thread")
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (
        2,
        "iolab vs: a temporary file cannot be written: No space left on device: "
        "free some space, or set TMPDIR to another folder",
    )
    assert "Traceback" not in done.stderr
    again = vs(folder, "epoll", "thread")
    assert again.exit_code == 0, again.stderr


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize(
    ("home", "why"),
    [
        ("/nowhere", "/nowhere.*: No such file or directory: free some space, or set TMPDIR to another folder$"),
        (None, r"No usable temporary directory found in \["),
    ],
)
def test_without_a_temporary_folder_there_is_one_clear_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, home: str | None, why: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", home)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/nowhere"])
    done = vs(folder, "epoll", "mine")
    assert done.exit_code == 2
    assert re.match(f"iolab vs: a temporary file cannot be written: {why}", done.stderr.splitlines()[-1])
    assert list(folder.glob("runs/*")) == []


def test_a_build_ends_with_a_lab_that_is_killed(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    program = f"import os, time; open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep({PATIENCE_S})"
    lab = f"import sys; from iolab.measure import registered; registered.build([sys.executable, '-c', {program!r}])"
    killed = subprocess.Popen([sys.executable, "-c", lab])
    try:
        wait_until(lambda: pid_file.exists() and pid_file.read_text() != "", "the build began")
    finally:
        killed.kill()
        killed.wait()
    pid = int(pid_file.read_text())
    wait_until(lambda: not is_alive(pid), "the build ended")


def test_the_report_says_how_to_start_a_server_of_the_registry_by_hand() -> None:
    plan = vs_plan(["epoll", "mine[wait=poll]"], {"protocol": "http", "workers": 2})
    start = ["mine", "-p", "{scratch}", "{host}:{port}", "{workers}", "{wait}", "{queue}"]
    environment = {"WORKERS": "{workers}", "HOME": "{scratch}"}
    servers = {"mine": {"start": start, "environment": environment, "options": {"wait": "select", "queue": "5"}}}
    ours, mine = commands.by_hand(plan, 0, {"servers": servers})
    assert ours.server[:4] == ("iolab", "serve", "--model", "epoll")
    added = ("env", "WORKERS=2", "HOME={scratch}")
    assert mine.server == (*added, "mine", "-p", "{scratch}", "127.0.0.1:8080", "2", "poll", "5")
    assert "in braces" in mine.note


def check(text: bytes, lines: list[str], tmp_path: Path) -> None:
    """Expects that a user's registry with this text is refused with these lines, each after the file's name."""
    path = tmp_path / "contestants.toml"
    path.write_bytes(text)
    with pytest.raises(PlanError) as refused:
        registry.load(path)
    assert str(refused.value).splitlines() == [f"{path}: {line}" for line in lines]


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        (b"[mine]", b"[mine", ["is not TOML: Expected ']' at the end of a table declaration (at line 1, column 6)"]),
        (b"[mine]", b"[Mine]", [
            "[Mine]: a name must be small letters, digits, '.', '_' and '-', beginning with a letter"
        ]),
        (b"[mine]", b"[nginx]", ["[nginx]: iolab's registry has that name: use another"]),
        (b"[mine]\n", b"", [
            f"{key}: belongs to a server: write [NAME] above it" for key in ("about", "protocols", "start", "install")
        ]),
        (b"install =", b"instal =", [
            '[mine] install: is missing: write install = "apt-get install mine"',
            "[mine] instal: there is no such key here: did you mean 'install'?",
        ]),
        (b'"http"', b'"htp"', ["[mine] protocols[1]: must be 'http', 'echo', 'line' or 'rpc', not 'htp'"]),
        (b'["mine", "{port}"]', b'"mine {port}"', [
            """[mine] start: must be a list, as in ["./mine", "--port", "{port}"], not 'mine {port}'"""
        ]),
        (b'"{port}"', b'"{prot}"', [
            "[mine] start: there is no {prot}: did you mean 'port'?",
            "[mine] start: does not say where the port goes: write {port} there, in environment or in one of files",
        ]),
        (b"install =", b'version = ["mine", "{port}"]\ninstall =', [
            "[mine] version: there is no {port}: use one of folder, contestants, built, python"
        ]),
        (b"install =", b'settings = ["workers"]\ninstall =', [
            "[mine] settings: workers does not reach the server: write {workers} in start, environment or files"
        ]),
        (b"install =", b"at_most = { workers = 2 }\ninstall =", [
            "[mine] at_most.workers: is not among settings: add it there, or leave it out"
        ]),
        (b"install =", b'options = { port = ["1"], wait = ["poll"] }\ninstall =', [
            "[mine] options.port: {port} is filled in by iolab already: use another name",
            "[mine] options.wait: does not reach the server: write {wait} in start, environment or files",
        ]),
        (b"install =", b'files = ["a.conf"]\ninstall =', [
            "[mine] files: {folder}/mine/a.conf cannot be read: create it, or leave it out"
        ]),
        (b"install =", b'files = ["a.conf", "b/a.conf"]\ninstall =', [
            "[mine] files: {folder}/mine/a.conf cannot be read: create it, or leave it out",
            "[mine] files: {folder}/mine/b/a.conf cannot be read: create it, or leave it out",
            "[mine] files: two of them are called a.conf, and a start copies both into one folder: rename one",
        ]),
        (b"install =", b'options = { cached = { least = 5, most = 3, default = 4 } }\ninstall =', [
            "[mine] options.cached.default: 4 is not from 5 to 3: use one that is"
        ]),
        (b"install =", b'options = { cached = { least = 1, most = "x" } }\ninstall =', [
            "[mine] options.cached.most: must be a whole number, not 'x'",
            "[mine] options.cached.default: is missing: write default = 10000",
        ]),
        (b"install =", b'options = { wait = "poll" }\ninstall =', [
            """[mine] options.wait: must be a list, as in ["select", "poll"], not 'poll'"""
        ]),
        (b"install =", b'folder = "python"\ninstall =', [
            "[mine] folder: {folder}/python does not exist: create it, or leave folder out"
        ]),
        (b"install =", b'ready = "now"\ninstall =', ["[mine] ready: must be 'port' or 'line', not 'now'"]),
        (b"install =", b'settings = ["sockets", "interpreter"]\ninstall =', [
            "[mine] settings: sockets does not reach the server: write {sockets} in start, environment or files",
            "[mine] settings: sockets needs a server that says its addresses: "
            'print a ready line, and write ready = "line"',
            "[mine] settings: interpreter does not reach the server: write {python} in start, environment or files",
            "[mine] settings: interpreter needs a server that says its interpreter: "
            'print a ready line, and write ready = "line"',
        ]),
        (b"install =", b'packages = ["tornado"]\ninstall =', [
            "[mine] packages: no interpreter imports them: write {python} in start"
        ]),
        (b"install =", b'packages = ["tor nado"]\ninstall =', [
            "[mine] packages[1]: must be of the form ^[A-Za-z_][A-Za-z0-9_.]*$, not 'tor nado'"
        ]),
        (b"install =", b'version = ["a"]\ncrates = ["a"]\ninstall =', [
            "[mine] crates: the version is asked for twice: keep version or crates"
        ]),
    ],
)  # fmt: skip
def test_each_mistake_in_a_users_registry_is_one_line_with_its_key(
    old: bytes, new: bytes, lines: list[str], tmp_path: Path
) -> None:
    check(LEAST.replace(old, new, 1), [line.replace("{folder}", str(tmp_path)) for line in lines], tmp_path)


def test_a_server_that_is_called_like_a_model_is_refused(fake: Engine, folder: Path) -> None:
    (folder / "contestants.toml").write_text(MINE.replace("[mine]", "[thread]"))
    (folder / "mine").rename(folder / "thread")
    done = vs(folder, "epoll", "io_uring")
    assert done.exit_code == 2
    assert done.stderr == f"iolab vs: {folder}/contestants.toml: [thread]: is a model of the engine: use another name\n"


def test_no_server_of_ours_is_called_like_a_model_and_each_can_be_asked_for_its_settings() -> None:
    models = re.search(r"^models! \{([^}]*)\}", (ROOT / "crates/models/src/lib.rs").read_text(), re.MULTILINE)
    assert models
    ours = registry.load()
    registry.refuse_names_of(re.findall(r"(\w+)(?: \(only \w+\))?", models[1]), ours)
    for name, server in ours.items():
        for protocol in server.entry.protocols:
            assert (
                registry.refusal(server, vs_plan(["epoll", name], {"protocol": protocol}).comparisons[0].cells[1]) == ""
            )
        assert not server.entry.build or server.folder.is_dir(), f"{name} is built, and has no folder"
        assert server.folder.is_dir()


def test_every_setting_of_a_server_is_one_of_a_cell_or_of_a_workload() -> None:
    fields = {key for kind in (Server, *WORKLOADS.values()) for key in kind.model_fields}
    assert set(get_args(registry.Takes)) <= set(registry.SETTINGS) <= fields
    assert set(get_args(registry.Takes)) < set(registry.PLACEHOLDERS)


@pytest.mark.parametrize("options", ["", "[serve=threading]", "[backlog=4096,serve=single]"])
def test_http_server_of_python_answers_the_body_that_is_asked_for(options: str) -> None:
    if shutil.which("python3") is None:
        pytest.skip("python3 is not installed")
    cell = Cell.model_validate(
        {"contestant": f"python-http{options}", "workload": {"protocol": "http", "reply_bytes": 161}}
    )
    server = contestants.start(cell, None, {"python-http": registered.prepare(registry.load()["python-http"])})
    try:
        with urllib.request.urlopen(f"http://{server.addresses[0]}/") as reply:
            assert reply.read() == b"x" * 161
    finally:
        server.stop()


@pytest.mark.parametrize(("workers", "body"), [(1, 1), (2, 100)])
def test_nginx_answers_the_body_that_is_asked_for(workers: int, body: int) -> None:
    # The tests above do the same with a server in Python.
    if shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin") is None:
        pytest.skip("nginx is not installed")
    values = {
        "contestant": "nginx",
        "workload": {"protocol": "http", "reply_bytes": body},
        "server": {"workers": workers},
    }
    server = contestants.start(
        Cell.model_validate(values), None, {"nginx": registered.prepare(registry.load()["nginx"])}
    )
    try:
        with urllib.request.urlopen(f"http://{server.addresses[0]}/") as reply:
            assert reply.read() == b"x" * body
    finally:
        server.stop()


@pytest.mark.parametrize(("value", "said"), [("7", ""), ("0", "mine has no cached=0: it has 3, 1 to 9"), ("x", "mine")])
def test_a_numeric_option_is_held_to_its_limits(
    folder: Path, monkeypatch: pytest.MonkeyPatch, value: str, said: str
) -> None:
    # The programs of no other server are found, and so none is asked for its version.
    monkeypatch.setenv("PATH", str(folder))
    option = 'cached = { least = 1, most = 9, default = 3 }, wait = ["select"'
    text = MINE.replace('wait = ["select"', option).replace('WAIT = "{wait}"', 'WAIT = "{wait} {cached}"')
    (folder / "contestants.toml").write_text(text)
    mine = registry.load(folder / "contestants.toml")["mine"]
    cell = vs_plan(["epoll", f"mine[cached={value}]"], {"protocol": "echo"}).comparisons[0].cells[1]
    assert registry.refusal(mine, cell).startswith(said)
    assert bool(registry.refusal(mine, cell)) is bool(said)
    assert mine.defaults == {"cached": "3", "wait": "select"}
    assert mine.chosen(cell.contestant)["cached"] == value
    assert "[cached=3, 1 to 9]" in iolab("list", "contestants").stdout


def test_what_is_in_the_folder_of_a_server_is_executed_too(folder: Path) -> None:
    loaded = folder / "mine/loaded.py"
    loaded.write_text("")
    mine = registry.load(folder / "contestants.toml")["mine"]
    assert str(loaded) in registered.prepare(mine).executed()


def test_a_server_that_lacks_a_package_is_left_out_with_what_installs_it(folder: Path) -> None:
    text = MINE.replace("start = [", 'packages = ["no_such_package"]\nstart = [', 1)
    text = text.replace("print('mine version: 1.2')", "import no_such_package")
    (folder / "contestants.toml").write_text(text.replace('"{port}"]', '"{port}", "{python}"]'))
    known = registry.load(folder / "contestants.toml")
    plan = vs_plan(["mine", "epoll"], {"protocol": "echo"})
    ready = {"mine": registered.prepare(known["mine"])}
    left_out = contestants.left_out(plan, {}, needs.here(), ready)
    assert left_out[0, 0].kind == "unavailable"
    assert left_out[0, 0].message.startswith("python3 cannot import no_such_package (ModuleNotFoundError: ")
    assert left_out[0, 0].message.endswith(": install mine")
