import dataclasses
import gzip
import hashlib
import json
import re
import shutil
from itertools import chain
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

from isotune.data import datasets
from isotune.data.catalogue import DATASETS, Dataset, Split
from isotune.data.datasets import available, has_rows
from isotune.data.hub import HubSource
from isotune.data.rows import LabelledPair, LabelledSentence, Pair, Row, ScoredPair, Sentence
from isotune.data.sources import read, read_scored_pairs
from isotune.errors import InputError
from tests.hub.server import LocalHub

SEVEN = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr")


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch, local_hub: LocalHub) -> LocalHub:
    """The hub with "me/toy", a dataset of two splits that is nowhere else."""
    _publish(local_hub, test=4)
    splits = {
        "dev": Split("toy/toy.tsv.gz", "", 4, 4, 4, part="validation"),
        "test": Split("toy/toy.tsv.gz", "", 6, 4, 6, stand_in="stsb-open:test"),
    }
    toy = Dataset("toy", "nobody", "none", MappingProxyType(splits), hub=HubSource("me/toy"))
    monkeypatch.setattr(datasets, "DATASETS", {"toy": toy})
    monkeypatch.setattr("isotune.data.sources.DATASETS", {"toy": toy})
    monkeypatch.delenv("ISOTUNE_DATA", raising=False)
    return local_hub


def _publish(hub: LocalHub, test: int) -> None:
    files = {}
    for split, count in (("validation", 4), ("test", test)):
        pairs = [
            {"sentence1": f"{split} {i}", "sentence2": "b", "score": i / 2} for i in range(count)
        ]
        files[f"{split}.jsonl"] = "".join(json.dumps(pair) + "\n" for pair in pairs)
    hub.add("me/toy", files, kind="dataset")


def lines(path: Path) -> list[dict[str, str]]:
    """The slow, obvious reading of a .tsv.gz file."""
    header, *rest = gzip.decompress(path.read_bytes()).decode().rstrip("\n").split("\n")
    return [dict(zip(header.split("\t"), line.split("\t"), strict=True)) for line in rest]


@pytest.mark.parametrize(
    "name", [*SEVEN, "sts17-6", pytest.param("stsb-ja", marks=pytest.mark.slow)]
)
def test_the_splits_are_those_of_the_files(name: str, real_data: Path) -> None:
    assert available(name)
    dataset = DATASETS[name]
    (file,) = {split.file for split in dataset.splits.values()}
    for split, part in dataset.splits.items():
        there = [
            r for r in lines(real_data / file) if r["split"] in (part.names_in_file or (split,))
        ]
        there = [
            r for r in there if dataset.subset in ("", r["subset"])
        ]  # datasets can share a file
        scored = [r for r in there if r["score"]]
        assert (len(there), len(scored)) == (part.rows_in_file, part.gold_count)

        pairs = read_scored_pairs(name, split)
        assert (pairs.name, pairs.split) == (name, split)
        assert pairs.sentence1 == [r["sentence1"].strip() for r in scored]
        assert pairs.sentence2 == [r["sentence2"].strip() for r in scored]
        assert pairs.subsets == [r["subset"] for r in scored]
        assert pairs.scores.dtype == np.float64
        assert pairs.scores.tolist() == [float(r["score"]) for r in scored]
        least, greatest = dataset.scores
        assert least <= pairs.scores.min() <= pairs.scores.max() <= greatest

        assert len(list(read(f"{name}:{split}", ScoredPair))) == part.gold_count
        if not dataset.positive:
            assert len(list(read(f"{name}:{split}", Pair))) == part.rows_in_file
        assert len(list(read(f"{name}:{split}", Sentence))) == 2 * part.rows_in_file


