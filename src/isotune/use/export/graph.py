"""An encoder as a graph on padded batches, for runtimes that don't know isotune.

The graph is the whole path from token ids to sentence vectors: model, pooling and heads. The model has transformers'
own attention with a mask. The vectors equal those of `Encoder.encode` up to rounding, whatever ids the padding has.
"""

from functools import reduce
from operator import add

import torch
from torch import Tensor, nn

from isotune.encoder.encoder import Encoder
from isotune.encoder.format.modules import FLAGS
from isotune.encoder.pooling import LEAST_WEIGHT
from isotune.errors import InputError


class PaddedEncoder(nn.Module):
    """Token ids and their mask, int64 [N, L] each, padded on the right -> sentence vectors [N, d], float32."""

    def __init__(self, encoder: Encoder) -> None:
        """Takes over the parts of an encoder. The encoder's model gets transformers' attention, for good."""
        super().__init__()
        if encoder.pooling.mode not in FLAGS:  # in ONNX there are no QR decompositions, which wk needs
            raise InputError(f"pooling {encoder.pooling.mode}: not made for ONNX; export one of {', '.join(FLAGS)}")
        backbone = encoder.backbone
        backbone.pad()
        self.backbone, self.heads = backbone, encoder.heads
        self.pooling, self.layers = encoder.pooling, encoder.pooling.resolve(backbone.layers)
        self.token_weights: Tensor | None
        self.register_buffer("token_weights", encoder.token_weights)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Encodes a padded batch."""
        first = self.backbone.first_position
        positions = (torch.arange(input_ids.shape[1], device=input_ids.device) + first).expand_as(input_ids)  # [N, L]
        if first:  # see `Backbone._positions`
            counted = (input_ids != first - 1).long()
            positions = counted.cumsum(1) * counted + first - 1
        inputs = {"input_ids": input_ids, "attention_mask": attention_mask, "position_ids": positions}
        states = self.backbone.run_model(inputs, self.layers)
        average = reduce(add, (share * states[layer] for layer, share in self.layers.items()))  # [N, L, d]
        return self.heads(self._pool(average, input_ids, attention_mask))

    def _pool(self, states: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        """Pools the averaged hidden states [N, L, d] of a padded batch to [N, d]: `Pooling` without packing."""
        pooling = self.pooling
        match pooling.mode:
            case "cls":
                return states[:, 0]
            case "max":
                return states.masked_fill(mask[:, :, None] == 0, -torch.inf).amax(1)
            case "mask":
                masks = (ids == pooling.mask_id) * mask  # [N, L]
                before = masks.cumsum(1)  # [N, L]
                weights = masks * (before == (1 if pooling.mask_first else before[:, -1:]))
            case "weightedmean":
                weights = mask.cumsum(1) * mask
            case _:  # the mean: `__init__` refuses what is not in `FLAGS`
                weights = mask if self.token_weights is None else self.token_weights[ids] * mask
        weights = weights[:, :, None].to(states.dtype)  # [N, L, 1]
        return (states * weights).sum(1) / weights.sum(1).clamp(min=LEAST_WEIGHT)
