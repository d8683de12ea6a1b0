"""A server that speaks the hub's HTTP interface, for huggingface_hub, datasets and transformers as they are.

It answers what these libraries ask: a repository's information, its tree, single paths of it, and its files, with HEAD
and GET. A repository that is missing or gated says so by the status and headers that the libraries know. Nothing else
is answered.
"""

import json
import re
import socket
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.hub.repository import Repository, blob, entries, information


class LocalHub:
    """A hub with the repositories that a test gives it.

    Attributes:
        url: where it is; nothing listens there until `start`, so that connecting is refused at once.
        asked: the paths that it was asked for, in order.
    """

    def __init__(self) -> None:
        self._socket = _bound(0)
        self._port = self._socket.getsockname()[1]
        self._server: _Server | None = None
        self.url = f"http://127.0.0.1:{self._port}"
        self.asked: list[str] = []
        self._repositories: dict[tuple[str, str], Repository] = {}
        self._statuses: dict[str, int] = {}
        self._page: bytes | None = None
        self.released = threading.Event()
        self.released.set()

    def add(
        self,
        name: str,
        files: Mapping[str, bytes | str],
        *,
        kind: str = "model",
        revision: str = "main",
        gated: bool = False,
    ) -> str:
        """Adds a revision to a model or dataset, which is made if it isn't there; returns its commit."""
        contents = {
            path: text.encode() if isinstance(text, str) else text for path, text in files.items()
        }
        repository = self._repositories.setdefault((kind, name), Repository(kind, name))
        repository.gated = gated
        return repository.add(revision, contents)

    def fail(self, text: str, status: int) -> None:
        """Answers with this status whatever has `text` in its path."""
        self._statuses[text] = status

    def answer(self, page: str) -> None:
        """Answers everything with this page, as a network does that wants a login."""
        self._page = page.encode()

    def hold(self) -> None:
        """Answers nothing until `released` is set, as a proxy does that has no network."""
        self.released.clear()

    def start(self) -> None:
        """Listens, if it doesn't already."""
        if self._server is None:
            self._server = _Server(self, self._socket)
            threading.Thread(
                target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
            ).start()

    def stop(self) -> None:
        """Breaks all connections and listens no more: connecting is refused, as by a hub that is down."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
            self._socket = _bound(self._port)

    def clear(self) -> None:
        """Forgets all repositories, faults and requests."""
        self._repositories.clear()
        self._statuses.clear()
        self._page = None
        self.released.set()
        self.asked.clear()


def _bound(port: int) -> socket.socket:
    """A socket that has the port and doesn't listen."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", port))
    return made


class _Server(ThreadingHTTPServer):
    """The listening part; it knows its open connections, so that it can break them."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, hub: LocalHub, bound: socket.socket) -> None:
        super().__init__(bound.getsockname(), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = bound
        self.hub = hub
        self.open: set[socket.socket] = set()
        self.server_activate()

    def server_close(self) -> None:
        super().server_close()
        for connection in list(self.open):
            with suppress(OSError):  # it may have been closed meanwhile
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error of the server's."""


# /api/datasets/owner/name[/revision/REV | /tree/REV[/PATH] | /paths-info/REV]
_API = re.compile(
    r"/api/(models|datasets)/([^/]+(?:/[^/]+)?)(?:/(revision|tree|paths-info)(?:/([^/]+)(?:/(.*))?)?)?$"
)
# [/datasets]/owner/name/resolve/REV/PATH; a revision with a slash in it comes quoted
_FILE = re.compile(r"/(datasets/)?([^/]+(?:/[^/]+)?)/resolve/([^/]+)/(.+)$")


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.open.add(self.connection)

    def finish(self) -> None:
        self.server.open.discard(self.connection)
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: `LocalHub.asked` has it all."""

    def do_GET(self) -> None:
        address, hub = urlsplit(self.path), self.server.hub
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        asked = unquote(address.path)
        hub.asked.append(asked)
        hub.released.wait()
        if hub._page is not None:
            self._send(200, hub._page, {"Content-Type": "text/html"})
        elif statuses := [status for text, status in hub._statuses.items() if text in asked]:
            self._error(statuses[0], "", "the test wants this to fail")
        elif api := _API.match(address.path):
            kind, name, part, revision, path = api.groups()
            form = parse_qs(address.query) | (
                parse_qs(body.decode()) if self.command == "POST" else {}
            )
            self._api(
                kind.removesuffix("s"),
                name,
                part,
                unquote(revision or "main"),
                unquote(path or ""),
                form,
            )
        elif file := _FILE.match(address.path):
            prefix, name, revision, path = file.groups()
            self._file("dataset" if prefix else "model", name, unquote(revision), unquote(path))
        else:
            self._error(404, "", "not found")

    do_HEAD = do_POST = do_GET

    def _repository(self, kind: str, name: str, revision: str) -> Repository | None:
        """The repository, if it has such a revision; otherwise the error or redirect is sent."""
        repository = self.server.hub._repositories.get((kind, name))
        if repository is None:  # it might be private, and that isn't told
            self._error(401, "RepoNotFound", "Repository not found")
            return None
        if revision not in repository.revisions:
            self._error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
            return None
        return repository

    def _api(
        self,
        kind: str,
        name: str,
        part: str | None,
        revision: str,
        path: str,
        form: Mapping[str, Sequence[str]],
    ) -> None:
        repository = self._repository(kind, name, revision)
        if repository is None:
            return
        files = repository.revisions[revision]
        if part in (None, "revision"):
            self._json(information(repository, revision))
        elif part == "tree":
            below = entries(
                files, path, recursive=form.get("recursive", [""])[0].lower() in ("true", "1")
            )
            if path and not below:
                self._error(404, "EntryNotFound", f"{path} does not exist on {revision}")
                return
            self._json(below)
        else:
            everything = {entry["path"]: entry for entry in entries(files, "", recursive=True)}
            self._json([everything[path] for path in form.get("paths", ()) if path in everything])

    def _file(self, kind: str, name: str, revision: str, path: str) -> None:
        repository = self._repository(kind, name, revision)
        if repository is None:
            return
        headers = {"X-Repo-Commit": repository.commit(revision)}
        if repository.gated:
            self._error(401, "GatedRepo", f"Access to {kind} {name} is restricted")
        elif path not in repository.revisions[revision]:
            self._error(404, "EntryNotFound", "Entry not found", headers)
        else:
            content = repository.revisions[revision][path]
            self._send(200, content, {**headers, "ETag": f'"{blob(content)}"'})

    def _json(self, value: Any) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _error(
        self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        more = {"X-Error-Code": code, "X-Error-Message": message} if code else {}
        self._send(status, json.dumps({"error": message}).encode(), {**more, **(headers or {})})

    def _send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
