"""The bodies of requests and responses.

Their docstrings and descriptions become the server's OpenAPI pages.

msgspec reads a body. It ends at the first mistake, and makes no objects for fields that are not
wanted: four megabytes take a few milliseconds, or a tenth of a second if they are a million texts.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_type_hints

import msgspec
from msgspec import Meta, Struct

import isotune
from isotune.use.search import filters
from isotune.use.serve.answers import ErrorBody, Refused
from isotune.use.serve.limits import USUAL

Texts = Annotated[list[str], Meta(min_length=1, max_length=USUAL.items)]
Name = Annotated[
    str | None, Meta(description="The name of an encoder of this server. Unset: the first encoder.")
]
Body = TypeVar("Body", bound=Struct)
ROLES = {
    "query": "query",
    "search_query": "query",
    "document": "document",
    "passage": "document",
    "search_document": "document",
}
TEXT = (
    "Sentence encoders. An API key, where the server needs one, is sent as: "
    "Authorization: Bearer KEY"
)


def parse(body: bytes, kind: type[Body]) -> Body:
    """Reads a request's body; a wrong one is refused in a line with what was got and is allowed."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise _wrong(str(error), kind) from None
    except (ValueError, RecursionError) as error:
        surrogate = ""
        if b"\\ud" in body.lower():
            surrogate = " (half of a surrogate pair is no character)"
        raise Refused(400, f"not JSON: {error}{surrogate}") from None


def _wrong(error: str, kind: type[Struct]) -> Refused:
    """The refusal of a body, by what msgspec says of it."""
    reason = error.partition(" - at `$.")[0]
    # Such as: Object missing required field `input`; or: Expected `str`, got `int` - at
    # `$.input[3]`
    match = re.search(r"field `(.+)`|at `\$\.([^`\[]+)(?:\[(\d+)\])?", error, re.DOTALL)
    if match is None:
        return Refused(400, f"the body has to be a JSON object ({reason})")
    name = match[1] or match[2]
    place = name[:50]
    if match[3]:
        place += f".{match[3]}"
    hint = get_type_hints(kind, include_extras=True).get(name)
    allowed = f"the fields are {', '.join(kind.__struct_fields__)}"
    if hint:
        allowed = hint.__metadata__[-1].description
    return Refused(400, f"{place}: {reason:.200}; {allowed}", param=place)


class EmbeddingsRequest(Struct):
    """Texts to encode, as in OpenAI's API. Fields that it doesn't know are not read."""

    input: Annotated[
        str | Texts,
        Meta(
            description="A text, or a list of 1 to 2,048 texts. Token ids are refused, because "
            "they are of another model's tokenizer (LangChain's OpenAIEmbeddings sends texts with "
            "check_embedding_ctx_length=False)."
        ),
    ]
    model: Name = None
    encoding_format: Annotated[
        Literal["float", "base64", "int8", "ubinary"] | None,
        Meta(
            description="How a vector is written: float, a list of numbers; base64, of "
            "little-endian float32; int8, a list of whole numbers from -128 to 127, if the server "
            "has ranges for the encoder; or ubinary, the signs of eight numbers in each number "
            "from 0 to 255."
        ),
    ] = None
    input_type: Annotated[
        str | None,
        Meta(
            description="What the texts are, so that the encoder's prompt for it is put before "
            "them: query or search_query; document, passage or search_document. Unset, or another "
            "word: the encoder's usual prompt."
        ),
    ] = None
    dimensions: Annotated[
        int | None,
        Meta(
            description="How many features of a vector to keep, the first ones; the vector has "
            "length 1 again. Unset: all features."
        ),
    ] = None


class Embedding(Struct):
    """The vector of a text, of length 1."""

    index: Annotated[int, Meta(description="The number of the text in the request, from 0.")]
    embedding: Annotated[
        list[float] | str, Meta(description="The vector, in the format that was asked for.")
    ]
    object: Literal["embedding"] = "embedding"


class Usage(Struct):
    """The tokens of all texts, special tokens included, after long texts were cut."""

    prompt_tokens: int
    total_tokens: int


class Embeddings(Struct):
    """The vectors of all texts, in their order."""

    data: list[Embedding]
    model: str
    usage: Usage
    object: Literal["list"] = "list"


class SimilarityRequest(Struct, forbid_unknown_fields=True):
    """Texts to compare."""

    first: Annotated[Texts, Meta(description="A list of 1 to 2,048 texts.")]
    second: Annotated[
        Texts | None,
        Meta(
            description="Other texts. Without them, the first texts are compared with each other."
        ),
    ] = None
    model: Name = None
    measure: Annotated[
        Literal["cosine", "probability"],
        Meta(
            description="cosine, or probability: from a calibrated encoder, that both texts mean "
            "the same."
        ),
    ] = "cosine"


class Similarities(Struct):
    """The cosine of each first text with each second one, or the probability of one meaning."""

    model: str
    similarities: Annotated[
        list[list[float]],
        Meta(description="A row for each first text, with a number for each second text."),
    ]
    usage: Usage


