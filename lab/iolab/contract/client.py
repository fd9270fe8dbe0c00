"""The figures of a client other than our generator: the last line of its standard output, as JSON.

`{"requests": 400000, "failed": 0, "elapsed_s": 3.2, "clients_s": [3.1, 3.2]}`: the answered and the failed requests,
the time they took, and the time of each of its processes or threads.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, ValidationError

from iolab.contract.types import ContractError, Count, Frozen, one_line

Seconds = Annotated[float, Field(ge=0, le=86_400)]


class ClientFigures(Frozen):
    """The figures of a client, by its own clock."""

    requests: Count
    failed: Count = 0
    elapsed_s: float = Field(gt=0, le=86_400)
    clients_s: tuple[Seconds, ...] = Field(default=(), max_length=100_000)


def parse_client_figures(line: bytes) -> ClientFigures:
    """Parses the line; raises ContractError with one line that names the field."""
    try:
        return ClientFigures.model_validate_json(line, strict=True)
    except ValidationError as error:
        raise ContractError(one_line(error)) from None
