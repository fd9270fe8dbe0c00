"""Writes a run as one file to share, and checks such files: `iolab bundle` and `iolab verify`.

    vs-0123456789abcdef/  manifest.json  machine.json  plan.json  trials.jsonl  …  commands.txt  report.html

The archive is a gzipped tar file. It does not depend on the time, place or user: the same run and the same iolab give
the same bytes. The manifest lists a SHA-256 for each file, itself included, and names the iolab version that made the
report. Checksums detect damage and careless changes, but not forgery, because a forger can write new checksums: compare
the digest of the file with one you got in another way.

A bundle is untrusted input: only its record is written, to a temporary folder, under checked names and below a size
limit, to make the report again.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import re
import shlex
import struct
import tarfile
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field, ValidationError

from iolab import report, runs
from iolab.capacity.export import command
from iolab.capacity.records import read_spec
from iolab.contract.types import Frozen
from iolab.errors import BadInput, IolabError, StoreError
from iolab.judge import results
from iolab.plan.plan import Plan
from iolab.report import capacity, commands
from iolab.results import layout, store
from iolab.results.files import unread, write_bytes

MANIFEST, COMMANDS = "manifest.json", "commands.txt"
# The files made from the record, and made again to verify a bundle.
MADE = (COMMANDS, layout.REPORT)
# The files of a record. Other files in a run's folder are not bundled.
RECORD = re.compile(r"[a-z][a-z0-9_-]{0,39}\.jsonl?")
# The folder in the archive: the name of the run, in characters that any system accepts.
FOLDER = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,79}")
# A record may take half of this. A trial takes some 20 KiB, so that is room for 6,000.
CONTENT_BYTES_MAX = 256 << 20
BLOCK = 512
# The gzip header without a time or a name: deflate, best compression, Unix.
GZIP = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03"
# The libraries that affect verdicts and reports.
LIBRARIES = ("altair", "jinja2", "markupsafe", "numpy", "pydantic", "scipy", "vl-convert-python")

Files = Mapping[str, bytes]


class Maker(Frozen):
    """The iolab that made a report: its version, a digest of its code, and the versions of Python and libraries."""

    iolab: str
    code: str
    python: str
    libraries: dict[str, str]

    def __str__(self) -> str:
        return f"iolab {self.iolab} (code {self.code}, Python {self.python})"


class Sum(Frozen):
    """The size and the SHA-256 of a file."""

    bytes: int = Field(ge=0)
    sha256: str


class Manifest(Frozen):
    """The contents of a bundle. `engine` is the measuring engine by the record, None if the record lacks it."""

    schema_: Literal[1] = Field(default=1, alias="schema")
    run: str = Field(pattern=FOLDER.pattern)
    made_by: Maker
    engine: dict[str, Any] | None
    files: dict[str, Sum]


class Bundle(NamedTuple):
    """A written bundle: its file, that file's SHA-256, and a sentence on each lost line of the record."""

    path: Path
    sha256: str
    faults: tuple[str, ...]


class Verified(NamedTuple):
    """A checked bundle, and a sentence on each fault."""

    manifest: Manifest
    differences: tuple[str, ...]

    @property
    def is_of_this_version(self) -> bool:
        """Whether the report was made by the same iolab, Python and libraries."""
        return self.manifest.made_by == maker()


class Unreadable(BadInput):
    """A file is not a bundle, or too damaged to trust any of it."""


def write(folder: Path, path: Path | None = None) -> Bundle:
    """Bundles a stored run into a file, by default RUN.tar.gz in the working directory; raises StoreError."""
    record = _record_of(folder)
    made, faults = _made_from(record)
    files = {**record, **made}
    name = _folder_name(folder.resolve().name)
    engine = store.read_machine(folder).get("engine")
    manifest = Manifest(
        run=name,
        made_by=maker(),
        engine=engine if isinstance(engine, dict) else None,
        files={name: _sum(content) for name, content in sorted(files.items())},
    )
    packed = _packed(name, {MANIFEST: _manifest_text(manifest), **files})
    path = Path(f"{name}.tar.gz") if path is None else path
    write_bytes(path, packed)
    return Bundle(path, hashlib.sha256(packed).hexdigest(), faults)


