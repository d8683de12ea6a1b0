"""The session of scoring pairs on a page of the browser, which this process serves."""

import json
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from secrets import token_urlsafe
from threading import Lock

from isotune.errors import as_input_error
from isotune.evaluation.labelling.session import SCALE, Session


class Page:
    """The page of a session: its content, and the answers of its browser."""

    def __init__(self, session: Session) -> None:
        self.session = session
        # The address holds a secret, so that no other page can answer.
        self.path = f"/{token_urlsafe(16)}/"
        self.content = _content()
        # One answer is taken at a time.
        self.lock = Lock()
        self.failed: list[Exception] = []

    def answer(self, request: str) -> dict[str, object]:
        """Takes the answer of a request PLACE/ANSWER, and gives the state of the session.

        An answer names the place of its pair, so that a key pressed twice answers once.
        """
        place, _, answer = request.partition("/")
        with self.lock:
            wrong = ""
            if self.session.pair and place == str(self.session.place):
                wrong = self._take(answer)
            return {
                "place": self.session.place,
                "pair": self.session.pair,
                "progress": self.session.progress,
                "wrong": wrong,
                "end": self.session.end,
            }

    def _take(self, answer: str) -> str:
        """Gives the session an answer; returns what is wrong with it.

        A failure ends the session.
        """
        try:
            return self.session.answer(answer)
        except Exception as error:
            # `score_in_browser` raises it again.
            self.failed.append(error)
            self.session.end = str(error) or type(error).__name__
            return ""


def score_in_browser(session: Session, show: Callable[[str], object], host: str) -> None:
    """Serves the page at `host` until the session ends; `show` is given the address of the page.

    Raises:
        InputError: this machine has no such host; or another session writes into the file.
    """
    page = Page(session)
    meant = "; leave it out, or give an address of this machine"
    with as_input_error(OSError, f"host {host}: the page can't be served there", meant):
        server = ThreadingHTTPServer((host, 0), _handler(page))
    with server, suppress(KeyboardInterrupt):
        show(f"http://{host}:{server.server_port}{page.path}")
        server.serve_forever()
    # An answer that came before Ctrl-C is saved first.
    with page.lock:
        session.end = session.end or "stopped"
    if page.failed:
        raise page.failed[0]


def _content() -> bytes:
    """The page, with a button for each answer."""
    buttons = []
    for line in SCALE.splitlines():
        score, meaning = line.split(maxsplit=1)
        buttons.append(f'<button value="{score}"><kbd>{score}</kbd>{meaning}</button>')
    text = (files("isotune.use") / "label_page.html").read_text("utf-8")
    return text.replace("SCALE", "\n".join(buttons)).encode()


def _handler(page: Page) -> type[BaseHTTPRequestHandler]:
    """The class that answers the requests for a page."""

    class Handler(BaseHTTPRequestHandler):
        # A connection may be silent for so many seconds.
        timeout = 60

        def do_GET(self) -> None:
            if self.path == page.path:
                self.reply("text/html; charset=utf-8", page.content)
            else:
                self.send_error(404)

        def do_POST(self) -> None:
            """Answers the request SECRET/PLACE/ANSWER, or SECRET/, with the session's state."""
            if not self.path.startswith(page.path):
                self.send_error(404)
                return
            state = page.answer(self.path.removeprefix(page.path))
            self.reply("application/json", json.dumps(state).encode())
            if state["pair"] is None:
                self.server.shutdown()

        def reply(self, kind: str, content: bytes) -> None:
            # The browser may have gone.
            with suppress(OSError):
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing: the terminal shows the address only."""

    return Handler
