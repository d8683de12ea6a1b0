"""A worker process that loads contenders and runs them on request. Between two requests it sleeps.

So several libraries stay loaded and are measured in turn, without disturbing each other. A request
is a line of JSON on standard input; a reply is a line of JSON on the original standard output. What
libraries print goes to standard error.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO


class Worker:
    """Starts a worker process and sends requests to it."""

    def __init__(self, log: Path, **environment: str) -> None:
        """Starts the process with these variables; what it prints is appended to the log file."""
        self.log = log
        with log.open("a") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "ignore", __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                env={**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1", **environment},
            )

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Sends a request and returns the reply."""
        self.tell(do, **arguments)
        return self.reply()

    def tell(self, do: str, **arguments: Any) -> None:
        """Sends a request without waiting for the reply."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self._process.stdin.flush()

    def reply(self) -> dict[str, Any]:
        """Waits for the next reply."""
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a worker process has ended; see the end of {self.log}")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def close(self) -> None:
        """Kills the process, even in the middle of a request."""
        self._process.kill()
        self._process.communicate()


class Timer:
    """Measures the time of this process, and its GPU memory, from its construction on.

    The time is that by the clock and that of the processor.
    """

    def __init__(self) -> None:
        gpu = used_gpu()
        if gpu:
            # This waits for the work before.
            gpu.synchronize()
            gpu.reset_peak_memory_stats()
        self.wall = time.perf_counter()
        self.cpu = time.process_time()

    def stop(self) -> dict[str, float]:
        """The seconds since construction, and the most gigabytes that tensors had on the GPU."""
        gpu = used_gpu()
        if gpu:
            gpu.synchronize()
        return {
            "wall": time.perf_counter() - self.wall,
            "cpu": time.process_time() - self.cpu,
            "gpu_memory": gpu.max_memory_allocated() / 1e9 if gpu else 0.0,
        }


def used_gpu() -> Any:
    """torch.cuda, if this process uses a GPU."""
    torch = sys.modules.get("torch")
    return torch.cuda if torch and torch.cuda.is_initialized() else None


class Serving:
    """The worker process's side: it reads requests and replies."""

    def __init__(self, requests: TextIO, replies: TextIO) -> None:
        self.requests = requests
        self.replies = replies
        self.encoders: dict[str, Callable[[list[str]], Any]] = {}

    def next(self) -> dict[str, Any]:
        """Waits for the next request; ends the process if the input has ended."""
        line = self.requests.readline()
        if not line:
            os._exit(0)
        request: dict[str, Any] = json.loads(line)
        return request

    def say(self, **reply: Any) -> None:
        """Sends a reply."""
        self.replies.write(json.dumps(reply) + "\n")
        self.replies.flush()

    def run(self) -> None:
        """Serves requests forever; the request's "do" names the method below."""
        while True:
            request = self.next()
            getattr(self, request.pop("do"))(**request)

    def load(self, key: str, contender: str, model: str, cache: str, **settings: Any) -> None:
        """Loads a contender and keeps it under the key."""
        from contenders import CONTENDERS

        self.encoders[key] = CONTENDERS[contender][0](Path(model), cache=Path(cache), **settings)
        self.say()

    def forget(self) -> None:
        """Frees all contenders."""
        self.encoders.clear()
        self.say()

    def encode(self, key: str, texts: list[str], save: str | None) -> None:
        """Encodes and replies with the timing; saves the vectors if a file is given."""
        import numpy as np

        timer = Timer()
        vectors = self.encoders[key](texts)
        timing = timer.stop()
        if save:
            np.save(save, vectors)
        self.say(**timing)

    def train(self, contender: str, timed: bool, **options: Any) -> None:
        """Trains and replies with the results. If timed, steps run on request only; see `Gate`."""
        from trainers import TRAINERS, Training

        gate = Gate(self) if timed else _go_on
        self.say(**TRAINERS[contender](gate, Training(**options)))


class Gate:
    """Stops a run between two steps until steps are requested.

    It replies with the time that these steps took.
    """

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._left = 0
        self._timer: Timer | None = None

    def __call__(self) -> None:
        """The run calls this before the first step and after each step."""
        self._left -= 1
        if self._left > 0:
            return
        if self._timer:
            self._serving.say(**self._timer.stop())
        self._left = self._serving.next()["count"]
        self._timer = Timer()


def _go_on() -> None:
    """The gate of a run that is not stopped between two steps."""


if __name__ == "__main__":
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    Serving(sys.stdin, replies).run()
