"""Translation there and back, with small random models made here."""

import io
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load, save
from transformers import AutoTokenizer, MarianMTModel

from isotune.errors import InputError
from isotune.methods import back_translation
from isotune.methods.back_translation import BackTranslator
from tests.hub.model_files import with_safetensors
from tests.hub.server import LocalHub


def alone(text: str, model: Path, beams: int) -> str:
    """One text through one model, by itself."""
    tokenizer, loaded = (
        AutoTokenizer.from_pretrained(model),
        MarianMTModel.from_pretrained(model).eval(),
    )
    found = loaded.generate(**tokenizer([text], return_tensors="pt"), num_beams=beams)
    return str(tokenizer.decode(found[0], skip_special_tokens=True))


def test_texts_go_there_and_back_and_come_in_their_order(
    translators: tuple[str, str], sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(back_translation, "BEAMS", 9)  # four texts at a time
    texts = [*sentences[:10], "cat", sentences[0]]
    translator = BackTranslator(translators, beams=2)
    paraphrases = translator(texts)
    there, back = map(Path, translators)
    assert paraphrases == [alone(alone(text, there, 2), back, 2) for text in texts]
    assert len(set(paraphrases)) > 3
    for folder in (there, back):
        (folder / "model.safetensors").unlink()  # the models are loaded once
    assert translator(texts) == paraphrases


def test_settings_tell_apart_what_makes_other_paraphrases(
    translators: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = translators[0]
    settings = BackTranslator((there, "owner/name"), 3).settings
    assert settings == {"models": [there, "owner/name"], "beams": 3}
    monkeypatch.chdir(Path(there).parent)
    assert BackTranslator((Path(there).name, "owner/name"), 3).settings == settings


def test_a_missing_package_is_an_error_with_the_command_that_installs_it(
    translators: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*args: object, **options: object) -> None:
        raise ImportError("MarianTokenizer requires the SentencePiece library")

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", fails)
    with pytest.raises(
        InputError, match=r"MarianTokenizer requires .*; pip install 'isotune\[translation\]'"
    ):
        BackTranslator(translators, beams=1)(["a cat"])


def test_a_model_that_does_not_translate_is_one_clear_error(
    tiny_model: Path, tmp_path: Path
) -> None:
    for folder, message in (
        (tiny_model, "it can't be loaded"),
        (tmp_path, "there is no config.json"),
    ):
        with pytest.raises(InputError, match=f"^translation model .*: {message}"):
            BackTranslator((str(folder), str(folder)), beams=1)(["a cat"])


def test_a_missing_weight_is_an_error_unless_it_is_computed(translators: tuple[str, str]) -> None:
    folder = Path(translators[0])
    path = folder / "model.safetensors"
    computed = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
    tensors = {key: value for key, value in load(path.read_bytes()).items() if key not in computed}
    path.write_bytes(save(tensors, {"format": "pt"}))
    _, model = back_translation._load(str(folder))
    assert model.dtype == torch.float32
    assert not model.training
    key = "model.decoder.layers.0.fc1.weight"
    tensors[key] = tensors[key][1:]
    path.write_bytes(save(tensors, {"format": "pt"}))
    with pytest.raises(InputError, match=f"its weights lack {key}"):
        back_translation._load(str(folder))


def test_models_of_the_hub_with_a_pickle(local_hub: LocalHub, translators: tuple[str, str]) -> None:
    for folder in map(Path, translators):
        files = with_safetensors(folder)
        weights = io.BytesIO()
        torch.save(load(files.pop("model.safetensors")), weights)
        local_hub.add(f"me/{folder.name}", {**files, "pytorch_model.bin": weights.getvalue()})
    names = [f"me/{Path(folder).name}" for folder in translators]
    texts = ["a dog sees the cat .", "the ball"]
    assert BackTranslator(names, beams=2)(texts) == BackTranslator(translators, beams=2)(texts)
    with pytest.raises(InputError, match=r"^translation model me/none: there is no such folder"):
        BackTranslator(["me/none"] * 2, beams=2)(texts)
