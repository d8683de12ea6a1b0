"""The collapse monitor: is the space of sentence vectors closing up while it trains?

A fixed probe of training sentences is encoded at every evaluation. Contrastive learning should spread the vectors:
their mean cosine falls and their effective rank rises. The opposite is a collapse, which the loss alone can hide.
"""

from __future__ import annotations

import torch

from isotune.data.packed import Packed
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.evaluation.geometry import effective_rank, mean_cosine

PROBE_SENTENCES = 256


class CollapseMonitor:
    """Measures the probe, and compares with the start.

    A measurement is {"mean_cosine": between different sentences, 1 is a point; "effective_rank": directions in use}.

    Attributes:
        start: the first measurement.
    """

    def __init__(self, probe: Packed, start: dict[str, float] | None = None) -> None:
        self.probe = probe
        self.start = start

    @torch.no_grad()
    def measure(self, encoder: Encoder) -> dict[str, float]:
        """The probe's space now.

        Raises:
            InputError: the vectors aren't finite.
        """
        encoder.eval()
        vectors = encoder(self.probe.to(encoder.device))
        if not torch.isfinite(vectors).all():
            raise InputError("the encoder gives vectors with NaN or infinite values")
        space = {"mean_cosine": mean_cosine(vectors), "effective_rank": effective_rank(vectors)}
        self.start = self.start or space
        return space

    def warning(self, space: dict[str, float]) -> str | None:
        """What to tell the user, if the space has closed up since the start."""
        cosine, rank = space["mean_cosine"], space["effective_rank"]
        start = self.start or space
        if rank < start["effective_rank"] / 2:
            sign = f"effective rank fell from {start['effective_rank']:.1f} to {rank:.1f}"
        elif cosine > max(0.95, start["mean_cosine"] + 0.01):
            sign = f"mean cosine rose from {start['mean_cosine']:.2f} to {cosine:.2f}"
        else:
            return None
        return f"the space is collapsing: the {sign} on {len(self.probe)} sentences; try a lower learning_rate"
