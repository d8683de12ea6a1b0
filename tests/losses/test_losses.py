"""Every loss: value and gradient against its transcription, in float32 and under autocast."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, linear, mse_loss

from isotune.losses import (
    at_widths,
    bidirectional_margin,
    cosent,
    cosine_distance,
    cosine_embedding,
    hinged_cosine,
    info_nce,
    mirror_info_nce,
    nt_xent,
    pair_features,
    ranking_divergence,
    self_guided_opt3,
    soft_info_nce,
    sup_con,
)
from tests.reference import losses, supervised

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]
LABELS = [0, 1, 2, 1, 0, 2, 1]
ALIKE = torch.tensor([True, False, True, True, False, False, True])
SIGNS = [1 if alike else -1 for alike in ALIKE]
SCORES = [0.0, 5.0, 2.5, 4.0, 1.0, 3.2, 0.4]
TEMPERATURES = (0.01, 0.05, 1.0)
BIAS = torch.tensor([0.1, -0.2, 0.3], dtype=torch.float64)


def pair_cross_entropy(max_square: bool) -> tuple[Loss, Loss]:
    weight = torch.randn(
        3, 20 if max_square else 15, dtype=torch.float64, generator=torch.Generator().manual_seed(3)
    )

    def loss(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        logits = linear(pair_features(a, b, max_square), weight.to(a.dtype), BIAS.to(a.dtype))
        return cross_entropy(logits, torch.tensor(LABELS))

    return loss, lambda a, b, c: supervised.pair_cross_entropy(
        a, b, weight, BIAS, LABELS, max_square
    )


def of_two(
    loss: Callable[..., Tensor], transcription: Callable[..., Tensor], *options: Any
) -> tuple[Loss, Loss]:
    return lambda a, b, c: loss(a, b, *options), lambda a, b, c: transcription(a, b, *options)


def of_three(
    loss: Callable[..., Tensor], transcription: Callable[..., Tensor], *options: Any
) -> tuple[Loss, Loss]:
    return lambda a, b, c: loss(a, b, c, *options), lambda a, b, c: transcription(a, b, c, *options)


def opt3(temperature: float) -> tuple[Loss, Loss]:
    """With the two others as the views of two layers."""
    return (
        lambda a, b, c: self_guided_opt3(a, torch.stack([b, c], 1), temperature),
        lambda a, b, c: losses.self_guided_opt3(a, torch.stack([b, c], 1), temperature),
    )


def paraphrase(hinge: float) -> tuple[Loss, Loss]:
    return (
        lambda a, b, c: cosine_embedding(hinged_cosine(a, b, hinge), ALIKE, hinge),
        lambda a, b, c: supervised.paraphrase(a, b, SIGNS, hinge),
    )


def similarity(hinge: float) -> tuple[Loss, Loss]:
    def loss(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return mse_loss(
            hinged_cosine(a, b, hinge),
            hinge + (1 - hinge) * torch.tensor(SCORES, dtype=a.dtype) / 5,
        )

    return loss, lambda a, b, c: supervised.similarity(a, b, SCORES, hinge)


def without_false_negatives(temperature: float) -> tuple[Loss, Loss]:
    groups = torch.tensor([[0, 1], [2, 3], [1, 4], [5, 6], [5, 7], [8, 9], [10, 11]])
    return (
        lambda a, b, c: nt_xent(a, b, temperature, groups),
        lambda a, b, c: losses.nt_xent_of_groups(
            a, b, [set(row) for row in groups.tolist()], temperature
        ),
    )


def with_hard_negatives(temperature: float) -> tuple[Loss, Loss]:
    """The second row's negative is the first row's second text."""
    groups = torch.tensor(
        [[2 * row, 2 * row + 1] for row in range(7)] + [[20 + row] * 2 for row in range(7)]
    )
    groups[8] = 1
    return (
        lambda a, b, c: info_nce(a, b, temperature, c, groups),
        lambda a, b, c: losses.info_nce_of_groups(
            a, b, [set(row) for row in groups.tolist()], temperature, c
        ),
    )


def ranked_by_a_teacher(
    temperature: float, divergence: Callable[[Tensor, Tensor, float], Tensor]
) -> Loss:
    """The teacher's vectors have another number of features, and get no gradient."""
    return lambda a, b, c: divergence(torch.cat([a, b], 1), c.detach(), temperature)


def of_classes(temperature: float) -> tuple[Loss, Loss]:
    """A batch of 21 texts, in which the last has no other of its class."""
    labels = [*LABELS, *LABELS, *LABELS[1:], 3]
    numbers = torch.tensor(labels)
    return (
        lambda a, b, c: sup_con(torch.cat([a, b, c]), numbers, temperature),
        lambda a, b, c: losses.sup_con(torch.cat([a, b, c]), labels, temperature),
    )


def with_shares(
    temperature: float, compare: Callable[[Tensor, Tensor, float, Tensor, float], Tensor]
) -> Loss:
    """The references have another number of features, and get no gradient."""
    return lambda a, b, c: compare(
        a, b, temperature, torch.cat([a, c], 1).detach(), 0.3 * temperature**0.5
    )


