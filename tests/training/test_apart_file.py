"""The file of the rows that a run sets apart, and the rows that it was trained on."""

import gzip
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from isotune import LabelledPair, LabelledSentence, Pair, ScoredPair, Triplet
from isotune.data import Row, read
from isotune.data.records import read_file
from isotune.data.trained_rows import TRAINED_ROWS, TrainedRows
from isotune.evaluation import RetrievalTask, STSTask, evaluate, load_tasks, tell_trained_rows
from isotune.recipes import Recipe
from isotune.training.apart import read_set_apart
from isotune.training.apart_file import ApartFile, write_rows_apart
from tests.conftest import WORDS
from tests.training.conftest import Train

ASKED = [
    {"id": row, "question": f'is "{row}" what?', "answer": f"ja, {row // 2}é"} for row in range(40)
]


def write(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    """Writes rows in the format that the name of the file ends with."""
    name = path.name.removesuffix(".gz")
    if name.endswith(".parquet"):
        parquet.write_table(pa.Table.from_pylist(list(rows)), path)
        return path
    lines = [json.dumps(row) for row in rows]
    if name.endswith(".tsv"):
        lines = ["\t".join(map(str, row)) for row in (rows[0], *(row.values() for row in rows))]
    if name.endswith(".csv"):
        lines = [",".join(rows[0])]
        for row in rows:
            cells = ['"{}"'.format(str(cell).replace('"', '""')) for cell in row.values()]
            lines.append(",".join(cells))
    content = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def recipe(method: str, source: Path | None = None, **options: object) -> Recipe:
    stage = {"method": method, "test_share": 0.25, **options}
    columns = {}
    if source:
        columns = {"sentence1": "question", "sentence2": "answer"}
    data = [str(source)] if source else []
    return Recipe.from_table({"stages": [stage], "dev": "none", "data": data, "columns": columns})


def written(given: Recipe, rows: Sequence[Row] | None, folder: Path) -> tuple[ApartFile, list[Row]]:
    """The file of the rows set apart, and these rows."""
    apart = read_set_apart(given, rows)
    assert apart is not None
    file = write_rows_apart(apart, given, folder)
    assert file is not None
    return file, list(apart.test)


@pytest.mark.parametrize("name", ["faq.csv", "faq.tsv", "faq.jsonl", "faq.csv.gz", "faq.parquet"])
def test_the_file_is_as_the_users_file(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, ASKED)
    given = recipe("pairs", path)
    file, rows = written(given, None, tmp_path)
    ending = Path(name.removesuffix(".gz")).suffix.replace(".parquet", ".jsonl")
    assert file.path.name == f"set-apart{ending}"
    records = [dict(record) for _, record in read_file(file.path)]
    ids = {str(record["id"]) for record in records}
    of_user = [dict(record) for _, record in read_file(path) if str(record["id"]) in ids]
    assert records == of_user
    assert list(read(str(file.path), Pair, given.columns)) == rows


def test_the_task_of_the_file_is_the_one_that_judged_the_run(tmp_path: Path) -> None:
    given = recipe("pairs", write(tmp_path / "faq.csv", ASKED))
    file, _ = written(given, None, tmp_path)
    (task,) = load_tasks([file.task])
    apart = read_set_apart(given, None)
    assert apart is not None
    own = apart.task()
    assert isinstance(task, RetrievalTask)
    assert isinstance(own, RetrievalTask)
    assert list(task.queries) == list(own.queries)
    assert sorted(task.documents) == sorted(own.documents)


def texts(count: int) -> list[str]:
    return [f"{WORDS[row % 22]} {row}" for row in range(count)]


@pytest.mark.parametrize(
    ("method", "options", "rows", "kind"),
    [
        ("pairs", {}, [Pair(text, f"{text}!?") for text in texts(20)], RetrievalTask),
        (
            "pairs",
            {"negatives": True},
            [Triplet(text, f"{text} b", f"{text} c") for text in texts(20)],
            RetrievalTask,
        ),
        ("cosent", {}, [ScoredPair(text, f"{text} b", len(text)) for text in texts(20)], STSTask),
        (
            "finetune-sentence",
            {"classes": ["x", "y"], "dev_data": ["stsb-open"]},
            [LabelledSentence(text, "xy"[row % 2]) for row, text in enumerate(texts(40))],
            None,
        ),
        (
            "finetune-pair",
            {"classes": ["x", "y"], "dev_data": ["stsb-open"]},
            [LabelledPair(text, text + "b", "xy"[row % 2]) for row, text in enumerate(texts(40))],
            None,
        ),
    ],
)
def test_rows_from_python_are_written_too(
    method: str, options: dict[str, object], rows: list[Row], kind: type | None, tmp_path: Path
) -> None:
    file, apart = written(recipe(method, **options), rows, tmp_path)
    assert list(read(str(file.path), type(apart[0]))) == apart
    assert bool(file.task) is bool(kind)
    if kind:
        (task,) = load_tasks([file.task])
        assert isinstance(task, kind)


def faq(path: Path) -> Path:
    """Forty questions about words, with answers."""
    rows = []
    for row in range(40):
        question = " ".join(WORDS[(row + place) % 22] for place in range(4)) + f" {WORDS[row % 19]}"
        answer = f"the {WORDS[row % 20]} is {WORDS[row // 20]}"
        rows.append({"question": question, "answer": answer})
    return write(path, rows)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "trained on" in record.getMessage()]


