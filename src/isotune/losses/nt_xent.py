"""NT-Xent, the normalised temperature-scaled cross entropy of two views.

ConSERT, section 3.1, equation 1 (after SimCLR): each of the 2N views has to find the other view of its sentence among
the other 2N - 1 views. So it has 2(N - 1) negatives, from both sides. The authors' code adds the means of the two
directions; the text averages over all 2N views, which is half of that. This is the text's.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from isotune.losses.precision import in_float32
from isotune.losses.similarities import contrastive_loss


@in_float32
def nt_xent(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    """The mean over all views of -log softmax of the similarity with the other view of the sentence.

    `first` and `second` are [N, d], two views of N sentences in the same order. The loss is log(2N - 1) if all vectors
    are equal.
    """
    views = normalize(torch.cat([first, second]), dim=-1)  # [2N, d]
    numbers = torch.arange(len(views), device=views.device)  # [2N]
    other_views = numbers.roll(len(first))  # [2N]
    return contrastive_loss(views, views, temperature, positive=other_views, itself=numbers)
