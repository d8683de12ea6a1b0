"""An encoder as a model of mteb, the Massive Text Embedding Benchmark; needs `pip install 'isotune[mteb]'`.

    model = isotune.integrations.mteb.BenchmarkModel("runs/notes/encoder")
    mteb.evaluate(model, mteb.get_tasks(tasks=["STSBenchmark.v2"]))

The encoder's fingerprint is the revision of the model, so mteb's cache of results never mixes two encoders.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from mteb.models.abs_encoder import AbsEncoder
from mteb.models.model_meta import ModelMeta, ScoringFunction
from numpy.typing import NDArray

from isotune.encoder import Precision
from isotune.encoder.encoder import Encoder

if TYPE_CHECKING:
    from mteb.abstasks.task_metadata import TaskMetadata
    from mteb.types import BatchedInput, PromptType
    from torch.utils.data import DataLoader


class BenchmarkModel(AbsEncoder):
    """Encodes the texts of mteb's tasks. Similarity is the cosine; queries and documents are encoded alike."""

    def __init__(
        self,
        model_name: str | Path,
        revision: str | None = None,
        *,
        device: str | None = None,
        precision: Precision | None = None,
    ) -> None:
        """Loads an encoder, as `isotune.Encoder.load` does; `revision` replaces the fingerprint in results.

        Raises:
            InputError: the encoder can't be loaded.
        """
        self.model = Encoder.load(model_name, precision=precision, device=device)
        name = str(model_name)
        if (folder := Path(model_name)).exists():
            name = f"local/{folder.resolve().parent.name if folder.name == 'encoder' else folder.resolve().name}"
        self.mteb_model_meta = ModelMeta.create_empty(
            {
                "name": name,
                "revision": revision or self.model.fingerprint(),
                "max_tokens": self.model.max_length,
                "embed_dim": self.model.dimension,
                "similarity_fn_name": ScoringFunction.COSINE,
                "framework": ["PyTorch"],
            }
        )

    def encode(
        self,
        inputs: DataLoader[BatchedInput],
        *,
        task_metadata: TaskMetadata,
        hf_split: str,
        hf_subset: str,
        prompt_type: PromptType | None = None,
        **kwargs: Any,
    ) -> NDArray[np.float32]:
        """Encodes all texts of a loader at once, in batches of isotune's own: float32 [N, d]."""
        vectors: NDArray[np.float32] = self.model.encode([text for batch in inputs for text in batch["text"]])
        return vectors
