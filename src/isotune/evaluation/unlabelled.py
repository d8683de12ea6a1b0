"""How good an encoder is, as far as sentences without labels can tell.

A criterion compares the vectors [N, d] of N sentences with those of N others, one for each, that should be near it: a
view of it, or its neighbour by words. Higher is better. They are for evaluations of one training, to choose its step,
on the same sentences each time. `training/monitor.py` makes the sentences, `studies/selection.py` measures how well
they choose.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import normalize

from isotune.evaluation.geometry import alignment, uniformity

CHOOSES = "neighbour_rank"
"""The criterion that chooses: in first runs it lost the fewest points against choosing by scored pairs."""


def measure_unlabelled(vectors: Tensor, views: Tensor, neighbours: Tensor) -> dict[str, float]:
    """All criteria, by the names they are recorded under."""
    return {
        "alignment_uniformity": alignment_uniformity(vectors, views),
        "view_retrieval": view_retrieval(vectors, views),
        "neighbour_rank": neighbour_rank(vectors, neighbours),
    }


def alignment_uniformity(vectors: Tensor, views: Tensor) -> float:
    """Minus the sum of alignment with the views and uniformity: what says the same is near, and all else spread out.

    Wang and Isola (2020), section 5: what a contrastive loss comes to with many negatives. So it goes on rising where
    contrastive training goes too far, and it can't tell a meaning from noise that both views share.
    """
    return -alignment(vectors, views) - uniformity(vectors)


def view_retrieval(vectors: Tensor, views: Tensor) -> float:
    """The mean reciprocal rank of a sentence's own view among all views.

    Only what is nearest counts, so it says nothing of how similarities rank further off, and it has little left to
    tell once nearly all views are found, which many encoders do before any training.
    """
    return float((1 / _ranks(vectors, views)).mean())


def neighbour_rank(vectors: Tensor, neighbours: Tensor) -> float:
    """Minus the mean log of the rank of a sentence's own neighbour among all neighbours, and the other way round.

    Sentences that share rare words are mostly about the same thing, and no training pulls just these together. It is
    blind to what words don't show, it prefers an encoder that goes by words alone, and it is weak for text where the
    nearest sentence by words is about something else. The log makes the step from rank 1 to 2 as large as that from 50
    to 100: a reciprocal rank looks at the first few only, a mean rank at the worst.
    """
    both = _ranks(vectors, neighbours).log().mean() + _ranks(neighbours, vectors).log().mean()
    return -float(both) / 2


def _ranks(vectors: Tensor, others: Tensor) -> Tensor:
    """[N], from 1: the place of a vector's own other among all others by cosine, after those that are as near."""
    cosines = normalize(vectors, dim=-1) @ normalize(others, dim=-1).T  # [N, N]
    return (cosines >= cosines.diagonal()[:, None]).sum(1).double()
