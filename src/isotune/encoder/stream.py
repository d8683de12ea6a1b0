"""Encodes any number of sentences, part by part, so that memory does not grow with the stream.

The sentences of a part are sorted by their number of tokens and cut into batches; a batch has about
as many tokens as suit the device, and sentences of similar length. While a part is encoded, the
next part is tokenised. On a CPU, each thread encodes whole batches, so that no thread waits for
another within a batch. A part that is a single batch, such as one question, is encoded by one
thread if it is short, and by all of torch's threads together if it is long. A GPU gets one batch
after another, without a wait in between, and returns the vectors once a part.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotune.data.packed import pack
from isotune.data.rows import blocks, is_unicode
from isotune.data.tokens import Tokenized
from isotune.encoder.model import SentenceModel
from isotune.errors import InputError, UselessVectors
from isotune.kernels.cpu.memory import give_back
from isotune.kernels.cpu.prepacked import prepacked
from isotune.kernels.threads import (
    kept_threads,
    restored_threads,
    shared_setting,
    single_threads,
)

# Sentences of a part: enough that the sentences of a batch have one or two lengths, and few enough
# to hold two parts.
PART = 16_384

# Multiplications of a batch that one thread encodes: 20 to 100 milliseconds of it. Threads that
# share a batch wait for each other some hundred times. Beside a busy process, each wait may take as
# long as the whole batch takes one thread (docs/performance.md, "Beside busy processes").
SHORT = 1_000_000_000

Advance: TypeAlias = Callable[[int], object]
"""Is called with the number of sentences encoded since the last call."""
Vectors: TypeAlias = NDArray[np.float32]
Parts: TypeAlias = Iterator[tuple[list[str], Vectors]]
"""The parts of a stream, in order: n sentences and their vectors [n, d]."""

# Of each encoder, whether it was in training mode before the streams that are open: for `sharing`.
_modes: WeakKeyDictionary[SentenceModel, list[bool]] = WeakKeyDictionary()


class EncodedPart(NamedTuple):
    """A part of a stream."""

    sentences: list[Any]
    """[n] strings, or pairs of strings."""
    vectors: Vectors
    """[n, d]"""
    cut: int
    """How many sentences have the encoder's maximum length, and so may have been cut."""


@contextmanager
def progress(total: int | None, show: bool = True) -> Iterator[Advance]:
    """Shows the sentences done and their rate on standard error, if that is a terminal.

    `total` is None for an unknown number of sentences.
    """
    if not show:
        # Nothing of rich is called, because it draws from Python's global random generator.
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
    start = time.perf_counter()
    done = 0
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total, rate=0.0)

        def advance(count: int) -> None:
            nonlocal done
            done += count
            bar.update(task, completed=done, rate=done / (time.perf_counter() - start))

        yield advance


def several(sentences: Any) -> Iterable[Any]:
    """The sentences or pairs themselves, if they can be several.

    Raises:
        InputError: they are a text or a table, or are no collection.
    """
    problem = f"sentences are a {type(sentences).__name__}"
    if isinstance(sentences, Mapping) or getattr(sentences, "columns", None) is not None:
        raise InputError(f"{problem}; name the column or key that holds them: x['text']")
    if isinstance(sentences, str | bytes) or not isinstance(sentences, Iterable):
        raise InputError(f"{problem}; give a list of strings")
    return sentences


def parts_of(sentences: Iterable[str]) -> Iterator[list[str]]:
    """Cuts a stream into parts of `PART` sentences, or of fewer if they are very long."""
    done = 0
    for part in blocks(several(sentences), PART, lambda sentence: [sentence]):
        for number, sentence in enumerate(part, done):
            _check_text(sentence, f"sentence {number}")
        yield part
        done += len(part)


