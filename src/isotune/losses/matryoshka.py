"""A loss at several widths of the vectors (Matryoshka, Kusupati et al., 2022)."""

from collections.abc import Callable, Sequence

from torch import Tensor
from torch.nn.functional import pad

Terms = dict[str, Tensor]
"""Weighted scalars, by name."""


def at_widths(
    loss: Callable[[Sequence[Tensor]], Terms], vectors: Sequence[Tensor], widths: Sequence[int]
) -> Terms:
    """The terms of a loss of the first features of the vectors [..., d], for each width.

    Their sum is that of Matryoshka Representation Learning, section 3, equation 1, where each width
    weighs 1, as in sentence-transformers' MatryoshkaLoss. The other features are 0, so a cosine is
    that of the cut vectors, and a layer of the loss has the same weights at each width (the paper's
    MRL-E).
    """
    terms: Terms = {}
    for width in widths:
        cut = [pad(each[..., :width], (0, each.shape[-1] - width)) for each in vectors]
        for name, term in loss(cut).items():
            terms[f"{name}_{width}"] = term
    return terms
