"""The routes of the server: what each request is answered with."""

from __future__ import annotations

import asyncio
import json
import math
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from html import escape
from importlib.resources import files
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
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

from isotune.data.tokens import Tokenized
from isotune.encoder.calibration import Calibration, required
from isotune.encoder.classifier import Classifier
from isotune.encoder.encoder import Encoder
from isotune.encoder.heads import cut_units
from isotune.encoder.stream import refuse_no_numbers
from isotune.errors import InputError
from isotune.files import read_json
from isotune.use.quantization import Numbers, Ranges, bits_of
from isotune.use.search import Hit, Index
from isotune.use.search.store import ReadError
from isotune.use.serve import bodies
from isotune.use.serve.answers import FAILED, Refused, answer, answer_list
from isotune.use.serve.batcher import Batcher, Encoded, Text, Work, characters
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
# So many searches are made at a time; others wait.
SEARCHES = 2
# A body of so many bytes is read in less than a millisecond.
SMALL_BODY = 2**16
# Writing the counts takes milliseconds, so they are written again only after so many seconds.
COUNTS_SECONDS = 0.1
# What a server has whose encoders were not trained on labels.
NO_CLASSIFIERS: Mapping[str, Classifier] = {}
# What a server has that writes no vectors as int8.
NO_RANGES: Mapping[str, Ranges] = {}
# Columns have any type; dates become text in ISO 8601, bytes URL-safe base64, and NaN and infinity
# null.
as_json = partial(to_json, bytes_mode="base64", inf_nan_mode="null")


