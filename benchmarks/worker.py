"""A process that holds contenders and runs them when it is told to; between two requests it sleeps.

Requests are lines of JSON on standard input, replies lines on what was standard output; what libraries print goes to
standard error. So several contenders are loaded at the same time and run in turn, and none is ever in another's way.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO


class Worker:
    """The other end: a worker's process, as those who ask see it."""

    def __init__(self, log: Path) -> None:
        """Starts it; what it prints goes to the end of this file."""
        self.log = log
        with log.open("a") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "ignore", __file__],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, text=True,
                env={**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1"},
            )  # fmt: skip

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """The reply to a request."""
        self.tell(do, **arguments)
        return self.reply()

    def tell(self, do: str, **arguments: Any) -> None:
        """Sends a request; `reply` waits for what comes of it."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self._process.stdin.flush()

    def reply(self) -> dict[str, Any]:
        """The next reply."""
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a worker has ended; its last words are in {self.log}")
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> None:
        """Ends it, whatever it is doing."""
        self._process.kill()
        self._process.communicate()


class Timer:
    """Wall clock and processor seconds of this process, from when it was made."""

    def __init__(self) -> None:
        self.start = time.perf_counter(), time.process_time()

    def stop(self) -> dict[str, float]:
        """Both, since then."""
        return {"wall": time.perf_counter() - self.start[0], "cpu": time.process_time() - self.start[1]}


class Serving:
    """What a worker's process does."""

    def __init__(self, requests: TextIO, replies: TextIO) -> None:
        self.requests, self.replies = requests, replies
        self.encoders: dict[str, Callable[[list[str]], Any]] = {}

    def next(self) -> dict[str, Any]:
        """The next request; the process ends when there is none."""
        line = self.requests.readline()
        if not line:
            os._exit(0)
        found: dict[str, Any] = json.loads(line)
        return found

    def say(self, **reply: Any) -> None:
        """Replies."""
        self.replies.write(json.dumps(reply) + "\n")
        self.replies.flush()

    def run(self) -> None:
        """Does what is asked, one after another."""
        while True:
            request = self.next()
            getattr(self, request.pop("do"))(**request)

    def load(self, key: str, contender: str, model: str, cache: str, **settings: Any) -> None:
        """Loads a contender under a name."""
        from contenders import CONTENDERS

        self.encoders[key] = CONTENDERS[contender][0](Path(model), cache=Path(cache), **settings)
        self.say()

    def forget(self) -> None:
        """Lets go of all that is loaded."""
        self.encoders.clear()
        self.say()

    def encode(self, key: str, texts: list[str], save: str | None) -> None:
        """Encodes, with the time that took; the vectors are saved where that is wanted."""
        import numpy as np

        timer = Timer()
        vectors = self.encoders[key](texts)
        took = timer.stop()
        if save:
            np.save(save, vectors)
        self.say(**took)

    def train(self, contender: str, timed: bool, **options: Any) -> None:
        """Trains; where it is timed, it waits for a request between any two steps, see `trainers.Gate`."""
        from trainers import TRAINERS, Gate

        gate = Gate(self) if timed else lambda: None
        self.say(**TRAINERS[contender](gate=gate, **options))


if __name__ == "__main__":
    own = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    Serving(sys.stdin, own).run()
