"""The batches of a stage."""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from isotune.data.draws import derive_seed
from isotune.data.tokens import BatchSampler, TokenDataset
from isotune.encoder.encoder import Encoder
from isotune.engine.workers import Workers
from isotune.errors import InputError, UselessVectors, as_input_error, counted
from isotune.methods.method import ROWS, Batch, Feed
from isotune.recipes import TrainingOptions

Encode: TypeAlias = Callable[[Encoder, Sequence[str]], NDArray[np.float32]]
"""Gives the vectors [n, d] of n texts by an encoder; each vector has length 1."""


def unit_vectors(encoder: Encoder, texts: Sequence[str]) -> NDArray[np.float32]:
    """The vectors [n, d] of n texts, of length 1."""
    return encoder.encode(texts, normalize=True)


class FeedLoader:
    """Batches of the rows of one feed, in an order that the seed decides."""

    def __init__(
        self,
        dataset: TokenDataset,
        batch_size: int,
        name: str,
        seed: int,
        whole_epochs: bool = False,
    ) -> None:
        """Takes the tokens of the rows; `name` is that of the feed.

        Raises:
            InputError: there are fewer rows than a batch has.
        """
        rows = len(dataset)
        if rows < batch_size:
            data = "data" if name == ROWS else f"data of {name}"
            raise InputError(
                f"batch size {batch_size} is larger than the {data} ({counted(rows, 'row')}); give "
                f"a batch size of {rows} or less, or more text"
            )
        self.dataset = dataset
        self.sampler = BatchSampler(rows, batch_size, seed, whole_epochs)
        """Which rows make which step."""
        self.targets = dataset.targets
        """[rows, ...]; `teach` replaces those of the dataset."""
        self.vectors: Tensor | None = None
        """[rows * texts, d], after `cache`."""

    def batch(self, rows: NDArray[np.int64], generator: Generator) -> Batch:
        """The batch of the rows with these numbers [N]."""
        dataset = self.dataset
        targets = None
        if self.targets is not None:
            targets = self.targets[torch.from_numpy(rows)]
        if self.vectors is None:
            return Batch(
                dataset.pack(rows),
                targets,
                dataset.sentences(rows),
                dataset.max_length,
                generator=generator,
            )
        first_places = torch.from_numpy(rows) * dataset.columns
        vectors = tuple(self.vectors[first_places + column] for column in range(dataset.columns))
        return Batch(targets=targets, generator=generator, vectors=vectors)

    @torch.no_grad()
    def cache(self, encoder: Encoder, folder: Path, workers: Workers) -> Tensor:
        """Computes the pooled vectors [rows * texts, d] that batches carry.

        They are in a file of this process without a name, on the disk of `folder`.
        """
        encoder.eval()
        lengths = self.dataset.lengths
        shape = (len(lengths), encoder.backbone.dimension)
        with TemporaryFile(dir=folder) as file:
            _reserve(file, 4 * math.prod(shape), folder)
            vectors = np.memmap(file, np.float32, "r+", shape=shape)
            # Processes have equally many threads, and each gets a batch.
            count = workers.world_size * workers.threads
            batches = encoder.batches(lengths, count)
            for start in range(0, len(batches), count):
                at_once = batches[start : start + count]
                pooled = self._pool_at_once(encoder, at_once, workers)
                if not pooled.isfinite().all():
                    raise UselessVectors("the encoder gives vectors with NaN or infinite values")
                vectors[np.concatenate(at_once)] = pooled.numpy()
        self.vectors = torch.from_numpy(vectors)
        return self.vectors

    def teach(
        self, teachers: Sequence[Encoder], steps: int, encode: Encode = unit_vectors
    ) -> Tensor:
        """Makes the teachers' vectors of each row's text the targets [rows, sum of features].

        Each vector has length 1, so the cosine of two targets is the mean of the teachers' cosines.
        Rows that are in none of the first `steps` steps get no vectors, but 0. A whole epoch leaves
        out less than a batch, which gets vectors too: so another stage on the text finds them all
        among those that are kept.
        """
        used = np.full(len(self.dataset), steps >= self.sampler.steps_per_epoch)
        for step in range(steps):
            used[self.sampler[step]] = True
        (texts,) = self.dataset.sentences(np.flatnonzero(used))
        vectors = [encode(teacher, texts) for teacher in teachers]
        targets = np.zeros((len(used), sum(part.shape[1] for part in vectors)), np.float32)
        targets[used] = np.hstack(vectors)
        self.targets = torch.from_numpy(targets)
        return self.targets

    def _pool_at_once(
        self, encoder: Encoder, batches: Sequence[NDArray[np.int64]], workers: Workers
    ) -> Tensor:
        """The pooled vectors [N, d] of some batches, one for each worker of all processes."""
        pooled = workers.map(partial(self._pool_batch, encoder), workers.local_shards(batches))
        no_vectors = torch.empty(0, encoder.backbone.dimension)
        vectors = torch.cat([no_vectors, *pooled])
        counts = []
        for rank in range(workers.world_size):
            counts.append(sum(map(len, workers.local_shards(batches, rank))))
        return workers.all_gather(vectors, counts)

    def _pool_batch(self, encoder: Encoder, batch: NDArray[np.int64]) -> Tensor:
        tokens = self.dataset.pack_sequences(batch).to(encoder.device)
        return encoder.pool(tokens).float().cpu()


