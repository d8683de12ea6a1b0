"""What the server answers: refusals in the form of OpenAI's errors, and large answers in parts."""

from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec import Struct
from starlette.responses import Response, StreamingResponse

from isotune.errors import InputError

# So many bytes of an answer are written at a time.
PART = 2**16
# An answer of so few items is written at once.
FEW = 8
KINDS = {429: "rate_limit_error", 500: "server_error", 503: "server_error"}


class ErrorDetail(Struct):
    """What is wrong with a request."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(Struct):
    """The body of every response that is not a success."""

    error: ErrorDetail


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Takes the HTTP status, a message (it becomes a line), and OpenAI's name of the error."""
        super().__init__(message)
        self.status = status
        self.message = str(InputError(message))
        self.code = code
        self.param = param
        self.headers = dict(headers or {})

    def response(self) -> Response:
        """The answer to the request."""
        kind = KINDS.get(self.status, "invalid_request_error")
        body = ErrorBody(ErrorDetail(self.message, kind, self.param, self.code))
        return Response(
            msgspec.json.encode(body), self.status, self.headers, media_type="application/json"
        )


def busy(message: str) -> Refused:
    """The refusal of a request that the server could answer later."""
    return Refused(
        429, f"{message}; try again later", code="rate_limit_exceeded", headers={"retry-after": "1"}
    )


FAILED = Refused(500, "an error in the server; its log says more")


def answer(body: Struct, field: str, items: Iterable[bytes], count: int) -> Response:
    """An answer whose list `field`, empty in `body`, gets `count` items that are JSON already.

    A large answer takes half a second to write, and tens of megabytes. Its parts are made in a
    thread, each when the client has taken the part before it, so other requests go on, and no
    answer is in memory as a whole.
    """
    return _response(msgspec.json.encode(body), f'"{field}":['.encode(), items, count)


def answer_list(items: Iterable[bytes], count: int) -> Response:
    """An answer that is a list of `count` items, which are JSON already, written as `answer`."""
    return _response(b"[]", b"[", items, count)


def _response(body: bytes, opening: bytes, items: Iterable[bytes], count: int) -> Response:
    parts = _parts(body, opening, items)
    if count <= FEW:
        return Response(b"".join(parts), media_type="application/json")
    return StreamingResponse(parts, media_type="application/json")


def _parts(body: bytes, opening: bytes, items: Iterable[bytes]) -> Iterator[bytes]:
    """The body with the items after the opening of their list, in parts of about `PART` bytes."""
    head, _, tail = body.partition(opening)
    part = head + opening
    comma = b""
    for item in items:
        part += comma + item
        comma = b","
        if len(part) >= PART:
            yield part
            part = b""
    yield part + tail
