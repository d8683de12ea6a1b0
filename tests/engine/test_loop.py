"""The loop without a run: what a run does, to the last bit."""

from pathlib import Path

import pytest
import torch

import isotune
from isotune.data import read
from isotune.data.draws import derive_seed
from isotune.data.rows import Pair, Sentence
from isotune.encoder.encoder import Encoder
from isotune.engine.loop import train_steps
from isotune.engine.objectives import build_objectives
from isotune.kernels.cpu.float32 import fast_float32
from isotune.kernels.threads import no_denormals
from isotune.recipes import Stage

SEED = 3
OPTIONS = {
    "method": "simcse",
    "epochs": 1.0,
    "batch_size": 64,
    "learning_rate": 3e-4,
    "max_length": 32,
    "precision": "float32",
}


def test_a_thousand_sentences_give_the_weights_of_a_run_to_the_last_bit(tmp_path: Path) -> None:
    rows = []
    for row in read(["stsb-open:train"], Sentence):
        rows.append(row)
        if len(rows) == 1000:
            break
    encoder = Encoder.load("bert-tiny", precision="float32")
    stage = Stage.model_validate(OPTIONS)
    objectives = build_objectives(stage, encoder, derive_seed(SEED, "method", 0))
    with fast_float32(), no_denormals():
        updates = list(train_steps(encoder, objectives, rows, stage.training, SEED))

    sentences = [row.sentence for row in rows]
    losses = []
    result = isotune.train(
        rows=sentences,
        out=tmp_path / "run",
        seed=SEED,
        dev="none",
        tasks=["stsb-open:dev"],
        quiet=True,
        watch=lambda record: losses.append(record.get("loss")),
        **OPTIONS,
    )
    assert len(updates) == 1000 // 64
    assert updates[9].loss.item() in losses
    start = Encoder.load("bert-tiny").backbone.state_dict()
    weights = encoder.backbone.state_dict()
    for name, weight in result.encoder.backbone.state_dict().items():
        assert torch.equal(weights[name], weight), name
    assert any(not torch.equal(weights[name], weight) for name, weight in start.items())


@pytest.mark.parametrize("method", ["mirror", "clsr", "distil"])
def test_other_methods_are_trained_too(method: str, tiny_model: Path, sentences: list[str]) -> None:
    """A method that draws texts, one whose vectors are computed once, and one with teachers."""
    encoder = Encoder.load(tiny_model)
    table = {"method": method, "steps": 3, "batch_size": 8, "learning_rate": 1e-3}
    stage = Stage.model_validate(table)
    objectives = build_objectives(stage, encoder)
    rows: list[Sentence] | list[Pair] = [Sentence(text) for text in sentences]
    if objectives.method.rows is Pair:
        rows = [Pair(a, b) for a, b in zip(sentences[:30], sentences[30:], strict=True)]
    updates = list(train_steps(encoder, objectives, rows, stage.training))
    assert [update.step for update in updates] == [1, 2, 3]
    assert all(update.loss.isfinite() for update in updates)
