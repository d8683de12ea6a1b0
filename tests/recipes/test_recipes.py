"""Recipes: the ones of the package, their tables and sources, and options laid over them."""

import math
import tomllib
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, get_args

import pytest
import tomli_w
from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from isotune.cli.train import described
from isotune.encoder.options import EncoderOptions
from isotune.errors import InputError
from isotune.methods import METHODS, OPTIONS
from isotune.recipes import (
    RECIPES,
    AsReleased,
    Recipe,
    TrainingOptions,
    read_recipe,
    resolve,
    starting_table,
)


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_is_allowed_and_comes_back_from_its_table(name: str) -> None:
    recipe = Recipe.from_table(read_recipe(name), name)
    assert recipe.title
    assert recipe.paper
    assert recipe.source
    assert Recipe.from_table(tomllib.loads(tomli_w.dumps(recipe.table()))) == recipe


def test_a_recipe_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    text = 'title = "Été"\n[[stages]]\nmethod = "simcse"\n'
    for encoding in ("utf-8", "utf-8-sig"):
        (tmp_path / f"{encoding}.toml").write_text(text, encoding)
    assert read_recipe(tmp_path / "utf-8-sig.toml") == read_recipe(tmp_path / "utf-8.toml")


@pytest.mark.parametrize("name", METHODS)
def test_a_key_means_one_thing(name: str) -> None:
    keys = [
        *OPTIONS[name].model_fields,
        *TrainingOptions.model_fields,
        *AsReleased.model_fields,
        *EncoderOptions.model_fields,
        *Recipe.model_fields,
    ]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("model", [EncoderOptions, TrainingOptions, AsReleased, *OPTIONS.values()])
def test_every_option_is_explained(model: type[TrainingOptions]) -> None:
    assert all(described(model, name) for name in model.model_fields)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"classes": ["0", "1", "0"]}, "classes: 0 stands there twice"),
        ({"classes": ["0", "1", "2"], "metrics": ["f1"]}, "f1 is of two classes, and there are 3"),
        ({"classes": ["0"]}, "classes"),
        ({"classes": []}, "accuracy is of classes, and there are none"),
        ({"classes": [], "metrics": ["spearman", "f1"]}, "f1 is of classes, and there are none"),
    ],
)
def test_classes_and_metrics_that_do_not_fit_are_refused(
    options: dict[str, Any], text: str
) -> None:
    table = {"stages": [{"method": "finetune-pair", **options}]}
    with pytest.raises(InputError, match=text):
        Recipe.from_table(table)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, 1e18, -1e18, 10**21, -(10**21)])
def test_a_number_that_cannot_be_is_refused_by_its_option(number: float) -> None:
    for model in {TrainingOptions, *OPTIONS.values()}:
        for name, field in model.model_fields.items():
            kinds = {field.annotation, *get_args(field.annotation)}
            is_count = int in kinds or name == "epochs"
            may_be = {"max_gradient_norm": number == math.inf, "min_score": math.isfinite(number)}
            is_finite_float = math.isfinite(number) and number > 0 and not is_count
            if kinds & {int, float} and not is_finite_float and not may_be.get(name):
                with pytest.raises(ValidationError):
                    model.model_validate({name: number})


def fields_of_names() -> Iterator[tuple[str, FieldInfo]]:
    """The options that take several names."""
    for model in (Recipe, EncoderOptions, TrainingOptions, *OPTIONS.values()):
        for name, field in model.model_fields.items():
            kind = str(field.annotation)
            if "tuple[" in kind and ("str" in kind or "Literal" in kind):
                yield name, field


def value_or_problem(field: FieldInfo, value: object) -> object:
    """What a field makes of a value, or why it refuses the value."""
    try:
        return TypeAdapter(Annotated[(field.annotation, *field.metadata)]).validate_python(value)
    except ValidationError as error:
        return error.errors()[0]["msg"]


def test_one_name_is_several_names_or_is_refused_in_a_line() -> None:
    names = set()
    for name, field in fields_of_names():
        names.add(name)
        one = {"augmentations": "shuffle", "metrics": "f1"}.get(name, "x")
        found = value_or_problem(field, one)
        if name in ("augmentations", "translate"):
            assert found == "Value error, two names are needed"
        else:
            assert found == value_or_problem(field, [one])
            assert "tuple" not in str(found)
    assert {"tasks", "data", "teachers", "classes", "dev_data", "metrics", "translate"} <= names


