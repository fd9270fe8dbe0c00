"""How `iolab lint` reads pasted text: numbers, titles, commands, several outputs on a page, and correct figures.

Each page could have been published. It has exactly the findings listed.
"""

from __future__ import annotations

import codecs
import re
from pathlib import Path

import pytest

from conftest import iolab
from iolab.lint import lint
from iolab.lint.columns import kind, meaning
from iolab.lint.figures import Kind, figure
from iolab.lint.record import Page
from iolab.lint.rules import comparison

CLEAN = Path(__file__).resolve().parent / "data/lint/clean"


def clean(name: str) -> str:
    return (CLEAN / name).read_text(encoding="utf-8")


def check(text: str, *rules: str) -> None:
    """Expects exactly these findings."""
    found = lint(text).findings
    assert sorted({each.rule for each in found}) == sorted(rules), [each.message for each in found]


# The range of each number, in seconds, bytes or parts of 1; None where it must not be read.
NUMBERS: dict[tuple[str, Kind, str], tuple[float, float] | None] = {
    ("12.3k", "number", ""): (12_250, 12_400),
    ("12.3kreq/s", "number", ""): (12_250, 12_400),
    ("12.3", "number", "k"): (12_250, 12_400),
    ("1.2e3", "time", "ms"): (1.15, 1.3),
    ("1.2 ± 0.1 ms", "time", "us"): (0.0011, 0.0013),
    ("1.2 ms ± 50 %", "time", "ms"): (0.0006, 0.0018),
    ("1.2 ms (+/- 0.3)", "time", "ms"): (0.0009, 0.0015),
    ("1m30s", "time", "s"): (89.5, 91),
    ("1h 0m 5.5s", "time", "s"): (3605.45, 3605.6),
    ("2.00m", "time", ""): (119.7, 120.6),
    ("1,234,567", "count", ""): (1_234_567, 1_234_567),
    ("161 bytes", "count", ""): (161, 161),
    ("<1 ms", "time", "ms"): (0, 0.001),
    (">= 1000", "number", ""): (1000, float("inf")),
    ("95 %", "share", "?"): (0.945, 0.96),
    ("2 cores", "share", "?"): (1.5, 3),
    ("95", "share", "?"): None,
    ("5.2 MB/s", "number", ""): None,
    ("100 %", "count", ""): None,
    ("12,5", "time", "ms"): None,
    ("12_345", "count", ""): None,
    ("1.2.3", "number", ""): None,
    ("12:30", "time", "s"): None,
    ("1h30m", "time", "s"): None,
    ("~1000", "number", ""): None,
    ("-5", "number", ""): None,
    ("9" * 40, "count", ""): None,
}


@pytest.mark.parametrize("case", NUMBERS, ids=lambda case: f"{case[0][:12]} {case[1]}")
def test_a_number_stands_for_a_range_or_for_nothing(case: tuple[str, Kind, str]) -> None:
    text, of_numbers, default = case
    read, expected = figure(text, 1, of_numbers, default), NUMBERS[case]
    assert (read is None) == (expected is None)
    if read and expected:
        assert (read.span.low, read.span.high) == pytest.approx(expected, rel=1e-6)


