"""Runs with labels: classified, scored, and of several tasks at once."""

import itertools
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file

from isotune.data.packed import Packed
from isotune.encoder import model as encoder_module
from isotune.encoder.backbone import Backbone
from isotune.errors import InputError
from tests.training.conftest import Train, assert_same_end, metrics, stop_and_resume


def write(path: Path, header: str, rows: list[tuple[object, ...]]) -> str:
    path.write_text(
        "\n".join([header.replace(",", "\t"), *("\t".join(map(str, row)) for row in rows)]) + "\n"
    )
    return str(path)


@pytest.fixture
def labelled(sentences: list[str], tmp_path: Path) -> str:
    """Sentences labelled by whether the first word is a short one."""
    rows = [(sentence, int(len(sentence.split()[0]) < 4)) for sentence in sentences]
    return write(tmp_path / "labelled.tsv", "sentence,label", rows)


@pytest.fixture
def paraphrases(sentences: list[str], tmp_path: Path) -> str:
    """Pairs of equal sentences, and of others."""
    rows = [
        (a, a if i % 2 else b, i % 2)
        for i, (a, b) in enumerate(zip(sentences[:30], sentences[30:], strict=True))
    ]
    return write(tmp_path / "paraphrases.tsv", "sentence1,sentence2,label", rows)


def test_fine_tuning_learns_its_labels_and_keeps_the_best_step(train: Train, labelled: str) -> None:
    options = {
        "sources": labelled,
        "dev_data": [labelled],
        "steps": 60,
        "eval_every": 20,
        "learning_rate": 5e-3,
    }
    result = train(method="finetune-sentence", **options)
    scores = [record["score"] for record in metrics(result.folder, "dev")]
    assert {record["metric"] for record in metrics(result.folder, "dev")} == {"accuracy"}
    assert max(scores) > 0.9 > scores[0]
    kept = result.evaluation.selected_step
    assert kept == 20 * int(np.argmax(scores))


def test_dev_data_choose_no_step_of_a_stage_that_rows_choose(train: Train, labelled: str) -> None:
    tuned = {"method": "finetune-sentence", "dev_data": [labelled], "steps": 2, "eval_every": 1}
    cut = {"method": "pca", "dimensions": 3}
    result = train(stages=[tuned, cut], sources=labelled, steps=None, eval_every=None)
    assert not result.evaluation.dev.chose_step


def test_a_part_of_the_dev_rows_chooses_and_the_rest_scores_the_kept_step(
    train: Train, labelled: str
) -> None:
    options = {
        "sources": labelled,
        "dev_data": [labelled],
        "steps": 12,
        "eval_every": 3,
        "learning_rate": 5e-3,
    }
    result = train(method="finetune-sentence", dev_share=0.3, **options)
    labels = np.array(
        [int(line.rpartition("\t")[2]) for line in Path(labelled).read_text().splitlines()[1:]]
    )
    first = round(0.3 * len(labels))
    with np.load(result.folder / "predictions.npz") as arrays:
        dev, test = arrays["dev"], arrays["test"]
    assert len(dev) == first
    assert len(test) == len(labels) - first
    # These are the predictions of the kept step, not of the last one.
    best = max(record["score"] for record in metrics(result.folder, "dev"))
    assert np.mean(dev == labels[:first]) == pytest.approx(best)
    (record,) = metrics(result.folder, "test")
    assert record["step"] == result.evaluation.selected_step
    assert record["accuracy"] == pytest.approx(np.mean(test == labels[first:]))
    with pytest.raises(InputError, match="60 rows, too few: a part has no row"):
        train("none left", method="finetune-sentence", dev_share=0.005, **options)
    assert not metrics(train("all choose", method="finetune-sentence", **options).folder, "test")


@pytest.mark.parametrize("method", ["finetune-sentence", "finetune-pair"])
def test_no_dataset_that_the_user_has_not_named_chooses_the_step(
    method: str, train: Train, labelled: str, tmp_path: Path
) -> None:
    pairs = write(
        tmp_path / "pairs.tsv", "sentence1,sentence2,label", [("a", "b", "0"), ("c", "d", "1")]
    )
    data = {"finetune-sentence": labelled, "finetune-pair": pairs}
    with pytest.raises(InputError, match="dev_data: no rows are given"):
        train(method=method, sources=data[method], classes=["0", "1"], steps=1)


