"""What a study needs, and how long it takes by estimate."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from isotune.data import DATASETS
from isotune.encoder.options import EncoderOptions
from isotune.evaluation.tasks import TASKS
from isotune.lab.studies import Study
from isotune.lab.studies.estimate import CPU, GPU, Machine, _weights, data_of, is_here, model_folder, models_of, seconds
from isotune.lab.studies.plan import PlannedRun, plan_runs
from isotune.methods import METHODS
from isotune.recipes import Recipe, read_recipe


def study(**arm: object) -> Study:
    table = {"title": "t", "model": "mini", "scores": ["dev"], "arms": [{"name": "a", "method": "consert", **arm}]}
    return Study.from_table(table)


def run(**options: object) -> PlannedRun:
    (planned,) = plan_runs(study(data=["stsb"], options={"steps": 10, "eval_every": 10, "dev": "none", **options}))
    return planned


def test_the_estimate_is_texts_times_weights() -> None:
    # The bundled model: 4 blocks of 12 x 256^2 weights. 10 steps of 64 rows, two texts of 20 tokens, three passes each.
    weights = 4 * 12 * 256**2
    assert seconds(run(), (), Machine(1.0, 0.0)) == pytest.approx(2 * weights * 20 * 10 * 64 * 2 * 3)
    assert seconds(run(), (), Machine(1e30, 0.5)) == pytest.approx(5)
    # Ten such evaluations on 3,000 texts of dev pairs, and one on two tasks of 6,000.
    more = seconds(run(eval_every=1, dev="stsb:dev"), ("stsb", "sickr"), Machine(1.0, 0.0))
    assert more == pytest.approx(2 * weights * 20 * (10 * 64 * 2 * 3 + 10 * 3000 + 12000))


def test_the_estimate_of_a_group_is_that_of_its_tasks() -> None:
    per_task = seconds(run(), ("stsb",), Machine(1.0, 0.0)) - seconds(run(), (), Machine(1.0, 0.0))
    all_seven = seconds(run(), ("sts", "stsb"), Machine(1.0, 0.0)) - seconds(run(), (), Machine(1.0, 0.0))
    assert all_seven == pytest.approx(7 * per_task)


def test_steps_follow_from_the_data() -> None:
    (planned,) = plan_runs(study(data=["stsb"], options={"epochs": 2, "batch_size": 16, "dev": "none"}))
    # 17,256 sentences of 8,628 pairs: 1,078 steps an epoch.
    assert seconds(planned, (), Machine(1e30, 1.0)) == pytest.approx(2 * 1078)


def test_estimates_in_docstrings_are_right() -> None:
    (consert,) = plan_runs(
        study(data=["sts-unlabelled"], options={"steps": 300, "eval_every": 25, "dev": "stsb:dev", "batch_size": 64})
    )
    assert round(seconds(consert, ("sts",), CPU)) == 137
    table = {
        **study().model_dump(),
        "model": "google-bert/bert-base-uncased",
        "arms": [{"name": "a", "recipe": "sg-opt"}],
    }
    (sg_opt,) = plan_runs(Study.from_table(table))
    assert round(seconds(sg_opt, (), GPU)) == 153


def test_every_method_has_a_cost() -> None:
    costs = {name: entry.options.encodings_per_row for name, entry in METHODS.items()}
    assert min(costs.values()) > 0
    assert costs["simcse"] == 6  # two texts, each with a forward and a backward pass
    assert costs["self-guided-bt"] == costs["self-guided"] == 4  # one of the two texts is only encoded
    assert all(entry.options.rows_per_pair > 0 for entry in METHODS.values())


def test_every_task_has_a_dataset() -> None:
    """Or the list would call data missing that are there."""
    as_it_is = PlannedRun("a", {}, None, "mini", EncoderOptions())
    assert {name.partition(":")[0] for name in data_of(as_it_is, TASKS)} <= DATASETS.keys()


def test_the_data_that_a_run_reads() -> None:
    (planned,) = plan_runs(study(data=["simcse-wiki"], options={"dev": "stsb:dev"}))
    assert list(data_of(planned, ["stsb"])) == ["stsb", "simcse-wiki", "stsb:dev"]
    (planned,) = plan_runs(study(method="multitask"))
    assert set(data_of(planned, [])) == {
        *("sst5:train", "quora-rest:train", "minbert-sts:train"),
        *("sst5:dev", "minbert-quora:dev", "minbert-sts:dev"),
    }


def test_translation_models_are_among_the_models_of_a_run() -> None:
    (planned,) = plan_runs(study(method="", recipe="back-translation"))
    assert list(models_of(planned)) == [
        "mini",
        *Recipe.from_table(read_recipe("back-translation")).stages[0].options.translate,
    ]  # type: ignore[attr-defined]


def test_is_here_finds_bundled_data_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ISOTUNE_DATA", raising=False)
    (tmp_path / "a.txt").write_text("a\n")
    assert is_here("stsb-open:dev")
    assert is_here(str(tmp_path / "*.txt"))
    assert not is_here("stsb")
    assert not is_here(str(tmp_path / "b.txt"))


def test_model_folder_looks_on_disk_and_in_the_hubs_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    snapshot = tmp_path / "models--some--model" / "snapshots" / "0"
    snapshot.mkdir(parents=True)
    (snapshot / "model.safetensors").touch()
    (refs := tmp_path / "models--some--model" / "refs").mkdir()
    (refs / "main").write_text("0")
    assert model_folder("some/model") == snapshot
    assert model_folder("some/other") is None
    assert model_folder("not a name!") is None
    assert model_folder(str(tmp_path)) == tmp_path
    assert (model_folder("mini") or Path()).name == "mini"


def test_the_size_of_a_model_on_disk_is_in_its_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps({"num_hidden_layers": 2, "hidden_size": 8, "intermediate_size": 16})
    )
    (small,) = plan_runs(study(data=["stsb"], options={"steps": 1, "dev": "none"}), str(tmp_path))
    assert seconds(small, (), Machine(1.0, 0.0)) == pytest.approx(2 * (2 * (4 * 64 + 2 * 8 * 16)) * 20 * 64 * 2 * 3)


def test_the_sizes_of_the_papers_models_are_known_without_their_files() -> None:
    from isotune.lab.studies import read_study, study_names

    named = {model for name in study_names() for run in plan_runs(read_study(name)) for model in [run.model]}
    base, large = 12 * 12 * 768**2, 24 * 12 * 1024**2
    assert {model: _weights(model) for model in named - {"mini"}} == {
        "google-bert/bert-base-uncased": base,
        "google-bert/bert-large-uncased": large,
        "google-bert/bert-base-multilingual-cased": base,
        "google/bert_uncased_L-4_H-256_A-4": 4 * 12 * 256**2,
        "google/bert_uncased_L-4_H-512_A-8": 4 * 12 * 512**2,
        "FacebookAI/roberta-base": base,
        "FacebookAI/roberta-large": large,
        "sentence-transformers/bert-base-nli-mean-tokens": base,
        "sentence-transformers/bert-large-nli-mean-tokens": large,
    }


def test_estimating_loads_neither_transformers_nor_scipy() -> None:
    code = "import sys, isotune.lab.studies.estimate as _; assert not {'transformers', 'scipy'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)
