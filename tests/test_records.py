"""The stored records: complete, named in their README, and readable by this version."""

from __future__ import annotations

from pathlib import Path

import pytest

from iolab import bundles

FOLDER = Path(__file__).parent.parent / "records"
RECORDS = sorted(FOLDER.glob("*.tar.gz"))


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.name)
def test_a_record_is_whole_and_can_still_be_judged(path: Path) -> None:
    """The report may differ, because another version made it; nothing else may."""
    verified = bundles.verify(path)
    assert [each for each in verified.differences if " was made by " not in each] == []


def test_the_readme_has_every_record() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert RECORDS
    assert all(f"records/{path.name}" in text for path in RECORDS)