def at_three_widths(temperature: float) -> tuple[Loss, Loss]:
    widths = (5, 3, 2)

    def loss(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        terms = at_widths(lambda v: {"info_nce": info_nce(*v, temperature)}, (a, b), widths)
        assert list(terms) == ["info_nce_5", "info_nce_3", "info_nce_2"]
        return torch.stack(list(terms.values())).sum()

    def transcription(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return losses.matryoshka(lambda x, y: losses.info_nce(x, y, temperature), (a, b), widths)

    return loss, transcription


LOSSES: dict[str, tuple[Loss, Loss]] = {
    **{f"nt_xent {t}": of_two(nt_xent, losses.nt_xent, t) for t in TEMPERATURES},
    **{f"groups {t}": without_false_negatives(t) for t in TEMPERATURES},
    **{f"hard negatives {t}": with_hard_negatives(t) for t in TEMPERATURES},
    **{
        f"mirror_info_nce {t}": of_two(mirror_info_nce, losses.mirror_info_nce, t)
        for t in TEMPERATURES
    },
    **{f"info_nce {t}": of_two(info_nce, losses.info_nce, t) for t in TEMPERATURES},
    **{f"opt3 {t}": opt3(t) for t in TEMPERATURES},
    **{f"matryoshka {t}": at_three_widths(t) for t in TEMPERATURES},
    **{f"sup_con {t}": of_classes(t) for t in TEMPERATURES},
    **{
        f"ranking {t}": (
            ranked_by_a_teacher(t, ranking_divergence),
            ranked_by_a_teacher(t, losses.ranking_divergence),
        )
        for t in TEMPERATURES
    },
    **{
        f"shares {t}": (with_shares(t, soft_info_nce), with_shares(t, losses.soft_info_nce))
        for t in TEMPERATURES
    },
    "distance": (
        lambda a, b, c: cosine_distance(torch.cat([a, b]), torch.cat([b, c])),
        lambda a, b, c: losses.cosine_distance(torch.cat([a, b]), torch.cat([b, c])),
    ),
    "hard negatives": (
        lambda a, b, c: info_nce(a, b, 0.1, c),
        lambda a, b, c: losses.info_nce(a, b, 0.1, c),
    ),
    **{
        f"margin {interval}": of_three(bidirectional_margin, losses.bidirectional_margin, *interval)
        for interval in ((0.1, 0.3), (0.1, 2.0), (0.0, 0.0))
    },
    **{f"pair features {square}": pair_cross_entropy(square) for square in (False, True)},
    **{f"paraphrase {hinge}": paraphrase(hinge) for hinge in (0.7, -1.0)},
    **{
        f"cosent {scale}": of_two(cosent, supervised.cosent, torch.tensor(SCORES), scale)
        for scale in (1.0, 20.0)
    },
    "cosent of labels": of_two(cosent, supervised.cosent, torch.tensor(LABELS), 20.0),
    **{f"similarity {hinge}": similarity(hinge) for hinge in (0.0, 0.3)},
}


@pytest.mark.parametrize("name", LOSSES)
def test_value_and_gradient_equal_the_transcription(name: str) -> None:
    loss, transcription = LOSSES[name]
    a, b, c = torch.randn(3, 7, 5, dtype=torch.float64).unbind()
    b, c = a + 0.6 * b, a + 2 * c  # cosines on both sides of every hinge
    results = []
    for function, dtype in (
        (transcription, torch.float64),
        (loss, torch.float64),
        (loss, torch.float32),
    ):
        inputs = [v.detach().to(dtype, copy=True).requires_grad_() for v in (a, b, c)]
        value = function(*inputs)
        value.backward()
        gradients = [v.grad.double() for v in inputs if v.grad is not None]
        results.append([value.double(), *gradients])
    expected, double, single = results
    assert len(expected) == len(double) == len(single) >= 3
    assert expected[0] > 0
    # Divided by the temperature, the cosines' own rounding is what float32 can't do better than.
    rounding = 1e-4 if name.endswith("0.01") else 1e-6
    for want, got, close in zip(expected, double, single, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(close, want, rtol=1e-5, atol=rounding)


@pytest.mark.parametrize(
    "name", [name for name in LOSSES if not name.startswith(("pair", "similarity"))]
)
def test_autocast_changes_nothing(name: str) -> None:
    loss, _ = LOSSES[name]
    a, b, c = torch.randn(3, 7, 64).bfloat16().unbind()
    expected = loss(a.float(), b.float(), c.float())
    with torch.autocast("cpu", torch.bfloat16):
        value = loss(a, b, c)
    assert value.dtype == torch.float32
    assert torch.equal(value, expected)


def at(*cosines: float) -> Tensor:
    """Unit vectors [N, 2] with these cosines to (1, 0)."""
    return torch.tensor(
        [[cosine, math.sqrt(1 - cosine**2)] for cosine in cosines], dtype=torch.float64
    )


def test_cosent_counts_the_pairs_of_another_order() -> None:
    a, scores = at(1.0, 1.0, 1.0, 1.0).requires_grad_(), torch.tensor([2.0, 0.0, 2.0, 1.0])
    assert cosent(a, at(0.4, 0.4, 0.4, 0.4), scores, 20.0).item() == pytest.approx(math.log(1 + 5))
    assert cosent(a, at(0.9, 0.1, 0.9, 0.5), scores, 1000.0).item() == pytest.approx(
        0, abs=1e-12
    )  # the right order
    assert cosent(a, at(-1, 1, -1, 1), scores, 1e6).item() == pytest.approx(2e6)  # no overflow
    tied = cosent(a, at(0.9, 0.1, 0.9, 0.5), torch.ones(4), 20.0)
    tied.backward()
    assert (tied.item(), a.grad.abs().max().item()) == (0, 0)
