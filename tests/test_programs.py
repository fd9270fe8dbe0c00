"""Executed files: which files of a command count, and the report of changes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from iolab.measure import programs


@pytest.mark.parametrize(
    ("words", "counted"),
    [
        (["./mine", "--port", "0"], {"./mine"}),
        (["./mine", "server.py", "absent.py"], {"./mine", "server.py"}),
        (["./mine", "--config=mine.conf"], {"./mine", "mine.conf"}),
        (["./mine", "-c", "exec ./link 0"], {"./mine", "./link"}),
        (["./mine", "folder", "pipe", "", "a\0b", "x" * 5_000], {"./mine"}),
        (["./absent", "server.py"], {"server.py"}),
        (["sh", "server.py"], {"sh", "server.py"}),
    ],
)
def test_the_program_and_every_file_that_a_word_names_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], counted: set[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("mine", "server.py", "mine.conf"):
        Path(name).write_text(name)
    Path("mine").chmod(0o755)
    Path("link").symlink_to("mine")
    Path("folder").mkdir()
    os.mkfifo("pipe")
    assert set(programs.of_command(words)) == counted


def test_a_digest_is_that_of_the_file_behind_a_link_and_of_a_long_file_its_size_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "FILE_BYTES_MAX", 4)
    one, other, link = tmp_path / "one", tmp_path / "other", tmp_path / "link"
    one.write_text("abcd")
    other.write_text("abcdefgh")
    link.symlink_to(one)
    assert programs.digest(link) == programs.digest(one)
    assert programs.digest(other) != programs.digest(one)


def test_a_process_is_known_by_its_start_its_program_and_its_files(tmp_path: Path) -> None:
    server = tmp_path / "server.py"
    server.write_text("import sys; print(flush=True); sys.stdin.read()")

    def started() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-S", "server.py"]
        return subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    with started() as one, started() as two:
        for each in (one, two):
            assert each.stdout is not None
            assert each.stdout.readline() == b"\n", "its program runs"
        first, second = programs.of_process(one.pid), programs.of_process(two.pid)
        again = programs.of_process(one.pid)
    assert first == again
    assert first["files"] == second["files"]
    assert first["files"] == programs.of_command([sys.executable]) | {"server.py": programs.digest(server)}
    assert programs.changes({"server": first}, {"server": second}) == (
        f"another process is the server now (process {two.pid}, before process {one.pid})"
    )


FILES = {"./mine": "1", "a.conf": "1", "out.log": "1"}


@pytest.mark.parametrize(
    ("now", "written"),
    [
        (FILES, set()),
        (FILES | {"out.log": "2"}, {"out.log"}),
        (FILES | {"mine.pid": "1"}, {"mine.pid"}),
        ({"./mine": "1", "a.conf": "1"}, {"out.log"}),
        # A program does not write itself, so it was rebuilt.
        (FILES | {"./mine": "2"}, set()),
    ],
)
def test_a_file_that_a_first_run_changes_is_written_by_the_server_and_counts_no_more(
    now: dict[str, str], written: set[str]
) -> None:
    settled = programs.settled(FILES, now)
    assert {name for name, digest in settled.items() if digest == programs.WRITTEN} == written
    assert {name: settled[name] for name in FILES.keys() - written} == {n: FILES[n] for n in FILES.keys() - written}
    later = {name: "9" if name in written else digest for name, digest in now.items()}
    said = "./mine has changed" if now["./mine"] == "2" else ""
    assert programs.changes({"programs": {"cmd": settled}}, {"programs": {"cmd": later}}) == said
    assert programs.with_known(FILES, settled) == FILES | dict.fromkeys(written, programs.WRITTEN)


SERVER = {"pid": 1, "started": "then", "files": {"./mine": "1"}}


def test_a_file_is_read_again_only_when_it_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mine"
    file.write_text("one")
    one = programs.digest(file)
    about = file.stat()
    file.write_text("three")
    assert programs.digest(file) != one
    # The old content and the old times in a new file, as after `cp --archive`.
    (tmp_path / "other").write_text("one")
    os.utime(tmp_path / "other", ns=(about.st_atime_ns, about.st_mtime_ns))
    (tmp_path / "other").replace(file)
    assert programs.digest(file) == one
    reads: list[Path] = []
    monkeypatch.setattr(Path, "open", lambda path, *_, **__: reads.append(path))
    assert programs.digest(file) == one
    assert reads == []


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ({"engine": "a"}, {"engine": "a"}, ""),
        ({"engine": "a"}, {"engine": "b"}, "engine was a, and is b now"),
        ({}, {"programs": {"cmd": {"m": "1"}}}, "it is not known which programs the earlier run measured"),
        ({"programs": {"cmd": {"m": "1"}}}, {"programs": {"cmd": {"m": "2"}}}, "m has changed"),
        ({"server": None}, {"server": None}, ""),
        ({}, {"server": None}, ""),
        ({"server": None}, {"server": SERVER}, "the server's process was not known, and is process 1 now"),
        ({"server": SERVER}, {"server": SERVER | {"files": {"./mine": "2"}}}, "./mine has changed"),
        (
            {"server": SERVER},
            {"server": SERVER | {"started": "now"}},
            "process 1 was started again",
        ),
        ({"server": SERVER}, {"server": SERVER | {"started": programs.GONE, "files": {}}}, "process 1 has ended"),
    ],
)
def test_what_has_changed_since_an_earlier_run_is_one_line(
    before: dict[str, Any], now: dict[str, Any], said: str
) -> None:
    assert programs.changes(before, now) == said
