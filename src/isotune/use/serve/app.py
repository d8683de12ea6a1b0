"""The routes of the server: what each request is answered with."""

from __future__ import annotations

import asyncio
import json
import math
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from itertools import repeat
from typing import Any

import msgspec
import numpy as np
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic_core import to_json
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Scope

from isotune.encoder.calibration import required
from isotune.encoder.encoder import Encoder
from isotune.encoder.stream import refuse_no_numbers
from isotune.errors import InputError
from isotune.files import read_json
from isotune.use.search import Hit, Index
from isotune.use.search.store import ReadError
from isotune.use.serve import bodies
from isotune.use.serve.answers import FAILED, Refused, answer
from isotune.use.serve.batcher import Batcher, Encoded, Work
from isotune.use.serve.bodies import Operation, describe
from isotune.use.serve.gate import EXCESS, Budget, Gate, Metrics
from isotune.use.serve.limits import USUAL, Limits

# The files of the page, by their paths at the server.
PAGE = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
HEALTH = "/health"
SCHEMA = "/openapi.json"
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")
SEARCHES = 2  # searches at a time; others wait
SMALL_BODY = 2**16  # bytes, which are read in less than a millisecond
# Columns have any type; dates become text in ISO 8601, bytes URL-safe base64, and NaN and infinity null.
as_json = partial(to_json, bytes_mode="base64", inf_nan_mode="null")