# The meaning of a title, and the unit of its numbers.
TITLES: dict[str, tuple[str, str]] = {
    "p99 (ms)": ("p99", "ms"),
    "latency_p99_9_ns": ("p99.9", "ns"),
    "p999 [us]": ("p99.9", "us"),
    "TP99": ("p99", "ms"),
    "median": ("p50", "ms"),
    "req/s at 16 threads": ("rate", ""),
    "latency (16 threads)": ("mean", "ms"),
    "rate_per_s": ("rate", ""),
    "kreq/s": ("rate", "k"),
    "Throughput (k req/s)": ("rate", "k"),
    "million requests per second": ("rate", "m"),
    "Throughput (MB/s)": ("byte_rate", "mb"),
    "Throughput (Gbit/s)": ("byte_rate", ""),
    "hit rate": ("", ""),
    "Response time (ms)": ("mean", "ms"),
    "Start-up time (ms)": ("", ""),
    "duration (min)": ("duration", "min"),
    "latency (min)": ("least", "ms"),
    "time": ("duration", "?"),
    "total s": ("duration", "s"),
    "max connections": ("connections", ""),
    "average reply size (bytes)": ("bytes_each", "bytes"),
    "max latency at 50 connections": ("most", "ms"),
    "connections per worker": ("", ""),
    "CPU %": ("cpu", "%"),
    "CPU": ("cpu", "?"),
    "CPU per request (us)": ("", ""),
    "client CPU time (s)": ("", ""),
    "timeout (s)": ("", ""),
    "timeouts": ("failed", ""),
    "error rate": ("failed_share", "?"),
    "errors (%)": ("failed_share", "%"),
    "success rate": ("success_rate", "?"),
}


@pytest.mark.parametrize("title", TITLES)
def test_a_title_has_a_meaning_and_a_unit(title: str) -> None:
    field = meaning(title)[0]
    of = kind(field, title)
    assert (field, of[1] if of else "") == TITLES[title]


HEAD = "server,connections,requests,duration (s),req/s,mean (ms),errors,runs\n"
# Correct tables, in the forms that people use.
GOOD_TABLES: dict[str, str] = {
    "decimal commas": "server;c;requests;duration (s);req/s;mean (ms);errors;runs\n"
    "a;50;217.103;2,000;108.551,5;0,460;0;9\nb;50;231.551;2,000;115.775,5;0,431;0;9",
    "spaces between thousands": HEAD + "a,50,217 103,2.000,108 551.5,0.460,0,9\nb,50,231 551,2.000,115 775.5,0.431,0,9",
    "thousands of requests": "server,requests,duration (s),kreq/s,errors,runs\n"
    "a,1000000,10,100,0,9\nb,900000,10,90,0,9",
    "requests per second with a unit": "server,requests,duration (s),req/s,errors,runs\n"
    "a,1000000,10,100 kreq/s,0,9\nb,900000,10,90 kreq/s,0,9",
    "throughput in bytes": "server,requests,duration (s),throughput,errors,runs\na,1000,10,5.2 MB/s,0,9\n"
    "b,1000,10,4.1 MB/s,0,9",
    "a mean of runs with its deviation": "server,requests,duration (s),req/s,errors\n"
    "a,2000,2,950 ± 60,0\nb,1800,2,880 ± 40,0",
    "milliseconds without a unit": "server,requests,time,req/s,errors,runs\n"
    "a,1000000,7876,126968,0,9\nb,100,8,12500,0,9",
    "minutes": "server,requests,duration (min),req/s,errors,runs\na,60000,1,1000,0,9\nb,54000,1,900,0,9",
    "response times": "server,req/s,response time (ms),errors,runs\na,1000,5,0,9\nb,900,6,0,9",
    "connections that a server takes": "server,max connections,p99 (ms),runs\na,50,60,9\nb,50,70,9",
    "CPU time for each request": "server,req/s,CPU per request (us),errors,runs\na,1000,8.2,0,9\nb,900,4.0,0,9",
    "parts of a processor in percent": "server,req/s,CPU %,client CPU %,errors,runs\na,1000,50,40,0,9\nb,900,20,40,0,9",
    "processors by name": "server,req/s,CPU,errors,runs\na,1000,EPYC 7763,0,9\nb,900,Xeon 6148,0,9",
    "a success rate": "server,requests,success rate,req/s,runs\na,50,100 %,1000,9\nb,50,100 %,900,9",
    "a timeout that was set": "server,timeout (s),req/s,errors,runs\na,5,1000,0,9\nb,5,900,0,9",
    "a longest latency that is a bound": "server,p99 (ms),max (ms),runs\na,2.0,>= 1,9\nb,2.1,<5,9",
    "quantiles of two operations": "server,GET p99 (ms),SET p99 (ms),runs\na,1.0,2.0,9\nb,1.5,2.5,9",
    "requests that were asked for, not all multiples of the connections": "server,requests,c,req/s,errors,runs\n"
    "a,10000,100,900,0,9\na,10000,200,910,0,9\na,10000,300,920,0,9\na,10000,1000,930,0,9",
    "a mean and a quantile in one column": "server,mean / p99 (ms),runs\na,1.0 / 2.0,9\nb,2.0 / 3.0,9",
    "an empty first cell": "|| req/s | errors | runs |\n|---|---|---|---|\n| a | 1000 | 0 | 9 |\n| b | 900 | 0 | 9 |",
    "a pipe in a name": "| server | req/s | errors | runs |\n|---|---|---|---|\n| a \\| b | 1000 | 0 | 9 |\n"
    "| b | 900 | 0 | 9 |",
    "runs and errors in the text": "Medians of 10 runs; nothing failed.\n\n"
    "| server | req/s |\n|---|---|\n| a | 1000 |\n"
    "| b | 900 |",
}


