"""A fake engine that keeps the contract and takes no time: figures are computed, and nothing is measured.

A server is a listener that sends its model's name over each connection; the generator reads it and reports what that
model would have done. `plain PORT` is a server that is not the engine's, and `forks PORT` one that forks. The model's
option `fault` makes either side misbehave in one named way. `FAKE_PACE` is the share of a trial's time to sleep, and
`FAKE_RUNS` a file whose length counts the generator's runs.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import random
import signal
import socket
import struct
import sys
import threading
import time
import zlib
from typing import Any

BUILD = "fa4efa4efa4efa4e"
RATES = {"blocking": 20_000, "epoll": 100_000, "io_uring": 125_000, "thread": 80_000, "prefork": 90_000}
RATES |= {"absent": 50_000}
# Syscalls per request.
CALLS = {"epoll": 2.0, "io_uring": 0.5}
FAULTS = (
    "none",
    "dies_at_start",
    "dies_under_load",
    "hangs",
    "forbidden",
    "garbage",
    "wrong_replies",
    "uncountable",
)
PROTOCOLS = ["http", "echo", "line", "rpc"]
WHO = b"who?\n"
PACE = float(os.environ.get("FAKE_PACE", "0"))


def main() -> int:
    role = sys.argv[1]
    if role == "describe":
        return describe(sys.argv[2:])
    if role == "forks" and os.fork():
        return os.wait()[1]
    if role == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if role in ("plain", "forks", "deaf"):
        return accept(socket.create_server(("127.0.0.1", int(sys.argv[2]))), "command", "none")
    if sys.argv[2:] != ["--spec", "-"]:
        # Called by hand: prints its arguments, so that a test can see them arrive unchanged.
        print(json.dumps(sys.argv[1:]))
        return 0
    spec = json.loads(sys.stdin.readline())
    if role == "path":
        failed = {"kind": "unavailable", "message": "no path can be made here: this is a fake"}
        say(event="failed", role="path", **failed)
        return 78
    if role == "load":
        threading.Thread(target=end_with_standard_input, daemon=True).start()
    return serve(spec) if role == "serve" else load(spec)


def describe(arguments: list[str]) -> int:
    if not arguments:
        print(json.dumps(description()))
        return 0
    _, name, *words = arguments
    options = dict(word.split("=") for word in words[1::2])
    if options.get("fault", "none") not in FAULTS:
        print(f"error: {options['fault']} is no fault of {name}: use one of {', '.join(FAULTS)}", file=sys.stderr)
        return 2
    print(json.dumps(model(name, options)))
    return 0


def model(name: str, options: dict[str, str]) -> dict[str, Any]:
    words: dict[str, Any] = {"name": "fault", "values": FAULTS, "about": "how it misbehaves"}
    words |= {"min": None, "max": None, "defects": {"garbage": "it talks nonsense"}}
    number = {"name": "processes", "values": ["16"], "min": 1, "max": 1024, "defects": {}, "about": "how many"}
    holds = {"blocking": 1, "prefork": int(options.get("processes", "16"))}.get(name)
    why_not = "this machine has none" if name == "absent" else None
    return {
        "name": name,
        "about": f"a pretended {name}",
        "needs": "a machine of its own" if name == "absent" else "",
        "protocols": PROTOCOLS,
        "options": [words, number] if name == "prefork" else [words],
        "holds": holds,
        "available": why_not is None,
        "why_not": why_not,
        "lacks": [],
    }


def description() -> dict[str, Any]:
    models = [model(name, {}) for name in RATES]
    drivers: list[dict[str, Any]] = [
        {"name": name, "about": f"a pretended {name}", "available": True, "why_not": None, "lacks": []}
        for name in ("epoll", "io_uring")
    ]
    about = {"schema": 1, "build": BUILD, "version": "0.0.0", "protocols": PROTOCOLS}
    return about | {"models": models, "drivers": drivers}


LINES = threading.Semaphore(0)


def end_with_standard_input() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        LINES.release()
    os.kill(os.getpid(), signal.SIGKILL)


def hold(spec: dict[str, Any]) -> None:
    """Waits for a line on standard input if the spec says so."""
    if spec.get("held"):
        LINES.acquire()


def answer_standard_input(model: str, count: bool) -> None:
    """Replies to each line with the counts: syscalls grow with time as if the server had been busy all along."""
    per_s = CALLS.get(model, 3.0) * RATES.get(model, 50_000)
    while os.read(sys.stdin.fileno(), 4096):
        calls = round(per_s * time.monotonic()) if count else None
        counts = [{"connections": 1_000_000, "refused": {"connections_max": 0}}]
        say(event="served", role="serve", workers=counts, restarts=0, calls=calls)
    os.kill(os.getpid(), signal.SIGKILL)


def serve(spec: dict[str, Any]) -> int:
    fault = spec.get("options", {}).get("fault", "none")
    if fault == "dies_at_start":
        print("a pretended crash", file=sys.stderr)
        return 1
    if fault == "hangs":
        signal.pause()
    if fault == "garbage":
        say(event="ready", role="serve", nonsense=True)
        signal.pause()
    if fault == "forbidden":
        say(event="failed", role="serve", kind="io_uring_forbidden", message="io_uring is forbidden here: allow it")
        return 78
    listeners = [listener_at(address) for address in spec["listen"]]
    count = spec.get("count_calls", False) and fault != "uncountable"
    lacks = ["syscalls cannot be counted: it takes CAP_PERFMON"] if fault == "uncountable" else []
    threading.Thread(target=answer_standard_input, args=(spec["model"], count), daemon=True).start()
    named = spec["model"] if fault == "none" else f"{spec['model']}[fault={fault}]"
    say(
        event="ready",
        role="serve",
        model=named,
        listen=[f"127.0.0.1:{listener.getsockname()[1]}" for listener in listeners],
        pid=os.getpid(),
        build=BUILD,
        workers=spec.get("workers", 1),
        worker_kind=spec.get("worker_kind", "thread"),
        holds=None,
        lacks=lacks,
        defects=["it cannot be counted"] if fault == "uncountable" else [],
        parser="iolab",
        moves_connections=False,
    )
    return accept(listeners[0], spec["model"], fault, counts=spec.get("count_calls", False))


def listener_at(address: str) -> socket.socket:
    host, port = address.rsplit(":", 1)
    return socket.create_server((host, int(port)))


def accept(listener: socket.socket, model: str, fault: str, counts: bool = False) -> int:
    while True:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            # The fake generator gets the model's name; other clients get an echo.
            asked = connection.recv(1 << 16)
            connection.sendall(json.dumps([model, fault, counts]).encode() if asked == WHO else asked)


def load(spec: dict[str, Any]) -> int:
    host, port = spec["connect"][0].rsplit(":", 1)
    try:
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.sendall(WHO)
            model, fault, counts = json.loads(connection.makefile().read())
    except OSError as error:
        say(event="failed", role="load", kind="refused", message=f"{spec['connect'][0]} cannot be reached: {error}")
        return 1
    # Noise of half a percent: different in each run, reproducible by its number.
    rate = RATES.get(model, 50_000) * random.Random(run_number()).uniform(0.995, 1.005)
    ready = {"driver": spec["driver"], "connections": spec["connections"], "pid": os.getpid(), "build": BUILD}
    say(event="ready", role="load", lacks=[], **ready)
    hold(spec)
    # Syscalls are counted between two instants, so the time must really pass.
    pace = 1.0 if counts else PACE
    time.sleep(pace * spec["warmup_ms"] / 1_000)
    begin_ns = time.monotonic_ns()
    say(event="measuring", role="load", monotonic_ns=begin_ns)
    time.sleep(pace * spec.get("duration_ms", 0) / 1_000)
    if fault == "dies_under_load" and "duration_ms" in spec:
        print("a pretended crash under load", file=sys.stderr)
        return 1
    say(event="measured", role="load", monotonic_ns=time.monotonic_ns())
    hold(spec)
    say(**report(spec, rate, begin_ns, wrong=3 if fault == "wrong_replies" else 0))
    return 0


def run_number() -> int:
    """The number of this run of the generator, from the length of FAKE_RUNS."""
    with open(os.environ.get("FAKE_RUNS", os.devnull), "ab") as file:
        return file.write(b".") and file.tell()


def report(spec: dict[str, Any], rate: float, begin_ns: int, wrong: int) -> dict[str, Any]:
    correct = spec["requests"] - wrong if "requests" in spec else round(rate * spec["duration_ms"] / 1_000)
    wall_ns = round((correct + wrong) / rate * 1e9) if "requests" in spec else spec["duration_ms"] * 1_000_000
    busy = spec.get("active") or spec["connections"]
    in_flight = 0 if "requests" in spec else busy
    workload = spec["workload"]
    sizes = {
        "http": 80 + workload.get("reply_bytes", 0),
        "rpc": 40 + workload.get("text_bytes", 0),
        "line": workload.get("message_bytes", 0),
        "echo": workload.get("message_bytes", 0) + (0 if workload.get("framing") == "raw" else 2),
    }
    size = sizes[workload["protocol"]]
    ended = correct + wrong
    slice_ns = spec["interval_ms"] * 1_000_000
    slices = (spec["warmup_ms"] * 1_000_000 + wall_ns) // slice_ns
    mean = round(busy / rate * 1e9)
    latency = dict.fromkeys(("min", "p50", "p90", "p99", "p99_9", "p99_99", "max"), mean)
    return {
        "event": "report",
        "role": "load",
        "build": BUILD,
        "driver": spec["driver"],
        "lacks": [],
        "workload": workload,
        "connect": spec["connect"],
        "connections": spec["connections"],
        "connections_open": spec["connections"],
        "threads": spec["threads"],
        "cpus": spec["cpus"],
        "interrupted": False,
        "begin_ns": begin_ns,
        "end_ns": begin_ns + wall_ns,
        "requests": {"sent": ended, "correct": correct, "wrong": wrong, "failed": 0}
        | {"in_flight_begin": in_flight, "in_flight_end": in_flight},
        "errors": dict.fromkeys(("connect", "reset", "closed", "timeout", "malformed"), 0) | {"wrong": wrong},
        "first_error": "a pretended wrong reply" if wrong else None,
        "first_failure": {"at_ns": 1, "request": 7, "connection": 3, "phase": "receive", "saw": "wrong"}
        if wrong
        else None,
        "bytes": {"sent": ended * size, "received": ended * size},
        "rate_per_s": correct / wall_ns * 1e9,
        "latency_ns": {**latency, "mean": float(mean), "stdev": 0.0, "histogram": histogram(mean, correct)},
        "intervals": {
            "begin_ns": begin_ns - spec["warmup_ms"] * 1_000_000,
            "length_ns": slice_ns,
            "completed": [round(rate * slice_ns / 1e9)] * slices,
        },
        "generator": {"cpu_ns": wall_ns * 6 // 10, "wall_ns": wall_ns, "run_delay_ns": 0, "turn_ns_max": 900_000}
        | {"turns": 1_000, "rss_bytes_max": 3_000_000},
    }


def histogram(value: int, count: int) -> str:
    """An HdrHistogram with `count` times `value`: V2, deflated, base64; three significant digits from 1 to 60e9."""
    shift = max(0, value.bit_length() - 11)
    index = (shift << 10) + (value >> shift)
    counts = zigzag_leb128(-index) + zigzag_leb128(count)
    head = struct.pack(">iiiiqqd", 0x1C849303 | 0x10, len(counts), 0, 3, 1, 60_000_000_000, 1.0)
    body = zlib.compress(head + counts)
    return base64.b64encode(struct.pack(">ii", 0x1C849304 | 0x10, len(body)) + body).decode()


def zigzag_leb128(number: int) -> bytes:
    number = number << 1 if number >= 0 else (-number << 1) - 1
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def say(**event: Any) -> None:
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps({"schema": 1} | event), flush=True)


if __name__ == "__main__":
    sys.exit(main())
