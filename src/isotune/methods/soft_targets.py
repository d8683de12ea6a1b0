"""Soft targets: what a view looks for, as the encoder before the stage saw it.

A contrastive loss takes all other sentences of the batch as negatives, although some may say the
same. With soft targets a view looks for the views of all sentences, each with the share that the
encoder before the stage gives it (`soft_info_nce`). So nearly equal sentences are hardly pushed
apart. That encoder is frozen: its vectors of the text are the batch's targets. SoftCLIP (Gao et
al., 2024) takes such shares from similarities within a side; in progressive self-distillation
(Andonian et al., 2022) a model makes them by itself.
"""

from copy import deepcopy

from torch import Tensor

from isotune.data.rows import Sentence
from isotune.encoder.encoder import Encoder
from isotune.losses import soft_info_nce
from isotune.methods.method import Batch, Method
from isotune.methods.options import SoftTargetOptions


class SoftTargetMethod(Method):
    """A method that compares two views of a sentence, also with soft targets."""

    rows = Sentence
    options: SoftTargetOptions
    fixed = "start"

    def __init__(self, options: SoftTargetOptions, encoder: Encoder) -> None:
        """Keeps a frozen copy of the encoder where the targets are soft."""
        super().__init__(options, encoder)
        self.start: Encoder | None = None
        if options.soft_targets is not None:
            self.start = deepcopy(encoder).requires_grad_(False)
            self.teachers = [self.start]
            self.needs_text = True
            # A text and its copy have the same shares.
            self.separates_copies = False

    def soft_loss(
        self, first: Tensor, second: Tensor, temperature: float, batch: Batch
    ) -> dict[str, Tensor]:
        """The loss of two views [N, d] with soft targets."""
        assert self.options.soft_targets is not None
        assert batch.targets is not None, "the start has encoded the rows"
        loss = soft_info_nce(first, second, temperature, batch.targets, self.options.soft_targets)
        return {"soft_info_nce": loss}
