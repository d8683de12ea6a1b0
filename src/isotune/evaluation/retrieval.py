"""Retrieval: are the documents that answer a query nearer to it than all other documents?

The vector of each query is compared with that of each document, by cosine, without an index that may miss some. Which
documents answer a query is said by people, or by structure that text has anyway: a title finds its body.

The measures are those of trec_eval, on which BEIR and mteb rest. The gain of a document is its grade, and the gain at
rank r counts 1 / log2(r + 1). Of equally near documents, the one with the larger id comes first.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isotune.data import Pair, ScoredPairs
from isotune.data.records import read_file
from isotune.data.rows import normalized
from isotune.data.sources import Source
from isotune.errors import InputError, counted, telling, unknown
from isotune.evaluation.copies import Groups, groups_of_copies, tell_copies
from isotune.evaluation.results import RANKING_MEASURES, RetrievalResult
from isotune.evaluation.task_rows import place_and_part, rows_of
from isotune.evaluation.vectors import (
    Floats,
    SentenceEncoder,
    nearest,
    sentence_vectors,
    unit_length,
)

logger = logging.getLogger(__name__)

DEPTH = 100  # ranks that are looked at
DISCOUNTS = 1 / np.log2(np.arange(2, 12))  # of the first ten ranks


@dataclass(frozen=True, eq=False)
class RetrievalTask:
    """Queries, and documents among which their answers are to be found."""

    name: str  # that the user gives, such as "retrieval:nfcorpus"
    queries: Sequence[str]
    documents: Sequence[str]  # of equally near documents, an earlier one is ranked first
    grades: Sequence[
        Mapping[int, int]
    ]  # for each query, how well documents answer it: by their numbers, from 1 on

    measure = RANKING_MEASURES[0]  # what the task's score is
    unit = "queries"  # what its rows are

    @property
    def groups(self) -> Groups | None:
        """Which queries are copies of each other; None if there are none."""
        return groups_of_copies(self.queries)

    def __post_init__(self) -> None:
        if len(self.documents) < 2:
            raise InputError(
                f"{self.name}: it has one document, which every query finds; give two or more"
            )

    @property
    def pairs(self) -> ScoredPairs:
        """Each query with each of its answers."""
        judged = [
            (query, self.documents[number], grade)
            for query, grades in zip(self.queries, self.grades, strict=True)
            for number, grade in grades.items()
        ]
        queries, documents, grades = map(list, zip(*judged, strict=True))
        return ScoredPairs(
            self.name,
            "",
            queries,
            documents,
            np.array(grades, np.float64),
            [self.name] * len(judged),
        )

    def score(self, encoder: SentenceEncoder) -> tuple[RetrievalResult, Floats]:
        """Ranks the documents for each query by the encoder's cosines; the values are the measures, [N, measures]."""
        asked = sentence_vectors(
            getattr(encoder, "encode_query", encoder.encode), self.queries, self.name
        )
        found = sentence_vectors(
            getattr(encoder, "encode_document", encoder.encode), self.documents, self.name
        )
        queries, documents = (unit_length(vectors.astype(np.float32)) for vectors in (asked, found))
        _, ranked = nearest(queries, documents, DEPTH)
        measured = np.array([_measured(*each) for each in zip(ranked, self.grades, strict=True)])
        values = dict(zip(RANKING_MEASURES, measured.mean(0).tolist(), strict=True))
        counts = {"queries": len(queries), "documents": len(documents)}
        return RetrievalResult(name=self.name, **counts, measures=values), measured


def _measured(ranking: NDArray[np.int64], grades: Mapping[int, int]) -> list[float]:
    """The measures of a query, in the order of their names."""
    gains = np.array([grades.get(number, 0) for number in ranking.tolist()])
    ideal = np.sort(list(grades.values()))[::-1][:10]
    (hits,) = np.nonzero(gains)  # the ranks of answers, from 0
    return [
        float(gains[:10] @ DISCOUNTS[: len(gains)] / (ideal @ DISCOUNTS[: len(ideal)])),
        1 / (hits[0] + 1) if len(hits) and hits[0] < 10 else 0.0,
        *(np.count_nonzero(hits < depth) / len(grades) for depth in (1, 10, 100)),
    ]


def load_retrieval(name: str, source: Source) -> RetrievalTask:
    """Reads pairs as `rows_of` does; or a folder in BEIR's layout, such as "nfcorpus" or "nfcorpus:dev"."""
    if isinstance(source, str):
        place, part = place_and_part(source)
        if Path(place).is_dir():
            return _read_folder(name, Path(place), part.removeprefix(":") or "test")
    pairs = rows_of(source, Pair)
    queries, documents = (list(dict.fromkeys(texts)) for texts in zip(*pairs, strict=True))
    numbers = {text: number for number, text in enumerate(documents)}
    grades: dict[str, dict[int, int]] = {query: {} for query in queries}
    for query, document in pairs:
        grades[query][numbers[document]] = 1
    task = RetrievalTask(name, queries, documents, list(grades.values()))
    tell_copies(name, task.groups, "query", "an interval counts copies as one query")
    _tell_own_answers(name, pairs)
    return task


def _tell_own_answers(name: str, pairs: Sequence[Pair]) -> None:
    """Warns of queries that are their answer, because every encoder finds these."""
    own = {query for query, answer in pairs if normalized(query) == normalized(answer) != b""}
    if own:
        verb = "is its own answer" if len(own) == 1 else "are their own answers"
        logger.warning(
            "%s: %s %s, which every encoder finds; leave out such rows",
            name,
            counted(len(own), "query"),
            verb,
        )


def _read_folder(name: str, folder: Path, split: str) -> RetrievalTask:
    splits = {path.name.split(".")[0]: path for path in sorted(folder.glob("qrels/*"))}
    if not splits:
        raise InputError(
            f"{folder}: no qrels in it; a folder of a retrieval task has corpus.jsonl, queries.jsonl and qrels/test.tsv"
        )
    if split not in splits:
        raise unknown(f"split of {folder}", split, splits)
    with telling(
        (KeyError, ValueError),
        f"{folder}: a column or an id is missing, or a score is no whole number",
    ):
        queries, corpus = (
            {str(row["_id"]): row for _, row in read_file(folder / f"{name}.jsonl")}
            for name in ("queries", "corpus")
        )
        ids = sorted(corpus, reverse=True)
        numbers = {key: number for number, key in enumerate(ids)}
        grades: dict[str, dict[int, int]] = {}
        for _, row in read_file(splits[split]):
            if (grade := int(str(row["score"]))) > 0:
                grades.setdefault(str(row["query-id"]), {})[numbers[str(row["corpus-id"])]] = grade
        asked = [str(queries[key]["text"]) for key in grades]
        documents = [
            f"{corpus[key].get('title') or ''} {corpus[key]['text']}".strip() for key in ids
        ]
    if not asked:
        raise InputError(
            f"{splits[split]}: no document has a score above 0, so no query has an answer"
        )
    return RetrievalTask(name, asked, documents, list(grades.values()))
