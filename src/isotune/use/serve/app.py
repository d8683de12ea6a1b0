"""The routes of the server: what each request is answered with."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.middleware.trustedhost import TrustedHostMiddleware
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Scope

import isotune
from isotune.encoder.calibration import required
from isotune.encoder.encoder import Encoder
from isotune.encoder.stream import refuse_no_numbers
from isotune.errors import InputError
from isotune.use.serve import bodies
from isotune.use.serve.answers import FAILED, ErrorBody, Refused, answer, as_base64
from isotune.use.serve.batcher import Batcher, Encoded
from isotune.use.serve.gate import Budget, Gate, Keys
from isotune.use.serve.limits import USUAL, Limits
from isotune.use.serve.metrics import Metrics

if TYPE_CHECKING:
    from isotune.use.search import Index

# The files of the page, by their paths at the server.
PAGE = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
HEALTH = "/health"
SCHEMA = "/openapi.json"
INPUT_MESSAGE = (
    "input: a text or a list of at least one text is needed; token ids are refused, because they are of another "
    "model's tokenizer (LangChain's OpenAIEmbeddings sends texts with check_embedding_ctx_length=False)"
)
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")
SEARCHES = 2  # searches at a time; others wait
ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorBody, "description": "The request is refused; the message says why"},
    "5XX": {"model": ErrorBody, "description": "The server failed, or was too busy"},
}


class Service:
    """What the routes work with: encoders by name, the batcher, and an index if there is one.

    Searches have threads of their own, so that slow ones make nothing else wait.
    """

    def __init__(
        self,
        encoders: Mapping[str, Encoder],
        limits: Limits,
        metrics: Metrics,
        index: Index | None,
        needs_key: bool,
    ) -> None:
        """Starts the batcher's workers."""
        self.encoders, self.limits, self.metrics, self.index = dict(encoders), limits, metrics, index
        self.needs_key = needs_key
        self.calibrations = {name: encoder.calibration for name, encoder in encoders.items()}
        self.batcher = Batcher(list(encoders.values()))
        self.searching = ThreadPoolExecutor(SEARCHES, "search")
        self.tokens = Budget(limits.tokens_in_progress, "tokens")
        self.created = int(time.time())

    def close(self) -> None:
        """Finishes what was accepted, and ends all threads."""
        self.searching.shutdown()
        self.batcher.close()

    async def encode(self, scope: Scope, model: str, texts: Sequence[str], param: str) -> Encoded:
        """Encodes texts of the request of a scope; `param` is the field that they come from, for errors."""
        if model not in self.encoders:
            message = f"unknown model {model!r:.200}; this server has {', '.join(self.encoders)}"
            raise Refused(404, message, code="model_not_found", param="model")
        if len(texts) > self.limits.items:
            raise Refused(400, f"{len(texts):,} texts; a request may have {self.limits.items:,}", param=param)
        if (longest := max(map(len, texts))) > (limit := self.limits.characters):
            raise Refused(400, f"a text of {longest:,} characters; a text may have {limit:,}", param=param)
        encoder = self.encoders[model]
        ids: list[list[int]] = []
        tokens = 0
        async for part in self.batcher.tokenize(encoder, texts):
            ids += part
            tokens += sum(map(len, part))
            if tokens > (limit := self.limits.tokens):
                raise Refused(400, f"more than {limit:,} tokens; send fewer texts in a request", param=param)
            self.tokens.take(scope, tokens)
        encoded = await self.batcher.encode(encoder, ids)
        refuse_no_numbers(encoded.vectors, texts)
        self.metrics.texts.labels(model).inc(len(texts))
        self.metrics.tokens.labels(model).inc(encoded.tokens)
        self.metrics.cut.labels(model).inc(encoded.cut)
        return encoded


