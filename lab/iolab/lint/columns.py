"""The meanings of a table's columns, by their titles."""

from __future__ import annotations

import re

from iolab.lint.figures import UNKNOWN, Kind

_SECOND = r"(?:/ ?|per )s(?:ec(?:ond)?s?)?\b"
_COUNTED = r"(?:req(?:uest)?s?|messages?|msgs?|queries|transactions|replies|calls|ops|round ?trips)"
# Words after `max`, `mean` or `min` that exclude a latency, as in `max connections` and `mean reply size`.
_NO_LATENCY = (
    r"(?! (?:\w+ )?(?:size|bytes|connections?|conns?|clients?|users|vus|threads|workers|process(?:es)?|depth|load|"
    r"length|queue|requests|files|fds|descriptors|streams)\b)"
)
# CPU time and a processor's name are not shares of a processor.
_SHARE_OF_CPU = r"cpu\b(?!.*\b(?:per|time|ns|us|µs|ms|s|secs?|seconds|ghz|mhz|models?|names?|list)\b)"
# The first pattern that matches a title gives its meaning. The words before the match may name a contestant. Patterns
# without a field keep titles from matching a later pattern by mistake.
_FIELDS: tuple[tuple[str, str], ...] = (
    ("ratio", r"\bratio\b|\bvs\b|speed-?up|faster|relative|=>"),
    ("spread", r"±|\+/-|\bst?d(?:dev)?\b|deviation|\bci\b|interval|spread|\bcv\b|variance|error bar"),
    ("repeats", r"\b(?:runs|repeats|repetitions|trials|samples)\b"),
    (
        "client_cpu",
        rf"\b(?:client|generator|load)(?:'s)? {_SHARE_OF_CPU}|\bcpu (?:of )?(?:the )?(?:client|generator)\b",
    ),
    ("cpu_parts", r"\bserver ?/ ?clients?\b"),
    ("cpu", rf"\b{_SHARE_OF_CPU}"),
    ("", r"\bcpu\b"),
    ("memory", r"\b(?:memory|mem|rss|pss)\b"),
    ("failed_share", r"\b(?:errors?|fail(?:ed|ures?)?)(?: (?:rate|share|percentage)| ?[\[(]?%)"),
    ("success_rate", r"\bsuccess(?:ful)?(?: (?:rate|share|percentage)| ?[\[(]?%)"),
    ("failed", r"\b(?:fail(?:ed|ures?)?|errors?|non-2xx|timeouts|timed out)\b"),
    ("successes", r"\b(?:success(?:es|ful)?|succeeded)\b"),
    ("", r"\b(?:date|timestamp|started|start-?up|boot|compile|build|warm-?up|connect|dns|ttfb|gc)\b|\bto first\b"),
    ("", r"\b(?:hit|miss|sampl\w+|refresh|frame|loss|drop) rate\b|\brate limit\b"),
    ("byte_rate", rf"\b[kmgt]?i?(?:b(?:ytes?)?|bits?) ?{_SECOND}|transfer rate|\b[kmgt]bps\b|\bbandwidth\b"),
    ("rate", rf"\b[km]?{_COUNTED} ?{_SECOND}|\b[km]?(?:rps|qps|tps)\b|throughput|^per second|\brate\b"),
    ("across", r"\bms across\b|\bacross\b|\(concurrent\)"),
    ("request_mean", r"\b(?:ms|time) per request\b"),
    ("duration", r"\b(?:duration|elapsed)\b"),
    (
        "quantile",
        r"\bt?p ?\(?(?P<p>\d{2}(?:\.\d{1,4}|9{1,2})?)\b|\b(?P<th>\d{2}(?:\.\d{1,4})?) ?(?:%|th\b)|\bmedian\b",
    ),
    ("mean", rf"\b(?:mean|average|avg)\b{_NO_LATENCY}"),
    ("most", rf"\b(?:max(?:imum)?|slowest|longest)\b{_NO_LATENCY}"),
    ("least", rf"\b(?:min(?:imum)?|fastest|shortest)\b{_NO_LATENCY}"),
    ("mean", r"^latency\b|^(?:response|reply|round[- ]?trip) time\b|^rtt\b"),
    ("bytes_each", r"\b(?:bytes|size) ?(?:/|per) ?(?:request|reply|response)\b|\b(?:reply|response) (?:size|bytes)\b"),
    ("size", r"\b(?:size|payload)\b"),
    ("processes", r"\b(?:procs?|process(?:es)?|workers)\b"),
    (
        "connections",
        r"(?:^c$|^(?:connections?|conns?|concurrency(?: level)?|clients|users|vus|in flight)\b|\bconnections\b)"
        r"(?! ?/| per )",
    ),
    ("requests", rf"^n$|^(?:total |complete[d]? )?{_COUNTED}(?: sent| total| completed)?$"),
    (
        "duration",
        r"\btime (?:used|taken)\b|\b(?:total|test)? ?(?:time|seconds)\b|\btotal s\b|^(?:s|secs?)$",
    ),
)
_PATTERNS = tuple((name, re.compile(pattern)) for name, pattern in _FIELDS)
KINDS: dict[str, tuple[Kind, str]] = {
    **dict.fromkeys(("requests", "successes", "failed", "connections", "processes"), ("count", "")),
    **dict.fromkeys(("request_mean", "across", "mean", "most", "least", "quantile"), ("time", "ms")),
    **dict.fromkeys(("cpu", "client_cpu", "failed_share", "success_rate"), ("share", UNKNOWN)),
    "rate": ("number", ""),
    # A time without a unit is often in milliseconds.
    "duration": ("time", UNKNOWN),
    "byte_rate": ("bytes", "kb"),
    "bytes_each": ("bytes", ""),
    "size": ("bytes", ""),
    "memory": ("bytes", "mb"),
}
_TIME_UNIT = r"ns|nsec|nanoseconds|us|µs|μs|usec|microseconds|ms|msec|millis|milliseconds|s|secs?|seconds?"
_UNIT = re.compile(rf"(?:^|[\[(, ])({_TIME_UNIT})(?:/s)?[\])]?(?:$|[\s,])")
_LONG_UNIT = re.compile(r"[\[( ](min|minutes|h|hours)[\])]?$")
_BYTE_UNIT = re.compile(r"\b([kmgt]i?b(?:ytes)?|bytes)(?:/s)?\b")
_BITS = re.compile(r"\b[kmgt]?bits?\b|\b[kmgt]bps\b")
_SHARE_UNIT = re.compile(r"%|\bcores?\b")
# `kreq/s`, `req/s (k)`, `thousands of requests per second`.
_COUNTS = rf"(?: ?(?:rps|qps|tps|{_COUNTED})\b|/s)"
_THOUSANDS = re.compile(rf"\bk{_COUNTS}|[\[(]k[\])]|\bthousands?\b")
_MILLIONS = re.compile(rf"\bm{_COUNTS}|[\[(]m[\])]|\bmillions?\b")


