"""Data on this machine stand in for published data of the hub, if the user says so."""

import pytest

from isotune.data import DATASETS
from isotune.data.datasets import is_stand_in, stand_ins
from isotune.errors import InputError
from isotune.evaluation import named_tasks, source_of
from isotune.lab.analyses import ANALYSES
from isotune.lab.studies import paper_names, read_study
from isotune.lab.studies.plan import needs
from isotune.methods.options import Use
from isotune.recipes import RECIPES, Recipe, read_recipe, resolve


def test_a_source_and_what_stands_in_for_it() -> None:
    assert stand_ins("all-nli:train") == ("nli-sample:train",)
    assert stand_ins("all-nli") == ("nli-sample:train", "nli-sample:dev")
    assert stand_ins("simcse-wiki") == ("enwiki-sample:train",)
    assert stand_ins("stsb:dev") == ("stsb:dev",)
    assert stand_ins("senteval-stsb:dev") == ("stsb:dev",)
    assert stand_ins("senteval-sts-unlabelled") == ("sts-unlabelled",)
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
        if other.dev_task:
            sources += (other.dev_task,)
        for source in sources:
            dataset, _, split = source.partition(":")
            facts = [
                part for known, part in DATASETS[dataset].splits.items() if split in ("", known)
            ]
            assert source == "qnli:train" or all(
                part.file for part in facts
            )  # nothing is here for QNLI's training data
        changed = set(other.inputs(after).data) - set(recipe.inputs(before).data)
        texts = {dataset.stand_in for dataset in DATASETS.values()}
        assert all(is_stand_in(source) or source in texts for source in changed)
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


def two_texts() -> set[str]:
    """The datasets whose text on the hub is another one than that of their files."""
    return {dataset.stand_in for dataset in DATASETS.values() if dataset.stand_in}


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_names_one_text_that_is_the_same_on_every_machine(name: str) -> None:
    recipe = Recipe.from_table(read_recipe(name), name)
    sources = [recipe.dev, *map(source_of, named_tasks(recipe.published_on or ["stsb-open"]))]
    for stage in recipe.stages:
        sources += [*recipe.inputs(stage).data, *recipe.inputs(stage).dev]
    assert not {source.partition(":")[0] for source in sources} & two_texts()


@pytest.mark.parametrize("name", paper_names())
def test_a_papers_study_names_one_text_that_is_the_same_on_every_machine(name: str) -> None:
    # Tables of sizes count rows, which are the same in both texts.
    study = read_study(name).model_copy(update={"statistics": ()})
    sources, _ = needs(study)
    sources += study.analysed
    for analysis in study.analyses:
        sources += [] if study.analysed else ANALYSES[analysis].tasks
    assert not {source.partition(":")[0] for source in sources} & two_texts()