def pair_parts_of(pairs: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    """Cuts a stream of pairs into parts, as `parts_of`."""
    done = 0
    for part in blocks(several(pairs), PART, list):
        for number, pair in enumerate(part, done):
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise InputError(f"pair {number} is {pair!r:.60}; give two strings, as a tuple")
            for text in pair:
                _check_text(text, f"a text of pair {number}")
        yield part
        done += len(part)


def _check_text(text: object, place: str) -> None:
    if not isinstance(text, str):
        raise InputError(f"{place} is {type(text).__name__}, not a string")
    if not is_unicode(text):
        raise InputError(f"{place} has half a surrogate pair, which is no character")


def refuse_no_numbers(vectors: Vectors, names: Sequence[object]) -> None:
    """Raises UselessVectors if one of the vectors [n, d] has NaN or infinity, with its name."""
    finite = np.isfinite(vectors).all(axis=1)  # [n]
    if finite.all():
        return
    name = str(names[int(finite.argmin())])[:50]
    raise UselessVectors(
        f"row {name!r}: its vector has NaN or infinity, which can't be compared; give --precision "
        "float32 (in Python, an encoder in float32)"
    )


def encode_stream(
    encoder: SentenceModel, sentences: Iterable[str], normalize: bool, advance: Advance | None
) -> Iterator[EncodedPart]:
    """Encodes a stream, with the encoder in evaluation mode.

    The arguments are as `Encoder.encode_parts` has them.
    """
    return _encode_parts(encoder, parts_of(sentences), tokens_of, normalize, advance)


def encode_pairs(
    encoder: SentenceModel, pairs: Iterable[tuple[str, str]], advance: Advance | None
) -> Iterator[EncodedPart]:
    """Encodes a stream of pairs, whose two texts are one sequence, as `encode_stream`.

    Raises:
        InputError: an element of the stream is not a pair of strings.
    """
    return _encode_parts(encoder, pair_parts_of(pairs), tokens_of_pairs, False, advance)


def _encode_parts(
    encoder: SentenceModel,
    parts: Iterator[list[Any]],
    tokenize: Callable[[SentenceModel, list[Any]], Tokenized],
    normalize: bool,
    advance: Advance | None,
) -> Iterator[EncodedPart]:
    modes = _modes.setdefault(encoder, [])
    put_back = partial(_set_mode, encoder)
    with shared_setting(modes, lambda: encoder.training, lambda: put_back(False), put_back):
        part = next(parts, [])
        tokens = tokenize(encoder, part)
        all_texts = 0
        all_cut = 0
        while part:
            cut = sum(len(ids) >= encoder.max_length for ids in tokens.columns[0])
            all_texts += len(part)
            all_cut += cut
            next_part = next(parts, [])
            batches = _Batches(encoder, tokens, normalize)
            with batches.workers() as workers:
                next_tokens = workers.submit(tokenize, encoder, next_part)
                vectors = batches.encode(workers, advance)
                tokens = next_tokens.result()
            refuse_no_numbers(vectors, part)
            yield EncodedPart(part, vectors, cut)
            part = next_part
            if part:
                give_back()
        encoder.note_cut(all_cut, all_texts)


def _set_mode(encoder: SentenceModel, training: bool) -> None:
    """Sets the encoder's mode. It visits every module only where the mode is another.

    Another encoder of the same weights may have changed the mode of a part.
    """
    parts = (encoder, *encoder.children())
    if any(part.training != training for part in parts):
        encoder.train(training)


def tokens_of(encoder: SentenceModel, part: Sequence[str]) -> Tokenized:
    """The token ids of a part, which may be empty: a slow tokenizer takes no empty list."""
    if not part:
        return Tokenized([[]])
    return Tokenized([encoder.tokenize(part)])


def tokens_of_pairs(encoder: SentenceModel, part: Sequence[tuple[str, str]]) -> Tokenized:
    """The token ids of a part, in which the two texts of a pair are one sequence."""
    if not part:
        return Tokenized([[]])
    first, second = zip(*part, strict=True)
    ids, firsts = encoder.tokenize_pairs(first, second)
    return Tokenized([ids], firsts)


class _Batches:
    """The batches of a part, and the threads that encode them."""

    def __init__(self, encoder: SentenceModel, tokens: Tokenized, normalize: bool) -> None:
        self.encoder = encoder
        (self.ids,) = tokens.columns
        self.firsts = tokens.firsts
        self.normalize = normalize
        lengths = [len(ids) for ids in self.ids]
        # A new thread asks for torch's number of threads here for the first time. It waits for
        # threads that are being started elsewhere, because meanwhile the number is theirs.
        with restored_threads() as torch_threads:
            pass
        self.batches = encoder.batches(lengths, torch_threads)
        self.by_workers = self._suit_workers(sum(lengths), torch_threads)
        self._torch_threads = torch_threads

    def _suit_workers(self, tokens: int, torch_threads: int) -> bool:
        """Whether threads of their own encode the batches, each with one thread of torch.

        Otherwise, the calling thread encodes one batch after another.
        """
        if self.encoder.device.type != "cpu":
            return False
        if len(self.batches) > 1:
            return True
        return torch_threads > 1 and tokens * self.encoder.backbone.multiplications <= SHORT

    @contextmanager
    def workers(self) -> Iterator[ThreadPoolExecutor]:
        """The threads that compute or tokenise beside the calling thread.

        A single batch gets threads that are kept, because new threads take a third of its time.
        """
        if len(self.batches) == 1:
            yield kept_threads()
            return
        count = 1
        if self.by_workers:
            count = min(self._torch_threads, len(self.batches))
        workers = single_threads("encode", count)
        try:
            yield workers
        finally:
            # After an error, no further batch is begun.
            workers.shutdown(cancel_futures=True)

    def encode(self, workers: ThreadPoolExecutor, advance: Advance | None) -> Vectors:
        """The vectors [n, d] of the part, in the order of its sentences."""
        encoded = []
        with self._packed_weights():
            if self.by_workers:
                results = workers.map(self._encode_batch, self.batches)
            else:
                results = map(self._encode_batch, self.batches)
            for batch, vectors in zip(self.batches, results, strict=True):
                encoded.append(vectors)
                if advance:
                    advance(len(batch))
        ordered = np.empty((len(self.ids), self.encoder.dimension), np.float32)
        ordered[np.concatenate(self.batches)] = torch.cat(encoded).cpu().numpy()
        return ordered

    def _packed_weights(self) -> AbstractContextManager[None]:
        """Packs the weights for several batches on a CPU; for a single batch, that takes longer."""
        if self.by_workers and len(self.batches) > 1:
            return prepacked(self.encoder.backbone)
        return nullcontext()

    @torch.no_grad()
    def _encode_batch(self, batch: NDArray[np.int64]) -> Tensor:
        """The vectors [n, d] float32 of the sentences with these numbers in the part."""
        firsts = None
        if self.firsts is not None:
            firsts = [self.firsts[number] for number in batch]
        tokens = pack([self.ids[number] for number in batch], firsts)
        vectors: Tensor = self.encoder(tokens.to(self.encoder.device)).float()
        if self.normalize:
            return torch.nn.functional.normalize(vectors, dim=-1)
        return vectors