class StepLoader:
    """Makes the batch of each step of a stage, from the batches of all feeds of the method."""

    def __init__(
        self,
        datasets: Mapping[str, TokenDataset],
        feeds: Mapping[str, Feed],
        options: TrainingOptions,
        seed: int,
        stage: int,
        encode: Encode = unit_vectors,
    ) -> None:
        """Takes the tokens and the method's description of each feed, by name.

        `encode` is how teachers encode the text.
        """
        self.loaders: dict[str, FeedLoader] = {}
        self.rows_per_step = 0
        for name, dataset in datasets.items():
            size = feeds[name].batch_size or options.batch_size
            purpose = "order" if name == ROWS else f"order{name}"
            order_seed = derive_seed(seed, purpose, stage)
            whole_epochs = options.as_released.whole_epochs
            self.loaders[name] = FeedLoader(dataset, size, name, order_seed, whole_epochs)
            self.rows_per_step += size
        self._seed = seed
        self._stage = stage
        self._encode = encode
        first = next(iter(self.loaders.values()))
        self.steps_per_epoch = first.sampler.steps_per_epoch
        self.monitored = first.dataset
        """The rows of which the collapse monitor encodes a sample."""

    @property
    def only(self) -> FeedLoader:
        """The only loader, of a method that has its text encoded once."""
        (loader,) = self.loaders.values()
        return loader

    def teach(self, teachers: Sequence[Encoder], steps: int) -> Tensor:
        """Makes the teachers' vectors the targets of the only feed, for so many steps."""
        return self.only.teach(teachers, steps, self._encode)

    def batch(self, step: int) -> Batch:
        """The batch of a step, counted from 0, on the CPU.

        It is a function of the seed, the stage and the step.
        """
        seed = derive_seed(self._seed, "method views", self._stage, step)
        generator = Generator().manual_seed(seed)
        batches = {}
        for name, loader in self.loaders.items():
            batches[name] = loader.batch(loader.sampler[step], generator)
        return Batch.of_feeds(batches, generator)


def _reserve(file: IO[bytes], size: int, folder: Path) -> None:
    """Takes the disk space of a file, so that a full disk is an error here."""
    text = f"{folder}: the vectors of the text need {size:,} bytes here"
    advice = "; free some space, and resume the run from the last checkpoint"
    with as_input_error(OSError, text, advice):
        # macOS lacks this call: there a full disk ends in a crash.
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