@pytest.mark.parametrize("case", GOOD_TABLES)
def test_a_table_that_is_right_has_no_finding(case: str) -> None:
    check(GOOD_TABLES[case])


def test_numbers_in_other_forms_are_checked_like_any_others() -> None:
    check(
        "server;requests;duration (s);req/s;errors;runs\na;217.103;2,0;97.000,5;0;9\nb;1.000;2,0;500,0;0;9", "formula"
    )
    check("server,requests,duration (s),kreq/s,errors,runs\na,1000000,10,120,0,9\nb,900000,10,90,0,9", "formula")
    check("server_name,load_connections,rate_per_s,latency_mean_ns,errors,runs\na,10,1000,50000000,0,9", "in-flight")
    check("server,req/s,error rate,runs\na,1000,0.5 %,9\nb,900,0 %,9", "errors")


RATES = "| server | req/s | errors | runs |\n|---|---|---|---|\n| alpha | 1250 | 0 | 9 |\n| beta | 1000 | 0 | 9 |\n\n"
# True sentences below a table where alpha serves 1.25 times the requests of beta.
TRUE_SENTENCES = (
    "alpha is 25 % faster than beta.",
    "beta is 20 % slower than alpha.",
    "alpha is more than 20 % faster.",
    "alpha is up to 30 % faster.",
    "The p99 of alpha is 3 % lower.",
    "alpha takes 60 % more memory, and their latency is about the same.",
    "beta has 70 % more lines of code.",
    "The event-driven model uses non-blocking, asynchronous I/O for concurrent connections.",
    "4 CPUs; wrk has 8 threads on 2 cores.",
    "Messages have 100 bytes, and each run was repeated 9 times.",
)


@pytest.mark.parametrize("sentence", TRUE_SENTENCES)
def test_a_sentence_that_may_be_true_has_no_finding(sentence: str) -> None:
    sizes = "| server | size (bytes) | runs |\n| --- | --- | --- |\n| alpha | 64 | 9 |\n"
    check(f"{RATES}{sentence}\n\n{sizes}")


@pytest.mark.parametrize(
    "sentence",
    [
        "beta is 25 % slower than alpha.",
        "alpha is 20 % faster than beta.",
        "alpha is at least 40 % faster.",
        "Both are about the same.",
        "The p99 is 3 % lower. alpha is 50 % faster.",
    ],
)
def test_a_sentence_that_the_rates_contradict_is_found(sentence: str) -> None:
    check(f"{RATES}{sentence}\n", "claim")


