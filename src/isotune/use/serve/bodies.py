"""The bodies of requests and responses. Their docstrings and descriptions become the server's OpenAPI pages."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from isotune.data.rows import is_unicode
from isotune.use.search import filters
from isotune.use.serve.limits import USUAL


def _unicode(text: str) -> str:
    if not is_unicode(text):
        raise ValueError("a text has half of a surrogate pair")
    return text


Text = Annotated[str, Field(strict=True), AfterValidator(_unicode)]
# Validation ends at the first wrong text, because a body may have millions of them.
Texts = Annotated[list[Text], Field(min_length=1, max_length=USUAL.items, fail_fast=True)]


class _Request(BaseModel):
    """A request's body. An unknown field is refused, because it might change what the client expects."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_first_unknown(cls, fields: Any) -> Any:
        """Ends validation at the first unknown field, because a body may have many of these too."""
        for name in fields if isinstance(fields, dict) else ():
            if name not in cls.model_fields:
                raise ValueError(f"{name:.50}: unknown field; leave it out")
        return fields


class _Response(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True, ser_json_bytes="base64")


class EmbeddingsRequest(_Request):
    """Texts to encode, as in OpenAI's API."""

    input: Text | Texts
    """A text, or a list of texts. Token ids are refused: those of another model's tokenizer mean nothing here."""

    model: Text
    """The name of an encoder of this server."""

    encoding_format: Literal["float", "base64"] = "float"
    """How a vector is written: as a list of numbers, or as little-endian float32 in base64."""

    dimensions: int | None = None
    """The length of a vector. Only the encoder's own length is allowed."""

    user: str | None = None
    """Not used."""


class Embedding(_Response):
    """The vector of a text, of length 1."""

    object: Literal["embedding"] = "embedding"
    index: int
    """The number of the text in the request, from 0."""

    embedding: list[float] | str
    """The vector, in the format that was asked for."""


class Usage(_Response):
    """The tokens of all texts, special tokens included, after long texts were cut."""

    prompt_tokens: int
    total_tokens: int


class Embeddings(_Response):
    """The vectors of all texts, in their order."""

    object: Literal["list"] = "list"
    data: list[Embedding]
    model: str
    usage: Usage


class SimilarityRequest(_Request):
    """Texts to compare."""

    first: Texts
    """Texts."""

    second: Texts | None = None
    """Other texts. Without them, the first texts are compared with each other."""

    model: Text | None = None
    """The name of an encoder of this server. Unset: the first encoder."""

    measure: Literal["cosine", "probability"] = "cosine"
    """What to answer: cosines, or, from a calibrated encoder, the probability that both texts mean the same."""


class Similarities(_Response):
    """The cosine similarity of each first text with each second text, or the probability that both mean the same."""

    model: str
    similarities: list[list[float]]
    """A row for each first text, with a number for each second text."""

    usage: Usage


class Model(_Response):
    """An encoder of this server."""

    id: str
    object: Literal["model"] = "model"
    created: int
    """When the server loaded the encoder, in seconds since 1970."""

    owned_by: str = "isotune"
    dimension: int
    """The length of a vector."""

    max_tokens: int
    """Longer texts are cut to this many tokens, special tokens included."""


class Models(_Response):
    """The encoders of this server. The first one is used where a request may leave the name out."""

    object: Literal["list"] = "list"
    data: list[Model]


class Health(_Response):
    """The server takes requests."""

    status: Literal["ok"] = "ok"
    keys: bool
    """Whether requests need an API key."""

    index: bool
    """Whether the server searches an index."""


class SearchRequest(_Request):
    """A search in the server's index."""

    query: Text
    """A text."""

    k: Annotated[int, Field(ge=1, le=1000)] = 10
    """How many rows to return."""

    where: Annotated[Text, Field(max_length=filters.LONGEST)] | None = None
    """A condition on the columns, such as lang = 'en' and year > 2020."""

    hybrid: bool = False
    """Whether to join the ranking by cosine with a ranking by words (BM25)."""

    probability: Annotated[float, Field(gt=0, lt=1)] | None = None
    """The least probability that a row's text and the query mean the same; from a calibrated encoder."""


class Hit(_Response):
    """A row of the index."""

    id: str
    text: str
    cosine: float
    """The cosine similarity of the row's text and the query."""

    probability: float | None
    """The probability that the row's text and the query mean the same; null if the encoder is not calibrated."""

    columns: dict[str, Any]
    """The other columns of the row; bytes are written in URL-safe base64."""


class Hits(_Response):
    """The rows that fit best, the best first."""

    hits: list[Hit]
