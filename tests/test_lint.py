"""`iolab lint`: it finds every error of the published notes, and nothing in clean output."""

from __future__ import annotations

import io
import json
import re
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import iolab
from iolab.errors import BadInput
from iolab.lint import lint, lint_file
from iolab.lint.page import BYTES_MAX
from iolab.lint.record import Finding
from iolab.lint.rules import prose

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests/data/lint"
PUBLISHED = {path.stem: path.read_text() for path in sorted((DATA / "published").glob("*.md"))}
CLEAN = sorted((DATA / "clean").iterdir())
STALLED = sorted((DATA / "stalled").iterdir())
# Tools with ten real outputs each, and their versions.
TOOLS = ("ab-2.3", "wrk-4.1.0", "hey-0.1.4", "oha-1.16.0", "h2load-1.52.0", "k6-1.8.1")
# The first part of the file names of each format.
FORMATS = ("ab", "wrk-", "wrk2", "hey", "oha", "h2load", "k6", "like", "table")

# The errors of the notes: the note, the rule, and figures in the finding.
ERRORS = {
    "E-1, a row says 1000 requests and has the times of 100": ("s0", "formula", "1000", "100"),
    "E-1, the output completed 100 of 1000": ("s0", "asked", "100", "1000"),
    "E-2, a figure is missing and follows": ("s0", "gap", "server-1 10000 1000", "75.5 us"),
    "E-3, two cells are empty": ("s0", "gap", "server-3 1000 10;", "server-3 1000 100"),
    "E-3, six rows say only that something failed": ("s0", "gap", "出错", "python3 10000 100"),
    "E-3, a command has no output": ("s0", "gap", "without its output"),
    "E-4, a server was never measured": ("s0", "no-result", "server 4"),
    "E-5, replies have unequal lengths": ("s0", "unequal-replies", "1342", "288"),
    "E-6, a list of models mixes axes": ("s0", "mixed-axes", "blocking", "concurrent"),
    "E-7, a rate does not follow": ("s1", "formula", "126980", "126968"),
    "E-8, a claim understates its table": ("s1", "claim", "10 %", "+13.0 %", "+20.3 %"),
    "E-9, the program does not compile": ("s1", "code", "WBUFFER_LENGT ", "WBUFFER_LENGTH"),
    "E-9, sizes are no multiples of the message": ("s1", "sizes", "128, 256, 512", "65"),
    "E-10, a rate does not follow": ("s3", "formula", "1305", "1351"),
    "E-11, rounds were cut": ("s3", "rounds", "17701931", "1000 connections"),
    "E-12, CPU shares do not add up": ("s3", "shares", "52 %", "62 %"),
    "E-12, CPU is a share of something": ("s3", "share-of-what", "F5", "Gen8"),
    "E-13, memory does not follow connections": ("s3", "memory", "14", "250", "11", "1000"),
    "E-14, cores of one processor are called all": ("s3", "processors", "24", "6 cores"),
    "E-15, a system has no result": ("s2", "no-result", "system 1"),
    "E-15, a time has no unit": ("s2", "unit", "10.3"),
    "E-15, the settings are of another system": ("s2", "settings", "NUM_MULTI_SOCKET, NUM_MAX_CONNS"),
    "E-16, one case has two figures": ("s2", "same-case", "2.6 s", "5.57 s", "bound to one connection"),
    "E-17, results are exactly what hey keeps": ("s4", "kept-results", "1000000"),
    "E-18, the tail is the first requests": ("s4", "first-requests", "250 requests", "250 connections", "70.5 ms"),
    "E-19, about the same is not": ("s4", "claim", "about the same", "+21.6 %"),
    "E-19, rounding leaves ratios open": ("s4", "resolution", "100 us"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_it_finds_every_error_of_the_published_notes(case: str) -> None:
    note, rule, *figures = ERRORS[case]
    said = [each.message for each in lint(PUBLISHED[note]).findings if each.rule == rule]
    assert any(all(figure in message for figure in figures) for message in said), said


@pytest.mark.parametrize("path", CLEAN, ids=lambda path: path.name)
def test_clean_output_has_no_finding(path: Path) -> None:
    read = lint(path.read_text(), path.name)
    assert read.findings == ()
    assert read.outputs or read.tables


@pytest.mark.parametrize("tool", TOOLS)
def test_ten_real_outputs_of_each_tool_are_kept(tool: str) -> None:
    assert len([path for path in CLEAN if path.name.startswith(f"{tool}-")]) == 10


@pytest.mark.parametrize("path", STALLED, ids=lambda path: path.name)
def test_a_real_run_that_stalled_has_a_hidden_tail(path: Path) -> None:
    assert [each.rule for each in lint(path.read_text()).findings] == ["hidden-tail"]


def clean(name: str) -> str:
    return (DATA / "clean" / name).read_text()


# A clean output, a pattern and its replacement, and the rules that then find something.
CHANGES: dict[str, tuple[str, str, str, set[str]]] = {
    "a wrong rate of ab": ("ab-2.3-5.txt", r"54977", "109954", {"formula", "little"}),
    "a wrong transfer rate of ab": ("ab-2.3-5.txt", r"16267", "32534", {"formula"}),
    "failed requests": ("ab-2.3-5.txt", r"Failed requests: +0", "Failed requests: 7", {"errors"}),
    "quantiles that fall": ("ab-2.3-5.txt", r"( 98% +)\d+", r"\g<1>0", {"quantiles"}),
    "a bin too many": ("hey-0.1.4-8.txt", r"\[235\]", "[335]", {"histogram"}),
    "a mean above its quantiles": ("hey-0.1.4-8.txt", r"(Average:\s+)0\.0009", r"\g<1>0.0500", {"mean", "little"}),
    "errors of hey": ("hey-0.1.4-8.txt", r"$", "\nError distribution:\n  [12]\tGet: EOF\n", {"errors"}),
    "timeouts of wrk": (
        "wrk-4.1.0-3.txt",
        r"Requests/sec",
        "  Socket errors: connect 0, read 0, write 0, timeout 9\nRequests/sec",
        {"errors"},
    ),
    "replies with an error status": (
        "wrk-4.1.0-3.txt",
        r"Requests/sec",
        "  Non-2xx or 3xx responses: 9\nRequests/sec",
        {"errors"},
    ),
    "a rate that wrk2 could not hold": (
        "wrk2-documented.txt",
        r"6\.60ms    1\.92ms  12\.50ms",
        "6.60s    1.92s  12.50s",
        {"behind-schedule", "mean"},
    ),
    "more successes than requests": ("h2load-1.52.0-3.txt", r"121088 succeeded", "221088 succeeded", {"counts"}),
    "idle connections": ("h2load-1.52.0-3.txt", r"822us", "130us", {"idle-connections"}),
    "more in flight than connections": ("h2load-1.52.0-3.txt", r"822us", "1.6ms", {"little"}),
    "a success rate above 100 %": ("oha-1.16.0-3.txt", r"100\.00%", "101.00%", {"counts"}),
    "failed checks of k6": ("k6-1.8.1-2.txt", r"0\.00%  0 out of", "0.06%  9 out of", {"errors"}),
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_changed_figure_is_found(case: str) -> None:
    name, pattern, new, rules = CHANGES[case]
    text, count = re.subn(pattern, new, clean(name), count=1)
    assert count == 1
    assert {each.rule for each in lint(text).findings} == rules


# Small tables, and the rules that find something besides single runs and missing errors.
TABLES: dict[str, tuple[str, set[str]]] = {
    "a mean of quantiles": ("a,p99 (ms),runs\nx,2.0,9\ny,4.0,9\naverage,3.0,9", {"averaged-quantiles"}),
    "a title that says so": ("a,average p99 (ms),runs\nx,2.0,9\ny,4.0,9", {"averaged-quantiles"}),
    "too few requests for a quantile": ("a,requests,p99.9 (ms),runs\nx,5000,2.0,9\ny,5000,2.1,9", {"few-requests"}),
    "Little's law": ("a,connections,req/s,mean (ms),errors,runs\nx,10,1000,5.0,0,9\ny,10,1000,50.0,0,9", {"in-flight"}),
    "a saturated client": ("a,req/s,client CPU,errors,runs\nx,1000,99 %,0,9\ny,900,50 %,0,9", {"client"}),
    "unequal cores": ("a,req/s,CPU,errors,runs\nx,1000,200 %,0,9\ny,900,100 %,0,9", {"unequal-cores"}),
    "rates without errors": ("a,req/s,runs\nx,1000,9\ny,900,9", {"errors-missing"}),
    "single runs": ("a,req/s,errors\nx,1000,0\ny,900,0", {"one-run"}),
    "repeated rows": ("a,req/s,errors\nx,1000,0\ny,900,0\nx,1010,0\ny,920,0", set()),
    "a table that is turned": (
        "field,x,y\nreq/s,1000,900\nduration (s),2,2\nrequests,2000,1000\nerrors,0,0\nruns,9,9",
        {"formula"},
    ),
}


@pytest.mark.parametrize("case", TABLES)
def test_a_table_is_checked(case: str) -> None:
    text, rules = TABLES[case]
    assert {each.rule for each in lint(text).findings} == rules


# Any input: the characters of the outputs, any text, and outputs with lines changed, removed or repeated.
TEXTS = st.text(st.characters(codec="utf-8"), max_size=400) | st.text("|,-\n.%0123456789abms/=:[]() ", max_size=400)
SOURCES = [path.read_text() for path in CLEAN] + list(PUBLISHED.values())


@st.composite
def mutated(draw: st.DrawFn) -> str:
    lines = draw(st.sampled_from(SOURCES)).split("\n")
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(lines) - 1))
        change = draw(st.sampled_from(("drop", "repeat", "replace", "digits", "join")))
        if change == "drop":
            lines[at] = ""
        elif change == "repeat":
            lines.insert(at, lines[draw(st.integers(0, len(lines) - 1))])
        elif change == "replace":
            lines[at] = draw(TEXTS)
        elif change == "digits":
            lines[at] = re.sub(
                r"\d+", draw(st.sampled_from(("0", "999999999999999999", "-1", "1e999", "nan", ""))), lines[at]
            )
        else:
            lines[at] = lines[at] * draw(st.integers(2, 50))
    return "\n".join(lines)


@given(TEXTS | mutated())
@settings(max_examples=300, deadline=None, database=None)
def test_no_text_breaks_it(text: str) -> None:
    try:
        found = lint(text).findings
    except BadInput as error:
        found, said = (), str(error)
    else:
        said = ""
    assert "\n" not in said
    for each in found:
        assert "\n" not in each.message
        assert 1 <= each.line <= text.count("\n") + 1


# The clean files of each format, and the published pages with their tables and echo clients.
KEPT = {name: [path.read_bytes() for path in CLEAN if path.name.startswith(name)] for name in FORMATS}
KEPT["pages"] = [text.encode() for text in PUBLISHED.values()]


def claiming(claims: int, rows: int) -> str:
    """A page with so many claims about alpha and beta below a table with so many rows of each."""
    head = "server,connections,requests,duration (s),req/s,errors,runs\n"
    table = "".join(
        f"{name},{row + 1},{rate * 10},10,{rate},0,9\n"
        for row in range(rows)
        for name, rate in (("alpha", 1_250), ("beta", 1_000))
    )
    return head + table + "\n" + "alpha has 90 % higher throughput than beta.\n" * claims


def test_the_gains_of_a_table_are_worked_out_once_however_many_claims_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = Counter[str]()

    def counted(name: str) -> None:
        real = getattr(prose, name)

        def call(*arguments: Any) -> Any:
            calls[name] += 1
            return real(*arguments)

        monkeypatch.setattr(prose, name, call)

    counted("by_name")
    counted("_equal")
    for claims in (1, 10, 100):
        calls.clear()
        findings = [each for each in lint(claiming(claims, 20)).findings if each.rule == "claim"]
        assert len(findings) == claims
        assert calls == {"by_name": 2, "_equal": 20 * 20}
    assert findings[0].message.endswith("give " + "+25.0 %, " * 10 + "10 others")
    calls.clear()
    found = lint(claiming(prose.CLAIMS_MAX + 9, 2 * prose.NAMES_MAX)).findings
    assert sum(each.rule == "claim" for each in found) == prose.CLAIMS_MAX
    assert calls == {"by_name": 2, "_equal": prose.NAMES_MAX**2}


def check_damaged(path: Path, data: bytes) -> None:
    """A file with these bytes has findings, or is refused in one line with its name."""
    path.write_bytes(data)
    found, said = tuple[Finding, ...](), f"{path}: "
    try:
        found = lint_file(str(path)).findings
    except BadInput as error:
        said = str(error)
    assert said.startswith(f"{path}: ")
    assert "\n" not in said
    for each in found:
        assert each.message
        assert "\n" not in each.message
        assert 1 <= each.line <= data.count(b"\n") + 1


@pytest.mark.parametrize("kind", KEPT)
def test_a_file_that_ends_early_is_read_or_refused(tmp_path: Path, kind: str) -> None:
    """Cuts one file of each format at each end of a line and in the middle of each line."""
    data = KEPT[kind][0]
    ends = [at for at, byte in enumerate(data) if byte == ord("\n")]
    for begin, end in zip([0, *ends], ends, strict=False):
        check_damaged(tmp_path / "cut.txt", data[:end])
        check_damaged(tmp_path / "cut.txt", data[: (begin + end) // 2])


@st.composite
def damaged(draw: st.DrawFn, kind: str) -> bytes:
    """A clean file, cut, with flipped bits, with reordered lines, or several of these."""
    data = draw(st.sampled_from(KEPT[kind]))
    for change in draw(st.lists(st.sampled_from(("cut", "flip", "reorder")), min_size=1, max_size=3)):
        if change == "cut":
            data = data[: draw(st.integers(0, len(data)))]
        elif change == "reorder":
            data = b"\n".join(draw(st.permutations(data.split(b"\n"))))
        for _ in range(draw(st.integers(1, 20)) if change == "flip" and data else 0):
            at = draw(st.integers(0, len(data) - 1))
            data = data[:at] + bytes([data[at] ^ 1 << draw(st.integers(0, 7))]) + data[at + 1 :]
    return data


@pytest.mark.parametrize("kind", KEPT)
def test_a_damaged_file_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, kind: str) -> None:
    path = tmp_path_factory.mktemp("lint") / "damaged.txt"

    @given(damaged(kind))
    @settings(max_examples=100, deadline=None, database=None)
    def check(data: bytes) -> None:
        check_damaged(path, data)

    check()


@pytest.mark.parametrize("mean", ["avg=", "avg=-", "avg=4x", "avg=1m", "avg=m2s", ""])
def test_a_k6_summary_whose_mean_is_no_time_is_read(mean: str) -> None:
    text, count = re.subn(r"(iteration_duration\.+: )avg=\S+", rf"\g<1>{mean}", clean("k6-1.8.1-2.txt"))
    assert count == 1
    assert lint(text).outputs == ("k6",)


def test_a_text_above_the_limit_is_refused() -> None:
    with pytest.raises(BadInput, match="more than 4000000 characters"):
        lint("x" * (BYTES_MAX + 1))


# Files that cannot be read, with the error of each.
UNREADABLE: dict[str, tuple[bytes | None, str]] = {
    "a file that is not there": (None, "No such file or directory"),
    "something that is no text": (b"\x7fELF\0", "not a text: it has zero bytes"),
    "a text of another kind": (
        b"hello\n",
        "no output or table is recognised: iolab lint reads ab, hey, wrk, wrk2, oha, k6",
    ),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path, case: str) -> None:
    data, line = UNREADABLE[case]
    path = tmp_path / "results.txt"
    if data is not None:
        path.write_bytes(data)
    code, out, said = iolab("lint", path)
    assert (code, out, said.count("\n")) == (2, "", 1)
    assert line in said


def test_findings_are_lines_in_groups_and_a_clean_file_is_said_so() -> None:
    path = DATA / "published/s1.md"
    code, out, _ = iolab("lint", path)
    lines = out.splitlines()
    assert code == 1
    assert (lines[0], lines[-1]) == ("cannot be true:", "6 findings in no outputs and 1 table")
    assert lines.index("cannot be concluded:") > 1
    assert (
        f"{path}:12: io_uring: requests per second is 126980, but requests / duration = 1000000 / 7.876 s = 126968"
        in lines
    )
    assert iolab("lint", DATA / "clean/ab-2.3-3.txt")[:2] == (0, "no findings in 1 output and no tables\n")


def test_json_has_each_finding_with_its_line_and_rule() -> None:
    code, out, _ = iolab("lint", DATA / "published/s4.md", "--json")
    read = json.loads(out)
    assert code == 1
    assert read["read"] == [{"file": str(DATA / "published/s4.md"), "outputs": ["hey", "hey"], "tables": 0}]
    assert {"file", "line", "certainty", "rule", "message"} == read["findings"][0].keys()


def test_without_a_file_it_reads_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(clean("hey-0.1.4-3.txt").encode())))
    assert iolab("lint")[:2] == (0, "no findings in 1 output and no tables\n")


def test_the_page_about_lint_lists_every_rule() -> None:
    sources = [path.read_text() for path in (ROOT / "lab/iolab/lint/rules").glob("*.py")]
    page = (ROOT / "docs/lint.md").read_text()
    true, _, concluded = page.partition("## What cannot be concluded")
    for certainty, part in (("impossible", true), ("inconclusive", concluded)):
        used = {rule for text in sources for rule in re.findall(rf'\b{certainty}\(\s*"([a-z-]+)"', text)}
        assert used == set(re.findall(r"^\| `([a-z-]+)` \|", part, re.MULTILINE))
