"""Controls: what they score, and how they stand beside encoders."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from isotune.data import LabelledSentence, Pair, ScoredPair
from isotune.evaluation import (
    Evaluation,
    TaskRows,
    TransferTask,
    compare,
    comparison_tables,
    control_table,
    controls,
    evaluate,
    load_tasks,
)
from isotune.evaluation.classifiers import Logistic
from isotune.evaluation.controls import bag_of_words, bm25, common_words, largest_class, words
from isotune.evaluation.results import TransferResult
from tests.evaluation.test_comparison import Noisy


class Blind:
    """Vectors that know nothing of the texts."""

    def encode(self, sentences: Sequence[str], /) -> NDArray[np.float64]:
        return np.random.default_rng(0).standard_normal((len(sentences), 8))


class Mute:
    """A task that no control knows."""

    name = "mute"


def similarity(*rows: tuple[str, str, float]) -> TaskRows:
    return TaskRows("similarity", [ScoredPair(*row) for row in rows])


def labelled(texts: Sequence[str], labels: Sequence[str]) -> TaskRows:
    rows = map(LabelledSentence, texts, labels)
    return TaskRows("classification", list(rows))


def only(task: TaskRows) -> object:
    (read,) = load_tasks(task)
    return read


TOPICS = labelled(
    [f"{'cat' if n % 2 else 'dog'} number {n} sleeps" for n in range(60)],
    ["a" if n % 2 else "b" for n in range(60)],
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It's 3 o'clock: RESET it!", ["it", "s", "3", "o", "clock", "reset", "it"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("今日は雨", ["今日", "日は", "は雨"]),
        ("PDFを開く 水", ["pdf", "を開", "開く", "水"]),
        ("ภาษา", ["ภา", "าษ", "ษา"]),
        ("한국어 문장", ["한국어", "문장"]),
        ("?!", [""]),
        ("", [""]),
    ],
)
def test_words_of_any_script(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_common_words_are_jaccards_share_of_each_pair() -> None:
    rows = [
        ("A dog runs", "the DOG runs", 4.0),
        ("a cat", "a dog", 1.0),
        ("one, one, one", "One!", 5.0),
        ("?", "...", 3.0),
        ("?", "what", 0.0),
    ]
    scored = common_words(only(similarity(*rows)))
    assert scored is not None
    _, shares = scored
    assert shares.tolist() == [2 / 4, 1 / 3, 1.0, 1.0, 0.0]


def test_equal_shares_are_no_control() -> None:
    task = similarity(("a b", "c d", 1.0), ("e f", "g h", 4.0), ("i", "j k l", 2.0))
    assert common_words(only(task)) is None
    assert evaluate(Blind(), task).controls == ()


def test_the_largest_class_is_that_of_the_training_rows() -> None:
    texts = [f"word {n}" for n in range(100)]
    task = labelled(texts, ["rare" if n % 25 == 0 else "often" for n in range(100)])
    result, values = largest_class(only(task))
    assert result.accuracy == 0.96
    assert result.macro_f1 == pytest.approx((2 * 0.96 / 1.96) / 2)
    assert len(set(values[:, 1])) == 1
    parts = {
        "train": ([["a", "b", "c"]], np.array([1, 1, 0])),
        "test": ([["d", "e", "f"]], np.array([0, 0, 1])),
    }
    result, values = largest_class(TransferTask("split", Logistic(), parts))
    assert values[:, 1].tolist() == [1, 1, 1]
    assert result.accuracy == pytest.approx(1 / 3)


def test_a_bag_of_words_never_sees_the_rows_that_it_predicts() -> None:
    result, values = bag_of_words(only(TOPICS))
    assert result.accuracy == 1
    assert values.shape == (60, 2)
    # A number stands in one text alone, so that it tells nothing about other texts.
    numbers = labelled([f"{n}" for n in range(60)], ["ab"[n % 2] for n in range(60)])
    result, _ = bag_of_words(only(numbers))
    assert result.accuracy <= 0.5


def test_a_bag_of_words_is_the_regression_of_scikit_learn() -> None:
    generator = np.random.default_rng(0)
    texts = [" ".join(generator.choice(list("abcdefgh"), 4)) for _ in range(200)]
    classes = np.array([text.count("a") + text.count("b") for text in texts]).clip(0, 2)
    parts = {"train": ([texts[:150]], classes[:150]), "test": ([texts[150:]], classes[150:])}
    _, values = bag_of_words(TransferTask("toy", Logistic(), parts))
    vectorizer = TfidfVectorizer(token_pattern=r"\w+")
    x = vectorizer.fit_transform(texts[:150])
    model = LogisticRegression(C=controls.C, max_iter=1000).fit(x, classes[:150])
    expected = model.predict(vectorizer.transform(texts[150:]))
    assert values[:, 1].tolist() == expected.tolist()


def test_a_bag_of_words_reads_pairs_as_pairs() -> None:
    first = [f"item {n}" for n in range(80)]
    second = [f"item {n if n % 2 else n + 1000}" for n in range(80)]
    classes = np.arange(80) % 2
    parts = {"train": ([first, second], classes), "test": ([first[::-1], second[::-1]], classes)}
    result, _ = bag_of_words(TransferTask("same?", Logistic(), parts))
    assert result.accuracy == 0  # the test rows have the classes of the other order


@pytest.mark.parametrize("texts", [["?"] * 60, ["!" * n for n in range(60)]])
def test_texts_without_words_have_a_bag_and_no_more_than_the_largest_class(
    texts: list[str],
) -> None:
    parts = {"train": ([texts], np.array([0] * 40 + [1] * 20))}
    task = TransferTask("dumb", Logistic(), parts)
    bag, _ = bag_of_words(task)
    constant, _ = largest_class(task)
    assert bag.accuracy == constant.accuracy == pytest.approx(2 / 3)


def test_bm25_is_lucenes_formula() -> None:
    generator = np.random.default_rng(1)
    documents = [" ".join(generator.choice(list("abcdefghij"), 3 + n % 5)) for n in range(40)]
    rows = [Pair(f"{text.split()[0]} {text.split()[-1]}", text) for text in documents]
    task = only(TaskRows("retrieval", rows))
    _, values = bm25(task)
    split = [document.split() for document in task.documents]
    mean = sum(map(len, split)) / len(split)

    def score(query: str, document: list[str]) -> float:
        total = 0.0
        for word in query.split():
            frequency = sum(word in other for other in split)
            idf = math.log(1 + (len(split) - frequency + 0.5) / (frequency + 0.5))
            count = document.count(word)
            total += idf * count / (count + 1.5 * (1 - 0.75 + 0.75 * len(document) / mean))
        return total

    for query, grades, (ndcg, *_) in zip(task.queries, task.grades, values, strict=True):
        scores = np.array([score(query, document) for document in split])
        order = np.argsort(-scores.round(5), kind="stable")
        gains = [
            grades.get(int(number), 0) / math.log2(2 + rank)
            for rank, number in enumerate(order[:10])
        ]
        ideal = sum(1 / math.log2(2 + rank) for rank in range(min(10, len(grades))))
        assert ndcg == pytest.approx(sum(gains) / ideal)


def test_bm25_finds_no_document_without_a_common_word_and_the_earlier_of_two_equals() -> None:
    rows = [Pair("sun", "the sun"), Pair("rain", "the sun!"), Pair("snow", "hail")]
    task = only(TaskRows("retrieval", [*rows, Pair("?", "...")]))
    _, values = bm25(task)
    recall_at_1 = values[:, 2]
    assert recall_at_1.tolist() == [1, 0, 0, 1]


def test_controls_stand_beside_every_kind_of_task() -> None:
    pairs = similarity(("a b", "a b", 5.0), ("a b", "a c", 3.0), ("a", "b", 0.0))
    faq = TaskRows("retrieval", [Pair(f"ask {n}", f"answer {n}") for n in range(30)], name="faq")
    topics = TaskRows("classification", TOPICS.rows, name="topics")
    evaluation = evaluate(Blind(), [pairs, faq, topics, "geometry:stsb-open:dev"])
    by_name = {control.name: control for control in evaluation.controls}
    assert [*by_name] == ["common words", "largest class", "bag of words", "BM25"]
    scores = evaluation.scores()
    for control in evaluation.controls:
        own = control.scores()
        assert own.keys() <= scores.keys()
        assert {each.score for each in control.differences} == own.keys()
        for each in control.differences:
            assert each.difference == scores[each.score] - own[each.score]
            assert each.low <= each.difference <= each.high
    assert by_name["BM25"].unbeaten == ["faq"]
    assert by_name["bag of words"].unbeaten == ["topics"]
    assert "Blind is not better than BM25 by more than chance on faq" in str(evaluation)
    assert Evaluation.model_validate_json(evaluation.model_dump_json()) == evaluation


def test_an_encoder_that_predicts_as_its_control_does_not_beat_it() -> None:
    evaluation = evaluate(Noisy(), TOPICS)
    constant, bag = evaluation.controls
    (accuracy,) = bag.main_differences
    assert (accuracy.difference, accuracy.low, accuracy.high) == (0, 0, 0)
    assert bag.unbeaten == ["rows"]
    assert constant.unbeaten == []


def test_controls_are_rows_of_the_tables_and_are_scored_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = []

    def counted(task: TransferTask) -> object:
        calls.append(task.name)
        return bag_of_words(task)

    rule = controls.Control("bag of words", TransferTask, counted)
    monkeypatch.setattr("isotune.evaluation.comparison.CONTROLS", (rule,))
    comparison = compare({"words": Noisy(), "blind": Blind()}, TOPICS)
    assert calls == ["rows"]
    (table,) = comparison_tables(comparison.evaluations)
    assert list(map(str, table.columns[0].cells)) == ["words", "blind", "bag of words"]
    differences = control_table(comparison.evaluations, {"blind": "b"})
    assert list(map(str, differences.columns[0].cells)) == ["words", "b"]
    assert list(map(str, differences.columns[1].cells)) == ["bag of words"] * 2
    assert str(comparison).endswith(
        "blind is not better than bag of words by more than chance on rows"
    )


def test_controls_can_be_left_out() -> None:
    evaluation = evaluate(Noisy(), TOPICS, controls=False)
    assert evaluation.controls == ()
    assert evaluation.scores() == evaluate(Noisy(), TOPICS).scores()
    comparison = compare({"words": Noisy(), "blind": Blind()}, TOPICS, controls=False)
    assert not any(each.controls for each in comparison.evaluations)


def test_results_that_were_written_without_controls_can_be_read() -> None:
    evaluation = evaluate(Noisy(), TOPICS, controls=False)
    text = evaluation.model_dump_json(exclude={"controls"})
    assert "controls" not in text
    assert Evaluation.model_validate_json(text) == evaluation


def test_the_average_of_a_group_has_a_control(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"{'cat' if n % 2 else 'dog'} {n}" for n in range(60)]
    parts = {"train": ([texts], np.arange(60) % 2)}
    tasks = [TransferTask(name, Logistic(), parts) for name in ("one", "two")]
    monkeypatch.setattr("isotune.evaluation.comparison.GROUPS", {"both": ("one", "two")})
    monkeypatch.setattr("isotune.evaluation.comparison.load_tasks", lambda _: tasks)
    evaluation = evaluate(Blind(), None)
    constant, bag = evaluation.controls
    assert constant.scores()["both"] == 0.5
    assert bag.scores()["both"] == 1
    assert bag.unbeaten == ["one", "two", "both"]


def test_what_no_control_knows_has_none() -> None:
    assert [control.score_if_known(Mute()) for control in controls.CONTROLS] == [None] * 4


def test_the_classifier_of_a_control_is_named() -> None:
    evaluation = evaluate(Noisy(), TOPICS)
    titles = []
    for control in evaluation.controls:
        (result,) = control.tasks
        assert isinstance(result, TransferResult)
        titles.append(result.classifier)
    assert titles == [
        "the largest class",
        f"logistic regression on TF-IDF, C = {controls.C:g}",
    ]
