"""Sentence vectors as a step of a scikit-learn pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from isotune.bundled import BUNDLED_MODEL
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.training import train

TASKS = ("stsb-open",)  # that a training ends with; nobody sees the scores, so the smallest task will do


class SentenceVectors(TransformerMixin, BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
    """Turns sentences into vectors: `fit` loads an encoder, or trains it on the sentences; `transform` encodes.

    X is any sequence of strings: a list, a pandas column, an array of one dimension. Anything else is an InputError,
    which is a ValueError. The parameters follow scikit-learn's rules, so the class works with `clone`, `Pipeline`,
    `GridSearchCV` and pickle.

    Attributes:
        encoder_: the encoder, after `fit`.
    """

    def __init__(
        self,
        model: str = BUNDLED_MODEL,
        *,
        method: str | None = None,
        options: Mapping[str, Any] | None = None,
        normalize: bool = True,
    ) -> None:
        """Keeps the parameters.

        Args:
            model: the encoder or language model: a folder, or a name on the Hugging Face hub.
            method: the method that `fit` trains with, such as "simcse"; None to train nothing.
            options: other options of `isotune.train`.
            normalize: scale each vector to length 1.
        """
        self.model = model
        self.method = method
        self.options = options
        self.normalize = normalize

    def fit(self, X: Iterable[str], y: object = None) -> Self:
        """Loads the encoder, or trains it on the sentences X without their labels y."""
        if self.method is None:
            self.encoder_ = Encoder.load(self.model)
            return self
        with TemporaryDirectory(prefix="isotune-") as folder:
            options = {"model": self.model, "method": self.method, "tasks": TASKS, **(self.options or {})}
            self.encoder_ = Encoder.load(
                train(rows=_sentences(X), out=Path(folder, "run"), quiet=True, **options).encoder
            )
        return self

    def transform(self, X: Iterable[str]) -> NDArray[np.float32]:
        """Encodes N sentences: returns float32 [N, d]."""
        check_is_fitted(self)
        return self.encoder_.encode(_sentences(X), normalize=self.normalize)

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """The names of the d features, such as "sentencevectors0"."""
        check_is_fitted(self)
        return np.array([f"sentencevectors{i}" for i in range(self.encoder_.dimension)], dtype=object)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.one_d_array, tags.input_tags.two_d_array = True, True, False
        tags.no_validation = True
        return tags


def _sentences(X: Iterable[str]) -> list[str]:
    """The sentences of X, in a list; refuses what would be read letter by letter or column by column."""
    if isinstance(X, (str, bytes, Mapping)) or getattr(X, "ndim", 1) != 1:
        raise InputError(f"X is one {type(X).__name__}; give a list of sentences, or one column of a table")
    sentences = list(X)
    for sentence in sentences:
        if not isinstance(sentence, str):
            raise InputError(f"X has {sentence!r:.50} ({type(sentence).__name__}); each sentence is a string")
    return sentences
