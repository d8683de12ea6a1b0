"""The monitor: which sentences it encodes, and what it measures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from isotune.data.packed import Packed
from isotune.data.rows import Pair, Row, Sentence
from isotune.data.tokens import Tokenized, TokenStore
from isotune.encoder import encoder as encoder_module
from isotune.encoder.backbone import Backbone
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.training.monitor import Monitor
from tests.training.conftest import Train


def store(rows: Sequence[Row]) -> TokenStore:
    """The token id of a text is its length."""
    return TokenStore.build(
        iter(rows), type(rows[0]), lambda columns: Tokenized([[[len(t)] for t in column] for column in columns]), 64
    )


def test_a_large_corpus_is_sampled_evenly_and_first_texts_are_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isotune.training.monitor.SAMPLE", 5)
    sentences = Monitor(store([Pair("a" * i, "other text") for i in range(1, 102)])).sentences
    assert sentences.restore(sentences.ids[:, None])[:, 0].tolist() == [1, 26, 51, 76, 101]


def test_the_same_encoder_measures_the_same(tiny_model: Path, sentences: list[str]) -> None:
    encoder = Encoder.load(tiny_model)
    rows = [Sentence(sentence) for sentence in sentences]
    built = TokenStore.build(iter(rows), Sentence, lambda columns: Tokenized([encoder.tokenize(columns[0])]), 32)
    monitor = Monitor(built)
    state = torch.get_rng_state()
    first, again = monitor.measure(encoder.train()), monitor.measure(encoder.train())
    assert first == again
    assert torch.get_rng_state().equal(state)
    assert monitor.start == first
    encoder.backbone.model.get_submodule("embeddings").word_embeddings.weight.data[5:] = torch.nan
    with pytest.raises(InputError, match="NaN"):
        monitor.measure(encoder)


@pytest.mark.parametrize("options", [{"chunk_size": 2}, {"batch_size": 4}])
def test_no_pass_of_an_evaluation_is_larger_than_those_of_a_step(
    options: dict[str, int], train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    monkeypatch.setitem(encoder_module.BATCH_BYTES, "cpu", 30 * 32 * 4)  # two sentences or three
    forward = Backbone.forward

    def watched(self: Backbone, tokens: Packed, *arguments: Any) -> Any:
        sizes.append(len(tokens))
        return forward(self, tokens, *arguments)

    monkeypatch.setattr(Backbone, "forward", watched)
    consert = {"method": "consert", "augmentations": ["token_cutoff", "token_cutoff"]}
    train(**{**consert, "dev": "none", "steps": 1, "most_forgotten": 100, **options})
    assert max(sizes) <= 30
