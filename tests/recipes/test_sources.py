"""Every value of every recipe says where it is from."""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import Any

import pytest

from isotune.recipes import Recipe, read_recipe, recipe_names

ABOUT = {"title", "paper", "source", "published", "cost"}  # of the recipe itself
NAMES = {"model", "method"}  # what the title is about
CONSERT = [*(name for name in recipe_names() if name.startswith("consert-")), "default"]


def values(name: str) -> list[str]:
    """The lines of a recipe's file that give a value."""
    text = resources.files("isotune.recipes").joinpath(f"{name}.toml").read_text("utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith(("#", "["))]
    return [line for line in lines if line.partition(" = ")[0] not in ABOUT | NAMES]


def stages(name: str) -> list[dict[str, Any]]:
    """The stages as their file has them, without defaults."""
    text = resources.files("isotune.recipes").joinpath(f"{name}.toml").read_text("utf-8")
    found: list[dict[str, Any]] = tomllib.loads(text)["stages"]
    return found


@pytest.mark.parametrize("name", recipe_names())
def test_every_value_has_its_source(name: str) -> None:
    assert [line for line in values(name) if not line.partition("  # ")[2].strip()] == []


@pytest.mark.parametrize("name", recipe_names())
def test_released_runs_without_bias_correction_have_none_and_all_others_have_it(name: str) -> None:
    # ConSERT's main.py and the fit of the sentence-transformers copy beside it; BERT-flow's optimization_bert_flow.py.
    without = name in (*CONSERT, "sbert-nli", "bert-flow")
    for given, stage in zip(stages(name), Recipe.from_table(read_recipe(name)).stages, strict=True):
        if stage.options.takes_steps:
            assert stage.training.bias_correction is not without
            assert not without or given["bias_correction"] is False


def test_the_settings_of_consert_s_scripts() -> None:
    """Those that differ between the settings: scripts/*.sh of the authors."""
    base, large = (stages(f"consert-unsup-{size}")[0] for size in ("base", "large"))
    assert [base[key] for key in ("epochs", "max_length", "eval_every", "model_dropout")] == [10, 64, 200, 0.0]
    assert [large[key] for key in ("epochs", "max_length", "eval_every")] == [25, 64, 100]
    assert "model_dropout" not in large
    for name, augmentation in (("consert-sup-unsup", "feature_cutoff"), ("consert-joint-unsup", "shuffle")):
        first, second = stages(name)
        assert (first["learning_rate"], first["epochs"], first["max_square"]) == (2e-5, 1, True)
        assert (second["learning_rate"], second["epochs"], second["augmentations"]) == (
            5e-7,
            25,
            ["none", augmentation],
        )


def test_the_self_guided_recipes_are_of_one_set() -> None:
    """The text's: views by max of a fixed copy without dropout; what they share is the same in all of them."""
    shared: list[dict[str, Any]] = []
    for name in ("sg", "sg-opt", "sg-opt-bt"):
        (stage,) = stages(name)
        assert (stage["view_pooling"], stage["frozen_dropout"]) == ("max", False)
        shared.append({key: stage[key] for key in stage if key not in ("method", "objective", "translate", "beams")})
    assert shared[0] == shared[1] == shared[2]