@pytest.mark.parametrize("values", [[0], [0, 0], [64, 0]])
@pytest.mark.parametrize("name", ["matryoshka", "interpolations"])
def test_a_wrong_number_in_a_list_is_the_only_problem(name: str, values: list[int]) -> None:
    with pytest.raises(InputError, match=f"^recipe: {name}: ") as refused:
        Recipe.from_table(read_recipe("default")).with_options({name: values})
    assert "Tuple" not in str(refused.value)


def test_an_option_goes_where_it_belongs() -> None:
    options = {
        "seed": 3,
        "layers": [0, -1],
        "temperature": 0.2,
        "as_released": {"whole_epochs": False},
    }
    recipe = Recipe.from_table(read_recipe("consert-unsup-base")).with_options(options)
    assert (recipe.seed, recipe.encoder.layers) == (3, (0, -1))
    assert recipe.stages[0].options.temperature == 0.2  # type: ignore[attr-defined]
    assert recipe.stages[0].training.learning_rate == 5e-7
    released = recipe.stages[0].training.as_released
    assert (released.whole_epochs, released.dev_layers) == (False, (-1,))  # what is not given stays


def test_an_option_changes_every_stage_that_has_it() -> None:
    table = {
        "data": ["x"],
        "stages": [{"method": "simcse", "epochs": 2}, {"method": "consert", "steps": 9}],
    }
    recipe = Recipe.from_table(table)
    first, second = recipe.with_options({"batch_size": 8, "projection": False}).stages
    assert first.training.batch_size == second.training.batch_size == 8
    assert first.options.projection is False  # type: ignore[attr-defined]
    assert recipe.stages[0].training.batch_size == 64  # the recipe itself stays as it is


@pytest.mark.parametrize(
    ("stage", "inputs"),
    [
        ({"method": "simcse"}, (("x",), (), ())),
        ({"method": "simcse", "data": ["b", "c"]}, (("b", "c"), (), ())),
        ({"method": "finetune-sentence", "dev_data": ["a", "b"]}, (("x",), ("a", "b"), ())),
        ({"method": "back-translation"}, (("x",), (), ())),
        (
            {"method": "self-guided-bt", "translate": ["there", "back"]},
            (("x",), (), ("there", "back")),
        ),
        (
            {
                "method": "multitask",
                "sentiment_data": ["a"],
                "paraphrase_data": ["b"],
                "similarity_data": ["c", "d"],
            },
            (("a", "b", "c", "d"), ("sst5:dev", "minbert-quora:dev", "minbert-sts:dev"), ()),
        ),
    ],
)
def test_what_a_stage_reads(stage: dict[str, Any], inputs: tuple[tuple[str, ...], ...]) -> None:
    recipe = Recipe.from_table({"data": ["x"], "stages": [stage]})
    assert recipe.inputs(recipe.stages[0]) == inputs


def test_shares_stand_behind_sources(tmp_path: Path) -> None:
    def plan(*sources: str) -> tuple[Any, Any]:
        recipe = resolve(sources, None, "simcse", {})
        return recipe.data, recipe.shares

    assert plan("a.txt", "b.txt") == (("a.txt", "b.txt"), ())
    assert plan("a.txt", "b.txt*2", "c:d*0.5") == (("a.txt", "b.txt", "c:d"), (1, 2, 0.5))
    assert plan("texts/*.txt*2") == (("texts/*.txt",), (2,))
    named = str(tmp_path / "a.txt*2")
    Path(named).touch()
    assert plan(named, f"{named}*3") == ((named, named), (1, 3))
    table = {"data": ["a"], "shares": [1, 2], "stages": [{"method": "simcse"}]}
    with pytest.raises(InputError, match="got 2 shares and 1 source; give one share for each"):
        Recipe.from_table(table)
    # Other sources than those of a recipe have no shares of the recipe.
    (tmp_path / "mine.toml").write_text(tomli_w.dumps({**table, "data": ["a", "b"]}))
    mine = tmp_path / "mine.toml"
    assert resolve((), mine, None, {}).shares == (1, 2)
    assert resolve(["c"], mine, None, {}).shares == ()
    assert resolve(None, mine, None, {}).shares == ()


