"""Batches for encoders, filled from all requests that wait.

Each text of a request is queued as token ids. A worker that is free takes what waits, up to a
number of tokens, and encodes it as one batch. There is no timer: while all workers compute, texts
gather, and the busier the server is, the larger are its batches.

Short texts are first, so that none waits behind many long ones. A text that has waited while
`PATIENCE` times its tokens were encoded is before all that come later.

On a CPU there are as many workers as torch has threads, and each computes batches without torch's
other threads. A GPU has one worker. `gate.py` decides how many requests may wait.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from heapq import heappop, heappush
from itertools import count
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotune.data.packed import pack
from isotune.data.tokens import Tokenized
from isotune.encoder.encoder import Encoder
from isotune.encoder.stream import tokens_of, tokens_of_pairs
from isotune.kernels.cpu.prepacked import prepacked
from isotune.kernels.threads import compute_alone

# A batch has this share of the tokens that a batch of `Encoder.encode` has. Its encoding takes a
# sixth longer in all, and a new request waits for a batch a quarter as long.
SHARE = 4
# This is more than the long texts that usually wait at a time.
PATIENCE = 64
# Texts are tokenised in parts of about so many characters; a longer text is a part of its own. A
# part takes some milliseconds, or up to a quarter of a second if it is made to be slow (a word of a
# hundred letters that WordPiece doesn't know costs a hundred times a usual word).
PART_CHARACTERS = 8192
SHORT_CHARACTERS = 1024

Text: TypeAlias = str | tuple[str, str]
"""A text, or a pair of texts that are one sequence."""


class Encoded(NamedTuple):
    """The vectors of a request's texts."""

    vectors: NDArray[np.float32]
    """[n, d], each of length 1 unless a classifier reads them."""
    tokens: int
    """The tokens of all texts, special tokens included."""
    cut: int
    """How many texts have the encoder's maximum length, and so may have been cut."""


class Work:
    """The texts of a request, beside all that the server does from when the request came."""

    def __init__(self, batcher: Batcher, texts: Sequence[Text]) -> None:
        self._batcher = batcher
        self._start = time.monotonic()
        self._read_before = batcher.characters_read
        self._encoded_before = batcher.tokens_encoded
        self._characters = sum(map(characters, texts))
        # None until all texts are tokenised.
        self.tokens: int | None = None

    def excess(self) -> str:
        """Of what the request has more than the server has done since it came; "" if nothing.

        Then the server would have no answer by now without other requests either.
        """
        if self.tokens is None:
            size, unit, act = self._characters, "characters", "read"
            done = self._batcher.characters_read - self._read_before
        else:
            size, unit, act = self.tokens, "tokens", "encoded"
            done = self._batcher.tokens_encoded - self._encoded_before
        if size <= done:
            return ""
        rate = done / (time.monotonic() - self._start)
        return f"it has {size:,} {unit}, and the server {act} {done:,} ({rate:,.0f} a second)"


class _Job:
    """The texts of one request.

    Texts are taken shortest first, so that texts of a batch have similar lengths.
    """

    def __init__(
        self,
        encoder: Encoder,
        ids: Sequence[Sequence[int]],
        firsts: Sequence[int] | None,
        normalize: bool,
    ) -> None:
        self.encoder = encoder
        self.ids = ids
        self.firsts = firsts
        self.normalize = normalize
        self.done: asyncio.Future[NDArray[np.float32]] = asyncio.get_running_loop().create_future()
        # The numbers of the texts that no worker has taken, the next one last.
        self.waiting = sorted(range(len(ids)), key=lambda i: -len(ids[i]))
        self.vectors = np.empty((len(ids), encoder.dimension), np.float32)  # [n, d]
        # How many texts have no vector.
        self.left = len(ids)

    @property
    def next_tokens(self) -> int:
        """The tokens of the text that is taken next."""
        return len(self.ids[self.waiting[-1]])


_Batch: TypeAlias = list[tuple[_Job, int]]
"""The texts of a batch: the job, and the number of the text in the job.

All jobs are for one encoder. So all are pairs or none is, and all are normalised or none is: what a
classifier reads has an encoder of its own.
"""


