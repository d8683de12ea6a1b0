import shutil
from pathlib import Path
from typing import Any

import pytest

from isotune.errors import InputError
from isotune.lab.studies import Study
from isotune.lab.studies import job as job_module
from isotune.lab.studies import run_key as run_key_module
from isotune.lab.studies.plan import PlannedRun, needs, plan_runs
from isotune.lab.studies.run_key import Keys


def runs(**table: Any) -> list[PlannedRun]:
    whole = {"title": "x", "scores": ["stsb-open"], "tasks": ["stsb-open"], **table}
    return plan_runs(Study.from_table(whole))


SIMCSE = {
    "name": "SimCSE",
    "method": "simcse",
    "data": ["stsb-open:train"],
    "options": {"projection": False},
}
CONSERT = {"name": "ConSERT", "method": "consert", "data": ["stsb-open:train"]}
MODEL = {"name": "as it is", "options": {"pooling": "cls"}}


def test_an_arm_is_run_at_each_cell_of_its_options() -> None:
    planned = runs(
        arms=[MODEL, {**SIMCSE, "grid": {"batch_size": [16, 32]}}, CONSERT],
        seeds=[0, 1],
        grid={"batch_size": [16, 32], "augmentations": [["none", "none"], ["shuffle", "none"]]},
    )
    assert [run.title for run in planned] == [
        "as it is",
        *(f"SimCSE, batch size {size}, seed {seed}" for size in (16, 32) for seed in (0, 1)),
        *(
            f"ConSERT, batch size {size}, augmentations {name} and none, seed {seed}"
            for size in (16, 32)
            for name in ("none", "shuffle")
            for seed in (0, 1)
        ),
    ]
    last = planned[-1].recipe
    assert last.stages[0].training.batch_size == 32
    assert last.stages[0].options.model_dump()["augmentations"] == ("shuffle", "none")
    assert last.seed == 1


def test_a_study_is_in_float32_unless_it_names_another_precision() -> None:
    half = {**CONSERT, "options": {"precision": "bfloat16"}}
    recipes = [run.recipe for run in runs(arms=[SIMCSE, half])]
    assert [recipe.stages[0].training.precision for recipe in recipes if recipe] == [
        "float32",
        "bfloat16",
    ]


def test_study_options_apply_to_arms_that_have_them_and_arm_options_win() -> None:
    changed = {**CONSERT, "options": {"steps": 7}}
    planned = runs(
        arms=[MODEL, SIMCSE, changed], options={"steps": 5, "pooling": "max", "temperature": 0.5}
    )
    assert [run.encoder.pooling for run in planned] == ["cls", "max", "max"]
    stages = [run.recipe.stages[0] for run in planned if run.recipe]
    assert [stage.training.steps for stage in stages] == [5, 7]
    assert [stage.options.model_dump()["temperature"] for stage in stages] == [0.5, 0.5]


def test_an_arm_can_replace_the_grid_and_start_from_another_arm() -> None:
    first = {**SIMCSE, "grid": {}}
    second = {**CONSERT, "start": "SimCSE"}
    planned = runs(arms=[first, second], seeds=[3, 4], grid={"batch_size": [16, 32]})
    assert [run.title for run in planned[:2]] == ["SimCSE, seed 3", "SimCSE, seed 4"]
    assert [run.start for run in planned[2:]] == [planned[0], planned[1]] * 2
    with pytest.raises(
        InputError,
        match="ConSERT: it starts from SimCSE, which has no run at this place of the grid",
    ):
        runs(arms=[{**SIMCSE, "grid": {"batch_size": [16, 32]}}, {**second, "grid": {}}])


