"""How much an encoder agrees with teachers, against a literal transcription."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from isotune.bundled import BUNDLED_MODEL
from isotune.encoder.encoder import Encoder
from isotune.evaluation.agreement import (
    NEAR,
    HeldOut,
    choose_pairs,
    compare_agreement,
    encode_held_out,
    pair_cosines,
)
from isotune.evaluation.intervals import Floats, resampled_over_sentences
from isotune.evaluation.results import Cost
from isotune.evaluation.run_results import Agreement
from isotune.evaluation.vectors import unit_length
from tests.reference.statistics import score_of_draw

COST = Cost(weights=3, sentences_per_second=2.0)


def drawn(count: int, features: int, seed: int) -> Floats:
    vectors = np.random.default_rng(seed).standard_normal((count, features))
    return unit_length(vectors.astype(np.float32))


def test_resampled_correlations_equal_those_of_the_pairs_written_out() -> None:
    generator = np.random.default_rng(1)
    ends = np.array(list(combinations(range(8), 2)))
    first, second = generator.integers(0, 4, (2, len(ends))).astype(np.float64)
    found = resampled_over_sentences(first, second, ends, sentences=8, seed=3)
    draws = np.random.default_rng([3, 0, 8]).multinomial(8, np.full(8, 1 / 8), 1000)
    for draw, score in zip(draws[:100], found[:100], strict=True):
        counts = draw[ends[:, 0]] * draw[ends[:, 1]]
        assert score == pytest.approx(score_of_draw(first, second, counts, spearman=True))


def test_each_sentence_has_pairs_with_its_nearest_ones() -> None:
    vectors = drawn(30, 4, 0)
    pairs = choose_pairs(vectors)
    assert len({tuple(pair) for pair in pairs}) == len(pairs)
    assert (pairs[:, 0] < pairs[:, 1]).all()
    chosen = {frozenset(pair) for pair in pairs.tolist()}
    for number, cosines in enumerate(vectors @ vectors.T):
        cosines[number] = -2
        for other in np.argsort(-cosines)[:NEAR].tolist():
            assert frozenset((number, other)) in chosen


def test_agreement_is_the_correlation_of_the_cosines() -> None:
    teachers, before, after = drawn(40, 6, 0), drawn(40, 3, 1), drawn(40, 6, 0)
    after[:, 0] += 0.3
    after = unit_length(after)
    each = [HeldOut(vectors, COST) for vectors in (teachers, before, after)]
    found = compare_agreement(pair_cosines(*each), each[0], each[2])
    pairs = choose_pairs(teachers)
    cosines = []
    for vectors in (teachers, before, after):
        cosines.append([float(vectors[a] @ vectors[b]) for a, b in pairs])
    assert found.before == pytest.approx(spearmanr(cosines[0], cosines[1]).statistic, abs=1e-6)
    assert found.after == pytest.approx(spearmanr(cosines[0], cosines[2]).statistic, abs=1e-6)
    assert found.low < found.after - found.before < found.high
    assert found.low > 0
    assert (found.sentences, found.pairs) == (40, len(pairs))
    assert Agreement.model_validate_json(found.model_dump_json()) == found


def test_in_the_index_of_the_teacher_the_second_sentences_are_its() -> None:
    each = [HeldOut(drawn(40, 6, seed), COST) for seed in range(3)]
    teachers, _, after = (held_out.vectors for held_out in each)
    found = pair_cosines(*each, in_index=True)
    expected = [float(after[a] @ teachers[b]) for a, b in choose_pairs(teachers)]
    np.testing.assert_allclose(found.after, expected, atol=1e-6)
    own = pair_cosines(*each)
    np.testing.assert_array_equal(found.before, own.before)
    np.testing.assert_array_equal(found.teachers, own.teachers)


def test_an_encoder_that_tells_no_sentences_apart_agrees_by_0() -> None:
    point = HeldOut(np.ones((12, 1), np.float32), COST)
    teachers = HeldOut(drawn(12, 4, 0), COST)
    found = compare_agreement(pair_cosines(teachers, point, point), teachers, point)
    assert (found.before, found.after) == (0, 0)


def test_several_teachers_have_the_mean_of_their_cosines(
    tiny_model: Path, sentences: list[str]
) -> None:
    encoders = [Encoder.load(tiny_model), Encoder.load(BUNDLED_MODEL)]
    held_out = encode_held_out(encoders, sentences[:9])
    each = [unit_length(encoder.encode(sentences[:9])) for encoder in encoders]
    expected = np.mean([vectors @ vectors.T for vectors in each], axis=0)
    np.testing.assert_allclose(held_out.vectors @ held_out.vectors.T, expected, atol=1e-6)
    counts = [sum(weight.numel() for weight in encoder.parameters()) for encoder in encoders]
    assert held_out.cost.weights == sum(counts)
    assert held_out.cost.sentences_per_second > 0
