"""huggingface_hub, datasets and transformers read from the local hub, as they are."""

from __future__ import annotations

import json
import time
from pathlib import Path

import datasets
import huggingface_hub
import pytest
import torch
from huggingface_hub import hf_hub_download, snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    LocalEntryNotFoundError,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from transformers import AutoModel, AutoTokenizer

from tests.hub.server import TOKEN, LocalHub

CARD = """---
configs:
- config_name: one
  default: true
  data_files:
  - split: train
    path: one/train.jsonl
  - split: validation
    path: one/dev.jsonl
- config_name: two
  data_files: two.jsonl
---
# A dataset
"""


def rows(*texts: str) -> str:
    return "".join(json.dumps({"sentence": text, "label": number}) + "\n" for number, text in enumerate(texts))


FILES = {
    "README.md": CARD,
    "one/train.jsonl": rows("a", "b", "c"),
    "one/dev.jsonl": rows("d"),
    "two.jsonl": rows("e"),
}


def test_a_dataset_by_config_split_and_revision(local_hub: LocalHub) -> None:
    local_hub.add("me/set", FILES, kind="dataset")
    local_hub.add("me/set", {**FILES, "one/dev.jsonl": rows("x", "y")}, kind="dataset", revision="v2")
    assert datasets.load_dataset("me/set", split="train")["sentence"][:] == ["a", "b", "c"]
    assert datasets.load_dataset("me/set", "one", split="validation")["sentence"][:] == ["d"]
    assert datasets.load_dataset("me/set", "two", split="train")["sentence"][:] == ["e"]
    streamed = datasets.load_dataset("me/set", "one", split="validation", revision="v2", streaming=True)
    assert [row["sentence"] for row in streamed] == ["x", "y"]


def test_a_file_and_a_snapshot(local_hub: LocalHub) -> None:
    large = bytes(range(256)) * 100
    commit = local_hub.add("me/model", {"config.json": "{}", "deep/er/notes.txt": "ä", "model.safetensors": large})
    path = Path(hf_hub_download("me/model", "deep/er/notes.txt"))
    assert path.read_text("utf-8") == "ä"
    local_hub.page = 2  # the tree comes in several answers
    folder = Path(snapshot_download("me/model", allow_patterns=["*.json", "*.safetensors"]))
    assert folder.name == commit
    assert (folder / "model.safetensors").read_bytes() == large
    assert huggingface_hub.HfApi().model_info("me/model").sha == commit
    # The file that was there isn't asked for again.
    local_hub.requests.clear()
    snapshot_download("me/model", allow_patterns=["*.json", "*.safetensors"])
    assert not any("resolve" in request.path for request in local_hub.requests)


def test_a_model_by_name(local_hub: LocalHub, tiny_model: Path) -> None:
    local_hub.add("me/tiny", {file.name: file.read_bytes() for file in tiny_model.iterdir()})
    model = AutoModel.from_pretrained("me/tiny")
    expected = AutoModel.from_pretrained(tiny_model)
    for name, parameter in model.named_parameters():  # the folder has no pooler: each gets a new one
        assert name.startswith("pooler.") or torch.equal(parameter, expected.get_parameter(name))
    assert AutoTokenizer.from_pretrained("me/tiny")("a dog")["input_ids"] == [2, 5, 9, 3]


def test_an_old_name_leads_to_the_new_one(local_hub: LocalHub) -> None:
    local_hub.add("me/set", FILES, kind="dataset")
    local_hub.move("old/set", "me/set")
    assert Path(hf_hub_download("old/set", "two.jsonl", repo_type="dataset")).read_text() == rows("e")
    assert datasets.load_dataset("old/set", "two", split="train")["sentence"][:] == ["e"]


def test_a_missing_repository_revision_and_file(local_hub: LocalHub) -> None:
    local_hub.add("me/model", {"config.json": "{}"})
    with pytest.raises(RepositoryNotFoundError):
        snapshot_download("me/none")
    with pytest.raises(RepositoryNotFoundError):
        hf_hub_download("me/none", "config.json")
    with pytest.raises(RevisionNotFoundError):
        snapshot_download("me/model", revision="none")
    with pytest.raises(RemoteEntryNotFoundError):
        hf_hub_download("me/model", "none.json")
    with pytest.raises(datasets.exceptions.DatasetNotFoundError, match="doesn't exist on the Hub"):
        datasets.load_dataset("me/none")


def test_a_gated_repository(local_hub: LocalHub) -> None:
    local_hub.add("me/gated", FILES, kind="dataset", gated=True)
    with pytest.raises(GatedRepoError):
        hf_hub_download("me/gated", "two.jsonl", repo_type="dataset")
    with pytest.raises(datasets.exceptions.DatasetNotFoundError, match="gated"):
        datasets.load_dataset("me/gated", "two")
    path = hf_hub_download("me/gated", "two.jsonl", repo_type="dataset", token=TOKEN)
    assert Path(path).read_text() == rows("e")


def test_a_download_cut_in_the_middle_goes_on(local_hub: LocalHub) -> None:
    content = bytes(range(256)) * 50_000
    local_hub.add("me/model", {"model.safetensors": content})
    local_hub.cut("model.safetensors", 12_000_000)
    assert Path(hf_hub_download("me/model", "model.safetensors")).read_bytes() == content
    ranges = [request.range for request in local_hub.requests if request.method == "GET" and "lfs" in request.path]
    assert ranges == ["", f"bytes={10 * 2**20}-"]  # the library keeps whole pieces of 10 MiB


def test_a_hub_that_is_down_is_known_at_once(local_hub: LocalHub) -> None:
    local_hub.add("me/model", {"config.json": "{}"})
    folder = snapshot_download("me/model")
    local_hub.stop()
    start = time.perf_counter()
    with pytest.raises(LocalEntryNotFoundError):
        snapshot_download("me/other")
    assert snapshot_download("me/model") == folder  # what was fetched is still there
    assert time.perf_counter() - start < 2
    local_hub.start()
    local_hub.add("me/other", {"config.json": "{}"})
    assert Path(snapshot_download("me/other"), "config.json").exists()
