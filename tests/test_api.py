"""iolab from Python: what its functions return, and that the page about them is correct."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import iolab
from iolab.measure.events import Event, Planned, TrialEnded

PAGE = Path(__file__).resolve().parent.parent / "docs/python.md"
SHORT = {"quick": True, "blocks": 6}


@pytest.mark.usefixtures("simulated")
def test_the_page_about_python_is_a_session_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    session: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), session)
    said = capsys.readouterr().out
    for expected in (
        "throughput: ",
        "epoll: median ",
        "sizes.toml: claims[faster].contestants[2]: no contestant is called 'threads': did you mean 'thread'?",
        "message_bytes=4096: ",
        "epoll serves more requests than thread: confirmed",
        "Does the size of a message matter?",
        "errors in ",
        "memory of the lab, MiB: ",
        "report.html",
        "regressions; inconclusive: ",
        "this machine can measure: ",
        "12 of 12: ",
    ):
        assert expected in said


@pytest.mark.usefixtures("fake", "quiet", "no_charts")
def test_results_are_data_and_nothing_is_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    seen: list[Event] = []
    found = iolab.vs("epoll", "io_uring", **SHORT, out=tmp_path, on_event=seen.append)  # type: ignore[arg-type]
    assert capfd.readouterr() == ("", "")
    assert isinstance(seen[0], Planned)
    assert sum(isinstance(event, TrialEnded) for event in seen) == len(found.trials) == 12
    assert found.report.is_file()
    assert [each.titles for each in found.verdicts] == [("epoll", "io_uring")]
    assert [row["contestant"] for row in found.rows()].count("epoll") == 6
    assert iolab.open_run(found.folder.name, out=tmp_path) == found
    assert found.document()["verdicts"][0]["sentence"] == found.verdicts[0].sentence


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize(
    ("contestants", "setting", "message"),
    [
        (["epoll"], {}, "name two contestants or more"),
        (["epoll", "thread"], {"protocol": "http", "message_bytes": 9}, "message_bytes: is not a setting of http"),
        (["epoll", "thread"], {"conections": 9}, "conections: there is no such setting: did you mean 'connections'?"),
        (["epoll", "thread"], {"duration_ms": "3s"}, "duration_ms: "),
        (["epoll", "thread"], {"blocks": 2}, "blocks: 2 cannot give a 95 % interval"),
    ],
)
def test_what_cannot_be_is_an_error_of_one_line(
    tmp_path: Path, contestants: list[str], setting: dict[str, int | str], message: str
) -> None:
    with pytest.raises(iolab.IolabError, match=re.escape(message)) as raised:
        iolab.vs(*contestants, **setting, out=tmp_path)  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_to_import_iolab_loads_nothing_of_it() -> None:
    program = "import sys, iolab; print(*(name for name in sys.modules if name.startswith('iolab.')))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"
    assert set(iolab.__all__) == {name for name in iolab.__all__ if hasattr(iolab, name)}
