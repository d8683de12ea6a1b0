"""The layer between the pooled vector and the loss that SimCSE and its successors train."""

from __future__ import annotations

from torch import nn

from isotune.encoder.heads import Dense


def tanh_projection(dimension: int) -> Dense:
    """A linear layer with tanh, which starts as BERT's own layers do."""
    dense = Dense(dimension, dimension)
    nn.init.normal_(dense.linear.weight, std=0.02)
    nn.init.zeros_(dense.linear.bias)
    return dense
