"""NT-Xent, the normalised temperature-scaled cross entropy of two views.

ConSERT, section 3.1, equation 1 (after SimCLR): each of the 2N views has to find its counterpart among the other
2N - 1, so it has 2(N - 1) negatives, from its own side as well as from the other. The authors' code adds the means of
the two directions where the text averages over all 2N; here as in the text, which is half of it.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from isotune.losses.precision import in_float32
from isotune.losses.similarities import mean_over_queries


@in_float32
def nt_xent(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    """The mean over both views of -log softmax of the counterpart's similarity.

    Args:
        first: [N, d], one view of N sentences.
        second: [N, d], the other view, in the same order.
        temperature: divides the similarities.

    Returns:
        A scalar. log(2N - 1) if all vectors are the same.
    """
    n = len(first)

    def loss(logits: Tensor, own: Tensor) -> Tensor:  # [B, 2N], [B]
        without_itself = logits.scatter(1, own[:, None], -torch.inf)
        return cross_entropy(without_itself, (own + n) % (2 * n), reduction="sum")

    views = normalize(torch.cat([first, second]), dim=-1)  # [2N, d]
    return mean_over_queries(loss, views, views, temperature)
