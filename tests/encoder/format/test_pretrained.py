"""Unusable model folders: each gives an error of one clear line, and nothing is newly initialised."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from isotune.encoder.encoder import Encoder
from isotune.errors import InputError


@pytest.fixture
def model(tiny_model: Path, tmp_path: Path) -> Path:
    """A copy of the model, which a test may damage."""
    return Path(shutil.copytree(tiny_model, tmp_path / "model"))


def weights(change: Callable[[dict[str, torch.Tensor]], None]) -> Callable[[Path], None]:
    """Changes the tensors of a folder."""

    def apply(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})

    return apply


def cut_short(folder: Path) -> None:
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[: len(content) // 2])


def only_a_pickle(folder: Path) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


KEY = "encoder.layer.1.output.dense.weight"
DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no weights": (lambda m: (m / "model.safetensors").unlink(), "no weights; model.safetensors is missing"),
    "a pickle only": (only_a_pickle, r"only there as a pickle \(pytorch_model.bin\)"),
    "weights cut short": (cut_short, "can't be loaded"),
    "a weight missing": (weights(lambda t: t.pop(KEY)), f"its weight file lacks {KEY}"),
    "a weight too many": (weights(lambda t: t.update({"foo.weight": t[KEY] + 1})), "doesn't know foo.weight"),
    "a layer too many": (
        weights(lambda t: t.update({"encoder.layer.3.output.dense.weight": t[KEY] + 1})),
        "doesn't know encoder.layer.3.output.dense.weight",
    ),
    "another shape": (weights(lambda t: t.update({KEY: torch.zeros(3, 3)})), f"another shape for {KEY}"),
    "a weight that is no number": (
        weights(lambda t: t.update({KEY: t[KEY] * float("nan")})),
        "its weights have NaN or infinite values",
    ),
    "no config": (lambda m: (m / "config.json").unlink(), "there is no config.json"),
    "a broken config": (lambda m: (m / "config.json").write_text("{"), "can't be loaded"),
    "no tokenizer": (
        lambda m: [(m / name).unlink() for name in ("tokenizer.json", "tokenizer_config.json")],
        "there is no tokenizer",
    ),
    "a broken tokenizer": (lambda m: (m / "tokenizer.json").write_text("{"), "tokenizer can't be loaded"),
    "a smaller vocabulary": (
        lambda m: (m / "config.json").write_text(
            (m / "config.json").read_text().replace('"vocab_size": 28', '"vocab_size": 9')
        ),
        "another shape for embeddings.word_embeddings.weight",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_folder_is_refused_in_one_line(name: str, model: Path) -> None:
    damage, message = DAMAGES[name]
    damage(model)
    with pytest.raises(InputError, match=message) as caught:
        Encoder.load(model)
    assert str(model) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_task_head_of_a_pretrained_model_is_left_out(model: Path) -> None:
    expected = Encoder.load(model).encode("a dog")
    weights(lambda t: t.update({"cls.predictions.bias": torch.zeros(5), "pooler.dense.bias": torch.zeros(32)}))(model)
    weights(lambda t: t.update({"pooler.dense.weight": torch.zeros(32, 32)}))(model)
    assert (Encoder.load(model).encode("a dog") == expected).all()


def test_code_in_a_folder_is_not_run_and_no_question_is_asked(model: Path) -> None:
    (model / "evil.py").write_text("raise SystemExit('it ran')")
    config = json.loads((model / "config.json").read_text())
    config |= {"model_type": "evil", "auto_map": {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}}
    (model / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="it can't be loaded"):
        Encoder.load(model)


def test_a_name_that_is_no_folder_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for name in ("nobody/nothing", str(tmp_path / "missing"), "../../x"):
        with pytest.raises(InputError, match="there is no such folder") as caught:
            Encoder.load(name)
        assert "\n" not in str(caught.value)


def test_a_file_is_refused(model: Path) -> None:
    with pytest.raises(InputError, match="this is a file"):
        Encoder.load(model / "config.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"type": "sentence_transformers.models.LSTM"}, "it has a module sentence_transformers.models.LSTM"),
        ({"pooling_mode_max_tokens": True}, r"pooling mean \+ max"),
        ({"pooling_mode_mean_tokens": False}, "supported is one of cls, mean, max, weightedmean"),
        ({"type": None}, "its sentence-transformers files can't be understood"),
    ],
)
def test_an_unsupported_module_or_setting_is_refused(
    change: dict[str, object], message: str, tiny_model: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "saved"
    Encoder.load(tiny_model).save(folder)
    path = folder / ("modules.json" if "type" in change else "1_Pooling/config.json")
    content = json.loads(path.read_text())
    (content[1] if "type" in change else content).update(change)
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=message):
        Encoder.load(folder)
