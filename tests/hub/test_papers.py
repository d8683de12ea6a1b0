"""With nothing but the hub, every table and figure of the papers can be made."""

import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from isotune.data import DATASETS, Sentence, read
from isotune.encoder.format.pretrained import local_folder
from isotune.lab.studies import paper_names, read_study, run_study
from isotune.lab.studies.page import Results
from isotune.lab.studies.plan import needs
from tests.hub.model_files import with_safetensors
from tests.hub.sentences import scored
from tests.hub.server import LocalHub

COUNTS = {"sts-train.csv": 24, "sts-dev.csv": 12, "sts-test-student.csv": 12, "quora-dev.csv": 20}
COUNTS |= {
    "quora-train.csv": 24,
    "quora-test-student.csv": 12,
    "ids-cfimdb-train.csv": 24,
    "ids-cfimdb-dev.csv": 12,
}


@pytest.fixture
def everywhere(published: LocalHub, monkeypatch: pytest.MonkeyPatch) -> LocalHub:
    """The hub, which also has what is elsewhere on the web."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as spanish:
        for subset in ("news", "wikipedia"):
            pairs = scored(12)
            spanish.writestr(
                f"sts-es-test.2014/STS.input.{subset}.txt",
                "".join(f"{a}\t{b}\n" for a, b, _ in pairs),
            )
            spanish.writestr(
                f"sts-es-test.2014/STS.gs.{subset}.txt",
                "".join(f"{score}\n" for *_, score in pairs),
            )
    published.add("web/files", {"es.zip": archive.getvalue(), **_cs224n()}, kind="dataset")
    address = f"{published.url}/datasets/web/files/resolve/main/"
    for name, dataset in DATASETS.items():
        if dataset.web:
            web = address if dataset.web.endswith("/") else f"{address}es.zip"
            splits = {
                split: replace(facts, web_sha256="") for split, facts in dataset.splits.items()
            }  # of other files
            monkeypatch.setitem(DATASETS._entries, name, replace(dataset, web=web, splits=splits))
    return published


def _cs224n() -> dict[str, str]:
    """CS224N's tables: tabs, quotes as in a .csv, and a first column without a name."""
    values = {"quora": "is_duplicate", "sts": "similarity", "ids": "sentiment"}
    files = {}
    for name, count in COUNTS.items():
        value = values[name.partition("-")[0]]
        texts = ["sentence"] if value == "sentiment" else ["sentence1", "sentence2"]
        header = ["", "id", *texts, *([] if "student" in name else [value])]
        rows = []
        for number, (first, second, score) in enumerate(scored(count, start=6)):
            label = f"{number % 2}" if value == "sentiment" else f"{number % 2:.1f}"
            gold = [] if "student" in name else [f"{score}" if value == "similarity" else label]
            fields = [f'"{first}"' if number % 3 else first, second][: len(texts)]
            rows.append([f"{number}", f"{number:024x}", *fields, *gold])
        files[name] = "".join("\t".join(row) + "\n" for row in (header, *rows))
    return files


@pytest.mark.parametrize(
    "name", [name for name, dataset in DATASETS.items() if dataset.hub or dataset.web]
)
def test_every_published_split_is_read_as_rows_of_each_type(
    everywhere: LocalHub, uncounted: None, name: str
) -> None:
    dataset = DATASETS[name]
    for split in dataset.splits:
        for row_type in dataset.row_types:
            row = next(iter(read(f"{name}:{split}", row_type)))
            assert isinstance(row, row_type), split
            assert all(value not in ("", None) for value in row), (split, row)


def test_every_table_finds_its_data_and_models(
    everywhere: LocalHub, uncounted: None, tiny_model: Path
) -> None:
    wanted = [needs(read_study(name)) for name in paper_names()]
    assert len(wanted) >= 38
    files = with_safetensors(tiny_model)
    for model in {model for _, models in wanted for model in models}:
        everywhere.add(model, files)
        assert (local_folder(model) / "config.json").exists()
    for source in {source for sources, _ in wanted for source in sources}:
        assert next(read(source, Sentence)).sentence


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "consert/figure1",
        "bert-cf/figure3",
        "clsr/table4",
        "self-guided/figure4",
        "small-bert/table1",
    ],
)
def test_a_table_of_each_paper_is_made(
    everywhere: LocalHub, uncounted: None, with_pooler: Path, tmp_path: Path, name: str
) -> None:
    everywhere.add("me/tiny", with_safetensors(with_pooler))
    options = {"steps": 2, "batch_size": 4, "eval_every": 1, "max_length": 16}
    options |= (
        {"sample": 40} if name == "self-guided/figure4" else {}
    )  # the study's is larger than the text here
    changes = {"model": "me/tiny", "seeds": [0], "options": options}
    outcome = run_study.run_study(name, tmp_path / "out", **changes, quiet=True)
    results = Results.read(outcome.page.with_name("study.json"))
    assert [run.problem for run in results.runs if run.problem] == []
    assert outcome.failed == 0
    assert all(run.values for run in results.runs)
    assert results.stand_ins == ()
    assert "In place of" not in outcome.page.read_text("utf-8")
    commits = [
        json.loads(path.read_text("utf-8"))
        for path in (tmp_path / "out" / "runs").glob("*/data.json")
    ]
    assert commits
