"""Runs that choose their step without labels, and what every run records of it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file

import isotune
from isotune.encoder.encoder import Encoder
from isotune.evaluation.unlabelled import SELECTION_CRITERION
from isotune.training import Result
from isotune.training.step import Stepper

Train = Callable[..., Result]


def records(run: Path, kind: str) -> list[dict[str, Any]]:
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [record for record in lines if record["kind"] == kind]


def best_step(run: Path) -> int:
    """The step that the criterion likes best, the first of several."""
    found = records(run, "unlabelled")
    return int(max(found, key=lambda record: record[SELECTION_CRITERION])["step"])


@pytest.fixture
def labelled(sentences: list[str], tmp_path: Path) -> str:
    lines = ["sentence\tlabel", *(f"{sentence}\t{len(sentence) % 2}" for sentence in sentences)]
    path = tmp_path / "labelled.tsv"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_the_best_step_by_the_criterion_is_kept(train: Train) -> None:
    result = train(dev="unlabelled", steps=24, learning_rate=3e-3)
    found = records(result.folder, "unlabelled")
    assert [record["step"] for record in found] == [0, 4, 8, 12, 16, 20, 24]
    names = ("alignment_uniformity", "view_retrieval", "neighbour_rank")
    assert np.isfinite([[record[name] for name in names] for record in found]).all()
    assert records(result.folder, "dev") == []
    kept = result.evaluation.selected_step
    assert kept == best_step(result.folder) == [record["step"] for record in found if record["best"]][-1]
    weights = load_file(result.folder / f"best-0-{kept}.safetensors")
    assert (Encoder.load(result.encoder).state_dict()["backbone.model.embeddings.word_embeddings.weight"]).equal(
        weights["backbone.model.embeddings.word_embeddings.weight"]
    )


def test_scored_pairs_choose_where_there_are_some(train: Train) -> None:
    result = train()
    scores = {record["step"]: record["score"] for record in records(result.folder, "dev")}
    assert result.evaluation.selected_step == max(scores, key=lambda step: scores[step])
    unlabelled = records(result.folder, "unlabelled")
    assert all(SELECTION_CRITERION in record and "best" not in record for record in unlabelled)
    assert len(unlabelled) == len(scores)


def test_patience_counts_the_criterion(train: Train) -> None:
    result = train(dev="unlabelled", steps=400, eval_every=1, patience=3, learning_rate=1e-9, model_dropout=0.0)
    assert len(records(result.folder, "unlabelled")) < 40


def test_the_start_is_kept_if_no_step_is_better(train: Train) -> None:
    # With masked tokens alone, at a rate that ruins the model, all sentences become the same.
    result = train(method="mlm", dev="unlabelled", learning_rate=0.3, steps=8)
    assert result.evaluation.selected_step == 0
    assert any(SELECTION_CRITERION in record["message"] for record in records(result.folder, "warning"))


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("clsr", {"width": 8}),
        ("flow", {"cached": True}),
        ("whitening", {}),
        ("consert", {}),
        ("self-guided", {}),
    ],
)
def test_methods_of_every_kind(train: Train, pairs: Path, method: str, options: Mapping[str, Any]) -> None:
    options = {**options, "min_score": 2.0, "sources": str(pairs)} if method == "clsr" else options
    result = train(method=method, dev="unlabelled", **options)
    assert result.evaluation.selected_step == best_step(result.folder)


def test_labelled_dev_rows_of_a_method_choose_before_it(train: Train, labelled: str) -> None:
    result = train(method="finetune-sentence", dev="unlabelled", sources=labelled, dev_data=[labelled])
    scores = {record["step"]: record["score"] for record in records(result.folder, "dev")}
    assert result.evaluation.selected_step == max(scores, key=lambda step: scores[step])
    assert len(records(result.folder, "unlabelled")) == len(scores)


def test_a_stopped_run_goes_on_bit_for_bit(train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = train("whole", dev="unlabelled")
    step = Stepper.update

    def interrupted(self: Stepper, number: int) -> Any:
        if number == 6:
            os.kill(os.getpid(), signal.SIGTERM)
        return step(self, number)

    monkeypatch.setattr(Stepper, "update", interrupted)
    stopped = train("parts", dev="unlabelled")
    monkeypatch.undo()
    # The step that it was stopped at is no evaluation, so it can't be what is kept.
    assert [record["step"] for record in records(stopped.folder, "unlabelled")] == [0, 4]
    resumed = isotune.train(out=tmp_path / "parts", resume=True, quiet=True)
    assert records(whole.folder, "unlabelled") == records(resumed.folder, "unlabelled")
    a, b = (load_file(result.folder / "last.safetensors") for result in (whole, resumed))
    assert a.keys() == b.keys()
    assert all(a[key].equal(b[key]) for key in a)
