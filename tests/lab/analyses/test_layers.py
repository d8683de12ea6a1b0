from collections.abc import Callable

import pytest
import torch
from scipy.stats import spearmanr

from isotune.data import ScoredPairs
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError, UselessVectors
from isotune.evaluation import load_tasks
from isotune.lab.analyses import layers
from tests.lab.analyses.conftest import Lookup, cosine

States = Callable[[str], tuple[list[int], list[torch.Tensor]]]
POOL = {"cls": lambda x: x[0], "mean": lambda x: x.mean(0), "max": lambda x: x.max(0).values}


def test_every_layer_and_pooling(encoder: Encoder, scored: ScoredPairs, states: States) -> None:
    table = layers.compute({"tiny": encoder}, [scored])
    ways = [(mode, k) for mode in (*POOL, "random token") for k in range(4)]
    assert [(row["pooling"], row["layer"]) for row in table] == [*ways, ("as it is", None)]
    (task,) = [each.score(encoder)[0] for each in load_tasks([scored.name])]
    assert table[-1]["spearman"] == task.spearman.all
    for row in table[:-5]:
        cosines = [
            cosine(
                *(
                    POOL[row["pooling"]](states(sentence)[1][row["layer"]]).tolist()
                    for sentence in pair
                )
            )
            for pair in zip(scored.sentence1, scored.sentence2, strict=True)
        ]
        # [CLS] is the same vector in every sentence before the first block.
        same = (row["pooling"], row["layer"]) == ("cls", 0)
        expected = 0 if same else spearmanr(scored.scores, cosines).statistic
        assert row["spearman"] == pytest.approx(expected, abs=1e-6)


def test_a_random_token_stands_for_a_sentence(
    encoder: Encoder, scored: ScoredPairs, states: States, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Draws of 0 take the first token, and draws of nearly 1 the last; the seed decides else."""
    for draw, place in ((0.0, 0), (0.9999, -1)):
        monkeypatch.setattr(torch, "rand", lambda n, generator, draw=draw: torch.full((n,), draw))
        last = layers.compute({"tiny": encoder}, [scored])[-2]
        vectors = [
            [states(sentence)[1][3][place].tolist() for sentence in side]
            for side in (scored.sentence1, scored.sentence2)
        ]
        expected = spearmanr(
            scored.scores, [cosine(*pair) for pair in zip(*vectors, strict=True)]
        ).statistic
        assert (last["pooling"], last["layer"]) == ("random token", 3)
        assert last["spearman"] == pytest.approx(expected, abs=1e-6)
    monkeypatch.undo()
    first, again, other = (
        layers.compute({"tiny": encoder}, [scored], seed=seed)[-2]["spearman"] for seed in (0, 0, 1)
    )
    assert first == again != other


def test_each_batch_has_random_tokens_of_its_own(
    encoder: Encoder, scored: ScoredPairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn, rand = [], torch.rand
    monkeypatch.setattr(
        torch, "rand", lambda n, generator: drawn.append(rand(n, generator=generator)) or drawn[-1]
    )
    monkeypatch.setattr(encoder, "batches", lambda lengths, *_: [[i] for i in range(len(lengths))])
    layers.compute({"tiny": encoder}, [scored])
    assert len({tuple(draw.tolist()) for draw in drawn}) == len(scored.scores)


def test_several_tasks_are_averaged(encoder: Encoder, scored: ScoredPairs) -> None:
    half = len(scored.scores) // 2
    parts = [
        ScoredPairs(
            name, "", scored.sentence1[k], scored.sentence2[k], scored.scores[k], scored.subsets[k]
        )
        for name, k in (("first", slice(half)), ("second", slice(half, None)))
    ]
    alone = [layers.compute({"tiny": encoder}, [part]) for part in parts]
    for row, first, second in zip(layers.compute({"tiny": encoder}, parts), *alone, strict=True):
        assert row["tasks"] == pytest.approx(
            {"first": first["spearman"], "second": second["spearman"]}
        )
        assert row["spearman"] == pytest.approx((first["spearman"] + second["spearman"]) / 2)


def test_a_line_for_each_pooling(encoder: Encoder, scored: ScoredPairs) -> None:
    table = layers.compute({"one": encoder, "two": encoder}, [scored])
    scores = [100 * row["spearman"] for row in table[:17]]
    assert f" to {max(scores[:16]):.2f} (" in layers.findings(table)[0]
    assert layers.findings(table)[0].endswith(f"; as it is, {scores[16]:.2f}.")
    axes = layers.draw(table).axes
    assert [ax.get_title(loc="left") for ax in axes] == ["one", "two"]
    level, *lines = axes[0].lines
    assert list(level.get_ydata()) == [100 * table[16]["spearman"]] * 2
    assert [line.get_label() for line in lines] == ["cls", "mean", "max", "random token"]
    assert len({line.get_color() for line in lines}) == 4
    assert lines[1].get_xydata().tolist() == [
        [row["layer"], 100 * row["spearman"]] for row in table[4:8]
    ]


def test_only_language_models_have_layers(encoder: Encoder, scored: ScoredPairs) -> None:
    with pytest.raises(
        InputError, match="words is Lookup, which has no layers to look into; leave it out"
    ):
        layers.compute({"tiny": encoder, "words": Lookup({})}, [scored])


def test_hidden_states_that_are_no_numbers_are_refused(
    encoder: Encoder, scored: ScoredPairs
) -> None:
    with torch.no_grad():
        next(encoder.backbone.model.encoder.parameters()).fill_(torch.nan)
    with pytest.raises(UselessVectors, match="NaN or infinite values; load it with another"):
        layers.compute({"tiny": encoder}, [scored])
