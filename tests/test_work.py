"""The work of a call, checked against the same table of answers as the Rust implementation."""

from __future__ import annotations

from pathlib import Path

from iolab import work

TABLE = Path(__file__).resolve().parent.parent / "crates/proto/testdata/work.txt"


def test_the_answers_are_those_of_the_table() -> None:
    lines = [line for line in TABLE.read_text().splitlines() if not line.startswith("#")]
    assert len(lines) > 10
    for line in lines:
        target, answer = map(int, line.split())
        assert work.compute(target) == answer, f"the answer to {target}"
