#!/usr/bin/env python3
"""Compares a network path with its spec: delay, rate, loss and order, measured with plain sockets.

Two small programs, one at each end, send and receive; no code of ours is between them and the kernel. The median round
trip and handshake must be twice the delay within 2 %, a flood must arrive at the rate within 2 %, the number of lost
packets must be inside its 99.9 % interval, and no packet may overtake another. The exit code is 1 if a check fails.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import socket
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import scipy.stats
from common import at_least_one

from iolab.contract.types import EchoWorkload, PathSpec, ServeSpec
from iolab.measure import path as paths
from iolab.measure import reaper
from iolab.measure.engine import Engine, open_engine, serve
from iolab.measure.path import RunningPath

# The largest error, as a share of the spec.
TIME_MAX = RATE_MAX = 0.02
# How often the loss of a correct path may be outside its interval.
LOSS_ERROR = 0.001
DELAYS_MS = (10.0, 24.5, 100.0)
RATES_BITS_PER_S = (1e6, 1e7)
LOSSES = (0.001, 0.05)
# Datagrams of a flood: 1,000 bytes with their IP and UDP headers.
PAYLOAD_BYTES, HEADER_BYTES = 972, 28
FLOOD_S, LOST_OF, LOST_PER_S = 5.0, 20_000, 10_000
UDP_PORT = 5001
# The receiver stops after this time without a datagram.
SILENCE_S = 1.0
RECEIVE_BUFFER_BYTES = 8 << 20


class Row(NamedTuple):
    """A property of a path: what was requested, what was measured, and whether that is right."""

    what: str
    asked: str
    found: str
    is_right: bool


class Inside:
    """A child process that runs a function at one end of a path."""

    def __init__(self, netns: str, work: Callable[[], Any]) -> None:
        reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                reaper.enter(netns)
                os.write(writing, json.dumps(work()).encode())
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        os.close(writing)
        self.reading = reading

    def result(self) -> Any:
        """Waits for the process to end; returns its result."""
        with open(self.reading, "rb") as output:
            text = output.read()
        os.waitpid(self.pid, 0)
        return json.loads(text)


def times_ns(address: tuple[str, int], count: int) -> tuple[list[int], list[int]]:
    """The durations of handshakes, and of round trips of one byte."""
    handshakes, round_trips = [], []
    for _ in range(count):
        began_ns = time.monotonic_ns()
        connection = socket.create_connection(address)
        handshakes.append(time.monotonic_ns() - began_ns)
        connection.close()
    with socket.create_connection(address) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(count):
            began_ns = time.monotonic_ns()
            connection.sendall(b"x")
            connection.recv(1)
            round_trips.append(time.monotonic_ns() - began_ns)
    return handshakes, round_trips


def flood(address: str, count: int, per_s: float) -> int:
    """Waits for the receiver, then sends numbered datagrams at a steady rate; returns how many."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect((address, UDP_PORT))
        sender.settimeout(0.2)
        while True:
            sender.send(b"hello")
            try:
                sender.recv(16)
                break
            except (TimeoutError, ConnectionRefusedError):
                time.sleep(0.01)
        began_s = time.monotonic()
        for number in range(count):
            time.sleep(max(0.0, began_s + number / per_s - time.monotonic()))
            sender.send(number.to_bytes(8) + bytes(PAYLOAD_BYTES - 8))
    return count


def receive(address: str) -> tuple[list[int], list[int]]:
    """The number and arrival time of each datagram, until SILENCE_S pass without one."""
    numbers, times_ns = [], []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        receiver.bind((address, UDP_PORT))
        while True:
            try:
                datagram, sender = receiver.recvfrom(2_048)
            except TimeoutError:
                return numbers, times_ns
            if datagram == b"hello":
                receiver.sendto(b"go", sender)
                continue
            receiver.settimeout(SILENCE_S)
            numbers.append(int.from_bytes(datagram[:8]))
            times_ns.append(time.monotonic_ns())


