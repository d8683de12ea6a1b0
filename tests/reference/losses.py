"""The losses, sum by sum as the papers write them."""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

Vectors = Sequence[Tensor] | Tensor


def sim(a: Tensor, b: Tensor) -> Tensor:
    """Cosine similarity of two vectors."""
    return (a * b).sum() / (a.square().sum().sqrt() * b.square().sum().sqrt())


def share(
    query: Tensor, positive: Tensor, negatives: Iterable[Tensor], temperature: float
) -> Tensor:
    """-log of the positive's share among the positive and the negatives."""
    of_positive = torch.exp(sim(query, positive) / temperature)
    of_all = of_positive + sum(
        torch.exp(sim(query, negative) / temperature) for negative in negatives
    )
    return -torch.log(of_positive / of_all)


def mean(terms: Iterable[Tensor]) -> Tensor:
    listed = list(terms)
    return torch.stack(listed).sum() / len(listed)


def matryoshka(
    loss: Callable[..., Tensor], vectors: Sequence[Tensor], widths: Sequence[int]
) -> Tensor:
    """Kusupati et al. (2022), section 3, equation 1, where each width weighs 1."""
    total = torch.zeros((), dtype=vectors[0].dtype)
    for width in widths:
        total = total + loss(*(each[:, :width] for each in vectors))
    return total


def nt_xent(first: Vectors, second: Vectors, temperature: float) -> Tensor:
    """ConSERT, equation 1, averaged over all 2N; the self-guided paper's L^base."""
    r, n = [*first, *second], len(first)
    others = [(i + n) % (2 * n) for i in range(2 * n)]
    return mean(
        share(r[i], r[j], [r[k] for k in range(2 * n) if k not in (i, j)], temperature)
        for i, j in enumerate(others)
    )


def nt_xent_of_groups(
    first: Vectors, second: Vectors, groups: Sequence[set[int]], temperature: float
) -> Tensor:
    """NT-Xent, where rows with a group in common are no negatives of each other."""
    n, candidates = len(first), [*first, *second]
    of = [*groups, *groups]
    return mean(
        share(
            candidates[i],
            candidates[(i + n) % (2 * n)],
            [c for c, own in zip(candidates, of, strict=True) if not own & of[i]],
            temperature,
        )
        for i in range(2 * n)
    )


def mirror_info_nce(clean: Vectors, masked: Vectors, temperature: float) -> Tensor:
    """L_mirror (BERT-CF, section 4.1), and L^opt1 of the self-guided paper.

    N(x_i) is f'(x'_i) and, for all j != i, f'(x'_j) and f(x_j).
    """
    b = range(len(clean))
    return mean(
        share(
            clean[i],
            masked[i],
            [side[j] for j in b if j != i for side in (masked, clean)],
            temperature,
        )
        for i in b
    )


def info_nce(
    queries: Vectors, keys: Vectors, temperature: float, negatives: Vectors = ()
) -> Tensor:
    """SimCSE, equation 1, averaged over the batch, or equation 5, with hard negatives.

    Equation 1 is also L^opt2 of the self-guided paper.
    """
    n = range(len(queries))
    return mean(
        share(queries[i], keys[i], [keys[j] for j in n if j != i] + [*negatives], temperature)
        for i in n
    )


def info_nce_of_groups(
    queries: Vectors,
    keys: Vectors,
    groups: Sequence[set[int]],
    temperature: float,
    negatives: Vectors,
) -> Tensor:
    """InfoNCE (E5, section 3.2).

    Keys and negatives with a group of the query's row are none of its negatives.
    """
    candidates = list(zip([*keys, *negatives], groups, strict=True))
    return mean(
        share(query, key, [c for c, own in candidates if not own & of_row], temperature)
        for query, key, of_row in zip(queries, keys, groups, strict=False)
    )