class PredictRequest(Struct):
    """Texts to classify, as in text-embeddings-inference. Unknown fields are not read."""

    inputs: Annotated[
        str | Annotated[list[str | list[str]], Meta(min_length=1, max_length=USUAL.items)],
        Meta(
            description='A text; a pair of texts, as ["first", "second"]; or a batch of 1 to 2,048 '
            'texts or pairs, each in a list of its own: [["a text"], ["another"]].'
        ),
    ]
    raw_scores: Annotated[
        bool, Meta(description="Whether to give the outputs of the layer, and no probabilities.")
    ] = False
    truncate: Annotated[
        bool, Meta(description="Is not read: a text that is too long is cut in any case.")
    ] = False
    model: Annotated[
        str | None,
        Meta(description="The name of a classifier of this server. Unset: the first classifier."),
    ] = None


class Prediction(Struct):
    """A label and its probability. A classifier of numbers has the only label "score"."""

    score: float
    label: str


Predictions = list[Prediction | list[Prediction]]
"""A prediction for each label, the most likely first; of a batch, such a list for each text."""


class Model(Struct):
    """An encoder of this server."""

    id: str
    created: Annotated[
        int, Meta(description="When the server loaded the encoder, in seconds since 1970.")
    ]
    dimension: Annotated[int, Meta(description="The length of a vector.")]
    max_tokens: Annotated[
        int, Meta(description="Longer texts are cut to this many tokens, special tokens included.")
    ]
    owned_by: str = "isotune"
    object: Literal["model"] = "model"


class Models(Struct):
    """The encoders of this server. The first one is used for requests that name none."""

    data: list[Model]
    object: Literal["list"] = "list"


class Health(Struct):
    """The server takes requests."""

    keys: Annotated[bool, Meta(description="Whether requests need an API key.")]
    index: Annotated[bool, Meta(description="Whether the server searches an index.")]
    status: Literal["ok"] = "ok"


class SearchRequest(Struct, forbid_unknown_fields=True):
    """A search in the server's index."""

    query: Annotated[str, Meta(description="A text.")]
    k: Annotated[int, Meta(ge=1, le=1000, description="How many rows to return, 1 to 1,000.")] = 10
    where: Annotated[
        Annotated[str, Meta(max_length=filters.LONGEST)] | None,
        Meta(description="A condition on the columns, such as lang = 'en' and year > 2020."),
    ] = None
    hybrid: Annotated[
        bool,
        Meta(description="Whether to join the ranking by cosine with a ranking by words (BM25)."),
    ] = False
    probability: Annotated[
        Annotated[float, Meta(gt=0, lt=1)] | None,
        Meta(
            description="The least probability that a row's text and the query mean the same, "
            "between 0 and 1."
        ),
    ] = None


class Hit(Struct):
    """A row of the index."""

    id: str
    text: str
    cosine: Annotated[
        float, Meta(description="The cosine similarity of the row's text and the query.")
    ]
    probability: Annotated[
        float | None,
        Meta(
            description="That the row's text and the query mean the same; null if the encoder is "
            "not calibrated."
        ),
    ]
    joined: Annotated[
        float | None,
        Meta(
            description="What the rows of a hybrid search are ordered by: the sum of 1 / (60 + "
            "rank) over the rankings by cosine and by words; null in other searches."
        ),
    ]
    columns: Annotated[
        dict[str, Any],
        Meta(description="The other columns of the row; bytes are written in base64."),
    ]


class Hits(Struct):
    """The rows that fit best, the best first."""

    hits: list[Hit]


class Operation(NamedTuple):
    """What the server does at a path.

    `do` is a function of the scope, and of the body or the name in the path.
    """

    method: str
    path: str
    do: Callable[[Any, Any], Awaitable[Any]]
    takes: type[Struct] | None
    gives: Any
    """The type of the answer; None for a text."""


def describe(operations: Sequence[Operation]) -> dict[str, Any]:
    """The description of all operations, which becomes /openapi.json."""
    kinds: dict[Any, None] = {ErrorBody: None}
    for operation in operations:
        kinds |= dict.fromkeys(kind for kind in (operation.takes, operation.gives) if kind)
    described, components = msgspec.json.schema_components(
        kinds, ref_template="#/components/schemas/{name}"
    )
    schemas = dict(zip(kinds, described, strict=True))
    paths = {}
    for operation in operations:
        path = operation.path.replace(":path", "")
        paths[path] = {operation.method.lower(): _described(operation, schemas)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "isotune", "version": isotune.__version__, "description": TEXT},
        "paths": paths,
        "components": {"schemas": components},
    }


def _described(operation: Operation, schemas: Mapping[Any, Any]) -> dict[str, Any]:
    """The description of an operation, as OpenAPI has it, with the schemas of all bodies."""
    parameters = []
    if "{name" in operation.path:
        schema = {"type": "string"}
        parameters.append({"name": "name", "in": "path", "required": True, "schema": schema})
    described: dict[str, Any] = {
        "summary": operation.do.__doc__,
        "operationId": operation.do.__name__,
        "parameters": parameters,
    }
    if operation.takes is not None:
        content = _content(schemas[operation.takes])
        described["requestBody"] = {"required": True, "content": content}
    answer = {"text/plain": {"schema": {"type": "string"}}}
    if operation.gives is not None:
        answer = _content(schemas[operation.gives])
    described["responses"] = {
        "200": {"description": "The answer", "content": answer},
        "default": {
            "description": "The request is refused, or the server failed",
            "content": _content(schemas[ErrorBody]),
        },
    }
    return described


def _content(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
