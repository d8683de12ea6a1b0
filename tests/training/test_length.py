"""How long stages are is counted before the run as the run then has it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from isotune import Result
from isotune.files import read_toml
from isotune.recipes import Recipe
from isotune.training import stage_lengths

STAGES: dict[str, list[dict[str, Any]]] = {
    "steps": [{"method": "simcse", "steps": 7, "eval_every": 3}],
    "the last step is evaluated anyway": [{"method": "simcse", "steps": 6, "eval_every": 3}],
    "epochs": [{"method": "consert", "epochs": 2.5, "eval_every": 2}],
    "whole epochs": [
        {"method": "simcse", "epochs": 2, "eval_every": 2, "as_released": {"whole_epochs": True}}
    ],
    "upsampled": [
        {"method": "simcse", "epochs": 1, "sample": 3, "as_released": {"upsample": True}}
    ],
    "two stages, one without steps": [{"method": "simcse", "steps": 2}, {"method": "whitening"}],
    "cached pairs": [
        {"method": "clsr", "epochs": 2, "min_score": 3, "eval_every": 2, "data": ["stsb-open:dev"]}
    ],
}


@pytest.mark.parametrize("name", STAGES)
def test_what_is_counted_is_what_a_run_does(
    name: str, train: Callable[..., Result], tiny_model: Path
) -> None:
    given: dict[str, Any] = {"steps": None, "eval_every": None}
    if name == "cached pairs":
        given["sources"] = ()
    folder = train(stages=STAGES[name], **given).folder
    recipe = Recipe.from_table(read_toml("recipe", folder / "recipe.toml", {}))
    lengths = stage_lengths(recipe, str(tiny_model))
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    data = json.loads((folder / "data.json").read_text())
    for number, length in enumerate(lengths, 1):
        of_stage = [record for record in records if record.get("stage") == number]
        kinds = [record["kind"] for record in of_stage]
        assert length.evaluations == kinds.count("space")
        steps = [record["step"] for record in of_stage if record["kind"] == "space"]
        assert length.steps == steps[-1] - steps[0]
        assert length.texts == data[f"stage {number}"]["sentences"]
