"""Retrieval: are the documents that answer a query nearer to it than all other documents?

The vector of each query is compared with that of each document, by cosine, without an index that
may miss some. Which documents answer a query is said by people, or by structure that text has
anyway: a title finds its body.

The measures are those of trec_eval, on which BEIR and mteb rest. The gain of a document is its
grade, and the gain at rank r counts 1 / log2(r + 1). Of equally near documents, the one with the
larger id comes first.
"""

import logging
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from isotune.data import Pair, ScoredPairs, Sentence
from isotune.data.derived import RowQuery
from isotune.data.records import read_file
from isotune.data.rows import Record, match_columns, normalized, to_rows
from isotune.data.sources import Source, read_records
from isotune.errors import InputError, as_input_error, counted, unknown
from isotune.evaluation.copies import Groups, groups_of_copies, tell_copies
from isotune.evaluation.intervals import resampled_means
from isotune.evaluation.results import (
    RANKING_MEASURES,
    Aggregation,
    Metric,
    RetrievalResult,
    ranking_scores,
)
from isotune.evaluation.task_rows import (
    AMONG,
    place_and_columns,
    place_and_others,
    place_and_part,
    rows_of,
)
from isotune.evaluation.vectors import (
    Floats,
    SentenceEncoder,
    nearest,
    sentence_vectors,
    unit_length,
)

T = TypeVar("T", bound=Hashable)

logger = logging.getLogger(__name__)

DEPTH = 100
"""The ranks that are looked at."""

FUSION = 60
"""What is added to a rank where rankings are joined."""

DISCOUNTS = 1 / np.log2(np.arange(2, 12))
"""The discounts of the first ten ranks."""


@dataclass(frozen=True, eq=False)
class RetrievalTask:
    """Queries, and documents among which their answers are to be found."""

    name: str
    """The name that the user gives, such as "retrieval:nfcorpus"."""

    queries: Sequence[str]

    documents: Sequence[str]
    """The documents; of equally near ones, an earlier one is ranked first."""

    grades: Sequence[Mapping[int, int]]
    """For each query, how well documents answer it: their grades, from 1 on, by their numbers."""

    measure = RANKING_MEASURES[0]
    """What the task's score is."""

    unit = "queries"
    """What the task's rows are."""

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
        queries: list[str] = []
        documents: list[str] = []
        scores: list[int] = []
        for query, grades in zip(self.queries, self.grades, strict=True):
            queries += [query] * len(grades)
            documents += [self.documents[number] for number in grades]
            scores += grades.values()
        return ScoredPairs(
            name=self.name,
            split="",
            sentence1=queries,
            sentence2=documents,
            scores=np.array(scores, np.float64),
            subsets=[self.name] * len(scores),
        )

    def score(self, encoder: SentenceEncoder) -> tuple[RetrievalResult, Floats]:
        """Ranks the documents for each query by the encoder's cosines.

        The values are the measures, [N, measures].
        """
        return self.result_of(self.rankings(encoder))

    @property
    def score_names(self) -> list[str]:
        """The names of the measures."""
        return ranking_scores(self.name)

    def texts(self) -> dict[str, list[str]]:
        """The different queries and documents."""
        queries = list(dict.fromkeys(self.queries))
        documents = list(dict.fromkeys(self.documents))
        return {"query": queries, "document": documents}

    def resampled(
        self,
        values: Floats,
        aggregation: Aggregation = "all",
        metric: Metric = "spearman",
        seed: int = 0,
    ) -> dict[str, Floats]:
        """The means of the measures [N, measures] on samples of the queries."""
        means = resampled_means(values, seed, self.groups)  # [resamples, measures]
        return dict(zip(self.score_names, means.T, strict=True))

    def rankings(self, encoder: SentenceEncoder) -> NDArray[np.int64]:
        """The numbers of up to `DEPTH` documents for each query, [N, depth], the nearest first."""
        encode_query = getattr(encoder, "encode_query", encoder.encode)
        encode_document = getattr(encoder, "encode_document", encoder.encode)
        queries = sentence_vectors(encode_query, self.queries, self.name)
        documents = sentence_vectors(encode_document, self.documents, self.name)
        _, rankings = nearest(
            unit_length(queries.astype(np.float32)),
            unit_length(documents.astype(np.float32)),
            DEPTH,
        )
        return rankings

    def result_of(self, rankings: Iterable[NDArray[np.int64]]) -> tuple[RetrievalResult, Floats]:
        """What the rankings of all queries are, as `score` gives it.

        A ranking has the numbers of up to `DEPTH` documents, the nearest first.
        """
        rows = zip(rankings, self.grades, strict=True)
        values = np.array([_measures(ranking, grades) for ranking, grades in rows])
        means = values.mean(0).tolist()
        result = RetrievalResult(
            name=self.name,
            queries=len(self.queries),
            documents=len(self.documents),
            measures=dict(zip(RANKING_MEASURES, means, strict=True)),
        )
        return result, values


def fused(*rankings: Iterable[T]) -> list[T]:
    """One ranking of several: by the sum of 1 / (60 + rank), the largest first.

    It is reciprocal rank fusion (Cormack, Clarke and Buettcher, 2009). Of equal sums, the one that
    stands first in the rankings comes first.
    """
    return list(fused_scores(*rankings))


