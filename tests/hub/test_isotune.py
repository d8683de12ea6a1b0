"""isotune reads the published data and models by their public names."""

import hashlib
import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import huggingface_hub
import numpy as np
import pytest

from isotune import Encoder, train
from isotune.data import DATASETS, read, read_scored_pairs
from isotune.data.catalogue import Split
from isotune.data.hub import HubSource
from isotune.data.rows import LabelledPair, LabelledSentence, Pair, ScoredPair, Sentence, Triplet
from isotune.encoder import finished
from isotune.errors import InputError
from isotune.recipes import recipe_of_model
from tests.hub.model_files import with_pickle, with_safetensors, with_shards
from tests.hub.repositories import Files
from tests.hub.sentences import sentence
from tests.hub.server import LocalHub

INFERENCE = {"entailment", "neutral", "contradiction"}


def test_a_revision(published: LocalHub, repositories: dict[str, Files]) -> None:
    published.add(
        "mteb/sts13-sts", {"test.jsonl": '{"sentence": "new"}\n'}, kind="dataset", revision="v2"
    )
    assert list(read("hub:mteb/sts13-sts@v2:test", Sentence)) == [Sentence("new")]
    assert len(list(read("hub:mteb/sts13-sts:test", ScoredPair))) == 12


def test_scored_pairs_from_their_public_source(published: LocalHub, uncounted: None) -> None:
    for source, count, first in [
        ("sts12:test", 5 * 12, 0),
        ("sts15:test", 5 * 9, 0),  # a quarter is unscored
        ("stsb:dev", 12, 24),
        ("stsb:test", 12, 36),
        ("sickr:test", 12, 36),
        ("sts17-6:test", 12, 0),
        ("stsb-de:dev", 12, 24),
    ]:
        pairs = read_scored_pairs(source)
        assert (len(pairs.scores), pairs.sentence1[0]) == (count, sentence(first)), source
        assert len(set(pairs.subsets)) == (5 if source in ("sts12:test", "sts15:test") else 1), (
            source
        )