def test_the_teachers_of_all_stages_are_named_once() -> None:
    stages = [{"method": "distil", "teachers": names} for names in (["a", "b"], [], ["b", "c"])]
    assert Recipe.from_table({"stages": stages}).teachers == ("a", "b", "c")


def test_steps_take_the_place_of_epochs() -> None:
    recipe = Recipe.from_table(read_recipe("consert-unsup-base"))
    (stage,) = recipe.with_options({"steps": 7}).stages
    assert stage.training.total_steps(1000) == 7
    with pytest.raises(InputError, match="epochs and steps are both given"):
        recipe.with_options({"steps": 7, "epochs": 2})


def test_the_recipe_a_run_starts_from(tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "modules.json").touch()  # somebody's sentence encoder
    assert (
        starting_table(None, None, None)
        == starting_table(None, None, "bert-tiny")
        == read_recipe("default")
    )
    assert starting_table(None, None, tiny_model) == read_recipe("default")
    assert starting_table(None, None, str(tmp_path)) == read_recipe("adapt")
    assert starting_table(None, None, None, teachers=["a"]) == read_recipe("distil")
    assert starting_table(None, None, str(tmp_path), teachers=["a"]) == read_recipe("adapt-distil")
    assert starting_table("default", None, None, teachers=["a"]) == read_recipe("default")
    with pytest.raises(InputError, match="no recipe is for both"):
        starting_table(None, None, None, pairs=("a", "b"), teachers=["a"])
    assert starting_table(None, "consert", "some/model")["stages"] == [{"method": "consert"}]
    with pytest.raises(InputError, match="both given"):
        starting_table("mlm", "consert", None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stages = [", "can't be read as TOML"),
        ("data = ['x']", "stages: Field required"),
        ("stages = []", "stages: a recipe has at least one stage"),
        ("stages = [3]", "a stage is a table"),
        ("stages = [{temperature = 1}]", "unknown method ''"),
        ("[[stages]]\nmethod = 'simcse'\nrate = 1", "unknown option of method simcse 'rate'"),
        (
            "[[stages]]\nmethod = 'simcse'\nupsample = true",
            "unknown option .* 'upsample'. Known: as_released.upsample",
        ),
        (
            "[[stages]]\nmethod = 'simcse'\nbatch_size = 1",
            r"batch_size: .*greater than or equal to 2 \(got 1\)",
        ),
        ("colour = 'red'\n[[stages]]\nmethod = 'simcse'", "colour"),
        (
            "[encoder]\npooling = 'median'\n[[stages]]\nmethod = 'simcse'",
            "unknown pooling 'median'.*Known: cls, ",
        ),
    ],
)
def test_an_invalid_recipe_is_refused_in_one_line(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "invalid.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        resolve(["x.txt"], path, None, {"steps": 2})


def test_a_missing_recipe_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing.toml: it can't be read"):
        read_recipe(tmp_path / "missing.toml")
    with pytest.raises(
        InputError,
        match=r"'mln': did you mean 'mlm'\? Known: .*; a file's name ends",
    ):
        read_recipe("mln")


ABOUT = {"title", "paper", "source", "published", "cost", "gained"}  # of the recipe itself
NAMES = {"model", "method"}  # what the title is about


def values(name: str) -> list[str]:
    """The lines of a recipe's file that give a value."""
    text = resources.files("isotune.recipes").joinpath(f"{name}.toml").read_text("utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith(("#", "["))]
    return [line for line in lines if line.partition(" = ")[0] not in ABOUT | NAMES]


@pytest.mark.parametrize("name", RECIPES)
def test_every_value_has_its_source(name: str) -> None:
    assert [line for line in values(name) if not line.partition("  # ")[2].strip()] == []


@pytest.mark.parametrize("pairs", [("a",), ("a", "b", "c"), "ab"])
def test_pairs_are_two_columns(pairs: Sequence[str]) -> None:
    with pytest.raises(InputError, match=r"^pairs.* two columns"):
        resolve(["x.csv"], None, None, {}, pairs=pairs)
