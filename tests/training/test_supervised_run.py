"""Runs with labels: classified, scored, and of several tasks at once."""

from __future__ import annotations

import itertools
import json
import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import isotune
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.training import Result
from isotune.training.step import Stepper

Train = Callable[..., Result]


def write(path: Path, header: str, rows: list[tuple[object, ...]]) -> str:
    path.write_text("\n".join([header.replace(",", "\t"), *("\t".join(map(str, row)) for row in rows)]) + "\n")
    return str(path)


@pytest.fixture
def labelled(sentences: list[str], tmp_path: Path) -> str:
    """Sentences labelled by whether the first word is a short one."""
    rows = [(sentence, int(len(sentence.split()[0]) < 4)) for sentence in sentences]
    return write(tmp_path / "labelled.tsv", "sentence,label", rows)


@pytest.fixture
def related(sentences: list[str], tmp_path: Path) -> str:
    """Pairs with a relation of inference."""
    names = ("contradiction", "entailment", "neutral")
    rows = [(a, b, names[i % 3]) for i, (a, b) in enumerate(zip(sentences[:30], sentences[30:], strict=True))]
    return write(tmp_path / "related.tsv", "sentence1,sentence2,label", rows)


@pytest.fixture
def paraphrases(sentences: list[str], tmp_path: Path) -> str:
    """Pairs of equal sentences, and of others."""
    rows = [(a, a if i % 2 else b, i % 2) for i, (a, b) in enumerate(zip(sentences[:30], sentences[30:], strict=True))]
    return write(tmp_path / "paraphrases.tsv", "sentence1,sentence2,label", rows)


