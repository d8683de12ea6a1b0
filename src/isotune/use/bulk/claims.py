"""Claims: how processes that share only a folder agree who does which work, without a coordinator.

A claim is a small file that only one process can create. Its holder touches the file every `HEARTBEAT` seconds. A claim
whose holder has died is taken over: at once if the holder was a process of this machine, else after `STALE` seconds in
which this process saw no touch. Only this process's clock counts, so machines' clocks may differ.

A claim saves work; it protects no file. A process that was suspended may wake up after its claim was taken over, and
then two processes do the same work. So the work has to have the same result, and to be put into place whole.
"""

from __future__ import annotations

import json
import os
import socket
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any

from isotune.files import create_text, write_text

HEARTBEAT = 10.0  # seconds
STALE = 9 * HEARTBEAT  # a file server may show a touch a minute late


class Claim:
    """A claim that this process holds.

    Attributes:
        key: no other claim has the same key.
        former_keys: the keys of the claims that were taken over, one after the other.
    """

    def __init__(self, path: Path, former_keys: tuple[str, ...] = ()) -> None:
        self.key, self.former_keys = uuid.uuid4().hex, former_keys
        holder = {"machine": machine(), "pid": os.getpid(), "since": datetime.now(UTC).isoformat(timespec="seconds")}
        content = {"claimed_by": holder, "key": self.key, "former_keys": former_keys}
        self.path, self.text = path, json.dumps(content) + "\n"

    def is_held(self) -> bool:
        """Whether no other process has taken the claim over."""
        return _read(self.path)[0] == self.text

    def finish(self, text: str) -> None:
        """Replaces the claim by a text that says what came of the work; nobody can claim it then."""
        write_text(self.path, text)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Touches the claim while the block runs, and gives it back after the block if the work is not finished."""
        done = Event()

        def beat() -> None:
            while not done.wait(HEARTBEAT):
                with suppress(OSError):  # a missed beat does no harm
                    if self.is_held():
                        os.utime(self.path)

        heart = Thread(target=beat, name="heartbeat", daemon=True)
        heart.start()
        try:
            yield
        finally:
            done.set()
            heart.join()
            if self.is_held():
                self.path.unlink(missing_ok=True)


class Claims:
    """What this process has seen of other processes' claims."""

    def __init__(self) -> None:
        self._seen: dict[Path, tuple[object, float]] = {}  # the last text and touch of each claim, and when it was seen

    def take(self, path: Path) -> Claim | None:
        """Claims the work that the file at `path` stands for; None if another process holds it or has finished it."""
        claim = Claim(path)
        if create_text(path, claim.text):
            return claim
        former = read_state(path)
        if "claimed_by" not in former or not self._is_abandoned(path, former):
            return None
        # To replace a claim is a right that is claimed, too: else a slow process could replace a new claim.
        right = self.take(_right(path, former["key"]))
        if right is None:
            return None
        try:
            if read_state(path).get("key") != former["key"]:
                return None
            claim = Claim(path, (*former["former_keys"], former["key"]))
            write_text(path, claim.text)
            for key in former["former_keys"]:  # whose rights a killed process may have left
                _right(path, key).unlink(missing_ok=True)
            return claim
        finally:
            right.path.unlink(missing_ok=True)

    def _is_abandoned(self, path: Path, claim: Mapping[str, Any]) -> bool:
        """Whether the holder of a claim has died."""
        holder = claim["claimed_by"]
        if holder["machine"] == machine() and not _is_running(holder["pid"]):
            return True
        now = time.monotonic()
        known, since = self._seen.get(path, (None, now))
        state = claim["key"], _read(path)[1]
        if known != state:
            self._seen[path] = state, now
            return False
        return now - since > STALE


def machine() -> str:
    """A name of this machine since it was started; its containers have names of their own, as their process numbers."""
    try:
        # Machines made from one image may have the same host name, and their first containers the same number.
        start = Path("/proc/sys/kernel/random/boot_id").read_text("utf-8").strip()
        return f"{socket.gethostname()} {start} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return socket.gethostname()


def read_state(path: Path) -> dict[str, Any]:
    """The JSON object in a claim, or in what replaced the claim; empty if there is no such file."""
    text, _ = _read(path)
    content: dict[str, Any] = json.loads(text or "{}")
    return content


def _read(path: Path) -> tuple[str, int]:
    """A file's text and the time when the file was touched; ("", 0) if there is no such file."""
    try:
        # A file server tells the present state of a file that is opened, and maybe an old one of a file that is not.
        with path.open(encoding="utf-8") as file:
            return file.read(), os.fstat(file.fileno()).st_mtime_ns
    except FileNotFoundError:
        return "", 0


def _right(path: Path, key: str) -> Path:
    """The claim of the right to replace the claim with this key."""
    return path.with_name(f"{path.name}.{key}")


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