def application(
    encoders: Mapping[str, Encoder],
    *,
    limits: Limits = USUAL,
    keys: Sequence[str] = (),
    origins: Sequence[str] = (),
    index: Index | None = None,
    hosts: Sequence[str] = LOCAL_NAMES,
) -> ASGIApp:
    """Makes the whole ASGI application for encoders by name.

    Args:
        encoders: the first is the one for requests that name none.
        limits: what is accepted of a request.
        keys: API keys; without any, requests need none.
        origins: origins of other web pages whose scripts may call the server (CORS).
        index: what /search searches; its encoder is one of the encoders.
        hosts: the names by which requests may call a server without keys; none: any name. A page of the web that lets
            a name of its own point here (DNS rebinding) can't reach the server by that name.
    """
    service = Service(encoders, limits, metrics := Metrics(), index, bool(keys))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.close)

    api = FastAPI(
        title="isotune",
        version=isotune.__version__,
        description="Sentence encoders. An API key, where the server needs one, is sent as: Authorization: Bearer KEY",
        openapi_url=SCHEMA,
        docs_url=None,
        redoc_url=None,
        responses=ERRORS,
        lifespan=lifespan,
    )
    _add_encoding(api, service)
    _add_information(api, service)
    for path, (name, kind) in PAGE.items():
        api.add_api_route(path, partial(_file, name, kind), methods=["GET"], include_in_schema=False)
    for error in (RequestValidationError, HTTPException, InputError, Refused, Exception):
        api.add_exception_handler(error, _refuse)
    app: ASGIApp = Gate(
        api,
        limits=limits,
        metrics=metrics,
        keys=Keys(keys),
        open_paths=[*PAGE, HEALTH, SCHEMA],
        paths=[*PAGE, SCHEMA, *api.openapi()["paths"]],
        tokens=service.tokens,
    )
    if hosts and not keys:
        app = TrustedHostMiddleware(app, hosts, www_redirect=False)
    if origins:
        # Outside of the gate: a browser asks without the key whether it may send the key, and reads errors only so.
        headers = ["Authorization", "Content-Type"]
        return CORSMiddleware(app, allow_origins=origins, allow_methods=["GET", "POST"], allow_headers=headers)
    return app


def _add_encoding(api: FastAPI, service: Service) -> None:
    """Adds the routes that encode texts."""

    @api.post("/v1/embeddings", response_model=bodies.Embeddings)
    async def embeddings(request: Request, body: bodies.EmbeddingsRequest) -> Response:
        """Encode texts, as OpenAI's embeddings."""
        texts = [body.input] if isinstance(body.input, str) else body.input
        known = service.encoders.get(body.model)
        if known and body.dimensions not in (None, known.dimension):
            size = known.dimension
            message = f"dimensions {body.dimensions}: vectors of {body.model} have {size}; leave the field out"
            raise Refused(400, message, param="dimensions")
        encoded = await service.encode(request.scope, body.model, texts, "input")
        write: Callable[[Any], Any] = as_base64 if body.encoding_format == "base64" else lambda vector: vector.tolist()
        made = bodies.Embedding.model_construct
        data = (made(index=i, embedding=write(vector)).model_dump_json() for i, vector in enumerate(encoded.vectors))
        return answer(bodies.Embeddings(data=[], model=body.model, usage=_usage(encoded)), "data", data)

    @api.post("/similarity", response_model=bodies.Similarities)
    async def similarity(request: Request, body: bodies.SimilarityRequest) -> Response:
        """Compare texts by the cosine of their vectors, or by the probability that they mean the same."""
        model = body.model or next(iter(service.encoders))
        if len(body.first) * len(body.second or body.first) > service.limits.items**2 // 4:
            raise Refused(400, "too many pairs of texts in a request", param="first")
        scale: Callable[[Any], Any] = np.asarray
        if body.measure == "probability" and model in service.calibrations:
            scale = required(service.calibrations[model]).probability
        encoded = await service.encode(request.scope, model, [*body.first, *(body.second or [])], "first")
        first = encoded.vectors[: len(body.first)]
        second = encoded.vectors[len(body.first) :] if body.second else first
        rows = (json.dumps(scale(np.clip(second @ vector, -1, 1)).tolist()) for vector in first)
        return answer(bodies.Similarities(model=model, similarities=[], usage=_usage(encoded)), "similarities", rows)

    if (index := service.index) is not None:
        model = next(name for name, encoder in service.encoders.items() if encoder is index.encoder)
        calibration = service.calibrations[model]

        @api.post("/search", response_model=bodies.Hits)
        async def search(request: Request, body: bodies.SearchRequest) -> Response:
            """Search the index."""
            if not body.query.strip():
                raise Refused(400, "the query is empty; write what to search for", param="query")
            least = required(calibration).cosine(body.probability) if body.probability else -math.inf
            encoded = await service.encode(request.scope, model, [body.query.strip()], "query")
            options = {"where": body.where, "hybrid": body.hybrid, "vector": encoded.vectors[0]}

            def find() -> list[str]:
                found = [hit for hit in index.search(body.query, body.k, **options) if hit.cosine >= least]
                chances = (
                    calibration.probability([hit.cosine for hit in found]).tolist() if calibration else repeat(None)
                )
                made = bodies.Hit.model_construct
                pairs = zip(found, chances, strict=False)
                return [made(**hit._asdict(), probability=chance).model_dump_json() for hit, chance in pairs]

            hits = await asyncio.get_running_loop().run_in_executor(service.searching, find)
            if (size := sum(map(len, hits))) > (limit := service.limits.hits):
                message = f"{len(hits):,} rows of {size:,} characters; an answer may have {limit:,}; ask for fewer rows"
                raise Refused(400, message, param="k")
            return answer(bodies.Hits(hits=[]), "hits", hits)