def test_labelled_rows_from_their_public_source(published: LocalHub, uncounted: None) -> None:
    of_pairs = {
        "all-nli:train": (24, INFERENCE),
        "snli:dev": (9, INFERENCE),
        "mnli:dev": (12, INFERENCE),
        "quora:train": (24, {"0", "1"}),
        "qqp:dev": (20, {"0", "1"}),
        "glue-mrpc:dev": (20, {"0", "1"}),
        "rte:dev": (20, {"entailment", "not_entailment"}),
        "qnli:train": (24, {"entailment", "not_entailment"}),
        "sickr:train": (24, {"ENTAILMENT", "NEUTRAL", "CONTRADICTION"}),
        "mrpc:train": (24, {"0", "1"}),
    }
    of_sentences = {
        "cola:dev": (20, {"0", "1"}),
        "sst5:dev": (12, {"0", "1", "2", "3", "4"}),
        "sst2:test": (12, {"0", "1"}),
        "mr:train": (40, {"0", "1"}),
        "subj:train": (40, {"0", "1"}),
        "trec:test": (
            12,
            {f"{kind}:other" for kind in ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")},
        ),
    }
    for source, (count, labels) in {**of_pairs, **of_sentences}.items():
        row_type: type[Any] = LabelledPair if source in of_pairs else LabelledSentence
        rows = list(read(source, row_type))
        assert (len(rows), {row.label for row in rows}) == (count, labels), source


def test_text_from_its_public_source(published: LocalHub, uncounted: None) -> None:
    rows_of: list[tuple[str, type[Any], int]] = [
        ("all-nli-pairs:train", Pair, 24),
        ("simcse-nli:train", Triplet, 24),
        ("simcse-wiki:train", Sentence, 60),
        ("all-nli:train", Pair, 8),
        ("snli:train", Triplet, 6),
    ]
    for source, row_type, count in rows_of:
        assert len(list(read(source, row_type))) == count, source


def test_a_changed_schema_is_refused(published: LocalHub, uncounted: None) -> None:
    published.add(
        "stanfordnlp/snli",
        {"test.jsonl": '{"first": "a", "second": "b", "gold": 1}\n'},
        kind="dataset",
    )
    with pytest.raises(InputError, match="sentence1"):
        list(read("snli:test", LabelledPair))


def test_pairs_without_a_label_have_that_of_another_dataset(
    published: LocalHub, uncounted: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    expected = list(read("quora:train", LabelledPair))[5:9]
    lines = [
        "sentence1\tsentence2",
        "no such pair\tin quora",
        *(f"{a.upper()}\t{b}" for a, b, _ in expected),
    ]
    content = "\n".join(lines).encode()
    part = Split(
        "test.tsv", hashlib.sha256(content).hexdigest(), row_count=5, gold_count=-1, rows_in_file=5
    )
    (tmp_path / "test.tsv").write_bytes(content)
    small = replace(DATASETS["minbert-quora-test"], splits=MappingProxyType({"test": part}))
    monkeypatch.setitem(DATASETS._entries, "minbert-quora-test", small)
    assert [row.label for row in read("minbert-quora-test:test", LabelledPair)] == [
        row.label for row in expected
    ]
    assert len(list(read("minbert-quora-test:test", Sentence))) == 10


def test_the_label_of_pairs_that_mean_the_same_can_be_named(published: LocalHub) -> None:
    source = "hub:sentence-transformers/quora-duplicates/pair-class:train"
    labelled = list(read(source, LabelledPair))
    assert list(read(source, Pair, positive="Duplicate")) == [
        row[:2] for row in labelled if row.label == "duplicate"
    ]
    with pytest.raises(InputError, match="no Pair in it with the label same"):
        list(read(source, Pair, positive="same"))
    with pytest.raises(
        InputError, match="can't tell which columns hold sentence1, sentence2, label"
    ):
        list(read("hub:sentence-transformers/all-nli/pair:train", Pair, positive="same"))


def test_a_missing_and_a_gated_dataset(published: LocalHub, repositories: dict[str, Files]) -> None:
    published.add("me/gated", repositories["SetFit/sst5"], kind="dataset", gated=True)
    with pytest.raises(
        InputError,
        match=r"^hub:me/none: no such dataset on the Hugging Face hub; log in .* private$",
    ):
        list(read("hub:me/none", Sentence))
    for source in ("hub:me/gated", "hub:me/gated/train.jsonl"):
        with pytest.raises(
            InputError, match=rf"^{source}: it is gated: ask for access .*'hf auth login'$"
        ):
            list(read(source, Sentence))


def test_pairs_to_evaluate_on_need_a_split(published: LocalHub) -> None:
    with pytest.raises(
        InputError,
        match=r"hub:mteb/stsbenchmark-sts: name the split to evaluate on, such as .*:test$",
    ):
        read_scored_pairs("hub:mteb/stsbenchmark-sts")
    assert len(read_scored_pairs("hub:mteb/stsbenchmark-sts:test").scores) == 12


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("mteb/sts12-sts:none", "unknown split of hub:mteb/sts12-sts 'none'. Known: test, train"),
        ("mteb/sts13-sts", "unknown split of hub:mteb/sts13-sts 'train'. Known: test"),
        (
            "sentence-transformers/all-nli/pairs",
            "'pairs' not found. Available: ['pair', 'pair-class']",
        ),
        (
            "sentence-transformers/all-nli:train",
            "pick one among the available configs: ['pair', 'pair-class']",
        ),
        (
            "mteb/sts12-sts@v9:test",
            "hub:mteb/sts12-sts@v9:test: the repository has no such revision or file; see http",
        ),
        (
            "princeton-nlp/datasets-for-simcse/nli.csv",
            "/nli.csv: the repository has no such revision or file; see",
        ),
        (
            "princeton-nlp/datasets-for-simcse/nli_for_simcse.csv:train",
            ".csv: a file has no splits; leave out :train",
        ),
        ("mteb/sts12-sts@:test", "hub:mteb/sts12-sts@: write hub:owner/name[@revision]"),
    ],
)
def test_what_a_repository_lacks_is_an_error_with_what_it_has(
    published: LocalHub, source: str, message: str
) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        list(read(f"hub:{source}", Sentence))


def test_a_file_and_a_configuration_of_a_revision_that_has_a_slash(published: LocalHub) -> None:
    source = "SemEvalWorkshop/sem_eval_2014_task_1@refs/convert/parquet"
    assert HubSource.parse(f"{source}/default").config == "default"
    rows = list(read(f"hub:{source}:validation", LabelledPair))
    assert {row.label for row in rows} == {"ENTAILMENT", "NEUTRAL", "CONTRADICTION"}
    assert len(list(read(f"hub:{source}/default/test/0000.parquet", ScoredPair))) == 12


def test_a_run_records_the_commit_that_was_read(
    published: LocalHub, tiny_model: Path, pairs: Path
) -> None:
    commit = published.add(
        "me/text", {"train.txt": "a dog\na cat\nthe ball\na man\n"}, kind="dataset"
    )
    options = {
        "model": str(tiny_model),
        "steps": 1,
        "batch_size": 2,
        "dev": "none",
        "tasks": [str(pairs)],
    }
    run = train("hub:me/text", out="run", method="simcse", quiet=True, **options)
    assert json.loads((run.folder / "data.json").read_text())["stage 1"]["commits"] == {
        "hub:me/text": commit
    }


def test_a_folder_does_not_stand_in_for_a_repository(published: LocalHub) -> None:
    folder = Path("SetFit/sst5")
    folder.mkdir(parents=True)
    (folder / "train.txt").write_text("mine\n")
    assert len(list(read("hub:SetFit/sst5:train", Sentence))) == 24