def _plain(title: str) -> str:
    """A title in lower case, with spaces for underscores: `latency_p99_9_ms` is `latency p99.9 ms`."""
    return re.sub(r"(?<=\d)_(?=\d)", ".", title.lower()).replace("_", " ")


def meaning(title: str) -> tuple[str, str]:
    """The field that a title names, and the words before it, which may name a contestant."""
    text = title.lower().strip(" *_`")
    plain = _plain(text)
    for name, pattern in _PATTERNS:
        if match := pattern.search(plain):
            return (_quantile(match) if name == "quantile" else name), text[: match.start()].strip(" -:,(_")
    return "", text


def _quantile(match: re.Match[str]) -> str:
    digits = match["p"] or match["th"] or "50"
    return f"p{digits}" if len(digits) == 2 or "." in digits else f"p{digits[:2]}.{digits[2:]}"


def quantile(field: str) -> float | None:
    """The share in a quantile's name: 0.99 for p99."""
    found = re.fullmatch(r"p(\d{2}(?:\.\d{1,4})?)", field)
    return float(found[1]) / 100 if found else None


def kind(field: str, title: str) -> tuple[Kind, str] | None:
    """The kind of a field's numbers and their unit, from the title or by default; None if it has none to check."""
    known = KINDS.get("quantile" if quantile(field) else field)
    text = _plain(title).strip(" *`")
    if known is None or (known[0] == "bytes" and _BITS.search(text)):
        return None
    of_numbers, default = known
    return of_numbers, _unit(field, of_numbers, text) or default


def _unit(field: str, kind: Kind, text: str) -> str:
    """The unit in a title; empty if there is none."""
    if kind == "number":
        return "k" if _THOUSANDS.search(text) else "m" if _MILLIONS.search(text) else ""
    # In titles of other times, `(min)` means the shortest.
    long = _LONG_UNIT.search(text) if field == "duration" else None
    patterns = {"time": _UNIT, "bytes": _BYTE_UNIT, "share": _SHARE_UNIT}
    found = long or (patterns[kind].search(text) if kind in patterns else None)
    return found[found.lastindex or 0] if found else ""


def says_unit(title: str) -> bool:
    """Whether a title has a unit of time."""
    return bool(_UNIT.search(_plain(title).strip(" *`")))
