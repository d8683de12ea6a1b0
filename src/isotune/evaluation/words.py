"""The cosine baseline of SemEval-2017 (Cer et al. 2017): sentences are similar that share words; it needs no model."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class SharedWords:
    """Gives each word a feature, which is 1 in the vectors of the sentences that have the word."""

    def encode(self, sentences: Sequence[str], /) -> NDArray[np.float32]:
        """Returns [N, d] vectors of N sentences, which have d words in all.

        A word is a run of letters and digits, in lower case, or a punctuation mark. With these words the Pearson
        correlation on SemEval-2017's Spanish pairs is the published 71.17; split at blanks alone it is 68.22.
        """
        words = [re.findall(r"\w+|[^\w\s]", sentence.lower()) for sentence in sentences]
        features = {word: number for number, word in enumerate(dict.fromkeys(word for of in words for word in of))}
        vectors = np.zeros((len(sentences), len(features)), np.float32)
        for vector, of_sentence in zip(vectors, words, strict=True):
            vector[[features[word] for word in of_sentence]] = 1
        return vectors
