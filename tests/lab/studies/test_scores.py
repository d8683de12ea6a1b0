"""The names that a study chooses: a wrong one is told before a run is made, and leaves nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from isotune.errors import InputError
from isotune.evaluation import FunctionTask, load_tasks
from isotune.lab.studies import Study
from isotune.lab.studies.plan import plan_runs
from isotune.lab.studies.run_study import run_study
from isotune.lab.studies.scores import check_scores

UNTRAINED = {"name": "as it is"}
SIMCSE = {"name": "SimCSE", "method": "simcse", "data": ["stsb-open:train"]}
MULTITASK = {"name": "three tasks", "method": "multitask"}
FINETUNED = {
    "name": "fine-tuned",
    "method": "finetune-sentence",
    "data": ["stsb-open:train"],
    "options": {"metrics": ["accuracy", "f1"], "dev_data": ["rows.tsv"]},
}


def check(scores: list[str], **table: Any) -> None:
    """Checks the scores of a study of all kinds of arms on the bundled pairs."""
    whole = {"title": "t", "tasks": ["stsb-open"], "arms": [UNTRAINED, SIMCSE], **table}
    study = Study.from_table({**whole, "scores": scores})
    check_scores(study, plan_runs(study), load_tasks(study.tasks) if study.tasks else [])


@pytest.mark.parametrize(
    "score",
    [
        "stsb-open",
        "dev",
        "test",
        "kept_step",
        "seconds",
        "start:stsb-open",
        "start:steps",
        "cosine:0",
        "start:cosine:3",
    ],
)
def test_scores_that_a_run_has(score: str) -> None:
    check([score])


@pytest.mark.parametrize("measure", ["alignment", "uniformity", "mean_cosine", "effective_rank"])
def test_scores_of_geometry(measure: str) -> None:
    check([f"geometry:stsb-open:dev-{measure}"], tasks=["geometry:stsb-open:dev"])


def test_scores_of_a_retrieval_and_of_a_classification(tmp_path: Path) -> None:
    questions = tmp_path / "questions.tsv"
    questions.write_text("sentence1\tsentence2\n" + "".join(f"q {i}\ta {i}\n" for i in range(4)))
    reviews = tmp_path / "reviews.tsv"
    reviews.write_text("sentence\tlabel\n" + "".join(f"r {i}\t{i % 2}\n" for i in range(40)))
    found = f"retrieval:{questions}"
    labelled = f"classification:{reviews}"
    scores = [found, f"{found}-mrr@10", f"{found}-recall@100", labelled, f"{labelled}-macro-f1"]
    check(scores, tasks=[found, labelled])
    for score in (f"{found}-map", f"{found}-ndcg@10", f"{labelled}-f1", "cosine:0"):
        with pytest.raises(InputError, match=f"^unknown score '{score}'"):
            check([score], tasks=[found, labelled])


def test_scores_of_labelled_rows() -> None:
    names = ("sentiment", "paraphrase", "similarity")
    scores = [f"{kind}:{name}" for kind in ("dev", "test") for name in names]
    check([*scores, "predicted:similarity:7"], arms=[MULTITASK])
    check(["dev:f1", "test:accuracy", "predicted::7"], arms=[FINETUNED])
    with pytest.raises(InputError, match=r"^unknown score 'dev:sentimnt': did you mean"):
        check(["dev:sentimnt"], arms=[MULTITASK])
    with pytest.raises(InputError, match=r"^unknown score 'predicted:similarity:x'"):
        check(["predicted:similarity:x"], arms=[MULTITASK])
    with pytest.raises(InputError, match=r"^unknown score 'dev:sentiment'"):
        check(["dev:sentiment"])


def test_only_a_plugin_knows_the_scores_of_its_method(monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = type("Plugin", (), {"__module__": "my_plugin"})
    monkeypatch.setattr("isotune.lab.studies.scores.METHODS", {"simcse": plugin})
    check(["dev:anything", "test:anything", "predicted:anything:3"])


def test_only_a_plugin_knows_the_scores_of_its_task() -> None:
    mine = FunctionTask("mine", lambda encoder: {"low": 0.1})
    study = Study.from_table({"title": "t", "scores": ["mine", "mine-low"], "arms": [UNTRAINED]})
    check_scores(study, plan_runs(study), [mine])
    wrong = study.model_copy(update={"scores": ("mien",)})
    with pytest.raises(InputError, match="unknown score 'mien': did you mean 'mine'"):
        check_scores(wrong, plan_runs(wrong), [mine])


def test_averages_and_groups_are_scores() -> None:
    check(["both"], averages={"both": ["stsb-open", "dev"]})
    check(["all"], averages={"both": ["stsb-open", "dev"], "all": ["both", "steps"]})
    with pytest.raises(InputError, match="unknown score in the average both 'stsb-opne': did you"):
        check(["both"], averages={"both": ["stsb-opne", "dev"]})
    with pytest.raises(InputError, match="unknown score 'sts'"):
        check(["sts"])


def test_pairs_bound_the_cosines() -> None:
    two = [["a", "b"], ["a", "c"]]
    check(["cosine:1"], pairs=two)
    with pytest.raises(InputError, match=r"unknown score 'cosine:2'.* cosine:NUMBER from 0 to 1"):
        check(["cosine:2"], pairs=two)
    with pytest.raises(InputError, match="unknown score 'cosine:99999'"):
        check(["cosine:99999"])


def test_a_study_of_data_alone_has_sizes() -> None:
    check(["train", "texts"], arms=[], tasks=[], statistics=["stsb-open"])
    with pytest.raises(InputError, match="unknown score 'texst': did you mean 'test' or 'texts'"):
        check(["texst"], arms=[], tasks=[], statistics=["stsb-open"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": ["stsb-opne"]}, "^unknown score 'stsb-opne': did you mean 'stsb-open'"),
        ({"scores": ["start:stsb"]}, "^unknown score 'stsb': did you mean"),
        ({"tasks": ["stbs"]}, "stbs"),
        ({"averages": {"mean": ["stbs"]}}, "in the average mean 'stbs'"),
        ({"analyses": ["cosines"], "analysed": ["stbs"]}, "stbs"),
        ({"analyses": ["cosines"], "analysed": ["none.tsv"]}, "none.tsv"),
        ({"analyses": ["cosines"], "analysed": ["sts"]}, "cosines looks at one task at a time"),
        ({"grid": {"temprature": [1]}}, "unknown option 'temprature'"),
        ({"options": {"temprature": 1}}, "unknown option 'temprature'"),
        ({"figures": [{"kind": "bars", "y": "stsb"}]}, "score of figure 1"),
        ({"best": "stsb"}, "score of the best cell"),
    ],
)
def test_a_wrong_name_leaves_nothing_behind(
    change: dict[str, Any],
    message: str,
    made: list[str],
    write: Callable[[dict[str, Any]], Path],
    tmp_path: Path,
) -> None:
    table = {"title": "t", "scores": ["stsb-open"], "tasks": ["stsb-open"]}
    path = write({**table, "arms": [UNTRAINED, SIMCSE], **change})
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match=message):
        run_study(path, tmp_path / "studies" / "t", quiet=True)
    assert made == []
    assert sorted(tmp_path.rglob("*")) == before


def test_given_options_are_no_keys_of_the_study(write: Any, tmp_path: Path) -> None:
    table = {"title": "t", "scores": ["stsb-open"], "tasks": ["stsb-open"]}
    path = write({**table, "arms": [SIMCSE]})
    with pytest.raises(InputError, match="seed isn't given as an option: a study and its arms"):
        run_study(path, tmp_path / "t", options={"seed": 3}, quiet=True)
