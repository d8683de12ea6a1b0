"""Criteria without labels: closed forms, slow transcriptions, and what they prefer."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize

from isotune.evaluation.unlabelled import (
    SELECTION_CRITERION,
    alignment_uniformity,
    measure_unlabelled,
    neighbour_rank,
    view_retrieval,
)

CRITERIA = (alignment_uniformity, view_retrieval, neighbour_rank)


@pytest.fixture
def vectors() -> Tensor:
    return torch.randn(40, 16)


def rank(vector: Tensor, partner: int, candidates: Tensor) -> int:
    cosines = [float(cosine_similarity(vector, candidate, dim=0)) for candidate in candidates]
    return 1 + sum(cosine > cosines[partner] for i, cosine in enumerate(cosines) if i != partner)


def test_alignment_and_uniformity_by_their_definitions(vectors: Tensor) -> None:
    views = vectors + 0.5 * torch.randn(40, 16)
    unit, unit_views = normalize(vectors.double(), dim=-1), normalize(views.double(), dim=-1)
    near = sum(float((unit[i] - unit_views[i]).square().sum()) for i in range(40)) / 40
    far = [math.exp(-2 * float((unit[i] - unit[j]).square().sum())) for i in range(40) for j in range(i)]
    assert alignment_uniformity(vectors, views) == pytest.approx(-near - math.log(sum(far) / len(far)), rel=1e-5)


def test_ranks_by_counting(vectors: Tensor) -> None:
    partners = vectors + 2 * torch.randn(40, 16)
    there = [rank(vectors[i], i, partners) for i in range(40)]
    back = [rank(partners[i], i, vectors) for i in range(40)]
    assert len(set(there)) > 5
    assert view_retrieval(vectors, partners) == pytest.approx(sum(1 / r for r in there) / 40)
    assert neighbour_rank(vectors, partners) == pytest.approx(-sum(math.log(r) for r in there + back) / 80)


def test_the_best_and_the_worst() -> None:
    basis, point = torch.eye(8), torch.ones(8, 8)
    assert view_retrieval(basis, 3 * basis) == 1
    assert neighbour_rank(basis, 3 * basis) == 0
    assert view_retrieval(point, point) == pytest.approx(1 / 8)
    assert neighbour_rank(point, point) == pytest.approx(-math.log(8))
    assert alignment_uniformity(point, point) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_unrelated_partners_are_worse_than_near_ones(criterion: type, vectors: Tensor) -> None:
    near = criterion(vectors, vectors + 0.1 * torch.randn(40, 16))
    assert criterion(vectors, torch.randn(40, 16)) < near


@pytest.mark.parametrize("criterion", CRITERIA)
def test_neither_order_nor_length_matters(criterion: type, vectors: Tensor) -> None:
    partners = vectors + torch.randn(40, 16)
    order = torch.randperm(40)
    assert criterion(3 * vectors[order], 0.5 * partners[order]) == pytest.approx(criterion(vectors, partners), rel=1e-5)


def test_views_and_neighbours_go_to_their_own_criteria(vectors: Tensor) -> None:
    views, neighbours = vectors + torch.randn(40, 16), vectors + torch.randn(40, 16)
    assert measure_unlabelled(vectors, views, neighbours) == {
        "alignment_uniformity": alignment_uniformity(vectors, views),
        "view_retrieval": view_retrieval(vectors, views),
        "neighbour_rank": neighbour_rank(vectors, neighbours),
    }
    assert SELECTION_CRITERION in measure_unlabelled(vectors, views, neighbours)