def records(result: Result, kind: str) -> list[dict[str, Any]]:
    lines = (result.folder / "metrics.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == kind]


def dev_records(result: Result) -> list[dict[str, Any]]:
    return records(result, "dev")


def test_fine_tuning_learns_its_labels_and_keeps_the_best_step(train: Train, labelled: str) -> None:
    options = {"sources": labelled, "dev_data": [labelled], "steps": 60, "eval_every": 20, "learning_rate": 5e-3}
    result = train(method="finetune-sentence", **options)
    scores = [record["score"] for record in dev_records(result)]
    assert {record["metric"] for record in dev_records(result)} == {"accuracy"}
    assert max(scores) > 0.9 > scores[0]
    kept = result.evaluation.selected_step
    assert kept == 20 * int(np.argmax(scores))


def test_a_part_of_the_dev_rows_chooses_and_the_rest_scores_the_kept_step(train: Train, labelled: str) -> None:
    options = {"sources": labelled, "dev_data": [labelled], "steps": 12, "eval_every": 3, "learning_rate": 5e-3}
    result = train(method="finetune-sentence", dev_share=0.3, **options)
    labels = np.array([int(line.rpartition("\t")[2]) for line in Path(labelled).read_text().splitlines()[1:]])
    first = round(0.3 * len(labels))
    with np.load(result.folder / "predictions.npz") as arrays:
        dev, test = arrays["dev"], arrays["test"]
    assert len(dev) == first
    assert len(test) == len(labels) - first
    # These are the predictions of the kept step, not of the last one.
    best = max(record["score"] for record in dev_records(result))
    assert np.mean(dev == labels[:first]) == pytest.approx(best)
    (record,) = records(result, "test")
    assert record["step"] == result.evaluation.selected_step
    assert record["accuracy"] == pytest.approx(np.mean(test == labels[first:]))
    with pytest.raises(InputError, match="60 rows are too few; a part of them has no row"):
        train("none left", method="finetune-sentence", dev_share=0.005, **options)
    assert not records(train("all choose", method="finetune-sentence", **options), "test")


def test_pairs_with_scores_are_fitted_on_the_mean_of_two_correlations(
    train: Train, pairs: Path, tmp_path: Path
) -> None:
    recipe = tmp_path / "scores.toml"
    recipe.write_text(
        '[[stages]]\nmethod = "finetune-pair"\nclasses = []\nmetrics = ["pearson", "spearman"]\n'
        f'dev_data = ["{pairs}"]\n'
    )
    result = train(method=None, recipe=recipe, sources=str(pairs), steps=4, eval_every=2)
    for record in dev_records(result):
        assert record["metric"] == "mean"
        assert record["score"] == pytest.approx((record["pearson"] + record["spearman"]) / 2)


def test_a_joint_stage_with_adversarial_views_then_one_without_labels(
    train: Train, related: str, text: Path, tmp_path: Path
) -> None:
    recipe = tmp_path / "joint.toml"
    recipe.write_text(
        f'[[stages]]\nmethod = "consert-joint"\ndata = ["{related}"]\naugmentations = ["shuffle", "adversarial"]\n'
        f'[[stages]]\nmethod = "consert"\ndata = ["{text}"]\naugmentations = ["none", "shuffle"]\n'
    )
    result = train(method=None, sources=None, recipe=recipe, steps=4, eval_every=2)
    lines = (result.folder / "metrics.jsonl").read_text().splitlines()
    terms = [set(record["terms"]) for record in map(json.loads, lines) if record["kind"] == "train"]
    assert terms == [{"cross_entropy", "nt_xent"}, {"nt_xent"}]


def test_supervised_simcse_keeps_its_layer(train: Train, sentences: list[str], tmp_path: Path) -> None:
    rows = list(zip(sentences[:20], sentences[20:40], sentences[40:], strict=True))
    triplets = write(tmp_path / "triplets.tsv", "anchor,positive,negative", rows)
    result = train(method="simcse-sup", sources=triplets)
    encoder = Encoder.load(result.encoder)
    assert len(encoder.heads) == 1
    assert np.abs(encoder.encode(sentences[:5])).max() < 1


def test_three_tasks_in_one_update_go_on_after_a_signal_as_if_there_had_been_none(
    train: Train,
    labelled: str,
    paraphrases: str,
    pairs: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    options: dict[str, Any] = {
        "method": "multitask",
        "sources": None,
        "sentiment_data": [labelled],
        "sentiment_dev": [labelled],
        "sentiment_classes": ["0", "1"],
        "sentiment_batch_size": 4,
        "paraphrase_data": [paraphrases],
        "paraphrase_dev": [paraphrases],
        "paraphrase_batch_size": 6,
        "similarity_data": [str(pairs)],
        "similarity_dev": [str(pairs)],
        "similarity_batch_size": 5,
        "similarity_test": [str(pairs)],
        "projection": 8,
        "steps": 6,
        "eval_every": 2,
    }
    with pytest.raises(InputError, match="every stage names the data it reads, so give no other sources"):
        train("whole", **{**options, "sources": labelled})
    with pytest.raises(InputError, match=r"paraphrase_batch_size 1000 is larger than .* \(--paraphrase-batch-size\)"):
        train("large", **{**options, "paraphrase_batch_size": 1000})
    with monkeypatch.context() as patch:
        patch.setattr("isotune.training.stage.time", SimpleNamespace(perf_counter=partial(next, itertools.count())))
        whole = train("whole", **options)
    (last,) = records(whole, "train")
    assert last["sentences_per_second"] == 2 * (4 + 6 + 5)  # rows of the two steps since an evaluation, in a second
    (test,) = records(whole, "test")  # on the dev rows again: so at the kept step the score is the same
    assert test["similarity"] == max(dev_records(whole), key=lambda record: record["score"])["similarity"]
    for record in dev_records(whole):
        parts = [record[name] for name in ("sentiment", "paraphrase", "similarity")]
        assert record["score"] == pytest.approx(np.mean(parts))

    step, count = Stepper.update, iter(range(1000))

    def interrupted(self: Stepper, number: int) -> Any:
        if next(count) == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return step(self, number)

    monkeypatch.setattr(Stepper, "update", interrupted)
    assert train("part", **options).stopped == "SIGTERM"
    isotune.train(out=tmp_path / "part", resume=True, quiet=True)
    a, b = (load_file(tmp_path / name / "last.safetensors") for name in ("whole", "part"))
    assert any(key.endswith("paraphrase.weight") for key in a)
    assert a.keys() == b.keys()
    assert all(torch.equal(a[key], b[key]) for key in a)
    assert (tmp_path / "whole" / "predictions.npz").read_bytes() == (tmp_path / "part" / "predictions.npz").read_bytes()
