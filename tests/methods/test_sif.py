"""SIF as a method: one pass, no steps, and an encoder whose tokens weigh as their counts in the text say."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from sentence_transformers import SentenceTransformer

import isotune
from isotune.data.packed import pack
from isotune.encoder.encoder import Encoder
from isotune.encoder.pooling import Pooling
from isotune.errors import InputError
from isotune.use.export.graph import PaddedEncoder
from isotune.use.export.onnx import export_onnx
from tests.reference import sif
from tests.use.export.test_onnx import encode_padded

OTHERS = ["the dog sees the dog", "unheard zebras !", "a", ""]


@pytest.fixture
def run(tiny_model: Path, text: Path, pairs: Path, tmp_path: Path) -> Callable[..., isotune.training.Result]:
    def train(**options: Any) -> isotune.training.Result:
        given = {"model": str(tiny_model), "method": "sif", "dev": "none", "tasks": [str(pairs)], "quiet": True}
        return isotune.train(text, precision="float32", **{"out": tmp_path / "run", **given, **options})

    return train


def test_vectors_are_those_of_the_algorithm(
    run: Callable[..., Any], tiny_model: Path, text: Path, sentences: list[str]
) -> None:
    start = Encoder.load(tiny_model)
    kept = Encoder.load(run(smoothing=0.01, layers=[0, -1]).encoder)
    texts = text.read_text().splitlines()
    counts = Counter(token for tokens in start.tokenize(texts) for token in tokens)

    @torch.no_grad()
    def mean(sentence: str) -> torch.Tensor:
        ids = start.tokenize([sentence])
        states = [state.double() for state in start.backbone(pack(ids), layers=range(4)).values()]
        return sif.weighted_mean(ids[0], (states[0] + states[-1]) / 2, counts, 0.01)

    of_text, of_others = (torch.stack([mean(sentence) for sentence in some]) for some in (texts, OTHERS))
    np.testing.assert_allclose(kept.encode(OTHERS), sif.without_common_component(of_others, of_text), atol=1e-5)


def test_every_user_of_the_folder_gets_the_same_vectors(
    run: Callable[..., Any], sentences: list[str], tmp_path: Path
) -> None:
    kept = Encoder.load(run().encoder)
    vectors = kept.encode(sentences)
    kept.save(tmp_path / "again")
    assert kept.fingerprint() == Encoder.load(tmp_path / "again").fingerprint()
    assert np.array_equal(Encoder.load(tmp_path / "again").encode(sentences), vectors)
    st_vectors = SentenceTransformer(str(tmp_path / "again"), device="cpu").encode(sentences)
    np.testing.assert_allclose(st_vectors, vectors, atol=1e-5)
    np.testing.assert_allclose(encode_padded(PaddedEncoder(kept), kept, sentences), vectors, atol=1e-5)


def test_a_given_pooling_weighs_tokens_equally(run: Callable[..., Any], tiny_model: Path, sentences: list[str]) -> None:
    kept = run().encoder
    weighed, equal = Encoder.load(kept), Encoder.load(kept, pooling="mean")
    assert weighed.token_weights is not None
    assert equal.token_weights is None
    assert weighed.fingerprint() != equal.fingerprint()
    equal.heads = Encoder.load(tiny_model).heads
    assert np.array_equal(equal.encode(sentences), Encoder.load(tiny_model).encode(sentences))


def test_what_sif_cannot_weigh_is_refused(run: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="pooling cls: SIF weighs the tokens of a mean; give --pooling mean, or leave SIF out"
    ):
        run(pooling="cls")
    kept = run().encoder
    with pytest.raises(InputError, match="weighs its tokens already; leave SIF out, or give --pooling mean"):
        run(model=str(kept), out=tmp_path / "again")


@pytest.mark.parametrize(
    ("module", "key", "value", "message"),
    [
        ("WordWeights", "word_weights", {"the": -1.0}, "not numbers of 0 or more"),
        ("WordWeights", "word_weights", {"the": float("nan")}, "not numbers of 0 or more"),
        ("WordWeights", "word_weights", {"the": "heavy"}, "can't be understood"),
        ("WordWeights", "vocab", ["the", "dog"], "its WordWeights have 2 tokens, its tokenizer 28"),
        ("Pooling", "pooling_mode", "max", "WordWeights and pooling max; WordWeights are supported with pooling mean"),
    ],
)
def test_damaged_weights_are_refused(
    module: str, key: str, value: object, message: str, run: Callable[..., Any]
) -> None:
    kept = run().encoder
    (kept / "SHA256SUMS").unlink()
    (path,) = kept.glob(f"*_{module}/config.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(InputError, match=message):
        Encoder.load(kept)


def test_another_pooling_has_no_weights(run: Callable[..., Any], sentences: list[str], tmp_path: Path) -> None:
    kept = run().encoder
    result = run(model=str(kept), method="sncse", out=tmp_path / "sncse", steps=1, batch_size=8)
    assert Encoder.load(result.encoder).token_weights is None
    encoder = Encoder.load(kept)
    encoder.pooling = Pooling("max")
    encoder.save(tmp_path / "max")
    loaded = Encoder.load(tmp_path / "max")
    assert np.array_equal(loaded.encode(sentences), encoder.encode(sentences))
    assert loaded.fingerprint() == encoder.fingerprint()


def test_an_export_in_int8_rounds_no_weight_of_a_token(run: Callable[..., Any], tmp_path: Path) -> None:
    kept = run().encoder
    assert export_onnx(kept, tmp_path / "int8", int8=True).int8
    constants = onnx.load(tmp_path / "int8" / "model.onnx").graph.initializer
    weights = Encoder.load(kept).token_weights
    assert weights is not None
    assert any(np.array_equal(onnx.numpy_helper.to_array(constant), weights) for constant in constants)


def test_a_strangers_weights_are_those_of_sentence_transformers(
    run: Callable[..., Any], sentences: list[str], tmp_path: Path
) -> None:
    kept = run().encoder
    (kept / "SHA256SUMS").unlink()
    (path,) = kept.glob("*_WordWeights/config.json")
    of_words = {"the": 0.0, "dog": 2.5, "[CLS]": 0.0, "[SEP]": 0.0}
    config = {**json.loads(path.read_text()), "word_weights": of_words, "unknown_word_weight": 0.5}
    path.write_text(json.dumps(config))
    encoder, texts = Encoder.load(kept), ["the", *sentences]  # the first has no weight at all
    expected = SentenceTransformer(str(kept), device="cpu").encode(texts)
    np.testing.assert_allclose(encoder.encode(texts), expected, atol=1e-5)
    np.testing.assert_allclose(encode_padded(PaddedEncoder(encoder), encoder, texts), expected, atol=1e-5)
    encoder = Encoder.load(kept)
    encoder.save(tmp_path / "again")
    assert np.array_equal(Encoder.load(tmp_path / "again").encode(texts), encoder.encode(texts))
