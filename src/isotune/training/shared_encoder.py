"""An encoder whose sentences all processes of a run encode together, for evaluations inside a run."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from isotune.encoder.encoder import Encoder
from isotune.training.workers import Workers


def shared(encoder: Encoder, workers: Workers) -> Any:
    """The encoder itself if there is one process; or else an encoder that each process has to call alike."""
    return encoder if workers.processes == 1 else SharedEncoder(encoder, workers)


class SharedEncoder:
    """An encoder whose `encode` has each process encode an equal share; all else is the encoder's own."""

    def __init__(self, encoder: Encoder, workers: Workers) -> None:
        self._encoder, self._workers = encoder, workers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)

    def encode(self, sentences: str | Iterable[str], **options: Any) -> NDArray[np.float32]:
        """What `Encoder.encode` returns; all processes have to ask for the same sentences."""
        if isinstance(sentences, str):
            return self._encoder.encode(sentences, **options)
        texts, workers = list(sentences), self._workers
        shares = [np.arange(rank, len(texts), workers.processes) for rank in range(workers.processes)]
        vectors = self._encoder.encode(texts[workers.rank :: workers.processes], **options)
        joined = workers.gather(torch.from_numpy(vectors), [len(share) for share in shares])
        result = np.empty((len(texts), self._encoder.dimension), np.float32)
        result[np.concatenate(shares)] = joined.numpy()
        return result
