from __future__ import annotations

import zlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from rich.table import Table
from rich.text import Text
from scipy.stats import pearsonr, spearmanr

from isotune.data.named import scored_pairs
from isotune.errors import InputError
from isotune.evaluation import (
    GROUPS,
    Aggregates,
    Aggregation,
    Average,
    Evaluation,
    Metric,
    STSResult,
    comparison_table,
    cosine_similarities,
    evaluate,
)


class BagOfWords:
    """A sentence's words, hashed into 256 counts."""

    def encode(self, sentences: Sequence[str], /) -> np.ndarray:
        vectors = np.zeros((len(sentences), 256), np.float32)
        for row, sentence in zip(vectors, sentences, strict=True):
            for word in sentence.lower().split():
                row[zlib.crc32(word.encode()) % 256] += 1
        return vectors


def result(name: str, value: float) -> STSResult:
    return STSResult(
        name=name,
        split="test",
        pairs=10,
        spearman=Aggregates(all=value, mean=value + 0.1, wmean=value + 0.2),
        pearson=Aggregates(all=-value, mean=0, wmean=0),
        subsets={},
    )


def evaluation(encoder: str, average: float | None = None, **tasks: float) -> Evaluation:
    return Evaluation(
        encoder=encoder,
        tasks=tuple(result(name.replace("_", "-"), value) for name, value in tasks.items()),
        average=average
        and Average(
            group="sts",
            spearman=Aggregates(all=average, mean=average, wmean=average),
            pearson=Aggregates(all=0, mean=0, wmean=0),
        ),
        versions={},
        created=datetime(2025, 11, 20, tzinfo=UTC),
    )


def cells(table: Table) -> list[list[str]]:
    """The table's rows, header first, with a star before what is bold."""
    header = [[str(column.header) for column in table.columns]]
    columns = [cast("list[Text]", list(column.cells)) for column in table.columns]
    return header + [["*" * (cell.style == "bold") + cell.plain for cell in row] for row in zip(*columns, strict=True)]


def test_an_evaluation_names_its_encoder_and_what_made_it() -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    found = evaluate(BagOfWords(), ["stsb-open"], name="bag")
    assert found.encoder == "bag"
    assert found.versions.keys() == {"isotune", "torch", "transformers", "python"}
    assert before <= found.created <= datetime.now(UTC)
    assert found.average is None
    (task,) = found.tasks
    assert (task.name, task.split, list(task.subsets)) == ("stsb-open", "test", ["stsb-open"])
    assert Evaluation.model_validate_json(found.model_dump_json()) == found


def test_the_score_is_scipys() -> None:
    pairs = scored_pairs("stsb-open")
    cosines = cosine_similarities(BagOfWords(), pairs)
    (task,) = evaluate(BagOfWords(), ["stsb-open"], name="bag").tasks
    assert task.spearman.all == task.spearman.mean == spearmanr(pairs.scores, cosines).statistic
    assert task.pearson.all == task.pearson.wmean == pearsonr(pairs.scores, cosines).statistic
    assert task.spearman.all > 0.4


def test_without_the_seven_the_default_is_the_open_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ISOTUNE_DATA", raising=False)
    assert [task.name for task in evaluate(BagOfWords(), name="bag").tasks] == ["stsb-open"]


def test_the_seven(real_data: Path) -> None:
    found = evaluate(BagOfWords(), name="bag")
    assert tuple(task.name for task in found.tasks) == GROUPS["sts"]
    assert [task.pairs for task in found.tasks] == [
        3108,
        1500,
        3750,
        3000,
        1186,
        1379,
        4927,
    ]  # ConSERT, Table 1
    assert [len(task.subsets) for task in found.tasks] == [5, 3, 6, 5, 5, 1, 1]
    assert found.average is not None
    for metric in ("spearman", "pearson"):
        for aggregation in ("all", "mean", "wmean"):
            values = [getattr(getattr(task, metric), aggregation) for task in found.tasks]
            assert getattr(getattr(found.average, metric), aggregation) == pytest.approx(np.mean(values))


def test_each_years_numbers_are_scipys(real_data: Path) -> None:
    pairs = scored_pairs("sts15")
    cosines = cosine_similarities(BagOfWords(), pairs)
    (task,) = evaluate(BagOfWords(), ["sts15"], name="bag").tasks
    labels = np.array(pairs.subsets)
    parts = {name: labels == name for name in np.unique(labels)}
    each = {name: spearmanr(pairs.scores[rows], cosines[rows]).statistic for name, rows in parts.items()}
    assert {name: subset.spearman for name, subset in task.subsets.items()} == each
    assert task.spearman.all == spearmanr(pairs.scores, cosines).statistic
    assert task.spearman.mean == pytest.approx(np.mean(list(each.values())))
    weights = [rows.sum() for rows in parts.values()]
    assert task.spearman.wmean == pytest.approx(np.average(list(each.values()), weights=weights))