def self_guided_opt3(c: Tensor, h: Tensor, temperature: float) -> Tensor:
    """The self-guided paper's L^opt3. h: [b, l + 1, d]."""
    b = range(len(c))
    return mean(
        share(c[i], view, [v for m in b if m != i for v in h[m]], temperature)
        for i in b
        for view in h[i]
    )


def regularizer(tuned: list[Tensor], fixed: list[Tensor]) -> Tensor:
    """The self-guided paper's L^reg: the squared L2 distance of all weights from their start."""
    total = torch.zeros((), dtype=torch.float64)
    for weight, start in zip(tuned, fixed, strict=True):
        total = total + ((weight.double() - start.double()) ** 2).sum()
    return total


def bidirectional_margin(
    anchors: Vectors, positives: Vectors, negatives: Vectors, alpha: float, beta: float
) -> Tensor:
    """SNCSE's margin loss: small-BERT paper, equation 2, averaged over the batch."""
    total = torch.zeros((), dtype=torch.float64)
    for anchor, positive, negative in zip(anchors, positives, negatives, strict=True):
        delta = sim(anchor, negative) - sim(anchor, positive)
        if delta + alpha > 0:
            total = total + (delta + alpha)
        if -delta - beta > 0:
            total = total + (-delta - beta)
    return total / len(anchors)


def sup_con(vectors: Vectors, labels: Sequence[int], temperature: float) -> Tensor:
    """Khosla et al., equation 2, of the texts that have another of their class."""
    terms = []
    for i, label in enumerate(labels):
        others = [j for j in range(len(labels)) if j != i]
        positives = [j for j in others if labels[j] == label]
        term = torch.zeros((), dtype=torch.float64)
        for p in positives:
            negatives = [vectors[j] for j in others if j != p]
            term = term + share(vectors[i], vectors[p], negatives, temperature) / len(positives)
        terms.append(term)
    return mean(terms)


def ranking_divergence(students: Vectors, teachers: Vectors, temperature: float) -> Tensor:
    """DistillCSE's and RankCSE's distillation.

    It is the sum over j != i of p_j log(p_j / q_j), averaged over i.
    """

    def shares(vectors: Vectors, i: int) -> list[Tensor]:
        weights = [
            torch.exp(sim(vectors[i], vectors[j]) / temperature)
            for j in range(len(vectors))
            if j != i
        ]
        return [weight / torch.stack(weights).sum() for weight in weights]

    def divergence(i: int) -> Tensor:
        pairs = zip(shares(teachers, i), shares(students, i), strict=True)
        return torch.stack([p * torch.log(p / q) for p, q in pairs]).sum()

    return mean(divergence(i) for i in range(len(students)))


def cosine_distance(first: Vectors, second: Vectors) -> Tensor:
    """Half the squared distance of two vectors of length 1, averaged."""

    def unit(v: Tensor) -> Tensor:
        return v / v.square().sum().sqrt()

    pairs = zip(first, second, strict=True)
    return mean((unit(a) - unit(b)).square().sum() / 2 for a, b in pairs)


def soft_info_nce(
    first: Vectors,
    second: Vectors,
    temperature: float,
    references: Vectors,
    reference_temperature: float,
) -> Tensor:
    """The cross entropy -sum over j of p_ij log q_ij, averaged over i and over both directions.

    p_i is made of the references, and q_i of a view's similarities with the other side's.
    """
    n = range(len(first))

    def softmax(weights: list[Tensor]) -> list[Tensor]:
        return [weight / torch.stack(weights).sum() for weight in weights]

    def shares(i: int) -> list[Tensor]:
        return softmax(
            [torch.exp(sim(references[i], references[j]) / reference_temperature) for j in n]
        )

    def direction(queries: Vectors, keys: Vectors, i: int) -> Tensor:
        found = softmax([torch.exp(sim(queries[i], keys[j]) / temperature) for j in n])
        return -torch.stack([p * torch.log(q) for p, q in zip(shares(i), found, strict=True)]).sum()

    return mean(
        direction(queries, keys, i)
        for queries, keys in ((first, second), (second, first))
        for i in n
    )
