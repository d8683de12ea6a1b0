"""Layers that methods put between the pooled vector and the loss; they start as BERT's own do."""

from __future__ import annotations

from torch import nn

from isotune.encoder.heads import Dense


def started_as_bert(linear: nn.Linear) -> nn.Linear:
    """The layer with weights from N(0, 0.02^2) and a bias of 0."""
    nn.init.normal_(linear.weight, std=0.02)
    nn.init.zeros_(linear.bias)
    return linear


def tanh_projection(dimension: int) -> Dense:
    """A linear layer with tanh, as SimCSE and its successors have it."""
    dense = Dense(dimension, dimension)
    started_as_bert(dense.linear)
    return dense
