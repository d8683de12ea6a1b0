"""The negative log-likelihood of a normalising flow (BERT-flow; BERT-CF's L_flow, section 4.2).

The prior is the standard normal distribution. The unit is bits for each feature, as in Glow's and BERT-flow's code;
BERT-CF's formula has nats for all features together. The unit makes no difference to a flow alone, but beside another
loss it does: nats of 768 features would leave the other loss without effect.
"""

from __future__ import annotations

import math

from torch import Tensor

from isotune.losses.precision import in_float32


@in_float32
def bits_per_dimension(z: Tensor, log_determinant: Tensor) -> Tensor:
    """The mean over vectors of -(log N(z; 0, I) + log |det dz/dx|) / (d log 2).

    `z` [N, d] is the flow's output for the vectors x; `log_determinant` is log |det dz/dx|, [N], or a scalar if it is
    the same for all vectors. The loss can be negative, because a density can be greater than 1.
    """
    log_prior = -0.5 * (z.square() + math.log(2 * math.pi)).sum(1)  # [N]
    return -(log_prior + log_determinant).mean() / (z.shape[1] * math.log(2))
