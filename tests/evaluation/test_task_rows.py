"""The user's own data judge an encoder: the columns stand behind a file's name, or the rows come from memory."""

import csv
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from sklearn.metrics import f1_score

import isotune
from isotune import TaskRows
from isotune.errors import InputError
from isotune.evaluation import compare, evaluate, load_tasks, with_whole_path
from isotune.evaluation import intervals as module

ROWS = [
    {"a": f"{word} {n}", "b": f"{word} {n + 7}", "grade": f"{n % 4}", "kind": word}
    for n in range(12)
    for word in ("red", "green", "blue")
]
KINDS = [
    ("similarity", ["a", "b", "grade"]),
    ("retrieval", ["a", "b"]),
    ("classification", ["a", "kind"]),
]


class Codes:
    """A vector for the word and the number of a text; `noise` mixes up the words."""

    def __init__(self, noise: float = 0) -> None:
        self.noise = noise

    def encode(self, sentences: Sequence[str], /) -> NDArray[np.float32]:
        words, numbers = zip(*(text.split() for text in sentences), strict=True)
        known = ("red", "green", "blue")
        axes = [[word == each for each in known] for word in words]
        vectors = np.column_stack([axes, np.array(numbers, np.float32) / 9])
        return (vectors + self.noise * np.random.default_rng(0).normal(size=vectors.shape)).astype(
            np.float32
        )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    with (tmp_path / "mine,too.csv").open("w") as opened:
        writer = csv.DictWriter(opened, list(ROWS[0]))
        writer.writeheader()
        writer.writerows(ROWS)
    return tmp_path / "mine,too.csv"


@pytest.mark.parametrize(("kind", "columns"), KINDS)
def test_a_file_and_rows_from_memory_give_equal_scores(
    file: Path, kind: str, columns: list[str]
) -> None:
    prefix = "" if kind == "similarity" else f"{kind}:"
    name = f"{prefix}{file},{','.join(columns)}"
    wanted = [*evaluate(Codes(0.5), name).scores().values()]
    assert len(wanted) == {"similarity": 1, "retrieval": 5, "classification": 2}[kind]
    for rows in (ROWS, pa.Table.from_pylist(ROWS), iter(ROWS)):
        assert [*evaluate(Codes(0.5), TaskRows(kind, rows, columns)).scores().values()] == wanted  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "columns"), KINDS)
def test_a_relative_path_becomes_a_whole_one(
    file: Path, kind: str, columns: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    prefix = "" if kind == "similarity" else f"{kind}:"
    ending = f"{file.name},{','.join(columns)}"
    assert with_whole_path(prefix + ending) == f"{prefix}{file.parent / ending}"


def test_macro_f1_and_its_samples_are_those_of_scikit_learn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (task,) = load_tasks(TaskRows("classification", ROWS, ["a", "kind"]))
    _, values = task.score(Codes(0.7))
    comparison = compare(
        {"clear": Codes(), "noisy": Codes(0.7)}, TaskRows("classification", ROWS, ["a", "kind"])
    )
    exact, noisy = (each.scores()["rows-macro-f1"] for each in comparison.evaluations)
    assert exact == 1
    assert noisy == pytest.approx(f1_score(*values.T, average="macro"))
    assert [each.score for each in comparison.differences if each.words.endswith("worse")] == [
        "rows",
        "rows-macro-f1",
    ]
    monkeypatch.setattr(module, "RESAMPLES", 5)
    (counts,) = module._samples(len(values), 5, (0, 0))
    drawn = [np.repeat(values, row.astype(int), axis=0) for row in counts]
    wanted = [f1_score(*rows.T, average="macro") for rows in drawn]
    np.testing.assert_allclose(module.resampled_macro_f1(values), wanted)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("classification:{},a", r"1 column named, and 2 needed: sentence, label"),
        ("{},a,b", r"2 columns named, and 3 needed"),
        ("retrieval:{},a,c", r"no column 'c'"),
        ("classification:{},kind,a", r"36 different labels for 36 texts, none for 10 of them"),
        (
            "classification:{}",
            r"can't tell which columns hold sentence, label: .* behind the file: .*,SENTENCE,LABEL$",
        ),
    ],
)
def test_columns_that_do_not_fit_are_refused_in_a_line(file: Path, name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_tasks(name.format(file))


def test_two_tasks_of_one_name_are_refused() -> None:
    tasks = [
        TaskRows("retrieval", ROWS, ["a", "b"]),
        TaskRows("classification", ROWS, ["a", "kind"]),
    ]
    with pytest.raises(InputError, match="2 tasks have the name 'rows'"):
        load_tasks(tasks)
    with pytest.raises(InputError, match="unknown kind of task 'sts'"):
        TaskRows("sts", ROWS)  # type: ignore[arg-type]


def test_a_run_keeps_the_rows_that_judge_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that it can be resumed or started again by a launcher, and its encoder evaluated, in another process."""
    texts = [row["a"] for row in ROWS]
    dev = TaskRows("classification", ROWS, ["a", "kind"])
    test = TaskRows("retrieval", ROWS, ["a", "b"], "answers")
    out = tmp_path / "run"
    train = partial(
        isotune.train, rows=texts, out=out, steps=2, batch_size=8, dev=dev, tasks=[test], quiet=True
    )
    with pytest.raises(KeyError, match="gone"):
        train(watch=lambda record: {}["gone"])
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    result = train()
    assert result.evaluation is not None
    assert result.evaluation.dev is not None
    assert result.evaluation.dev.unit == "texts"
    (task,) = result.evaluation.after.tasks
    assert task.name == f"retrieval:{out / 'tasks/answers.jsonl'}"
    again = evaluate(isotune.Encoder.load(out / "encoder", precision="float32"), task.name)
    assert again.scores() == result.evaluation.after.scores()
