"""A classifier is saved with its encoder, opens elsewhere, and gives what its layer gives."""

import json
import logging
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from isotune import Classifier, ClassifierHead, Encoder, HeadSettings
from isotune.encoder.pooling import Pooling
from isotune.errors import InputError

LABELS = ("bad", "good", "so so")


def drawn_head(encoder: Encoder, **settings: object) -> ClassifierHead:
    """A head with weights that are drawn."""
    known = HeadSettings.model_validate({"kind": "single", "labels": LABELS, **settings})
    generator = np.random.default_rng(0)
    weights = generator.normal(size=(known.width, encoder.backbone.dimension)).astype(np.float32)
    bias = generator.normal(size=known.width).astype(np.float32)
    return ClassifierHead(known, weights, bias)


@pytest.fixture
def encoder(tiny_model: Path) -> Encoder:
    return Encoder.load(tiny_model)


@pytest.fixture
def folder(encoder: Encoder, tmp_path: Path) -> Path:
    """The folder of an encoder with a head."""
    Classifier(encoder, drawn_head(encoder)).save(tmp_path / "encoder")
    return tmp_path / "encoder"


def softmax(outputs: np.ndarray) -> np.ndarray:
    exponents = np.exp(outputs.astype(np.float64))
    return exponents / exponents.sum(axis=1, keepdims=True)


def test_the_head_classifies_the_vectors_of_the_encoder(
    folder: Path, encoder: Encoder, sentences: list[str]
) -> None:
    head = drawn_head(encoder)
    outputs = encoder.encode(sentences) @ head.weights.T + head.bias
    classifier = Classifier.load(folder)
    assert classifier.labels == LABELS
    assert classifier.predict(iter(sentences)) == [LABELS[i] for i in outputs.argmax(axis=1)]
    probabilities = classifier.predict_proba(sentences)
    assert probabilities.dtype == np.float32
    np.testing.assert_allclose(probabilities, softmax(outputs), atol=1e-5)
    assert classifier.predict([]) == []
    assert classifier.predict_proba([]).shape == (0, 3)


def test_the_head_is_a_dense_module_and_the_encoder_stays_as_it_was(
    folder: Path, encoder: Encoder, sentences: list[str]
) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense

    vectors = encoder.encode(sentences)
    assert np.array_equal(Encoder.load(folder).encode(sentences), vectors)
    theirs = SentenceTransformer(str(folder), device="cpu")
    np.testing.assert_allclose(theirs.encode(sentences), vectors, atol=1e-5)
    dense = Dense.load(str(folder / "classifier"))
    with torch.no_grad():
        outputs = dense({"sentence_embedding": torch.from_numpy(vectors)})["sentence_embedding"]
    ours = Classifier.load(folder).predict_proba(sentences)
    np.testing.assert_allclose(softmax(outputs.numpy()), ours, atol=1e-5)


