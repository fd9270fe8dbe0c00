"""What a command imports before it starts. bench/startup.py measures the time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import iolab
from iolab.measure.engine import Engine

LAB = Path(__file__).resolve().parent.parent / "lab"
# Each takes tens of milliseconds to import.
SLOW = {"numpy", "scipy", "pydantic", "altair", "jinja2", "rich", "duckdb"}
# Runs the console command with its arguments; prints the modules loaded when it ends or becomes the engine.
PROGRAM = """
import os, sys
from iolab.__main__ import main
def loaded(*_):
    sys.stdout.flush()
    os.write(2, " ".join(sorted({name.partition(".")[0] for name in sys.modules})).encode())
    os._exit(0)
os.execv = loaded
try:
    main()
finally:
    loaded()
"""


def check(engine: Engine, arguments: str, absent: set[str]) -> None:
    """Expects that a command imports none of these modules."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments.split()],
        env=os.environ | {"PYTHONPATH": str(LAB), "IOLAB_ENGINE": str(engine.path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stderr.split())
    assert "iolab" in loaded, "it says what it has loaded"
    assert loaded & absent == set()


VERBS = (
    *("", "vs", "run", "check", "soak", "capacity", "list", "report"),
    *("compare", "lint", "query", "export", "bundle", "verify", "doctor"),
)


@pytest.mark.parametrize("verb", VERBS)
def test_help_loads_no_library_of_the_work(fake: Engine, verb: str) -> None:
    check(fake, f"{verb} --help", SLOW)


@pytest.mark.usefixtures("simulated")
def test_a_list_loads_only_what_it_shows(fake: Engine, tmp_path: Path) -> None:
    check(fake, "list models", SLOW - {"pydantic"})
    check(fake, "list experiments", SLOW)
    assert iolab("vs", "epoll", "thread", "--quick", "--blocks", "6", "--out", tmp_path).exit_code == 0
    check(fake, f"list runs --out {tmp_path}", SLOW)


@pytest.mark.parametrize("arguments", ["load http://127.0.0.1:1/", "serve --help", "merge a.json b.json"])
def test_what_becomes_the_engine_loads_not_even_the_command_line(fake: Engine, arguments: str) -> None:
    check(fake, arguments, SLOW | {"argparse", "json", "pathlib", "dataclasses", "subprocess", "tempfile"})
