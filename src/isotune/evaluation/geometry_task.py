"""The geometry of an encoder's space as a task: on which sentences, and what a positive pair is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from isotune.data import DATASETS, LabelledPair, read, read_scored_pairs
from isotune.errors import InputError
from isotune.evaluation.geometry import alignment, effective_rank, isotropy, mean_cosine, uniformity
from isotune.evaluation.results import GeometryResult
from isotune.evaluation.vectors import SentenceEncoder, on_its_device, sentence_vectors

POSITIVE = 0.8
"""A scored pair is a positive from this share of the greatest score on: 4 of 5, as on STS-B in SimCSE (section 3)."""


@dataclass(frozen=True, eq=False)
class GeometryTask:
    """Sentences, and pairs of them that should lie close together.

    Attributes:
        name: as the user writes it.
        title: in tables.
        data: what they are of, such as "stsb:dev".
        sentences: distinct ones.
        positives: pairs of them.
        positive: what makes a pair one, in words.
    """

    name: str
    title: str
    data: str
    sentences: Sequence[str]
    positives: Sequence[tuple[str, str]]
    positive: str

    def score(self, encoder: SentenceEncoder) -> GeometryResult:
        """Every measure, on the encoder's vectors.

        Raises:
            InputError: the encoder gives a vector with a value that is not finite.
        """
        vectors = on_its_device(sentence_vectors(encoder, self.sentences, self.name), encoder)  # [N, d]
        place = {sentence: i for i, sentence in enumerate(self.sentences)}
        first, second = (vectors[[place[pair[i]] for pair in self.positives]] for i in (0, 1))
        return GeometryResult(
            name=self.name,
            data=self.data,
            sentences=len(vectors),
            positives=len(first),
            positive=self.positive,
            normalisation="vectors scaled to length 1",
            alignment=alignment(first, second),
            uniformity=uniformity(vectors),
            mean_cosine=mean_cosine(vectors),
            isotropy=isotropy(vectors),
            effective_rank=effective_rank(vectors),
        )


def load_geometry(name: str, title: str, source: str) -> GeometryTask:
    """The geometry on scored pairs.

    Args:
        name: of the task.
        title: of the task.
        source: as `read_scored_pairs` takes it. The greatest score is the one possible in a named dataset, and the one
            there is in a file.

    Raises:
        InputError: the pairs can't be read, are of one sentence, or none is a positive.
    """
    pairs = read_scored_pairs(source)
    greatest = DATASETS[pairs.name].scores[1] if pairs.name in DATASETS else float(pairs.scores.max())
    rows = list(zip(pairs.sentence1, pairs.sentence2, strict=True))
    positives = [row for row, score in zip(rows, pairs.scores, strict=True) if score >= POSITIVE * greatest]
    return _task(name, title, source, rows, positives, f"score of {POSITIVE * greatest:g} or more")


def load_labelled_geometry(name: str, title: str, source: str) -> GeometryTask:
    """The geometry on labelled pairs of a named dataset, those that mean the same being the positives.

    Raises:
        InputError: the pairs can't be read.
    """
    label = DATASETS[source.partition(":")[0]].positive
    found = list(read(source, LabelledPair))
    positives = [row[:2] for row in found if row.label == label]
    return _task(name, title, source, [row[:2] for row in found], positives, f"label {label}")


def _task(
    name: str, title: str, data: str, rows: list[tuple[str, str]], positives: list[tuple[str, str]], positive: str
) -> GeometryTask:
    sentences = list(dict.fromkeys(sentence for row in rows for sentence in row))
    if len(sentences) < 2:
        raise InputError(f"{data}: one sentence only; the geometry of a space needs different ones")
    if not positives:
        raise InputError(f"{data}: no pair has a {positive}; alignment needs some")
    return GeometryTask(name, title, data, sentences, positives, positive)
