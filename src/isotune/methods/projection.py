"""Layers between the pooled vector and the loss, initialised as BERT initialises its layers."""

from torch import nn

from isotune.encoder.heads import Dense


def started_as_bert(linear: nn.Linear) -> nn.Linear:
    """Sets the layer's weights from N(0, 0.02^2) and its bias to 0, and returns the layer."""
    nn.init.normal_(linear.weight, std=0.02)
    nn.init.zeros_(linear.bias)
    return linear


def tanh_projection(dimension: int) -> Dense:
    """A linear layer with tanh, as in SimCSE and SNCSE: [N, dimension] -> [N, dimension]."""
    dense = Dense(dimension, dimension)
    started_as_bert(dense.linear)
    return dense
