"""Controls: what a score is worth beside a rule that knows only the words of the texts.

A control is scored on the rows that an encoder is scored on, so that the difference has an
interval:

- scored pairs: the share of common words (Jaccard);
- texts with labels: the largest class, and a bag of words (TF-IDF);
- queries and documents: BM25.

A word is a run of letters, marks, digits and underscores, in lower case. Of Chinese and Japanese,
each character is a word; of Thai, Lao, Khmer and Burmese, which write no spaces between words
either, every two neighbouring characters are. Nothing is stemmed, and no word is left out. All
texts without a word have the empty word, so that they are equal to each other.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import regex
from numpy.typing import NDArray

from isotune.evaluation import sts
from isotune.evaluation.classifiers import ClassifierResult, predict_other_rows
from isotune.evaluation.probes import Integers
from isotune.evaluation.results import RetrievalResult, STSResult, TaskResult, TransferResult
from isotune.evaluation.retrieval import DEPTH, RetrievalTask
from isotune.evaluation.sts import STSTask
from isotune.evaluation.transfer import TransferTask
from isotune.evaluation.vectors import Floats

C = 10.0
"""scikit-learn's C of the logistic regression on TF-IDF.

Measured in docs/evaluation.md.
"""

SYLLABLES = r"\p{Han}\p{Hiragana}\p{Katakana}ー"
"""The characters each of which is a word, or much of a word."""

UNSPACED = r"\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
"""The letters of other scripts that write no spaces between words."""

RUNS = regex.compile(
    rf"(?V1)[{SYLLABLES}]|(?P<unspaced>[{UNSPACED}]+)|[\w--[{SYLLABLES}{UNSPACED}]]+"
)


class Control(NamedTuple):
    """A rule that is scored beside encoders."""

    name: str

    kind: type
    """The class of the tasks that the control knows."""

    score: Callable[[Any], tuple[TaskResult, Floats] | None]
    """Scores the control as the task's `score` scores an encoder; None if it has no score."""

    def score_if_known(self, task: object) -> tuple[TaskResult, Floats] | None:
        """The control's score; None if the control does not know such tasks, or has no score."""
        if not isinstance(task, self.kind):
            return None
        return self.score(task)


def words(text: str) -> list[str]:
    """The words of a text in their order, as this module has them."""
    found = []
    for run in RUNS.finditer(text.lower()):
        if run["unspaced"]:
            found += _neighbours(run[0])
        else:
            found.append(run[0])
    return found or [""]


def _neighbours(run: str) -> list[str]:
    """Every two neighbouring characters, or the only one."""
    if len(run) == 1:
        return [run]
    return [run[place : place + 2] for place in range(len(run) - 1)]


def common_words(task: STSTask) -> tuple[STSResult, Floats] | None:
    """Correlates the share of common words of each pair with the gold scores.

    The share is Jaccard's: the words that both texts have, divided by those that one of them has.
    None if all pairs have the same share.
    """
    pairs = task.pairs
    both = zip(pairs.sentence1, pairs.sentence2, strict=True)
    shares = np.array([_share(set(words(first)), set(words(second))) for first, second in both])
    if np.ptp(shares) == 0:
        return None
    return sts.score(pairs, shares), shares


def _share(first: set[str], second: set[str]) -> float:
    return len(first & second) / len(first | second)


def largest_class(task: TransferTask) -> tuple[TransferResult, Floats]:
    """Predicts the most frequent class of the training rows for every row."""
    _, targets = task.parts["train"]
    _, tested = task.tested
    predictions = np.full_like(tested, np.bincount(targets).argmax())
    outcome = ClassifierResult(predictions, "the most frequent class of train", None, ())
    return task.result_of(outcome, "the largest class")


def bag_of_words(task: TransferTask) -> tuple[TransferResult, Floats]:
    """Trains a logistic regression on the words of the texts (TF-IDF).

    It is trained and tested on the rows on which the classifier of the encoder's vectors is. A
    pair of texts has the features of a pair of vectors.
    """
    parts = {}
    words_of_texts: dict[str, list[str]] = {}
    for split, (columns, targets) in task.parts.items():
        texts = np.array(columns, dtype=object).T  # [N, columns]
        parts[split] = texts, targets
        # Every fold reads these words again.
        words_of_texts |= {text: words(text) for text in texts.flat}
    predict = partial(_predict_by_words, words_of_texts)
    predictions, protocol = predict_other_rows(predict, parts, task.groups)
    outcome = ClassifierResult(predictions, protocol, None, (C,))
    return task.result_of(outcome, f"logistic regression on TF-IDF, C = {C:g}")


def _predict_by_words(
    words_of_texts: Mapping[str, list[str]],
    texts: NDArray[np.object_],
    classes: Integers,
    tested: NDArray[np.object_],
) -> Integers:
    """The classes of tested texts [M, columns], by texts [N, columns] and their classes [N]."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    tf_idf = TfidfVectorizer(analyzer=words_of_texts.__getitem__).fit(texts.ravel())
    regression = LogisticRegression(C=C, max_iter=1000)
    regression.fit(_word_features(tf_idf, texts), classes)
    return regression.predict(_word_features(tf_idf, tested))


def _word_features(tf_idf: Any, texts: NDArray[np.object_]) -> Any:
    """The TF-IDF of N texts, sparse [N, words]; of pairs (u, v), |u - v| and u * v."""
    from scipy.sparse import hstack

    columns = [tf_idf.transform(column) for column in texts.T]
    if len(columns) == 1:
        return columns[0]
    first, second = columns
    return hstack([abs(first - second), first.multiply(second)], format="csr")


def bm25(task: RetrievalTask) -> tuple[RetrievalResult, Floats]:
    """Ranks the documents that share a word with the query by BM25."""
    return task.result_of(rankings_by_words(task))


# A run, and a comparison, ask for the rankings of a task once for each encoder.
@lru_cache(maxsize=4)
def rankings_by_words(task: RetrievalTask) -> list[Integers]:
    """For each query, the numbers of up to `DEPTH` documents by BM25, the best first.

    The formula is Lucene's, with k1 = 1.5 and b = 0.75 (Kamphuis et al. 2020). Of two documents
    with the same score, an earlier one is ranked first.
    """
    from bm25s import BM25

    # On import, this library logs everything, whatever the program's level is.
    logging.getLogger("bm25s").setLevel(logging.WARNING)
    numbers: dict[str, int] = {}
    documents = []
    for document in task.documents:
        documents.append([numbers.setdefault(word, len(numbers)) for word in words(document)])
    index = BM25()
    index.index((documents, numbers), show_progress=False)
    rankings = []
    for query in task.queries:
        known = [numbers[word] for word in words(query) if word in numbers]
        rankings.append(_ranking(index.get_scores_from_ids(known)))
    return rankings


def _ranking(scores: Floats) -> Integers:
    """The numbers of the documents with the highest scores [M] above 0, the highest first."""
    depth = min(DEPTH, len(scores))
    least = np.partition(scores, -depth)[-depth]
    (found,) = np.nonzero((scores >= least) & (scores > 0))
    order = np.argsort(-scores[found], kind="stable")
    return found[order[:DEPTH]]


CONTROLS: Sequence[Control] = (
    Control("common words", STSTask, common_words),
    Control("largest class", TransferTask, largest_class),
    Control("bag of words", TransferTask, bag_of_words),
    Control("BM25", RetrievalTask, bm25),
)
"""All controls, in the order of the tables."""
