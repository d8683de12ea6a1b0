"""Refused requests: every error of the server has the form of OpenAI's errors."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel

from isotune.errors import InputError


class ErrorDetail(BaseModel):
    """What is wrong with a request."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorBody(BaseModel):
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
        """Takes the HTTP status, one clear line, and OpenAI's name of the error if there is one.

        What the client's own words break into lines becomes one line, as in `InputError`.
        """
        super().__init__(message)
        self.status, self.message, self.code, self.param = status, str(InputError(message)), code, param
        self.headers = dict(headers or {})

    def body(self) -> bytes:
        """The response's body, in JSON."""
        kind = "rate_limit_error" if self.status == 429 else "invalid_request_error"
        detail = ErrorDetail(
            message=self.message,
            type="server_error" if self.status >= 500 else kind,
            param=self.param,
            code=self.code,
        )
        return ErrorBody(error=detail).model_dump_json().encode()


FAILED = Refused(500, "an error in the server; its log says more")
