"""Retrieval: the measures are those of trec_eval, ties included, and every layout is read."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from isotune.errors import InputError
from isotune.evaluation import (
    compare,
    differences,
    evaluate,
    load_tasks,
    resampled_with_words,
    with_whole_path,
)
from isotune.evaluation import vectors as module
from isotune.evaluation.results import RANKING_MEASURES, Evaluation
from isotune.evaluation.retrieval import RetrievalTask, fused

TREC = ("ndcg_cut_10", "recip_rank_10", "recall_1", "recall_10", "recall_100")


class Numbers:
    """Whole numbers as vectors, so that many documents are equally near.

    A text is a number, and the seed of its vector.
    """

    def encode(self, sentences: Sequence[str], /) -> NDArray[np.float32]:
        axes = [np.random.default_rng(int(text.split()[-1])).integers(6) for text in sentences]
        return np.eye(6, dtype=np.float32)[axes]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A task in BEIR's layout: 3 queries and 4 documents.

    One query has no answer in the test split.
    """
    (tmp_path / "qrels").mkdir()
    documents = [{"_id": f"d{i}", "title": f"title {i}", "text": f"{i}"} for i in range(4)]
    queries = [{"_id": f"q{i}", "text": f"query {i}"} for i in range(3)]
    for name, rows in (("corpus", documents), ("queries", queries)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    header = "query-id\tcorpus-id\tscore\n"
    (tmp_path / "qrels/test.tsv").write_text(
        f"{header}q0\td0\t2\nq0\td3\t1\nq1\td1\t1\nq2\td0\t0\n"
    )
    (tmp_path / "qrels/dev.tsv").write_text(f"{header}q2\td2\t1\n")
    return tmp_path


def loaded(name: str) -> RetrievalTask:
    (task,) = load_tasks(name)
    return task


def test_the_measures_are_those_of_trec_eval(monkeypatch: pytest.MonkeyPatch) -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval")
    generator = np.random.default_rng(3)
    ids = sorted((f"d{i}" for i in range(300)), reverse=True)
    grades = [
        {
            int(n): int(generator.integers(1, 4))
            for n in generator.integers(300, size=generator.integers(1, 30))
        }
        for _ in range(40)
    ]
    task = RetrievalTask(
        "retrieval:x", [f"q {1000 + i}" for i in range(40)], [f"d {i}" for i in range(300)], grades
    )
    monkeypatch.setattr(module, "PRODUCTS", 1000)  # blocks of three queries
    _, measured = task.score(Numbers())
    queries, documents = Numbers().encode(task.queries), Numbers().encode(task.documents)
    run = {
        f"{q}": dict(zip(ids, row.tolist(), strict=True))
        for q, row in enumerate(queries @ documents.T)
    }
    judged = {f"{q}": {ids[n]: grade for n, grade in of.items()} for q, of in enumerate(grades)}
    wanted = pytrec_eval.RelevanceEvaluator(
        judged, {"ndcg_cut.10", "recip_rank", "recall.1,10,100"}
    ).evaluate(run)
    for of_query in wanted.values():
        rank = of_query["recip_rank"]
        of_query["recip_rank_10"] = rank if rank >= 0.1 else 0.0
    np.testing.assert_allclose(
        measured, [[wanted[f"{q}"][name] for name in TREC] for q in range(40)], atol=1e-12
    )
    assert len(np.unique(measured[:, 0])) > 5


def test_a_folder_in_the_layout_of_beir_is_read(folder: Path) -> None:
    task = loaded(f"retrieval:{folder}")
    assert task.queries == ["query 0", "query 1"]
    assert task.documents == [
        "title 3 3",
        "title 2 2",
        "title 1 1",
        "title 0 0",
    ]  # the larger id is first in a tie
    assert task.grades == [{3: 2, 0: 1}, {2: 1}]
    assert loaded(f"retrieval:{folder}:dev").queries == ["query 2"]


def test_pairs_and_columns_are_read(tmp_path: Path) -> None:
    """Equal texts are one query or one document, so that no copy of an answer counts as wrong."""
    rows = [("a 1", "b 1"), ("a 1", "b 2"), ("a 3", "b 2")]
    path = tmp_path / "notes.jsonl"
    path.write_text(
        "".join(json.dumps({"title": title, "body": body}) + "\n" for title, body in rows)
    )
    task = loaded(f"retrieval:{path},title,body")
    assert (task.queries, task.documents) == (["a 1", "a 3"], ["b 1", "b 2"])
    assert task.grades == [{0: 1, 1: 1}, {1: 1}]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "qrels/test.tsv",
            "query-id\tcorpus-id\tscore\nq0\td9\t1\n",
            "an id is missing, or a score",
        ),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq0\td1\tyes\n", "is no whole number"),
        (
            "qrels/test.tsv",
            "query-id\tcorpus-id\tscore\nq0\td1\t0\n",
            "no document has a score above 0",
        ),
        ("queries.jsonl", '{"id": "q0", "text": "query"}\n', "a column or an id is missing"),
    ],
)
def test_a_damaged_folder_is_refused_in_a_line(
    folder: Path, name: str, content: str, message: str
) -> None:
    (folder / name).write_text(content)
    with pytest.raises(InputError, match=message):
        loaded(f"retrieval:{folder}")


