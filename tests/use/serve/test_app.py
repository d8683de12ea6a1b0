"""What each route answers, over HTTP and through OpenAI's client."""

import asyncio
import json
import os
import resource
import shutil
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import openai
import pytest

from isotune.encoder.calibration import Calibration
from isotune.encoder.encoder import Encoder
from isotune.use.quantization import Ranges
from isotune.use.search import Document, Index
from isotune.use.serve import app, batcher, bodies
from isotune.use.serve.limits import Limits
from tests.conftest import until
from tests.use.serve.conftest import Running, Serve, in_progress


def test_answers_are_written_outside_of_the_event_loop(
    searching: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside: list[bool] = []

    def noted(function: Any, *arguments: Any) -> Any:
        inside.append(asyncio._get_running_loop() is not None)
        return function(*arguments)

    monkeypatch.setattr(bodies, "Embedding", partial(noted, bodies.Embedding))
    monkeypatch.setattr(app, "as_json", partial(noted, app.as_json))
    searching.embed(["a dog"] * 9)
    searching.post("/search", query="a dog", k=9)
    monkeypatch.setattr(app, "json", SimpleNamespace(dumps=partial(noted, json.dumps)))
    searching.post("/similarity", first=["a dog"] * 9, second=["a cat", "a man"])
    assert inside == [False] * 27


def test_nothing_waits_for_slow_searches(
    searching: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = threading.Event()
    threads = set()
    monkeypatch.setattr(
        Index,
        "search",
        lambda *_, **options: threads.add(threading.get_ident()) or (done.wait(30) and []),
    )
    with ThreadPoolExecutor(40) as pool:
        searches = [pool.submit(searching.post, "/search", query="a dog") for _ in range(40)]
        until(lambda: in_progress(searching) == 40)
        assert searching.embed(["a dog"] * 2000).status_code == 200
        done.set()
        assert {search.result().status_code for search in searches} == {200}
    assert len(threads) == app.SEARCHES


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/embeddings", b'{"model": "tiny", "input": [' + b"1," * 2_000_000 + b"1]}"),
        ("/v1/embeddings", b'{"model": "tiny", "input": [' + b'"a",' * 1_000_000 + b'"a"]}'),
        ("/v1/embeddings", b"{" + b",".join(b'"%d":1' % i for i in range(380_000)) + b"}"),
        ("/similarity", b'{"first": ["a"], "second": [' + b"{}," * 1_390_000 + b"1]}"),
    ],
    ids=["numbers", "texts", "unknown fields", "second"],
)
def test_four_megabytes_of_mistakes_are_refused_at_the_first(
    server: Running, path: str, body: bytes
) -> None:
    assert 3.9e6 < len(body) < Limits().body_bytes
    start = time.monotonic()
    json.loads(body)
    memory, parsed = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    answer = server.client.post(path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert len(answer.content) < 500
    assert time.monotonic() - parsed < 0.5 + 8 * (parsed - start)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 100_000  # kB


def test_vectors_that_are_not_finite_are_refused(
    searching: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = batcher._encode
    monkeypatch.setattr(batcher, "_encode", lambda batch: encode(batch) * np.float32("nan"))
    for path, body in (
        ("/v1/embeddings", {"model": "tiny", "input": ["a dog", "a cat"]}),
        ("/similarity", {"first": ["a dog"]}),
        ("/search", {"query": "a dog"}),
    ):
        answer = searching.post(path, **body)
        assert answer.status_code == 400
        assert answer.json()["error"]["message"].startswith(
            "row 'a dog': its vector has NaN or infinity"
        )


def test_bytes_of_an_index_are_written_in_base64(
    tiny: Encoder, serve: Serve, tmp_path: Path
) -> None:
    index = Index.create(tmp_path / "index", tiny)
    index.add(
        [
            Document(
                "a",
                "a dog",
                {"picture": b"\xff\x00", "parts": [{"hash": b"\xfe"}], "share": float("nan")},
            )
        ]
    )
    (hit,) = serve(index=index).post("/search", query="a dog").json()["hits"]
    assert hit["columns"] == {"picture": "_wA=", "parts": [{"hash": "_g=="}], "share": None}


@pytest.fixture
def client(server: Running) -> Iterator[openai.OpenAI]:
    """OpenAI's client of the server."""
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
        yield client


def test_openais_client_lists_the_encoders(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["tiny", "cls"]
    assert client.models.retrieve("cls").id == "cls"


@pytest.mark.parametrize("options", [{}, {"encoding_format": "float"}])
def test_openais_client_gets_the_vectors(
    client: openai.OpenAI, tiny: Encoder, sentences: list[str], options: dict[str, Any]
) -> None:
    """Without a format, the client asks for base64, which it decodes."""
    answer = client.embeddings.create(model="tiny", input=sentences, **options)
    expected = tiny.encode(sentences, normalize=True)
    vectors = [item.embedding for item in answer.data]
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    assert [item.index for item in answer.data] == list(range(60))
    assert answer.usage.total_tokens == sum(map(len, tiny.tokenize(sentences)))


def test_openais_client_chooses_the_encoder(
    client: openai.OpenAI, tiny: Encoder, sentences: list[str]
) -> None:
    other = client.embeddings.create(model="cls", input=sentences[0])
    assert not np.allclose(other.data[0].embedding, tiny.encode(sentences[0], normalize=True))


@pytest.mark.parametrize("kind", ["query", "search_document"])
def test_openais_client_can_name_the_type_of_the_input(
    client: openai.OpenAI, tiny: Encoder, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = {"query": "a dog ", "passage": "a cat "}
    monkeypatch.setattr(tiny, "settings", {"prompts": prompts})
    encode = {"query": tiny.encode_query, "search_document": tiny.encode_document}[kind]
    answer = client.embeddings.create(model="tiny", input="a man", extra_body={"input_type": kind})
    expected = encode("a man", normalize=True)
    np.testing.assert_allclose(answer.data[0].embedding, expected, atol=1e-6)


@pytest.mark.parametrize("dimensions", [1, 8, 32])
def test_openais_client_may_ask_for_fewer_dimensions(
    client: openai.OpenAI, tiny: Encoder, dimensions: int
) -> None:
    answer = client.embeddings.create(model="tiny", input="a dog", dimensions=dimensions)
    expected = tiny.cut_to(dimensions).encode("a dog", normalize=True)
    np.testing.assert_allclose(answer.data[0].embedding, expected, atol=1e-6)


def test_openais_client_gets_its_errors(client: openai.OpenAI) -> None:
    unknown = "unknown model 'other'; this server has tiny, cls"
    with pytest.raises(openai.NotFoundError, match=unknown) as refused:
        client.embeddings.create(model="other", input="a dog")
    assert refused.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError, match="Token ids are refused"):
        client.embeddings.create(model="tiny", input=[[1, 2, 3]])
    with pytest.raises(openai.BadRequestError, match="dimensions 33: vectors of tiny have 32"):
        client.embeddings.create(model="tiny", input="a dog", dimensions=33)


def test_similarities_are_cosines(server: Running, tiny: Encoder) -> None:
    first, second = ["a dog", "the man sees a cat"], ["a cat", "a dog", "the house"]
    a, b = (tiny.encode(texts, normalize=True) for texts in (first, second))
    answer = server.post("/similarity", first=first, second=second).json()
    np.testing.assert_allclose(answer["similarities"], a @ b.T, atol=1e-6)
    np.testing.assert_allclose(
        server.post("/similarity", first=first).json()["similarities"], a @ a.T, atol=1e-6
    )
    assert server.post("/similarity", first=first, model="cls").json()["model"] == "cls"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "not JSON: "),
        (b"[1]", "the body has to be a JSON object"),
        (b'{"input": "\xff", "model": "tiny"}', ""),
        (b'{"model": "tiny", "input": []}', "a list of 1 to 2,048 texts"),
        (b'{"model": "tiny", "input": null}', "got `null`; A text, or a list"),
        (b'{"model": "tiny", "input": [[1, 2]]}', "Token ids are refused"),
        (b'{"model": "tiny", "input": ["a", 2]}', "Token ids are refused"),
        (b'{"model": "tiny", "input": "\\ud800"}', "half of a surrogate pair"),
        (b'{"model": "tiny", "\\ud800": "a", "input": "a"}', "half of a surrogate pair"),
        (b'{"model": 1, "input": "a"}', "model: "),
        (b'{"model": "tiny", "input": "a", "encoding_format": "hex"}', "encoding_format: "),
        (b'{"model": "tiny", "input": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", ""),
        (b'{"model": "tiny", "input": "a", "dimensions": 1' + b"0" * 5000 + b"}", ""),
        (json.dumps({"model": "tiny", "input": ["a"] * 2049}).encode(), "1 to 2,048 texts"),
        (json.dumps({"model": "tiny", "input": "a" * 65_537}).encode(), "65,537 characters"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_a_wrong_body_is_refused_in_openais_form(
    server: Running, body: bytes, message: str
) -> None:
    answer = server.client.post(
        "/v1/embeddings", content=body, headers={"content-type": "application/json"}
    )
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    assert message in error["message"]
    assert error["message"].isprintable()
    assert len(error["message"]) < 400


@pytest.mark.parametrize("number", [0, 1, 700])
@pytest.mark.parametrize("wrong", [5, None, [1, 2], {"a": "b"}, True, 0.5])
@pytest.mark.parametrize(
    ("path", "field", "other"),
    [
        ("/v1/embeddings", "input", {}),
        ("/similarity", "first", {}),
        ("/similarity", "second", {"first": ["a"]}),
    ],
)
def test_a_wrong_element_is_named_by_its_number(
    server: Running, path: str, field: str, other: dict[str, Any], number: int, wrong: object
) -> None:
    texts: list[object] = ["a dog"] * 701
    texts[number] = wrong
    error = server.post(path, **other, **{field: texts}).json()["error"]
    assert error["param"] == f"{field}.{number}"
    assert error["message"].startswith(f"{field}.{number}: Expected `str`, got `")


def test_a_body_without_the_type_of_json_is_refused(server: Running) -> None:
    # A page of another origin may send text/plain without asking first.
    answer = server.client.post("/v1/embeddings", content=b'{"model": "tiny", "input": "a"}')
    assert answer.status_code == 400
    assert "content-type: application/json" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "status"), [("/none", 404), ("/v1/embeddings", 405), ("/v1/models/x", 404)]
)
def test_unknown_paths_have_openais_errors_too(server: Running, path: str, status: int) -> None:
    answer = server.client.get(path)
    assert answer.status_code == status
    assert answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "path", ["/embeddings", "/api/embed", "/api/embeddings", "/v1/embedding", "/embed", "/v2/x/y"]
)
def test_an_address_that_others_have_is_answered_with_the_right_one(
    server: Running, path: str
) -> None:
    answer = server.post(path, input="a dog")
    assert answer.status_code == 404
    message = answer.json()["error"]["message"]
    assert message.startswith("no such address; this server has POST /v1/embeddings, POST /simi")
    assert "with --index also POST /search" in message


def test_a_wrong_method_is_answered_with_the_right_one(server: Running) -> None:
    answer = server.client.get("/v1/embeddings")
    assert answer.status_code == 405
    message = answer.json()["error"]["message"]
    assert message == "GET is not taken here; this address takes POST"


def test_health_models_and_metrics(server: Running) -> None:
    assert server.client.get("/health").json() == {"status": "ok", "keys": False, "index": False}
    assert server.client.get("/v1/models").json()["data"][0] | {"created": 0} == {
        "id": "tiny",
        "object": "model",
        "created": 0,
        "owned_by": "isotune",
        "dimension": 32,
        "max_tokens": 32,
    }
    before = counts(server)
    server.embed(["a dog", "a " * 100])
    after = counts(server)
    for name, more in {"texts": 2, "tokens": 4 + 32, "cut_texts": 1}.items():
        name = f'isotune_{name}_total{{model="tiny"}}'
        assert after[name] - before.get(name, 0) == more
    until(lambda: in_progress(server) == 0)  # a request ends after its answer


def counts(server: Running) -> dict[str, float]:
    time.sleep(0.11)  # for so long they may be old
    lines = server.client.get("/metrics").text.splitlines()
    return {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")
    }


def test_search_finds_the_texts_nearest_to_a_query(
    searching: Running, tiny: Encoder, sentences: list[str]
) -> None:
    hits = searching.post("/search", query="the man sees a dog", k=3).json()["hits"]
    cosines = tiny.encode(sentences, normalize=True) @ tiny.encode(
        "the man sees a dog", normalize=True
    )
    assert [int(hit["id"]) for hit in hits] == np.argsort(-cosines)[:3].tolist()
    np.testing.assert_allclose(
        [hit["cosine"] for hit in hits], np.sort(cosines)[::-1][:3], atol=1e-5
    )
    (hit,) = searching.post("/search", query="a dog", where="place = 7").json()["hits"]
    assert (hit["text"], hit["columns"]) == (sentences[7], {"place": 7})
    assert searching.post("/search", query="dog", hybrid=True).status_code == 200
    for wrong in (
        {"query": " "},
        {"query": "a", "k": 0},
        {"query": "a", "where": "nowhere = 1"},
        {
            "query": "a",
            "where": "place = 1" + "+1" * 2000,
        },  # would overflow the stack of LanceDB's parser
        {"query": "a", "where": "length(repeat(text, 3000000)) > 1"},  # would take all memory
        {"query": "a", "where": "(" * 900},
    ):
        start = time.perf_counter()
        answer = searching.post("/search", **wrong)
        assert time.perf_counter() - start < 0.5
        assert answer.status_code == 400
        assert answer.json()["error"]["message"]
    assert searching.post("/search", query="a dog " * 1000).status_code == 200
    answer = searching.post("/search", query="a dog " * 1000, hybrid=True)
    assert (
        answer.json()["error"]["message"]
        == "a query of 6,000 characters; that of a hybrid search may have 2,048"
    )
    assert searching.client.get("/health").json()["index"]


def test_a_calibrated_encoder_gives_probabilities(
    tiny_model: Path, sentences: list[str], tmp_path: Path, serve: Serve
) -> None:
    encoder = Encoder.load(tiny_model)
    encoder.calibration = made = Calibration(
        slope=20, threshold=0.9, low=0.8, high=1, pairs=9, fingerprint=encoder.fingerprint()
    )
    index = Index.create(tmp_path / "index", encoder)
    index.add(Document(f"{i}", text, {}) for i, text in enumerate(sentences))
    server = serve(encoders={"tiny": encoder}, index=index)
    texts = {"first": sentences[:2], "second": sentences[2:5]}
    cosines = server.post("/similarity", **texts).json()["similarities"]
    chances = server.post("/similarity", measure="probability", **texts).json()["similarities"]
    np.testing.assert_allclose(chances, made.probability(cosines), atol=1e-5)
    hits = server.post("/search", query="a dog", k=60).json()["hits"]
    for hit in hits:
        assert hit["probability"] == pytest.approx(made.probability(hit["cosine"]))
    few = server.post("/search", query="a dog", k=60, probability=0.5).json()["hits"]
    assert few == [hit for hit in hits if hit["probability"] >= 0.5]
    assert 0 < len(few) < 60
    assert server.post("/search", query="a dog", probability=0.99).status_code == 400


def test_without_calibration_a_probability_is_refused(searching: Running) -> None:
    assert searching.post("/search", query="a dog").json()["hits"][0]["probability"] is None
    for path, body in (
        ("/search", {"query": "a dog", "probability": 0.9}),
        ("/similarity", {"first": ["a dog"], "measure": "probability"}),
    ):
        answer = searching.post(path, **body)
        assert answer.status_code == 400
        assert "has no calibration" in answer.json()["error"]["message"]


def test_the_rows_of_a_search_are_limited_in_size(
    tiny: Encoder, tmp_path: Path, serve: Serve
) -> None:
    index = Index.create(tmp_path / "index", tiny)
    index.add(Document(f"{i}", "a dog", {"body": "x" * 300}) for i in range(5))
    hits = serve(index=index).post("/search", query="a dog", k=5).json()["hits"]
    size = sum(len(json.dumps(hit, separators=(",", ":"))) for hit in hits)
    assert size > 1500
    server = serve(index=index, limits=Limits(hits=1500))
    assert server.post("/search", query="a dog", k=3).status_code == 200
    answer = server.post("/search", query="a dog", k=5)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "k"
    message = answer.json()["error"]["message"]
    assert message == f"5 rows of {size:,} bytes; an answer may have 1,500; ask for fewer rows"


@pytest.mark.parametrize("harm", ["removed", "cut", "emptied", "of another encoder"])
@pytest.mark.parametrize(
    "options", [{}, {"where": "place > 1"}, {"hybrid": True}], ids=["plain", "filter", "hybrid"]
)
def test_an_index_that_is_damaged_under_the_server_is_503(
    searching: Running, tiny_model: Path, tmp_path: Path, harm: str, options: dict[str, Any]
) -> None:
    assert searching.post("/search", query="a dog", **options).status_code == 200
    files = [path for path in (tmp_path / "index").rglob("*") if path.is_file()]
    match harm:
        case "removed" | "of another encoder":
            shutil.rmtree(tmp_path / "index")
            if harm != "removed":
                Index.create(tmp_path / "index", Encoder.load(tiny_model, pooling="cls")).add(
                    [Document("a", "b", {})]
                )
        case _:
            for path in files:
                os.truncate(path, path.stat().st_size // 2 if harm == "cut" else 0)
    for _ in range(2):
        answer = searching.post("/search", query="a dog", **options)
        assert answer.status_code == 503
        assert "the index can't be read" in answer.json()["error"]["message"]
    assert searching.embed("a dog").status_code == 200


def test_fields_may_be_null_left_out_or_unknown_as_openais_clients_send_them(
    server: Running,
) -> None:
    expected = server.embed(["a dog"]).json()
    for fields in (
        {"encoding_format": None, "dimensions": None, "user": None},
        {"truncate": True, "priority": {"a": [1, None]}, "": 1},
        {"model": None},
    ):
        assert server.post("/v1/embeddings", input="a dog", **fields).json() == expected
    answer = server.post(
        "/similarity", first=["a dog"], wheer="x = 1"
    )  # which might change the answer
    assert answer.json()["error"]["message"].startswith(
        "wheer: Object contains unknown field `wheer`; the fields are"
    )


@pytest.mark.parametrize(
    "path", ["/", "/page.js", "/health", "/v1/models", "/v1/models/tiny", "/metrics", "/none"]
)
def test_head_is_answered_as_get_without_the_content(server: Running, path: str) -> None:
    head, get = server.client.head(path), server.client.get(path)
    assert (head.status_code, head.content) == (get.status_code, b"")
    assert head.headers["content-type"] == get.headers["content-type"]


def test_scripts_of_other_pages_are_let_in_on_request_only(server: Running, serve: Serve) -> None:
    asked = {"origin": "https://example.com", "access-control-request-method": "POST"}
    asked["access-control-request-headers"] = (
        "authorization,content-type,user-agent,x-stainless-os,x-any"
    )
    assert server.client.options("/v1/embeddings", headers=asked).status_code == 405
    open_server = serve(origins=["https://example.com"])
    answer = open_server.client.options("/v1/embeddings", headers=asked)
    assert answer.headers["access-control-allow-headers"] == asked["access-control-request-headers"]
    assert answer.headers["access-control-allow-origin"] == "https://example.com"
    other = open_server.client.options(
        "/v1/embeddings", headers=asked | {"origin": "https://example.org"}
    )
    assert "access-control-allow-origin" not in other.headers
    with_keys = serve(origins=["https://example.com"], keys=["key"])
    assert with_keys.client.options("/v1/embeddings", headers=asked).status_code == 200
    refused = with_keys.client.post("/v1/embeddings", headers={"origin": "https://example.com"})
    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (
        401,
        "https://example.com",
    )


def test_vectors_as_bytes_and_bits(serve: Serve, tiny: Encoder, sentences: list[str]) -> None:
    texts = sentences[:9]
    units = tiny.encode(sentences, normalize=True)
    ranges = Ranges.of(units, tiny.fingerprint())
    server = serve(ranges={"tiny": ranges})
    for kind, expected in (
        ("int8", ranges.bytes_of(units[:9])),
        ("ubinary", np.packbits(units[:9] > 0, axis=1)),
    ):
        answer = server.embed(texts, encoding_format=kind).json()
        assert [row["embedding"] for row in answer["data"]] == expected.tolist()
    cut = server.embed(texts, encoding_format="ubinary", dimensions=8).json()
    assert [len(row["embedding"]) for row in cut["data"]] == [1] * 9
    refusal = server.embed("a", encoding_format="int8", dimensions=8).json()["error"]
    assert refusal["message"] == "int8: the ranges of tiny are of 32 dimensions, not 8"
    refusal = serve().embed("a", encoding_format="int8").json()["error"]
    assert refusal["message"].startswith("int8: the server has no ranges for vectors of tiny")


def test_an_index_of_cut_vectors_is_searched(
    serve: Serve, tiny: Encoder, sentences: list[str], tmp_path: Path
) -> None:
    index = Index.create(tmp_path / "index", tiny, dimensions=8)
    index.add(Document(f"{i}", text) for i, text in enumerate(sentences))
    server = serve(index=Index.open(index.folder, tiny))
    (hit,) = server.post("/search", query=sentences[7], k=1).json()["hits"]
    assert (hit["id"], hit["cosine"]) == ("7", pytest.approx(1, abs=1e-6))