def test_copies_of_rows_that_chose_the_step_are_counted_among_those_that_score_it(
    train: Train, labelled: str, tmp_path: Path
) -> None:
    _, *lines = Path(labelled).read_text().splitlines()
    rows = [tuple(line.split("\t")) for line in lines]
    copies = [(f"{text.upper()}!", label) for text, label in rows[:5]]
    path = write(tmp_path / "copies.tsv", "sentence,label", [*rows, *copies])
    options = {"sources": labelled, "dev_data": [path], "dev_share": 0.5, "steps": 1}
    result = train(method="finetune-sentence", **options)
    messages = [record["message"] for record in metrics(result.folder, "warning")]
    assert any(message.startswith("5 of the 33 rows that score") for message in messages)


def test_pairs_with_scores_are_fitted_on_the_mean_of_two_correlations(
    train: Train, pairs: Path
) -> None:
    stage = {
        "method": "finetune-pair",
        "classes": [],
        "metrics": ["pearson", "spearman"],
        "dev_data": [str(pairs)],
    }
    result = train(stages=[stage], sources=str(pairs), steps=4, eval_every=2)
    for record in metrics(result.folder, "dev"):
        assert record["metric"] == "mean"
        assert record["score"] == pytest.approx((record["pearson"] + record["spearman"]) / 2)


