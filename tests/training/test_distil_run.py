"""Distillation: what the teachers make of a corpus, and the plain encoder that a run ends with."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn.functional import cosine_similarity

from isotune.bundled import BUNDLED_MODEL
from isotune.data.rows import Sentence
from isotune.data.tokens import TokenDataset, Tokenized
from isotune.encoder.encoder import Encoder
from isotune.encoder.pooling import Pooling
from isotune.engine.loader import FeedLoader
from isotune.errors import InputError
from isotune.training import run_folder
from tests.training.conftest import Train, assert_same_end, metrics, stop_and_resume


def stored(sentences: list[str], encoder: Encoder) -> TokenDataset:
    return TokenDataset.build(
        map(Sentence, sentences),
        Sentence,
        lambda columns: Tokenized([*map(encoder.tokenize, columns)]),
        32,
        keep_text=True,
    )


def test_the_cosine_of_two_targets_is_the_mean_of_the_teachers_cosines(
    tiny_model: Path, sentences: list[str]
) -> None:
    teachers = [Encoder.load(tiny_model), Encoder.load(BUNDLED_MODEL)]  # of 32 and of 128 features
    store = stored(sentences[:9], teachers[0])
    loader = FeedLoader(store, 9, "rows", 0)
    loader.teach(teachers, steps=1)
    targets = loader.batch(np.arange(9), torch.Generator()).targets
    expected = []
    for teacher in teachers:
        vectors = torch.from_numpy(teacher.encode(sentences[:9]))
        expected.append(cosine_similarity(vectors[:, None], vectors, dim=-1))
    cosines = cosine_similarity(targets[:, None], targets, dim=-1)
    torch.testing.assert_close(cosines, torch.stack(expected).mean(0), rtol=0, atol=1e-5)


def test_the_teachers_encode_only_the_rows_of_the_steps(
    tiny_model: Path, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    teacher = Encoder.load(tiny_model)
    store = stored(sentences, teacher)
    loader = FeedLoader(store, 8, "rows", 0)
    expected = torch.from_numpy(teacher.encode(sentences, normalize=True))
    counts = []
    encode = Encoder.encode
    monkeypatch.setattr(
        Encoder,
        "encode",
        lambda self, texts, **options: counts.append(len(texts)) or encode(self, texts, **options),
    )
    loader.teach([teacher], steps=3)
    assert counts == [24]
    for step in range(3):
        batch = loader.batch(loader.sampler[step], torch.Generator())
        torch.testing.assert_close(batch.targets, expected[loader.sampler[step]], rtol=0, atol=1e-5)


def test_the_teachers_encode_all_rows_for_an_epoch(tiny_model: Path, sentences: list[str]) -> None:
    teacher = Encoder.load(tiny_model)
    loader = FeedLoader(stored(sentences, teacher), 8, "rows", 0)
    targets = loader.teach([teacher], steps=60 // 8)
    expected = torch.from_numpy(teacher.encode(sentences, normalize=True))
    torch.testing.assert_close(targets, expected, rtol=0, atol=1e-5)


def test_a_disk_is_refused_that_cannot_hold_two_checkpoints_with_the_teacher(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = [{"method": "sif"}, {"method": "distil"}]
    run = train(
        "kept",
        stages=stages,
        layers=[0, -1],
        dev="none",
        batch_size=30,
        steps=4,
        keep_checkpoints=True,
    )
    files = sum(
        path.stat().st_size for path in run.folder.glob("*.safetensors")
    )  # and again while they are written
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1.8 * files))
    with pytest.raises(InputError, match="the run needs up to"):
        run_folder.check_space(tmp_path, run.encoder)


def test_a_run_ends_in_a_plain_encoder_with_the_similarities_of_the_stage_before(
    train: Train,
) -> None:
    stages = [{"method": "sif"}, {"method": "distil", "model_dropout": 0.0}]
    options = {"stages": stages, "layers": [0, -1], "dev": "none", "batch_size": 30, "steps": 40}
    whole = train("whole", **options)
    encoder = whole.encoder
    assert encoder.pooling == Pooling("mean", (-1,))
    assert (list(encoder.heads), encoder.token_weights) == ([], None)
    first, *_, last = (record["loss"] for record in metrics(whole.folder, "train"))
    assert 0 < last < first
    assert_same_end(whole.folder, stop_and_resume(train, 25, **options).folder)