class Service:
    """The operations of the server, and what they work with: encoders by name, the batcher, and the index.

    Searches have threads of their own, so that slow ones make nothing else wait.
    """

    index: Index  # if the server searches one
    index_model: str

    def __init__(
        self, encoders: Mapping[str, Encoder], limits: Limits, index: Index | None, has_keys: bool
    ) -> None:
        self.encoders, self.limits, self.counters = dict(encoders), limits, Metrics()
        self.state = bodies.Health(has_keys, index is not None)
        if index is not None:
            self.index = index
            self.index_model = next(
                name for name, encoder in encoders.items() if encoder is index.encoder
            )
        self.calibrations = {name: encoder.calibration for name, encoder in encoders.items()}
        self.batcher = Batcher(list(encoders.values()))
        self.searching = ThreadPoolExecutor(SEARCHES, "search")
        self.reading = asyncio.Lock()
        self.tokens = Budget(limits.tokens_in_progress, limits.requests, "tokens")
        self.created = int(time.time())
        self._counts = 0.0, b""  # when they were written, and what

    def close(self) -> None:
        """Finishes what was accepted, and ends all threads."""
        self.searching.shutdown(cancel_futures=True)
        self.batcher.close()

    async def read(self, request: Request, kind: type[bodies.Body]) -> bodies.Body:
        """Reads the body of a request. Between large ones, other work has as long as the last one took."""
        media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if (
            media != "application/json"
        ):  # a page of another origin may send text without asking first
            raise Refused(
                400,
                "the body has to be a JSON object, with the header content-type: application/json",
            )
        body = await request.body()
        if len(body) <= SMALL_BODY:
            return bodies.parse(body, kind)
        async with self.reading:
            start = time.perf_counter()
            try:
                return bodies.parse(body, kind)
            finally:
                await asyncio.sleep(time.perf_counter() - start)

    def named(self, model: str | None) -> tuple[str, Encoder]:
        """The name and the encoder that a request means."""
        model = next(iter(self.encoders)) if model is None else model
        if model not in self.encoders:
            message = f"unknown model {model!r:.200}; this server has {', '.join(self.encoders)}"
            raise Refused(404, message, code="model_not_found", param="model")
        return model, self.encoders[model]

    async def encode(
        self, scope: Scope, model: str, texts: Sequence[str], param: str, role: str | None = None
    ) -> Encoded:
        """Encodes texts of the request of a scope; `param` is the field that they come from, for errors.

        `role` is "query" or "document" where the encoder's prompt for it is wanted.
        """
        if len(texts) > self.limits.items:
            raise Refused(
                400, f"{len(texts):,} texts; a request may have {self.limits.items:,}", param=param
            )
        if (longest := max(map(len, texts))) > (limit := self.limits.characters):
            raise Refused(
                400, f"a text of {longest:,} characters; a text may have {limit:,}", param=param
            )
        encoder = self.encoders[model]
        ids: list[list[int]] = []
        tokens = 0
        work = Work(self.batcher, texts)
        scope[EXCESS] = work.excess
        async for part in self.batcher.tokenize(encoder, texts, role):
            ids += part
            tokens += sum(map(len, part))
            if tokens > (limit := self.limits.tokens):
                raise Refused(
                    400, f"more than {limit:,} tokens; send fewer texts in a request", param=param
                )
            self.tokens.take(scope, tokens)
        work.tokens = tokens
        encoded = await self.batcher.encode(encoder, ids)
        refuse_no_numbers(encoded.vectors, texts)
        encoder.note_cut(encoded.cut, len(texts))
        self.counters.texts.labels(model).inc(len(texts))
        self.counters.tokens.labels(model).inc(encoded.tokens)
        self.counters.cut.labels(model).inc(encoded.cut)
        return encoded

    async def embeddings(self, scope: Scope, body: bodies.EmbeddingsRequest) -> Response:
        """Encode texts, as OpenAI's embeddings."""
        texts = [body.input] if isinstance(body.input, str) else body.input
        model, encoder = self.named(body.model)
        if body.dimensions not in (None, size := encoder.dimension):
            message = (
                f"dimensions {body.dimensions}: vectors of {model} have {size}; leave the field out"
            )
            raise Refused(400, message, param="dimensions")
        role = bodies.ROLES.get(body.input_type or "")
        encoded = await self.encode(scope, model, texts, "input", role)
        in_bytes = body.encoding_format == "base64"  # which msgspec makes of bytes
        vectors = (
            each.tobytes() if in_bytes else each.tolist() for each in encoded.vectors.astype("<f4")
        )
        data = (
            msgspec.json.encode(bodies.Embedding(i, vector)) for i, vector in enumerate(vectors)
        )
        usage = bodies.Usage(encoded.tokens, encoded.tokens)
        return answer(bodies.Embeddings([], model, usage), "data", data, len(texts))

    async def similarity(self, scope: Scope, body: bodies.SimilarityRequest) -> Response:
        """Compare texts by the cosine of their vectors, or by the probability that they mean the same."""
        model, _ = self.named(body.model)
        if len(body.first) * len(body.second or body.first) > self.limits.items**2 // 4:
            raise Refused(400, "too many pairs of texts in a request", param="first")
        scale: Callable[[Any], Any] = np.asarray
        if body.measure == "probability":
            scale = required(self.calibrations[model]).probability
        encoded = await self.encode(scope, model, [*body.first, *(body.second or [])], "first")
        first = encoded.vectors[: len(body.first)]
        second = encoded.vectors[len(body.first) :] if body.second else first
        rows = (
            json.dumps(scale(np.clip(second @ vector, -1, 1)).tolist()).encode() for vector in first
        )
        usage = bodies.Usage(encoded.tokens, encoded.tokens)
        return answer(bodies.Similarities(model, [], usage), "similarities", rows, len(first))

    async def search(self, scope: Scope, body: bodies.SearchRequest) -> Response:
        """Search the index."""
        if not body.query.strip():
            raise Refused(400, "the query is empty; write what to search for", param="query")
        if body.hybrid and (size := len(body.query)) > (limit := self.limits.hybrid_characters):
            message = f"a query of {size:,} characters; that of a hybrid search may have {limit:,}"
            raise Refused(400, message, param="query")
        calibration = self.calibrations[self.index_model]
        least = required(calibration).cosine(body.probability) if body.probability else -math.inf
        encoded = await self.encode(scope, self.index_model, [body.query.strip()], "query", "query")

        def find() -> list[bytes]:
            found = [
                hit for hit in _found(self.index, body, encoded.vectors[0]) if hit.cosine >= least
            ]
            chances = (
                calibration.probability([hit.cosine for hit in found]).tolist()
                if calibration
                else repeat(None)
            )
            pairs = zip(found, chances, strict=False)
            return [as_json({**hit._asdict(), "probability": chance}) for hit, chance in pairs]

        hits = await asyncio.get_running_loop().run_in_executor(self.searching, find)
        if (size := sum(map(len, hits))) > (limit := self.limits.hits):
            message = f"{len(hits):,} rows of {size:,} bytes; an answer may have {limit:,}; ask for fewer rows"
            raise Refused(400, message, param="k")
        return answer(bodies.Hits([]), "hits", hits, len(hits))

    async def models(self, scope: Scope, _: None) -> bodies.Models:
        """List the encoders."""
        return bodies.Models([await self.model_named(scope, name) for name in self.encoders])

    async def model_named(self, scope: Scope, name: str) -> bodies.Model:
        """Describe an encoder."""
        _, encoder = self.named(name)
        return bodies.Model(name, self.created, encoder.dimension, encoder.max_length)

    async def health(self, scope: Scope, _: None) -> bodies.Health:
        """Say that the server takes requests."""
        return self.state

    async def metrics(self, scope: Scope, _: None) -> Response:
        """Count requests, texts and tokens, for Prometheus."""
        # Writing the counts takes milliseconds, so they are written at most ten times a second.
        if (now := time.monotonic()) > self._counts[0] + 0.1:
            self._counts = now, generate_latest(self.counters.registry)
        return Response(self._counts[1], media_type=CONTENT_TYPE_LATEST)


