"""The tiny copies of the published repositories, read by the libraries that are to read the real ones."""

from __future__ import annotations

import tarfile
from pathlib import Path

import datasets
import pytest
import torch
from datasets import ClassLabel, load_dataset
from huggingface_hub import hf_hub_download, snapshot_download
from transformers import AutoModel

from tests.hub.model_files import with_pickle, with_safetensors, with_shards
from tests.hub.repositories import LANGUAGES, REVISIONS, STS17
from tests.hub.server import LocalHub

NLI = ["entailment", "neutral", "contradiction"]


@pytest.mark.parametrize(
    ("repository", "config", "split", "columns", "labels"),
    [
        ("sentence-transformers/all-nli", "pair-class", "train", ["premise", "hypothesis", "label"], NLI),
        ("sentence-transformers/all-nli", "pair", "dev", ["anchor", "positive"], None),
        ("sentence-transformers/nli-for-simcse", "triplet", "train", ["anchor", "positive", "negative"], None),
        ("nyu-mll/glue", "cola", "train", ["sentence", "label", "idx"], ["unacceptable", "acceptable"]),
        ("nyu-mll/glue", "sst2", "validation", ["sentence", "label", "idx"], ["negative", "positive"]),
        ("nyu-mll/glue", "mrpc", "test", ["sentence1", "sentence2", "label", "idx"], ["not_equivalent", "equivalent"]),
        ("nyu-mll/glue", "qqp", "train", ["question1", "question2", "label", "idx"], ["not_duplicate", "duplicate"]),
        ("nyu-mll/glue", "stsb", "validation", ["sentence1", "sentence2", "label", "idx"], None),
        ("nyu-mll/glue", "mnli", "test_matched", ["premise", "hypothesis", "label", "idx"], NLI),
        ("nyu-mll/glue", "qnli", "train", ["question", "sentence", "label", "idx"], ["entailment", "not_entailment"]),
        ("nyu-mll/glue", "rte", "train", ["sentence1", "sentence2", "label", "idx"], ["entailment", "not_entailment"]),
        ("stanfordnlp/snli", None, "train", ["premise", "hypothesis", "label"], NLI),
        (
            "sentence-transformers/quora-duplicates",
            "pair-class",
            "train",
            ["sentence1", "sentence2", "label"],
            ["different", "duplicate"],
        ),
        ("SetFit/sst5", None, "validation", ["text", "label", "label_text"], None),
        ("mteb/sts12-sts", None, "test", ["sentence1", "sentence2", "score"], None),
        ("mteb/sickr-sts", None, "test", ["sentence1", "sentence2", "score"], None),
    ],
)
def test_columns_and_labels(
    published: LocalHub, repository: str, config: str | None, split: str, columns: list[str], labels: list[str] | None
) -> None:
    rows = load_dataset(repository, config, split=split)
    assert rows.column_names == columns
    feature = rows.features.get("label")
    assert (feature.names if isinstance(feature, ClassLabel) else None) == labels
    assert rows.num_rows > 0


def test_other_layouts(published: LocalHub) -> None:
    assert set(load_dataset("mteb/stsbenchmark-sts")) == {"train", "validation", "test"}
    assert "genre" in load_dataset("nyu-mll/multi_nli", split="validation_matched").column_names
    assert datasets.get_dataset_config_names("mteb/sts17-crosslingual-sts") == list(STS17)
    assert load_dataset("mteb/sts17-crosslingual-sts", "es-en", split="test").column_names[:3] == [
        "sentence1",
        "sentence2",
        "score",
    ]
    assert datasets.get_dataset_config_names("mteb/stsb_multi_mt") == list(LANGUAGES)
    assert load_dataset("mteb/stsb_multi_mt", "de", split="dev").column_names == [
        "sentence1",
        "sentence2",
        "similarity_score",
    ]
    sick = "SemEvalWorkshop/sem_eval_2014_task_1"
    assert load_dataset(sick, split="validation", revision=REVISIONS[sick][0]).num_rows == 12
    assert -1 in load_dataset("stanfordnlp/snli", split="train")["label"]


def test_single_files_of_a_repository(published: LocalHub) -> None:
    repository = "princeton-nlp/datasets-for-simcse"
    triplets = load_dataset(repository, data_files="nli_for_simcse.csv", split="train")
    assert triplets.column_names == ["sent0", "sent1", "hard_neg"]
    text = Path(hf_hub_download(repository, "wiki1m_for_simcse.txt", repo_type="dataset"))
    assert len(text.read_text().splitlines()) == 60
    with tarfile.open(hf_hub_download(repository, "senteval.tar", repo_type="dataset")) as archive:
        names = archive.getnames()
    assert "STS/STS12-en-test/STS.input.surprise.OnWN.txt" in names
    assert {"MR/rt-polarity.pos", "TREC/TREC_10.label", "SICK/SICK_trial.txt"} <= set(names)


@pytest.mark.parametrize("form", [with_safetensors, with_shards, with_pickle])
def test_a_model_of_each_form(published: LocalHub, tiny_model: Path, form: type) -> None:
    published.add("me/tiny", form(tiny_model))
    folder = Path(snapshot_download("me/tiny"))
    model, expected = AutoModel.from_pretrained(folder), AutoModel.from_pretrained(tiny_model)
    for name, weight in expected.state_dict().items():
        assert name.startswith("pooler.") or torch.equal(model.state_dict()[name], weight)


def test_a_pickle_of_2020_is_read_by_torch_s_restricted_reader_only_without_mmap(
    tiny_model: Path, tmp_path: Path
) -> None:
    path = tmp_path / "pytorch_model.bin"
    path.write_bytes(with_pickle(tiny_model)["pytorch_model.bin"])
    with pytest.raises(RuntimeError, match="mmap can only be used"):
        torch.load(path, weights_only=True, mmap=True)
    assert "bert.embeddings.word_embeddings.weight" in torch.load(path, weights_only=True)
    path.write_bytes(with_pickle(tiny_model, zipped=True)["pytorch_model.bin"])
    assert "bert.embeddings.word_embeddings.weight" in torch.load(path, weights_only=True, mmap=True)
