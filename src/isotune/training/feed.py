"""What a step reads: the rows of a stage, a batch at a time."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from isotune.data.tokens import BatchOrder, TokenStore
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.methods.method import Batch
from isotune.training.seeds import derive_seed


class Rows:
    """Rows of one kind, in an order that the seed decides.

    Attributes:
        store: their tokens.
        vectors: [rows * texts, d] pooled vectors in place of the tokens, where a method's backbone is frozen.
    """

    def __init__(self, store: TokenStore, batch_size: int, option: str, seed: int) -> None:
        """`option` is what `batch_size` was given by."""
        if len(store) < batch_size:
            raise InputError(
                f"{option} {batch_size} is larger than the data ({len(store)} rows); give a {option} "
                f"(--{option.replace('_', '-')}) of {len(store)} or less, or more text"
            )
        self.store = store
        self.order = BatchOrder(len(store), batch_size, seed)
        self.vectors: Tensor | None = None

    def batch(self, rows: NDArray[np.int64], generator: Generator, device: torch.device) -> Batch:
        """The batch of these rows [N]."""
        store = self.store
        targets = None if store.targets is None else store.targets[torch.from_numpy(rows)].to(device)
        if self.vectors is not None:
            places = torch.from_numpy(rows) * store.columns
            vectors = tuple(self.vectors[places + column].to(device) for column in range(store.columns))
            return Batch(targets=targets, vectors=vectors, generator=generator)
        texts = tuple(tokens.to(device) for tokens in store.pack(rows))
        return Batch(texts, targets, store.sentences(rows), store.max_length, generator=generator)

    @torch.no_grad()
    def cache(self, encoder: Encoder, folder: Path) -> None:
        """Computes the pooled vectors of all texts, into a nameless file of this folder.

        Raises:
            InputError: the disk has no room for them.
        """
        encoder.eval()
        lengths = self.store.lengths
        with TemporaryFile(dir=folder) as file:
            shape = len(lengths), encoder.backbone.dimension
            size = 4 * math.prod(shape)
            try:
                if hasattr(os, "posix_fallocate"):  # not on macOS, where a full disk is found out by a crash
                    os.posix_fallocate(file.fileno(), 0, size)
            except OSError as error:
                raise InputError(
                    f"{folder}: the vectors of the text need {size:,} bytes there ({error.strerror}); free some space, "
                    "--resume goes on from the last checkpoint"
                ) from error
            vectors = np.memmap(file, np.float32, "r+", shape=shape)
            for batch in encoder.batches(lengths):
                tokens = self.store.pack_sequences(batch).to(encoder.device)
                vectors[batch] = encoder.pool(tokens).float().cpu().numpy()
            self.vectors = torch.from_numpy(vectors)


class Feeder:
    """The batches of a stage: of one kind of rows, or of several kinds at once.

    Attributes:
        steps_per_epoch: updates in a pass over the (first kind of) rows.
        probe: the rows that the collapse monitor looks at.
    """

    def __init__(self, stores: Mapping[str, TokenStore], sizes: Mapping[str, int], seed: int, stage: int) -> None:
        """`stores` has one entry "" where the method has no feeds; `sizes` are the rows of each in a step."""
        self.rows = {
            name: Rows(store, sizes[name], f"{name}_batch_size".lstrip("_"), derive_seed(seed, f"order{name}", stage))
            for name, store in stores.items()
        }
        self._seed, self._stage = seed, stage
        first = next(iter(self.rows.values()))
        self.steps_per_epoch = first.order.steps_per_epoch
        self.probe = first.store

    def cache(self, encoder: Encoder, folder: Path) -> None:
        """Replaces all tokens by their pooled vectors."""
        for rows in self.rows.values():
            rows.cache(encoder, folder)

    @property
    def vectors(self) -> Tensor:
        """The pooled vectors of all texts, [rows * texts, d], of the one kind of rows of a cached method."""
        (rows,) = self.rows.values()
        assert rows.vectors is not None
        return rows.vectors

    def batch(self, step: int, device: torch.device) -> Batch:
        """The batch of a step, counted from 0; a function of the seed, the stage and the step."""
        generator = Generator().manual_seed(derive_seed(self._seed, "method views", self._stage, step))
        batches = {name: rows.batch(rows.order[step], generator, device) for name, rows in self.rows.items()}
        return batches[""] if "" in batches else Batch(generator=generator, tasks=batches)
