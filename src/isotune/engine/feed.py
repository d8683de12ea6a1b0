"""The batches of a stage."""

import math
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from isotune.data.draws import derive_seed
from isotune.data.tokens import BatchOrder, TokenStore
from isotune.encoder.encoder import Encoder
from isotune.engine.workers import Workers
from isotune.errors import InputError, UselessVectors, counted, telling
from isotune.methods.method import ROWS, Batch, Feed
from isotune.recipes import TrainingOptions


class Corpus:
    """Rows of one type, in an order that the seed decides."""

    def __init__(
        self, store: TokenStore, batch_size: int, name: str, seed: int, whole_epochs: bool = False
    ) -> None:
        if len(store) < batch_size:
            data = "data" if name == ROWS else f"data of {name}"
            raise InputError(
                f"batch size {batch_size} is larger than the {data} ({counted(len(store), 'row')}); give a batch size "
                f"of {len(store)} or less, or more text"
            )
        self.store = store
        self.order = BatchOrder(
            len(store), batch_size, seed, whole_epochs
        )  # which rows make which step
        self.targets = store.targets  # until `teach`
        self.vectors: Tensor | None = None  # after `cache`

    def batch(self, rows: NDArray[np.int64], generator: Generator) -> Batch:
        """The batch of the rows with these numbers [N]."""
        store = self.store
        targets = None if self.targets is None else self.targets[torch.from_numpy(rows)]
        if self.vectors is not None:
            places = torch.from_numpy(rows) * store.columns
            vectors = tuple(self.vectors[places + column] for column in range(store.columns))
            return Batch(targets=targets, generator=generator, vectors=vectors)
        return Batch(
            store.pack(rows), targets, store.sentences(rows), store.max_length, generator=generator
        )

    @torch.no_grad()
    def cache(self, encoder: Encoder, folder: Path, workers: Workers) -> Tensor:
        """Computes the pooled vectors [rows * texts, d] that batches carry, into a nameless file of this process."""
        encoder.eval()
        lengths = self.store.lengths
        with TemporaryFile(dir=folder) as file:
            shape = len(lengths), encoder.backbone.dimension
            size = 4 * math.prod(shape)
            advice = "; free some space, and resume the run from the last checkpoint"
            with telling(
                OSError, f"{folder}: the vectors of the text need {size:,} bytes here", advice
            ):
                if hasattr(
                    os, "posix_fallocate"
                ):  # macOS lacks this call: there a full disk ends in a crash
                    os.posix_fallocate(file.fileno(), 0, size)
            vectors = np.memmap(file, np.float32, "r+", shape=shape)
            count = workers.processes * workers.threads  # processes have equally many threads
            batches = encoder.batches(lengths, count)
            for start in range(0, len(batches), count):
                at_once = batches[start : start + count]  # a batch for each worker
                pooled = workers.run(
                    [partial(self._pool, encoder, batch) for batch in workers.own(at_once)]
                )
                counts = [
                    sum(map(len, workers.own(at_once, rank))) for rank in range(workers.processes)
                ]
                joined = workers.gather(torch.cat([torch.empty(0, shape[1]), *pooled]), counts)
                if not joined.isfinite().all():
                    raise UselessVectors("the encoder gives vectors with NaN or infinite values")
                vectors[np.concatenate(at_once)] = joined.numpy()
            self.vectors = torch.from_numpy(vectors)
        return self.vectors

    def teach(self, teachers: Sequence[Encoder]) -> None:
        """Makes the teachers' vectors of each row's text, all of length 1, the targets [rows, the sum of features].

        So the cosine of two targets is the mean of the teachers' cosines.
        """
        (texts,) = self.store.sentences(np.arange(len(self.store)))
        self.targets = torch.from_numpy(
            np.hstack([teacher.encode(texts, normalize=True) for teacher in teachers])
        )

    def _pool(self, encoder: Encoder, batch: NDArray[np.int64]) -> Tensor:
        return encoder.pool(self.store.pack_sequences(batch).to(encoder.device)).float().cpu()


class Feeder:
    """Makes the batches of a stage."""

    def __init__(
        self,
        stores: Mapping[str, TokenStore],
        feeds: Mapping[str, Feed],
        options: TrainingOptions,
        seed: int,
        stage: int,
    ) -> None:
        self.corpora, self.rows_per_step = {}, 0
        for name, store in stores.items():
            size = feeds[name].batch_size or options.batch_size
            order_seed = derive_seed(seed, "order" if name == ROWS else f"order{name}", stage)
            self.corpora[name] = Corpus(
                store, size, name, order_seed, options.as_released.whole_epochs
            )
            self.rows_per_step += size
        self._seed, self._stage = seed, stage
        first = next(iter(self.corpora.values()))
        self.steps_per_epoch = first.order.steps_per_epoch
        self.monitored = first.store  # the monitor encodes a sample of its sentences

    @property
    def corpus(self) -> Corpus:
        """The only corpus, of a method that has its text encoded once."""
        (corpus,) = self.corpora.values()
        return corpus

    def batch(self, step: int) -> Batch:
        """The batch of a step, counted from 0, on the CPU. It is a function of the seed, the stage and the step."""
        generator = Generator().manual_seed(
            derive_seed(self._seed, "method views", self._stage, step)
        )
        batches = {
            name: corpus.batch(corpus.order[step], generator)
            for name, corpus in self.corpora.items()
        }
        return Batch.of_feeds(batches, generator)