class Service:
    """The operations of the server, and what they need: encoders by name, the batcher, the index.

    Searches have threads of their own, so that slow ones make nothing else wait.
    """

    index: Index
    """The index, if the server searches one."""
    index_model: str
    """The name of the encoder whose vectors the index has, or has cut."""
    index_calibration: Calibration | None
    """What the cosines of the index mean."""

    def __init__(
        self,
        encoders: Mapping[str, Encoder],
        classifiers: Mapping[str, Classifier],
        limits: Limits,
        index: Index | None,
        has_keys: bool,
        ranges: Mapping[str, Ranges],
    ) -> None:
        self.ranges = ranges
        self.encoders = dict(encoders)
        self.classifiers = dict(classifiers)
        self.limits = limits
        self.counters = Metrics()
        self.state = bodies.Health(has_keys, index is not None)
        if index is not None:
            self.index = index
            # The index cuts the vectors of an encoder by a copy that shares the weights.
            self.index_model = next(
                name
                for name, encoder in encoders.items()
                if encoder.backbone is index.query_encoder.backbone
            )
            self.index_calibration = index.query_encoder.calibration
        self.calibrations = {name: encoder.calibration for name, encoder in encoders.items()}
        self.batcher = Batcher(list(encoders.values()))
        self.searching = ThreadPoolExecutor(SEARCHES, "search")
        self.reading = asyncio.Lock()
        self.tokens = Budget(limits.tokens_in_progress, limits.requests, "tokens")
        self.created = int(time.time())
        # The counts as text, and when they were written.
        self._counts = b""
        self._counted = 0.0

    def close(self) -> None:
        """Finishes what was accepted, and ends all threads."""
        self.searching.shutdown(cancel_futures=True)
        self.batcher.close()

    async def read(self, request: Request, kind: type[bodies.Body]) -> bodies.Body:
        """Reads the body of a request.

        Between large ones, other work has as long as the last one took.
        """
        media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        # A page of another origin may send text without asking first.
        if media != "application/json":
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
        if model is None:
            model = next(iter(self.encoders))
        if model not in self.encoders:
            message = f"unknown model {model!r:.200}; this server has {', '.join(self.encoders)}"
            raise Refused(404, message, code="model_not_found", param="model")
        return model, self.encoders[model]

    async def encode(
        self, scope: Scope, model: str, texts: Sequence[str], param: str, role: str | None = None
    ) -> Encoded:
        """Encodes texts of the request of a scope.

        `param` is the field that the texts come from, for errors. `role` is "query" or "document"
        where the encoder's prompt for it is wanted.
        """
        return await self._encode_by(scope, model, self.encoders[model], texts, param, role)

    async def _read_by(
        self, scope: Scope, model: str, classifier: Classifier, texts: Sequence[Text]
    ) -> Encoded:
        """The vectors of texts or pairs that a classifier reads, as `encode`."""
        return await self._encode_by(
            scope, model, classifier.reader, texts, "inputs", normalize=False
        )

    async def _encode_by(
        self,
        scope: Scope,
        model: str,
        encoder: Encoder,
        texts: Sequence[Text],
        param: str,
        role: str | None = None,
        *,
        normalize: bool = True,
    ) -> Encoded:
        """Encodes texts or pairs by an encoder; the counts name its `model`."""
        self._refuse_long(texts, param)
        work = Work(self.batcher, texts)
        scope[EXCESS] = work.excess
        tokens = await self._tokenize(scope, encoder, texts, param, role)
        work.tokens = sum(map(len, tokens.columns[0]))
        encoded = await self.batcher.encode(
            encoder, tokens.columns[0], tokens.firsts, normalize=normalize
        )
        self._count(model, encoder, encoded, texts)
        return encoded

    async def _tokenize(
        self,
        scope: Scope,
        encoder: Encoder,
        texts: Sequence[Text],
        param: str,
        role: str | None = None,
    ) -> Tokenized:
        """The tokens of all texts; refuses too many of them."""
        ids: list[Sequence[int]] = []
        firsts: list[int] = []
        count = 0
        async for part in self.batcher.tokenize(encoder, texts, role):
            ids += part.columns[0]
            firsts += part.firsts or ()
            count += sum(map(len, part.columns[0]))
            if count > self.limits.tokens:
                message = f"more than {self.limits.tokens:,} tokens; send fewer texts in a request"
                raise Refused(400, message, param=param)
            self.tokens.take(scope, count)
        return Tokenized([ids], firsts or None)

    def _count(self, model: str, encoder: Encoder, encoded: Encoded, texts: Sequence[Text]) -> None:
        """Counts what was encoded; refuses vectors that are no numbers."""
        refuse_no_numbers(encoded.vectors, texts)
        encoder.note_cut(encoded.cut, len(texts))
        self.counters.texts.labels(model).inc(len(texts))
        self.counters.tokens.labels(model).inc(encoded.tokens)
        self.counters.cut.labels(model).inc(encoded.cut)

    def _refuse_long(self, texts: Sequence[Text], param: str) -> None:
        """Refuses too many texts, and a text that is too long."""
        most = self.limits.items
        if len(texts) > most:
            raise Refused(400, f"{len(texts):,} texts; a request may have {most:,}", param=param)
        longest = max(map(characters, texts))
        most = self.limits.characters
        if longest > most:
            raise Refused(
                400, f"a text of {longest:,} characters; a text may have {most:,}", param=param
            )

    async def embeddings(self, scope: Scope, body: bodies.EmbeddingsRequest) -> Response:
        """Encode texts, as OpenAI's embeddings."""
        texts = body.input
        if isinstance(texts, str):
            texts = [texts]
        model, encoder = self.named(body.model)
        size = encoder.dimension
        dimensions = size
        if body.dimensions is not None:
            dimensions = body.dimensions
        if not 1 <= dimensions <= size:
            message = f"dimensions {dimensions}: vectors of {model} have {size}; give 1 to {size}"
            raise Refused(400, message, param="dimensions")
        self._refuse_int8(model, dimensions, body)
        role = bodies.ROLES.get(body.input_type or "")
        encoded = await self.encode(scope, model, texts, "input", role)
        vectors: Numbers = cut_units(encoded.vectors, dimensions)
        if body.encoding_format == "int8":
            vectors = self.ranges[model].bytes_of(vectors)
        elif body.encoding_format == "ubinary":
            vectors = bits_of(vectors)
        data = _written(vectors, body.encoding_format == "base64")
        usage = bodies.Usage(encoded.tokens, encoded.tokens)
        return answer(bodies.Embeddings([], model, usage), "data", data, len(texts))

    def _refuse_int8(self, model: str, dimensions: int, body: bodies.EmbeddingsRequest) -> None:
        """Refuses int8 of vectors without ranges."""
        if body.encoding_format != "int8":
            return
        if model not in self.ranges:
            message = (
                f"int8: the server has no ranges for vectors of {model}; isotune serve has --ranges"
            )
            raise Refused(400, message, param="encoding_format")
        known = len(self.ranges[model].least)
        if dimensions != known:
            message = f"int8: the ranges of {model} are of {known} dimensions, not {dimensions}"
            raise Refused(400, message, param="dimensions")

    async def similarity(self, scope: Scope, body: bodies.SimilarityRequest) -> Response:
        """Compare texts by their cosine, or by the probability that they mean the same."""
        model, _ = self.named(body.model)
        others = body.second or []
        if len(body.first) * len(others or body.first) > self.limits.items**2 // 4:
            raise Refused(400, "too many pairs of texts in a request", param="first")
        scale: Callable[[Any], Any] = np.asarray
        if body.measure == "probability":
            scale = required(self.calibrations[model]).probability
        encoded = await self.encode(scope, model, [*body.first, *others], "first")
        first = encoded.vectors[: len(body.first)]
        second = first
        if others:
            second = encoded.vectors[len(body.first) :]
        # A row is computed when it is written.
        cosines = (np.clip(second @ vector, -1, 1) for vector in first)
        rows = (json.dumps(scale(row).tolist()).encode() for row in cosines)
        usage = bodies.Usage(encoded.tokens, encoded.tokens)
        return answer(bodies.Similarities(model, [], usage), "similarities", rows, len(first))

    async def predict(self, scope: Scope, body: bodies.PredictRequest) -> Response:
        """Predict the labels of texts, as text-embeddings-inference."""
        model, classifier = self._classifier(body.model)
        texts, is_batch = _texts_to_predict(body.inputs, classifier.head.settings.pairs)
        encoded = await self._read_by(scope, model, classifier, texts)
        head = classifier.head
        outputs = head.outputs(encoded.vectors)
        scores = outputs
        if head.kind != "score" and not body.raw_scores:
            scores = head.probabilities(outputs)
        rows = (_ranked(head.labels or ("score",), row) for row in scores)
        if is_batch:
            return answer_list(map(msgspec.json.encode, rows), len(texts))
        return answer_list(map(msgspec.json.encode, next(rows)), 1)

    def _classifier(self, model: str | None) -> tuple[str, Classifier]:
        """The name and the classifier that a request means."""
        if not self.classifiers:
            raise Refused(
                404,
                "this server has no classifier: none of its encoders was trained on labels; "
                "isotune train FILE --method classifier makes one",
                code="model_not_found",
                param="model",
            )
        if model is None:
            model = next(iter(self.classifiers))
        if model not in self.classifiers:
            message = (
                f"model {model!r:.200} has no classifier; this server has classifiers of "
                f"{', '.join(self.classifiers)}"
            )
            raise Refused(404, message, code="model_not_found", param="model")
        return model, self.classifiers[model]

    async def search(self, scope: Scope, body: bodies.SearchRequest) -> Response:
        """Search the index."""
        query = body.query.strip()
        if not query:
            raise Refused(400, "the query is empty; write what to search for", param="query")
        size = len(body.query)
        most = self.limits.hybrid_characters
        if body.hybrid and size > most:
            message = f"a query of {size:,} characters; that of a hybrid search may have {most:,}"
            raise Refused(400, message, param="query")
        calibration = self.index_calibration
        least = -math.inf
        if body.probability:
            least = required(calibration).cosine(body.probability)
        encoded = await self.encode(scope, self.index_model, [query], "query", "query")
        (vector,) = cut_units(encoded.vectors, self.index.query_encoder.dimension)

        def find() -> list[bytes]:
            hits = _found(self.index, body, vector)
            near = [hit for hit in hits if hit.cosine >= least]
            return _described(near, calibration)

        hits = await asyncio.get_running_loop().run_in_executor(self.searching, find)
        size = sum(map(len, hits))
        most = self.limits.hits
        if size > most:
            message = (
                f"{len(hits):,} rows of {size:,} bytes; an answer may have {most:,}; "
                "ask for fewer rows"
            )
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
        now = time.monotonic()
        if now > self._counted + COUNTS_SECONDS:
            self._counted = now
            self._counts = generate_latest(self.counters.registry)
        return Response(self._counts, media_type=CONTENT_TYPE_LATEST)

    def operations(self) -> list[Operation]:
        """What the server does at each path."""
        made = [
            Operation(
                method="POST",
                path="/v1/embeddings",
                do=self.embeddings,
                takes=bodies.EmbeddingsRequest,
                gives=bodies.Embeddings,
            ),
            Operation(
                method="POST",
                path="/similarity",
                do=self.similarity,
                takes=bodies.SimilarityRequest,
                gives=bodies.Similarities,
            ),
            Operation(
                method="POST",
                path="/predict",
                do=self.predict,
                takes=bodies.PredictRequest,
                gives=bodies.Predictions,
            ),
            Operation("GET", "/v1/models", self.models, None, bodies.Models),
            Operation("GET", "/v1/models/{name:path}", self.model_named, None, bodies.Model),
            Operation("GET", HEALTH, self.health, None, bodies.Health),
            Operation("GET", "/metrics", self.metrics, None, None),
        ]
        if self.state.index:
            made.append(
                Operation("POST", "/search", self.search, bodies.SearchRequest, bodies.Hits)
            )
        return made

    def endpoint(self, operation: Operation) -> Callable[[Request], Awaitable[Response]]:
        """The function that answers the requests for an operation."""

        async def answered(request: Request) -> Response:
            given = request.path_params.get("name")
            if operation.takes is not None:
                given = await self.read(request, operation.takes)
            made = await operation.do(request.scope, given)
            if isinstance(made, Response):
                return made
            return Response(msgspec.json.encode(made), media_type="application/json")

        return answered