def test_an_unknown_split_and_another_folder_are_refused(folder: Path) -> None:
    with pytest.raises(InputError, match=r"split of .* 'test2'"):
        loaded(f"retrieval:{folder}:test2")
    with pytest.raises(InputError, match=r"a folder of a retrieval task has corpus.jsonl"):
        loaded(f"retrieval:{folder / 'qrels'}")


def test_a_single_document_is_no_retrieval(tmp_path: Path) -> None:
    (tmp_path / "faq.tsv").write_text("question\tanswer\nwhen?\tnow\nwhere?\tnow\n")
    with pytest.raises(InputError, match=r"it has one document, which every query finds"):
        loaded(f"retrieval:{tmp_path / 'faq.tsv'}")


def test_encoders_are_compared_over_the_same_queries(folder: Path) -> None:
    """Every measure has an interval, and JSON keeps all of it."""
    comparison = compare({"one": Numbers(), "same": Numbers()}, f"retrieval:{folder}")
    assert len(comparison.differences) == len(RANKING_MEASURES)
    assert all(each.low == each.high == 0 for each in comparison.differences)
    evaluation = evaluate(Numbers(), f"retrieval:{folder}")
    assert Evaluation.model_validate_json(evaluation.model_dump_json()) == evaluation
    assert list(evaluation.scores()) == [
        f"retrieval:{folder}{end}"
        for end in ("", *(["-mrr@10", "-recall@1", "-recall@10", "-recall@100"]))
    ]


def test_rankings_are_joined_by_the_sums_of_their_reciprocal_ranks() -> None:
    """Cormack, Clarke and Buettcher (2009), with k = 60, on two rankings of some documents."""
    generator = np.random.default_rng(0)
    for _ in range(20):
        rankings = [generator.permutation(30)[:20].tolist() for _ in range(2)]
        sums = {
            item: sum(1 / (60 + each.index(item) + 1) for each in rankings if item in each)
            for item in dict.fromkeys([*rankings[0], *rankings[1]])
        }
        assert fused(*rankings) == sorted(sums, key=lambda item: -sums[item])


class Far:
    """An encoder whose vectors know nothing: all texts have the same."""

    def encode(self, sentences: Sequence[str], /) -> NDArray[np.float32]:
        return np.ones((len(sentences), 2), np.float32)


def test_words_join_the_rankings_of_retrieval_alone(tmp_path: Path) -> None:
    """Where the vectors know nothing, words find what they find."""
    lines = [f"what is word{n}?,other texts{n} about word{n}" for n in range(40)]
    path = tmp_path / "faq.csv"
    path.write_text("\n".join(["question,answer", *lines]))
    task = f"retrieval:{path}"
    alone, joined = resampled_with_words(load_tasks([task, "geometry:stsb-open:dev"]), Far(), "far")
    assert (alone.evaluation.encoder, joined.evaluation.encoder) == ("far", "far, with words")
    assert [result.name for result in joined.evaluation.tasks] == [task]
    assert alone.scores[f"{task}-recall@1"] < 0.1 < 0.9 < joined.scores[f"{task}-recall@1"]
    (difference, *_) = differences(alone, joined)
    assert difference.score == task
    assert difference.low > 0
    with pytest.raises(InputError, match="no task has rankings"):
        resampled_with_words(load_tasks("stsb-open"), Far(), "far")


@pytest.mark.parametrize("name", ["all.csv", "all.txt"])
def test_more_texts_are_searched_among(name: str, tmp_path: Path) -> None:
    test = tmp_path / "test.csv"
    test.write_text("question,reply\n1,2\n3,4\n")
    texts = ["4", "5", "6"]
    lines = texts if name.endswith(".txt") else ["reply,year", *(f"{text},1" for text in texts)]
    (tmp_path / name).write_text("\n".join(lines))
    task = loaded(f"retrieval:{test},question,reply,among={tmp_path / name}")
    assert list(task.documents) == ["2", "4", "5", "6"]
    assert list(task.grades) == [{0: 1}, {1: 1}]


def test_the_first_texts_of_usual_pairs_are_not_searched_among(tmp_path: Path) -> None:
    """A question would find itself first."""
    test = tmp_path / "test.csv"
    test.write_text("sentence1,sentence2\n1,2\n3,4\n")
    more = tmp_path / "more.csv"
    more.write_text("question,answer\n1,5\n7,4\n")
    for others in (test, more):
        assert "1" not in loaded(f"retrieval:{test},among={others}").documents
    assert list(loaded(f"retrieval:{test},among={more}").documents) == ["2", "4", "5"]


def test_a_file_of_more_texts_has_to_be_named(tmp_path: Path) -> None:
    test = tmp_path / "a,among=b.csv"
    test.write_text("question,answer\n1,2\n3,4\n")
    assert list(loaded(f"retrieval:{test},question,answer").documents) == ["2", "4"]
    with pytest.raises(InputError, match="name the texts to search among behind among="):
        load_tasks(f"retrieval:{test},question,answer,among=")


def test_the_names_of_more_texts_become_whole_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("test.csv").write_text("question,answer\n1,2\n")
    Path("all.txt").write_text("5\n")
    name = "retrieval:test.csv,question,answer,among=all.txt"
    whole = with_whole_path(name)
    assert whole == f"retrieval:{tmp_path}/test.csv,question,answer,among={tmp_path}/all.txt"
    with pytest.raises(InputError, match="has a corpus of its own"):
        load_tasks(f"retrieval:{folder},among=all.txt")
