"""`isotune evaluate`: the tables, the JSON file, and errors."""

import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from isotune.encoder.encoder import Encoder
from isotune.evaluation import Comparison, evaluate
from tests.cli.conftest import Call, Refused


@pytest.fixture
def another(tiny_model: Path) -> Path:
    """A model with other weights, whose name is short."""
    folder = Path(shutil.copytree(tiny_model, "another"))
    tensors = {key: value.flip(0) for key, value in load_file(folder / "model.safetensors").items()}
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    return folder


def as_json(isotune: Call, *words: object) -> Comparison:
    """What `--json` prints in place of the tables."""
    code, out, err = isotune(*words, "--json")
    assert (code, err) == (0, "")
    return Comparison.model_validate_json(out)


def test_encoders_side_by_side(isotune: Call, tiny_model: Path, another: Path, pairs: Path) -> None:
    shutil.copytree(tiny_model, "tiny")
    words = ["evaluate", "tiny", another, "--tasks", pairs]
    code, out, err = isotune(*words)
    assert (code, err) == (0, "")
    comparison = as_json(isotune, *words)
    assert [result.encoder for result in comparison.evaluations] == ["tiny", "another"]
    scores, differences = out.split("Difference from tiny")
    for result in comparison.evaluations:
        (line,) = (line for line in scores.splitlines() if result.encoder in line)
        assert f"{100 * result.tasks[0].spearman.all:.2f}" in line
    (difference,) = comparison.differences
    assert (difference.encoder, difference.against) == ("another", "tiny")
    assert f"{100 * difference.difference:+.2f}" in differences
    assert difference.words in " ".join(differences.split())


def test_a_table_for_a_paper_has_the_same_bytes_each_time(
    isotune: Call, refused: Refused, tiny_model: Path, another: Path, pairs: Path
) -> None:
    shutil.copytree(tiny_model, "tiny")
    words = ["evaluate", "tiny", another, "--tasks", pairs, "stsb-open"]
    code, out, err = isotune(*words, "--format", "markdown")
    assert (code, err) == (0, "")
    assert isotune(*words, "--format", "markdown").out == out
    comparison = as_json(isotune, *words)
    rows = [line.split(" | ") for line in out.splitlines() if line.startswith("| ")][2:]
    names = [name for _, name, *_ in rows]
    assert names[:2] == ["tiny", "another"]
    for result, row in zip(comparison.evaluations, rows, strict=False):
        for task, cell in zip(result.tasks, row[2:], strict=True):
            assert f"{100 * task.spearman.all:.2f}" in cell
    for difference in comparison.differences:
        column = 2 + [str(pairs), "stsb-open"].index(difference.score)
        better = names.index(difference.encoder)
        if difference.difference < 0:
            better = names.index(difference.against)
        mark = f"<sup>{rows[1 - better][0].removeprefix('| ')}</sup>"
        assert (mark in rows[better][column]) is not difference.tied
    assert refused(*words, "--format", "csv", "--json") == (
        "error: --format prints the table alone; leave --calibrate and --json out"
    )


def test_controls_stand_below_the_encoders(isotune: Call, tiny_model: Path, pairs: Path) -> None:
    shutil.copytree(tiny_model, "runs/demo/encoder")
    words = ["evaluate", "runs/demo/encoder", "--tasks", pairs]
    (evaluation,) = as_json(isotune, *words).evaluations
    (control,) = evaluation.controls
    (difference,) = control.differences
    out = isotune(*words).out
    assert f"{100 * control.scores()[str(pairs)]:.2f}" in out
    assert f"{100 * difference.difference:+.2f}" in out.split("Difference from the controls")[1]
    unbeaten = f"demo is not better than common words by more than chance on {pairs}"
    assert (unbeaten in out) == (difference.low <= 0)
    without = isotune(*words, "--no-controls").out
    assert "common words" not in without
    (bare,) = as_json(isotune, *words, "--no-controls").evaluations
    assert (bare.tasks, bare.controls) == (evaluation.tasks, ())


def test_tables_name_an_encoder_by_its_run(isotune: Call, tiny_model: Path, pairs: Path) -> None:
    shutil.copytree(tiny_model, "runs/demo/encoder")
    words = ["evaluate", "runs/demo/encoder", "--tasks", pairs]
    out = isotune(*words).out
    assert "│ demo " in out
    assert "runs" not in out
    (result,) = as_json(isotune, *words).evaluations
    assert result.encoder == "runs/demo/encoder"


