"""Contrastive losses: each vector has to find its counterpart, or to rank others as a teacher does.

| loss | queries | candidates of a query |
|---|---|---|
| `nt_xent` | all 2N views | the other 2N - 1 views |
| `mirror_info_nce` | the N first views | all second views, and the other first views |
| `info_nce` | the N first views | all second views, and hard negatives |
| `soft_info_nce` | all 2N views | the N views of the other side, each with a share |
| `self_guided_opt3` | the N sentences | one of the sentence's views, and all views of the others |
| `ranking_divergence` | the N sentences | the N - 1 other sentences |

Similarity is the cosine, and `temperature` divides it. A loss is the mean over the queries, in
nats.
"""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div, log_softmax, logsigmoid, normalize, softmax

from isotune.losses.similarities import (
    contrastive_loss,
    in_float32,
    mean_over_queries,
    without_shared,
)


@in_float32
def nt_xent(
    first: Tensor, second: Tensor, temperature: float, groups: Tensor | None = None
) -> Tensor:
    """The mean over all views of -log softmax of the similarity with the sentence's other view.

    This is NT-Xent. `first` and `second` are [N, d], two views of N sentences in the same order.
    The loss is log(2N - 1) if all vectors are equal. ConSERT, section 3.1, equation 1 (after
    SimCLR), and L^base of the self-guided paper. ConSERT's code adds the means of the two
    directions; the text averages over all 2N views, which is half of that. This is the text's.
    Sentences that share one of their `groups`, [N, G] int64, are not compared: neither is a
    negative of the other.
    """
    views = normalize(torch.cat([first, second]), dim=-1)  # [2N, d]
    numbers = torch.arange(len(views), device=views.device)  # [2N]
    other_views = numbers.roll(len(first))  # [2N]
    if groups is not None:
        groups = torch.cat([groups, groups])  # [2N, G]
    return contrastive_loss(
        views, views, temperature, positive=other_views, itself=numbers, groups=groups
    )


@in_float32
def mirror_info_nce(clean: Tensor, masked: Tensor, temperature: float) -> Tensor:
    """The mean over clean views of -log softmax of the similarity with the sentence's masked view.

    One direction of `nt_xent`: masked views are never queries. `clean` and `masked` are [N, d], in
    the same order. The loss is log(2N - 1) if all vectors are equal. BERT-CF, section 4.1
    (L_mirror), and L^opt1 of the self-guided paper.
    """
    numbers = torch.arange(len(clean), device=clean.device)  # [N]
    queries = normalize(clean, dim=-1)  # [N, d]
    candidates = normalize(torch.cat([masked, clean]), dim=-1)  # [2N, d]
    return contrastive_loss(
        queries, candidates, temperature, positive=numbers, itself=len(clean) + numbers
    )


@in_float32
def info_nce(
    queries: Tensor,
    keys: Tensor,
    temperature: float,
    hard_negatives: Tensor | None = None,
    groups: Tensor | None = None,
) -> Tensor:
    """The mean over queries of -log softmax of the similarity with the query's key.

    Key i [N, d] and hard negative i [N, d] belong to query i [N, d]; every query has the hard
    negatives of all queries (SimCSE, equation 5). If all vectors are equal, the loss is log N, or
    log 2N with hard negatives. SimCSE, equation 1; small-BERT, equation 1; L^opt2 of the
    self-guided paper, whose code lacks a negative; E5, section 3.2. A key or hard negative that
    shares one of its `groups`, [N or 2N, G] int64, with the query's key is no negative.
    """
    candidates = keys  # [N, d]
    if hard_negatives is not None:
        candidates = torch.cat([keys, hard_negatives])  # [2N, d]

    def loss(logits: Tensor, numbers: Tensor) -> Tensor:  # [B, N or 2N], [B]
        if groups is not None:
            logits = without_shared(logits, groups, numbers, numbers)
        return cross_entropy(logits, numbers, reduction="sum")

    return mean_over_queries(
        loss, normalize(queries, dim=-1), normalize(candidates, dim=-1), temperature
    )