def check_times(engine: Engine, delay_ms: float, count: int) -> Iterator[Row]:
    """Handshakes and round trips over a path with a delay."""
    with paths.running_path(engine, PathSpec(delay_ms=delay_ms)) as path:
        listen = (f"{path.server_address}:0",)
        spec = ServeSpec(model="epoll", workload=EchoWorkload(), listen=listen, netns=path.server_netns)
        child, ready = serve(engine, spec)
        try:
            host, _, port = ready.listen[0].rpartition(":")
            found = Inside(path.load_netns, lambda: times_ns((host, int(port)), count)).result()
        finally:
            child.stop()
        asked_ns = 2 * delay_ms * 1e6
        for what, each in zip(("handshake", "round trip"), found, strict=True):
            median_ns = statistics.median(each)
            p90_ns = statistics.quantiles(each, n=10)[-1]
            words = f"{median_ns / 1e6:.3f} ms ({median_ns / asked_ns - 1:+.2%}), p90 {p90_ns / 1e6:.3f} ms"
            yield Row(what, f"{asked_ns / 1e6:g} ms", words, abs(median_ns / asked_ns - 1) <= TIME_MAX)
        yield lateness(path)


def lateness(path: RunningPath) -> Row:
    """The path's own report of its lateness."""
    carried = path.carried()
    late_us = [f"{each.late_ns_p99 / 1e3:.0f} µs" for each in (carried.to_server, carried.to_load)]
    return Row("its own lateness, p99", "", " and ".join(late_us), is_right=True)


def send_and_receive(path: RunningPath, count: int, per_s: float) -> tuple[list[int], list[int]]:
    """Sends `count` datagrams over a path; returns the number and arrival time of each that arrives."""
    receiver = Inside(path.server_netns, lambda: receive(path.server_address))
    sender = Inside(path.load_netns, lambda: flood(path.server_address, count, per_s))
    sender.result()
    numbers, times = receiver.result()
    return numbers, times


def check_rate(engine: Engine, rate_bits_per_s: float) -> Iterator[Row]:
    """A flood at three times the rate, which keeps the queue full nearly all the time."""
    packet_bits = 8 * (PAYLOAD_BYTES + HEADER_BYTES)
    per_s = 3 * rate_bits_per_s / packet_bits
    with paths.running_path(engine, PathSpec(rate_bits_per_s=rate_bits_per_s, delay_ms=5.0)) as path:
        numbers, times = send_and_receive(path, round(FLOOD_S * per_s), per_s)
        found = (len(times) - 1) * packet_bits / (times[-1] - times[0]) * 1e9
        error = found / rate_bits_per_s - 1
        asked = f"{rate_bits_per_s / 1e6:g} Mbit/s"
        yield Row("rate", asked, f"{found / 1e6:.4f} Mbit/s ({error:+.2%})", abs(error) <= RATE_MAX)
        yield order(numbers)


def check_loss(engine: Engine, loss: float, seed: int) -> Iterator[Row]:
    """Counts the lost datagrams of a path with loss."""
    with paths.running_path(engine, PathSpec(loss=loss, seed=seed)) as path:
        numbers, _ = send_and_receive(path, LOST_OF, LOST_PER_S)
        lost = LOST_OF - len(numbers)
        low, high = scipy.stats.binom.interval(1 - LOSS_ERROR, LOST_OF, loss)
        asked = f"{loss:.1%} of {LOST_OF:,}: {low:.0f} to {high:.0f}"
        yield Row("loss", asked, f"{lost} lost", low <= lost <= high)
        yield order(numbers)


def order(numbers: list[int]) -> Row:
    """Whether the datagrams arrived in the order in which they were sent."""
    overtaken = sum(number <= before for before, number in itertools.pairwise(numbers))
    return Row("order", "kept", f"{overtaken} of {len(numbers):,} out of order", overtaken == 0)


def main() -> int:
    """Prints a row for each property; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--round-trips", type=at_least_one, default=100, help="round trips for each delay (default: 100)"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the packet loss (default: 1)")
    options = parser.parse_args()
    engine = open_engine()
    if why := paths.why_not(engine):
        print(f"not measurable here: {why}")
        return 0
    checks: list[Iterator[Row]] = [check_times(engine, delay_ms, options.round_trips) for delay_ms in DELAYS_MS]
    checks += [check_rate(engine, rate) for rate in RATES_BITS_PER_S]
    checks += [check_loss(engine, loss, options.seed) for loss in LOSSES]
    wrong = 0
    for row in (row for check in checks for row in check):
        wrong += not row.is_right
        print(f"{row.what:22} {row.asked:28} {row.found}{'' if row.is_right else '   WRONG'}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
