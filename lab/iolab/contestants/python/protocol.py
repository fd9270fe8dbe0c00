"""The protocol `rpc` of iolab without I/O: the bytes of calls go in, and the bytes of replies come out.

docs/protocols.md of iolab describes it: a frame is the length of its payload in four bytes, the highest first, and then
JSON. Threads, asyncio and Tornado use this one implementation, so that their work is equal.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterator

# What a server computes for a call.
Compute = Callable[[int], int]

PAYLOAD_BYTES_MAX = 1 << 20
TARGET_MAX = 10_000_000
# One receive takes at most so much. A larger buffer would be mapped and unmapped by the kernel each time.
RECEIVE_BYTES = 1 << 16

BAD_LENGTH = f"a request has 1 to {PAYLOAD_BYTES_MAX} bytes"
BAD_REQUEST = "a request is an object of target, a whole number, and text, a string"
BAD_TARGET = f"target is {TARGET_MAX} at most"

LENGTH = struct.Struct(">I")
STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')


class Refused(Exception):
    """A call that the server cannot answer: it sends the client the reason and closes the connection."""


class Session:
    """One connection as the server sees it. `is_over`: it is to be closed once its replies are sent."""

    def __init__(self, compute: Compute, calls_max: int | None = None) -> None:
        self.is_over = False
        self._compute = compute
        self._calls_max = calls_max
        self._calls = 0
        self._received = bytearray()

    def receive(self, data: bytes) -> bytes:
        """Takes the next bytes of the client; returns the replies to all calls that are whole now."""
        self._received += data
        replies = []
        try:
            for payload in self._payloads():
                target, text = parsed(payload)
                replies.append(frame(f'{{"answer": {self._compute(target)}, "text": {text}}}'))
        except Refused as why:
            replies.append(frame(f'{{"error": "{why}"}}'))
            self.is_over = True
        return b"".join(replies)

    def _payloads(self) -> Iterator[bytearray]:
        """The payloads that are whole, as many as the connection may still have."""
        while len(self._received) >= LENGTH.size and not self.is_over:
            (length,) = LENGTH.unpack_from(self._received)
            if not 1 <= length <= PAYLOAD_BYTES_MAX:
                raise Refused(BAD_LENGTH)
            end = LENGTH.size + length
            if len(self._received) < end:
                return
            payload = self._received[LENGTH.size : end]
            del self._received[:end]
            self._calls += 1
            self.is_over = self._calls == self._calls_max
            yield payload


def frame(payload: str) -> bytes:
    """A payload with its length before it."""
    data = payload.encode()
    return LENGTH.pack(len(data)) + data


def parsed(payload: bytearray) -> tuple[int, str]:
    """The target of a call, and its text as it was written, with quotes and escapes; raises Refused."""
    try:
        request = payload.decode()
        call = DECODER.decode(request)
    except (ValueError, RecursionError):
        raise Refused(BAD_REQUEST) from None
    # Two names and the text: a member that is given twice has one more.
    strings = STRING.findall(request)
    if not (isinstance(call, dict) and call.keys() == {"target", "text"} and len(strings) == 3):
        raise Refused(BAD_REQUEST)
    target = checked(call["target"], call["text"])
    return target, strings[2] if list(call)[1] == "text" else strings[1]


def checked(target: object, text: object) -> int:
    """The target, if it and the text are what a call may have; raises Refused."""
    # A type of its own is asked for: true and false are whole numbers for isinstance.
    if type(target) is not int or not 0 <= target < 1 << 32 or not isinstance(text, str):
        raise Refused(BAD_REQUEST)
    if target > TARGET_MAX:
        raise Refused(BAD_TARGET)
    return target


def _whole(digits: str) -> int:
    """A number of JSON. -0 is none that a call may have, and as an int it would look like 0."""
    return int(digits) if digits != "-0" else -1


DECODER = json.JSONDecoder(parse_int=_whole)