LABELLED = [
    name
    for name, dataset in DATASETS.items()
    if set(dataset.row_types) & {LabelledPair, LabelledSentence}
]
IN_FILES = [
    name for name in LABELLED if any(split.file for split in DATASETS[name].splits.values())
]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in ("nli-sample", "sst2") else ())
        for name in IN_FILES
    ],
)
def test_labelled_splits_are_those_of_the_files(name: str, real_data: Path) -> None:
    dataset = DATASETS[name]
    for split, part in dataset.splits.items():
        if not part.file:
            assert not available(f"{name}:{split}")
            continue
        assert available(f"{name}:{split}")
        there = [
            r
            for r in lines(real_data / part.file)
            if r["split"] in (part.names_in_file or (split,))
        ]
        there = [r for r in there if dataset.subset in ("", r["subset"])]
        labels = [r.get("label", r.get("entailment", "")) for r in there]
        assert (len(there), len(list(filter(None, labels)))) == (part.rows_in_file, part.gold_count)
        texts = [
            [r[column].strip() or dataset.blank for column in r if column.startswith("sentence")]
            for r in there
        ]
        assert [row.sentence for row in read(f"{name}:{split}", Sentence)] == list(
            filter(None, chain(*texts))
        )

        expected = [
            (*text, dataset.labels.get(label, label))
            for text, label in zip(texts, labels, strict=True)
            if label
        ]
        if LabelledPair in dataset.row_types:
            assert list(read(f"{name}:{split}", LabelledPair)) == expected
            same = [row[:2] for row in expected if row[2].lower() == dataset.positive]
            assert list(read(f"{name}:{split}", Pair)) == same != []
        else:
            assert list(read(f"{name}:{split}", LabelledSentence)) == expected


def test_qqp_sample_is_in_qqp_10k_and_apart_from_minbert_quora(real_data: Path) -> None:
    both = {row for split in ("dev", "test") for row in read(f"qqp-10k:{split}", LabelledPair)}
    assert set(read("qqp-sample:train", LabelledPair)) < both
    assert not set(read("qqp-sample:train", Pair)) & set(read("minbert-quora:dev", Pair))


def test_test_pairs_of_minbert_have_the_scores_of_stsb(real_data: Path) -> None:
    scores: dict[tuple[str, str], list[float]] = {}
    for split in ("train", "dev", "test"):
        for first, second, score in read(f"stsb:{split}", ScoredPair):
            scores.setdefault((first, second), []).append(score)
    rows = list(read("minbert-sts:test", ScoredPair))
    assert len(rows) == 1725
    assert all(row.score == scores[row.sentence1, row.sentence2][0] for row in rows)
    assert next(tuple(row) for row in read("minbert-sts:test", Sentence)) == (rows[0].sentence1,)


def test_nothing_of_a_wrong_file_is_handed_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits = {"train": Split("small.txt.gz", hashlib.sha256(b"one\ntwo\n").hexdigest(), 2, 0, 2)}
    small = {
        "small": Dataset("small", "nobody", "none", MappingProxyType(splits), row_types=(Sentence,))
    }
    monkeypatch.setattr("isotune.data.datasets.DATASETS", small)
    monkeypatch.setattr("isotune.data.sources.DATASETS", small)
    monkeypatch.setenv("ISOTUNE_DATA", str(tmp_path))
    path = tmp_path / "small.txt.gz"
    for level in (1, 9):  # compressed otherwise, the same content
        path.write_bytes(gzip.compress(b"one\ntwo\n", level))
        assert list(read("small", Sentence)) == [Sentence("one"), Sentence("two")]
    path.write_bytes(gzip.compress(b"one\nthree\n"))
    with pytest.raises(InputError, match=r"SHA-256 of its content is [0-9a-f]{64}, but"):
        next(read("small", Sentence))
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match="not a whole gzip file"):
        next(read("small", Sentence))


def test_a_dataset_that_is_not_published_names_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ISOTUNE_DATA", str(tmp_path))
    with pytest.raises(
        InputError, match=r"a folder with nli/nli_train_union\.tsv\.gz; it is not published"
    ):
        read("nli-sample:train", Pair)


