"""Self-guided contrastive learning, SG and SG-OPT (Kim et al., 2021, section 3).

The model is cloned before the first step (Figure 2). The pooled states of every layer of the fixed
copy are views of a sentence, which one of four objectives compares with the tuned copy's sentence
vector. base, opt1 and opt2 draw one layer for each sentence in each step; opt3 uses all layers. The
embedding layer of the tuned copy isn't trained, and the squared distance of all other weights from
the fixed copy's is part of the loss.
"""

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import mse_loss

from isotune.data.packed import to_device
from isotune.data.rows import Row, Sentence
from isotune.encoder.encoder import Encoder
from isotune.encoder.pooling import Pooling
from isotune.errors import InputError
from isotune.losses import info_nce, mirror_info_nce, nt_xent, self_guided_opt3
from isotune.methods.method import Batch, Method, View
from isotune.methods.options import Objective, SelfGuidedOptions, TetheredOptions
from isotune.methods.projection import started_as_bert

PROJECTION_WIDTH = 4096
"""Features of the projection's layers. Section 3.1, footnote 4."""

OBJECTIVES: Mapping[Objective, Callable[[Tensor, Tensor, float], Tensor]] = {
    "base": nt_xent,
    "opt1": mirror_info_nce,
    "opt2": info_nce,
    "opt3": self_guided_opt3,
}


class Tethered(Method):
    """A model tied to its fixed copy by a penalty, and a projection whose outputs are compared."""

    options: TetheredOptions
    fixed = "frozen"

    def __init__(self, options: TetheredOptions, encoder: Encoder) -> None:
        super().__init__(options, encoder)
        self.frozen = copy.deepcopy(encoder.backbone).requires_grad_(False)
        self.projection: nn.Module = nn.Identity()
        if options.projection:
            # F of section 3.1: two linear layers, each followed by GELU.
            first = nn.Linear(encoder.dimension, PROJECTION_WIDTH)
            second = nn.Linear(PROJECTION_WIDTH, PROJECTION_WIDTH)
            self.projection = nn.Sequential(
                started_as_bert(first), nn.GELU(), started_as_bert(second), nn.GELU()
            )

    def trained(self, encoder: Encoder) -> Iterable[nn.Parameter]:
        """All parameters but those of the embedding layer ("layer 0", section 3.1 and Figure 2)."""
        embeddings = {*encoder.backbone.embeddings.parameters()}
        return [parameter for parameter in encoder.parameters() if parameter not in embeddings]

    def penalty(self, encoder: Encoder) -> dict[str, Tensor]:
        """The weighted L^reg: the squared L2 norm of all weight differences.

        It is a sum and not a mean (footnote 5).
        """
        if not self.options.regularizer:
            return {}
        distances = []
        weights = zip(encoder.backbone.parameters(), self.frozen.parameters(), strict=True)
        for tuned, fixed in weights:
            # Weights that aren't trained differ by 0.
            if tuned.requires_grad:
                # A square would store the difference for the backward pass; mse_loss does not.
                distances.append(mse_loss(tuned, fixed, reduction="sum"))
        return {"regularizer": self.options.regularizer * torch.stack(distances).sum()}


class SelfGuided(Tethered):
    """The tuned copy's sentence vectors, compared with every layer of the fixed copy."""

    rows: type[Row] = Sentence
    options: SelfGuidedOptions

    def __init__(self, options: SelfGuidedOptions, encoder: Encoder) -> None:
        """Clones the encoder's model."""
        super().__init__(options, encoder)
        width = encoder.backbone.dimension
        if encoder.dimension != width:
            raise InputError(
                f"self-guided: the encoder's vectors have {encoder.dimension} features and its "
                f"layers {width}; only equal numbers can be compared: start from a model without a "
                "head that changes the number"
            )
        blocks = encoder.backbone.layers
        chosen = options.view_layers or tuple(range(blocks + 1))
        layers = Pooling(layers=chosen).resolve(blocks)
        encoder.backbone.check_layers(layers)
        self.of_layers = Pooling(options.view_pooling, tuple(layers), each=True)

    def views(self, batch: Batch) -> Sequence[View]:
        """The first text of each row in the tuned copy, and the last text in the fixed copy."""
        self.frozen.train(self.options.frozen_dropout)
        tuned, fixed = self.augmentations
        sentence = View(batch.texts[0], tuned)
        layers = View(batch.texts[-1], fixed, self.of_layers, self.frozen)
        return sentence, layers

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """The objective, on projected vectors."""
        c, h = encoded  # [N, d], [N, layers, d]
        objective = self.options.objective
        if objective != "opt3":
            h = _drawn_layer(h, batch.generator)  # [N, d]
        compare = OBJECTIVES[objective]
        loss = compare(self.projection(c), self.projection(h), self.options.temperature)
        return {objective: loss}


def _drawn_layer(layers: Tensor, generator: Generator) -> Tensor:
    """One layer of each sentence, by the sampler sigma: [N, layers, d] -> [N, d]."""
    numbers = torch.randint(layers.shape[1], (len(layers),), generator=generator)
    sentences = torch.arange(len(layers), device=layers.device)
    return layers[sentences, to_device(numbers, layers.device)]
