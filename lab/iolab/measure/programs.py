"""Digests of what is executed: a run continues only with the programs it began with.

A command is its program, found as a shell finds it, and every file that one of its words names: `python3 server.py`,
`java -jar server.jar`. A file that changes during its server's first start is the server's own output and does not
count. A running server is its process, its program and the files that its command line names. Modules and libraries
that a program loads are not covered.
"""

from __future__ import annotations

import functools
import hashlib
import re
import shutil
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

# A file is hashed up to this size; a longer one also counts its size and modification time.
FILE_BYTES_MAX = 256 << 20
CHUNK_BYTES = 1 << 20
# The number of cached digests.
DIGESTS_MAX = 1_024
# Replaces the digest of a file that a server writes, such as its log, which is not part of what is executed.
WRITTEN = "written by the server"
# The start time of a process that has ended.
GONE = "gone"


def of_command(words: Sequence[str]) -> dict[str, str]:
    """The digests of the program of a command and of the files that its words name, by those words."""
    program = shutil.which(words[0])
    found = {} if program is None else {words[0]: digest(Path(program))}
    return _known(found | _of_words(words[1:], Path()))


def of_process(pid: int) -> dict[str, Any]:
    """The identity of a process, and the digests of its program and of the files that its command line names.

    The program is the running one, even if its file has been replaced since.
    """
    words = [word.decode(errors="replace") for word in _read(f"/proc/{pid}/cmdline").split(b"\0")]
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    # Process ids and ticks since boot repeat after a reboot.
    boot = _read("/proc/sys/kernel/random/boot_id").decode().strip()
    started = fields[19].decode() if len(fields) > 19 else ""
    program = {words[0]: digest(Path(f"/proc/{pid}/exe"))}
    return {
        "pid": pid,
        "started": f"{started} ticks after boot {boot}" if started else GONE,
        "files": _known(program | _of_words(words[1:], Path(f"/proc/{pid}/cwd"))),
    }


def digest(path: Path) -> str | None:
    """The SHA-256 of a regular file, links followed; None for anything else and for an unreadable file.

    A file is read again only if its size or modification time differs, because a run checks before each trial.
    """
    with suppress(OSError):
        about = path.stat()
        if stat.S_ISREG(about.st_mode):
            return _hashed(path, about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns)
    return None


@functools.lru_cache(maxsize=DIGESTS_MAX)
def _hashed(path: Path, _device: int, _inode: int, size: int, mtime_ns: int) -> str:
    hashed, left = hashlib.sha256(), FILE_BYTES_MAX
    with path.open("rb", buffering=0) as reader:
        while left > 0 and (chunk := reader.read(min(CHUNK_BYTES, left))):
            hashed.update(chunk)
            left -= len(chunk)
    if size > FILE_BYTES_MAX:
        hashed.update(f"{size} {mtime_ns}".encode())
    return hashed.hexdigest()


def settled(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """The files of a command after the first run of its server: files that changed meanwhile are marked as written by
    it, except the first, which is its program.
    """
    program = next(iter(before), None)
    return {
        name: before[name] if name == program or before.get(name) == now.get(name) else WRITTEN
        for name in (*before, *(now.keys() - before.keys()))
    }


def with_known(now: Mapping[str, str], earlier: Mapping[str, str]) -> dict[str, str]:
    """The files of a command; files that its server wrote in an earlier run are marked."""
    return {**now, **{name: WRITTEN for name, digest in earlier.items() if digest == WRITTEN}}


def changes(before: object, now: Mapping[str, Any]) -> str:
    """The difference between the identities of two runs, in one line for display; empty if they are equal.

    An identity is the entry of that name in `machine.json`: the machine, the engine, `programs` and `server`.
    """
    old = before if isinstance(before, Mapping) else {}
    words: list[str] = []
    for key in sorted({*old, *now}):
        was, is_ = old.get(key), now.get(key)
        if was == is_:
            continue
        if key == "programs":
            words += _changed_files(_flat(was), _flat(is_))
        elif key == "server":
            words += _changed_server(was or {}, is_ or {})
        else:
            words.append(f"{key} was {was}, and is {is_} now")
    return "; ".join(words)


def _of_words(words: Iterable[str], folder: Path) -> dict[str, str | None]:
    """The files named by words, by parts of words as in `--config=FILE`, or by the words of a shell script."""
    names = dict.fromkeys(name for word in words for name in (word, *re.split(r"[\s=]+", word)) if name)
    return {name: digest(folder / name) for name in names if "\0" not in name}


def _known(digests: Mapping[str, str | None]) -> dict[str, str]:
    return {name: digest for name, digest in digests.items() if digest is not None}


def _flat(programs: object) -> dict[str, str]:
    """The files of all commands. Two commands that name the same file mean the same one."""
    commands = programs.values() if isinstance(programs, Mapping) else ()
    return {name: digest for files in commands for name, digest in files.items()}


def _changed_files(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    if not before:
        return ["it is not known which programs the earlier run measured"]
    return [
        f"{name} {'has changed' if name in before and name in now else 'is new' if name in now else 'is gone'}"
        for name in dict.fromkeys((*before, *now))
        if before.get(name) not in (now.get(name), WRITTEN)
    ]


def _changed_server(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    if not before or not now:
        return [f"the server's process was {_named(before)}, and is {_named(now)} now"]
    if now["started"] == GONE:
        return [f"{_named(before)} has ended"]
    files = _changed_files(before["files"], now["files"]) if before["files"] != now["files"] else []
    if (before["pid"], before["started"]) == (now["pid"], now["started"]):
        return files
    if before["pid"] == now["pid"]:
        return [f"{_named(now)} was started again", *files]
    return [f"another process is the server now ({_named(now)}, before {_named(before)})", *files]


def _named(server: Mapping[str, Any]) -> str:
    return f"process {server['pid']}" if server else "not known"


def _read(path: str) -> bytes:
    with suppress(OSError):
        return Path(path).read_bytes()
    return b""