def test_the_hub_is_asked_for_what_this_machine_lacks(toy: LocalHub) -> None:
    assert not available("toy")
    pairs = read_scored_pairs("toy", "dev")  # "validation" there
    assert pairs.sentence1 == ["validation 0", "validation 1", "validation 2", "validation 3"]
    assert pairs.scores.tolist() == [0, 0.5, 1, 1.5]
    assert pairs.subsets == ["toy"] * 4
    assert len(read_scored_pairs("toy", "test").scores) == 4


def test_a_copy_with_another_number_of_rows_is_refused_with_both(toy: LocalHub) -> None:
    # The hub has the scored pairs only, which are not all the text of the test split.
    with pytest.raises(
        InputError, match=r"4 rows of toy:test, not 6: it is not the published data"
    ):
        list(read("toy:test", Sentence))
    _publish(toy, test=5)
    with pytest.raises(InputError, match="5 rows of toy:test, not 4"):
        read_scored_pairs("toy", "test")


def test_a_dataset_that_is_nowhere_says_what_to_do(toy: LocalHub) -> None:
    toy.stop()
    with pytest.raises(
        InputError,
        match=r"toy/toy\.tsv\.gz, or be online, or take .*, stsb-open:test.* can't be read",
    ):
        read_scored_pairs("toy:test")


def test_a_dataset_is_available_if_all_its_files_are(
    real_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, dataset in DATASETS.items():
        members = [DATASETS[member] for member in dataset.union or (name,)]
        assert available(name) == all(
            part.file for member in members for part in member.splits.values()
        )
    for name in SEVEN[:-1]:
        shutil.copytree(real_data / name, tmp_path / name)
    monkeypatch.setenv("ISOTUNE_DATA", str(tmp_path))
    assert available("sts12")
    assert not available("sickr")
    assert not available("sts-unlabelled")
    shutil.copytree(real_data / "minbert", tmp_path / "alone" / "minbert")
    monkeypatch.setenv("ISOTUNE_DATA", str(tmp_path / "alone"))
    assert has_rows("minbert-sts")
    assert not available("minbert-sts")  # the scores of its test pairs are in stsb
    monkeypatch.delenv("ISOTUNE_DATA")
    assert [name for name in DATASETS if available(name)] == ["stsb-open"]


@pytest.mark.parametrize(
    ("source", "row", "message"),
    [
        ("stsb:validation", ScoredPair, "unknown scored split of stsb 'validation'"),
        (
            "stsb-open:train",
            ScoredPair,
            "unknown scored split of stsb-open 'train'. Known: dev, test",
        ),
        ("stsb", ScoredPair, "write one of stsb:train, stsb:dev, stsb:test"),
        ("sts-unlabelled", ScoredPair, "write one of sts12, sts13, sts14"),
        (
            "snli",
            LabelledPair,
            "labelled rows of snli are read by the split: write one of snli:train, snli:dev",
        ),
        ("snli", Pair, "labelled rows of snli are read by the split"),
        (
            "snli:tests",
            LabelledPair,
            "unknown labelled split of snli 'tests': did you mean 'test'?",
        ),
        ("stsb:train", LabelledPair, "unknown labelled split of stsb 'train'. Known: none"),
    ],
)
def test_rows_with_scores_or_labels_are_of_one_split_that_has_them(
    source: str, row: type[Row], message: str
) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        read([source], row)
    if row is ScoredPair:
        with pytest.raises(InputError, match=re.escape(message)):
            read([source], Pair, min_score=4)


def test_scores_outside_their_range_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = dataclasses.replace(DATASETS["stsb-open"], scores=(0.0, 4.0))
    monkeypatch.setattr("isotune.data.sources.DATASETS", {**DATASETS, "stsb-open": narrow})
    with pytest.raises(InputError, match="stsb-open:dev: its scores should lie between 0 and 4"):
        read_scored_pairs("stsb-open", "dev")
