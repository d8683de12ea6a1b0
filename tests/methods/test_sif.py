"""SIF as a method: one pass, no steps, and tokens that weigh as their counts say."""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

import isotune
from isotune.data.packed import pack
from isotune.encoder.encoder import Encoder
from isotune.encoder.pooling import Pooling
from isotune.errors import InputError
from isotune.use.export.onnx import PaddedEncoder
from tests.conftest import WORDS, reopened
from tests.reference import sif
from tests.use.export.test_onnx import encode_padded

TEXT = [" ".join(WORDS[i % len(WORDS)] for i in range(k, k * k // 7 + 9)) for k in range(1, 14)]
OTHERS = ["the dog sees the dog", "unheard zebras !", "a", ""]


def run(model: Path, out: Path, **options: Any) -> Path:
    """The folder of the encoder that SIF makes of a model."""
    text, pairs = out.with_suffix(".txt"), out.with_suffix(".tsv")
    text.write_text("\n".join(TEXT))
    pairs.write_text(
        "sentence1\tsentence2\tscore\na dog\ta cat\t1\na dog\tthe dog\t4\na ball\tthe house\t0\n"
    )
    given = {
        "method": "sif",
        "dev": "none",
        "tasks": [str(pairs)],
        "precision": "float32",
        "quiet": True,
    }
    return isotune.train(text, out=out, model=str(model), **{**given, **options}).folder / "encoder"


@pytest.fixture(scope="module")
def made(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The encoder of a run, which no test changes."""
    return run(tiny_model, tmp_path_factory.mktemp("sif") / "run", smoothing=0.01, layers=[0, -1])


@pytest.fixture
def kept(made: Path, tmp_path: Path) -> Path:
    """A copy of it, without checksums."""
    folder = Path(shutil.copytree(made, tmp_path / "kept"))
    (folder / "SHA256SUMS").unlink()
    return folder


def test_vectors_are_those_of_the_algorithm(made: Path, tiny_model: Path) -> None:
    start = Encoder.load(tiny_model)
    counts = Counter(token for tokens in start.tokenize(TEXT) for token in tokens)

    @torch.no_grad()
    def mean(sentence: str) -> torch.Tensor:
        ids = start.tokenize([sentence])
        states = [state.double() for state in start.backbone(pack(ids), layers=range(4)).values()]
        return sif.weighted_mean(ids[0], (states[0] + states[-1]) / 2, counts, 0.01)

    of_text, of_others = (
        torch.stack([mean(sentence) for sentence in some]) for some in (TEXT, OTHERS)
    )
    expected = sif.without_common_component(of_others, of_text)
    np.testing.assert_allclose(Encoder.load(made).encode(OTHERS), expected, atol=1e-5)


def test_every_user_of_the_folder_gets_the_same_vectors(
    made: Path, sentences: list[str], tmp_path: Path
) -> None:
    encoder = Encoder.load(made)
    vectors = encoder.encode(sentences)
    assert encoder.fingerprint() == reopened(encoder, tmp_path / "again", sentences).fingerprint()
    np.testing.assert_allclose(
        encode_padded(PaddedEncoder(encoder), encoder, sentences), vectors, atol=1e-5
    )


def test_a_given_pooling_weighs_tokens_equally(
    made: Path, tiny_model: Path, sentences: list[str]
) -> None:
    weighed, equal = Encoder.load(made), Encoder.load(made, pooling="mean")
    assert weighed.token_weights is not None
    assert equal.token_weights is None
    assert weighed.fingerprint() != equal.fingerprint()
    start = Encoder.load(tiny_model, layers=(0, -1))
    equal.heads = start.heads
    assert np.array_equal(equal.encode(sentences), start.encode(sentences))


def test_what_sif_cannot_weigh_is_refused(made: Path, tiny_model: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="pooling cls: SIF weighs the tokens of a mean"):
        run(tiny_model, tmp_path / "cls", pooling="cls")
    with pytest.raises(InputError, match="weighs its tokens already"):
        run(made, tmp_path / "again")


@pytest.mark.parametrize(
    ("module", "key", "value", "message"),
    [
        ("WordWeights", "word_weights", {"the": -1.0}, "not numbers of 0 or more"),
        ("WordWeights", "word_weights", {"the": float("nan")}, "not numbers of 0 or more"),
        ("WordWeights", "word_weights", {"the": "heavy"}, "can't be understood"),
        ("WordWeights", "vocab", ["the", "dog"], "2 tokens, its tokenizer 28"),
        ("Pooling", "pooling_mode", "max", "WordWeights and pooling max"),
    ],
)
def test_damaged_weights_are_refused(
    module: str, key: str, value: object, message: str, kept: Path
) -> None:
    (path,) = kept.glob(f"*_{module}/config.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(InputError, match=message):
        Encoder.load(kept)


def test_another_pooling_has_no_weights(made: Path, sentences: list[str], tmp_path: Path) -> None:
    later = run(made, tmp_path / "sncse", method="sncse", parser="words", steps=1, batch_size=8)
    assert Encoder.load(later).token_weights is None
    assert Encoder.load(later).pooling.mode == "mask"  # of the prompts that SNCSE adds
    assert (tmp_path / ".isotune" / "negations.sqlite").exists()
    encoder = Encoder.load(made)
    encoder.pooling = Pooling("max")
    assert reopened(encoder, tmp_path / "max", sentences).fingerprint() == encoder.fingerprint()


def test_a_strangers_weights_are_those_of_sentence_transformers(
    kept: Path, sentences: list[str], tmp_path: Path
) -> None:
    (path,) = kept.glob("*_WordWeights/config.json")
    of_words = {"the": 0.0, "dog": 2.5, "[CLS]": 0.0, "[SEP]": 0.0}
    config = {**json.loads(path.read_text()), "word_weights": of_words, "unknown_word_weight": 0.5}
    path.write_text(json.dumps(config))
    encoder, texts = Encoder.load(kept), ["the", *sentences]  # the first has no weight at all
    expected = SentenceTransformer(str(kept), device="cpu").encode(texts)
    np.testing.assert_allclose(encoder.encode(texts), expected, atol=1e-5)
    np.testing.assert_allclose(
        encode_padded(PaddedEncoder(encoder), encoder, texts), expected, atol=1e-5
    )
    reopened(Encoder.load(kept), tmp_path / "again", texts)
