"""Encodes any number of sentences, part by part, so that memory does not grow with the stream.

The sentences of a part are sorted by their number of tokens and cut into batches; a batch has about as many tokens as
suit the device, and sentences of similar length. While a part is encoded, the next part is tokenised. On a CPU, each
thread encodes whole batches, so that no thread waits for another within a batch. A GPU gets one batch after another,
without a wait in between, and returns the vectors once a part.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotune.data.packed import pack
from isotune.data.rows import blocks, is_unicode
from isotune.encoder.model import SentenceModel
from isotune.errors import InputError, UselessVectors
from isotune.kernels.cpu.memory import give_back
from isotune.kernels.cpu.prepacked import prepacked
from isotune.kernels.threads import sharing, single_threads

# Sentences of a part: enough that the sentences of a batch have one or two lengths, and few enough to hold two parts.
PART = 16_384

Advance: TypeAlias = Callable[
    [int], object
]  # is called with the number of sentences encoded since the last call
Parts: TypeAlias = Iterator[tuple[list[str], NDArray[np.float32]]]
"""The parts of a stream, in order: n sentences and their vectors [n, d]."""

_modes: WeakKeyDictionary[SentenceModel, list[bool]] = (
    WeakKeyDictionary()
)  # of encoders, for `sharing`


@contextmanager
def progress(total: int | None, show: bool = True) -> Iterator[Advance]:
    """Shows the sentences done and their rate on standard error, if that is a terminal; None for an unknown total."""
    if not show:  # rich draws from Python's global random generator
        yield lambda count: None
        return
    from rich.progress import BarColumn, Progress, TextColumn

    from isotune.console import PlainConsole

    console = PlainConsole(stderr=True)
    columns = (
        "encoding",
        BarColumn(),
        TextColumn("{task.completed:,} sentences, {task.fields[rate]:,.0f} a second", markup=False),
    )
    start, done = time.perf_counter(), 0
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total, rate=0.0)

        def advance(count: int) -> None:
            nonlocal done
            done += count
            bar.update(task, completed=done, rate=done / (time.perf_counter() - start))

        yield advance


def several(sentences: Any) -> Iterable[str]:
    """The sentences themselves, if they can be several strings; raises InputError for what has other elements."""
    named = getattr(sentences, "columns", None) is not None or isinstance(sentences, Mapping)
    if named or isinstance(sentences, str | bytes) or not isinstance(sentences, Iterable):
        instead = (
            "name the column or key that holds them: x['text']"
            if named
            else "give a list of strings"
        )
        raise InputError(f"sentences are a {type(sentences).__name__}; {instead}")
    return sentences


def parts_of(sentences: Iterable[str]) -> Iterator[list[str]]:
    """Cuts a stream into parts of `PART` sentences, or of fewer if they are very long."""
    done = 0
    for part in blocks(several(sentences), PART, lambda sentence: [sentence]):
        for number, sentence in enumerate(part, done):
            if not isinstance(sentence, str):
                raise InputError(f"sentence {number} is {type(sentence).__name__}, not a string")
            if not is_unicode(sentence):
                raise InputError(
                    f"sentence {number} has half a surrogate pair, which is no character"
                )
        yield part
        done += len(part)


def refuse_no_numbers(vectors: NDArray[np.float32], names: Sequence[object]) -> None:
    """Raises UselessVectors with the name of the first vector of [n, d] that has NaN or infinity."""
    finite = np.isfinite(vectors).all(axis=1)  # [n]
    if not finite.all():
        raise UselessVectors(
            f"row {str(names[int(finite.argmin())])[:50]!r}: its vector has NaN or infinity, which can't be compared; "
            "give --precision float32 (in Python, an encoder in float32)"
        )


def encode_stream(
    encoder: SentenceModel, sentences: Iterable[str], normalize: bool, advance: Advance | None
) -> Parts:
    """Encodes a stream, with the encoder in evaluation mode; arguments as `Encoder.encode_parts` has them."""
    modes = _modes.setdefault(encoder, [])
    with sharing(modes, lambda: encoder.training, encoder.eval, encoder.train):
        parts = parts_of(sentences)
        part = next(parts, [])
        ids = encoder.tokenize(part) if part else []
        cut = texts = 0
        while part:
            cut, texts = (
                cut + sum(len(tokens) >= encoder.max_length for tokens in ids),
                texts + len(part),
            )
            next_part = next(parts, [])
            workers = single_threads("encode")
            try:
                next_ids = workers.submit(encoder.tokenize, next_part) if next_part else None
                vectors = _encode(encoder, ids, normalize, advance, workers)
                ids = next_ids.result() if next_ids else []
            finally:
                workers.shutdown(cancel_futures=True)  # after an error, no further batch is begun
            refuse_no_numbers(vectors, part)
            yield part, vectors
            part = next_part
            if part:
                give_back()
        encoder.note_cut(cut, texts)


def _encode(
    encoder: SentenceModel,
    ids: Sequence[Sequence[int]],
    normalize: bool,
    advance: Advance | None,
    workers: ThreadPoolExecutor,
) -> NDArray[np.float32]:
    batches = encoder.batches([len(tokens) for tokens in ids], torch.get_num_threads())

    @torch.no_grad()
    def encode(batch: NDArray[np.int64]) -> Tensor:
        vectors: Tensor = encoder(
            pack([ids[i] for i in batch]).to(encoder.device)
        ).float()  # [n of the batch, d]
        return torch.nn.functional.normalize(vectors, dim=-1) if normalize else vectors

    # All of torch's threads share a single batch, and one thread feeds a GPU.
    in_turn = len(batches) == 1 or encoder.device.type != "cpu"
    encoded = []
    with nullcontext() if in_turn else prepacked(encoder.backbone):
        for batch, vectors in zip(
            batches, (map if in_turn else workers.map)(encode, batches), strict=True
        ):
            encoded.append(vectors)
            if advance:
                advance(len(batch))
    result = np.empty((len(ids), encoder.dimension), np.float32)
    result[np.concatenate(batches)] = torch.cat(encoded).cpu().numpy()
    return result
