"""The geometry of an encoder's space as a task: which sentences are encoded, and which pairs count as positive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from isotune.data import DATASETS, LabelledPair, read, read_scored_pairs
from isotune.errors import InputError
from isotune.evaluation.geometry import alignment, effective_rank, isotropy, mean_cosine, uniformity
from isotune.evaluation.results import GeometryResult
from isotune.evaluation.vectors import SentenceEncoder, sentence_vectors, to_encoder_device

POSITIVE = 0.8
"""A scored pair is positive from this share of the greatest score on: 4 of 5, as on STS-B in SimCSE (section 3)."""


@dataclass(frozen=True, eq=False)
class GeometryTask:
    """Pairs of sentences, some of which should lie close together. There are two sentences and a positive at least."""

    name: str  # that the user gives, such as "geometry:stsb:dev"
    data: str  # where the pairs come from, such as "stsb:dev"
    pairs: Sequence[tuple[str, str]]
    positives: Sequence[tuple[str, str]]  # those that should lie close together
    positive: str  # what makes a pair positive, in words

    def __post_init__(self) -> None:
        if len(self.sentences) < 2:
            raise InputError(f"{self.data}: one sentence only; the geometry of a space needs different sentences")
        if not self.positives:
            raise InputError(f"{self.data}: no pair has a {self.positive}; alignment needs positive pairs")

    @property
    def sentences(self) -> list[str]:
        """The distinct sentences of all pairs."""
        return list(dict.fromkeys(sentence for pair in self.pairs for sentence in pair))

    def score(self, encoder: SentenceEncoder) -> GeometryResult:
        """Computes every measure on the encoder's vectors."""
        sentences = self.sentences
        place = {sentence: i for i, sentence in enumerate(sentences)}
        vectors = to_encoder_device(sentence_vectors(encoder, sentences, self.name), encoder)  # [N, d]
        first, second = (vectors[[place[pair[side]] for pair in self.positives]] for side in (0, 1))
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


def load_geometry(name: str, source: str) -> GeometryTask:
    """Reads scored pairs; those with at least `POSITIVE` of the greatest score are positive.

    The greatest score is the highest possible score of a named dataset, and the highest score present in a file.
    `source` is a file or a dataset's split, as `read_scored_pairs` takes it.
    """
    scored = read_scored_pairs(source)
    greatest = DATASETS[scored.name].scores[1] if scored.name in DATASETS else float(scored.scores.max())
    pairs = list(zip(scored.sentence1, scored.sentence2, strict=True))
    positives = [pair for pair, score in zip(pairs, scored.scores, strict=True) if score >= POSITIVE * greatest]
    return GeometryTask(name, source, pairs, positives, f"score of {POSITIVE * greatest:g} or more")


def load_labelled_geometry(name: str, source: str) -> GeometryTask:
    """Reads the labelled pairs of a named dataset's split; those labelled as meaning the same are positive."""
    label = DATASETS[source.partition(":")[0]].positive
    rows = list(read(source, LabelledPair))
    positives = [row[:2] for row in rows if row.label == label]
    return GeometryTask(name, source, [row[:2] for row in rows], positives, f"label {label}")
