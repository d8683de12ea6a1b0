"""Sentences in, vectors out, however many there are.

They are taken in parts, so memory doesn't grow with the stream. A part's sentences are sorted by their number of tokens
and cut into batches of like length, as many tokens in each as suit the device. While a part is encoded, the next one is
tokenised. On a CPU each thread encodes batches of its own, so that within a batch nobody waits for anybody. A GPU gets
one batch after another without being waited for, and gives the part's vectors back at its end.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotune.data.packed import pack
from isotune.errors import InputError
from isotune.kernels.memory import give_back
from isotune.kernels.prepacked import prepacked

if TYPE_CHECKING:
    from isotune.encoder.encoder import Encoder

# Sentences of a part: enough that a batch of them has one length or two, and few enough to be held twice.
PART = 16_384

Advance: TypeAlias = Callable[[int], object]
"""Is told how many sentences more are done."""
Parts: TypeAlias = Iterator[tuple[list[str], NDArray[np.float32]]]
"""The sentences of each part of a stream and their vectors [n, d], in its order."""


class StreamEncoder(ABC):
    """What encodes sentences part by part, and so all at once too."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Features of a sentence vector."""

    @abstractmethod
    def encode_parts(
        self, sentences: Iterable[str], *, normalize: bool = False, advance: Advance | None = None
    ) -> Parts:
        """Encodes a stream of any length; memory does not grow with it.

        Args:
            sentences: the stream.
            normalize: scale each vector to length 1.
            advance: is told of progress within a part.

        Raises:
            InputError: one of them is not a string.
        """

    def encode(
        self, sentences: str | Iterable[str], *, normalize: bool = False, show_progress: bool = False
    ) -> NDArray[np.float32]:
        """Sentence vectors.

        Args:
            sentences: one sentence, or several.
            normalize: scale each vector to length 1.
            show_progress: a progress bar on standard error, where that is a terminal.

        Returns:
            float32 [d] for one sentence, [N, d] for several, in their order.

        Raises:
            InputError: one of them is not a string.
        """
        if isinstance(sentences, str):
            vector: NDArray[np.float32] = self.encode([sentences], normalize=normalize)[0]
            return vector
        sentences = list(sentences)
        vectors = np.empty((len(sentences), self.dimension), np.float32)
        done = 0
        with progress(len(sentences), show_progress) as advance:
            for _, part in self.encode_parts(sentences, normalize=normalize, advance=advance):
                vectors[done : done + len(part)] = part
                done += len(part)
        return vectors


@contextmanager
def progress(total: int | None, show: bool = True) -> Iterator[Advance]:
    """A bar on standard error, where that is a terminal, with the sentences done and their rate; `total` if known."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(stderr=True)
    columns = "encoding", BarColumn(), TextColumn("{task.completed:,} sentences, {task.fields[rate]:,.0f} a second")
    start, done = time.perf_counter(), 0
    with Progress(*columns, console=console, disable=not (show and console.is_terminal)) as bar:
        task = bar.add_task("", total=total, rate=0.0)

        def advance(count: int) -> None:
            nonlocal done
            done += count
            bar.update(task, completed=done, rate=done / (time.perf_counter() - start))

        yield advance


def parts_of(sentences: Iterable[str]) -> Iterator[list[str]]:
    """A stream's parts.

    Raises:
        InputError: one of the sentences is not a string.
    """
    rest, done = iter(sentences), 0
    while part := list(islice(rest, PART)):
        for i, sentence in enumerate(part, done):
            if not isinstance(sentence, str):
                raise InputError(f"sentence {i} is {type(sentence).__name__}, not a string")
        yield part
        done += len(part)


def encode_stream(encoder: Encoder, sentences: Iterable[str], normalize: bool, advance: Advance | None) -> Parts:
    """The sentences of each part and their vectors; arguments as `StreamEncoder` has them."""
    parts = parts_of(sentences)
    texts = next(parts, [])
    ids = encoder.tokenize(texts) if texts else []
    threads = torch.get_num_threads()
    with _workers(threads) as workers:
        while texts:
            following = next(parts, [])
            ahead = workers.submit(encoder.tokenize, following) if following else None
            yield texts, _encode(encoder, ids, normalize, advance, workers, threads)
            texts, ids = following, ahead.result() if ahead else []
            if texts:
                give_back()


@contextmanager
def _workers(threads: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that encode a batch each; torch's own, which share the work within a batch, are off in them."""
    workers = ThreadPoolExecutor(threads, "encode", initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield workers
    finally:
        workers.shutdown(cancel_futures=True)  # after an error, what isn't begun is left
        torch.set_num_threads(threads)  # the workers have set it for threads to come too


def _encode(
    encoder: Encoder,
    ids: Sequence[Sequence[int]],
    normalize: bool,
    advance: Advance | None,
    workers: ThreadPoolExecutor,
    threads: int,
) -> NDArray[np.float32]:
    """Vectors [n, d] of a part's sentences, given as token ids."""
    batches = encoder.batches([len(tokens) for tokens in ids], threads)

    @torch.no_grad()
    def encode(batch: NDArray[np.int64]) -> Tensor:
        vectors: Tensor = encoder(pack([ids[i] for i in batch]).to(encoder.device)).float()  # [n of the batch, d]
        return torch.nn.functional.normalize(vectors, dim=-1) if normalize else vectors

    # All threads share a single batch, and one thread feeds a GPU.
    alone = len(batches) == 1 or encoder.device.type != "cpu"
    encoded = []
    with nullcontext() if alone else prepacked(encoder.backbone):
        for batch, vectors in zip(batches, (map if alone else workers.map)(encode, batches), strict=True):
            encoded.append(vectors)
            if advance:
                advance(len(batch))
    result = np.empty((len(ids), encoder.dimension), np.float32)
    result[np.concatenate(batches)] = torch.cat(encoded).cpu().numpy()
    return result