def verify(path: Path) -> Verified:
    """Checks every checksum of a bundle, including its journals', and makes its report again; raises Unreadable."""
    manifest, files = _unpacked(path)
    differences = [*_sums_that_differ(manifest, files)]
    record = {name: content for name, content in files.items() if name not in MADE}
    try:
        made, faults = _made_from(record)
    except Exception as error:  # a forged record can break any assumption of the code that judges and draws it
        why = str(error) if isinstance(error, IolabError) else repr(error)
        return Verified(manifest, (*differences, f"no report can be made of this record: {_one_line(why)}"))
    differences += (fault.partition(";")[0] for fault in faults)
    for name in MADE:
        if files.get(name) != made[name]:
            differences.append(_made_otherwise(name, manifest))
    return Verified(manifest, tuple(differences))


def maker() -> Maker:
    """This iolab."""
    libraries = {name: metadata.version(name) for name in LIBRARIES}
    return Maker(
        iolab=metadata.version("iolab"),
        code=runs.code_digest().hex()[:16],
        python=platform.python_version(),
        libraries=libraries,
    )


def _record_of(folder: Path) -> dict[str, bytes]:
    """The record of a run, read once, so a run that is still going on is bundled as it was."""
    try:
        record = {
            path.name: path.read_bytes()
            for path in sorted(folder.iterdir())
            if RECORD.fullmatch(path.name) and path.name not in runs.MADE and path.is_file()
        }
    except OSError as error:
        raise unread(folder, error) from error
    size = sum(map(len, record.values()))
    if size > CONTENT_BYTES_MAX // 2:
        raise StoreError(f"{folder}: {size:,} bytes are too many for a bundle: archive the folder with tar")
    return record


def _made_from(record: Files) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """The files made from a record, and a sentence on each torn or altered line; raises StoreError."""
    with tempfile.TemporaryDirectory(prefix="iolab-") as scratch:
        folder = Path(scratch)
        for name, content in record.items():
            (folder / name).write_bytes(content)
        try:
            page, text, faults = _capacity_of(folder) if runs.is_capacity(folder) else _comparison_of(folder)
        except StoreError as error:
            raise StoreError(str(error).replace(f"{folder}/", "")) from None
    return {layout.REPORT: page.encode(), COMMANDS: text.encode()}, faults


def _comparison_of(folder: Path) -> tuple[str, str, tuple[str, ...]]:
    """The report of a comparison or an experiment, its commands, and a sentence on each lost line."""
    found = results.read(folder)
    return report.render(found), "".join(_commands(found.plan, found.machine)), found.faults


def _capacity_of(folder: Path) -> tuple[str, str, tuple[str, ...]]:
    """The same for a search for a capacity."""
    page, faults = capacity.page_of(folder)
    return page, _capacity_commands(folder), faults


def _commands(plan: Plan, machine: Mapping[str, Any]) -> Iterator[str]:
    """The command that repeats the run, then those to run each contestant of each comparison by hand."""
    yield f"# the whole run\n{shlex.join(commands.again(plan))}\n"
    for index, comparison in enumerate(plan.comparisons):
        for each in commands.by_hand(plan, index, machine):
            yield f"\n# {_one_line(f'{comparison.name}: {each.title}')}\n{shlex.join(each.server)}\n"
            yield f"{shlex.join(each.load)}\n" if each.load else ""


