"""The report: what it must show, what must never get into it, and how a browser renders it.

All pages come from runs written through the store, so they equal the pages of real runs with the same figures.
`IOLAB_GOLDEN=1 pytest tests/test_report.py` rewrites the golden page after an intended change.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import itertools
import json
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import made
from iolab import report
from iolab.contract.types import ServeReady, updated
from iolab.judge import verdict
from iolab.judge.results import judged, read
from iolab.judge.verdict import ComparisonVerdict
from iolab.plan.claims import Claim, Published, Quantity, RatioTest
from iolab.plan.contestant import Contestant
from iolab.plan.experiment import parse_experiment, vs_plan
from iolab.plan.plan import Comparison, Plan, Trial
from iolab.plan.schedule import block_trials, schedule
from iolab.report import charts, commands, drawing, figures, formats, headline, page, palette, timelines, warning_table
from iolab.results import layout, store
from iolab.results.records import CostCount, Failure, MachineNoise, Result, TrialWarning
from iolab.results.store import Trials

GOLDEN = Path(__file__).parent / "golden" / "report.html"
STORED = GOLDEN.parent / "stored"
EXPERIMENT = b"""
name = "echo-io_uring-epoll"
question = "Does a TCP echo server on io_uring serve more requests than one on epoll?"
source = "S1: io_uring against epoll, a TCP echo server and a threaded client"
contestants = ["epoll", "io_uring", "io_uring[recv=oneshot]"]
blocks = 8
seed = 7
analysis = "The note ran each row once.\\n\\nHere every row is eight blocks."
[fixed]
workload.protocol = "echo"
load.connections = 50
trial.warmup_ms = 1000
trial.duration_ms = 3000
[axes]
workload.message_bytes = [65, 512]
[[published]]
id = "S1-row-1"
at = { workload.message_bytes = 65 }
figures.epoll = { throughput = 112384 }
figures.io_uring = { throughput = 126980 }
note = "8898 ms and 7876 ms for 1,000,000 messages"
[[claims]]
id = "C1-1"
text = "io_uring serves about 17 % more than epoll"
source = "S1"
decide = { relation = "ratio", of = "io_uring", to = "epoll", published = 1.167 }
[[claims]]
id = "C1-2"
text = "io_uring wins at every size"
decide = { relation = "order", contestants = ["io_uring", "epoll"] }
[[claims]]
id = "C1-3"
text = "throughput hardly depends on size below one MTU"
[[claims.tests]]
relation = "trend"
is = "flat"
of = "epoll"
along = "workload.message_bytes"
[[claims.tests]]
relation = "trend"
is = "flat"
of = "io_uring"
along = "workload.message_bytes"
"""
MACHINE: dict[str, Any] = {
    "schema": 1,
    "identity": {"host": "bench", "kernel": "6.12.0", "processor": "A processor", "engine": "0123456789abcdef"},
    "cpu": {"model": "A processor", "logical": 4, "topology": [{"id": 0, "core": 0}], "governor": None},
    "engine": {"version": "0.1.0", "build": "0123456789abcdef", "sha256": "ab" * 32},
    "load_average": [0.1, 0.2, 0.3],
    "versions": {"python": "3.11.9"},
}
BUILD = "0123456789abcdef"
# Requests per second and CPU nanoseconds per request by slot: the second is faster, the third equals the first.
RATE = (110_000.0, 128_000.0, 110_300.0)
CPU_NS = (8_900.0, 7_100.0, 8_880.0)


def the_plan() -> Plan:
    """The experiment on two CPUs."""
    return made.on_two_processors(parse_experiment(EXPERIMENT))


def synthetic(plan: Plan, *, blocks: int | None = None) -> Iterator[Result]:
    """Results of a plan on a calm machine: 1 % noise, a slow drift, and one repeated block."""
    random = np.random.default_rng(plan.seed)
    trials = [scheduled for scheduled in schedule(plan) if scheduled.block < (blocks or plan.blocks)]
    for number, scheduled in enumerate(trials):
        drift = 1 + 0.05 * np.sin(number / 20)
        busy = scheduled.block == 2 and scheduled.comparison == 0 and scheduled.slot == 1
        yield one_result(plan, scheduled, random, drift, foreign_cores=0.4 if busy else 0.01)
    if (blocks or plan.blocks) > 2 and len(plan.comparisons[0].cells) > 1:
        for scheduled in block_trials(plan, 0, 2, attempt=1):
            yield one_result(plan, scheduled, random, 1.0)


def one_result(
    plan: Plan, scheduled: Trial, random: np.random.Generator, drift: float, foreign_cores: float = 0.01
) -> Result:
    """One trial with noise in its figures and a ramp in its warm-up."""
    cell, slot = plan.cell(scheduled), scheduled.slot % len(RATE)
    rate = RATE[slot] * drift * random.normal(1, 0.01)
    slices = (cell.trial.warmup_ms + cell.trial.duration_ms) // cell.trial.interval_ms
    ramp = np.minimum(1, 0.8 + 4 * np.arange(slices) / slices)
    completed = random.normal(1, 0.02, slices) * ramp * rate * cell.trial.interval_ms / 1_000
    result = made.result(
        plan,
        scheduled,
        rate_per_s=rate,
        server_share=rate * CPU_NS[slot] / 1e9 * random.normal(1, 0.004),
        generator_share=0.7,
        noise=MachineNoise(steal_share=0.0, foreign_cpu_cores=foreign_cores),
        latency_ns=latency(cell.load.connections / rate * 1e9, random),
        intervals={
            "begin_ns": made.BEGIN_NS - cell.trial.warmup_ms * 1_000_000,
            "length_ns": cell.trial.interval_ms * 1_000_000,
            "completed": tuple(int(count) for count in completed),
        },
    )
    assert result.server is not None
    sizes = {
        "rss_bytes_median": 3_900_000 + slot * 700_000 + int(random.integers(0, 9)) * 4_096,
        "pss_bytes": 2_600_000 + slot * 650_000,
        "context_switches_voluntary": int(rate * (0.12 if slot else 0.2) * random.normal(1, 0.05)),
    }
    ready = ServeReady(model=cell.contestant.title, listen=("127.0.0.1:40001",), pid=100, build=BUILD, workers=1)
    started = f"2025-01-01T00:{scheduled.block:02}:{scheduled.position:02}+00:00"
    server = result.server.model_copy(update=sizes)
    return result.model_copy(update={"started": started, "ready": ready, "server": server})


def latency(mean_ns: float, random: np.random.Generator) -> dict[str, float | int | str]:
    """Quantiles around a mean, each with its own noise."""
    factors = {"min": 0.3, "p50": 0.97, "p90": 1.3, "p99": 2.1, "p99_9": 4.5, "p99_99": 9.0, "max": 20.0}
    quantiles = {name: int(mean_ns * factor * random.normal(1, 0.02)) for name, factor in factors.items()}
    return {**quantiles, "mean": mean_ns, "stdev": mean_ns / 3, "histogram": ""}


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stored run of the experiment, with its report."""
    plan = the_plan()
    with store.writing(plan, MACHINE, tmp_path_factory.mktemp("runs")) as writer:
        for result in synthetic(plan):
            writer.append(result)
    report.write(read(writer.folder))
    return writer.folder


