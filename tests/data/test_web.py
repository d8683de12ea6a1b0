"""Files fetched from the web: whole or not at all."""

import hashlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from isotune.data.published import fetch_web, web_file
from isotune.errors import InputError


class _Answers(BaseHTTPRequestHandler):
    """Sends five bytes at any path, announces ten of them at /cut, and sends a page at /login."""

    def do_GET(self) -> None:
        content = b"bytes"
        if self.path == "/login":
            content = b"\n<!DOCTYPE html><title>Log in</title>"
        length = len(content)
        if self.path == "/cut":
            length = 10
        self.send_response(200)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr("isotune.data.published.cache_folder", lambda _: tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    with HTTPServer(("127.0.0.1", 0), _Answers) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_file_that_was_cut_off_is_not_kept(server: str) -> None:
    with pytest.raises(InputError, match=r"IncompleteRead\(.* 5 more expected"):
        fetch_web(f"{server}/cut")
    assert not web_file(f"{server}/cut").parent.exists()


def test_another_file_than_the_datasets_is_refused(server: str) -> None:
    whole = hashlib.sha256(b"bytes").hexdigest()
    assert fetch_web(f"{server}/checked", whole).read_bytes() == b"bytes"
    with pytest.raises(InputError, match=f"its SHA-256 is {whole}.* remove this file"):
        fetch_web(f"{server}/checked", "0" * 64)


def test_a_file_that_is_too_large_is_refused(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isotune.data.published.LARGEST", 5)
    with pytest.raises(InputError, match="5 bytes or more, so it is not the dataset's file"):
        fetch_web(f"{server}/large")
    assert not web_file(f"{server}/large").exists()


def test_a_login_page_is_not_kept_as_the_file(server: str) -> None:
    address = f"{server}/login"
    with pytest.raises(InputError) as error:
        fetch_web(address)
    assert "its answer is a page for a browser, perhaps to log in" in str(error.value)
    assert f"or put the file at {web_file(address)}" in str(error.value)
    assert not web_file(address).exists()


def test_a_file_that_no_server_gives_can_be_put_in_its_place(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"{server}/kept"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match=r"HF_HUB_OFFLINE is set; unset it .* or put the file at"):
        fetch_web(address)
    web_file(address).parent.mkdir(parents=True)
    web_file(address).write_bytes(b"mine")
    assert fetch_web(address) == web_file(address)
