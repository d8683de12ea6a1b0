"""The monitor tells whether the space of the sentence vectors collapses.

Contrastive learning should spread the vectors: their mean cosine falls and their effective rank rises. The opposite is
a collapse, which the loss alone can hide. A fixed sample of training sentences is encoded at every evaluation.
"""

import numpy as np
import torch

from isotune.data.packed import Packed
from isotune.data.tokens import TokenStore
from isotune.encoder.encoder import Encoder
from isotune.errors import UselessVectors
from isotune.evaluation.geometry import effective_rank, mean_cosine

SAMPLE = 256  # sentences


class Monitor:
    """Measures the vectors of a sample, and compares two measurements."""

    def __init__(self, store: TokenStore) -> None:
        """Samples the first texts of rows at equal distances, since the first rows may all be from one place."""
        places = np.linspace(0, len(store) - 1, min(SAMPLE, len(store))).astype(np.int64)
        self.sentences: Packed = store.pack_sequences(places * store.columns)

    @torch.no_grad()
    def measure(self, encoder: Encoder) -> dict[str, float]:
        """Measures mean_cosine between different sentences (1 is a point), and effective_rank, directions in use."""
        encoder.eval()
        parts = self.sentences.cut(len(encoder.batches(self.sentences.lengths.numpy())))
        vectors = torch.cat([encoder(part.to(encoder.device)) for part in parts if len(part)]).cpu()  # [N, d]
        if not vectors.isfinite().all():
            raise UselessVectors("the encoder gives vectors with NaN or infinite values")
        return {"mean_cosine": mean_cosine(vectors), "effective_rank": effective_rank(vectors)}

    def warning(self, space: dict[str, float], start: dict[str, float]) -> str | None:
        """What to tell the user, if the space has closed up since the measurement at the start."""
        cosine, rank = space["mean_cosine"], space["effective_rank"]
        if rank < start["effective_rank"] / 2:
            sign = f"effective rank fell from {start['effective_rank']:.1f} to {rank:.1f}"
        elif cosine > max(0.95, start["mean_cosine"] + 0.01):
            sign = f"mean cosine rose from {start['mean_cosine']:.2f} to {cosine:.2f}"
        else:
            return None
        return f"the space is collapsing: the {sign} on {len(self.sentences)} sentences; try a lower learning_rate"
