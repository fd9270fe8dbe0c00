"""docs/your-server.md: its files are a working registry, and its servers do the work that the page requires."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import equal_work
from equal_work import PATHS
from iolab.plan import registry

PAGE = Path(__file__).parent.parent / "docs/your-server.md"
# A file of the page: its name on its own line, then its text.
FILE = re.compile(r"^`([\w./-]+)`\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# The page leaves out what does not concern iolab.
LACKS = {"hello-go": frozenset({PATHS}), "echo-python": frozenset[str]()}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of the page as a reader writes them, with their own cache except for the compiler's."""
    for name, text in FILE.findall(PAGE.read_text()):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("GOCACHE", os.environ.get("GOCACHE") or str(Path.home() / ".cache/go-build"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_the_page_has_the_files_of_its_servers(folder: Path) -> None:
    own = set(registry.load(folder / registry.USERS)) - set(registry.load())
    assert own == set(LACKS)
    assert all(any((folder / name).iterdir()) for name in own)


@pytest.mark.parametrize("name", LACKS)
def test_a_server_of_the_page_does_equal_work(name: str, folder: Path) -> None:
    equal_work.check(name, registry.load(folder / registry.USERS), LACKS[name])
