"""What the columns of a table mean, by their titles."""

from __future__ import annotations

import re

from iolab.lint.figures import Kind

_SECOND = r"(?:/ ?|per )s(?:ec(?:ond)?s?)?\b"
_COUNTED = r"(?:req(?:uest)?s?|messages?|msgs?|queries|transactions|replies|calls|ops|round ?trips)"
# The first pattern that a title fits is its meaning. The words before a match may name a contestant.
_FIELDS: tuple[tuple[str, str], ...] = (
    ("ratio", r"\bratio\b|\bvs\b|speed-?up|faster|relative|=>"),
    ("spread", r"±|\+/-|\bst?d(?:dev)?\b|deviation|\bci\b|interval|spread|\bcv\b|variance|error bar"),
    ("repeats", r"\b(?:runs|repeats|repetitions|trials|samples)\b"),
    ("client_cpu", r"\b(?:client|generator|load)(?:'s)? cpu\b|\bcpu (?:of )?(?:the )?(?:client|generator)\b"),
    ("cpu_parts", r"\bserver ?/ ?clients?\b"),
    ("cpu", r"\bcpu\b"),
    ("memory", r"\b(?:memory|mem|rss|pss)\b"),
    ("failed", r"\b(?:fail(?:ed|ures?)?|errors?|non-2xx|timeouts?)\b"),
    ("successes", r"\b(?:success(?:es|ful)?|succeeded)\b"),
    ("byte_rate", rf"\b[kmg]?i?b(?:ytes?)? ?{_SECOND}|transfer rate|\bmbps\b"),
    ("rate", rf"\b{_COUNTED} ?{_SECOND}|\b(?:rps|qps|tps)\b|throughput|^per second|\brate\b"),
    ("across", r"\bms across\b|\bacross\b|\(concurrent\)"),
    ("request_mean", r"\b(?:ms|time) per request\b"),
    ("quantile", r"\bp ?\(?(?P<p>\d{2}(?:\.\d{1,4})?)\b|\b(?P<th>\d{2}(?:\.\d{1,4})?) ?(?:%|th)|\bmedian\b"),
    ("mean", r"\b(?:mean|average|avg)\b|^latency\b"),
    ("most", r"\b(?:max(?:imum)?|slowest|longest)\b"),
    ("least", r"\b(?:min(?:imum)?|fastest|shortest)\b"),
    ("bytes_each", r"\b(?:bytes|size) ?(?:/|per) ?(?:request|reply|response)\b|\b(?:reply|response) (?:size|bytes)\b"),
    ("size", r"\b(?:size|payload)\b"),
    ("processes", r"\b(?:procs?|process(?:es)?|workers)\b"),
    ("connections", r"^(?:c|connections?|conns?|concurrency(?: level)?|clients|users|vus|in flight)\b|\bconnections\b"),
    ("requests", rf"^n$|^(?:total |complete[d]? )?{_COUNTED}(?: sent| total| completed)?$"),
    (
        "duration",
        r"\btime[_ ](?:used|taken)\b|\b(?:total|test)? ?(?:time|seconds|duration|elapsed)\b|\btotal s\b|^(?:s|secs?)$",
    ),
)
_PATTERNS = tuple((name, re.compile(pattern)) for name, pattern in _FIELDS)
KINDS: dict[str, tuple[Kind, str]] = {
    **dict.fromkeys(("requests", "successes", "failed", "connections", "processes"), ("count", "")),
    **dict.fromkeys(("request_mean", "across", "mean", "most", "least", "quantile"), ("time", "ms")),
    "rate": ("number", ""),
    "duration": ("time", "s"),
    "byte_rate": ("bytes", "kb"),
    "bytes_each": ("bytes", ""),
    "size": ("bytes", ""),
    "cpu": ("share", ""),
    "client_cpu": ("share", ""),
    "memory": ("bytes", "mb"),
}
_UNIT = re.compile(r"[\[(, ](ns|us|µs|μs|ms|s|secs?|seconds?|mb|mib|kb|kib|gb|gib|%)(?:/s)?[\])]?(?:$|\s)")
_BYTE_UNIT = re.compile(r"\b([kmg]i?b)")


def meaning(title: str) -> tuple[str, str]:
    """The field that a title names, and the words before it, which may name a contestant."""
    text = title.lower().strip(" *_`")
    for name, pattern in _PATTERNS:
        if match := pattern.search(text):
            return (_quantile(match) if name == "quantile" else name), text[: match.start()].strip(" -:,(")
    return "", text


def _quantile(match: re.Match[str]) -> str:
    return f"p{match['p'] or match['th'] or '50'}"


def quantile(field: str) -> float | None:
    """The share of a quantile's name, as 0.99 of p99."""
    found = re.fullmatch(r"p(\d{2}(?:\.\d{1,4})?)", field)
    return float(found[1]) / 100 if found else None


def kind(field: str, title: str) -> tuple[Kind, str] | None:
    """What numbers of a field are, and their unit, which the title may say; None where it has no numbers to check."""
    known = KINDS.get("quantile" if quantile(field) else field)
    if known is None:
        return None
    of_numbers, default = known
    unit = (_BYTE_UNIT if of_numbers == "bytes" else _UNIT).search(title.lower())
    if of_numbers in ("time", "bytes") and unit:
        return of_numbers, unit[1]
    starts = re.match(r"(ns|us|ms|s)\b", title.lower()) if of_numbers == "time" else None
    return of_numbers, starts[1] if starts else default


def says_unit(title: str) -> bool:
    """Whether a title has a unit of time."""
    return bool(_UNIT.search(title.lower()) or re.match(r"(?:ns|us|ms|s|secs?|seconds)\b", title.lower()))
