"""The signals that end the lab: turned into an exception, and held back while a result is stored."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

# The signals that end the lab.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(BaseException):
    """A signal asked the lab to end. `code` is the exit code that shells expect for it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.code = 128 + number


@contextmanager
def stopping_on(signals: Iterable[signal.Signals] = ENDING) -> Iterator[None]:
    """Turns these signals into `Stopped`, so that children are ended and finished results are kept."""

    def stop(number: int, _frame: object) -> None:
        raise Stopped(number)

    before = {number: signal.signal(number, stop) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def signals_held() -> Iterator[None]:
    """Holds back the signals that end the lab, so that a result is stored whole or not at all.

    Blocking them would not work: a thread of a numerical library would take them and still end the lab.
    """
    came: list[int] = []
    before = {number: signal.signal(number, lambda number, _: came.append(number)) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for held in came:
            signal.raise_signal(held)
