"""The monitor: which sentences it encodes, and what it measures."""

from collections.abc import Sequence

import pytest
import torch

from isotune.data.rows import Pair, Row, Sentence
from isotune.data.tokens import TokenDataset, Tokenized
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.training.selection import measure_space, monitored_sentences


def store(rows: Sequence[Row]) -> TokenDataset:
    """The token id of a text is its length."""
    return TokenDataset.build(
        iter(rows),
        type(rows[0]),
        lambda columns: Tokenized([[[len(t)] for t in column] for column in columns]),
        64,
    )


def test_a_large_corpus_is_sampled_evenly_and_first_texts_are_encoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("isotune.training.selection.MONITORED", 5)
    sentences = monitored_sentences(store([Pair("a" * i, "other text") for i in range(1, 102)]))
    assert sentences.restore(sentences.ids[:, None])[:, 0].tolist() == [1, 26, 51, 76, 101]


def test_the_same_encoder_measures_the_same(encoder: Encoder, sentences: list[str]) -> None:
    rows = [Sentence(sentence) for sentence in sentences]
    built = TokenDataset.build(
        iter(rows), Sentence, lambda columns: Tokenized([encoder.tokenize(columns[0])]), 32
    )
    sample = monitored_sentences(built)
    state = torch.get_rng_state()
    first, again = measure_space(encoder.train(), sample), measure_space(encoder.train(), sample)
    assert first == again
    assert torch.get_rng_state().equal(state)
    encoder.backbone.model.get_submodule("embeddings").word_embeddings.weight.data[5:] = torch.nan
    with pytest.raises(InputError, match="NaN"):
        measure_space(encoder, sample)
