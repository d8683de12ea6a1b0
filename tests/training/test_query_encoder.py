"""A small encoder that learns the vectors of another one, and can ask in its index."""

import json
import shlex

import pytest
import torch

from isotune.bundled import BUNDLED_MODEL
from isotune.encoder.encoder import Encoder
from isotune.encoder.heads import Dense, Normalize
from isotune.errors import InputError
from isotune.methods.linear_map import RIDGE, linear_map
from isotune.report.stages import NEXT
from tests.training.conftest import Train, assert_same_end, stop_and_resume

OPTIONS = {
    "method": "distil",
    "match": "vectors",
    "teachers": [str(BUNDLED_MODEL)],
    "dev": "none",
    "batch_size": 30,
    "steps": 40,
    "learning_rate": 1e-2,
}


def test_the_vectors_come_near_those_of_the_teacher(train: Train, sentences: list[str]) -> None:
    teacher = Encoder.load(BUNDLED_MODEL)
    theirs = teacher.encode(sentences, normalize=True)
    begun = train("begun", **{**OPTIONS, "steps": 1}).encoder
    run = train(**OPTIONS)
    assert "collapsing" not in (run.folder / "train.log").read_text()
    learned = Encoder.load(run.folder / "encoder")
    assert [type(head) for head in learned.heads] == [Dense, Normalize]
    before = (begun.encode(sentences) * theirs).sum(1).mean()
    after = (learned.encode(sentences) * theirs).sum(1).mean()
    assert before < 0.7
    assert after > 0.95
    assert learned.space_of == teacher.fingerprint()
    assert_same_end(run.folder, stop_and_resume(train, 25, **OPTIONS).folder)


def test_an_encoder_that_is_changed_has_a_space_of_its_own(train: Train) -> None:
    learned = train(**{**OPTIONS, "steps": 2}).encoder
    assert learned.space_of
    assert learned.cut_to(8).space_of is None
    assert train("later", model=learned, steps=2).encoder.space_of is None


def test_a_teacher_is_asked_by_its_prompt_for_queries(train: Train, sentences: list[str]) -> None:
    teacher = Encoder.load(BUNDLED_MODEL)
    teacher.settings = {"prompts": {"query": "a red ball ", "document": "a cat "}}
    folder = train(**{**OPTIONS, "steps": 1}).folder.parent / "teacher"
    teacher.save(folder)
    learned = train("asked", **{**OPTIONS, "teachers": [str(folder)]}).encoder
    vectors = learned.encode(sentences)
    asked = (vectors * teacher.encode_query(sentences, normalize=True)).sum(1).mean()
    answered = (vectors * teacher.encode_document(sentences, normalize=True)).sum(1).mean()
    assert asked > answered


@pytest.mark.parametrize("teachers", [[], [str(BUNDLED_MODEL)] * 2])
def test_the_vectors_of_one_teacher_are_learned(train: Train, teachers: list[str]) -> None:
    with pytest.raises(InputError, match="the encoder learns the vectors of one other encoder"):
        train(**{**OPTIONS, "teachers": teachers})


def test_the_map_is_a_ridge_regression() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(90, 7, generator=generator) * torch.logspace(0, -2, 7) + 3
    y = torch.randn(90, 4, generator=generator) + x @ torch.randn(7, 4, generator=generator)
    centred = (x - x.mean(0)).double()
    penalty = RIDGE * 90 * x.double().var(0, correction=0).mean() * torch.eye(7).double()
    weights = torch.linalg.solve(
        centred.T @ centred + penalty, centred.T @ (y - y.mean(0)).double()
    )
    expected = centred @ weights + y.double().mean(0)
    torch.testing.assert_close(linear_map(x, y)(x).double(), expected, rtol=1e-4, atol=1e-4)


def test_the_map_is_trained_further(train: Train, sentences: list[str]) -> None:
    theirs = Encoder.load(BUNDLED_MODEL).encode(sentences, normalize=True)
    stages = [
        {"method": "linear-map"},
        {"method": "distil", "match": "vectors", "learning_rate": 1e-3, "steps": 40},
    ]
    options = {"stages": stages, "teachers": OPTIONS["teachers"], "dev": "none", "batch_size": 30}
    free = dict.fromkeys(("steps", "learning_rate"))
    run = train(**options, **free)
    assert [type(head) for head in run.encoder.heads] == [Dense, Normalize]
    assert (run.encoder.encode(sentences) * theirs).sum(1).mean() > 0.99
    assert run.encoder.space_of == Encoder.load(BUNDLED_MODEL).fingerprint()


def test_the_teacher_makes_the_index_in_which_the_new_encoder_asks(train: Train) -> None:
    run = train(**{**OPTIONS, "steps": 1})
    index = shlex.quote(f"{run.folder}-index")
    kept = shlex.quote(str(run.folder / "encoder"))
    told = json.loads((run.folder / NEXT).read_text())
    teacher = shlex.quote(str(BUNDLED_MODEL))
    assert any(line.startswith(f"  isotune index {teacher} ") for line in told)
    assert f'  isotune search {index} "YOUR QUESTION" --encoder {kept}' in told
    assert f"  isotune serve {kept} --index {index}" in told


def test_an_encoder_that_gives_its_own_vectors_asks_in_no_index_of_the_teacher(
    train: Train,
) -> None:
    run = train(**{**OPTIONS, "match": "similarities", "steps": 1})
    assert "--encoder" not in (run.folder / NEXT).read_text()
