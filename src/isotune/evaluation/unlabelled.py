"""Criteria that tell a better step of training from a worse one by sentences without labels.

A criterion takes the vectors [N, d] of N sentences, and the vectors of N partners that should lie near them: a view of
each sentence, or its neighbour by words. Higher is better. Criteria compare the steps of one training on the same
sentences. `training/monitor.py` makes the partners; `lab/studies/step_criteria.py` measures how well criteria choose.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import normalize

from isotune.evaluation.geometry import alignment, uniformity

SELECTION_CRITERION = "neighbour_rank"
"""The criterion that chooses the best step: in first runs it lost the fewest points against scored pairs."""


def measure_unlabelled(vectors: Tensor, views: Tensor, neighbours: Tensor) -> dict[str, float]:
    """Compute all criteria, under the names by which metrics.jsonl records them."""
    return {
        "alignment_uniformity": alignment_uniformity(vectors, views),
        "view_retrieval": view_retrieval(vectors, views),
        "neighbour_rank": neighbour_rank(vectors, neighbours),
    }


def alignment_uniformity(vectors: Tensor, views: Tensor) -> float:
    """Return minus the sum of alignment with the views and uniformity: views are near, all other vectors spread out.

    Wang and Isola (2020), section 5: with many negatives, a contrastive loss tends to this sum. So the criterion keeps
    rising when contrastive training goes too far, and it cannot tell meaning from noise that both views share.
    """
    return -alignment(vectors, views) - uniformity(vectors)


def view_retrieval(vectors: Tensor, views: Tensor) -> float:
    """Return the mean reciprocal rank of each sentence's view among all views.

    Only the nearest views count, so the criterion says nothing of how similarities rank further off. It has little left
    to tell once nearly all views are retrieved, which many encoders do before any training.
    """
    return float((1 / _ranks(vectors, views)).mean())


def neighbour_rank(vectors: Tensor, neighbours: Tensor) -> float:
    """Return minus the mean log rank of each sentence's neighbour among all neighbours, and of the sentence among all.

    Sentences that share rare words are mostly about the same thing, and no training pulls just these together. The
    criterion is blind to what words do not show and prefers an encoder that goes by words alone. It is weak for text
    where the nearest sentence by words is about something else. The log makes the step from rank 1 to 2 as large as
    that from 50 to 100: a reciprocal rank would look at the first few ranks only, a mean rank at the worst ones.
    """
    both = _ranks(vectors, neighbours).log().mean() + _ranks(neighbours, vectors).log().mean()
    return -float(both) / 2


def _ranks(vectors: Tensor, partners: Tensor) -> Tensor:
    """Return the rank, from 1, of each vector's partner among all partners by cosine, [N]; ties count as nearer."""
    cosines = normalize(vectors, dim=-1) @ normalize(partners, dim=-1).T  # [N, N]
    return (cosines >= cosines.diagonal()[:, None]).sum(1).double()