WRK2_TWICE = """Running 30s test @ http://127.0.0.1:80/
  2 threads and 100 connections
  Thread calibration: mean lat.: 10087 usec, rate sampling interval: 22 msec
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     6.60ms    1.92ms  12.50ms   68.46%
  Latency Distribution (HdrHistogram - Recorded Latency)
 50.000%    6.67ms
 99.000%   11.18ms
100.000%   12.50ms
  Latency Distribution (HdrHistogram - Uncorrected Latency (measured without taking delayed starts into account))
 50.000%  401.00us
 99.000%    1.18ms
100.000%    2.50ms
  60018 requests in 30.00s, 19.81MB read
Requests/sec:   2000.28
Transfer/sec:    676.18KB
"""
HEY_OF_FIFTEEN = """$ hey -n 15 -c 1 http://127.0.0.1:8080/

Summary:
  Total:	1.2000 secs
  Slowest:	1.0000 secs
  Fastest:	0.0100 secs
  Average:	0.0760 secs
  Requests/sec:	12.5000

Latency distribution:
  10% in 0.0100 secs
  50% in 0.0100 secs
  75% in 0.0100 secs
  90% in 1.0000 secs

Status code distribution:
  [200]	15 responses
"""
H2 = """finished in 2.00s, 60000.00 req/s, 16.11MB/s
requests: 120000 total, 120100 started, 120000 done, 120000 succeeded, 0 failed, 0 errored, 0 timeout
status codes: 120000 2xx, 0 3xx, 0 4xx, 0 5xx
                     min         max         mean         sd        +/- sd
time for request:      123us     15.53ms      1.60ms      1.37ms    88.42%
"""
H2_START = (
    "starting benchmark...\nspawning thread #0: 10 total client(s). 120000 total requests\nApplication protocol: h2\n"
)
FAILED_H2 = H2.replace("120000 succeeded, 0 failed", "100000 succeeded, 20000 failed").replace(
    "120000 2xx, 0 3xx, 0 4xx", "100000 2xx, 0 3xx, 20000 4xx"
)
K6_OLD = """     checks.........................: 90.00% ✓ 900       ✗ 100
     http_req_duration..............: avg=1m2.5s min=50s med=1m0s max=2m0s p(90)=1m50s p(95)=1m55s
     http_req_failed................: 0.00%  ✓ 0         ✗ 1000
     http_reqs......................: 1000   100.5/s
     iterations.....................: 1000   100.5/s
     vus_max........................: 1000   min=1000    max=1000
"""
# Pages with outputs of tools, and the rules that find something in them.
OUTPUTS: dict[str, tuple[str, set[str]]] = {
    "two outputs of wrk of different lengths": (
        clean("wrk-4.1.0-3.txt") + clean("wrk-4.1.0-4.txt").replace("Running 2s", "Running 10s"),
        set(),
    ),
    "outputs of two tools without anything between them": (clean("hey-0.1.4-3.txt") + clean("wrk-4.1.0-3.txt"), set()),
    "a second distribution of wrk2": (WRK2_TWICE, set()),
    "ten per cent of errors": (
        clean("hey-0.1.4-8.txt").replace("[200]	21856", "[200]	19670")
        + "\nError distribution:\n  [2186]	Get: connection reset\n",
        {"errors"},
    ),
    "few requests, of which the slowest two quantiles are one": (HEY_OF_FIFTEEN, {"few-requests"}),
    "a number of requests that the workers of hey do not share evenly": (
        HEY_OF_FIFTEEN.replace("-n 15 -c 1", "-n 28 -c 15"),
        {"few-requests", "idle-connections"},
    ),
    "several streams for each connection": (f"$ h2load -n 120000 -c 10 -m 10 http://h:1/\n{H2_START}{H2}", set()),
    "streams whose number is unknown": (H2_START + H2, set()),
    "more in flight than streams": (f"$ h2load -n 120000 -c 10 -m 2 http://h:1/\n{H2_START}{H2}", {"little"}),
    "the rate of h2load is that of successes": (
        H2_START + FAILED_H2.replace("60000.00 req/s", "50000.00 req/s"),
        {"errors"},
    ),
    "failed checks of an older k6, and times of minutes": (K6_OLD, {"errors"}),
    "a command after a prompt, on two lines": (
        "me@host:~/bench$ taskset -c 1 hey -n 200000 \\\n    -c 10 http://127.0.0.1:8080/\n"
        + clean("hey-0.1.4-8.txt").partition("\n")[2],
        {"asked"},
    ),
    "colours of a terminal": (clean("hey-0.1.4-8.txt").replace("Summary:", "\x1b[1mSummary:\x1b[0m"), set()),
}