@pytest.fixture(scope="module")
def html(run_dir: Path) -> str:
    return (run_dir / layout.REPORT).read_text(encoding="utf-8")


def test_question_and_verdict_come_before_the_warnings_and_the_warnings_before_the_charts(html: str) -> None:
    places = [html.index(mark) for mark in ("<h1>", 'class="verdict"', "Before you trust it", "<svg", "Every trial")]
    assert places == sorted(places)
    assert "io_uring against epoll: more requests at both settings (1.1" in html


def test_the_page_shows_claims_void_trials_seed_build_and_the_published_figure(html: str) -> None:
    text = unescape(re.sub(r"<[^>]*>", " ", html)).replace(" \\\n ", "")
    for said in (
        "confirmed",
        "machine busy: 0.0 % stolen by the hypervisor, 0.40 cores used by other programs",
        "another trial of its block was discarded",
        "(seed 7, ",
        the_plan().digest,
        BUILD,
        "ab" * 32,
        "1.13",
        "iolab run echo-io_uring-epoll",
        "iolab serve --model io_uring --option recv=oneshot --protocol echo --framing raw --message-bytes 65",
        "iolab load tcp://127.0.0.1:8080 --framing raw --message-bytes 65 --connections 50",
        "p99.9 µs",
    ):
        assert said in text, said


def test_every_trial_of_the_record_is_in_the_table(run_dir: Path, html: str) -> None:
    rows = re.findall(r'<tr class="(counted|aside|void)">', html)
    trials = store.read_trials(run_dir).results
    assert len(rows) == len(trials) == 51
    # One busy trial is discarded and the other two of its block are set aside; all three are repeated.
    assert (rows.count("void"), rows.count("aside")) == (1, 2)


def test_the_same_folder_gives_the_same_bytes(run_dir: Path, html: str) -> None:
    plan, machine, trials = store.read_plan(run_dir), store.read_machine(run_dir), store.read_trials(run_dir)
    assert report.render(judged(plan, machine, trials)) == html


