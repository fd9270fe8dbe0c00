"""Expected failures: a message of one line, and the exit code of a command."""

from __future__ import annotations


class IolabError(Exception):
    """An expected failure. The message is one line: what is wrong, and what to do."""

    code = 1


class BadInput(IolabError):
    """The request is invalid or cannot be met."""

    code = 2


class PlanError(BadInput, ValueError):
    """An invalid plan. The message is one line: where, which key, and what to do."""


class StoreError(IolabError):
    """A run cannot be stored or read. The message is one line: the file, what is wrong, and what to do."""


class NotResumable(BadInput, StoreError):
    """A stored run cannot be continued as asked. The message is one line: the file, what is wrong, and what to do."""