@pytest.mark.slow
def test_a_published_score(real_data: Path, real_models: Path) -> None:
    from sentence_transformers import SentenceTransformer

    encoder = SentenceTransformer(str(real_models / "all-minilm"), device="cpu")
    (task,) = evaluate(encoder, ["stsb"], name="all-MiniLM-L6-v2").tasks
    assert round(100 * task.spearman.all, 2) == 82.03  # as on the MTEB leaderboard


def test_a_group_is_its_tasks_each_once(real_data: Path) -> None:
    found = evaluate(BagOfWords(), ["sickr", "sts", "stsb-open"], name="bag")
    assert [task.name for task in found.tasks] == [
        "sickr", "sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "stsb-open"
    ]  # fmt: skip
    seven = [task.spearman.all for task in found.tasks if task.name != "stsb-open"]
    assert found.average is not None
    assert found.average.spearman.all == pytest.approx(np.mean(seven))


def test_a_file_is_a_task(tmp_path: Path) -> None:
    path = tmp_path / "mine.tsv"
    lines = ("a b\ta b\t5\tnews", "a b\ta c\t3\tnews", "a b\tc d\t0\tmail", "x y\tx z\t2\tmail")
    path.write_text("sentence1\tsentence2\tscore\tsubset\n" + "\n".join(lines))
    (task,) = evaluate(BagOfWords(), [str(path)], name="bag").tasks
    assert (task.name, task.pairs, list(task.subsets)) == (str(path), 4, ["news", "mail"])
    assert task.spearman.mean == pytest.approx(1)


def test_an_unknown_task_is_refused() -> None:
    with pytest.raises(InputError, match=r"unknown task or file 'sickrr': did you mean 'sickr'\? Known: sickr, sts, "):
        evaluate(BagOfWords(), ["stsb-open", "sickrr"], name="bag")


def test_a_comparison_shows_every_column_and_the_best_of_each() -> None:
    table = comparison_table(
        [
            evaluation("start", average=0.4, sts12=0.2, stsb=0.5),
            evaluation("tuned [x]", average=0.6, sts12=0.3, stsb=0.41234),
            evaluation("open", stsb_open=0.7, sts12=0.3),
        ]
    )
    assert table.title == 'Spearman x 100, aggregation "all": one correlation over all subsets together'
    assert cells(table) == [
        ["Encoder", "STS12", "STS-B", "STS-B open", "Average"],
        ["start", "20.00", "*50.00", "-", "40.00"],
        ["tuned [x]", "*30.00", "41.23", "-", "*60.00"],
        ["open", "*30.00", "-", "*70.00", "-"],
    ]


@pytest.mark.parametrize(
    ("aggregation", "metric", "title", "value"),
    [
        ("mean", "spearman", 'Spearman x 100, aggregation "mean": mean over subsets', "*60.00"),
        (
            "wmean",
            "spearman",
            'Spearman x 100, aggregation "wmean": mean over subsets weighted by their size',
            "*70.00",
        ),
        (
            "all",
            "pearson",
            'Pearson x 100, aggregation "all": one correlation over all subsets together',
            "*-50.00",
        ),
    ],
)
def test_a_comparison_in_another_aggregation_or_metric(
    aggregation: Aggregation, metric: Metric, title: str, value: str
) -> None:
    table = comparison_table([evaluation("start", stsb=0.5)], aggregation, metric)
    assert table.title == title
    assert cells(table) == [["Encoder", "STS-B"], ["start", value]]


@pytest.mark.parametrize("arguments", [{"aggregation": "max"}, {"metric": "kendall"}])
def test_an_unknown_aggregation_or_metric_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"unknown {next(iter(arguments))}"):
        comparison_table([evaluation("start", stsb=0.5)], **arguments)


def test_a_folder_is_loaded_and_gives_its_name(tiny_model: Path) -> None:
    from isotune.encoder.encoder import Encoder

    result = evaluate(tiny_model, ["stsb-open"])
    assert result.encoder == str(tiny_model)
    loaded = evaluate(Encoder.load(tiny_model), ["stsb-open"])
    assert loaded.encoder == "Encoder"
    assert loaded.tasks == result.tasks
