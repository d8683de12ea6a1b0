"""A stranger's arm in any study: a file beside ours, and a plugin with the method."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from isotune import plugins
from isotune.cli import main
from isotune.errors import InputError
from isotune.lab.studies import read_study, study_names
from isotune.lab.studies.plan import changed_study, plan_runs
from isotune.lab.studies.run_key import Keys
from isotune.methods import METHODS, OPTIONS
from isotune.registry import Registry

PLUGIN = '''
import isotune
from isotune.losses import nt_xent


class Options(isotune.AugmentedOptions):
    """Two views of a sentence find each other."""


@isotune.method("stranger", options=Options)
class Stranger(isotune.Method):
    rows = isotune.Sentence

    def loss(self, encoded, batch):
        return {"nt_xent": nt_xent(*encoded, 0.1)}
'''


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A plugin with the method "stranger", not loaded yet."""
    path = tmp_path / "stranger.py"
    path.write_text(PLUGIN)
    monkeypatch.setattr(plugins, "_LOADED", {})
    monkeypatch.setattr(Registry, "names_added", {})
    for registry in (METHODS, OPTIONS):
        monkeypatch.setattr(registry, "_entries", {**registry._entries})
        monkeypatch.setattr(registry, "_origins", {**registry._origins})
    return path


@pytest.fixture
def arms(tmp_path: Path) -> Path:
    """A file with an arm of the method "stranger"."""
    path = tmp_path / "mine.toml"
    arm = {"name": "mine", "method": "stranger", "data": ["stsb-open:train"]}
    path.write_text(
        tomli_w.dumps({"arms": [{**arm, "options": {"pooling": "mean", "dev": "none"}}]})
    )
    return path


@pytest.mark.usefixtures("made")
def test_a_strangers_arm_is_trained_and_compared_beside_ours(
    plugin: Path,
    arms: Path,
    table: dict[str, Any],
    write: Callable[[dict[str, Any]], Path],
    tiny_model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    study = write({**table, "arms": table["arms"][:2], "grid": {}})
    out = tmp_path / "out"
    words = ["study", study, "--plugin", plugin, "--arm", arms, "--model", tiny_model, "--out", out]
    printed = []
    for form in ("csv", "markdown", "latex", "csv"):
        assert main([str(word) for word in (*words, "--format", form)]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[3]
    assert [line.split(",")[:2] for line in printed[0].splitlines()[1:]] == [
        ["a", "as it is"],
        ["b", "SimCSE"],
        ["c", "mine"],
    ]
    assert "| c | mine |" in printed[1]
    assert "\nc & mine & " in printed[2]
    results = json.loads((out / "study.json").read_text())
    mine = [run for run in results["runs"] if run["arm"] == "mine"]
    assert [run["problem"] for run in mine] == ["", ""]
    compared = [(each["first"], each["second"]) for each in results["comparisons"]]
    assert compared == [("SimCSE", "as it is"), ("mine", "as it is"), ("mine", "SimCSE")]
    assert "Added to the study's arms: mine." in results["study"]["note"]


@pytest.mark.parametrize("name", study_names())
def test_an_arm_can_be_added_to_every_study(name: str, tmp_path: Path) -> None:
    published = read_study(name)
    if not published.arms:
        pytest.skip("it trains nothing")
    recipe = tmp_path / "recipe.toml"
    text = 'data = ["stsb-open:train"]\n[[stages]]\nmethod = "simcse"\nprojection = false\n'
    recipe.write_text(text)
    study = read_study(name, [f"mine={recipe}"])
    assert study.added == {"mine"}
    assert [run.recipe.stages[0].method for run in plan_runs(study) if run.arm == "mine"]


def test_a_plugin_counts_for_the_runs_that_use_it_alone(plugin: Path, arms: Path) -> None:
    def keys() -> list[str]:
        study = read_study("own/demo", added)
        return list(Keys().runs(plan_runs(study))[0].values())

    added: list[Path] = []
    before = keys()
    plugins.load_plugin(plugin)
    assert keys() == before
    added.append(arms)
    first = keys()
    plugin.write_text(PLUGIN.replace("0.1", "0.2"))
    plugins.load_plugin(plugin)
    second = keys()
    assert second[: len(before)] == first[: len(before)] == before
    assert not {*second[len(before) :]} & {*first[len(before) :]}
    plugin.with_name("nameless.py").write_text("import torch\n")
    plugins.load_plugin(plugin.with_name("nameless.py"))
    assert not {*keys()} & {*second}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "arms mine.toml: arms: Field required"),
        ("arms = []", "arms mine.toml: arms: "),
        ('[[arms]]\nname = "ConSERT-base"\nrecipe = "simcse-unsup"', "two arms are called"),
        ('[[arms]]\nname = "mine"\nrecipe = "simcse"', "simcse is no recipe: give method simcse"),
        ('[[arms]]\nname = "mine"\nmethod = "simsce"', "did you mean 'simcse'?"),
        ('[[arms]]\nname = "mine"\nmethod = "simcse"', "no data: name at least one file"),
    ],
)
def test_a_wrong_arm_is_refused_before_any_run(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(text)
    with pytest.raises(InputError, match=message):
        plan_runs(read_study("consert/table2", ["mine.toml"]))


def test_every_training_makes_the_same_number_of_updates() -> None:
    study = changed_study(read_study("own/protocol"), (), {}, updates=201)
    trained = [run.recipe for run in plan_runs(study) if run.recipe]
    for recipe in trained:
        stages = [stage.training for stage in recipe.stages]
        assert sum(stage.steps or 0 for stage in stages) == 201
        assert all(stage.eval_every == (stage.steps or 0) // 10 for stage in stages)
        assert {stage.patience for stage in stages} == {None}
        assert not any(stage.as_released.whole_epochs for stage in stages)
        assert {stage.as_released.early_stopping for stage in stages} == {"best"}
    assert max(len(recipe.stages) for recipe in trained) == 2
    data = {(recipe.data, recipe.dev) for recipe in trained}
    assert data == {(("senteval-stsb:train",), "senteval-stsb:dev")}


@pytest.mark.parametrize(
    ("updates", "options", "message"),
    [
        (9, {}, "updates 9: 10 or more"),
        (200, {"steps": 5}, "updates and option steps are both given"),
    ],
)
def test_updates_that_are_refused(updates: int, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        changed_study(read_study("own/protocol"), (), options, updates=updates)


@pytest.mark.parametrize("text", ["=simcse-unsup", "mine=", "=", "", "simcse-unsup", "mine.txt"])
def test_an_arm_that_is_neither_a_file_nor_a_name_with_a_recipe_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=f"arm '{text}': give a TOML file .* or NAME=RECIPE"):
        read_study("own/protocol", [text])
