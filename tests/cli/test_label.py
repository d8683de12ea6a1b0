"""`isotune label`: what it asks, and what it says at the end. tests/labelling has the rest."""

import builtins
import hashlib
import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
import torch

from isotune.data import read_scored_pairs
from isotune.encoder.encoder import Encoder
from isotune.evaluation.labelling import session
from isotune.training.run_folder import CHECKSUM
from tests.cli.conftest import Call, Outcome, Refused


def answer(monkeypatch: pytest.MonkeyPatch, *answers: str) -> None:
    """Answers the questions of the next session, and then ends it."""
    given = iter([*answers, "q"])
    monkeypatch.setattr(builtins, "input", lambda prompt: next(given))


def test_a_session(
    isotune: Call, tiny_model: Path, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [f"{text}\0 \t{text}" for text in sentences[:20]]
    Path("my notes.jsonl").write_text("".join(json.dumps({"body": text}) + "\n" for text in texts))
    words = [
        "label",
        "my notes.jsonl",
        "--columns",
        "sentence=body",
        "--encoders",
        tiny_model,
        "--pairs",
        3,
    ]
    answer(monkeypatch)
    code, out, _ = isotune(*words)
    assert (code, out.splitlines()[-1]) == (0, "no pair is scored")
    assert not Path("pairs.tsv").exists()
    answer(monkeypatch, "3", "s", "0")
    assert isotune(*words, "--out", "new/pairs.tsv").out.endswith(
        "\nnew/pairs.tsv: 2 scored pairs. 20 or more are needed to choose by them; "
        "the same command goes on\n"
    )
    pairs = read_scored_pairs("new/pairs.tsv")
    assert pairs.scores.tolist() == [3, 0]
    assert {*pairs.sentence1, *pairs.sentence2} <= {f"{text} {text}" for text in sentences[:20]}
    answer(monkeypatch, "1")
    isotune(*words, "--out", "new/pairs.tsv")
    answer(monkeypatch)
    assert isotune(*words, "--out", "new/pairs.tsv").out.startswith(
        "3 pairs scored, none left; --pairs chooses more\n"
    )


def test_the_end_gives_commands_that_use_the_scores(
    isotune: Call, tiny_model: Path, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [json.dumps({"body": text}) for text in sentences]
    Path("my notes.jsonl").write_text("\n".join(lines))
    words = ["label", "my notes.jsonl", "--columns", "sentence=body", "--pairs", "21"]
    answer(monkeypatch, *"4" * 20)
    out = isotune(*words, "--encoders", tiny_model).out
    assert out.endswith(
        "pairs.tsv: 20 scored pairs, all with one score. Nothing can be chosen by them; "
        "score others too\n"
    )
    answer(monkeypatch, "1")
    choose, learn = isotune(*words, "--encoders", tiny_model).out.splitlines()[-2:]
    assert choose == (
        "pairs.tsv: 21 scored pairs. Choose by them: isotune train 'my notes.jsonl' "
        f"--columns sentence=body --model {tiny_model} --dev pairs.tsv"
    )
    assert learn == (
        "Learn which cosines mean the same: isotune evaluate ENCODER --tasks pairs.tsv --calibrate"
    )


@pytest.mark.parametrize("scores", ["50", "5" * 19 + "0"])
def test_the_commands_that_the_end_gives_take_the_pairs(
    isotune: Call,
    tiny_model: Path,
    sentences: list[str],
    monkeypatch: pytest.MonkeyPatch,
    scores: str,
) -> None:
    Path("notes.txt").write_text("\n".join(sentences))
    answer(monkeypatch, *scores)
    out = isotune("label", "notes.txt", "--encoders", tiny_model, "--pairs", len(scores)).out
    commands = re.findall(r"isotune (train .*)$", out, re.MULTILINE)
    assert len(commands) == (len(scores) >= 20)
    for command in commands:
        few = ["--steps=2", "--batch-size=8", "--method=simcse", "--tasks=pairs.tsv"]
        assert isotune(*shlex.split(command), *few, "--out", "run").code == 0


def test_the_end_compares_the_encoders_with_an_interval(
    isotune: Call, tiny_model: Path, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("notes.txt").write_text("\n".join(sentences))
    Encoder.load(tiny_model).save("kept")
    monkeypatch.setattr(session, "FEWEST", 3)
    answer(monkeypatch, *"531024")
    out = isotune("label", "notes.txt", "--encoders", tiny_model, "kept", "--pairs", 6).out
    assert (
        "These 6 scores can't tell which encoder is better: they show differences of more than "
        "0 points" in out
    )
    assert out.endswith("isotune evaluate kept --tasks pairs.tsv --calibrate\n")


def test_before_the_first_pair_the_session_says_what_scores_can_show(
    isotune: Call, tiny_model: Path, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("notes.txt").write_text("\n".join(sentences))
    Encoder.load(tiny_model, layers=(-2,)).save("run/encoder")
    Path("run/recipe.toml").write_text('gained = "as much as elsewhere"\n')
    answer(monkeypatch)
    words = ["label", "notes.txt", "--encoders", tiny_model, "run/encoder", "--pairs", 30]
    first, second, *_ = isotune(*words).out.splitlines()
    assert first.startswith("scored pairs that tell these encoders apart (Spearman x 100): about ")
    assert second == "what runs of the recipe of run/encoder gained: as much as elsewhere"


def test_a_damaged_recipe_ends_no_session(
    isotune: Call, tiny_model: Path, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("notes.txt").write_text("\n".join(sentences))
    Encoder.load(tiny_model).save("run/encoder")
    Path("run/recipe.toml").write_text("gained = ")
    answer(monkeypatch)
    assert isotune("label", "notes.txt", "--encoders", "run/encoder").code == 0


def test_encoders_are_not_compared_by_one_score(
    isotune: Call, tiny_model: Path, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("notes.txt").write_text("\n".join(sentences))
    answer(monkeypatch, *"4" * 20)
    words = ["label", "notes.txt", "--encoders", tiny_model, "bert-tiny", "--pairs", 20]
    code, out, _ = isotune(*words)
    assert code == 0
    assert out.endswith("all with one score. Nothing can be chosen by them; score others too\n")


def test_what_is_refused(refused: Refused, tiny_model: Path) -> None:
    Path("one.txt").write_text("a dog\n")
    words = ["label", "one.txt", "--encoders", tiny_model]
    assert "at least two different sentences" in refused(*words)
    assert "--out pairs.csv: scored pairs are written as .tsv" in refused(
        *words, "--out", "pairs.csv"
    )
    assert 'Invalid value "0" for --pairs. A number from 1' in refused(*words, "--pairs", 0)


def test_a_run_folder_stands_for_its_text_and_its_encoders(
    isotune: Call,
    outcome: Outcome,
    tiny_model: Path,
    text: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The pairs are those of the long command, and the scores then choose in such a run."""
    assert outcome.code == 0
    if Encoder.load("run/encoder").fingerprint() == Encoder.load(tiny_model).fingerprint():
        change(Path("run/encoder"))
    answer(monkeypatch, *"5310" * 6)
    out = isotune("label", "run", "--pairs", 24, "--out", "short.tsv").out
    encoders = [tiny_model, "run/encoder"]
    answer(monkeypatch, *"5310" * 6)
    isotune("label", text, "--encoders", *encoders, "--pairs", 24, "--out", "long.tsv")
    assert Path("short.tsv").read_text() == Path("long.tsv").read_text()
    (command,) = re.findall(r"isotune (train .*)$", out, re.MULTILINE)
    assert command == "train --recipe run/recipe.toml --dev short.tsv"
    assert isotune(*shlex.split(command), "--steps=2", "--out", "again").code == 0


def change(folder: Path) -> None:
    """Gives an encoder's folder other vectors."""
    encoder = Encoder.load(folder)
    with torch.no_grad():
        for weights in encoder.parameters():
            weights.mul_(1.01)
    shutil.rmtree(folder)
    encoder.save(folder)


def change_environment(changes: dict[str, str], without: str = "") -> None:
    """Changes what the run folder says of itself."""
    path = Path("run/environment.json")
    table = {**json.loads(path.read_text()), **changes}
    table.pop(without, None)
    path.write_text(json.dumps(table))


def change_stages(stage: str) -> None:
    """Makes this the only stage of the run."""
    recipe = Path("run/recipe.toml")
    kept, _ = recipe.read_text().split("[[stages]]")
    recipe.write_text(f"{kept}[[stages]]\n{stage}")
    change_environment({CHECKSUM: hashlib.sha256(recipe.read_bytes()).hexdigest()})


@pytest.mark.parametrize(
    "stage",
    [
        'method = "pca"\n',
        'method = "linear-map"\nteachers = ["bert-tiny"]\n',
        'method = "distil"\nmatch = "vectors"\nteachers = ["bert-tiny"]\n',
    ],
)
def test_scores_that_would_choose_no_step_are_for_evaluate(
    isotune: Call, outcome: Outcome, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    assert outcome.code == 0
    change(Path("run/encoder"))
    change_stages(stage)
    answer(monkeypatch, *"5310" * 6)
    out = isotune("label", "run", "--pairs", 24).out
    assert "isotune train" not in out
    (command,) = re.findall(r"Judge encoders by them: isotune (.*)$", out, re.MULTILINE)
    assert command.startswith("evaluate ")
    assert isotune(*shlex.split(command)).code == 0


def test_a_run_that_can_not_be_labelled_is_refused(
    refused: Refused, outcome: Outcome, tiny_model: Path
) -> None:
    assert outcome.code == 0
    shutil.rmtree("run/encoder")
    assert "run: this run has no encoder yet" in refused("label", "run")
    shutil.copytree(tiny_model, "run/encoder")
    assert "run: this run has kept its start" in refused("label", "run")


def test_equal_encoders_of_a_run_are_asked_about_once(
    isotune: Call, outcome: Outcome, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert outcome.code == 0
    folder = Path("run/encoder")
    shutil.rmtree(folder)
    shutil.copytree(tiny_model, folder)
    change_stages('method = "distil"\nteachers = ["bert-tiny"]\n')
    answer(monkeypatch)
    code, out, err = isotune("label", "run", "--pairs", 3)
    assert code == 0
    assert "run: this run has kept its start, so the copy of it is left out" in err.splitlines()
    assert "kept its start" not in out
    answer(monkeypatch, "3")
    words = ["--encoders", tiny_model, "bert-tiny", "--pairs", 3, "--out"]
    isotune("label", "run", *words, "named.tsv")
    answer(monkeypatch, "3")
    isotune("label", "run", "--pairs", 3, "--out", "of-run.tsv")
    assert Path("named.tsv").read_text() == Path("of-run.tsv").read_text()


def test_encoders_that_are_named_beside_a_run_are_taken_as_they_are(
    isotune: Call, outcome: Outcome, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert outcome.code == 0
    answer(monkeypatch)
    code, _, err = isotune("label", "run", "--encoders", tiny_model, "--pairs", 3)
    assert code == 0
    assert "kept its start" not in err


def test_a_line_says_that_a_run_has_not_ended(
    isotune: Call, outcome: Outcome, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert outcome.code == 0
    change_environment({}, without="finished")
    change(Path("run/encoder"))
    answer(monkeypatch)
    code, out, err = isotune("label", "run", "--pairs", 3)
    assert code == 0
    said, *_ = err.splitlines()
    assert said == (
        "run: this run has not ended, so its encoder may change: isotune train --out run --resume"
    )
    assert "has not ended" not in out