def test_three_tasks_in_one_update_go_on_after_a_signal_as_if_there_had_been_none(
    train: Train, labelled: str, paraphrases: str, pairs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {
        "method": "multitask",
        "sources": None,
        "projection": 8,
        "steps": 6,
        "eval_every": 2,
    }
    options |= {"keep_checkpoints": True}
    options |= {"sentiment_classes": ["0", "1"], "similarity_test": [str(pairs)]}
    for task, path, size in (
        ("sentiment", labelled, 4),
        ("paraphrase", paraphrases, 6),
        ("similarity", str(pairs), 5),
    ):
        options |= {f"{task}_data": [path], f"{task}_dev": [path], f"{task}_batch_size": size}
    with pytest.raises(
        InputError, match="every stage names the data it reads, so give no other sources"
    ):
        train("whole", **{**options, "sources": labelled})
    with pytest.raises(InputError, match=r"batch size 1000 is larger than the data of paraphrase"):
        train("large", **{**options, "paraphrase_batch_size": 1000})
    with monkeypatch.context() as patch:
        patch.setattr(
            "isotune.training.stage.time",
            SimpleNamespace(perf_counter=partial(next, itertools.count())),
        )
        whole = train("whole", **options)
    (last,) = metrics(whole.folder, "train")
    # Rows of the two steps since an evaluation; this clock ticks at each look: twice in a step, and
    # once at the end.
    assert last["sentences_per_second"] == 2 * (4 + 6 + 5) / 5
    (test,) = metrics(
        whole.folder, "test"
    )  # on the dev rows again: so at the kept step the score is the same
    assert (
        test["similarity"]
        == max(metrics(whole.folder, "dev"), key=lambda record: record["score"])["similarity"]
    )
    for record in metrics(whole.folder, "dev"):
        parts = [record[name] for name in ("sentiment", "paraphrase", "similarity")]
        assert record["score"] == pytest.approx(np.mean(parts))

    part = stop_and_resume(train, 3, **options)
    assert_same_end(whole.folder, part.folder)
    heads = [run.folder / "encoder" / "classifier-sentiment" for run in (whole, part)]
    assert whole.classifier.task == "sentiment"
    for name in ("model.safetensors", "classifier.json"):
        assert (heads[0] / name).read_bytes() == (heads[1] / name).read_bytes()
    assert any(
        key.endswith("paraphrase.weight") for key in load_file(whole.folder / "last.safetensors")
    )
    assert (whole.folder / "predictions.npz").read_bytes() == (
        part.folder / "predictions.npz"
    ).read_bytes()


def test_no_pass_of_an_evaluation_is_larger_than_the_options_say(
    train: Train, labelled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows that are predicted make passes as those of a step, and the sentences of the monitor
    batches of encode.

    A pass has about two sentences, or 30 tokens, and may take one sentence more, which has 32
    tokens at most.
    """
    sizes: list[int] = []
    monkeypatch.setitem(encoder_module.BATCH_BYTES, "cpu", 30 * 32 * 4)
    forward = Backbone.forward

    def watched(self: Backbone, tokens: Packed, *arguments: Any) -> Any:
        if not self.training:
            sizes.append(len(tokens.ids))
        return forward(self, tokens, *arguments)

    monkeypatch.setattr(Backbone, "forward", watched)
    train(method="finetune-sentence", sources=labelled, dev_data=[labelled], chunk_size=2, steps=1)
    assert max(sizes) < 30 + 32


def texts_of(path: str) -> list[tuple[str, ...]]:
    """The texts of each row of a table that `write` has written."""
    _, *lines = Path(path).read_text().splitlines()
    return [tuple(line.split("\t")[:-1]) for line in lines]


@pytest.mark.parametrize("heads", [False, True])
def test_the_saved_classifier_predicts_what_the_run_has_predicted(
    train: Train, labelled: str, heads: bool, sentences: list[str]
) -> None:
    """So its scores are those of the run's dev and test rows."""
    options = {"dev_data": [labelled], "dev_share": 0.5, "learning_rate": 5e-3, "max_length": 5}
    options |= {"steps": 60, "eval_every": 20, "heads": heads, "columns": {"sentence": "text"}}
    table = Path(labelled)
    table.write_text(table.read_text().replace("sentence", "text", 1))
    result = train(method="finetune-sentence", sources=labelled, **options)
    classifier = result.classifier
    predicted = classifier.predict(sentences)
    with np.load(result.folder / "predictions.npz") as arrays:
        numbers = np.concatenate([arrays["dev"], arrays["test"]])
    assert predicted == [("0", "1")[number] for number in numbers]
    assert len(set(predicted)) == 2
    assert classifier.head.settings.calibration_rows == 30
    assert "isotune.Classifier.load(" in (result.folder / "encoder" / "README.md").read_text()
    command = f"isotune predict {result.folder}/encoder FILE --out"
    assert command in (result.folder / "train.log").read_text()
    probabilities = classifier.predict_proba(sentences)
    assert (probabilities.argmax(axis=1) == numbers).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("scores", [False, True])
def test_the_saved_classifier_of_pairs_predicts_what_the_run_has_predicted(
    train: Train, paraphrases: str, pairs: Path, scores: bool
) -> None:
    source = paraphrases
    options: dict[str, Any] = {"classes": ["0", "1"]}
    if scores:
        source = str(pairs)
        options = {"classes": [], "metrics": ["pearson"]}
    result = train(
        method="finetune-pair",
        sources=source,
        dev_data=[source],
        steps=20,
        eval_every=5,
        learning_rate=5e-3,
        **options,
    )
    predicted = result.classifier.predict([(one, other) for one, other in texts_of(source)])
    with np.load(result.folder / "predictions.npz") as arrays:
        expected = arrays["dev"]
    if scores:
        np.testing.assert_allclose(predicted, expected, atol=1e-4)
    else:
        assert predicted == [("0", "1")[number] for number in expected]


def test_an_untrained_classifier_is_not_kept(train: Train, labelled: str) -> None:
    options = {"sources": labelled, "dev_data": [labelled], "steps": 2, "eval_every": 1}
    result = train(method="finetune-sentence", learning_rate=1e-9, **options)
    assert result.evaluation.selected_step == 0
    assert "the encoder is kept without one" in (result.folder / "train.log").read_text()
    with pytest.raises(InputError, match="it has no classifier, only an encoder"):
        result.classifier  # noqa: B018


def test_a_new_run_from_a_classifier_does_not_keep_the_old_head(
    train: Train, labelled: str
) -> None:
    options = {"sources": labelled, "dev_data": [labelled], "steps": 60, "eval_every": 20}
    first = train("first", method="finetune-sentence", learning_rate=5e-3, **options)
    assert (first.folder / "encoder" / "classifier").is_dir()
    model = str(first.folder / "encoder")
    second = train("second", model=model, steps=1)
    assert not (second.folder / "encoder" / "classifier").exists()
