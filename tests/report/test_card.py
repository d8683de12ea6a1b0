"""The model card: what it tells of a run, and what it calls unknown."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard

from isotune.encoder.encoder import Encoder
from isotune.encoder.options import POOLINGS
from isotune.errors import InputError
from isotune.report import write_card
from isotune.report.card import model_card
from isotune.training import train
from isotune.use.export.onnx import PaddedEncoder


@pytest.fixture(scope="module")
def run(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two steps, on a file whose path nobody else should read."""
    folder = tmp_path_factory.mktemp("secret")
    (folder / "notes.txt").write_text("a dog eats\nthe man plays ball\na cat sees the house\n" * 4)
    options: dict[str, Any] = {
        "model": str(tiny_model),
        "method": "simcse",
        "steps": 2,
        "batch_size": 4,
        "dev": "none",
    }
    options["tasks"] = ["stsb-open"]
    train(folder / "notes.txt", out=folder / "run-0", quiet=True, **options)
    return folder / "run-0"


def card_of(run: Path) -> str:
    return (run / "encoder" / "README.md").read_text("utf-8")


def test_a_run_writes_a_card_that_the_hub_can_read(run: Path) -> None:
    card = ModelCard(card_of(run))
    assert card.data.library_name == "sentence-transformers"
    assert card.data.pipeline_tag == "sentence-similarity"
    assert card.text.startswith("# run-0\n")
    assert "made by isotune" in card.text


def test_a_card_names_the_data_the_scores_and_the_recipe(run: Path) -> None:
    card = ModelCard(card_of(run))
    data = json.loads((run / "data.json").read_text())["stage 1"]
    assert f"| notes.txt | {data['rows']} | {data['sha256']} | unknown |" in card.text
    evaluation = json.loads((run / "evaluation.json").read_text())
    scores = [evaluation[when]["tasks"][0]["spearman"]["all"] for when in ("before", "after")]
    assert (
        "| STS-B open | {:.2f} | {:.2f} |\n".format(*(100 * score for score in scores)) in card.text
    )
    assert "- The start, tiny: unknown." in card.text
    assert 'method = "simcse"' in card.text


def test_a_card_tells_no_path(run: Path, tiny_model: Path) -> None:
    assert str(run.parent) not in card_of(run)
    assert str(tiny_model) not in card_of(run)


def test_a_card_says_that_the_start_was_kept(run: Path, tmp_path: Path) -> None:
    assert "by simcse" in card_of(run)
    kept = shutil.copytree(run, tmp_path / "run")
    evaluation = json.loads((run / "evaluation.json").read_text())
    (kept / "evaluation.json").write_text(json.dumps({**evaluation, "selected_step": 0}))
    (kept / "SHA256SUMS").unlink()
    write_card(Encoder.load(kept / "encoder"), kept / "encoder")
    assert (
        "from tiny, whose weights it has: the run kept the encoder that it started from."
        in card_of(kept)
    )
    assert "by simcse" not in card_of(kept)


def test_a_licence_of_the_maker_is_kept(run: Path) -> None:
    folder, encoder = run / "encoder", Encoder.load(run / "encoder")
    assert ModelCard(card_of(run)).data.license is None
    text = card_of(run)
    (folder / "README.md").write_text(text.replace("---\n", "---\nlicense: cc-by-4.0\n", 1))
    write_card(encoder, folder)
    assert ModelCard(card_of(run)).data.license == "cc-by-4.0"
    assert "- This encoder: cc-by-4.0.\n" in card_of(run)
    (folder / "README.md").write_text("---\nlicense: [\n---\n")
    with pytest.raises(InputError, match="its first lines are no YAML"):
        write_card(encoder, folder)
    (folder / "README.md").write_text("---\nlicense: mit\n---\n# Another program's card\n")
    write_card(encoder, folder)
    assert card_of(run) == text


@pytest.mark.parametrize(
    ("options", "left_out"),
    [
        ({"layers": (0, -1)}, "the average of its layers"),
        ({"pooling": "max"}, "the pooling max"),
        ({"prompt": "notes: {sentence}: it was"}, "the prompt's text after the sentence"),
        ({}, ""),
    ],
    ids=str,
)
def test_a_card_names_the_tools_that_leave_parts_out(
    options: dict[str, Any], left_out: str, tiny_model: Path
) -> None:
    encoder = Encoder.load(tiny_model, **options)
    card = " ".join(model_card(encoder, tiny_model).split())
    assert left_out in card
    assert ("text-embeddings-inference needs the ONNX folder" in card) == bool(left_out)
    assert ("llama.cpp can't have this encoder" in card) == bool(left_out)


@pytest.mark.parametrize("onnx", [False, True])
def test_a_card_says_what_other_tools_have_to_be_given(onnx: bool, tiny_model: Path) -> None:
    encoder = Encoder.load(tiny_model, prompt="notes: ")
    encoder.lowercase = True
    doers = "`encode` does" if onnx else "sentence-transformers, isotune and `encode` do"
    told = f"Give other tools lowercase sentences that begin with `notes: `. Only {doers} this by"
    assert told in " ".join(model_card(encoder, tiny_model, onnx=onnx).split())
    assert "Give other tools" not in model_card(Encoder.load(tiny_model), tiny_model, onnx=onnx)


@pytest.mark.parametrize("pooling", sorted(set(POOLINGS) - {"pooler"}))
def test_a_card_says_what_can_not_be_exported(pooling: str, tiny_model: Path) -> None:
    encoder = Encoder.load(
        tiny_model, pooling=pooling, prompt="{sentence} means {mask}" if pooling == "mask" else None
    )
    try:
        PaddedEncoder(encoder)
    except InputError:
        told = True
    else:
        told = False
    assert ("can't be exported to ONNX" in model_card(encoder, tiny_model)) == told


def test_the_card_of_an_export(tiny_model: Path) -> None:
    card = model_card(Encoder.load(tiny_model), tiny_model, onnx=True)
    assert "from encode import encode" in card
    assert "sentence_transformers" not in card
    assert "fastembed" in card


@pytest.mark.parametrize("name", ["evaluation.json", "data.json", "cosines.npz"])
def test_a_card_is_written_without_what_a_missing_file_says(
    run: Path, tmp_path: Path, name: str
) -> None:
    partial_run = shutil.copytree(run, tmp_path / "run")
    (partial_run / name).unlink(missing_ok=True)
    encoder = Encoder.load(partial_run / "encoder")
    path = write_card(encoder, partial_run / "encoder")
    assert "made by isotune" in path.read_text("utf-8")
