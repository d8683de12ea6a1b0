"""Data on this machine stand in for published data of the hub, if the user says so."""

import pytest

from isotune.data import DATASETS
from isotune.data.datasets import is_stand_in, stand_ins
from isotune.errors import InputError
from isotune.methods.options import Use
from isotune.recipes import RECIPES, Recipe, read_recipe, resolve


def test_a_source_and_what_stands_in_for_it() -> None:
    assert stand_ins("all-nli:train") == ("nli-sample:train",)
    assert stand_ins("all-nli") == ("nli-sample:train", "nli-sample:dev")
    assert stand_ins("simcse-wiki") == ("enwiki-sample:train",)
    assert stand_ins("stsb:dev") == ("stsb:dev",)
    assert stand_ins("mine.txt") == ("mine.txt",)
    assert is_stand_in("nli-sample:train")
    assert is_stand_in("enwiki-sample")
    assert not is_stand_in("all-nli:train")
    assert not is_stand_in("mrpc:validation")


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_with_stand_ins_reads_files(name: str) -> None:
    recipe = Recipe.from_table(read_recipe(name), name)
    other = recipe.with_sources(stand_ins)
    for before, after in zip(recipe.stages, other.stages, strict=True):
        sources = other.inputs(after).data + other.inputs(after).dev
        for source in sources:
            dataset, _, split = source.partition(":")
            facts = [
                part for known, part in DATASETS[dataset].splits.items() if split in ("", known)
            ]
            assert source == "qnli:train" or all(
                part.file for part in facts
            )  # nothing is here for QNLI's training data
        changed = recipe.inputs(before).data != other.inputs(after).data
        assert changed == any(map(is_stand_in, other.inputs(after).data))
    assert other.published == recipe.published


def test_only_the_flag_takes_stand_ins() -> None:
    assert resolve((), "simcse-sup", None, {}).data == ("simcse-nli:train",)
    assert resolve((), "simcse-sup", None, {}, with_stand_ins=True).data == ("nli-sample:train",)
    stages = resolve((), "bert-cf-multitask", None, {}, with_stand_ins=True).table()["stages"]
    assert stages[0]["paraphrase_data"] == ("qqp-sample:train",)
    (stage,) = resolve((), "glue-mrpc", None, {}, with_stand_ins=True).stages
    assert stage.options.named(Use.SCORE) == ("mrpc:test",)


def test_a_stage_that_reads_named_data_of_its_tasks_refuses_data() -> None:
    table = {"stages": [{"method": "multitask", "data": ["x"]}]}
    with pytest.raises(
        InputError,
        match="data: method multitask reads sentiment_data, paraphrase_data, similarity_data",
    ):
        Recipe.from_table(table)
