"""/predict gives the probabilities of a classifier, in the form of text-embeddings-inference."""

from collections.abc import Iterator
from itertools import pairwise

import httpx2
import numpy as np
import pytest

from isotune import Classifier, ClassifierHead, Encoder, HeadSettings
from tests.use.serve.conftest import Running, running

LABELS = ("bad", "good", "so so")


@pytest.fixture(scope="module")
def classifiers(tiny: Encoder) -> dict[str, Classifier]:
    made = {}
    for name, settings in {
        "tiny": HeadSettings(kind="single", labels=LABELS, temperature=2.0),
        "tiny/topics": HeadSettings(kind="multi", labels=LABELS, pooling="cls"),
        "tiny/stars": HeadSettings(kind="score"),
        "tiny/pairs": HeadSettings(kind="single", labels=LABELS, pooling="cls", pairs=True),
    }.items():
        generator = np.random.default_rng(3)
        weights = generator.normal(size=(settings.width, tiny.dimension)).astype(np.float32)
        bias = generator.normal(size=settings.width).astype(np.float32)
        made[name] = Classifier(tiny, ClassifierHead(settings, weights, bias))
    return made


@pytest.fixture(scope="module")
def predicting(tiny: Encoder, classifiers: dict[str, Classifier]) -> Iterator[Running]:
    with running({"tiny": tiny}, classifiers=classifiers) as server:
        yield server


def scores_of(answer: httpx2.Response) -> np.ndarray:
    """The scores [N, classes] of a batch, by the order of the labels."""
    assert answer.status_code == 200, answer.text
    rows = []
    for predictions in answer.json():
        scores = [prediction["score"] for prediction in predictions]
        assert scores == sorted(scores, reverse=True)
        by_label = {prediction["label"]: prediction["score"] for prediction in predictions}
        rows.append([by_label[label] for label in LABELS])
    return np.array(rows)


@pytest.mark.parametrize("model", ["tiny", "tiny/topics"])
def test_a_batch_gets_the_probabilities_of_all_labels(
    predicting: Running, classifiers: dict[str, Classifier], sentences: list[str], model: str
) -> None:
    classifier = classifiers[model]
    batch = [[sentence] for sentence in sentences]
    found = scores_of(predicting.post("/predict", inputs=batch, model=model))
    np.testing.assert_allclose(found, classifier.predict_proba(sentences), atol=1e-5)
    raw = scores_of(predicting.post("/predict", inputs=batch, model=model, raw_scores=True))
    (outputs,) = [outputs for _, outputs in classifier.outputs(sentences)]
    np.testing.assert_allclose(raw, outputs, atol=1e-4)


def test_a_single_text_gets_a_list_of_labels(
    predicting: Running, classifiers: dict[str, Classifier]
) -> None:
    answer = predicting.post("/predict", inputs="a dog", truncate=True).json()
    assert answer[0]["label"] == classifiers["tiny"].predict(["a dog"])[0]
    assert [*answer[0]] == ["score", "label"]
    assert sum(prediction["score"] for prediction in answer) == pytest.approx(1)
    assert len(answer) == 3


def test_pairs_are_one_sequence(
    predicting: Running, classifiers: dict[str, Classifier], sentences: list[str]
) -> None:
    pairs = list(pairwise(sentences))
    answer = predicting.post("/predict", inputs=[list(pair) for pair in pairs], model="tiny/pairs")
    expected = classifiers["tiny/pairs"].predict_proba(pairs)
    np.testing.assert_allclose(scores_of(answer), expected, atol=1e-5)
    (first,) = {
        predicting.post("/predict", inputs=list(pairs[0]), model="tiny/pairs").json()[0]["label"]
    }
    assert first == classifiers["tiny/pairs"].predict(pairs[:1])[0]


def test_a_score_has_one_label(predicting: Running, classifiers: dict[str, Classifier]) -> None:
    (prediction,) = predicting.post("/predict", inputs="a dog", model="tiny/stars").json()
    (expected,) = classifiers["tiny/stars"].predict(["a dog"])
    assert prediction == {"score": pytest.approx(expected, abs=1e-5), "label": "score"}


def test_the_vectors_of_embeddings_stay_as_they_are(
    predicting: Running, tiny: Encoder, sentences: list[str]
) -> None:
    answer = predicting.embed(sentences).json()["data"]
    vectors = np.array([row["embedding"] for row in answer])
    np.testing.assert_allclose(vectors, tiny.encode(sentences, normalize=True), atol=1e-6)


@pytest.mark.parametrize(
    ("model", "inputs", "message"),
    [
        ("tiny", ["a", "b"], "inputs: this classifier takes a text, or a batch of them"),
        ("tiny", [["a"], "b", ["c", "d"]], "this classifier takes a text, or a batch of them"),
        ("tiny", [[]], "this classifier takes a text"),
        ("tiny", [], "`array` of length >= 1"),
        ("tiny", 1, "a batch of 1 to 2,048 texts"),
        ("tiny/pairs", "a", 'this classifier takes a pair ["first", "second"]'),
        ("tiny", "a" * 70_000, "a text of 70,000 characters"),
    ],
)
def test_wrong_inputs_are_refused(
    predicting: Running, model: str, inputs: object, message: str
) -> None:
    answer = predicting.post("/predict", inputs=inputs, model=model)
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]


def test_a_model_without_a_classifier_is_not_found(predicting: Running, server: Running) -> None:
    answer = predicting.post("/predict", inputs="a", model="cls")
    assert answer.status_code == 404
    assert "model 'cls' has no classifier; this server has" in answer.json()["error"]["message"]
    answer = server.post("/predict", inputs="a")
    assert answer.status_code == 404
    assert "this server has no classifier" in answer.json()["error"]["message"]


def test_the_answer_is_described(predicting: Running) -> None:
    description = predicting.client.get("/openapi.json").json()
    answers = description["paths"]["/predict"]["post"]["responses"]
    schema = answers["200"]["content"]["application/json"]["schema"]
    assert schema["type"] == "array"
    assert "Prediction" in description["components"]["schemas"]