def test_the_page_is_as_it_was_agreed_on(html: str) -> None:
    # Without charts: the library places text by the machine's fonts, which moves other marks by pixels.
    page_text = re.sub(r"<svg.*?</svg>", "<svg></svg>", html, flags=re.DOTALL)
    if os.environ.get("IOLAB_GOLDEN"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(page_text, encoding="utf-8")
    assert page_text == GOLDEN.read_text(encoding="utf-8")


def test_each_chart_draws_every_figure_it_is_about(html: str) -> None:
    drawings = [ElementTree.fromstring(text) for text in re.findall(r"<svg.*?</svg>", html, flags=re.DOTALL)]
    # Four of ratios; per comparison four of levels, one of percentiles, one of the price and three over time.
    assert len(drawings) == 4 + 2 * (4 + 1 + 1 + 3)
    for root in drawings:
        assert [child.tag.removeprefix(f"{{{drawing.SVG}}}") for child in root][:2] == ["title", "desc"]
        assert root[0].text
        assert root[1].text
    # Two settings with two ratios each: four intervals in every chart of ratios.
    assert [marks(root, "line", "stroke-width", "2.5") for root in drawings[:4]] == [4] * 4
    # 24 trials count at each setting. Over time, each contestant of the setting with a repeated block has nine.
    assert [marks(root, "path", "opacity", "0.55") for root in drawings[4:8]] == [24] * 4
    assert [marks(root, "path", "opacity", "0.35") for root in drawings[10:13]] == [9, 9, 9]
    # And once the median of those that count.
    assert [marks(root, "path", "stroke-width", "2.5") for root in drawings[10:13]] == [1, 1, 1]


def marks(root: ElementTree.Element, tag: str, attribute: str, value: str) -> int:
    """The number of elements of a drawing with this value of an attribute."""
    return sum(element.get(attribute) == value for element in root.iter(f"{{{drawing.SVG}}}{tag}"))


def test_the_policy_allows_the_one_style_sheet_and_nothing_else(html: str) -> None:
    style = re.findall(r"<style>(.*?)</style>", html, flags=re.DOTALL)
    assert len(style) == 1
    digest = base64.b64encode(hashlib.sha256(style[0].encode()).digest()).decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    told = policy[1].replace("&#39;", "'")
    assert (
        told == f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    # The policy governs only what follows it.
    assert html.index("Content-Security-Policy") < html.index("<style>")


def test_the_page_has_no_script_no_inline_style_and_loads_nothing(html: str) -> None:
    tags = tags_of(html)
    assert not {tag for tag, _ in tags} & {"script", "iframe", "object", "embed", "form", "base", "use", "image", "img"}
    for tag, names in tags:
        assert not [name for name in names if name.startswith("on") or name in ("style", "src", "srcdoc", "xlink:href")]
        assert "href" not in names or tag in ("link", "a")
    # The links lead to the record beside the page.
    assert set(re.findall(r'<a [^>]*href="([^"]*)"', html)) == {*page.RAW, "#terms"}
    assert re.findall(r'<link[^>]*href="([^"]*)"', html) == ["data:,"]
    assert "url(" not in html
    assert "@import" not in html


ATTACKS = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "</style><script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "</desc></title></svg><script>alert(1)</script>",
    "--><script>alert(1)</script><!--",
    "]]><script>alert(1)</script>",
    "<![CDATA[<script>alert(1)</script>]]>",
    "' onmouseover='alert(1)",
    '" onmouseover="alert(1)',
    '" autofocus onfocus=alert(1) x="',
    "javascript:alert(1)",
    "<a href=javascript:alert(1)>x</a>",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    "<base href=//evil.example/>",
    "<meta http-equiv=refresh content='0;url=//evil.example'>",
    "<style>@import '//evil.example'</style>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
    "{{ 7 * 7 }}{% raw %}",
    "datum.value); alert(1",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;",
    "\x00<script>\x0b\x1b[31malert(1)</script>\x7f",
    "\u202e<script>\u2066evil\u200b\ufeff",
)
WRAPPINGS = ("{}", "x{}y", "{}{}", "`{}`")
# One hundred strings, each harmful if a field were inserted as markup.
HOSTILE = [wrapping.replace("{}", attack) for attack in ATTACKS for wrapping in WRAPPINGS]


class TagCollector(HTMLParser):
    """Every element of a page with the names of its attributes, in order."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, tuple[str, ...]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, tuple(name for name, _ in attrs)))


def tags_of(text: str) -> list[tuple[str, tuple[str, ...]]]:
    collector = TagCollector()
    collector.feed(text)
    collector.close()
    return collector.tags


def laden(texts: Iterator[str]) -> tuple[Plan, dict[str, Any], Trials]:
    """A run with the next of these texts in every field that a person, a server or a machine fills."""
    lines = [f"cmd:{shlex.quote(next(texts).replace(chr(0), ''))} {{port}}" for _ in range(3)]
    contestants = [Contestant(text=line) for line in lines]
    small = parse_experiment(EXPERIMENT).comparisons[0]
    cells = [cell.model_copy(update={"contestant": c}) for cell, c in zip(small.cells, contestants, strict=True)]
    name = next(texts)
    titled = Comparison(name=name, setting={"workload.message_bytes": 65}, cells=tuple(cells))
    titles = titled.titles
    ratio = RatioTest(of=Quantity(contestant=titles[1]), to=Quantity(contestant=titles[0]), published=1.2)
    plan = Plan(
        name="laden",
        question=next(texts),
        source=next(texts),
        comparisons=(titled,),
        blocks=7,
        published=(
            Published.model_validate({"id": next(texts)[:40], "figures": figures_of(titles), "note": next(texts)}),
        ),
        claims=(Claim(id=next(texts)[:40], text=next(texts), source=next(texts), tests=(ratio,)),),
        analysis=next(texts),
    )
    said = [next(texts) for _ in range(7)]
    return (
        plan,
        {next(texts): {next(texts): next(texts)}, "engine": {next(texts): next(texts)}},
        Trials(tuple(with_texts(result, said) for result in synthetic(plan)), (next(texts), next(texts))),
    )


def figures_of(titles: Sequence[str]) -> dict[str, dict[str, float]]:
    return {titles[0]: {"throughput": 1.0}, titles[1]: {"throughput": 1.1}}


def with_texts(result: Result, said: list[str]) -> Result:
    """The result with these texts in every field that a server, the generator or the lab fills."""
    assert result.report is not None
    assert result.ready is not None
    changes: dict[str, Any] = {
        "started": said[0],
        "ready": result.ready.model_copy(update={"model": said[1], "build": said[2], "lacks": (said[3],)}),
        "report": result.report.model_copy(update={"first_error": said[4], "build": said[5]}),
        "warnings": (*result.warnings, TrialWarning(word="not_steady", detail=said[6])),
    }
    if result.trial.slot == 2:
        changes |= {"report": None, "failure": Failure(kind=said[3], message=said[4], final=True)}
    return result.model_copy(update=changes)


@pytest.mark.usefixtures("no_charts")  # The next test is that of the charts.
def test_no_text_from_outside_becomes_an_element_or_an_attribute() -> None:
    benign = (f"harmless {number}" for number in itertools.count())
    expected = tags_of(report.render(judged(*laden(benign))))
    assert len(HOSTILE) == 100
    for first in range(len(HOSTILE)):
        texts = itertools.islice(itertools.cycle(HOSTILE), first, None)
        text = report.render(judged(*laden(texts)))
        assert tags_of(text) == expected, HOSTILE[first]
        assert not drawing.UNSEEN.search(text)


def test_no_text_in_a_chart_becomes_an_element_or_an_attribute() -> None:
    allowed = drawing.ATTRIBUTES | {"class", "role", "font-family", "rx"}
    for first in range(0, len(HOSTILE), 34):
        some = HOSTILE[first : first + 34]
        ratios = charts.ratios([charts.RatioRow(text, text, text, 1.1, 1.05, 1.15, True) for text in some], "ratio")
        strips = charts.strips([charts.StripRow(0, text, text, (1.0, 2.0), 1.5, None, None) for text in some], "µs")
        for text in (
            drawing.inline(strips, some[0], some[1]),
            drawing.standalone([(some[2], ratios)], some[3], some[4], some[5:7], some[7]),
        ):
            elements = list(ElementTree.fromstring(text).iter())
            names = {element.tag.removeprefix(f"{{{drawing.SVG}}}") for element in elements}
            assert names <= drawing.TAGS | {"title", "desc"}
            assert {name for element in elements for name in element.attrib} <= allowed
            assert {tag for tag, _ in tags_of(text)} == names
            # Each string appears, shortened, as text: three times in a chart of ratios, twice in a chart of levels.
            assert sum(element.tag.endswith("}text") for element in elements) >= 2 * len(some)


def test_every_chart_keeps_the_schema_of_vega_lite() -> None:
    line = charts.Line(0, False, (-0.5, 0.5), (90.0, 100.0))
    for chart in (
        charts.ratios([charts.RatioRow("a", "b", "c", 1.1, 1.05, 1.15, True)], "ratio"),
        charts.strips([charts.StripRow(0, "a", "b", (1.0, 2.0), 1.5, 1.0, 2.0)], "µs"),
        charts.quantiles([charts.QuantilePoint(0, "p50", 100.0, 90.0, None)]),
        charts.timeline([line, line._replace(discarded=True)], line, -0.5, 100.0),
    ):
        assert chart.to_dict(validate=True)["layer"]


def failed(plan: Plan) -> list[Result]:
    failure = Failure(kind="lacks_io_uring", message="this kernel forbids io_uring", final=True)
    return [Result(trial=each, started="2025-01-01", failure=failure) for each in schedule(plan) if each.block == 0]


def halved(plan: Plan) -> list[Result]:
    return list(synthetic(plan, blocks=2))


def limited(plan: Plan) -> list[Result]:
    """A run in which the generator limits the second contestant and the server is half idle."""
    return made.results(plan, lambda each: RATE[each.slot], server_share=0.5, generator_share=0.95)


@pytest.mark.parametrize(
    ("results", "said"),
    [
        (lambda plan: [], "fewer than 6 complete blocks so far"),
        (failed, "this kernel forbids io_uring"),
        (halved, "2 of 8 blocks count"),
        (limited, "cannot be ranked"),
        (limited, "≥ "),
    ],
    ids=["empty", "failed", "unfinished", "limited by the generator", "bounds"],
)
def test_a_run_that_says_little_has_a_page_that_says_so(results: Callable[[Plan], list[Result]], said: str) -> None:
    plan = the_plan()
    single = plan.model_copy(update={"comparisons": plan.comparisons[:1], "published": (), "claims": ()})
    assert said in report.render(judged(single, {}, Trials(tuple(results(single)), ())))


def disturbed(plan: Plan, comparisons: tuple[int, ...]) -> list[Result]:
    """A run with a busy machine in the first attempt at every other block of these comparisons."""
    busy = TrialWarning(word="machine_busy", detail="2.2% stolen, 0.00 cores used by others")
    return [
        result.model_copy(update={"warnings": (*result.warnings, busy)})
        if result.trial.comparison in comparisons and result.trial.block % 2
        else result
        for result in made.results(plan, lambda each: RATE[each.slot])
    ]


@pytest.mark.parametrize(
    ("comparisons", "verdict_said", "missing"),
    [
        ((0, 1), "No verdict. Inconclusive at both settings: too many blocks were discarded (4 of 8), mostly for", []),
        (
            (1,),
            "io_uring against epoll, of 2 settings: more requests at 1 (1.164x), inconclusive at 1.",
            [
                "Inconclusive at message_bytes=512: too many blocks were discarded (4 of 8), mostly for "
                "“machine busy”.",
            ],
        ),
    ],
    ids=["everywhere", "at one setting"],
)
def test_an_inconclusive_setting_never_reads_as_a_result(
    comparisons: tuple[int, ...], verdict_said: str, missing: list[str]
) -> None:
    plan = the_plan()
    results = disturbed(plan, comparisons)
    verdicts = verdict.judge(plan, results)
    assert headline.headline(verdicts).startswith(verdict_said)
    assert headline.unfinished(plan, verdicts) == missing
    text = report.render(judged(plan, {}, Trials(tuple(results), ())))
    assert ('class="verdict none"' in text) == (len(comparisons) == 2)
    assert "2.2 % stolen" in text


OPEN = {"word": "not decided", "low": 0.9, "high": 1.2}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([{}, {"ratio": 1.3}], "more requests at both settings (1.170x to 1.300x)."),
        ([{}, {"ratio": 0.5, "low": 0.49, "high": 0.51}], "more requests at 1 (1.170x), fewer requests, epoll serves"),
        ([{"word": "same", "ratio": 1.001}, {}], "more requests at 1 (1.169x), the same requests within 2 % at 1 ("),
        ([{**OPEN, "p_value": 0.3}] * 2, "not decided (interval too wide) at both settings."),
        ([{"word": "not decided"}] * 2, "not decided (too few blocks for so many ratios) at both settings."),
        ([{**OPEN, "bound": "at least"}] * 2, "not decided (the server was not the limit) at both settings."),
        (
            [{"word": "not decided"}, {**OPEN, "p_value": 0.3}],
            "not decided (too few blocks for so many ratios) at 1, not decided (interval too wide) at 1.",
        ),
        ([{}, None], "more requests at 1 (1.170x), too few blocks at 1."),
    ],
)
def test_the_headline_says_at_how_many_settings_a_pair_came_out_how(
    changes: list[dict[str, Any] | None], said: str
) -> None:
    plan = the_plan()
    verdicts = [
        with_ratio(found, change)
        for found, change in zip(verdict.judge(plan, list(synthetic(plan))), changes, strict=True)
    ]
    assert said in headline.headline(verdicts).partition(" io_uring[")[0]


def with_ratio(found: ComparisonVerdict, change: dict[str, Any] | None) -> ComparisonVerdict:
    """The verdict with another ratio of the requests of io_uring; None: without that ratio."""
    ratio = found.estimate("throughput", "io_uring")
    assert ratio is not None
    others = tuple(each for each in found.estimates if each != ratio)
    return updated(found, estimates=others if change is None else (updated(ratio, **change), *others))


def test_warnings_are_counted_over_all_settings_and_shown_in_full_below() -> None:
    plan = the_plan()
    results = disturbed(plan, (0, 1))
    table = warning_table.warning_table(plan, verdict.judge(plan, results), results)
    assert table.titles == plan.comparisons[0].titles
    assert [(row.word, row.discards, row.cells) for row in table.rows] == [("machine busy", True, ("8 of 16",) * 3)]
    assert [detail.trials for detail in table.details] == [4] * 6


def test_the_line_through_the_middle_leaves_void_trials_out_and_keeps_to_the_time_all_have() -> None:
    rates = (90.0, 100.0, 120.0)
    lines = [charts.Line(1, False, (-0.5, 0.5, 1.5), (rate,) * 3) for rate in rates[:2]]
    lines.append(charts.Line(1, False, (0.5, 1.5), (rates[2],) * 2))
    discarded = charts.Line(1, True, (0.5,), (1.0,))
    assert timelines.median_line([*lines, discarded]) == charts.Line(1, False, (0.5, 1.5), (100.0, 100.0))
    assert timelines.median_line([*lines[:2], discarded]) is None


@pytest.mark.parametrize(
    ("names", "total", "said"),
    [
        (["a=1", "a=2"], 3, "a=1, 2"),
        (["a=1", "b=2"], 3, "a=1, b=2"),
        (["a=1, b=1", "a=1, b=2"], 3, "a=1, b=1, a=1, b=2"),
        (["a=1", "a=2"], 2, "both settings"),
        (["a=1", "a=2", "a=3"], 3, "all 3 settings"),
        (["one"], 1, "one"),
    ],
)
def test_settings_are_named_as_shortly_as_they_can_be(names: list[str], total: int, said: str) -> None:
    assert headline.where(names, total) == said


def test_a_page_of_very_many_comparisons_keeps_its_tables_and_draws_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "DRAWINGS_MAX", 10)
    plan = the_plan()
    text = report.render(judged(plan, {}, Trials(tuple(synthetic(plan)), ())))
    assert len(re.findall("<svg", text)) == 4 + 9
    assert text.count("Charts are left out here") == 1
    assert text.count("<caption>Medians over trials") == 2


def test_quantiles_are_of_the_trials_that_the_verdict_counts(run_dir: Path) -> None:
    plan, results = store.read_plan(run_dir), store.read_trials(run_dir).results
    done = {result.trial.place: result for result in results}
    for index, found in enumerate(verdict.judge(plan, results)):
        for row in figures.contestant_rows(found, figures.counted(plan, index, done)):
            for name, metric in (("p50", "latency_p50"), ("p99", "latency_p99")):
                level = next(le for le in found.levels if (le.metric, le.contestant) == (metric, row.title))
                assert tuple(row.quantiles[name]) == (level.median, level.low, level.high)


def test_a_quantile_is_shown_only_where_the_requests_carry_it() -> None:
    plan = vs_plan(["epoll", "io_uring"], {"protocol": "echo"}, blocks=6)
    results = made.results(plan, lambda each: 3_000.0)
    done = {result.trial.place: result for result in results}
    row = figures.contestant_rows(verdict.judge(plan, results)[0], figures.counted(plan, 0, done))[0]
    # 3,000 requests/s for 3 s give 9,000: enough for a p99, too few for a p99.9.
    assert set(row.quantiles) == {"p50", "p90", "p99"}


@pytest.mark.parametrize(
    ("contestants", "setting", "command"),
    [
        (
            ["epoll", "io_uring[recv=oneshot]"],
            {"protocol": "echo", "message_bytes": 65},
            "iolab vs epoll 'io_uring[recv=oneshot]' --protocol echo --framing raw --message-bytes 65 --connections 50 "
            "--workers 1 --threads 1 --driver epoll --blocks 12 --seed 1",
        ),
        (
            ["thread", "cmd:./mine --port {port}"],
            {"protocol": "http"},
            "iolab vs thread 'cmd:./mine --port {port}' --protocol http --reply-bytes 1 --connections 50 "
            "--workers 1 --threads 1 --driver epoll --blocks 12 --seed 1",
        ),
    ],
)
def test_the_command_given_repeats_the_run(contestants: list[str], setting: dict[str, Any], command: str) -> None:
    plan = vs_plan(contestants, setting)
    words = commands.again(plan)
    assert shlex.join(words) == command
    # A quick plan has fewer blocks and shorter trials. --blocks gives the number, so --quick is for the trials.
    assert commands.again(plan.quick()) == (*words[:-3], str(plan.quick().blocks), *words[-2:], "--quick")
    # A shell joins the folded lines.
    assert shlex.split(commands.folded(words).replace("\\\n", "")) == list(words)
    assert all(len(line) <= commands.COLUMNS + 2 for line in commands.folded(words).splitlines())


@pytest.mark.parametrize(
    ("setting", "server", "load"),
    [
        (
            {"protocol": "line", "sockets": 2},
            "--protocol line --message-bytes 12 --listen 127.0.0.1:8080 --listen 127.0.0.1:8081 --workers 1",
            "iolab load tcp://127.0.0.1:8080 --protocol line --message-bytes 12 --connections 50",
        ),
        (
            {"protocol": "rpc", "work_ns": 999_999_999},
            "--protocol rpc --target 1000 --text-bytes 11 --work 999999.999us --listen 127.0.0.1:8080 --workers 1",
            "iolab load tcp://127.0.0.1:8080 --protocol rpc --target 1000 --text-bytes 11 --connections 50",
        ),
        (
            {"protocol": "rpc", "work_ns": 2_500, "workers": 2, "worker_kind": "process"},
            "--protocol rpc --target 1000 --text-bytes 11 --work 2.5us --listen 127.0.0.1:8080 --workers 2 "
            "--worker-kind process",
            "iolab load tcp://127.0.0.1:8080 --protocol rpc --target 1000 --text-bytes 11 --connections 50",
        ),
    ],
)
def test_one_trial_by_hand_says_all_that_decides_it(setting: dict[str, Any], server: str, load: str) -> None:
    by_hand = commands.by_hand(vs_plan(["epoll", "io_uring"], setting), 0)[0]
    assert shlex.join(by_hand.server) == f"iolab serve --model epoll {server}"
    assert shlex.join(by_hand.load).startswith(load)
    assert bool(by_hand.note) == (setting.get("sockets", 1) > 1), "a load by hand reaches one socket"


def test_a_server_by_hand_has_the_environment_that_the_run_adds() -> None:
    plan = vs_plan(["epoll", "cmd:./mine {port}"], {"protocol": "echo", "server.environment": {"A": "1 2"}})
    ours, mine = (shlex.join(each.server) for each in commands.by_hand(plan, 0))
    assert ours.startswith("env 'A=1 2' iolab serve --model epoll")
    assert mine == "env 'A=1 2' ./mine 8080"


def test_a_command_by_hand_names_the_folder_that_was_measured_with_and_none_of_this_machine() -> None:
    command = "cmd:python3 {contestants}/mine.py {port}"
    plan = vs_plan(["epoll", command], {"protocol": "echo"})
    for machine, folder in (({"contestants": "/there"}, "/there"), ({}, "contestants")):
        assert commands.by_hand(plan, 0, machine)[1].server == ("python3", f"{folder}/mine.py", "8080")


# Writes the report of each run among its arguments.
WRITES = """
import sys
from pathlib import Path
from iolab import report, runs
from iolab.report import capacity
from iolab.judge import results
for folder in map(Path, sys.argv[1:]):
    capacity.write(folder) if runs.is_capacity(folder) else report.write(results.read(folder))
"""


def test_a_report_is_the_same_wherever_it_is_made(tmp_path: Path) -> None:
    """Another folder, time zone or hash seed gives the same bytes."""
    pages = []
    for seed, zone in (("1", "UTC"), ("2", "Asia/Tokyo")):
        copies = [Path(shutil.copytree(run, tmp_path / seed / run.name)) for run in sorted(STORED.iterdir())]
        for journal in (path for copy in copies for path in copy.glob("*.jsonl")):
            journal.write_bytes(journal.read_bytes() + b"torn")
        lab = str(Path(report.__file__).parents[2])
        environment = {"PYTHONPATH": lab, "PYTHONHASHSEED": seed, "TZ": zone}
        subprocess.run([sys.executable, "-c", WRITES, *copies], env=environment, cwd=copies[0], check=True)
        pages.append([(copy / layout.REPORT).read_text() for copy in copies])
    assert pages[0] == pages[1]
    assert all("torn or altered" in page for page in pages[0])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "50 connections; "),
        ({"active": 10, "idle": 5}, "50 connections, 10 active, 5 idle; "),
        (
            {"pipeline": 4, "requests_per_connection": 100},
            ", 4 requests in flight on each, closed after 100 requests; ",
        ),
        ({"rate": "20k"}, "50 connections, 20,000 requests per second; "),
        ({"rate": "50% of capacity of the slowest"}, "50 connections, at 50% of capacity of the slowest; "),
    ],
)
def test_what_is_special_about_a_load_is_said_with_its_connections(settings: dict[str, Any], said: str) -> None:
    plan = vs_plan(["epoll", "thread"], {"protocol": "echo", **settings})
    assert said in figures.workload_words(plan.comparisons[0], {})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, ["How long users wait", "A network", "Server or generator alone: "]),
        ({"rate": "20k"}, ["A network", "Server or generator alone: "]),
        ({"path.delay_ms": 5}, ["How long users wait", "A real network", "Server or generator alone: "]),
        (
            {"processors": "shared", "server_cpus": "0", "load_cpus": "0"},
            ["How long users wait", "A network", "Latencies, or server or generator alone: "],
        ),
    ],
)
def test_what_a_run_cannot_show_follows_from_its_load_and_its_path(settings: dict[str, Any], said: list[str]) -> None:
    lines = figures.limits(vs_plan(["epoll", "thread"], {"protocol": "echo", **settings}))
    assert [line.startswith(begin) for line, begin in zip(lines, said, strict=True)] == [True] * len(said)


MODELS = (
    *("epoll", "blocking", "fork", "prefork[processes=64]", "thread", "thread_pool", "coroutine", "select", "poll"),
    *("libevent", "io_uring", "tokio", "hyper", "monoio", "monoio[driver=legacy]"),
)


def many(tmp_path: Path) -> str:
    """The page of a run of many models: some left out, some limited by the generator, some disturbed."""
    listed = json.dumps(MODELS).encode()
    text = EXPERIMENT[: EXPERIMENT.index(b"[[published]]")].replace(
        b"workload.message_bytes = [65, 512]", b"load.connections = [1, 50]"
    )
    text = re.sub(rb"contestants = .*", b"contestants = " + listed, text).replace(b"blocks = 8", b"blocks = 10")
    text = text.replace(b"load.connections = 50\n", b"", 1).replace(
        b"Does a TCP echo server on io_uring", b"Which model"
    )
    plan = made.on_two_processors(parse_experiment(text))
    random = np.random.default_rng(5)
    weather = random.normal(0, 0.05, (2, plan.blocks))
    results = []
    for trial in schedule(plan):
        place = (trial.comparison, trial.block)
        if trial.slot == 1 and trial.comparison == 1:
            if trial.block == 0:
                holds = Failure(kind="holds", message="holds 1", final=True)
                results.append(Result(trial=trial, started="2025-01-01", failure=holds))
            continue
        rate = (60_000 + 9_000 * (trial.slot * 7 % 11)) * float(np.exp(weather[place] + random.normal(0, 0.01)))
        busy = trial.slot == 12 and trial.block % 2 == 0
        limited: dict[str, Any] = {"server_share": 0.5, "generator_share": 0.95} if trial.slot == 10 else {}
        noise = MachineNoise(steal_share=0.3 if busy else 0.0, foreign_cpu_cores=0.0)
        results.append(made.result(plan, trial, rate_per_s=rate, noise=noise, **limited))
    counts = [
        CostCount(
            comparison=at,
            slot=slot,
            cell=cell.key,
            requests=1_000,
            calls=None if slot == 5 else 2_000 + 10 * slot,
            why_not="it takes CAP_PERFMON" if slot == 5 else None,
            own_bytes_before=1 << 20,
            own_bytes=(1 << 20) + slot * 100_000,
        )
        for at, comparison in enumerate(plan.comparisons)
        for slot, cell in enumerate(comparison.cells)
    ]
    with store.writing(plan, MACHINE, tmp_path) as writer:
        for result in results:
            writer.append(result)
        for count in counts:
            writer.append(count)
    return report.write(read(writer.folder)).read_text(encoding="utf-8")


def test_many_contestants_are_a_ranking_with_its_charts_its_costs_and_those_not_in_it(tmp_path: Path) -> None:
    text = many(tmp_path)
    drawings = [ElementTree.fromstring(each) for each in re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL)]
    # For each of two settings a ranking by requests, one by CPU, and the price; none has a mark for each trial.
    assert len(drawings) == 6
    assert [marks(root, "line", "stroke-width", "2.5") for root in drawings] == [14, 14, 0, 13, 13, 0]
    plain = unescape(re.sub(r"<[^>]*>", " ", text))
    for said in (
        "Most requests, first rank (alone or shared) of 2 settings: ",
        "not ranked, the generator was the limit: io_uring",
        "blocking: holds 1, at connections=50.",
        "5 of 10 discarded: machine busy",
        "Syscalls were not counted: it takes CAP_PERFMON.",
        "KiB per connection",
        "io_uring 20 of 20",
    ):
        assert said in plain, said
    assert text.count("Throughput over time") == 0
    rows = re.findall(r'<th scope="row">([^<]*)</th><td class="n">([\d–]+)</td>', text)
    ranked = [rank for title, rank in rows[:12] if rank != "–"]
    assert ranked == sorted(ranked, key=int)


def test_a_ladder_names_its_rungs_and_what_they_stand_for(tmp_path: Path) -> None:
    plan = the_plan()
    rungs = plan.comparisons[0].model_copy(update={"ladder": True, "labels": ("the bottom", "+ ring", "+ oneshot")})
    single = plan.model_copy(update={"comparisons": (rungs,), "published": (), "claims": ()})
    text = report.render(judged(single, {}, Trials(tuple(synthetic(single)), ())))
    assert "Requests, each step against the one before: more with + ring (1.16" in unescape(text)
    assert "<dt>+ oneshot</dt><dd>io_uring[recv=oneshot]</dd>" in text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0.00"),
        (0.00001234, "0.000012"),
        (0.01234, "0.012"),
        (0.04, "0.040"),
        (1, "1.00"),
        (9.876, "9.88"),
        (45.67, "45.7"),
        (999.6, "1,000"),
        (123456.7, "123,457"),
    ],
)
def test_figures_have_three_digits_that_matter(value: float, shown: str) -> None:
    assert formats.number(value) == shown


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.97, 1.03, [0.97, 0.98, 0.99, 1.0, 1.01, 1.02, 1.03]),
        (0.9, 1.3, [0.9, 1.0, 1.1, 1.2, 1.3]),
        (0.1, 20.0, [0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0]),
    ],
)
def test_ratio_axes_have_round_ticks_and_always_one(low: float, high: float, ticks: list[float]) -> None:
    found = charts._ratio_ticks(low, high)
    assert 1.0 in found
    assert len(found) <= 8
    assert set(found) <= set(ticks)


def test_the_machine_is_described_a_fact_a_line_without_what_is_only_long() -> None:
    machine = {
        "schema": 1,
        "cpu": {"topology": [{"id": 0}], "caches": [{"level": "1", "size": None}], "governor": None},
        "limits": {"nofile": [1024, 4096], "lacks": []},
    }
    assert figures.machine_rows(machine) == [
        ("cpu.caches.0", "level 1, size unknown"),
        ("cpu.governor", "unknown"),
        ("limits.nofile", "1024, 4096"),
        ("limits.lacks", "none"),
    ]


def test_a_picture_stands_alone_and_says_what_it_shows(run_dir: Path, tmp_path: Path) -> None:
    path = report.save_picture(run_dir, tmp_path / "ratios.svg")
    root = ElementTree.parse(path).getroot()
    title, ground = root[0], root[2]
    assert title.text == the_plan().question
    box = [ground.get(name) for name in ("x", "y", "width", "height")]
    assert root.get("viewBox") == " ".join(map(str, box))
    assert ground.get("fill") == palette.light("ground")
    assert not [element for element in root.iter() if element.get("class")]
    words = " ".join(element.text or "" for element in root.iter(f"{{{drawing.SVG}}}text"))
    for said in (
        "Requests per second",
        "CPU per request",
        "95 % interval",
        "2025-01-01",
        "A processor, 4 CPUs",
        "8 paired trials of each server per setting",
    ):
        assert said in words, said
    # Two settings of two ratios each, by requests and by CPU.
    assert marks(root, "line", "stroke-width", "2.5") == 8
    with pytest.raises(store.StoreError, match="choose another folder"):
        report.save_picture(run_dir, tmp_path / "absent" / "ratios.svg")


def test_every_colour_is_legible_on_its_ground() -> None:
    grounds = palette.SHADES["raised"]
    drawn = {role: shade for role, shade in palette.SHADES.items() if role not in ("ground", "raised", "grid", "band")}
    assert {role for role, shade in drawn.items() if contrast(shade.light, grounds.light) < 4.5} == set()
    assert {role for role, shade in drawn.items() if contrast(shade.dark, grounds.dark) < 4.5} == set()
    assert len({shade.light for shade in palette.SHADES.values()}) == len(palette.SHADES)


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours, as WCAG 2 defines it."""

    def luminance(colour: str) -> float:
        parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_a_browser_has_nothing_to_complain_of_on_any_screen(run_dir: Path, tmp_path: Path) -> None:
    hostile = tmp_path / "hostile.html"
    hostile.write_text(report.render(judged(*laden(itertools.cycle(HOSTILE)))), encoding="utf-8")
    with browser(tmp_path / "profile") as seen:
        many(tmp_path)
        ranked = next(tmp_path.glob("*/report.html"))
        for path in (run_dir / layout.REPORT, hostile, ranked):
            for width in (320, 375, 1200):
                for scheme, ground in (("light", "rgb(255, 255, 255)"), ("dark", "rgb(18, 22, 28)")):
                    assert look(seen, path, width, scheme) == []
                    seen.value("document.querySelectorAll('details').forEach(each => each.open = true), 1")
                    assert seen.value("document.documentElement.scrollWidth") == width
                    assert seen.value("getComputedStyle(document.body).backgroundColor") == ground
            assert look(seen, path, 800, "dark", media="print") == []
            assert seen.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


# Far longer than a browser needs to start on a busy machine.
ANSWER_S_MAX = 60.0


class Browser:
    """A headless Chromium over its debugging pipe: JSON messages, each ended by a NUL."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._number, self._buffer = 0, b""
        self.session: str | None = None
        self.events: list[dict[str, Any]] = []

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Sends a command and returns its answer; keeps the events in between."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        os.write(self._to, json.dumps(message | ({"sessionId": self.session} if self.session else {})).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return dict(answer["result"])
            self.events.append(answer)

    def wait_for(self, method: str) -> None:
        """Waits for an event."""
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self._read())

    def value(self, expression: str) -> Any:
        """The value of an expression in the page."""
        return self.ask("Runtime.evaluate", expression=expression, returnByValue=True)["result"]["value"]

    def close(self) -> None:
        """Closes both pipes."""
        os.close(self._to)
        os.close(self._from)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], ANSWER_S_MAX)
            assert ready, "the browser does not answer"
            piece = os.read(self._from, 1 << 16)
            assert piece, "the browser went away"
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(line))


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Starts a Chromium without network access on an empty page; kills it by its process id."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
    if program is None:
        pytest.skip("there is no chromium here to look at the page with")
    # Chromium is killed, so its temporary files are removed here. They include a Unix socket, whose path has at most
    # 107 bytes: too few for the folder of a test.
    temporary = tempfile.mkdtemp(prefix="iolab-", dir="/tmp")
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    # The browser reads commands from 3 and writes answers to 4; high numbers keep the four ends from colliding.
    high_in, high_out = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 64) for end in (theirs_in, theirs_out))
    flags = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --disable-sync"
    flags += " --disable-background-networking --disable-component-update --disable-extensions --hide-scrollbars"
    pid = os.posix_spawn(
        program,
        [program, *flags.split(), f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"],
        os.environ | {"TMPDIR": temporary},
        file_actions=[
            (os.POSIX_SPAWN_DUP2, high_in, 3),
            (os.POSIX_SPAWN_DUP2, high_out, 4),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ],
        setpgroup=0,
    )
    for end in (theirs_in, theirs_out, high_in, high_out):
        os.close(end)
    started = Browser(ours_out, ours_in)
    try:
        target = next(t for t in started.ask("Target.getTargets")["targetInfos"] if t["type"] == "page")
        started.session = started.ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            started.ask(f"{domain}.enable")
        yield started
    finally:
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        started.close()
        shutil.rmtree(temporary, ignore_errors=True)


def look(seen: Browser, path: Path, width: int, scheme: str, media: str = "screen") -> list[str]:
    """Loads a page in a window of this width; returns the browser's errors and network requests."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    seen.ask("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 600)
    seen.ask("Emulation.setEmulatedMedia", media=media, features=features)
    seen.events.clear()
    seen.ask("Page.navigate", url=path.as_uri())
    seen.wait_for("Page.loadEventFired")
    complaints = []
    for event in seen.events:
        method, said = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent" and said["request"]["url"] != path.as_uri():
            complaints.append(f"request {said['request']['url'][:100]}")
        elif method == "Log.entryAdded":
            complaints.append(f"log {said['entry']['text']}")
        elif method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Page.javascriptDialogOpening"):
            complaints.append(f"{method} {said}")
    return complaints
