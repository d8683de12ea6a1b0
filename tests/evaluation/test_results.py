from __future__ import annotations

import pytest
from pydantic import ValidationError

from isotune.evaluation.results import Aggregates


@pytest.mark.parametrize("value", [1.5, -1.01, float("nan")])
def test_a_correlation_is_in_minus_one_to_one(value: float) -> None:
    with pytest.raises(ValidationError):
        Aggregates(all=value, mean=0, wmean=0)