def _capacity_commands(folder: Path) -> str:
    words = command(read_spec(folder))
    return f"# the other settings are in {layout.QUESTION}\n{shlex.join(words)}\n"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _folder_name(name: str) -> str:
    """The name of a run in characters that any system accepts."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".")[:80] or "run"


def _sum(content: bytes) -> Sum:
    return Sum(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())


def _manifest_text(manifest: Manifest) -> bytes:
    """The canonical text of the manifest, with its own checksum as the last field."""
    document = manifest.model_dump(mode="json")
    text = json.dumps(document, indent=2)
    checksum = hashlib.sha256(text.encode()).hexdigest()
    return (json.dumps({**document, "sha256": checksum}, indent=2) + "\n").encode()


def _manifest_of(text: bytes) -> Manifest:
    try:
        document = json.loads(text)
        del document["sha256"]
        manifest = Manifest.model_validate(document)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, ValidationError):
        raise Unreadable(f"{MANIFEST} is not one of this version of iolab") from None
    if _manifest_text(manifest) != text:
        raise Unreadable(f"{MANIFEST} was altered: its checksum does not fit")
    return manifest


def _sums_that_differ(manifest: Manifest, files: Files) -> Iterator[str]:
    for name in sorted({*manifest.files, *files}):
        if name not in files:
            yield f"{name} is missing"
        elif name not in manifest.files:
            yield f"{name} is not in the manifest"
        elif _sum(files[name]) != manifest.files[name]:
            yield f"{name} was altered: its SHA-256 is not the one in the manifest"


def _made_otherwise(name: str, manifest: Manifest) -> str:
    """A sentence on a file that the record does not give, with the versions if they differ."""
    ours = maker()
    if manifest.made_by == ours:
        return f"{name} is not what this record gives"
    libraries = manifest.made_by.libraries
    others = [f"{key} {libraries.get(key)}" for key, found in ours.libraries.items() if libraries.get(key) != found]
    more = f", with {', '.join(others)}" if others else ""
    return f"{name} was made by {manifest.made_by}{more}; {ours} makes another one from this record"


def _packed(folder: str, files: Files) -> bytes:
    tar = _tar(folder, files)
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = deflate.compress(tar) + deflate.flush()
    return GZIP + body + struct.pack("<II", zlib.crc32(tar), len(tar) & 0xFFFFFFFF)


def _tar(folder: str, files: Files) -> bytes:
    """The files as a tar file: the manifest, then the others by name, without user and time."""
    text = io.BytesIO()
    with tarfile.open(fileobj=text, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(files, key=lambda name: (name != MANIFEST, name)):
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size, member.mode = len(files[name]), 0o644
            tar.addfile(member, io.BytesIO(files[name]))
    return text.getvalue()


def _unpacked(path: Path) -> tuple[Manifest, dict[str, bytes]]:
    """The manifest of a bundle, and its other files by name; raises Unreadable."""
    try:
        with path.open("rb") as file:
            packed = file.read(CONTENT_BYTES_MAX + 1)
        folder, files = _members(_content(packed))
        manifest = _manifest_of(files.pop(MANIFEST, b""))
    except OSError as error:
        raise Unreadable(f"{path}: {error.strerror or error}: name a file that iolab bundle wrote") from None
    except Unreadable as error:
        raise Unreadable(f"{path}: is not a complete bundle: {error}") from None
    if folder != manifest.run:
        raise Unreadable(f"{path}: is not a complete bundle: its folder {folder} is not its run {manifest.run}")
    return manifest, files


def _content(packed: bytes) -> bytes:
    """The tar file in a gzip file of ours, at most CONTENT_BYTES_MAX; raises Unreadable."""
    if not packed.startswith(GZIP):
        raise Unreadable("it does not begin as one")
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        content = inflate.decompress(packed[len(GZIP) :], CONTENT_BYTES_MAX)
    except zlib.error:
        raise Unreadable("it is damaged") from None
    if inflate.unconsumed_tail:
        raise Unreadable(f"its content is larger than {CONTENT_BYTES_MAX >> 20} MiB")
    if inflate.unused_data != struct.pack("<II", zlib.crc32(content), len(content) & 0xFFFFFFFF):
        raise Unreadable("it is damaged, or something follows its end")
    return content


def _members(content: bytes) -> tuple[str, dict[str, bytes]]:
    """The folder in a tar file of ours, and its files by name; raises Unreadable.

    Only names, sizes and contents are parsed. The tar file is then made again from them and must be equal, which
    refuses anything else in a header, such as links and devices.
    """
    folders, files, at = set[str](), dict[str, bytes](), 0
    try:
        while content[at : at + 1].strip(b"\0"):
            folder, _, name = content[at : at + 100].rstrip(b"\0").decode("ascii").partition("/")
            size = _size(content[at + 124 : at + 135])
            at += BLOCK
            folders.add(folder)
            files[name] = content[at : at + size]
            at += -(-size // BLOCK) * BLOCK
        (folder,) = folders
    except ValueError:
        raise Unreadable("its list of files is damaged") from None
    known = all(name in (MANIFEST, *MADE) or RECORD.fullmatch(name) for name in files)
    if not known or not FOLDER.fullmatch(folder) or _tar(folder, files) != content:
        raise Unreadable("its list of files is not one of iolab's")
    return folder, files


def _size(octal: bytes) -> int:
    """The size in a header. int() would accept a sign, and a negative size leads back to an earlier header."""
    if not octal.isdigit():
        raise ValueError(octal)
    return int(octal, 8)
