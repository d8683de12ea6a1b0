"""The user's own data judge an encoder.

The columns stand behind a file's name, or the rows come from memory.
"""

import csv
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from sklearn.metrics import f1_score

import isotune
from isotune import TaskRows
from isotune.data import LabelledSentence
from isotune.errors import InputError
from isotune.evaluation import compare, evaluate, load_dev, load_tasks, with_whole_path
from isotune.evaluation import intervals as module
from isotune.evaluation.labelled import rows_apart
from isotune.evaluation.tasks import FunctionTask, Task, task
from isotune.methods.options import ClassifierOptions

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
        ("retrieval:{},a,a", r"column 'a' is read as sentence1 and as sentence2; name two columns"),
        ("classification:{},a,a", r"column 'a' is read as sentence and as label"),
        ("{},a,b,b", r"column 'b' is read as sentence2 and as score"),
        ("classification:{},kind,a", r"36 different labels for 36 texts, none for 10 of them"),
        (
            "classification:{}",
            r"can't tell which columns hold sentence, label: .* behind the file: "
            r".*,SENTENCE,LABEL$",
        ),
    ],
)
def test_columns_that_do_not_fit_are_refused_in_a_line(file: Path, name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_tasks(name.format(file))


class Listening:
    """Keeps the texts that it is given; its vectors say nothing."""

    def encode(self, sentences: Sequence[str], /) -> NDArray[np.float32]:
        self.heard = list(sentences)
        return np.random.default_rng(0).normal(size=(len(sentences), 4)).astype(np.float32)


def tasks_without_roles() -> Iterator[Task]:
    """A task of each kind that encodes all of its texts alike."""
    yield from load_tasks([TaskRows(kind, ROWS, columns, kind) for kind, columns in KINDS[::2]])
    yield from load_tasks("geometry")
    labelled = [LabelledSentence(row["a"], row["grade"]) for row in ROWS]
    # Some texts stand on both sides.
    train, test = labelled[:30], labelled[24:]
    single = ClassifierOptions(classes=("0", "1", "2", "3"))
    yield rows_apart("single", train, test, single)
    yield rows_apart("score", train, test, ClassifierOptions(kind="score"))


def test_the_texts_of_a_task_are_those_that_it_encodes() -> None:
    for scored in tasks_without_roles():
        encoder = Listening()
        scored.score(encoder)
        assert scored.texts() == {"": encoder.heard}, scored.name


def test_columns_are_a_list() -> None:
    with pytest.raises(
        InputError, match=r"a list of columns is needed \(sentence, label\), not 'ak'"
    ):
        TaskRows("classification", ROWS, "ak")


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
    """The run can be resumed or started again, and its encoder evaluated, in another process."""
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


@pytest.mark.parametrize(
    "wrong",
    [
        [("a", "b", 2.0)],
        [isotune.ScoredPair("a", "b", 2.0)],
        pa.Table.from_pylist(ROWS),
        ROWS,
        {"a": "b"},
        2.0,
        iter(ROWS),
    ],
)
def test_rows_in_place_of_a_task_are_answered_by_what_to_write(wrong: Any) -> None:
    with pytest.raises(InputError, match=r'rows from memory are a task as TaskRows\("similarity"'):
        evaluate(Codes(), wrong)


def test_names_are_checked_before_the_first_data_are_read(tmp_path: Path) -> None:
    def rows() -> Iterator[dict[str, str]]:
        raise AssertionError("the rows were read")
        yield {}

    unread = TaskRows("retrieval", rows())
    with pytest.raises(InputError, match="unknown task or file 'stsbb': did you mean 'stsb'"):
        load_tasks([unread, "stsbb"])
    with pytest.raises(InputError, match="no such file, and no task has this name"):
        load_tasks([unread, tmp_path.name + "/gone.tsv"])
    for name in ("retrieval", "retrieval:", "classification:", "geometry:", "similarity:"):
        problem = f"^{name.strip(':')}: name the data behind this kind of task"
        with pytest.raises(InputError, match=problem):
            load_tasks([unread, name])
        with pytest.raises(InputError, match=problem):
            load_dev(name)
    for name in ("stsb", "sts"):
        with pytest.raises(InputError, match=f"a known task has the name '{name}'"):
            load_tasks([unread, TaskRows("similarity", ROWS, ["a", "b", "grade"], name)])


def test_two_tasks_with_one_name_among_their_scores_are_refused() -> None:
    labels = TaskRows("classification", ROWS, ["a", "kind"])
    pairs = TaskRows("similarity", ROWS, ["a", "b", "grade"], "rows-macro-f1")
    with pytest.raises(InputError, match="2 tasks have a score 'rows-macro-f1'"):
        load_tasks([labels, pairs])


def test_a_name_of_a_group_is_no_name_of_a_plugins_task() -> None:
    with pytest.raises(InputError, match="a group of tasks has this name"):
        task("sts")(lambda encoder: 0.5)


def test_a_function_that_gives_no_score_is_refused() -> None:
    with pytest.raises(InputError, match="task empty: it gives no score"):
        FunctionTask("empty", lambda encoder: {}).score(Codes())


def test_a_blank_label_is_left_out_of_a_task_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rows = [*ROWS, {**ROWS[0], "kind": " "}]
    load_tasks(TaskRows("classification", rows, ["a", "kind"], "mine"))
    assert "1 unlabelled or blank row left out, of the lines 37" in caplog.text
