"""The catalogue of datasets: every table is complete, and tables that could not be are refused."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from importlib import resources
from pathlib import Path
from typing import Any, get_args

import pytest

from isotune.data.catalogue import DATASETS, Dataset, Split, _dataset
from isotune.data.datasets import is_stand_in
from isotune.data.hub import HubSource
from isotune.data.layouts import LAYOUTS
from isotune.data.records import format_of
from isotune.data.rows import LabelledPair, Row, ScoredPair, Sentence
from isotune.files import toml_files

SPLIT = {"file": "toy.tsv", "sha256": "0" * 64, "row_count": 3}
TABLE: dict[str, Any] = {"citation": "nobody", "licence": "none", "splits": {"test": SPLIT}}


def test_every_file_of_the_catalogue_is_read() -> None:
    files = toml_files(resources.files("isotune.data.catalogue")).values()
    assert {name for file in files for name in tomllib.loads(file.read_text("utf-8"))} == {*DATASETS}


@pytest.mark.parametrize("name", DATASETS)
def test_every_value_is_of_its_kind(name: str) -> None:
    dataset = DATASETS[name]
    assert dataset.name == name
    assert dataset.citation and dataset.licence  # noqa: PT018
    assert set(dataset.row_types) <= set(get_args(Row))
    assert bool(dataset.union) != bool(dataset.splits)
    assert set(dataset.union) <= set(DATASETS)
    low, high = dataset.scores
    assert low < high
    assert dataset.positive == dataset.positive.lower()
    for split, facts in dataset.splits.items():
        assert split in ("train", "dev", "test")
        assert facts.file or dataset.hub or dataset.web
        if facts.file:
            assert format_of(Path(facts.file))
            assert re.fullmatch("[0-9a-f]{64}", facts.sha256)
        if facts.row_count != -1:
            assert -1 <= facts.gold_count <= min(facts.row_count, facts.rows_in_file)
            assert facts.row_count > 0
        assert all(isinstance(value, str) for value in facts.names_in_file)
        if facts.stand_in:
            assert not facts.file
            name, _, other = facts.stand_in.partition(":")
            assert DATASETS[name].splits[other].file
            assert is_stand_in(facts.stand_in)
    if dataset.hub:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+", dataset.hub.repository)
        assert not (dataset.hub.file and dataset.hub.config)
    assert dataset.layout in ("", *LAYOUTS)
    assert bool(dataset.layout) or not dataset.web


def test_a_file_has_one_hash() -> None:
    hashes = {(facts.file, facts.sha256) for dataset in DATASETS.values() for facts in dataset.splits.values()}
    hashes -= {("", "")}
    assert len(hashes) == len(dict(hashes))


def test_splits_share_a_file_unless_they_name_their_own() -> None:
    splits = {"train": {"row_count": 5, "gold_count": 0}, "dev": {**SPLIT, "names_in_file": ["a", "b"]}}
    dataset = _dataset("toy", {**TABLE, "file": "all.tsv", "sha256": "1" * 64, "splits": splits})
    assert dataset.splits == {
        "train": Split("all.tsv", "1" * 64, 5, 0, 5),
        "dev": Split("toy.tsv", "0" * 64, 3, 3, 3, ("a", "b")),
    }
    assert dataset.row_types == (ScoredPair,)


def test_like_takes_the_keys_of_another_dataset() -> None:
    first, other = DATASETS["qqp-sample"], DATASETS["qqp-10k"]
    differ = {f.name for f in fields(Dataset) if getattr(first, f.name) != getattr(other, f.name)}
    assert differ == {"name", "splits"}
    assert list(other.splits) == ["dev", "test"]


def test_row_types_and_hub_are_told_by_name() -> None:
    more = {"row_types": ["LabelledPair", "Sentence"], "hub": {"repository": "a/b", "revision": "c"}}
    dataset = _dataset("toy", {**TABLE, **more})
    assert dataset.row_types == (LabelledPair, Sentence)
    assert dataset.hub == HubSource.parse("a/b@c")
    assert str(dataset.hub) == "hub:a/b@c"
    assert str(HubSource.parse("a/b")) == "hub:a/b"


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"rows": 3}, TypeError),
        ({"splits": {"test": {**SPLIT, "rows": 3}}}, TypeError),
        ({"splits": {"test": {"file": "toy.tsv"}}}, KeyError),
        ({"hub": {"repository": "a/b", "split": "test"}}, TypeError),
        ({"row_types": ["Sentences"]}, KeyError),
    ],
)
def test_a_table_with_an_unknown_or_missing_key_is_refused(change: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        _dataset("toy", {**TABLE, **change})


def test_every_file_of_the_web_has_a_checksum_where_its_content_is_known() -> None:
    unknown = {"sts14-es:test", "minbert-quora:train", "minbert-quora-test:test"}  # nobody has compared them yet
    missing = {
        f"{name}:{split}"
        for name, dataset in DATASETS.items()
        for split, facts in dataset.splits.items()
        if dataset.web and not re.fullmatch("[0-9a-f]{64}", facts.web_sha256)
    }
    assert missing == unknown