@in_float32
def soft_info_nce(
    first: Tensor,
    second: Tensor,
    temperature: float,
    references: Tensor,
    reference_temperature: float,
) -> Tensor:
    """The cross entropy of each view's similarities with all views of the other side.

    A view looks for the views of all sentences, each with a share. `first` and `second` [N, d] are
    two views of N sentences, and `references` [N, e] other vectors of them, in the same order. The
    shares of a sentence are the softmax of the cosines of its reference with all N references, its
    own included, over the `reference_temperature`. They get no gradient. The loss is the mean over
    both directions, and log N if all vectors are equal. At a low `reference_temperature`
    each view looks for its counterpart alone, which is `info_nce` in both directions. The shares
    from similarities within a side are SoftCLIP's (Gao et al., 2024), without the parts of its
    loss that leave the positive out; a model's own shares of a batch are the targets of Andonian et
    al. (2022).
    """
    unit_references = normalize(references, dim=-1)  # [N, e]

    def loss(logits: Tensor, numbers: Tensor) -> Tensor:  # [B, N], [B]
        cosines = unit_references[numbers] @ unit_references.T  # [B, N]
        shares = softmax(cosines / reference_temperature, dim=1)  # [B, N]
        return cross_entropy(logits, shares, reduction="sum")

    ones = normalize(first, dim=-1)  # [N, d]
    others = normalize(second, dim=-1)  # [N, d]
    forth = mean_over_queries(loss, ones, others, temperature)
    back = mean_over_queries(loss, others, ones, temperature)
    return (forth + back) / 2


@in_float32
def self_guided_opt3(sentences: Tensor, views: Tensor, temperature: float) -> Tensor:
    """-log of the share of each of a sentence's views against all views of the other sentences.

    This is SG-OPT. `sentences` [N, d] are the vectors that are tuned, and `views` [N, L, d] those
    of every layer of a fixed model, in the same order. The loss is the mean over sentences and
    layers; log(1 + (N - 1) L) if all vectors are equal. L^opt3 of the self-guided paper, section
    3.2.
    """
    layers = views.shape[1]

    def loss(logits: Tensor, numbers: Tensor) -> Tensor:  # [B, N L], [B]
        places = layers * numbers[:, None] + torch.arange(layers, device=numbers.device)  # [B, L]
        positives = logits.gather(1, places)  # [B, L]
        negatives = logits.scatter(1, places, -torch.inf).logsumexp(1, keepdim=True)  # [B, 1]
        # log(e^p / (e^p + e^n)) is the log-sigmoid of p - n.
        return -logsigmoid(positives - negatives).sum() / layers

    c = normalize(sentences, dim=-1)  # [N, d]
    h = normalize(views, dim=-1)  # [N, L, d]
    return mean_over_queries(loss, c, h.flatten(0, 1), temperature)


@in_float32
def ranking_divergence(students: Tensor, teachers: Tensor, temperature: float) -> Tensor:
    """The mean over sentences of KL(teacher, student) of their similarities.

    `students` [N, d] and `teachers` [N, e] are vectors of the same N sentences, and only the
    student gets a gradient. A sentence's distribution is the softmax of its similarities with the N
    - 1 others. The loss is 0 if both have the same similarities. DistillCSE's distillation (Xu et
    al., 2023), and RankCSE's ListNet (Liu et al., 2023), whose two temperatures differ; both have
    the sentence itself among the others, by a second view.
    """
    theirs = normalize(teachers, dim=-1)  # [N, e]

    def loss(logits: Tensor, numbers: Tensor) -> Tensor:  # [B, N], [B]
        itself = numbers[:, None]  # [B, 1]
        taught = theirs[numbers] @ theirs.T / temperature  # [B, N]
        return kl_div(
            _among_others(logits, itself),
            _among_others(taught, itself),
            reduction="sum",
            log_target=True,
        )

    own = normalize(students, dim=-1)  # [N, d]
    return mean_over_queries(loss, own, own, temperature)


def _among_others(logits: Tensor, itself: Tensor) -> Tensor:
    """The log softmax of logits [B, N] among the others.

    At `itself` [B, 1] it is 0, which adds nothing.
    """
    others = logits.scatter(1, itself, -torch.inf)  # [B, N]
    return log_softmax(others, 1).scatter(1, itself, 0.0)
