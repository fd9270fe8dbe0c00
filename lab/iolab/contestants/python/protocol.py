"""iolab's protocol `rpc` without I/O: takes the bytes of calls and returns the bytes of replies.

docs/protocols.md of iolab describes it: a frame is the length of its payload in four bytes, big-endian, and then JSON.
Threads, asyncio and Tornado use this one implementation, so that their work is equal.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterator

# The computation of a call.
Compute = Callable[[int], int]

PAYLOAD_BYTES_MAX = 1 << 20
TARGET_MAX = 10_000_000
# The size of one receive. The kernel would map and unmap a larger buffer each time.
RECEIVE_BYTES = 1 << 16

BAD_LENGTH = f"a request has 1 to {PAYLOAD_BYTES_MAX} bytes"
BAD_REQUEST = "a request is an object of target, a whole number, and text, a string"
BAD_TARGET = f"target is {TARGET_MAX} at most"

LENGTH = struct.Struct(">I")
STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')


class Refused(Exception):
    """A call that the server cannot answer: it sends the client the reason and closes the connection."""


class Session:
    """The server's side of one connection. If `is_over`, close it once its replies are sent."""

    def __init__(self, compute: Compute, calls_max: int | None = None) -> None:
        self.is_over = False
        self._compute = compute
        self._calls_max = calls_max
        self._calls = 0
        self._received = bytearray()

    def receive(self, data: bytes) -> bytes:
        """Takes the client's next bytes; returns the replies to all calls that are now complete."""
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
        """The complete payloads, up to the connection's limit of calls."""
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
    """A payload with its length in front."""
    data = payload.encode()
    return LENGTH.pack(len(data)) + data


def parsed(payload: bytearray) -> tuple[int, str]:
    """The target of a call, and its text as written, with quotes and escapes; raises Refused."""
    try:
        request = payload.decode()
        call = DECODER.decode(request)
    except (ValueError, RecursionError):
        raise Refused(BAD_REQUEST) from None
    # Two names and the text; a repeated member adds another string.
    strings = STRING.findall(request)
    if not (isinstance(call, dict) and call.keys() == {"target", "text"} and len(strings) == 3):
        raise Refused(BAD_REQUEST)
    target = checked(call["target"], call["text"])
    return target, strings[2] if list(call)[1] == "text" else strings[1]


def checked(target: object, text: object) -> int:
    """The target of a valid call; raises Refused."""
    # The exact type is checked because isinstance takes true and false for whole numbers.
    if type(target) is not int or not 0 <= target < 1 << 32 or not isinstance(text, str):
        raise Refused(BAD_REQUEST)
    if target > TARGET_MAX:
        raise Refused(BAD_TARGET)
    return target


def _whole(digits: str) -> int:
    """Parses a whole number. -0 is not allowed in a call, and as an int it would look like 0."""
    return int(digits) if digits != "-0" else -1


DECODER = json.JSONDecoder(parse_int=_whole)
