"""How answers are written: part by part, as the client takes them."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel
from starlette.responses import Response, StreamingResponse

from isotune.use.serve import bodies
from isotune.use.serve.batcher import Encoded

PART = 2**16  # characters of an answer that are written at a time


def answer(body: BaseModel, field: str, items: Iterable[str]) -> Response:
    """An answer whose list `field`, empty in `body`, gets items that are JSON already.

    A large answer takes half a second to write, and tens of megabytes. Its parts are made in a thread, each when the
    client has taken the part before it, so other requests go on, and no answer is in memory as a whole.
    """

    def parts() -> Iterator[str]:
        part, name, tail = body.model_dump_json().partition(f'"{field}":[')
        part += name
        for number, item in enumerate(items):
            part += f",{item}" if number else item
            if len(part) >= PART:
                yield part
                part = ""
        yield part + tail

    return StreamingResponse(parts(), media_type="application/json")


def usage(encoded: Encoded) -> bodies.Usage:
    """The tokens of a request."""
    return bodies.Usage(prompt_tokens=encoded.tokens, total_tokens=encoded.tokens)


def as_numbers(vector: NDArray[np.float32]) -> list[float]:
    """A vector [d] as a list."""
    numbers: list[float] = vector.tolist()
    return numbers


def as_base64(vector: NDArray[np.float32]) -> str:
    """A vector [d] as little-endian float32 in base64."""
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()
