"""Training at several widths: the terms of each width, every method, and what is refused."""

import json
from pathlib import Path

import pytest
import torch

from isotune.encoder.encoder import Encoder
from isotune.engine.objectives import Objectives, build_objectives
from isotune.errors import InputError
from isotune.methods import METHODS, OPTIONS
from isotune.recipes import Stage
from tests.conftest import attached, encode_views
from tests.methods.test_methods import make_batch
from tests.training.conftest import Train

WITH_WIDTHS = [name for name in METHODS if OPTIONS[name].takes_steps and METHODS[name].has_widths]
WITHOUT_WIDTHS = ["flow", "bert-cf", "mlm", "finetune-sentence", "finetune-pair"]


def test_methods_have_widths_or_are_known_to_have_none() -> None:
    with_steps = {name for name in METHODS if OPTIONS[name].takes_steps}
    assert with_steps == {*WITH_WIDTHS, *WITHOUT_WIDTHS}


@pytest.mark.parametrize("name", WITH_WIDTHS)
def test_the_loss_of_the_whole_width_is_the_usual_loss(
    name: str, encoder: Encoder, sentences: list[str]
) -> None:
    method = attached(METHODS[name](OPTIONS[name](), encoder).eval(), encoder).double()
    encoder.double().eval()
    width = encoder.dimension
    batch = make_batch(method, encoder, sentences)
    losses = []
    for widths in ((), (width,), (width, 4)):
        batch.generator.manual_seed(0)
        objectives = Objectives(method, widths=widths)
        views, terms_of, adversary = objectives.views_and_losses(batch, encoder.device)
        losses.append(terms_of(encode_views(encoder, views, adversary)))
    usual, whole, both = losses
    assert [f"{key}_{width}" for key in usual] == list(whole)
    torch.testing.assert_close(list(whole.values()), list(usual.values()))
    for key in whole:
        torch.testing.assert_close(both[key], whole[key])
    cut = [both[key] for key in both.keys() - whole.keys()]
    assert len(cut) == len(usual)
    assert torch.isfinite(torch.stack(cut)).all()


def test_a_run_records_the_loss_of_each_width(train: Train) -> None:
    run = train(matryoshka=[32, 8])
    assert run.encoder.dimension == 32
    lines = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    terms = [line["terms"] for line in lines if line["kind"] == "train"]
    assert terms
    assert all(set(each) == {"info_nce_32", "info_nce_8"} for each in terms)


@pytest.mark.parametrize(
    ("widths", "message"),
    [
        ([33, 8], "matryoshka 33: the vectors have 32 features; give that many or fewer"),
        ([8, 32], "give each number of features once, the largest first"),
        ([32, 8, 8], "give each number of features once, the largest first"),
        ([32, 0], "matryoshka"),
    ],
)
def test_widths_that_can_not_be_are_refused(
    train: Train, tmp_path: Path, widths: list[int], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        train(matryoshka=widths)
    assert not list(tmp_path.glob("run/*.safetensors"))


@pytest.mark.parametrize("name", WITHOUT_WIDTHS)
def test_a_loss_without_widths_is_refused(encoder: Encoder, name: str) -> None:
    stage = Stage.model_validate({"method": name, "matryoshka": [8]})
    with pytest.raises(InputError, match=f"matryoshka: the loss of method {name} is not one of"):
        build_objectives(stage, encoder)


def test_new_layers_have_widths_of_their_own(encoder: Encoder) -> None:
    table = {"method": "clsr", "width": 48}
    build_objectives(Stage.model_validate({**table, "matryoshka": [48]}), encoder)
    with pytest.raises(InputError, match="matryoshka 49: the vectors have 48 features"):
        build_objectives(Stage.model_validate({**table, "matryoshka": [49]}), encoder)