def test_no_key_of_ours_is_in_the_settings_that_others_read(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from sentence_transformers.sentence_transformer.modules import Dense

    with caplog.at_level(logging.WARNING):
        Dense.load(str(folder / "classifier"))
    assert caplog.messages == []


def test_a_head_may_read_another_vector_than_the_encoder_gives(
    encoder: Encoder, sentences: list[str]
) -> None:
    classifier = Classifier(encoder, drawn_head(encoder, pooling="cls", max_length=4))
    encoder.max_length = 4
    first = encoder.with_parts(pooling=Pooling("cls")).encode(sentences)
    expected = softmax(classifier.head.outputs(first))
    np.testing.assert_allclose(classifier.predict_proba(sentences), expected, atol=1e-5)


def test_a_head_of_pairs_reads_both_texts_as_one_sequence(
    encoder: Encoder, sentences: list[str]
) -> None:
    from isotune.data.packed import Packed

    pairs = list(pairwise(sentences))
    classifier = Classifier(encoder, drawn_head(encoder, pooling="cls", pairs=True))
    expected = []
    for first, second in pairs:
        (ids,), (count,) = encoder.tokenize_pairs([first], [second])
        types = torch.tensor([0] * count + [1] * (len(ids) - count))
        tokens = Packed(torch.tensor(ids), torch.tensor([len(ids)]), torch.zeros(1).long(), types)
        with torch.no_grad():
            expected.append(encoder.pool(tokens, pooling=Pooling("cls"))[0].numpy())
    outputs = classifier.head.outputs(np.stack(expected))
    np.testing.assert_allclose(classifier.predict_proba(pairs), softmax(outputs), atol=1e-5)
    with pytest.raises(InputError, match="pair 1 is 'a dog'; give two strings"):
        classifier.predict([("a", "b"), "a dog"])  # type: ignore[list-item]


def test_several_labels_and_scores(encoder: Encoder, sentences: list[str]) -> None:
    head = drawn_head(encoder, kind="multi")
    outputs = head.outputs(encoder.encode(sentences))
    several = Classifier(encoder, head)
    probabilities = 1 / (1 + np.exp(-outputs.astype(np.float64)))
    np.testing.assert_allclose(several.predict_proba(sentences), probabilities, atol=1e-5)
    assert several.predict(sentences) == [
        tuple(label for label, share in zip(LABELS, row, strict=True) if share > 0.5)
        for row in probabilities
    ]
    scores = Classifier(encoder, drawn_head(encoder, kind="score", labels=()))
    expected = scores.head.outputs(encoder.encode(sentences))[:, 0]
    np.testing.assert_allclose(scores.predict(sentences), expected, atol=1e-5)
    with pytest.raises(InputError, match="numbers, which have no probabilities"):
        scores.predict_proba(sentences)


@pytest.mark.parametrize("kind", ["single", "multi"])
def test_the_temperature_minimises_the_log_loss(kind: str, encoder: Encoder) -> None:
    """Of outputs that are three times too large, it is about 3."""
    generator = np.random.default_rng(1)
    outputs = generator.normal(size=(4000, 3)).astype(np.float32)
    if kind == "single":
        noise = generator.gumbel(size=outputs.shape)
        targets = (outputs + noise).argmax(axis=1)
    else:
        targets = (generator.logistic(size=outputs.shape) < outputs).astype(int)
    head = drawn_head(encoder, kind=kind).calibrated(3 * outputs, targets)
    assert head.settings.temperature == pytest.approx(3, rel=0.1)
    assert head.settings.calibration_rows == 4000


def test_rows_without_an_error_give_no_temperature_of_0(encoder: Encoder) -> None:
    outputs = np.array([[4.0, 0.0, 0.0], [0.0, 4.0, 0.0]], np.float32)
    head = drawn_head(encoder).calibrated(outputs, np.array([0, 1]))
    np.testing.assert_allclose(head.probabilities(outputs)[0], [3 / 5, 1 / 5, 1 / 5], atol=1e-3)
    assert drawn_head(encoder).calibrated(outputs[:0], np.array([], int)).settings.temperature == 1


def test_the_checksums_cover_the_head(folder: Path) -> None:
    weights = folder / "classifier" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(InputError, match=r"classifier/model.safetensors is damaged"):
        Classifier.load(folder)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"labels": ["a", "b"]}, "weights of shape"),
        ({"labels": ["a", "b", "b"]}, "each label has to be another text"),
        ({"labels": []}, "kind single needs 2 labels or more"),
        ({"kind": "other"}, "kind"),
        ({"temperature": 0}, "temperature"),
        ({"softmax": True}, "softmax"),
        ({"pooling": "no"}, "pooling"),
    ],
)
def test_a_head_whose_files_do_not_fit_is_refused(
    folder: Path, change: dict[str, object], problem: str
) -> None:
    path = folder / "classifier" / "classifier.json"
    settings = json.loads(path.read_text())
    path.write_text(json.dumps(settings | change))
    (folder / "SHA256SUMS").unlink()
    with pytest.raises(InputError, match=problem):
        Classifier.load(folder)


def test_a_head_without_its_weights_or_with_nan_is_refused(folder: Path, encoder: Encoder) -> None:
    (folder / "SHA256SUMS").unlink()
    (folder / "classifier" / "model.safetensors").unlink()
    with pytest.raises(InputError, match="it can't be loaded"):
        Classifier.load(folder)
    head = drawn_head(encoder)
    weights = head.weights.copy()
    weights[0, 0] = np.nan
    with pytest.raises(InputError, match="NaN or infinite"):
        ClassifierHead(head.settings, weights, head.bias)
    with pytest.raises(InputError, match="reads vectors with 31 features, and the encoder gives"):
        Classifier(encoder, ClassifierHead(head.settings, weights[:, 1:], head.bias))


def test_which_head_of_a_folder_is_read(folder: Path, encoder: Encoder, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has a single classifier; leave task out"):
        Classifier.load(folder, task="stars")
    shutil.rmtree(folder / "classifier")
    (folder / "SHA256SUMS").unlink()
    with pytest.raises(InputError, match="it has no classifier, only an encoder; train"):
        Classifier.load(folder)
    heads = {"stars": drawn_head(encoder), "topic": drawn_head(encoder, kind="multi")}
    encoder.save(tmp_path / "two", heads)
    with pytest.raises(InputError, match="it has classifiers for stars, topic; name a task"):
        Classifier.load(tmp_path / "two")
    with pytest.raises(InputError, match="unknown task 'topics': did you mean 'topic'"):
        Classifier.load(tmp_path / "two", task="topics")
    assert Classifier.load(tmp_path / "two", task="topic").kind == "multi"
