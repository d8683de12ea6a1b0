"""Batches for encoders, filled from all requests that wait.

Each text of a request is queued as token ids. A worker that is free takes what waits, up to a number of tokens, and
encodes it as one batch. There is no timer: while all workers compute, texts gather, and the busier the server is, the
larger are its batches. A worker takes one text of each request in turn, so a small request is in the next batch even
beside requests of thousands of texts.

On a CPU there are as many workers as torch has threads, and each computes batches without torch's other threads. A GPU
has one worker. `gate.py` decides how many requests may wait.
"""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotune.data.packed import pack
from isotune.encoder.encoder import Encoder
from isotune.kernels.prepacked import prepacked
from isotune.kernels.threads import compute_alone

# A batch has this share of the tokens that a batch of `Encoder.encode` has. Its encoding takes a sixth longer in all,
# and a new request waits for a batch a quarter as long.
SHARE = 4
# Texts are tokenised in parts, so that no request waits for a large one. A part ends with the text that reaches this
# number of characters, which takes some milliseconds, or a tenth of a second if that text is the longest allowed.
PART_CHARACTERS = 16_384


class Encoded(NamedTuple):
    """The vectors of a request's texts."""

    vectors: NDArray[np.float32]  # [n, d], each of length 1
    tokens: int  # of all texts, special tokens included
    cut: int  # texts that have the encoder's maximum length, and so may have been cut


@dataclass(eq=False)
class _Job:
    """The texts of one request. Texts are taken shortest first, so that texts of a batch have similar lengths."""

    encoder: Encoder
    ids: Sequence[Sequence[int]]
    done: asyncio.Future[NDArray[np.float32]]
    waiting: deque[int] = field(init=False)  # numbers of the texts that no worker has taken
    vectors: NDArray[np.float32] = field(init=False)  # [n, d]
    left: int = field(init=False)  # texts without a vector

    def __post_init__(self) -> None:
        self.waiting = deque(sorted(range(len(self.ids)), key=lambda i: len(self.ids[i])))
        self.vectors = np.empty((len(self.ids), self.encoder.dimension), np.float32)
        self.left = len(self.ids)


_Batch: TypeAlias = list[tuple[_Job, int]]
"""The texts of a batch, all for the same encoder: the job, and the number of the text in the job."""


class Batcher:
    """Encodes texts of many requests together. All methods but `close` belong to one event loop."""

    def __init__(self, encoders: Sequence[Encoder]) -> None:
        """Starts the workers."""
        self._jobs: deque[_Job] = deque()  # jobs with waiting texts; the first is next in turn
        self._changed = threading.Condition()
        self._closed = False
        self._threads = torch.get_num_threads()
        self._tokenizing = ThreadPoolExecutor(1, "tokenize")  # tokenizers of transformers belong to one thread
        self._prepacked = ExitStack()
        for encoder in encoders:
            self._prepacked.enter_context(prepacked(encoder.backbone))
        on_cpu = all(encoder.device.type == "cpu" for encoder in encoders)
        self._workers = [
            threading.Thread(target=self._work, args=(on_cpu,), name=f"encode-{number}", daemon=True)
            for number in range(self._threads if on_cpu else 1)
        ]
        for worker in self._workers:
            worker.start()

    async def tokenize(self, encoder: Encoder, texts: Sequence[str]) -> AsyncIterator[list[list[int]]]:
        """The token ids of texts, part by part, as `Encoder.tokenize` gives them."""
        loop = asyncio.get_running_loop()
        for part in _parts(texts):
            yield await loop.run_in_executor(self._tokenizing, encoder.tokenize, part)

    async def encode(self, encoder: Encoder, ids: Sequence[Sequence[int]]) -> Encoded:
        """Encodes the token ids of texts, at least one. If the caller is cancelled, the rest is not encoded."""
        job = _Job(encoder, ids, asyncio.get_running_loop().create_future())
        with self._changed:
            self._jobs.append(job)
            self._changed.notify_all()
        try:
            vectors = await job.done
        finally:
            with self._changed:
                job.waiting.clear()
        lengths = [len(tokens) for tokens in ids]
        return Encoded(vectors, sum(lengths), sum(length >= encoder.max_length for length in lengths))

    def close(self) -> None:
        """Encodes what waits, and ends the workers."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for worker in self._workers:
            worker.join()
        self._tokenizing.shutdown()
        self._prepacked.close()
        torch.set_num_threads(self._threads)  # a worker's setting holds for threads that start later, too

    def _work(self, alone: bool) -> None:
        """Encodes batches until the batcher is closed; `alone`: without torch's other threads."""
        if alone:
            compute_alone()
        while batch := self._take():
            jobs = {job for job, _ in batch}
            loop = batch[0][0].done.get_loop()
            try:
                vectors = _encode(batch)
            except Exception as error:
                loop.call_soon_threadsafe(_fail, jobs, error)
            else:
                loop.call_soon_threadsafe(_deliver, batch, vectors)

    def _take(self) -> _Batch:
        """Waits for texts and takes the next batch; nothing once the batcher is closed and no text waits."""
        with self._changed:
            while not (batch := self._next_batch()) and not self._closed:
                self._changed.wait()
            return batch

    def _next_batch(self) -> _Batch:
        """Takes a text of each job of an encoder in turn, up to the number of tokens of a batch."""
        batch: _Batch = []
        tokens, others = 0, []
        while self._jobs:
            job = self._jobs.popleft()
            if not job.waiting:  # all its texts are taken, or its request was cancelled
                continue
            if batch and job.encoder is not batch[0][0].encoder:
                others.append(job)
                continue
            tokens += len(job.ids[job.waiting[0]])
            if batch and tokens > job.encoder.batch_tokens // SHARE:
                self._jobs.appendleft(job)
                break
            batch.append((job, job.waiting.popleft()))
            self._jobs.append(job)
        self._jobs.extendleft(reversed(others))
        return batch


def _parts(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Cuts texts into parts that end with the text that reaches `PART_CHARACTERS` characters."""
    start = characters = 0
    for end, text in enumerate(texts, 1):
        characters += len(text)
        if characters >= PART_CHARACTERS or end == len(texts):
            yield texts[start:end]
            start, characters = end, 0


@torch.no_grad()
def _encode(batch: _Batch) -> NDArray[np.float32]:
    """Encodes the texts of a batch; returns [n, d]."""
    encoder = batch[0][0].encoder
    vectors: Tensor = encoder(pack([job.ids[i] for job, i in batch]).to(encoder.device)).float()
    normalized: NDArray[np.float32] = torch.nn.functional.normalize(vectors, dim=-1).cpu().numpy()
    return normalized


def _deliver(batch: _Batch, vectors: NDArray[np.float32]) -> None:
    """Gives each job its vectors; in the event loop."""
    for (job, i), vector in zip(batch, vectors, strict=True):
        job.vectors[i] = vector
        job.left -= 1
        if not job.left and not job.done.done():
            job.done.set_result(job.vectors)


def _fail(jobs: set[_Job], error: Exception) -> None:
    """Gives each job of a batch the error; in the event loop."""
    for job in jobs:
        if not job.done.done():
            job.done.set_exception(error)
