"""The probe that every evaluation looks at: its sentences, their neighbours by words, and what is measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import log, sqrt
from pathlib import Path

import pytest
import torch

from isotune.data.packed import Packed
from isotune.data.rows import Pair, Row, Sentence
from isotune.data.tokens import Tokenized, TokenStore
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.training.monitor import Monitor, Probe


def store(rows: Sequence[Row]) -> TokenStore:
    """Token ids are the words' numbers; each sentence has a 1 and a 2 around it."""
    words: dict[str, int] = {}

    def ids(text: str) -> list[int]:
        return [1, *(words.setdefault(word, len(words) + 3) for word in text.split()), 2]

    def tokenize(columns: Sequence[list[str]]) -> Tokenized:
        return Tokenized([[ids(text) for text in column] for column in columns])

    return TokenStore.build(iter(rows), type(rows[0]), tokenize, 64)


def sentences(tokens: Packed) -> list[list[int]]:
    """The ids of each sentence, in the caller's order."""
    return [tokens.ids.split(tokens.lengths.tolist())[i].tolist() for i in tokens.order.argsort()]


def cosine(a: Sequence[int], b: Sequence[int], corpus: Sequence[Sequence[int]]) -> float:
    """Of tf-idf vectors, (1 + log count) log(N / sentences that have it), word by word."""

    def weight(word: int, text: Sequence[int]) -> float:
        count = Counter(text)[word]
        return (1 + log(count)) * log(len(corpus) / sum(word in other for other in corpus)) if count else 0.0

    product = sum(weight(word, a) * weight(word, b) for word in set(a) & set(b))
    lengths = [sqrt(sum(weight(word, text) ** 2 for word in set(text))) for text in (a, b)]
    return product / (lengths[0] * lengths[1]) if all(lengths) else 0.0


def test_neighbours_are_the_nearest_by_words(sentences_of_words: list[str]) -> None:
    probe = Probe.of(store([Sentence(sentence) for sentence in sentences_of_words]))
    own, neighbours = sentences(probe.sentences), sentences(probe.neighbours)
    assert len(own) == len(sentences_of_words)
    for text, neighbour in zip(own, neighbours, strict=True):
        similar = [cosine(text, other, own) for other in own if Counter(other) != Counter(text)]
        assert Counter(neighbour) != Counter(text)
        assert cosine(text, neighbour, own) == pytest.approx(max(similar))


@pytest.fixture
def sentences_of_words(sentences: list[str]) -> list[str]:
    """With a repeat, and one of the same words in another order."""
    return [*sentences, sentences[0], " ".join(reversed(sentences[5].split()))]


def test_a_large_corpus_is_sampled_and_first_texts_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isotune.training.monitor.PROBE_SENTENCES", 5)
    monkeypatch.setattr("isotune.training.monitor.NEIGHBOURS_AMONG", 11)
    rows = [Pair(f"a{i} b{i // 20} c", "other text") for i in range(101)]
    probe = Probe.of(store(rows))
    firsts = sentences(store(rows).pack_sequences(torch.arange(0, 202, 2).numpy()))
    assert [firsts.index(one) for one in sentences(probe.sentences)] == [0, 20, 50, 70, 100]
    assert [firsts.index(one) % 10 for one in sentences(probe.neighbours)] == [0] * 5
    # Of 0, 10, ..., 100 those that share the rarer word; 100 is alone with its, so that all are as near.
    assert [firsts.index(one) for one in sentences(probe.neighbours)][:4] == [10, 30, 40, 60]


def test_the_same_encoder_measures_the_same(tiny_model: Path, sentences: list[str]) -> None:
    encoder = Encoder.load(tiny_model)
    rows = [Sentence(sentence) for sentence in sentences]
    built = TokenStore.build(iter(rows), Sentence, lambda columns: Tokenized([encoder.tokenize(columns[0])]), 32)
    monitor = Monitor(Probe.of(built))
    state = torch.get_rng_state()
    first, again = monitor.measure(encoder.train()), monitor.measure(encoder.train())
    assert first == again
    assert torch.get_rng_state().equal(state)
    assert monitor.start == first.space
    encoder.backbone.model.get_submodule("embeddings").word_embeddings.weight.data[5:] = torch.nan
    with pytest.raises(InputError, match="NaN"):
        monitor.measure(encoder)
