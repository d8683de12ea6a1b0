"""`SentenceVectors` in scikit-learn: pipelines, clones, pickles, and those of its checks that need no numbers as X.

scikit-learn makes its other checks with matrices of numbers, and leaves them out for an estimator of strings.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks as checks

from isotune.encoder.encoder import Encoder
from isotune.integrations.sklearn import SentenceVectors


@pytest.mark.parametrize(
    "check",
    [
        checks.check_estimator_cloneable,
        checks.check_estimator_repr,
        checks.check_estimator_tags_renamed,
        checks.check_do_not_raise_errors_in_init_or_set_params,
        checks.check_get_params_invariance,
        checks.check_mixin_order,
        checks.check_no_attributes_set_in_init,
        checks.check_parameters_default_constructible,
        checks.check_set_params,
        checks.check_valid_tag_types,
    ],
    ids=lambda check: check.__name__,
)
def test_checks_of_scikit_learn(check: object) -> None:
    assert callable(check)
    check("SentenceVectors", SentenceVectors())


def test_vectors_are_those_of_encode(tiny_model: Path, sentences: list[str]) -> None:
    vectors = SentenceVectors(str(tiny_model), normalize=False)
    with pytest.raises(NotFittedError):
        vectors.transform(sentences)
    expected = Encoder.load(tiny_model).encode(sentences)
    np.testing.assert_array_equal(vectors.fit_transform(np.array(sentences)), expected)
    assert list(vectors.get_feature_names_out())[-1] == "sentencevectors31"
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(vectors)).transform(sentences), expected)


def test_a_search_over_a_pipeline(tiny_model: Path, sentences: list[str]) -> None:
    labels = ["dog" if "dog" in sentence else "none" for sentence in sentences]
    pipeline = make_pipeline(SentenceVectors(str(tiny_model)), LogisticRegression(C=1000, max_iter=1000))
    search = GridSearchCV(pipeline, {"sentencevectors__normalize": [True, False]}, cv=2, error_score="raise")
    search.fit(sentences, labels)
    assert search.best_score_ > 0.6
    assert set(search.predict(sentences)) == {"dog", "none"}


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ("a dog", "X is one str; give a list of sentences"),
        (pd.DataFrame({"text": ["a dog"], "n": ["a cat"]}), "X is one DataFrame; give .* one column of a table"),
        (np.array([["a dog"], ["a cat"]]), "X is one ndarray"),
        (["a dog", None], r"X has None \(NoneType\); each sentence is a string"),
        (pd.Series(["a dog", float("nan")], dtype=object), r"X has nan \(float\)"),
    ],
)
def test_what_is_no_list_of_sentences_is_refused(tiny_model: Path, X: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SentenceVectors(str(tiny_model)).fit(X).transform(X)
    with pytest.raises(ValueError, match=message):
        SentenceVectors(str(tiny_model), method="simcse").fit(X)


def test_fit_trains(tiny_model: Path, sentences: list[str]) -> None:
    options = {"steps": 2, "batch_size": 8, "dev": "none", "learning_rate": 1e-3}
    vectors = clone(SentenceVectors(str(tiny_model), method="simcse", options=options))
    trained = vectors.fit(iter(sentences)).transform(sentences)
    assert trained.shape == (60, 32)
    np.testing.assert_allclose(np.linalg.norm(trained, axis=1), 1, rtol=1e-5)
    assert abs(trained - Encoder.load(tiny_model).encode(sentences, normalize=True)).max() > 1e-4
    assert vectors.encoder_.fingerprint() != Encoder.load(tiny_model).fingerprint()