def test_classifiers_have_the_seed_of_the_run_and_untrained_arms_have_seeds_then() -> None:
    for classifier_seeds, expected in ((True, [3, 5, 3, 5]), (False, [None, 3, 5])):
        planned = runs(arms=[MODEL, SIMCSE], seeds=[3, 5], classifier_seeds=classifier_seeds)
        assert [run.seed for run in planned] == expected
        assert [run.classifier_seed for run in planned] == (
            expected if classifier_seeds else [None] * 3
        )
        scored = set()
        for run, run_key in Keys().runs(planned)[0].items():
            scored.add((run_key, *Keys().scores(["stsb-open"], (), run.classifier_seed).values()))
        assert len(scored) == len(planned)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"grid": {"bach_size": [1]}}, "unknown option 'bach_size': did you mean 'batch_size'"),
        ({"options": {"batch_size": 1}}, "batch_size: Input should be greater"),
        (
            {"arms": [{"name": "m", "options": {"pooling": "men"}}]},
            "arm m: pooling: unknown pooling",
        ),
        ({"arms": [{**MODEL, "grid": {"steps": [1]}}]}, "unknown option of arm as it is 'steps'"),
        ({"arms": [{"name": "no data", "method": "simcse"}]}, "no data: name at least one file"),
        (
            {"arms": [{"name": "a", "method": "simsce"}]},
            "unknown method 'simsce': did you mean 'simcse'?",
        ),
        ({"arms": [{**CONSERT, "recipe": "mlm"}]}, "mlm"),
    ],
)
def test_invalid_arms_and_options_are_refused_in_one_line(
    table: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        runs(**{"arms": [CONSERT], **table})


def key(run: PlannedRun) -> str:
    keys, _ = Keys().runs([run])
    return keys[run]


def test_the_key_depends_on_what_the_result_depends_on() -> None:
    (same,), (again,) = (
        runs(arms=[SIMCSE]),
        runs(title="another", arms=[{**SIMCSE, "name": "other"}]),
    )
    assert key(same) == key(again)
    different = [
        runs(arms=[SIMCSE], seeds=[1]),
        runs(arms=[SIMCSE], options={"temperature": 0.06}),
        runs(arms=[{**SIMCSE, "data": ["stsb-open:dev"]}]),
        runs(arms=[SIMCSE], options={"pooling": "cls"}),
        runs(arms=[MODEL]),
    ]
    assert len({key(same), *(key(run) for (run,) in different)}) == 6


def test_a_training_is_the_same_for_all_tasks_and_each_task_has_a_key() -> None:
    (one,), (other,) = runs(arms=[SIMCSE]), runs(arms=[SIMCSE], tasks=["stsb-open:dev"])
    assert key(one) == key(other)
    first, second = Keys().scores(["stsb-open"]), Keys().scores(["stsb-open", "stsb-open:dev"])
    assert list(second) == ["stsb-open", "stsb-open:dev"]
    assert second["stsb-open"] == first["stsb-open"] != second["stsb-open:dev"]
    assert Keys().scores(["stsb-open"], [("a", "b")])["pairs"]
    assert Keys().scores([]) == {}


def test_the_key_depends_on_the_sources_of_isotune(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (run_key_module.PACKAGE / "losses" / "__init__.py").exists()
    (run,) = runs(arms=[SIMCSE])

    def key_with(number: int, **sources: str) -> str:
        package = tmp_path / str(number)
        package.mkdir()
        for name, content in sources.items():
            (package / name.replace("_", ".")).write_text(content)
        monkeypatch.setattr(run_key_module, "PACKAGE", package)
        return key(run)

    first = key_with(0, loss_py="loss = 1", recipe_toml="steps = 1")
    assert first == key_with(
        1, loss_py="loss = 1", recipe_toml="steps = 1", page_css="p {}", loss_pyc="compiled"
    )
    others = [
        key_with(2, loss_py="loss = 2", recipe_toml="steps = 1"),
        key_with(3, loss_py="loss = 1", recipe_toml="steps = 2"),
        key_with(4, other_py="loss = 1", recipe_toml="steps = 1"),
    ]
    assert len({first, *others}) == 4


def test_the_key_counts_what_a_run_is_made_by() -> None:
    """A file that a key leaves out exists, and a run uses nothing else of its room."""
    for room, files in run_key_module.UNREAD.items():
        assert (run_key_module.PACKAGE / room).is_dir()
        assert all((run_key_module.PACKAGE / room / file).is_file() for file in files)
    modules = {getattr(value, "__module__", None) or "" for value in vars(job_module).values()}
    names = [name.split(".") for name in modules if name.startswith("isotune.")]
    files = ["/".join(parts) + ".py" for _, *parts in names]
    assert "report/stages.py" in files
    assert [file for file in files if not run_key_module._counts(file)] == []


def test_the_key_depends_on_the_content_of_files_and_models(
    tmp_path: Path, tiny_model: Path, text: Path
) -> None:
    copy = Path(shutil.copytree(tiny_model, tmp_path / "copy"))
    dev = tmp_path / "dev.tsv"
    dev.touch()

    def fresh(model: Path) -> str:
        files = {"sentiment_data": [str(text)], "sentiment_dev": [str(dev)]}
        (run,) = runs(
            arms=[{"name": "m", "method": "multitask", "options": files}], model=str(model)
        )
        return key(run)

    (copy / "README.md").write_text("about")
    seen = [fresh(tiny_model), fresh(copy)]
    assert seen[0] == seen[1]
    for changed in (copy / "config.json", text, dev):
        with changed.open("a") as file:
            file.write("\n")
        seen.append(fresh(copy))
    assert len(set(seen)) == 1 + 3


def test_the_key_of_scores_depends_on_the_content_of_the_task(tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.tsv"
    tasks.write_text("sentence1\tsentence2\tscore\n")
    before = Keys().scores([f"geometry:{tasks}"])
    assert before == Keys().scores([f"geometry:{tasks}"])
    tasks.write_text("another text")
    assert Keys().scores([f"geometry:{tasks}"]) != before


def test_the_key_depends_on_the_run_that_a_run_starts_from() -> None:
    def last(seed: int) -> str:
        return key(runs(arms=[SIMCSE, {**CONSERT, "start": "SimCSE"}], seeds=[seed])[-1])

    assert last(0) != last(1)
    assert last(0) != key(runs(arms=[CONSERT])[-1])


TUNED = {
    "name": "tuned",
    "method": "simcse",
    "data": ["none.txt"],
    "options": {"dev": "none", "steps": 1},
}


def test_the_data_and_models_of_a_study() -> None:
    table = {
        "title": "t",
        "model": "some/model",
        "scores": ["dev"],
        "arms": [MODEL, TUNED],
        "seeds": [0, 1, 2],
    }
    study = Study.from_table({**table, "tasks": ["stsb-open", "geometry:none.tsv"]})
    assert needs(study) == (["stsb-open:test", "none.tsv", "none.txt"], ["some/model"])
    assert needs(study, "other/model")[1] == ["other/model"]
