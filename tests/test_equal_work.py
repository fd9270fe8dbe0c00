"""Servers in other languages send the engine's bytes, and end with their children.

A server that is not installed is skipped by name, with what would install it.
"""

from __future__ import annotations

import pytest

import equal_work
from equal_work import KEEP_ALIVE, PATHS, REFUSAL
from iolab.plan import registry

KNOWN = registry.load()
# The parts of the engine's work that each one lacks, because its library does.
LACKS = {
    "nginx": frozenset[str](),
    "python-http": frozenset({KEEP_ALIVE}),
    "python-http[serve=threading,backlog=4096]": frozenset({KEEP_ALIVE}),
    "raw-hyper": frozenset({PATHS, REFUSAL}),
    "may_minihttp": frozenset({PATHS, REFUSAL}),
    "raw-libevent": frozenset[str](),
    "raw-monoio": frozenset[str](),
    "raw-tokio": frozenset[str](),
    "go": frozenset[str](),
    "node": frozenset[str](),
    "java": frozenset[str](),
    "php": frozenset[str](),
    "php[wait=libevent]": frozenset[str](),
    "asyncio": frozenset[str](),
    "tornado": frozenset[str](),
    "aiohttp": frozenset[str](),
    "uvicorn": frozenset[str](),
    "uvicorn[http=httptools,loop=uvloop]": frozenset[str](),
    "gunicorn": frozenset[str](),
}


@pytest.mark.parametrize("text", LACKS)
def test_a_contestant_does_the_work_of_the_engines_models(text: str) -> None:
    equal_work.check(text, KNOWN, LACKS[text])