class Batcher:
    """Encodes texts of many requests together. All methods but `close` belong to one event loop."""

    def __init__(self, encoders: Sequence[Encoder]) -> None:
        # A heap of the jobs with waiting texts, by their turns.
        self._jobs: list[tuple[int, int, _Job]] = []
        # The tokens of all texts that workers have taken.
        self._done = 0
        self._numbers = count()
        self._changed = threading.Condition()
        self._closed = False
        # What was done for all requests since the start.
        self.characters_read = 0
        self.tokens_encoded = 0
        self._threads = torch.get_num_threads()
        # Short parts of texts have a thread of their own, so that they never wait for long ones.
        self._tokenizing = {short: ThreadPoolExecutor(1, "tokenize") for short in (True, False)}
        self._prepacked = ExitStack()
        for encoder in encoders:
            self._prepacked.enter_context(prepacked(encoder.backbone))
        on_cpu = all(encoder.device.type == "cpu" for encoder in encoders)
        workers = 1
        if on_cpu:
            workers = self._threads
        self._workers = [self._worker(number, on_cpu) for number in range(workers)]
        for worker in self._workers:
            worker.start()

    def _worker(self, number: int, alone: bool) -> threading.Thread:
        return threading.Thread(
            target=self._work, args=(alone,), name=f"encode-{number}", daemon=True
        )

    async def tokenize(
        self, encoder: Encoder, texts: Sequence[Text], role: str | None = None
    ) -> AsyncIterator[Tokenized]:
        """The tokens of texts, part by part; the two texts of a pair are one sequence.

        Texts have the prompt of a role, if there is one.
        """
        loop = asyncio.get_running_loop()
        if role:
            encoder = encoder.prompted(role)
        tokenize: Callable[[Encoder, Sequence[Any]], Tokenized] = tokens_of
        if isinstance(texts[0], tuple):
            tokenize = tokens_of_pairs
        for part in _parts(texts):
            size = sum(map(characters, part))
            thread = self._tokenizing[size <= SHORT_CHARACTERS]
            tokens = await loop.run_in_executor(thread, tokenize, encoder, part)
            self.characters_read += size
            yield tokens

    async def encode(
        self,
        encoder: Encoder,
        ids: Sequence[Sequence[int]],
        firsts: Sequence[int] | None = None,
        normalize: bool = True,
    ) -> Encoded:
        """Encodes the token ids of texts, at least one.

        Of pairs, `firsts` has the tokens of each first text. `normalize` scales each vector to
        length 1. If the caller is cancelled, the rest is not encoded.
        """
        job = _Job(encoder, ids, firsts, normalize)
        with self._changed:
            self._queue(job)
            self._changed.notify_all()
        try:
            vectors = await job.done
        finally:
            with self._changed:
                job.waiting.clear()
        lengths = [len(tokens) for tokens in ids]
        cut = sum(length >= encoder.max_length for length in lengths)
        return Encoded(vectors, sum(lengths), cut)

    def close(self) -> None:
        """Encodes what waits, and ends the workers."""
        for thread in self._tokenizing.values():
            thread.shutdown()
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for worker in self._workers:
            worker.join()
        self._prepacked.close()
        # A worker's setting holds for threads that start later, too.
        torch.set_num_threads(self._threads)

    def _work(self, alone: bool) -> None:
        if alone:
            compute_alone()
        while batch := self._take():
            self._encode(batch)
            del batch

    def _encode(self, batch: _Batch) -> None:
        """Encodes a batch.

        If that fails, each of its requests is encoded by itself, so that no other one fails.
        """
        loop = batch[0][0].done.get_loop()
        try:
            vectors = _encode(batch)
        except Exception as error:
            jobs = list(dict.fromkeys(job for job, _ in batch))
            if len(jobs) == 1:
                loop.call_soon_threadsafe(_fail, jobs[0], error)
                return
            for job in jobs:
                self._encode([(other, i) for other, i in batch if other is job])
        else:
            loop.call_soon_threadsafe(self._deliver, batch, vectors)

    def _deliver(self, batch: _Batch, vectors: NDArray[np.float32]) -> None:
        """Gives the vectors to their requests; a request that has all of them is answered."""
        for (job, i), vector in zip(batch, vectors, strict=True):
            self.tokens_encoded += len(job.ids[i])
            job.vectors[i] = vector
            job.left -= 1
            if not job.left and not job.done.done():
                job.done.set_result(job.vectors)

    def _take(self) -> _Batch:
        """Waits for a batch; gives an empty one when the batcher is closed."""
        with self._changed:
            batch = self._next_batch()
            while not batch and not self._closed:
                self._changed.wait()
                batch = self._next_batch()
            return batch

    def _queue(self, job: _Job) -> None:
        turn = self._done + PATIENCE * job.next_tokens
        heappush(self._jobs, (turn, next(self._numbers), job))

    def _next_batch(self) -> _Batch:
        batch: _Batch = []
        tokens = 0
        # What was passed over, and waits on.
        others = []
        while self._jobs:
            entry = heappop(self._jobs)
            job = entry[-1]
            if not job.waiting:
                # Its request was cancelled.
                continue
            if batch and job.encoder is not batch[0][0].encoder:
                others.append(entry)
                continue
            tokens += job.next_tokens
            if batch and tokens > job.encoder.batch_tokens // SHARE:
                others.append(entry)
                break
            self._done += job.next_tokens
            batch.append((job, job.waiting.pop()))
            if job.waiting:
                self._queue(job)
        for entry in others:
            heappush(self._jobs, entry)
        return batch


def characters(text: Text) -> int:
    """The characters of a text, or of both texts of a pair."""
    if isinstance(text, str):
        return len(text)
    return sum(map(len, text))


def _parts(texts: Sequence[Text]) -> Iterator[Sequence[Text]]:
    """Texts in parts of at most `PART_CHARACTERS`, or of one text."""
    start = 0
    size = 0
    for end, text in enumerate(texts):
        if end > start and size + characters(text) > PART_CHARACTERS:
            yield texts[start:end]
            start = end
            size = 0
        size += characters(text)
    yield texts[start:]


@torch.no_grad()
def _encode(batch: _Batch) -> NDArray[np.float32]:
    first_job = batch[0][0]
    encoder = first_job.encoder
    ids = [job.ids[i] for job, i in batch]
    firsts = None
    if first_job.firsts is not None:
        firsts = [job.firsts[i] for job, i in batch if job.firsts is not None]
    vectors: Tensor = encoder(pack(ids, firsts).to(encoder.device)).float()
    if first_job.normalize:
        vectors = torch.nn.functional.normalize(vectors, dim=-1)
    return vectors.cpu().numpy()


def _fail(job: _Job, error: Exception) -> None:
    if not job.done.done():
        job.done.set_exception(error)