@pytest.mark.parametrize("status", [0, 503])
def test_a_hub_that_is_down_is_known_soon(published: LocalHub, status: int) -> None:
    if status:
        published.fail("/", status)
    else:
        published.stop()
    for source in (
        "hub:mteb/sts12-sts:test",
        "hub:princeton-nlp/datasets-for-simcse/nli_for_simcse.csv",
    ):
        start = time.perf_counter()
        with pytest.raises(
            InputError,
            match=rf"^{source}: can't be read from the Hugging Face hub \(.*(refused|503).*\); "
            rf"{published.url} was asked: .* HF_ENDPOINT .* HF_HUB_OFFLINE=1",
        ):
            list(read(source, Sentence))
        assert time.perf_counter() - start < 2


def test_a_login_page_in_place_of_the_hub_is_named(published: LocalHub) -> None:
    published.answer("\n<!DOCTYPE html><title>Welcome to the hotel</title>")
    for source in ("hub:mteb/sts12-sts:test", "hub:me/notes/notes.txt"):
        with pytest.raises(InputError, match=r"a page for a browser, .* HF_ENDPOINT .* HF_HUB_O"):
            list(read(source, Sentence))


def test_who_waits_for_the_hub_is_told_so(
    published: LocalHub, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("isotune.data.hub.WAIT", 1)
    monkeypatch.setattr("isotune.data.hub.PATIENCE", 0.1)
    published.hold()
    with pytest.raises(InputError, match=r"\(timed out\); .* HF_ENDPOINT .* HF_HUB_OFFLINE=1"):
        read("hub:mteb/sts12-sts:test", Sentence)
    line = f"waiting for an answer of {published.url}, for at most 1 seconds"
    assert caplog.messages == [line]
    published.released.set()
    assert len(list(read("hub:mteb/sts12-sts:test", Sentence)))
    assert caplog.messages == [line]


def test_a_machine_that_is_offline_by_choice_is_told_what_to_do(
    published: LocalHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match=r"not fetched before: unset HF_HUB_OFFLINE .*HF_HOME"):
        read("hub:mteb/sts12-sts:test", Sentence)


@pytest.mark.parametrize("form", [with_safetensors, with_shards, with_pickle])
def test_a_model_of_each_form(
    local_hub: LocalHub, tiny_model: Path, form: Callable[[Path], Files]
) -> None:
    local_hub.add("me/tiny", form(tiny_model))
    words = ["a dog sees the cat .", "the ball"]
    expected = Encoder.load(tiny_model).encode(words)
    np.testing.assert_array_equal(Encoder.load("me/tiny").encode(words), expected)
    local_hub.stop()  # what was fetched needs no hub
    np.testing.assert_array_equal(Encoder.load("me/tiny").encode(words), expected)
    with pytest.raises(InputError, match=r"model me/other: .*Connection refused"):
        Encoder.load("me/other")


def test_an_encoder_on_the_hub_is_told_without_its_weights(
    local_hub: LocalHub, tiny_model: Path
) -> None:
    local_hub.add("me/plain", with_safetensors(tiny_model))
    local_hub.add("me/encoder", {**with_safetensors(tiny_model), "modules.json": b"[]"})
    assert [recipe_of_model(f"me/{name}") for name in ("plain", "encoder")] == ["default", "adapt"]
    with pytest.raises(
        InputError, match="model me/missing: there is no such folder: no such model on the Hugging "
    ):
        recipe_of_model("me/missing")
    assert not any("safetensors" in path for path in local_hub.asked)
    local_hub.add("me/modules", {"modules.json": b"[]", "0_Transformer/config.json": b"{}"})
    for name in ("encoder", "modules"):
        huggingface_hub.snapshot_download(f"me/{name}")
    local_hub.stop()
    finished._is_finished_on_hub.cache_clear()
    assert (
        recipe_of_model("me/encoder") == recipe_of_model("me/modules") == "adapt"
    )  # from the cache
    with pytest.raises(
        InputError, match=r"model me/plain: there is no such folder: can't be read .*refused"
    ):
        recipe_of_model("me/plain")


def test_no_code_and_no_other_weights_are_fetched(local_hub: LocalHub, tiny_model: Path) -> None:
    others = {
        "modeling.py": "raise SystemExit",
        "tf_model.h5": "x",
        "onnx/model.onnx": "x",
        "flax_model.msgpack": "x",
    }
    local_hub.add("me/much", {**with_safetensors(tiny_model), **others})
    others["pytorch_model.bin"] = with_pickle(tiny_model)["pytorch_model.bin"]
    Encoder.load("me/much")
    fetched = {path.partition("resolve/")[2] for path in local_hub.asked if "resolve/" in path}
    assert not any(path.endswith(tuple(others)) for path in fetched)


def test_a_gated_model(local_hub: LocalHub, tiny_model: Path) -> None:
    local_hub.add("me/locked", with_safetensors(tiny_model), gated=True)
    with pytest.raises(
        InputError, match=r"me/locked: .* it is gated: ask .* on http://.*/me/locked, .*log in"
    ):
        Encoder.load("me/locked")
