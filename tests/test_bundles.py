"""`iolab bundle` and `iolab verify`: the same run gives the same bytes, and any altered byte is found."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import struct
import tarfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import iolab
from iolab import bundles
from iolab.errors import BadInput
from iolab.results import layout

STORED = Path(__file__).parent / "golden/stored"
RUNS = sorted(STORED.iterdir())
Edit = Callable[[dict[str, bytes]], None]


@pytest.fixture(scope="module", params=RUNS, ids=[run.name.partition("-")[0] for run in RUNS])
def packed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of each kind of run."""
    return bundles.write(request.param, tmp_path_factory.mktemp("bundle") / "it.tar.gz").path


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of a comparison."""
    (run,) = STORED.glob("vs-*")
    return bundles.write(run, tmp_path_factory.mktemp("comparison") / "it.tar.gz").path


def content_of(path: Path) -> tuple[str, dict[str, bytes]]:
    """The folder and the files of a bundle, read with tarfile."""
    with tarfile.open(path) as tar:
        members = tar.getmembers()
        files = {member.name.partition("/")[2]: tar.extractfile(member) for member in members}
        return members[0].name.partition("/")[0], {name: file.read() for name, file in files.items() if file}


def check(bundle: Path, tmp_path: Path, edit: Edit, *differences: str) -> None:
    """Edits a bundle's files but not its manifest, and expects exactly these differences."""
    folder, files = content_of(bundle)
    edit(files)
    altered = tmp_path / "altered.tar.gz"
    altered.write_bytes(bundles._packed(folder, files))
    found = bundles.verify(altered).differences
    assert len(found) == len(differences), found
    assert all(re.match(said, line) for said, line in zip(differences, found, strict=True)), found
    done = iolab("verify", altered)
    assert (done.exit_code, done.stderr) == (1, "")
    assert [line.removeprefix("differs: ") for line in done.stdout.splitlines()] == list(found)


def with_manifest(files: dict[str, bytes], **changes: Any) -> None:
    """Rewrites the manifest for the current files, as a forger would."""
    manifest = bundles._manifest_of(files.pop(bundles.MANIFEST))
    sums = {name: bundles._sum(content) for name, content in sorted(files.items())}
    files[bundles.MANIFEST] = bundles._manifest_text(manifest.model_copy(update={"files": sums, **changes}))


def test_a_bundle_that_was_not_touched_is_verified(packed: Path) -> None:
    done = iolab("verify", packed)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "the same byte for byte" in done.stdout


def test_a_bundle_has_the_record_the_report_the_commands_and_the_versions(comparison: Path) -> None:
    (run,) = STORED.glob("vs-*")
    folder, files = content_of(comparison)
    record = {path.name: path.read_bytes() for path in run.iterdir()}
    assert folder == run.name
    assert {name: files[name] for name in record} == record
    assert set(files) == {*record, bundles.MANIFEST, bundles.COMMANDS, layout.REPORT}
    manifest = json.loads(files[bundles.MANIFEST])
    assert manifest["engine"] == json.loads(record[layout.MACHINE])["engine"]
    assert manifest["made_by"]["libraries"].keys() == set(bundles.LIBRARIES)
    for name, said in manifest["files"].items():
        assert said == {"bytes": len(files[name]), "sha256": hashlib.sha256(files[name]).hexdigest()}
    assert b"iolab vs epoll thread --protocol echo" in files[bundles.COMMANDS]
    assert b"iolab serve --model thread" in files[bundles.COMMANDS]


def test_the_same_run_gives_the_same_bytes_in_any_folder(packed: Path, tmp_path: Path) -> None:
    run = next(run for run in RUNS if run.name == content_of(packed)[0])
    copy = Path(shutil.copytree(run, tmp_path / "elsewhere" / run.name))
    for name in (layout.REPORT, layout.SUMMARY, ".trials.jsonl.abc", "notes.txt"):
        (copy / name).write_text("what is no part of the record")
    done = iolab("bundle", copy, "-o", tmp_path / "again.tar.gz")
    assert (done.exit_code, done.stderr) == (0, "")
    again = (tmp_path / "again.tar.gz").read_bytes()
    assert again == packed.read_bytes()
    assert done.stdout == f"{tmp_path / 'again.tar.gz'}: SHA-256 {hashlib.sha256(again).hexdigest()}\n"


@settings(max_examples=300)
@given(st.data())
def test_one_altered_byte_of_any_file_is_found(comparison: Path, data: st.DataObject) -> None:
    """The report is not rendered here: the checksums alone find the change."""
    _, files = content_of(comparison)
    name = data.draw(st.sampled_from(sorted(files)))
    place = data.draw(st.integers(0, len(files[name]) - 1))
    altered = bytearray(files[name])
    altered[place] ^= data.draw(st.integers(1, 255))
    files[name] = bytes(altered)
    if name == bundles.MANIFEST:
        with pytest.raises(bundles.Unreadable):
            bundles._manifest_of(files[name])
    else:
        manifest = bundles._manifest_of(files.pop(bundles.MANIFEST))
        said = f"{name} was altered: its SHA-256 is not the one in the manifest"
        assert list(bundles._sums_that_differ(manifest, files)) == [said]


