"""The session of scoring pairs on a page of the browser, which this process serves."""

import json
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from secrets import token_urlsafe
from threading import Lock

from isotune.errors import telling
from isotune.evaluation.labelling.session import SCALE, Session


def score_in_browser(session: Session, show: Callable[[str], object], host: str) -> None:
    """Serves the page at `host` until the session ends; `show` is given the address of the page.

    The address holds a secret, so that no other page can answer. Each answer names the place of its pair, so
    that a key pressed twice answers once.

    Raises:
        InputError: this machine has no such host; or another session writes into the file.
    """
    secret, lock = f"/{token_urlsafe(16)}/", Lock()
    meanings = (line.split(maxsplit=1) for line in SCALE.splitlines())
    buttons = "\n".join(
        f'<button value="{score}"><kbd>{score}</kbd>{meaning}</button>'
        for score, meaning in meanings
    )
    page = (
        (files("isotune.use") / "label_page.html")
        .read_text("utf-8")
        .replace("SCALE", buttons)
        .encode()
    )
    failed: list[Exception] = []

    class Handler(BaseHTTPRequestHandler):
        timeout = 60  # seconds that a connection may be silent

        def do_GET(self) -> None:
            if self.path == secret:
                self.reply("text/html; charset=utf-8", page)
            else:
                self.send_error(404)

        def do_POST(self) -> None:
            """Answers the request SECRET/PLACE/ANSWER, or SECRET/, with the state of the session."""
            if not self.path.startswith(secret):
                self.send_error(404)
                return
            place, _, answer = self.path.removeprefix(secret).partition("/")
            with lock:
                wrong = ""
                if session.pair and place == str(session.place):
                    try:
                        wrong = session.answer(answer)
                    except Exception as error:  # raised again below
                        failed.append(error)
                        session.end = str(error) or type(error).__name__
                state = {"place": session.place, "pair": session.pair, "progress": session.progress}
                state |= {"wrong": wrong, "end": session.end}
            self.reply("application/json", json.dumps(state).encode())
            if state["pair"] is None:
                self.server.shutdown()

        def reply(self, kind: str, content: bytes) -> None:
            with suppress(OSError):  # the browser has gone
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing: the terminal shows the address only."""

    meant = "; leave it out, or give an address of this machine"
    with telling(OSError, f"host {host}: the page can't be served there", meant):
        server = ThreadingHTTPServer((host, 0), Handler)
    with server, suppress(KeyboardInterrupt):
        show(f"http://{host}:{server.server_port}{secret}")
        server.serve_forever()
    with lock:  # an answer that came before Ctrl-C is saved first
        session.end = session.end or "stopped"
    if failed:
        raise failed[0]
