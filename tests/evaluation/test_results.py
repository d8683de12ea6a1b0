from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from isotune.evaluation import (
    Evaluation,
    GeometryResult,
    RunEvaluation,
    STSResult,
    TransferResult,
)
from isotune.evaluation.results import MEASURES, Aggregates, AverageAccuracy, Correlations, SubsetResult

correlation = st.floats(-1, 1)
aggregates = st.builds(Aggregates, all=correlation, mean=correlation, wmean=correlation)


share = st.floats(0, 1)
number = st.floats(allow_nan=False, allow_infinity=False)


@given(
    spearman=aggregates,
    pearson=aggregates,
    subset=correlation | st.none(),
    values=st.tuples(share, share | st.none(), share | st.none(), number),
    measures=st.tuples(*[number] * len(MEASURES)),
)
def test_json_gives_back_the_same_numbers(
    spearman: Aggregates,
    pearson: Aggregates,
    subset: float | None,
    values: tuple[float, float | None, float | None, float],
    measures: tuple[float, ...],
) -> None:
    accuracy, f1, dev_accuracy, regularisation = values
    transfer = TransferResult(
        name="mr",
        classifier="a",
        protocol="b",
        rows=10,
        accuracy=accuracy,
        f1=f1,
        dev_accuracy=dev_accuracy,
        regularisation=(regularisation,),
    )
    geometry = GeometryResult(
        name="geometry",
        data="stsb:dev",
        sentences=5,
        positives=2,
        positive="c",
        normalisation="d",
        **dict(zip(MEASURES, measures, strict=True)),
    )
    task = STSResult(
        name="sts12",
        split="test",
        pairs=10,
        spearman=spearman,
        pearson=pearson,
        subsets={"MSRpar": SubsetResult(pairs=10, spearman=subset, pearson=subset)},
    )
    evaluation = Evaluation(
        encoder="runs/æ/encoder",
        tasks=(task, transfer, geometry),
        averages={
            "sts": Correlations(spearman=spearman, pearson=pearson),
            "transfer": AverageAccuracy(accuracy=accuracy),
        },
        versions={"torch": "2.13.0"},
        created=datetime(2025, 11, 20, tzinfo=UTC),
    )
    run = RunEvaluation(before=evaluation, after=evaluation, selected_step=3)
    assert RunEvaluation.model_validate_json(run.model_dump_json()) == run


@pytest.mark.parametrize("value", [1.5, -1.01, float("nan")])
def test_a_correlation_is_in_minus_one_to_one(value: float) -> None:
    with pytest.raises(ValidationError):
        Aggregates(all=value, mean=0, wmean=0)


def test_a_result_is_frozen() -> None:
    result = Aggregates(all=0.1, mean=0.2, wmean=0.3)
    with pytest.raises(ValidationError, match="frozen"):
        result.all = 0.9  # type: ignore[misc]
