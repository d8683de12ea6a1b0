"""A task of mteb on an encoder, from the local hub: mteb's score is that of isotune's evaluation."""

from __future__ import annotations

import json
from pathlib import Path

import mteb
import pytest
from mteb.models.models_protocols import EncoderProtocol

from isotune.data import read_scored_pairs
from isotune.encoder.encoder import Encoder
from isotune.evaluation import evaluate
from isotune.integrations.mteb import BenchmarkModel
from tests.hub.server import LocalHub


@pytest.fixture
def task(local_hub: LocalHub) -> mteb.AbsTask:
    """STSBenchmark.v2, with the bundled pairs in place of all of them."""
    (task,) = mteb.get_tasks(tasks=["STSBenchmark.v2"])
    pairs = read_scored_pairs("stsb-open:test")
    rows = [
        {"split": "test", "sentence1": first, "sentence2": second, "score": score}
        for first, second, score in zip(pairs.sentence1, pairs.sentence2, pairs.scores.tolist(), strict=True)
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    files = {f"{split}.jsonl": lines for split in ("train", "validation", "test")}
    dataset = task.metadata.dataset
    local_hub.add(dataset["path"], files, kind="dataset", revision=dataset["revision"])
    return task


def test_a_task(task: mteb.AbsTask, tiny_model: Path, tmp_path: Path) -> None:
    model = BenchmarkModel(tiny_model)
    assert isinstance(model, EncoderProtocol)
    result = mteb.evaluate(model, task, cache=None, show_progress_bar=False, co2_tracker=False)
    (scores,) = result.task_results[0].scores["test"]
    expected = evaluate(Encoder.load(tiny_model), ["stsb-open"]).scores()["stsb-open"]
    assert scores["main_score"] == pytest.approx(expected, abs=1e-6)
    assert result.model_name == "local/tiny"
    assert result.model_revision == Encoder.load(tiny_model).fingerprint()
