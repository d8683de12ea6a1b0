"""Data and models are fetched ahead of their use, checked, and read where there is no network."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from isotune import Encoder
from isotune.cli import main as run
from isotune.data import LabelledPair, LabelledSentence, Pair, ScoredPair, Sentence, available, read
from isotune.data.fetch import fetch, members
from isotune.encoder.format.pretrained import local_folder
from isotune.errors import InputError
from isotune.lab.studies import read_study
from isotune.lab.studies.plan import needs
from tests.hub.model_files import Files, with_pickle, with_safetensors
from tests.hub.server import LocalHub


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> Callable[[LocalHub], None]:
    """Takes the network away."""

    def stop(hub: LocalHub) -> None:
        hub.stop()
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)

    return stop


def test_datasets_are_read_offline_after_they_were_fetched(
    published: LocalHub,
    uncounted: None,
    offline: Callable[[LocalHub], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = ["all-nli", "snli:dev", "sts12", "hub:SetFit/sst5", "hub:me/notes/notes.jsonl"]
    published.add("me/notes", {"notes.jsonl": '{"sentence": "a dog"}\n' * 3}, kind="dataset")
    assert not any(map(available, names[:3]))
    assert run(["datasets", "fetch", *names]) == 0
    out = capsys.readouterr().out
    assert re.search(
        r"^fetching: hub:princeton-nlp/datasets-for-simcse@\w{40}/senteval\.tar$", out, re.MULTILINE
    )
    assert re.findall(r"^checked: (.*)$", out, re.MULTILINE) == [
        *("all-nli:train, 24 rows", "all-nli:dev, 12 rows", "all-nli:test, 12 rows"),
        *("snli:dev, 12 rows", "sts12:test, 60 rows"),
    ]
    offline(published)
    assert all(map(available, names[:3]))
    assert len(list(read("all-nli:train", Pair))) == 8
    assert {row.label for row in read("snli:test", LabelledPair)} == {
        "entailment",
        "neutral",
        "contradiction",
    }
    assert len(list(read("sts12:test", ScoredPair))) == 60
    assert len(list(read("hub:SetFit/sst5:validation", LabelledSentence))) == 12
    assert len(list(read("hub:me/notes/notes.jsonl", Sentence))) == 3
    with pytest.raises(
        InputError, match=r"pair:train: can't be read from the Hugging Face hub \(.*offline mode"
    ):
        read("hub:sentence-transformers/all-nli/pair:train", Sentence)


def test_what_is_here_is_not_fetched_again(published: LocalHub, uncounted: None) -> None:
    assert list(fetch(["qnli", "qnli:dev", "sts12", "stsb"])) == [
        "hub:nyu-mll/glue/qnli",
        "hub:princeton-nlp/datasets-for-simcse@e145e8bb659b2aa2669f32ef79cb4cdef6c58fef/senteval.tar",
    ]
    assert list(fetch(["qnli", "sts12", "stsb", "stsb-open"])) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["fetch", "nli-sample"],
            "nli-sample: it is not published; set ISOTUNE_DATA to a folder with nli/nli",
        ),
        (["fetch", "qnlii"], "unknown dataset 'qnlii': did you mean 'qnli'"),
        (["fetch"], "fetch: name at least one dataset, as in isotune datasets fetch stsb"),
        (["fetch", "hub:me/none"], "hub:me/none: no such dataset on the Hugging Face hub"),
    ],
)
def test_what_cannot_be_fetched(
    published: LocalHub, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert run(["datasets", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_table_is_fetched_with_its_model(
    published: LocalHub,
    uncounted: None,
    tiny_model: Path,
    offline: Callable[[LocalHub], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    published.add("google-bert/bert-base-uncased", with_safetensors(tiny_model))
    assert run(["reproduce", "consert/table4", "--fetch"]) == 0
    out = capsys.readouterr().out
    assert "fetching: google-bert/bert-base-uncased\n" in out
    offline(published)
    data, models = needs(read_study("consert/table4"))
    assert all(map(available, data))
    for model in models:
        Encoder.load(model)


def test_weights_in_the_root_are_fetched_where_only_a_subfolder_has_safetensors(
    local_hub: LocalHub, tiny_model: Path
) -> None:
    files: Files = {
        **with_pickle(tiny_model),
        "1_Pooling/config.json": b"{}",
        "onnx/model.safetensors": b"not read",
    }
    local_hub.add("me/mixed", files)
    Encoder.load("me/mixed").encode(["a dog"])
    assert not any(path.endswith("1_Pooling/pytorch_model.bin") for path in local_hub.asked)


def test_settings_and_heads_are_fetched_without_the_language_model(
    local_hub: LocalHub, tiny_model: Path
) -> None:
    files: Files = {"modules.json": b"[]", "2_Dense/model.safetensors": b"a head"}
    for name, content in with_safetensors(tiny_model).items():
        files[f"0_Transformer/{name}"] = content
    local_hub.add("me/older", files)
    folder = local_folder("me/older", weights=False)
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*.safetensors")}
    assert names == {"2_Dense/model.safetensors"}
    local_folder("me/older")
    assert (folder / "0_Transformer/model.safetensors").exists()


def test_a_dataset_is_fetched_with_the_one_that_has_its_scores() -> None:
    assert members("minbert-sts") == ("minbert-sts", "stsb")
