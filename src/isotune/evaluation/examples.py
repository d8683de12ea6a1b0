"""Examples of what training changed that a reader can judge: the run folder's `examples.json`.

Training changes the scale of the cosines. So a pair of texts is shown by its place: the share of
the other pairs that are less alike. It can be compared with the place that people or a teacher give
the pair. Gains and losses are chosen by the same rule, so that the examples don't flatter.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from isotune.evaluation.label_examples import LabelExamples
from isotune.evaluation.results import RANKING_MEASURES, Result
from isotune.evaluation.retrieval import RetrievalTask
from isotune.evaluation.text_changes import NEIGHBOURS, shortened
from isotune.evaluation.vectors import Floats, unit_length

EXAMPLES = "examples.json"

GAINS = 6
"""So many examples of gains are shown at most."""

LOSSES = 3
"""So many examples of losses are shown at most."""

SEARCHED = 300
"""The neighbours of so many sentences are kept at most, which bounds the size of the report."""


class JudgedPair(Result):
    """Two texts, and where judges and encoders place the pair.

    A place is the share of the other pairs that are less alike, in [0, 1].
    """

    first: str
    second: str

    judged: float
    """The place by the judges."""

    before: float
    """The place by the start."""

    after: float
    """The place by the encoder kept."""


class PairExamples(Result):
    """The pairs whose places moved most, towards the judges and away from them."""

    pairs: int
    """How many pairs the examples are chosen from."""

    gains: tuple[JudgedPair, ...]
    losses: tuple[JudgedPair, ...]


class FoundAnswer(Result):
    """A query, one of its answers, and the place of the first right answer among the documents.

    The place is None beyond the first ten.
    """

    query: str
    answer: str
    before: int | None
    after: int | None


class AnswerExamples(Result):
    """The queries whose right answers moved most, up and down."""

    queries: int
    """How many queries the examples are chosen from."""

    gains: tuple[FoundAnswer, ...]
    losses: tuple[FoundAnswer, ...]


class Neighbours(Result):
    """Sentences of the text, and for each the nearest of the others, before and after."""

    sentences: tuple[str, ...]

    before: tuple[tuple[int, ...], ...]
    """The places in `sentences` of the nearest ones by the start, the nearest first."""

    before_cosines: tuple[tuple[float, ...], ...]

    after: tuple[tuple[int, ...], ...]
    """The places of the nearest ones by the encoder kept."""

    after_cosines: tuple[tuple[float, ...], ...]

    def newly_near(self) -> list[int]:
        """The sentences whose nearest one was not among the neighbours before.

        Those that the encoder kept finds most alike to their nearest come first.
        """
        found = []
        for number, (old, new) in enumerate(zip(self.before, self.after, strict=True)):
            if new[0] not in old:
                found.append(number)
        return sorted(found, key=lambda number: -self.after_cosines[number][0])


class Examples(Result):
    """The examples of a run. What was not measured is None."""

    people: PairExamples | None = None
    """Pairs of a task, which people have scored."""

    people_of: str = ""
    """The name of this task, or of the dev data."""

    teachers: PairExamples | None = None
    """Pairs of held-out sentences, which the teachers place."""

    answers: AnswerExamples | None = None
    """Queries of a task, and their answers."""

    answers_of: str = ""
    """The name of this task, or of the dev data."""

    labels: LabelExamples | None = None
    """What a classifier on the encoder kept confuses, and texts that it labels."""

    neighbours: Neighbours | None = None
    """The neighbours of sentences of the text."""

    @property
    def has_any(self) -> bool:
        """Whether there is an example to show."""
        labels = self.labels
        has_texts = labels is not None and bool(labels.righted or labels.mistaken)
        return has_texts or any((self.people, self.teachers, self.answers))


def pair_examples(
    texts: Sequence[tuple[str, str]], judged: Floats, before: Floats, after: Floats
) -> PairExamples:
    """Chooses examples of N pairs by the judges' scores [N] and the encoders' cosines [N]."""
    gold = _places(judged)
    old = _places(before)
    new = _places(after)
    pairs = []
    for number, (first, second) in enumerate(texts):
        pair = JudgedPair(
            first=shortened(first),
            second=shortened(second),
            judged=gold[number],
            before=old[number],
            after=new[number],
        )
        pairs.append(pair)
    gains, losses = _clearest(np.abs(old - gold) - np.abs(new - gold))
    return PairExamples(
        pairs=len(pairs),
        gains=tuple(pairs[number] for number in gains),
        losses=tuple(pairs[number] for number in losses),
    )


def answer_examples(task: RetrievalTask, before: Floats, after: Floats) -> AnswerExamples:
    """Chooses examples of a task's N queries by its values [N, measures] of two encoders."""
    measure = RANKING_MEASURES.index("mrr@10")
    old = before[:, measure]
    new = after[:, measure]
    found = []
    for number, (query, grades) in enumerate(zip(task.queries, task.grades, strict=True)):
        answer, *_ = grades
        example = FoundAnswer(
            query=shortened(query),
            answer=shortened(task.documents[answer]),
            before=_rank(old[number]),
            after=_rank(new[number]),
        )
        found.append(example)
    gains, losses = _clearest(new - old)
    return AnswerExamples(
        queries=len(found),
        gains=tuple(found[number] for number in gains),
        losses=tuple(found[number] for number in losses),
    )


def neighbours(sentences: Sequence[str], before: Floats, after: Floats) -> Neighbours:
    """The neighbours of at most `SEARCHED` of n sentences, by vectors [n, d] of two encoders."""
    step = -(-len(sentences) // SEARCHED)
    texts = [shortened(text) for text in sentences[::step]]
    old_cosines, old = _others(before[::step])
    new_cosines, new = _others(after[::step])
    return Neighbours(
        sentences=tuple(texts),
        before=old.tolist(),
        before_cosines=old_cosines.round(3).tolist(),
        after=new.tolist(),
        after_cosines=new_cosines.round(3).tolist(),
    )


def _others(vectors: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """The cosines [n, k] of each of n vectors with its nearest others, and their numbers [n, k]."""
    unit = unit_length(vectors)
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -np.inf)
    k = min(NEIGHBOURS, len(vectors) - 1)
    near = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(cosines, near, axis=1), near


def _places(scores: Floats) -> Floats:
    """For each of N scores, the share of the others that are lower; equal ones count half."""
    ranks = stats.rankdata(scores)
    return (ranks - 1) / max(len(scores) - 1, 1)


def _clearest(gains: Floats) -> tuple[list[int], list[int]]:
    """The numbers of the largest gains above 0, and of the largest losses."""
    order = np.argsort(-gains, kind="stable")
    best = [number for number in order[:GAINS].tolist() if gains[number] > 0]
    worst = [number for number in order[::-1][:LOSSES].tolist() if gains[number] < 0]
    return best, worst


def _rank(reciprocal: float) -> int | None:
    """The place of the first right answer by its reciprocal rank, which is 0 beyond ten."""
    if not reciprocal:
        return None
    return round(1 / reciprocal)