def application(  # noqa: PLR0913
    encoders: Mapping[str, Encoder],
    *,
    classifiers: Mapping[str, Classifier] = NO_CLASSIFIERS,
    limits: Limits = USUAL,
    keys: Sequence[str] = (),
    origins: Sequence[str] = (),
    index: Index | None = None,
    hosts: Sequence[str] = LOCAL_NAMES,
    ranges: Mapping[str, Ranges] = NO_RANGES,
    title: str = "isotune",
) -> ASGIApp:
    """Makes the whole ASGI application for encoders by name; the first answers where none is named.

    The `classifiers`, by name, are those of these encoders, or of their vectors before a cut.

    Requests need one of the `keys`. Without keys, they have to call the server by one of the
    `hosts`, if there are any: so a page of the web that lets a name of its own point here (DNS
    rebinding) can't reach it. Scripts of the pages of `origins` may call the server (CORS). The
    query encoder of the `index` is one of the encoders, or a cut of one. `ranges` are of the
    vectors of an encoder, by its name. `title` is that of the page.
    """
    service = Service(encoders, classifiers, limits, index, bool(keys), ranges)
    operations = service.operations()
    app: ASGIApp = Gate(
        _router(service, operations, title),
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
        # CORS is outside of the gate: a browser asks without the key whether it may send the key,
        # and reads errors only so.
        app = CORSMiddleware(
            app,
            allow_origins=origins,
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            allow_private_network=True,
            expose_headers=["retry-after"],
        )
    return app


def _router(service: Service, operations: Sequence[Operation], title: str) -> Starlette:
    """The operations, the page and the description at their paths."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.close)

    routes = []
    addresses = []
    for operation in operations:
        endpoint = service.endpoint(operation)
        routes.append(Route(operation.path, endpoint, methods=[operation.method]))
        addresses.append(f"{operation.method} {operation.path.replace('{name:path}', 'NAME')}")
    for path, content in _fixed_answers(operations, title).items():
        routes.append(Route(path, content, methods=["GET"]))
    errors = (HTTPException, InputError, Refused, Exception)
    router = Starlette(
        routes=routes, exception_handlers=dict.fromkeys(errors, _refuse), lifespan=lifespan
    )
    router.state.addresses = ", ".join(addresses)
    if not service.state.index:
        router.state.addresses += ", with --index also POST /search"
    return router


def _fixed_answers(operations: Sequence[Operation], title: str) -> dict[str, Response]:
    """The page and the description of the operations, by their paths."""
    page = files("isotune.use.serve") / "page"
    answers = {}
    for path, (name, kind) in PAGE.items():
        content = (page / name).read_text("utf-8")
        if name == "index.html":
            content = content.replace("TITLE", escape(title))
        answers[path] = Response(content, media_type=kind)
    description = msgspec.json.encode(describe(operations))
    answers[SCHEMA] = Response(description, media_type="application/json")
    return answers


def _texts_to_predict(
    inputs: str | list[str | list[str]], are_pairs: bool
) -> tuple[Sequence[Text], bool]:
    """The texts or pairs of a request, and whether they are a batch."""
    is_batch = not isinstance(inputs, str) and isinstance(inputs[0], list)
    items: Sequence[object] = [inputs]
    if is_batch:
        items = inputs
    texts: list[Text] = []
    for item in items:
        parts = item
        if isinstance(item, str):
            parts = [item]
        texts.append(_text_to_predict(parts, are_pairs))
    return texts, is_batch


def _text_to_predict(parts: Any, is_pair: bool) -> Text:
    """A text of a request, or a pair of texts."""
    if len(parts) == 2 and is_pair and all(isinstance(part, str) for part in parts):
        return parts[0], parts[1]
    if len(parts) == 1 and not is_pair and isinstance(parts[0], str):
        text: str = parts[0]
        return text
    wanted = 'a text, or a batch of them: [["a text"], ["another"]]'
    if is_pair:
        wanted = 'a pair ["first", "second"], or a batch: [["a", "b"], ["c", "d"]]'
    raise Refused(400, f"inputs: this classifier takes {wanted}", param="inputs")


def _ranked(labels: Sequence[str], scores: NDArray[np.float32]) -> list[bodies.Prediction]:
    """A prediction for each label, the highest score first."""
    order = np.argsort(-scores, kind="stable")
    return [bodies.Prediction(float(scores[number]), labels[number]) for number in order]


def _written(vectors: Numbers, in_bytes: bool) -> Iterator[bytes]:
    """Each vector as JSON: of numbers, or in base64, which msgspec makes of bytes."""
    for number, vector in enumerate(vectors):
        value: bytes | list[float] = vector.tolist()
        if in_bytes:
            value = vector.astype("<f4").tobytes()
        yield msgspec.json.encode(bodies.Embedding(number, value))  # type: ignore[arg-type]


def _described(hits: Sequence[Hit], calibration: Calibration | None) -> list[bytes]:
    """Each hit as JSON, with the probability that it means what the query means."""
    chances: list[float | None] = [None] * len(hits)
    if calibration is not None:
        chances = calibration.probability([hit.cosine for hit in hits]).tolist()
    return [
        as_json({**hit._asdict(), "probability": chance})
        for hit, chance in zip(hits, chances, strict=True)
    ]


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
        "the index can't be read: it was removed, damaged or made by another encoder; "
        "make it again, and restart the server",
    )


async def _refuse(request: Request, error: Exception) -> Response:
    # The frames hold the request's texts, and the error itself.
    traceback.clear_frames(error.__traceback__)
    if isinstance(error, Refused):
        return error.response()
    if isinstance(error, InputError):
        return Refused(400, str(error)).response()
    if isinstance(error, HTTPException):
        message = _explained(request, error)
        return Refused(error.status_code, message, headers=error.headers).response()
    return FAILED.response()


def _explained(request: Request, error: HTTPException) -> str:
    """What Starlette refuses, with what would be right."""
    if error.status_code == 404:
        addresses = request.app.state.addresses
        return f"no such address; this server has {addresses}; /openapi.json describes them"
    if error.status_code == 405:
        methods = (error.headers or {}).get("Allow", "another method")
        return f"{request.method} is not taken here; this address takes {methods}"
    return str(error.detail)
