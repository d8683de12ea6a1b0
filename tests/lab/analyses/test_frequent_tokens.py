from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from scipy.stats import spearmanr

from isotune.data import ScoredPairs
from isotune.encoder.encoder import Encoder
from isotune.encoder.heads import Dense
from isotune.evaluation import load_tasks
from isotune.lab.analyses import frequent_tokens
from tests.lab.analyses.conftest import cosine

States = Callable[[str], tuple[list[int], list[torch.Tensor]]]
MOST = 20


def test_scores_equal_those_of_one_sentence_at_a_time(
    encoder: Encoder, scored: ScoredPairs, states: States
) -> None:
    """Layers 1 and 3 are averaged; some sentences lose all of their tokens."""
    encoder.pooling = replace(encoder.pooling, layers=(1, -1))
    table = frequent_tokens.compute({"tiny": encoder}, [scored], most=MOST)
    sentences = scored.sentence1 + scored.sentence2
    counts = Counter(token for sentence in sentences for token in states(sentence)[0])
    order = sorted(counts, key=lambda token: (-counts[token], token))
    assert [row["token"] for row in table[:3]] == ["", "[CLS]", "[SEP]"]
    assert [row["count"] for row in table] == [0, *(counts[token] for token in order[:MOST])]
    emptied = 0.0
    for k, row in enumerate(table):

        def vector(sentence: str, removed: list[int] = order[:k]) -> list[float]:
            ids, layers = states(sentence)
            left = [
                (a + b) / 2
                for i, a, b in zip(ids, layers[1], layers[3], strict=True)
                if i not in removed
            ]
            return (sum(left) / len(left)).tolist() if left else [0.0] * 32

        vectors = {sentence: vector(sentence) for sentence in sentences}
        cosines = [
            cosine(vectors[a], vectors[b])
            for a, b in zip(scored.sentence1, scored.sentence2, strict=True)
        ]
        assert row["removed"] == k
        assert row["spearman"] == pytest.approx(
            spearmanr(scored.scores, cosines).statistic, abs=1e-6
        )
        emptied = sum(not any(vectors[sentence]) for sentence in sentences) / len(sentences)
        assert row["empty"] == pytest.approx(emptied)
    assert emptied > 0


def test_heads_are_applied_if_the_encoder_pools_by_the_mean(
    encoder: Encoder, scored: ScoredPairs
) -> None:
    def first(encoder: Encoder) -> float:
        return float(frequent_tokens.compute({"x": encoder}, [scored], most=1)[0]["spearman"])

    plain = first(encoder)
    encoder.heads.append(Dense(32, 5, activation="Tanh"))
    (task,) = [each.score(encoder)[0] for each in load_tasks([scored.name])]
    assert first(encoder) == pytest.approx(task.spearman.all, abs=1e-6)
    assert first(encoder) != pytest.approx(plain, abs=1e-3)
    encoder.pooling = replace(encoder.pooling, mode="cls")
    assert first(encoder) == pytest.approx(plain, abs=1e-6)


def test_tokens_are_counted_in_the_test_split_of_stsb(
    encoder: Encoder, scored: ScoredPairs
) -> None:
    half = slice(10)
    part = replace(
        scored, sentence1=["a dog ."] * 10, sentence2=["a cat ."] * 10, scores=scored.scores[half]
    )
    with_stsb = [scored, replace(part, name="stsb", split="test")]
    without = [scored, replace(part, name="stsb", split="dev")]
    assert [row["count"] for row in frequent_tokens.compute({"x": encoder}, with_stsb)][1:] == [
        20,
        20,
        20,
        20,
        10,
        10,
    ]
    assert frequent_tokens.compute({"x": encoder}, without)[1]["count"] == 20 + 2 * len(
        scored.scores
    )


def test_findings_show_the_gain_at_best() -> None:
    table = [
        {"encoder": name, "removed": k, "spearman": score, "tasks": {"stsb": score}}
        for name, scores in (
            ("before", (0.5386, 0.6, 0.6166, 0.6)),
            ("after", (0.72, 0.723, 0.72, 0.71)),
        )
        for k, score in enumerate(scores)
    ]
    assert frequent_tokens.findings(table) == [
        "before: 53.86 with every token, at best 61.66 with 2 removed (+7.80).",
        "after: 72.00 with every token, at best 72.30 with 1 removed (+0.30).",
    ]
