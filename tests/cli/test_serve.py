"""`isotune serve`: what it refuses before it listens. tests/serve has the rest."""

import socket
from pathlib import Path

import pytest

from isotune.cli.serve import _open_index, _read_ranges
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.use.quantization import Ranges
from isotune.use.search import Document, Index
from isotune.use.serve.server import listen, read_keys
from tests.cli.conftest import Refused


def test_what_can_not_be_served_is_refused(
    refused: Refused, tiny_model: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").write_text("\n \n")
    assert "ENCODER is missing" in refused("serve")
    for option in ("--queue", "--timeout"):
        for number in (0, -1, "nan", "inf", 1e18):
            assert option in refused("serve", tiny_model, f"{option}={number}")
    assert "nowhere: it can't be read" in refused("serve", tiny_model, "--keys", "nowhere")
    assert "empty: no API key; write one a line" in refused("serve", tiny_model, "--keys", "empty")
    assert "port 70000: ports are 0" in refused("serve", tiny_model, "--port", 70_000)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        message = refused(
            "serve", "nowhere", "--port", taken.getsockname()[1]
        )  # no encoder is loaded
        assert "the server can't listen there" in message


def test_an_index_of_another_encoder_is_refused(
    refused: Refused, tiny_model: Path, tmp_path: Path
) -> None:
    index = Index.create(tmp_path / "index", Encoder.load(tiny_model, pooling="cls"))
    index.add([{"id": "1", "text": "a lamp"}])
    assert "fingerprint" in refused("serve", tiny_model, "--port", 0, "--index", "index")
    assert "no index" in refused("serve", tiny_model, "--port", 0, "--index", "nowhere")


def test_a_missing_extra_is_named(
    refused: Refused, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (
        "isotune.use.serve.app",
        "isotune.use.serve.server",
        "isotune.use.serve.protocol",
    ):
        monkeypatch.delitem(__import__("sys").modules, module, raising=False)
    monkeypatch.setitem(__import__("sys").modules, "uvicorn", None)
    assert "pip install 'isotune[serve]'" in refused("serve", tiny_model)


def test_keys_come_from_a_file(tmp_path: Path) -> None:
    for content in (
        b"first\n\n  second \n",
        b"\xef\xbb\xbffirst\r\nsecond\r\n",
    ):  # the latter as Windows writes it
        (tmp_path / "keys").write_bytes(content)
        assert read_keys(tmp_path / "keys") == ["first", "second"]
    assert read_keys(None) == []


def test_addresses() -> None:
    listener, url = listen("::1", 0)
    assert url == f"http://[::1]:{listener.getsockname()[1]}"
    listener.close()


def test_a_part_of_an_answer_does_not_wait_for_the_clients_acknowledgement() -> None:
    listener, _ = listen("127.0.0.1", 0)
    with (
        listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as connection,
    ):
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_an_index_and_ranges_of_cut_vectors_find_their_encoder(
    tiny_model: Path, sentences: list[str], tmp_path: Path
) -> None:
    encoder = Encoder.load(tiny_model)
    encoders = {"other": Encoder.load("bert-tiny"), "tiny": encoder}
    for kept in (32, 8):
        cut = encoder.cut_to(kept)
        path = tmp_path / f"{kept}.json"
        Ranges.of(cut.encode(sentences, normalize=True), cut.fingerprint()).save(path)
        assert _read_ranges(path, encoders) == {"tiny": Ranges.read(path)}
        index = Index.create(tmp_path / f"index-{kept}", encoder, dimensions=kept)
        index.add([Document("1", "a dog")])
        opened = _open_index(index.folder, encoders)
        assert opened.encoder.backbone is encoder.backbone
        assert opened.encoder.dimension == kept
    with pytest.raises(InputError, match="the ranges are of no encoder that is served"):
        _read_ranges(path, {"other": encoders["other"]})
    assert _read_ranges(None, encoders) == {}
