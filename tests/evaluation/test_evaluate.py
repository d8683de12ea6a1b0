from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from rich.table import Table
from rich.text import Text
from scipy.stats import pearsonr, spearmanr

from isotune.data import LabelledSentence, read_scored_pairs
from isotune.errors import InputError
from isotune.evaluation import (
    GROUPS,
    Evaluation,
    GeometryResult,
    STSResult,
    TaskRows,
    TransferResult,
    comparison_tables,
    cosine_similarities,
    evaluate,
    load_tasks,
)
from isotune.evaluation.results import MEASURES, Aggregation, AverageAccuracy, Metric
from isotune.evaluation.tasks import TASKS, task_title
from tests.evaluation.test_comparison import Noisy
from tests.report.conftest import evaluation


def cells(table: Table) -> list[list[str]]:
    """The rows of a table, the header first; a star stands before a bold cell."""
    header = [[str(column.header) for column in table.columns]]
    columns = [cast("list[Text]", list(column.cells)) for column in table.columns]
    return header + [
        ["*" * (cell.style == "bold") + cell.plain for cell in row]
        for row in zip(*columns, strict=True)
    ]


def test_an_evaluation_names_its_encoder_and_what_made_it() -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    evaluated = evaluate(Noisy(), ["stsb-open"], name="bag")
    assert evaluated.encoder == "bag"
    assert evaluated.versions.keys() == {"isotune", "torch", "transformers", "python"}
    assert before <= evaluated.created <= datetime.now(UTC)
    assert evaluated.averages == {}
    (task,) = evaluated.tasks
    assert (task.name, task.split, list(task.subsets)) == ("stsb-open", "test", ["stsb-open"])
    pairs = read_scored_pairs("stsb-open:test")
    cosines = cosine_similarities(Noisy(), pairs)
    assert task.spearman.all == task.spearman.mean == spearmanr(pairs.scores, cosines).statistic
    assert task.pearson.all == task.pearson.wmean == pearsonr(pairs.scores, cosines).statistic
    assert task.spearman.all > 0.4
    assert Evaluation.model_validate_json(evaluated.model_dump_json()) == evaluated


def test_without_the_seven_the_default_is_the_open_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ISOTUNE_DATA", raising=False)
    assert [task.name for task in evaluate(Noisy(), name="bag").tasks] == ["stsb-open"]


def test_the_seven_sts_tasks(real_data: Path) -> None:
    """A group stands for its tasks, none of which is read twice."""
    evaluated = evaluate(Noisy(), ["sickr", "sts", "stsb-open"], name="bag")
    first, *tasks = [task for task in evaluated.tasks if isinstance(task, STSResult)]
    assert [task.name for task in tasks] == [*GROUPS["sts"][:-1], "stsb-open"]
    tasks = [*tasks[:-1], first]
    assert [task.pairs for task in tasks] == [
        3108,
        1500,
        3750,
        3000,
        1186,
        1379,
        4927,
    ]  # ConSERT, Table 1
    assert [len(task.subsets) for task in tasks] == [5, 3, 6, 5, 5, 1, 1]
    average = evaluated.averages["sts"]
    for metric in ("spearman", "pearson"):
        for aggregation in ("all", "mean", "wmean"):
            values = [getattr(getattr(task, metric), aggregation) for task in tasks]
            assert getattr(getattr(average, metric), aggregation) == pytest.approx(np.mean(values))


@pytest.mark.slow
def test_a_published_score(real_data: Path, real_models: Path) -> None:
    from sentence_transformers import SentenceTransformer

    encoder = SentenceTransformer(str(real_models / "all-minilm"), device="cpu")
    (task,) = evaluate(encoder, ["stsb"], name="all-MiniLM-L6-v2").tasks
    assert round(100 * task.spearman.all, 2) == 82.03  # as on the MTEB leaderboard


def test_a_file_is_a_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mine.tsv"
    lines = ("a b\ta b\t5\tnews", "a b\ta c\t3\tnews", "a b\tc d\t0\tmail", "x y\tx z\t2\tmail")
    path.write_text("sentence1\tsentence2\tscore\tsubset\n" + "\n".join(lines))
    (task,) = evaluate(Noisy(), [str(path)], name="bag").tasks
    assert (task.name, task.pairs, list(task.subsets)) == (str(path), 4, ["news", "mail"])
    assert task.spearman.mean == pytest.approx(1)
    assert evaluate(Noisy(), [path], name="bag").tasks == (task,)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="stsb-open: no such file"):
        load_tasks([Path("stsb-open")])


def test_a_comparison_shows_every_column_and_the_best_of_each() -> None:
    (table,) = comparison_tables(
        [
            evaluation({"sts12": 0.2, "stsb": 0.5}, "start", 0.4),
            evaluation({"sts12": 0.3, "stsb": 0.41234}, "tuned [x]", 0.6),
            evaluation({"stsb-open": 0.7, "sts12": 0.3}, "open"),
        ]
    )
    assert (
        table.title
        == 'Spearman x 100, aggregation "all": one correlation over all subsets together'
    )
    assert cells(table) == [
        ["Encoder", "STS12", "STS-B", "STS-B open", "Average"],
        ["start", "20.00", "*50.00", "-", "40.00"],
        ["tuned [x]", "*30.00", "41.23", "-", "*60.00"],
        ["open", "*30.00", "-", "*70.00", "-"],
    ]