@pytest.mark.parametrize("case", OUTPUTS)
def test_outputs_are_read_as_tools_print_them(case: str) -> None:
    text, rules = OUTPUTS[case]
    check(text, *rules)


def test_each_output_on_a_page_is_one_of_its_own() -> None:
    text = clean("wrk-4.1.0-3.txt") + clean("wrk-4.1.0-4.txt").replace("Running 2s", "Running 10s")
    assert lint(text).outputs == ("wrk", "wrk")
    assert lint(clean("hey-0.1.4-3.txt") + clean("wrk-4.1.0-3.txt")).outputs == ("hey", "wrk")
    lines = "success: 1000, failed: 0, time_used: 1000, qps: 1000\nsuccess: 900, failed: 0, time_used: 1000, qps: 900\n"
    assert lint(lines).outputs == ("echo-client", "echo-client")


def test_many_kinds_of_errors_are_a_short_sentence_and_no_failure_is_counted_twice() -> None:
    kinds = "".join(f"  [1]	Get: read tcp 127.0.0.1:{port}: reset\n" for port in range(40_000, 40_500))
    output = clean("hey-0.1.4-8.txt").replace("10909.9605", "11159.5867")
    (found,) = lint(f"{output}\nError distribution:\n{kinds}").findings
    assert found.message.startswith("1 Get: read tcp 127.0.0.1:40000: reset, 1 Get")
    assert "and 497 other kinds (of 22356 requests): an error" in found.message
    (found,) = lint(H2_START + FAILED_H2.replace("60000.00 req/s", "50000.00 req/s")).findings
    assert "20000 failed requests and 20000 replies with status 4xx (of 120000 requests): an" in found.message


TWO_TABLES = "## Rates\n\n{}\nWith large replies:\n\n{}"


def test_two_tables_below_one_heading_may_be_of_two_workloads() -> None:
    small, large = RATES, RATES.replace("1250", "250").replace("1000", "200")
    check(TWO_TABLES.format(small, large))
    check(TWO_TABLES.format(small, large.replace("| 200 |", "| 1000 |")), "same-case")


def test_the_text_of_a_page_is_searched_once_for_all_its_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    searched, says = list[str](), comparison._says

    def counted(page: Page, words: re.Pattern[str]) -> bool:
        searched.append(words.pattern)
        return says(page, words)

    monkeypatch.setattr(comparison, "_says", counted)
    lint("\n".join(f"## Rates of day {day}\n\n{RATES}" for day in range(5)))
    assert len(searched) == len(set(searched)) > 0


TABLE = "server,req/s,p99 (µs),errors,runs\na,1000,900,0,9\nb,900,950,0,9\n"


@pytest.mark.parametrize(
    "data",
    [
        codecs.BOM_UTF8 + TABLE.encode(),
        TABLE.encode("latin-1"),
        TABLE.encode("utf-16"),
        TABLE.replace("\n", "\r\n").encode(),
    ],
    ids=["a mark of UTF-8", "Latin-1", "UTF-16", "line ends of Windows"],
)
def test_a_text_is_read_in_any_usual_encoding(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(data)
    assert iolab("lint", path)[:2] == (0, "no findings in no outputs and 1 table\n")


def test_a_file_that_cannot_be_read_keeps_no_other_from_being_checked(tmp_path: Path) -> None:
    code, out, said = iolab("lint", tmp_path / "nowhere", CLEAN / "ab-2.3-3.txt")
    assert (code, out) == (2, "no findings in 1 output and no tables\n")
    assert said == f"iolab lint: {tmp_path / 'nowhere'}: No such file or directory\n"


def test_what_a_page_says_does_not_reach_the_terminal_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("server,requests,duration (s),req/s,errors,runs\n\x07a,1000,10,200,0,9\nb,1000,10,100,0,9\n")
    code, out, _ = iolab("lint", path)
    assert code == 1
    assert "\x07" not in out