def test_the_scores_of_another_precision(isotune: Call, tiny_model: Path, pairs: Path) -> None:
    shutil.copytree(tiny_model, "tiny")
    words = ["evaluate", "tiny", "--tasks", pairs, "--precision=bfloat16"]
    assert "tiny, bfloat16" in isotune(*words).out
    (result,) = as_json(isotune, *words).evaluations
    expected = evaluate(
        Encoder.load("tiny", precision="bfloat16"), [str(pairs)], name="tiny, bfloat16"
    )
    assert result.tasks == expected.tasks != evaluate(Encoder.load("tiny"), [str(pairs)]).tasks


def test_pairs_of_one_text_are_said_to_be(refused: Refused, tiny_model: Path) -> None:
    Path("same.tsv").write_text("sentence1\tsentence2\tscore\na dog\ta dog\t1\na cat\ta cat\t2\n")
    assert "both sentences of each pair are the same text" in refused(
        "evaluate", tiny_model, "--tasks", "same.tsv"
    )


def test_errors_are_reported_before_any_encoding(
    refused: Refused, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isotune.encoder.encoder.Encoder.encode", None)
    Path("flat.tsv").write_text("sentence1\tsentence2\tscore\na\tb\t1\nc\td\t1\n")
    for words, message in [
        (
            ["--tasks", "sickrr"],
            "unknown task or file 'sickrr': did you mean 'sickr'? docs/evaluation.md",
        ),
        (["--tasks", "stsb"], "set ISOTUNE_DATA to a folder with stsb/stsb.tsv.gz"),
        (["--tasks", "flat.tsv"], "flat.tsv: the scores have no variance"),
    ]:
        assert message in refused("evaluate", tiny_model, *words, "--aggregation=all")


def test_an_encoder_with_fewer_features(
    isotune: Call, refused: Refused, tiny_model: Path, pairs: Path
) -> None:
    shutil.copytree(tiny_model, "tiny")
    words = ["evaluate", "tiny", "--tasks", pairs, "--dimensions", 32, 4]
    whole, cut = as_json(isotune, *words).evaluations
    assert (whole.encoder, cut.encoder) == ("tiny, 32 features", "tiny, 4 features")
    assert whole.scores() == evaluate(tiny_model, str(pairs)).scores()
    assert cut.scores() == evaluate(Encoder.load("tiny", dimensions=4), str(pairs)).scores()
    assert "tiny, 4 features" in isotune(*words).out
    Encoder.load("tiny").save("saved")
    line = refused("evaluate", "saved", *words[2:], "--calibrate")
    assert "--calibrate: leave --dimensions out" in line


def test_the_cost_of_encoders(
    isotune: Call, refused: Refused, tiny_model: Path, pairs: Path
) -> None:
    shutil.copytree(tiny_model, "tiny")
    words = ["evaluate", "tiny", "--tasks", pairs, "--dimensions", 32, 4, "--cost"]
    out = isotune(*words, "--figure", "cost.png").out
    assert "Cost of an encoder on this machine" in out
    assert Path("cost.png").read_bytes().startswith(b"\x89PNG")
    costs = as_json(isotune, *words).costs
    weights = sum(weight.numel() for weight in Encoder.load("tiny").parameters())
    assert [cost.vector_bytes for cost in costs.values()] == [128, 16]
    assert {cost.weight_bytes for cost in costs.values()} == {4 * weights}
    assert all(cost.sentences_per_second > 0 for cost in costs.values())
    assert "--figure is for --cost" in refused(*words[:-1], "--figure", "2.png")
    assert "give the name of a new file" in refused(*words, "--figure", "cost.png")


def test_the_cost_of_an_encoder_that_is_also_joined_with_words(
    isotune: Call, tiny_model: Path, pairs: Path
) -> None:
    words = ["evaluate", tiny_model, "--tasks", f"retrieval:{pairs},sentence1,sentence2"]
    code, out, _ = isotune(*words, "--hybrid", "--cost", "--figure", "cost.png")
    assert code == 0
    table = out.partition("Cost of an encoder")[2]
    assert "tiny" in table
    assert Path("cost.png").exists()


def test_words_without_rankings_are_refused_before_anything_is_encoded(
    refused: Refused, pairs: Path
) -> None:
    line = refused("evaluate", "no-such-encoder", "--tasks", pairs, "--hybrid")
    assert "no task has rankings" in line


def test_a_figure_that_cannot_be_drawn_loses_no_result(isotune: Call, tiny_model: Path) -> None:
    words = ["evaluate", tiny_model, "--tasks", "geometry", "--cost", "--figure", "cost.png"]
    code, out, err = isotune(*words)
    assert code == 2
    assert "Cost of an encoder on this machine" in out
    assert err.splitlines()[-1].startswith("error: --figure: none of these tasks has a score")
