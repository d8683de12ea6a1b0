"""The server's operations as a description in OpenAPI, from the docstrings and types of their bodies."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import msgspec

import isotune
from isotune.use.serve.answers import ErrorBody

TEXT = "Sentence encoders. An API key, where the server needs one, is sent as: Authorization: Bearer KEY"


class Operation(NamedTuple):
    """What the server does at a path: a function of the scope, and of the body or the name in the path."""

    method: str
    path: str
    do: Callable[[Any, Any], Awaitable[Any]]
    takes: type[msgspec.Struct] | None
    gives: type[msgspec.Struct] | None  # None for a text


def describe(operations: Sequence[Operation]) -> dict[str, Any]:
    """The description of all operations, which becomes /openapi.json."""
    kinds = {kind for operation in operations for kind in (operation.takes, operation.gives, ErrorBody) if kind}
    _, schemas = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    return {
        "openapi": "3.1.0",
        "info": {"title": "isotune", "version": isotune.__version__, "description": TEXT},
        "paths": {each.path.replace(":path", ""): {each.method.lower(): _described(each)} for each in operations},
        "components": {"schemas": schemas},
    }


def _described(operation: Operation) -> dict[str, Any]:
    name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
    failed = {"description": "The request is refused, or the server failed", "content": _content(ErrorBody)}
    return {
        "summary": operation.do.__doc__,
        "operationId": operation.do.__name__,
        "parameters": [name] if "{name" in operation.path else [],
        **({"requestBody": {"required": True, "content": _content(operation.takes)}} if operation.takes else {}),
        "responses": {
            "200": {"description": "The answer", "content": _content(operation.gives)},
            "4XX": failed,
            "5XX": failed,
        },
    }


def _content(kind: type[msgspec.Struct] | None) -> dict[str, Any]:
    if kind is None:
        return {"text/plain": {"schema": {"type": "string"}}}
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{kind.__name__}"}}}