def test_evaluate_says_how_many_rows_of_a_task_were_trained_on(
    train: Train, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = faq(tmp_path / "faq.csv")
    result = train(
        sources=str(path),
        method="pairs",
        pairs=("question", "answer"),
        test_share=0.2,
        dev="none",
        tasks=None,
        steps=2,
    )
    trained = json.loads((result.folder / "data.json").read_text())["stage 1"]["rows"]
    encoder = result.folder / "encoder"
    file = result.folder / "set-apart.csv"
    log = (result.folder / "train.log").read_text("utf-8")
    assert f"--tasks retrieval:{file},question,answer,among={path}" in log
    with caplog.at_level(logging.WARNING):
        evaluate(encoder, f"retrieval:{file},question,answer,among={path}")
    assert warnings(caplog) == []
    with caplog.at_level(logging.WARNING):
        evaluate(encoder, f"retrieval:{path},question,answer")
    (said,) = warnings(caplog)
    assert f"was trained on {trained} of its 40 rows" in said


@pytest.mark.parametrize("name", [".", "../encoder", "../../link"])
def test_an_encoder_is_known_by_any_name_of_its_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = faq(tmp_path / "faq.csv")
    encoder = tmp_path / "run" / "encoder"
    encoder.mkdir(parents=True)
    (tmp_path / "link").symlink_to(encoder)
    trained = TrainedRows()
    columns = {"sentence1": "question", "sentence2": "answer"}
    list(trained.watch(read(str(path), Pair, columns), Pair))
    trained.save(encoder.parent / TRAINED_ROWS)
    monkeypatch.chdir(encoder)
    tell_trained_rows(name, load_tasks([f"retrieval:{path},question,answer"]))
    (said,) = warnings(caplog)
    assert f"{name} was trained on 40 of its 40 rows" in said


def test_a_damaged_file_of_trained_rows_costs_no_score(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / TRAINED_ROWS).write_text("damaged")
    tell_trained_rows(tmp_path / "encoder", [])
    (said,) = warnings(caplog)
    assert f"{tmp_path / TRAINED_ROWS}: not a file of arrays" in said


def test_a_start_that_was_kept_was_trained_on_nothing(train: Train, tmp_path: Path) -> None:
    result = train(
        sources=str(faq(tmp_path / "faq.csv")),
        method="pairs",
        pairs=("question", "answer"),
        learning_rate=1e-12,
        model_dropout=0.0,
    )
    assert result.evaluation is not None
    assert result.evaluation.selected_step == 0
    assert not (result.folder / TRAINED_ROWS).exists()