def application(
    encoders: Mapping[str, Encoder],
    *,
    limits: Limits = USUAL,
    keys: Sequence[str] = (),
    origins: Sequence[str] = (),
    index: Index | None = None,
    hosts: Sequence[str] = LOCAL_NAMES,
) -> ASGIApp:
    """Makes the whole ASGI application for encoders by name; the first is for requests that name none.

    Requests need one of the `keys`. Without keys, they have to call the server by one of the `hosts`, if there are any:
    so a page of the web that lets a name of its own point here (DNS rebinding) can't reach it. Scripts of the pages of
    `origins` may call the server (CORS). The encoder of the `index` is one of the encoders.
    """
    service = Service(encoders, limits, index, bool(keys))
    operations = [
        Operation(
            "POST",
            "/v1/embeddings",
            service.embeddings,
            bodies.EmbeddingsRequest,
            bodies.Embeddings,
        ),
        Operation(
            "POST", "/similarity", service.similarity, bodies.SimilarityRequest, bodies.Similarities
        ),
        Operation("GET", "/v1/models", service.models, None, bodies.Models),
        Operation("GET", "/v1/models/{name:path}", service.model_named, None, bodies.Model),
        Operation("GET", HEALTH, service.health, None, bodies.Health),
        Operation("GET", "/metrics", service.metrics, None, None),
    ]
    if index is not None:
        operations.append(
            Operation("POST", "/search", service.search, bodies.SearchRequest, bodies.Hits)
        )

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.close)

    def endpoint(operation: Operation) -> Callable[[Request], Awaitable[Response]]:
        async def answered(request: Request) -> Response:
            given = (
                await service.read(request, operation.takes)
                if operation.takes
                else request.path_params.get("name")
            )
            made = await operation.do(request.scope, given)
            if isinstance(made, Response):
                return made
            return Response(msgspec.json.encode(made), media_type="application/json")

        return answered

    routes = [
        Route(operation.path, endpoint(operation), methods=[operation.method])
        for operation in operations
    ]
    page = files("isotune.use.serve") / "page"
    fixed = {
        path: Response((page / name).read_bytes(), media_type=kind)
        for path, (name, kind) in PAGE.items()
    }
    fixed[SCHEMA] = Response(
        msgspec.json.encode(describe(operations)), media_type="application/json"
    )
    routes += [Route(path, content, methods=["GET"]) for path, content in fixed.items()]
    errors = (HTTPException, InputError, Refused, Exception)
    router = Starlette(
        routes=routes, exception_handlers=dict.fromkeys(errors, _refuse), lifespan=lifespan
    )
    router.state.addresses = ", ".join(
        f"{operation.method} {operation.path.replace('{name:path}', 'NAME')}"
        for operation in operations
    )
    if index is None:
        router.state.addresses += ", with --index also POST /search"
    app: ASGIApp = Gate(
        router,
        limits=limits,
        metrics=service.counters,
        keys=keys,
        open_paths={*PAGE, HEALTH, SCHEMA},
        paths={*PAGE, SCHEMA, *(operation.path for operation in operations)},
        tokens=service.tokens,
    )
    if hosts and not keys:
        app = TrustedHostMiddleware(app, hosts, www_redirect=False)
    if origins:
        # Outside of the gate: a browser asks without the key whether it may send the key, and reads errors only so.
        return CORSMiddleware(
            app,
            allow_origins=origins,
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            allow_private_network=True,
            expose_headers=["retry-after"],
        )
    return app


def _found(index: Index, body: bodies.SearchRequest, vector: Any) -> list[Hit]:
    if not _is_same(index):
        raise _gone()
    try:
        return index.search(body.query, body.k, where=body.where, hybrid=body.hybrid, vector=vector)
    except ReadError as error:
        if error.damaged:
            raise _gone() from None
        # The question was right, so the failure is the server's.
        raise RuntimeError("the index can't be read") from error


def _is_same(index: Index) -> bool:
    """Whether the folder has an index of the encoder that the index had when it was opened."""
    try:
        description = read_json(index.folder / "index.json")
        return bool(description["fingerprint"] == index.description["fingerprint"])
    except (InputError, KeyError, TypeError):
        return False


def _gone() -> Refused:
    return Refused(
        503,
        "the index can't be read: it was removed, damaged or made by another encoder; make it again, and restart the "
        "server",
    )


async def _refuse(request: Request, error: Exception) -> Response:
    traceback.clear_frames(
        error.__traceback__
    )  # which hold the request's texts, and the error itself
    if isinstance(error, InputError):
        error = Refused(400, str(error))
    elif isinstance(error, HTTPException):
        error = Refused(error.status_code, _explained(request, error), headers=error.headers)
    return (error if isinstance(error, Refused) else FAILED).response()


def _explained(request: Request, error: HTTPException) -> str:
    """What Starlette refuses, with what would be right."""
    if error.status_code == 404:
        addresses = request.app.state.addresses
        return f"no such address; this server has {addresses}; /openapi.json describes them"
    if error.status_code == 405:
        methods = (error.headers or {}).get("Allow", "another method")
        return f"{request.method} is not taken here; this address takes {methods}"
    return str(error.detail)