@pytest.mark.parametrize(
    ("aggregation", "metric", "title", "value"),
    [
        ("mean", "spearman", 'Spearman x 100, aggregation "mean": mean over subsets', "*51.00"),
        (
            "wmean",
            "spearman",
            'Spearman x 100, aggregation "wmean": mean over subsets weighted by',
            "*52.00",
        ),
        ("all", "pearson", 'Pearson x 100, aggregation "all": one correlation over all', "*55.00"),
    ],
)
def test_a_comparison_in_another_aggregation_or_metric(
    aggregation: Aggregation, metric: Metric, title: str, value: str
) -> None:
    start = [evaluation({"stsb": 0.5}, "start")]
    (table,) = comparison_tables(start, aggregation, metric)
    assert str(table.title).startswith(title)
    assert cells(table) == [["Encoder", "STS-B"], ["start", value]]
    with pytest.raises(InputError, match="unknown metric"):
        comparison_tables(start, aggregation, "kendall")
    with pytest.raises(InputError, match="unknown aggregation"):
        comparison_tables(start, "max", metric)


def test_each_kind_of_task_has_its_table() -> None:
    def transfer(
        name: str, classifier: str, accuracy: float, f1: float | None = None
    ) -> TransferResult:
        facts = {
            "protocol": "10 folds",
            "rows": 10,
            "dev_accuracy": None,
            "regularisation": (0.01,),
        }
        return TransferResult(name=name, classifier=classifier, accuracy=accuracy, f1=f1, **facts)

    def geometry(name: str, data: str) -> GeometryResult:
        facts = {
            "sentences": 2000,
            "positives": 300,
            "positive": "score of 4 or more",
            "normalisation": "length 1",
        }
        measures = dict(zip(MEASURES, (0.2, -2.5, 0.1, 123.4), strict=True))
        return GeometryResult(name=name, data=data, **facts, **measures)

    sts = evaluation({"sts12": 0.2, "sts17-1": 0.5}, "one", 0.4)
    complete = sts.model_copy(
        update={
            "tasks": (
                *sts.tasks,
                transfer("mr", "plain", 0.75),
                transfer("mrpc", "plain", 0.7, f1=0.8),
                transfer("senteval-mr", "SentEval's", 0.76),
                geometry("geometry", "stsb:dev"),
                geometry("geometry:mine.tsv", "mine.tsv"),
            ),
            "averages": {**sts.averages, "transfer": AverageAccuracy(accuracy=0.725)},
        }
    )
    other = evaluation({"sts12": 0.1}, "other")
    tables = comparison_tables([complete, other])
    assert [cells(table) for table in tables] == [
        [["Encoder", "STS12", "Average"], ["one", "*20.00", "*40.00"], ["other", "10.00", "-"]],
        [["Encoder", "STS17-1 ar-ar"], ["one", "*50.00"], ["other", "-"]],
        [
            ["Encoder", "MR", "MRPC", "MRPC F1", "Average"],
            ["one", "*75.00", "*70.00", "*80.00", "*72.50"],
            ["other", *"----"],
        ],
        [["Encoder", "MR"], ["one", "*76.00"], ["other", "-"]],
        *[
            [
                ["Encoder", "alignment", "uniformity", "mean cosine", "effective rank"],
                ["one", "0.200", "-2.500", "0.100", "123.400"],
                ["other", *"----"],
            ]
        ]
        * 2,
    ]
    assert (
        tables[-1].title
        == "Geometry of mine.tsv: 2,000 sentences, length 1; 300 positives, score of 4 or more"
    )
    assert complete.scores().keys() == {
        *("sts12", "sts17-1", "sts", "mr", "mrpc", "mrpc-f1", "senteval-mr", "transfer"),
        *(f"{prefix}{measure}" for prefix in ("", "geometry:mine.tsv-") for measure in MEASURES),
    }
    assert Evaluation.model_validate_json(complete.model_dump_json()) == complete


def test_a_label_of_one_text_is_told(caplog: pytest.LogCaptureFixture) -> None:
    rows = [LabelledSentence(f"word {n}", f"rare {n}" if n < 7 else "a") for n in range(40)]
    load_tasks(TaskRows("classification", rows, name="mine"))
    (record,) = caplog.records
    assert record.message.startswith(
        "mine: 7 labels at one text alone, which no classifier can find"
    )
    assert record.message.endswith("'rare 0', 'rare 1', 'rare 2', 'rare 3', 'rare 4' and 2 more")
    few = [row for row in rows if row.label != "a"] + rows[-2:]
    with pytest.raises(InputError, match=r"8 different labels .*at one text alone: 'rare 0', "):
        load_tasks(TaskRows("classification", few, name="mine"))


def test_a_folder_is_loaded_and_gives_its_name(tiny_model: Path) -> None:
    from isotune.encoder.encoder import Encoder

    result = evaluate(tiny_model, ["stsb-open"])
    assert result.encoder == str(tiny_model)
    loaded = evaluate(Encoder.load(tiny_model), ["stsb-open"])
    assert loaded.encoder == "Encoder"
    assert loaded.tasks == result.tasks


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_is_of_known_tasks(group: str) -> None:
    assert set(GROUPS[group]) <= TASKS.keys()
    assert task_title(group).endswith(" average")
    assert group not in TASKS
