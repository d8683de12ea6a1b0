"""The bidirectional margin loss of SNCSE: a soft negative is less similar than the positive, but not much less.

Equation 2 of "Contrastive Learning for Sentence Embeddings in BERT and its Smaller Variants" (section 3, after Wang et
al., 2022). With D = cos(anchor, soft negative) - cos(anchor, positive), the loss is 0 while -beta <= D <= -alpha.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import cosine_similarity, relu

from isotune.losses.precision import in_float32


@in_float32
def bidirectional_margin(
    anchors: Tensor, positives: Tensor, soft_negatives: Tensor, alpha: float, beta: float
) -> Tensor:
    """The mean over rows of relu(D + alpha) + relu(-D - beta).

    Row i of `positives` and `soft_negatives` belongs to row i of `anchors`; all are [N, d]. The soft negative's cosine
    should be lower than the positive's by at least `alpha` and at most `beta`. If all vectors are equal: alpha.
    """
    difference = cosine_similarity(anchors, soft_negatives) - cosine_similarity(anchors, positives)  # [N]
    return (relu(difference + alpha) + relu(-difference - beta)).mean()
