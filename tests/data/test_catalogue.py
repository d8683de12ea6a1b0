"""The catalogue of datasets: every table is complete, and tables that could not be are refused."""

import re
import tomllib
from importlib import resources
from pathlib import Path
from typing import get_args

import pytest

from isotune.data.catalogue import DATASETS
from isotune.data.datasets import is_stand_in
from isotune.data.layouts import LAYOUTS
from isotune.data.records import format_of
from isotune.data.rows import Row
from isotune.files import toml_files


def test_every_file_of_the_catalogue_is_read() -> None:
    files = toml_files(resources.files("isotune.data.catalogue")).values()
    assert {name for file in files for name in tomllib.loads(file.read_text("utf-8"))} == {
        *DATASETS
    }


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
    hashes = {
        (facts.file, facts.sha256)
        for dataset in DATASETS.values()
        for facts in dataset.splits.values()
    }
    hashes -= {("", "")}
    assert len(hashes) == len(dict(hashes))


def test_every_file_of_the_web_has_a_checksum_where_its_content_is_known() -> None:
    unknown = {
        "sts14-es:test",
        "minbert-quora:train",
        "minbert-quora-test:test",
    }  # nobody has compared them yet
    missing = {
        f"{name}:{split}"
        for name, dataset in DATASETS.items()
        for split, facts in dataset.splits.items()
        if dataset.web and not re.fullmatch("[0-9a-f]{64}", facts.web_sha256)
    }
    assert missing == unknown
