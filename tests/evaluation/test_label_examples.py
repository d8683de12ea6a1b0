"""What a classifier confuses, against counts that are made one by one."""

from collections import Counter

import numpy as np
import pytest

from isotune.evaluation.classifiers import Logistic
from isotune.evaluation.label_examples import LISTED, MARKED, SHOWN, LabelExamples, label_examples
from isotune.evaluation.labelled import LabelsApart
from isotune.evaluation.probes import Integers
from isotune.evaluation.vectors import Floats

ROWS = 200


def task_of(right: Integers, labels: list[str]) -> LabelsApart:
    texts = [f"text {number}" for number in range(len(right))]
    parts = {"train": ([texts], right), "test": ([texts], right)}
    return LabelsApart("labels", Logistic(), parts, labels=labels)


def values(right: Integers, predicted: Integers, chances: Floats | None = None) -> Floats:
    columns = [right, predicted]
    if chances is not None:
        columns.append(chances)
    return np.stack(columns, 1).astype(np.float64)


@pytest.mark.parametrize("count", [3, 12, 13])
def test_each_row_is_counted_by_its_label_and_what_is_predicted(count: int) -> None:
    generator = np.random.default_rng(count)
    right, old, new = generator.integers(0, count, (3, ROWS))
    chances = generator.uniform(size=ROWS)
    labels = [f"label {number}" for number in range(count)]
    found = label_examples(task_of(right, labels), values(right, old), values(right, new, chances))
    counted = Counter(zip(right.tolist(), new.tolist(), strict=True))
    for (row, column), rows in counted.items():
        assert found.counts[row][column] == rows
    assert sum(map(sum, found.counts)) == ROWS
    assert found.has_table is (count < 13)
    wrong = sorted((n for (a, b), n in counted.items() if a != b), reverse=True)
    assert [mistake.rows for mistake in found.mistakes] == wrong[:LISTED]
    assert len(found.marked) == MARKED
    for each in found.righted:
        assert each.before != each.right == each.after
    surest = sorted(chances[new != right], reverse=True)[:SHOWN]
    assert [each.chance for each in found.mistaken] == surest
    assert all(each.after != each.right for each in found.mistaken)
    assert LabelExamples.model_validate_json(found.model_dump_json()) == found


def test_a_classifier_without_probabilities_and_without_mistakes() -> None:
    right = np.array([0, 1, 1])
    same = values(right, right)
    found = label_examples(task_of(right, ["a", "b"]), values(right, 1 - right), same)
    assert (found.mistaken, found.mistakes, found.marked) == ((), [], [])
    assert [each.chance for each in found.righted] == [None] * 3
    still = label_examples(task_of(right, ["a", "b"]), same, same)
    assert still.righted == ()