@settings(max_examples=300)
@given(st.data())
def test_one_altered_byte_of_the_tar_file_around_them_is_found(comparison: Path, data: st.DataObject) -> None:
    content = bytearray(zlib.decompress(comparison.read_bytes(), wbits=31))
    whole = bundles._members(bytes(content))
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    with suppress(bundles.Unreadable):
        assert bundles._members(bytes(content)) != whole


@settings(max_examples=300)
@given(st.data())
def test_one_altered_byte_of_the_archive_changes_nothing_or_is_found(comparison: Path, data: st.DataObject) -> None:
    """A few bits of deflate are padding: changing them leaves the content the same."""
    packed = bytearray(comparison.read_bytes())
    whole = bundles._content(bytes(packed))
    place = data.draw(st.integers(0, len(packed) - 1))
    packed[place] ^= data.draw(st.integers(1, 255))
    with suppress(bundles.Unreadable):
        assert bundles._content(bytes(packed)) == whole


def flip(name: str) -> Edit:
    """Alters a byte in the middle of a file."""

    def edit(files: dict[str, bytes]) -> None:
        content = bytearray(files[name])
        content[len(content) // 2] ^= 1
        files[name] = bytes(content)

    return edit


ALTERED = "{} was altered: its SHA-256 is not the one in the manifest$"


def test_an_altered_report_or_command_is_not_what_the_record_gives(comparison: Path, tmp_path: Path) -> None:
    for name in bundles.MADE:
        check(comparison, tmp_path, flip(name), ALTERED.format(name), f"{name} is not what this record gives$")


def test_an_altered_trial_breaks_its_own_checksum_too(comparison: Path, tmp_path: Path) -> None:
    check(
        comparison,
        tmp_path,
        flip(layout.TRIALS),
        ALTERED.format(layout.TRIALS),
        r"trials.jsonl: line \d is torn or altered \(its checksum does not fit\)$",
        "report.html is not what this record gives$",
    )


def test_a_record_that_was_altered_with_all_its_checksums_gives_another_report(
    comparison: Path, tmp_path: Path
) -> None:
    def edit(files: dict[str, bytes]) -> None:
        plan = files[layout.PLAN]
        files[layout.PLAN] = plan.replace(b"epoll or thread?", b"Which is faster?")
        assert files[layout.PLAN] != plan
        with_manifest(files)

    check(comparison, tmp_path, edit, "report.html is not what this record gives$")


def test_a_report_of_another_version_is_named_as_one(comparison: Path, tmp_path: Path) -> None:
    other = bundles.maker().model_copy(
        update={"iolab": "0.0.9", "libraries": {**bundles.maker().libraries, "numpy": "1"}}
    )

    def edit(files: dict[str, bytes]) -> None:
        files[layout.REPORT] += b"\n"
        with_manifest(files, made_by=other)

    folder, files = content_of(comparison)
    with_manifest(files, made_by=other)
    (tmp_path / "other.tar.gz").write_bytes(bundles._packed(folder, files))
    done = iolab("verify", tmp_path / "other.tar.gz")
    assert done.exit_code == 0
    assert "They were made by iolab 0.0.9" in done.stdout
    edit(files)
    (tmp_path / "other.tar.gz").write_bytes(bundles._packed(folder, files))
    (difference,) = bundles.verify(tmp_path / "other.tar.gz").differences
    assert difference.startswith("report.html was made by iolab 0.0.9 (code ")
    assert ", with numpy 1; iolab " in difference


def test_what_a_bundle_says_does_not_reach_the_terminal_as_it_is(comparison: Path, tmp_path: Path) -> None:
    folder, files = content_of(comparison)
    with_manifest(files, made_by=bundles.maker().model_copy(update={"iolab": "\x1b[2J"}))
    path = tmp_path / "it.tar.gz"
    path.write_bytes(bundles._packed(folder, files))
    done = iolab("verify", path)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "They were made by iolab \ufffd[2J (code" in done.stdout


def test_a_file_that_is_missing_or_added_is_named(comparison: Path, tmp_path: Path) -> None:
    def edit(files: dict[str, bytes]) -> None:
        del files[layout.COUNTS]
        files["more.json"] = b"{}"

    # All trials of this run are discarded, so its report has no costs.
    check(comparison, tmp_path, edit, "costs.jsonl is missing$", "more.json is not in the manifest$")


def test_a_record_that_cannot_be_read_says_why(comparison: Path, tmp_path: Path) -> None:
    def edit(files: dict[str, bytes]) -> None:
        del files[layout.PLAN]
        with_manifest(files)

    check(comparison, tmp_path, edit, "no report can be made of this record: plan.json: cannot be read: No such file")


def in_gzip(tar_file: bytes) -> bytes:
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    end = struct.pack("<II", zlib.crc32(tar_file), len(tar_file) & 0xFFFFFFFF)
    return bundles.GZIP + deflate.compress(tar_file) + deflate.flush() + end


def archive(*members: tuple[str, bytes], kind: bytes = tarfile.REGTYPE) -> bytes:
    """An archive as another program might write it."""
    text = io.BytesIO()
    with tarfile.open(fileobj=text, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size, member.type, member.mode = len(content), kind, 0o644
            member.linkname = "" if kind == tarfile.REGTYPE else "/etc/passwd"
            tar.addfile(member, io.BytesIO(content))
    return in_gzip(text.getvalue())


def with_size(size: bytes) -> bytes:
    """An archive with this text in the size field of its only header."""
    header = bytearray(bundles._tar("run", {"plan.json": b""}))
    header[124:135] = size
    return in_gzip(bytes(header))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it does not begin as one"),
        (b"PK\x03\x04", "it does not begin as one"),
        (bundles.GZIP + b"\xff" * 100, "it is damaged"),
        (archive(("run/plan.json", b"{}")) + b"more", "it is damaged, or something follows its end"),
        (archive(("run/plan.json", b"{}"))[:-1], "it is damaged, or something follows its end"),
        (archive(("run/plan.json", b"{}")), "manifest.json is not one of this version of iolab"),
        (archive(("../plan.json", b"{}")), "its list of files is not one of iolab's"),
        (archive(("/etc/plan.json", b"{}")), "its list of files is not one of iolab's"),
        (archive(("run/../../plan.json", b"{}")), "its list of files is not one of iolab's"),
        (archive(("run/plan.json", b"{}"), ("other/trials.jsonl", b"")), "its list of files is damaged"),
        (archive(("run/plan.json", b"{}"), ("run/plan.json", b"{}")), "its list of files is not one of iolab's"),
        (archive(("run/plan.json", b""), kind=tarfile.SYMTYPE), "its list of files is not one of iolab's"),
        (archive(("run/plan.json", b""), kind=tarfile.LNKTYPE), "its list of files is not one of iolab's"),
        (archive(("run/manifest.json", b"[" * 100_000)), "manifest.json is not one of this version of iolab"),
        (archive(), "its list of files is damaged"),
        # A size below 0 would lead back to the same header for ever.
        (with_size(b"-0000001000"), "its list of files is damaged"),
        (with_size(b"0000000_000"), "its list of files is damaged"),
    ],
)
def test_what_is_no_bundle_is_refused_in_one_line(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "it.tar.gz"
    path.write_bytes(content)
    done = iolab("verify", path)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == f"iolab verify: {path}: is not a complete bundle: {said}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["it.tar.gz"]


def test_a_bundle_that_grows_beyond_the_limit_is_refused(
    comparison: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundles, "CONTENT_BYTES_MAX", 1 << 14)
    path = tmp_path / "it.tar.gz"
    path.write_bytes(archive(("run/plan.json", b" " * (1 << 20))))
    with pytest.raises(BadInput, match="its content is larger than"):
        bundles.verify(path)
    done = iolab("bundle", next(STORED.glob("vs-*")), "-o", tmp_path / "large.tar.gz")
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert "are too many for a bundle" in done.stderr


def test_a_run_with_a_torn_line_is_bundled_and_both_commands_say_so(tmp_path: Path) -> None:
    (stored,) = STORED.glob("vs-*")
    run = Path(shutil.copytree(stored, tmp_path / stored.name))
    (run / layout.TRIALS).write_bytes((run / layout.TRIALS).read_bytes()[:-9])
    path = tmp_path / "it.tar.gz"
    said = "trials.jsonl: line 7 is torn or altered (its checksum does not fit)"
    done = iolab("bundle", run, "-o", path)
    assert (done.exit_code, done.stderr) == (0, f"iolab bundle: {said}: iolab verify will say so too\n")
    done = iolab("verify", path)
    assert (done.exit_code, done.stdout) == (1, f"differs: {said}\n")


def test_a_bundle_that_cannot_be_written_or_read_is_one_line(tmp_path: Path) -> None:
    done = iolab("bundle", next(STORED.glob("vs-*")), "-o", tmp_path / "nowhere/it.tar.gz")
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    done = iolab("verify", tmp_path / "nowhere.tar.gz")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "No such file or directory" in done.stderr


def test_a_pipe_or_a_device_is_not_replaced_by_a_bundle(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    done = iolab("bundle", next(STORED.glob("vs-*")), "-o", pipe)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == f"iolab: {pipe}: cannot be written: it is no regular file: name another file\n"
    assert pipe.is_fifo()


def test_the_name_of_a_run_unpacks_on_any_system() -> None:
    for name, folder in (("vs-1", "vs-1"), ("my run/ü", "my_run__"), ("..", "run"), ("a" * 200, "a" * 80)):
        assert bundles._folder_name(name) == folder
        assert bundles.FOLDER.fullmatch(folder)
