"""The engine's file: where it is, and whether it belongs to this package.

A checkout and its engine drift apart silently: an edited Rust file with yesterday's binary would measure yesterday's
code under today's name. So in a checkout the build id is computed again from the sources, and in an installed wheel the
file must be the one from the wheel. `IOLAB_ENGINE` names an engine by hand, and is not checked: every record has the
build id and the digest of the engine that ran.

Commands that only hand over to the engine import this module and little else, so it imports nothing slow.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import sys
from collections.abc import Iterator

from iolab.errors import IolabError

NAME = "iolab-engine"
# The environment variable that names an engine by hand.
BY_HAND = "IOLAB_ENGINE"
# The folder this package is imported from: `lab` of a checkout, or the site-packages of an installation.
PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class EngineError(IolabError):
    """There is no usable engine. The message is one line that says what to run."""


def find() -> str:
    """The path of the engine, without running it; raises EngineError with the paths tried."""
    if named := os.environ.get(BY_HAND):
        if not os.path.isfile(named):
            raise EngineError(f"{BY_HAND} names no file: {named}")
        return named
    tried = []
    for place in _places():
        path = os.path.join(place, NAME)
        if os.path.isfile(path):
            return path
        tried.append(path)
    remedy = "run: make build" if checkout() else "install iolab again"
    raise EngineError(f"there is no {NAME} (looked at {', '.join(dict.fromkeys(tried))}): {remedy}")


def verify(path: str, built: str) -> None:
    """Refuses an engine that does not belong to this package; `built` is the build id that it reports."""
    if os.environ.get(BY_HAND):
        return
    root = checkout()
    if root is not None:
        check_build(path, built, build_id(root))
    else:
        check_record(path, digest(path))


def belongs(path: str) -> bool:
    """Whether an engine certainly belongs to this package, without running it.

    An engine holds its build id as text. If the text is not found, run the engine and `verify`.
    """
    if os.environ.get(BY_HAND):
        return True
    root = checkout()
    if root is not None:
        return holds(path, build_id(root).encode())
    return digest(path) in _recorded()


def checkout() -> str | None:
    """The checkout this package is imported from, or None when it was installed."""
    root = os.path.dirname(os.path.realpath(PACKAGES))
    is_checkout = os.path.isfile(f"{root}/Cargo.toml") and os.path.isdir(f"{root}/crates")
    return root if is_checkout else None


def build_id(root: str) -> str:
    """The build id of the sources in a checkout, as docs/contract.md defines it."""
    names = [name for name in ("Cargo.toml", "Cargo.lock") if os.path.isfile(f"{root}/{name}")]
    sha256 = hashlib.sha256()
    for name in sorted(map(os.fsencode, [*names, *_sources(root, "crates")])):
        with open(os.path.join(os.fsencode(root), name), "rb", buffering=0) as file:
            contents = file.read()
        sha256.update(b"%s\0%d\0" % (name, len(contents)))
        sha256.update(contents)
    return sha256.hexdigest()[:16]


def check_build(path: str, built: str, sources: str) -> None:
    """Refuses an engine that was not built from the sources beside this package."""
    if built != sources:
        raise EngineError(f"{path} was built from other sources ({built}, the checkout is {sources}): run: make build")


def check_record(path: str, digest_: str) -> None:
    """Refuses an engine that this installation of iolab did not bring."""
    recorded = list(_recorded())
    if not recorded:
        raise EngineError("iolab is neither installed nor in a checkout: install it, or set IOLAB_ENGINE to an engine")
    if digest_ not in recorded:
        raise EngineError(f"{path} is not the engine this iolab was installed with: install iolab again")


def digest(path: str) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def holds(path: str, text: bytes) -> bool:
    """Whether a file contains these bytes."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        return mapped.find(text) >= 0


def _sources(root: str, folder: str) -> Iterator[str]:
    """The paths of the engine's sources below a folder, relative to `root`."""
    for entry in os.scandir(f"{root}/{folder}"):
        name = f"{folder}/{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            yield from _sources(root, name)
        elif entry.is_file(follow_symlinks=False) and entry.name.endswith(("Cargo.toml", ".rs", ".c", ".h")):
            yield name


def _recorded() -> Iterator[str]:
    """The digests that the installer recorded for the engine, as `path,sha256=digest,size` with a base 64 digest."""
    import base64

    for folder in os.listdir(PACKAGES):
        if not (folder.startswith("iolab-") and folder.endswith(".dist-info")):
            continue
        with open(f"{PACKAGES}/{folder}/RECORD", encoding="utf-8") as record:
            for line in record:
                name, _, rest = line.rpartition(",sha256=")
                if os.path.basename(name) == NAME:
                    yield base64.urlsafe_b64decode(rest.partition(",")[0] + "=").hex()


def _places() -> Iterator[str]:
    """The folders in which installers put commands."""
    if sys.prefix != sys.base_prefix:
        yield f"{sys.prefix}/bin"
    import sysconfig  # which reads how Python was built: only where the engine is not beside the interpreter

    yield sysconfig.get_path("scripts")
    yield sysconfig.get_path("scripts", vars={"base": sys.base_prefix})
    yield sysconfig.get_path("scripts", scheme=sysconfig.get_preferred_scheme("user"))
    # `pip install --target` puts commands beside the packages.
    yield f"{PACKAGES}/bin"