def _add_information(api: FastAPI, service: Service) -> None:
    """Adds the routes that encode nothing."""

    def model(name: str, encoder: Encoder) -> bodies.Model:
        limit = encoder.max_length
        return bodies.Model(id=name, created=service.created, dimension=encoder.dimension, max_tokens=limit)

    @api.get("/v1/models")
    async def models() -> bodies.Models:
        """List the encoders."""
        return bodies.Models(data=[model(name, encoder) for name, encoder in service.encoders.items()])

    @api.get("/v1/models/{name:path}")
    async def model_named(name: str) -> bodies.Model:
        """Describe an encoder."""
        if name not in service.encoders:
            raise Refused(404, f"unknown model {name!r:.200}", code="model_not_found", param="model")
        return model(name, service.encoders[name])

    @api.get(HEALTH)
    async def health() -> bodies.Health:
        """Say that the server takes requests."""
        return bodies.Health(keys=service.needs_key, index=service.index is not None)

    @api.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        """Count requests, texts and tokens, for Prometheus."""
        return Response(generate_latest(service.metrics.registry), media_type=CONTENT_TYPE_LATEST)


def _usage(encoded: Encoded) -> bodies.Usage:
    return bodies.Usage(prompt_tokens=encoded.tokens, total_tokens=encoded.tokens)


def _file(name: str, kind: str) -> Response:
    return Response((files("isotune.use.serve") / "page" / name).read_bytes(), media_type=kind)


async def _refuse(request: Request, error: Exception) -> Response:
    """The answer to a request that has failed with an error."""
    match error:
        case Refused():
            refused = error
        case InputError():
            refused = Refused(400, str(error))
        case HTTPException():
            refused = Refused(error.status_code, str(error.detail), headers=error.headers)
        case RequestValidationError():
            refused = _invalid(error.errors())
        case _:
            refused = FAILED
    return refused.response()


def _invalid(errors: Sequence[Any]) -> Refused:
    """Says the first thing that is wrong with a request's body, without the text that is wrong."""
    # A wrong text in a list is also not a text by itself, so the most telling error comes first.
    first = max(errors, key=lambda problem: problem["type"] in ("value_error", "too_long"))
    # A place in the body is ("body", "input", "str"): the last is one of the types that a field may have.
    _, *place = first["loc"]
    match first["type"]:
        case "json_invalid":
            return Refused(400, f"not JSON: {first['ctx']['error']} at character {place[0]}")
        case "value_error":
            reason = str(first["ctx"]["error"])
        case "too_long":
            reason = f"more than {first['ctx']['max_length']:,} texts; send fewer in a request"
        case _ if not place:
            reason = "the body has to be a JSON object, with the header content-type: application/json"
        case _ if place[0] == "input":
            return Refused(400, INPUT_MESSAGE, param="input")
        case _:
            reason = first["msg"]
    param = str(place[0]) if place else None
    return Refused(400, f"{param}: {reason}" if param else reason, param=param)