def fused_scores(*rankings: Iterable[T]) -> dict[T, float]:
    """The sums of `fused`, the largest first."""
    scores: defaultdict[T, float] = defaultdict(float)
    for ranking in rankings:
        for rank, item in enumerate(ranking, 1):
            scores[item] += 1 / (FUSION + rank)
    order = sorted(scores, key=lambda item: -scores[item])
    return {item: scores[item] for item in order}


def _measures(ranking: NDArray[np.int64], grades: Mapping[int, int]) -> list[float]:
    """The measures of a query, in the order of their names."""
    gains = np.array([grades.get(number, 0) for number in ranking.tolist()])
    ideal = np.sort(list(grades.values()))[::-1][:10]
    gain = gains[:10] @ DISCOUNTS[: len(gains)]
    ndcg = gain / (ideal @ DISCOUNTS[: len(ideal)])
    # The ranks of answers, from 0.
    (hits,) = np.nonzero(gains)
    reciprocal_rank = 0.0
    if (hits < 10).any():
        reciprocal_rank = 1 / (hits[0] + 1)
    recalls = [np.count_nonzero(hits < depth) / len(grades) for depth in (1, 10, 100)]
    return [float(ndcg), reciprocal_rank, *recalls]


def load_retrieval(name: str, source: Source) -> RetrievalTask:
    """Reads pairs as `rows_of` does.

    Behind pairs may stand more texts to search among: "test.csv,question,answer,among=all.csv".
    The source may be a folder in BEIR's layout, such as "nfcorpus" or "nfcorpus:dev".
    """
    if not isinstance(source, str):
        return task_of_pairs(name, rows_of(source, Pair))
    source, others = place_and_others(source)
    place, part = place_and_part(source)
    if Path(place).is_dir():
        if others:
            raise InputError(f"{name}: {place} has a corpus of its own; leave {AMONG} out")
        return _read_folder(name, Path(place), part.removeprefix(":") or "test")
    pairs = rows_of(source, Pair)
    if not others:
        return task_of_pairs(name, pairs)
    _, columns = place_and_columns(source, Pair)
    return task_of_pairs(name, pairs, _texts_of(others, columns or {}))


def _texts_of(source: str, columns: Mapping[str, str]) -> Iterator[str]:
    """The texts of a source: those of the answers' column, or else of a usual one.

    The first texts of pairs are questions, and are not searched among.
    """
    for file in read_records(source, RowQuery(Sentence)):
        records = list(file.records)
        named = {}
        if records:
            named = _column_of_answers(records[0][1], columns)
        for row in to_rows(file.place, records, Sentence, named):
            yield row.sentence


def _column_of_answers(available: Collection[str], columns: Mapping[str, str]) -> dict[str, str]:
    """The column that the pairs name, or the second one of usual pairs; empty if there is none."""
    column = columns.get("sentence2", "")
    if column in available:
        return {"sentence": column}
    for _, second in match_columns(Pair, available, {}):
        return {"sentence": second}
    return {}


def task_of_pairs(name: str, pairs: Sequence[Pair], others: Iterable[str] = ()) -> RetrievalTask:
    """The task of finding the second text of each pair among all second texts and others."""
    queries = list(dict.fromkeys(pair.sentence1 for pair in pairs))
    answers = [pair.sentence2 for pair in pairs]
    documents = list(dict.fromkeys([*answers, *others]))
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
        logger.warning(
            "%s: %s answered by the same text, which every encoder finds; leave out such rows",
            name,
            counted(len(own), "query"),
        )


def _read_folder(name: str, folder: Path, split: str) -> RetrievalTask:
    """Reads a split of a task in BEIR's layout."""
    splits = {path.name.split(".")[0]: path for path in sorted(folder.glob("qrels/*"))}
    if not splits:
        raise InputError(
            f"{folder}: no qrels in it; a folder of a retrieval task has corpus.jsonl, "
            "queries.jsonl and qrels/test.tsv"
        )
    if split not in splits:
        raise unknown(f"split of {folder}", split, splits)
    problem = f"{folder}: a column or an id is missing, or a score is no whole number"
    with as_input_error((KeyError, ValueError), problem):
        queries = _read_texts(folder / "queries.jsonl")
        corpus = _read_texts(folder / "corpus.jsonl")
        # Of equally near documents, the one with the larger id comes first.
        ids = sorted(corpus, reverse=True)
        numbers = {key: number for number, key in enumerate(ids)}
        grades: dict[str, dict[int, int]] = {}
        for _, row in read_file(splits[split]):
            grade = int(str(row["score"]))
            if grade > 0:
                query = str(row["query-id"])
                grades.setdefault(query, {})[numbers[str(row["corpus-id"])]] = grade
        asked = [str(queries[key]["text"]) for key in grades]
        documents = [_title_and_text(corpus[key]) for key in ids]
    if not asked:
        raise InputError(
            f"{splits[split]}: no document has a score above 0, so no query has an answer"
        )
    return RetrievalTask(name, asked, documents, list(grades.values()))


def _read_texts(path: Path) -> dict[str, Record]:
    """The records of a file by their ids."""
    return {str(row["_id"]): row for _, row in read_file(path)}


def _title_and_text(document: Record) -> str:
    """The text of a document, behind its title if it has one."""
    title = document.get("title") or ""
    return f"{title} {document['text']}".strip()
