"""Runs on rows with labels: rows set apart, a classifier, and tuning that has to be worth it."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import isotune
from isotune.data import LabelledSentence
from isotune.data.draws import derive_seed
from isotune.errors import InputError
from isotune.evaluation.examples import EXAMPLES, Examples
from isotune.evaluation.results import Difference
from isotune.evaluation.run_results import CLASSIFIED, NOT_TUNED, WITH_CLASSIFIER
from isotune.methods.classifier import has_label
from isotune.methods.options import ClassifierOptions
from isotune.recipes import Recipe
from isotune.training import Result
from isotune.training import run as run_module
from isotune.training.labels import divided, read_labelled
from tests.training.conftest import Train, assert_same_end, metrics, stop_and_resume, weights

TWO_STEPS = """
dev = "none"
[[stages]]
method = "supcon"
batch_size = 8
steps = 6
learning_rate = 1e-3
eval_every = 3
[[stages]]
method = "classifier"
"""


@pytest.fixture
def learn(tiny_model: Path, tmp_path: Path) -> Train:
    """Runs `isotune.train` from the tiny model, in float32, into a folder of this name."""

    def run(name: str = "run", **options: Any) -> Result:
        same: dict[str, Any] = {"model": str(tiny_model), "precision": "float32", "quiet": True}
        return isotune.train(out=tmp_path / name, keep_checkpoints=True, **same, **options)

    return run


@pytest.fixture
def labelled(sentences: list[str]) -> list[LabelledSentence]:
    """Sentences labelled by their first words."""
    return [LabelledSentence(text, "short" if text[:4].isalpha() else "long") for text in sentences]


@pytest.fixture
def two_steps(tmp_path: Path) -> Path:
    path = tmp_path / "two-steps.toml"
    path.write_text(TWO_STEPS)
    return path


def start_weights(tiny_model: Path) -> dict[str, torch.Tensor]:
    return load_file(tiny_model / "model.safetensors")


def test_texts_that_are_gathered_by_class_are_no_collapse(tmp_path: Path) -> None:
    words = {"animal": ("cat", "dog", "cow", "hen"), "food": ("bread", "milk", "rice", "soup")}
    places = ("house", "garden", "village", "river", "road", "hill", "wood", "market", "field")
    rows = [
        LabelledSentence(f"the {word} in the {place}", label)
        for label, of_label in words.items()
        for word in of_label
        for place in places
    ]
    result = isotune.train(
        rows=rows,
        method="supcon",
        steps=40,
        eval_every=40,
        learning_rate=1e-3,
        batch_size=32,
        dev="none",
        tasks=["stsb-open"],
        out=tmp_path / "run",
        quiet=True,
    )
    spaces = metrics(result.folder, "space")
    assert spaces[-1]["effective_rank"] < spaces[0]["effective_rank"] / 2
    warnings = [record["message"] for record in metrics(result.folder, "warning")]
    assert not any("the space is collapsing" in message for message in warnings)


def test_a_classifier_is_kept_beside_an_encoder_that_stays_as_it_is(
    learn: Train, labelled: list[LabelledSentence], tiny_model: Path
) -> None:
    result = learn(rows=labelled, method="classifier")
    evaluation = result.evaluation
    before, after = evaluation.before.scores(), evaluation.after.scores()
    assert set(before) >= {"labels", "labels-macro-f1"}
    assert before["labels"] == after["labels"]
    assert {control.name for control in evaluation.after.controls} == {
        "largest class",
        "bag of words",
    }
    assert str(result.verdict) == f"KEEP {WITH_CLASSIFIER}: {CLASSIFIED}"
    bag, largest = (
        next(each for each in evaluation.after.controls if each.name == name).scores()["labels"]
        for name in ("bag of words", "largest class")
    )
    told = (
        f"the classifier labels {100 * after['labels']:.2f} % of "
        f"{evaluation.after.tasks[0].rows} rows set apart right "
        f"(bag of words {100 * bag:.2f}, largest class {100 * largest:.2f})"
    )
    assert evaluation.decision == f"{result.verdict}; {told}"
    page = result.report.read_text("utf-8")
    assert f"T{told[1:]}." in page
    assert "Keep the start, with the new classifier on its vectors" in page
    assert "<strong>Warning.</strong>" not in page
    assert "Which labels are confused" in page
    examples = Examples.read(result.folder / EXAMPLES).labels
    assert examples is not None
    assert sum(map(sum, examples.counts)) == evaluation.after.tasks[0].rows
    assert ("Examples</h2>" in page) is bool(examples.mistaken)
    sure = [text for text in examples.mistaken if text.chance is not None]
    assert len(sure) == len(examples.mistaken)
    start = isotune.Encoder.load(tiny_model).encode([labelled[0].sentence])
    assert (result.encoder.encode([labelled[0].sentence]) == start).all()
    assert result.classifier.labels == ("long", "short")
    assert result.classifier.predict([labelled[0].sentence])[0] in ("long", "short")
    (tested,) = evaluation.after.tasks
    assert tested.rows + 4 * tested.rows == pytest.approx(len(labelled), abs=5)
    log = (result.folder / "train.log").read_text()
    assert f"labels: 2 labels; {len(labelled) - tested.rows} rows to train on" in log


def test_a_file_of_rows_takes_the_place_of_rows_set_apart(
    learn: Train, labelled: list[LabelledSentence], tmp_path: Path
) -> None:
    """The log says which of these rows were trained on, and which labels nobody has learned."""
    test = tmp_path / "test.tsv"
    rows = [*labelled[:5], ("a new one", "other"), ("one more", "other")]
    test.write_text("\n".join(["sentence\tlabel", *("\t".join(row) for row in rows)]) + "\n")
    result = learn(rows=labelled, method="classifier", test_data=[str(test)])
    (tested,) = result.evaluation.after.tasks
    assert tested.rows == 7
    log = (result.folder / "train.log").read_text()
    assert "stand at rows set apart, and at no row to train on: 'other'" in log
    assert "overlap: 5 of the 7 texts of labels are in the training text" in log


@pytest.mark.parametrize("low", [-0.1, 0.1])
def test_the_start_is_put_back_unless_tuning_gains_more_than_chance(
    learn: Train,
    labelled: list[LabelledSentence],
    two_steps: Path,
    tiny_model: Path,
    monkeypatch: pytest.MonkeyPatch,
    low: float,
) -> None:
    def gain(*_: object) -> Difference:
        return Difference(
            encoder="a", against="b", score="labels", difference=0.2, low=low, high=0.3
        )

    monkeypatch.setattr(run_module, "gain_of_tuning", gain)
    result = learn(rows=labelled, recipe=two_steps)
    (record,) = metrics(result.folder, "tuning")
    assert record["low"] == low
    start = start_weights(tiny_model)
    kept = weights(result.folder)
    same = all(torch.equal(kept[name], value) for name, value in start.items() if name in kept)
    assert same is (low < 0)
    assert (result.evaluation.selected_step == 0) is (low < 0)
    log = (result.folder / "train.log").read_text()
    assert "not the best" not in log
    assert "the last step is kept if it predicts the labels of the rows set apart better" in log
    assert (result.verdict.why == NOT_TUNED) is (low < 0)
    assert ("one on the start's vectors" in result.evaluation.decision) is (low > 0)
    assert result.classifier.labels == ("long", "short")


def test_a_stopped_run_of_two_steps_ends_as_one_that_was_not_stopped(
    learn: Train, labelled: list[LabelledSentence], two_steps: Path, tmp_path: Path
) -> None:
    source = tmp_path / "labelled.tsv"
    lines = ["words\tlength", *("\t".join(row) for row in labelled)]
    source.write_text("\n".join(lines) + "\n")
    columns = {"sentence": "words", "label": "length"}
    options: dict[str, Any] = {"sources": str(source), "recipe": two_steps, "columns": columns}
    whole = learn(**options)
    resumed = stop_and_resume(learn, 4, **options)
    assert resumed.classifier.head.settings.columns == ("words",)
    assert_same_end(whole.folder, resumed.folder)
    expected = load_file(whole.folder / "encoder/classifier/model.safetensors")
    found = load_file(resumed.folder / "encoder/classifier/model.safetensors")
    assert all(torch.equal(found[name], value) for name, value in expected.items())


def test_rows_set_apart_are_a_share_of_each_label_with_their_copies() -> None:
    rows = [LabelledSentence(f"text {number}", "ab"[number % 2]) for number in range(40)]
    rows += [LabelledSentence(f"Text, {number}!", "a") for number in range(40)]
    rows.append(LabelledSentence("only once", "c"))
    options = ClassifierOptions(test_share=0.25)
    train, test = divided(rows, options, seed=1)
    assert len(train) + len(test) == len(rows)
    assert Counter(row.label for row in test if row.sentence[0] == "t") == {"a": 5, "b": 5}
    assert len(test) == 20
    assert not {row.sentence.split()[-1].strip("!") for row in train} & {
        row.sentence.split()[-1].strip("!") for row in test
    }
    assert divided(rows, options, seed=1)[1] == test
    assert divided(rows, options, seed=2)[1] != test


def test_several_labels_and_numbers_are_scored_on_rows_set_apart(
    learn: Train, sentences: list[str]
) -> None:
    several = [{"text": text, "label": text.split()[:2]} for text in sentences]
    result = learn("several", rows=several, method="classifier", kind="multi")
    assert {"labels-micro-f1", "labels-macro-f1"} <= set(result.evaluation.after.scores())
    assert isinstance(result.classifier.predict(["a cat"])[0], tuple)
    numbers = [{"text": text, "label": len(text) / 2} for text in sentences]
    result = learn("numbers", rows=numbers, method="classifier", kind="score")
    assert {"labels-spearman", "labels-pearson"} <= set(result.evaluation.after.scores())
    assert isinstance(result.classifier.predict(["a cat"])[0], float)


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        (["a"] * 6, {}, "all labels are 'a'; two or more are needed"),
        ("abcdef", {}, "6 different labels for 6 texts, none for two of them: 'a', 'b', 'c', "),
        ("aabb", {}, "4 rows: too few to set 0.2 of each label apart"),
        ("aaabbb", {"classes": ("a",)}, "unknown label 'b'"),
        ("aaabbb", {"classes": ("a", "b", "c")}, "no row to train on has the label 'c'"),
        (["a", ["a", "b"]] * 3, {}, "has several labels (a, b); the method classifier predicts"),
        (["a", []] * 3, {}, "has an empty list of labels; the method classifier predicts"),
        ([[], []], {"kind": "multi"}, "no text has a label; one label or more is needed"),
        (["a|b", "a"] * 3, {"kind": "multi"}, "'a|b' would be one label; if '|' stands between "),
        (["a", "b; a"] * 3, {"kind": "multi"}, "'b; a' would be one label; if ';' stands between "),
        (["1", "2", "high"], {"kind": "score"}, "has the label 'high', and kind score predicts"),
    ],
)
def test_labels_that_can_not_be_learned_are_refused(
    labels: list[object], options: dict[str, object], message: str
) -> None:
    rows = [{"text": f"text {number}", "label": label} for number, label in enumerate(labels)]
    stage = {"method": "classifier", **options}
    recipe = Recipe.from_table({"stages": [stage], "dev": "none"})
    with pytest.raises(InputError) as error:
        read_labelled(recipe, rows)
    assert message in str(error.value)


def test_a_separator_is_needed_only_where_labels_are_not_named_and_are_no_lists() -> None:
    for cells, given in (
        (["a|b", "a", "b"] * 9, {"separator": "|"}),
        (["a, b", "c"] * 9, {"classes": ("a, b", "c")}),
        ([["a;b"], ["a;b", "c"]] * 9, {}),
    ):
        rows = [{"text": f"text {number}", "label": label} for number, label in enumerate(cells)]
        stage = {"method": "classifier", "kind": "multi", **given}
        labelled = read_labelled(Recipe.from_table({"stages": [stage], "dev": "none"}), rows)
        assert labelled is not None
        assert len(labelled.options.classes) == 2


def test_labels_that_may_be_one_or_none_are_told() -> None:
    long = ["12345678901234567890", "12345678901234567891"]
    cells = ["yes", "Yes", "no", "1", "1.0", "2", "nan", "None", *long] * 9
    rows = [{"text": f"text {number}", "label": label} for number, label in enumerate(cells)]
    recipe = Recipe.from_table({"stages": [{"method": "classifier"}], "dev": "none"})
    labelled = read_labelled(recipe, rows)
    assert labelled is not None
    *_, alike, missing = labelled.lines()
    assert alike.endswith("in how a number is written alone: '1', '1.0', 'Yes', 'yes'")
    assert missing == "labels that may stand for a missing value: 'None', 'nan'"


def test_numbers_that_differ_may_be_scores() -> None:
    """Labels that are no numbers get no advice to predict numbers."""
    recipe = Recipe.from_table({"stages": [{"method": "classifier"}], "dev": "none"})
    for labels, is_told in (("123", True), ("abc", False)):
        rows = [LabelledSentence(f"text {label}", label) for label in labels]
        with pytest.raises(InputError) as error:
            read_labelled(recipe, rows)
        assert ("kind score" in str(error.value)) == is_told


def test_a_label_that_only_copies_have_may_leave_too_few_to_train_on() -> None:
    rows = [LabelledSentence("one text", label) for label in "ab"]
    rows += [LabelledSentence(f"text {number}", "a") for number in range(3)]
    stage = {"method": "classifier", "test_share": 0.5}
    messages = set()
    for seed in range(10):
        recipe = Recipe.from_table({"stages": [stage], "dev": "none", "seed": seed})
        try:
            read_labelled(recipe, rows)
        except InputError as error:
            messages.add(str(error))
    (message,) = messages
    assert "the rows to train on have 1 label, and kind single needs 2 or more" in message


@pytest.mark.parametrize("texts", [["One text"], ["One text", "one text!"]])
def test_copies_of_one_text_are_too_few_to_train_on(texts: list[str], tmp_path: Path) -> None:
    path = tmp_path / "test.csv"
    path.write_text("text,label\nanother,3\n")
    stage = {"method": "classifier", "kind": "score", "test_data": [str(path)]}
    rows = [LabelledSentence(text, "1") for text in texts]
    with pytest.raises(InputError, match="to train on, of one text; give more texts"):
        read_labelled(Recipe.from_table({"stages": [stage], "dev": "none"}), rows)


def test_an_empty_list_is_a_text_with_none_of_the_labels() -> None:
    labels: list[list[str]] = [["a", "b"], ["b"], []] * 10
    rows = [{"text": f"text {number}", "label": label} for number, label in enumerate(labels)]
    stage = {"method": "classifier", "kind": "multi"}
    labelled = read_labelled(Recipe.from_table({"stages": [stage], "dev": "none"}), rows)
    assert labelled is not None
    assert len(labelled.train) + len(labelled.test) == len(rows)
    chosen = has_label([*labelled.train, *labelled.test], labelled.options)
    assert chosen.sum(axis=0).tolist() == [10, 20]


def test_a_run_of_rows_from_python_needs_them_again() -> None:
    recipe = Recipe.from_table({"stages": [{"method": "classifier"}], "dev": "none"})
    with pytest.raises(InputError, match="started with rows from Python; give the same rows again"):
        read_labelled(recipe, None)


def test_labels_are_read_in_the_order_of_their_numbers() -> None:
    rows = [LabelledSentence(f"text {number}", str(number % 11)) for number in range(110)]
    recipe = Recipe.from_table({"stages": [{"method": "classifier"}], "dev": "none"})
    labelled = read_labelled(recipe, rows)
    assert labelled is not None
    assert labelled.options.classes == tuple(map(str, range(11)))
    assert labelled.test == divided(rows, labelled.options, derive_seed(0, "rows apart"))[1]
