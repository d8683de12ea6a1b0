"""Runs from a text file to an encoder and a report: what is kept, how they stop, how they go on."""

import dataclasses
import hashlib
import io
import json
import math
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file

from isotune.bundled import BUNDLED_MODEL
from isotune.cli import main
from isotune.data import read_scored_pairs
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError, UselessVectors
from isotune.evaluation import cosine_similarities, score
from isotune.evaluation.run_results import TRAINED_ON
from isotune.methods.simcse import SimCSE
from isotune.recipes import Recipe
from isotune.training import TrainingFailed, checkpoints, clock, outcome, run, run_folder
from isotune.training.recorder import Recorder
from isotune.training.run_folder import is_finished
from isotune.training.selection import Score
from tests.conftest import unfinish
from tests.training.conftest import (
    Killed,
    Train,
    assert_same_end,
    killed,
    metrics,
    resume,
    same,
    stopped_at,
    weights,
)


@pytest.mark.parametrize(("method", "precision"), [("simcse", "bfloat16"), ("consert", "float32")])
def test_a_run_leaves_its_files_and_a_record_of_each_evaluation(
    train: Train, method: str, precision: str
) -> None:
    result = train(method=method, precision=precision, keep_checkpoints=None)
    assert {path.name for path in result.folder.iterdir()} == {
        "cosines.npz",
        "data.json",
        "encoder",
        "environment.json",
        "evaluation.json",
        "examples.json",
        "metrics.jsonl",
        "next.json",
        "recipe.toml",
        "report.html",
        "SHA256SUMS",
        "train.log",
        "text-changes.json",
    }
    assert result.stopped is None
    assert [record["step"] for record in metrics(result.folder, "dev")] == [0, 4, 8, 12]
    losses = [record["loss"] for record in metrics(result.folder, "train")]
    assert len(losses) == 2
    assert all(np.isfinite(losses))


def test_a_finished_run_is_little_larger_than_its_encoder_report_and_examples(train: Train) -> None:
    folder = train(keep_checkpoints=None).folder
    all_bytes = 0
    kept_bytes = 0
    for path in folder.rglob("*"):
        if not path.is_file():
            continue
        size = path.stat().st_size
        all_bytes += size
        if "encoder" in path.parts or path.name in ("report.html", "examples.json"):
            kept_bytes += size
    # The weights of the model have 116,000 bytes.
    assert all_bytes < 1.1 * kept_bytes + 10_000


def test_a_result_tells_in_five_lines_what_the_report_tells(train: Train) -> None:
    result = train()
    said = result.evaluation
    lines = str(result).splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "run",
        "verdict",
        "change",
        "encoder",
        "report",
    ]
    told = [said.verdict.word, said.verdict.why, *(said.changes if said.selected_step else ())]
    assert all(text in str(result) for text in told)
    assert "->" not in result._repr_html_()  # what HTML would take for a sign of its own
    assert result.encoder is result.encoder


MEGABYTES = r"[\d.,]+ MB"


def test_time_memory_and_disk_are_told_before_they_are_spent(train: Train) -> None:
    log = (train().folder / "train.log").read_text()
    disk = re.search(
        rf"disk: up to {MEGABYTES} during the run, {MEGABYTES} afterwards; {MEGABYTES} are free",
        log,
    )
    cost = re.search(
        rf"stage 1: about \d:\d\d:\d\d are left, .* s a step .*; memory so far: {MEGABYTES}\n", log
    )
    assert disk
    assert cost
    assert disk.start() < log.index("step 0 of 12") < cost.start() < log.index("step 4 of 12")


def test_a_run_that_the_disk_has_no_space_for_is_refused(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(".")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=20_000))
    message = rf"the run needs up to {MEGABYTES} here, and the disk has 0 MB; free some space"
    with pytest.raises(InputError, match=message):
        train()
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("dev", [{}, {"dev": "none"}])
def test_a_time_limit_ends_the_training_and_the_run_is_finished(
    train: Train, dev: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each stage with steps makes its first one."""
    monkeypatch.setattr(clock, "SCORINGS", 1e9)  # which seem to take all of the time
    stages = [{"method": "simcse"}, {"method": "consert"}, {"method": "whitening"}]
    result = train(stages=stages, steps=100_000, time_limit="2h", **dev)
    assert is_finished(result.folder)
    assert [record["step"] for record in metrics(result.folder, "train")] == [1, 2]
    for n in (1, 2):
        said = (
            f"the time limit ended stage {n} after step 1 of 100000; the best step so far is kept"
        )
        assert said in (result.folder / "report.html").read_text()


@pytest.fixture
def slow_to_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    """To load and to score an encoder seems to take 3,000 s."""
    measured = outcome.measure_encoder

    def measure(*of: Any) -> Any:
        return measured(*of)._replace(seconds=3000.0)

    monkeypatch.setattr(outcome, "measure_encoder", measure)


@pytest.mark.usefixtures("slow_to_measure")
def test_a_time_limit_holds_loading_and_scoring(train: Train) -> None:
    log = (train(time_limit="2h").folder / "train.log").read_text()
    assert re.search(r"takes 3,000 s; 4,\d\d\d s are left for training", log)


@pytest.mark.usefixtures("slow_to_measure")
def test_a_time_limit_that_leaves_no_time_for_training_is_refused(
    train: Train, tmp_path: Path
) -> None:
    message = r"1,800 s: too short: .* result takes 3,000 s; start again with more time"
    with pytest.raises(InputError, match=message):
        train(time_limit="30m")
    assert not (tmp_path / "run").exists()


def test_a_resumed_run_counts_the_time_before(
    train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stopped_at(4):
        folder = train(time_limit="2h").folder
    tensors, progress = run_folder.last_checkpoint(folder)
    assert 0 < progress.seconds < 7200
    longer = dataclasses.replace(progress, seconds=7200.0)
    monkeypatch.setattr(run_folder, "last_checkpoint", lambda _: (tensors, longer))
    resume(folder)
    assert "the time limit ended stage 1 after step 6 of 12" in (folder / "train.log").read_text()


def test_a_run_on_rows_of_the_bundled_model_suggests_what_the_user_can_do(
    train: Train, sentences: list[str], pairs: Path
) -> None:
    folder = train(sources=None, rows=sentences, model=None, steps=1).folder
    log = (folder / "train.log").read_text()
    assert "in these commands, TEXT stands for a file of your sentences, one a line" in log
    finished = "sentence-transformers/all-MiniLM-L6-v2"
    assert f"isotune evaluate {BUNDLED_MODEL} {finished} --tasks {pairs}\n" in log


def minutes(time_limit: object) -> float | str | None:
    """The minutes of a recipe with this time limit."""
    table = {"stages": [{"method": "simcse"}], "time_limit": time_limit}
    return Recipe.from_table(table).time_limit


@pytest.mark.parametrize(
    ("time_limit", "expected"),
    [("90s", 1.5), ("30m", 30), ("1.5h", 90), (2, 2), (0.5, 0.5), ("45", 45)],
)
def test_times_have_a_unit_or_are_minutes(time_limit: object, expected: float) -> None:
    assert minutes(time_limit) == expected


@pytest.mark.parametrize("wrong", ["soon", "5 m", "-1s", 0, math.inf])
def test_a_time_without_sense_is_refused(wrong: object) -> None:
    message = "time_limit: give a time such as 90s, 30m or 2h, or a number of minutes"
    with pytest.raises(InputError, match=message):
        minutes(wrong)


def test_a_notebook_gets_one_display_and_each_line_once(
    short: dict[str, Any], tmp_path: Path
) -> None:
    import nbformat  # here, for the warnings of its import
    from nbclient import NotebookClient

    given = {
        **short,
        "sources": str(short["sources"]),
        "out": str(tmp_path / "run"),
        "quiet": False,
    }
    cell = nbformat.v4.new_code_cell(f"import isotune\nisotune.train(**{given!r})")
    NotebookClient(nbformat.v4.new_notebook(cells=[cell]), timeout=300).execute()
    bar, result = (output for output in cell.outputs if output.output_type != "stream")
    assert "━" in bar.data["text/plain"]
    assert "verdict:" in result.data["text/plain"]
    printed = "".join(output.text for output in cell.outputs if output.output_type == "stream")
    assert printed.count("step 4 of 12") == 1


def test_the_time_left_is_shown_where_a_step_takes_minutes(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        recorder.start("stage 1", 0, 10)
        clock = iter(range(0, 100_000, 200))
        recorder._bar.get_time = lambda: next(clock)
        for _ in range(4):
            recorder.advance()
        assert recorder._bar.tasks[0].time_remaining == 6 * 200


@pytest.mark.parametrize("keep", [True, False])
def test_checkpoints_go_when_the_run_is_finished_and_a_kill_before_that_loses_none(
    train: Train, monkeypatch: pytest.MonkeyPatch, keep: bool
) -> None:
    def checkpoints(folder: Path) -> int:
        return len(list(folder.glob("*.safetensors")))

    whole = train("whole", keep_checkpoints=keep).folder
    assert checkpoints(whole) == 2 * keep
    ends = {"write_report": run, "mark_finished": run_folder, "remove_checkpoints": run_folder}
    for end, module in ends.items():
        with monkeypatch.context() as patch:
            patch.setattr(module, end, killed)
            with pytest.raises(Killed):
                train(end, keep_checkpoints=keep)
        folder = whole.with_name(end)
        assert is_finished(folder) == (end == "remove_checkpoints")
        if not is_finished(folder):
            assert same(weights(resume(folder).folder), weights(whole))
            assert (folder / "report.html").exists()
        with pytest.raises(
            InputError, match=r"this run is finished; its report is .*report\.html$"
        ):
            resume(folder)
        assert checkpoints(folder) == 2 * keep


def test_what_is_kept_is_the_best_on_the_dev_pairs_as_saved(train: Train, pairs: Path) -> None:
    result = train(steps=24)
    scores = {record["step"]: record["score"] for record in metrics(result.folder, "dev")}
    assert result.evaluation.selected_step == max(scores, key=lambda step: scores[step])
    dev = read_scored_pairs(str(pairs))
    again = score(dev, cosine_similarities(result.encoder, dev)).spearman.all
    assert again == pytest.approx(max(scores.values()), abs=1e-9)
    assert result.evaluation.after.tasks[0].spearman.all == pytest.approx(again)


@pytest.fixture
def faq(tmp_path: Path) -> Path:
    """Forty questions with their answers."""
    path = tmp_path / "faq.tsv"
    rows = [f"where is number {i}\tnumber {i} is here\n" for i in range(40)]
    path.write_text("sentence1\tsentence2\n" + "".join(rows))
    return path


def test_a_retrieval_chooses_the_step_and_judges(train: Train, faq: Path) -> None:
    """Without any scored pair."""
    task = f"retrieval:{faq}"
    result = train(dev=task, tasks=(task,), steps=24)
    records = metrics(result.folder, "dev")
    assert {record["metric"] for record in records} == {"ndcg@10"}
    gain = result.evaluation.dev
    assert (gain.unit, gain.rows) == ("queries", 40)
    assert gain.after == max(record["score"] for record in records)
    assert {each.score for each in result.evaluation.differences} > {task, f"{task}-recall@1"}
    assert result.evaluation.trained_on == ()
    page = result.report.read_text()
    assert "nDCG@10" in page
    assert result.evaluation.verdict.why in page


def test_a_retrieval_that_was_trained_on_judges_nothing(train: Train, faq: Path) -> None:
    """General pairs judge nothing either."""
    task = f"retrieval:{faq}"
    tasks = (task, "stsb-open:test")
    result = train(sources=str(faq), method="pairs", model="bert-tiny", dev=task, tasks=tasks)
    assert result.evaluation.trained_on == (task,)
    assert result.evaluation.own_tasks == ()
    assert result.verdict.why == TRAINED_ON


def test_the_step_can_be_chosen_as_sentence_transformers_does(
    train: Train, pairs: Path, tiny_model: Path
) -> None:
    """At ends of epochs too, but not at the start, and here by other layers than the encoder's
    (ConSERT's code)."""
    options = {
        "method": "consert",
        "layers": (-2, -1),
        "batch_size": 16,
        "steps": None,
        "epochs": 2,
        "eval_every": 3,
    }
    result = train(
        **options, as_released={"dev_layers": (-1,), "whole_epochs": True}, learning_rate=1e-12
    )
    records = metrics(result.folder, "dev")
    assert [record["step"] for record in records] == [0, 3, 4, 7, 8]  # 60 sentences are four steps
    assert (result.evaluation.selected_step > 0, result.evaluation.pooled[:14]) == (
        True,
        "pooled by mean",
    )
    dev = read_scored_pairs(str(pairs))
    last_layer = cosine_similarities(Encoder.load(tiny_model, layers=(-1,)), dev)
    assert records[0]["score"] == pytest.approx(score(dev, last_layer).spearman.all, abs=1e-6)


def test_a_run_can_be_evaluated_on_geometry_alone(train: Train, pairs: Path) -> None:
    result = train(tasks=(f"geometry:{pairs}",), steps=4)
    measured = result.evaluation.after.scores()
    assert all(key.startswith(f"geometry:{pairs}-") for key in measured)
    name = f"geometry:{pairs}-uniformity"
    values = [side.scores()[name] for side in (result.evaluation.before, result.evaluation.after)]
    before, after = (f"{value:.4f}" for value in values)
    line = f"geometry:{pairs} (uniformity): {before} -> {after}\n"
    assert line in (result.folder / "train.log").read_text()
    assert not (
        result.folder / "cosines.npz"
    ).exists()  # there are no gold scores to draw them against
    assert result.evaluation.verdict.why in result.report.read_text()


def test_a_run_without_pairs_of_its_text_names_commands_that_tell_which_encoder_is_better(
    train: Train, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("ISOTUNE_DATA", raising=False)  # else the seven STS tasks are scored
    result = train(dev="none", tasks=None)
    assert result.evaluation.verdict.word == "CAN'T TELL"
    assert (result.evaluation.selected_step, metrics(result.folder, "dev")) == (
        12,
        [],
    )  # the last encoder is kept
    log = (result.folder / "train.log").read_text()
    assert re.search(
        r"\d+ of 60 sentences of the text have another nearest sentence than before", log
    )
    label, evaluate = re.findall(r"  isotune (label .*|evaluate .*)", log)
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join("0123451q")))
    assert main(shlex.split(label)) == 0
    assert main(shlex.split(evaluate)) == 0
    assert capsys.readouterr().out.count(" pairs scored") == 8


def test_patience_ends_a_run_that_gets_no_better(train: Train) -> None:
    result = train(steps=400, eval_every=1, patience=3, learning_rate=1e-9, model_dropout=0.0)
    scores = [record["score"] for record in metrics(result.folder, "dev")]
    assert result.evaluation.ends == (
        f"3 evaluations were no better, at step {len(scores) - 1} of 400",
    )
    assert max(scores) == max(scores[:-3])


def test_patience_can_count_what_is_below_the_evaluation_before_but_not_below_the_start(
    train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = iter([0.9, 0.5, 0.6, 0.7, 0.4, 0.3])
    monkeypatch.setattr(
        "isotune.training.selection.score_task", lambda *_, **__: Score(next(scores), "spearman")
    )
    result = train(steps=40, eval_every=1, patience=1, as_released={"early_stopping": "previous"})
    assert [record["score"] for record in metrics(result.folder, "dev")] == [
        0.9,
        0.5,
        0.6,
        0.7,
        0.4,
    ]


def test_dev_pairs_keep_their_best_step_among_those_that_forget_little(
    train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    dev, general = iter([0.5, 0.7, 0.6, 0.9]), iter([1.0, 1.0, 1.0, 0.5])

    def score(*_: Any, **options: Any) -> Score:
        return Score(next(dev if "layers" in options else general), "spearman")

    monkeypatch.setattr("isotune.training.selection.score_task", score)
    result = train(steps=4, eval_every=1, most_forgotten=0.1)
    assert result.evaluation.selected_step == 1
    assert result.evaluation.ends == ("too much was forgotten at step 3 of 4",)


def test_the_seed_decides_everything(train: Train, sentences: list[str]) -> None:
    """Whether the rows come from a file or from Python, and whatever other threads train."""
    rows = {"sources": (), "rows": sentences}
    first, again, other = (
        weights(train(name, dev="none", **options).folder)
        for name, options in (("a", {"seed": 0}), ("b", {"seed": 0, **rows}), ("c", {"seed": 1}))
    )
    assert same(first, again)
    assert not same(first, other)
    with ThreadPoolExecutor(3) as pool:
        together = pool.map(lambda name: weights(train(name, dev="none", seed=0).folder), "def")
    assert all(same(first, each) for each in together)


@pytest.mark.parametrize("method", ["simcse", "consert"])
def test_a_stopped_run_goes_on_bit_for_bit(train: Train, method: str) -> None:
    with stopped_at(6):
        stopped = train("parts", method=method)
    assert stopped.stopped == "SIGTERM"
    assert stopped.report is stopped.evaluation is stopped.verdict is None
    assert "SIGTERM stopped the run" in str(stopped)
    assert stopped.encoder.encode("a dog").shape == (32,)
    assert not is_finished(stopped.folder)
    assert resume(stopped.folder).stopped is None
    assert_same_end(train("whole", method=method).folder, stopped.folder)


def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_best(
    train: Train, tmp_path: Path
) -> None:
    with pytest.raises(
        TrainingFailed, match=r"use a lower learning_rate than 1e\+20.*encoder"
    ) as failure:
        train(learning_rate=1e20, max_gradient_norm=1e20, eval_every=1, method="consert")
    assert failure.value.encoder == tmp_path / "run" / "encoder"
    assert not is_finished(tmp_path / "run")
    encoder = Encoder.load(tmp_path / "run" / "encoder")
    assert np.isfinite(encoder.encode("a dog")).all()
    assert "use a lower learning_rate" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.parametrize(("kind", "advises"), [(UselessVectors, True), (InputError, False)])
def test_a_lower_learning_rate_is_advised_only_where_the_vectors_are_at_fault(
    kind: type[InputError], advises: bool, train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = iter([Score(0.5, "spearman")])

    def score_task(*_: object, **__: object) -> Score:
        if first := next(scores, None):
            return first
        raise kind("no score")

    monkeypatch.setattr("isotune.training.selection.score_task", score_task)
    with pytest.raises(
        TrainingFailed, match=r"after step 4: no score; .*encoder is the encoder of the start"
    ) as failure:
        train()
    assert ("lower learning_rate" in str(failure.value)) is advises


def test_a_full_disk_stops_the_run_and_keeps_the_checkpoint(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = run_folder.save_file, []

    def full(*arguments: Any) -> None:
        calls.append(arguments)
        if len(calls) > 3:
            raise OSError(28, "No space left on device")
        real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(run_folder, "save_file", full)
        with pytest.raises(
            InputError, match=r"No space left on device.* resume the run from the last"
        ):
            train("parts")
    resume(tmp_path / "parts")
    assert_same_end(train("whole").folder, tmp_path / "parts")


def test_a_collapse_is_warned_about(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    # The opposite of a contrastive loss: every sentence is pulled to every other.
    monkeypatch.setattr(
        SimCSE, "loss", lambda self, encoded, batch: {"pull": encoded[0].var(0).sum()}
    )
    result = train(steps=60, eval_every=30, learning_rate=1e-2, dev="none")
    assert any(
        "the space is collapsing" in record["message"]
        for record in metrics(result.folder, "warning")
    )


def test_what_may_spoil_a_run_or_its_scores_is_warned_about(train: Train, text: Path) -> None:
    text.write_text(text.read_text() * 2)
    result = train(model_dropout=0.0, max_length=4, batch_size=60, steps=2)
    messages = " ".join(record["message"] for record in metrics(result.folder, "warning"))
    assert "the two views of a sentence are identical" in messages
    assert "the dev data are test data too" in messages
    assert "50% of the texts are repeats" in messages
    assert "% of the texts are cut at 4 tokens" in messages


@pytest.mark.parametrize(
    ("method", "equal", "warned"),
    [
        ("pairs", 0, ""),
        ("pairs", 2, ""),
        ("pairs", 3, "rows: in 15% of the rows"),
        ("simcse-sup", 20, "rows: in 100% of the rows"),
    ],
)
def test_rows_of_a_text_with_itself_are_warned_about(
    train: Train, sentences: list[str], method: str, equal: int, warned: str
) -> None:
    rows = []
    for number in range(20):
        positive = sentences[number] if number < equal else sentences[20 + number]
        rows.append({"anchor": sentences[number], "positive": positive, "negative": "a dog"})
    result = train(method=method, sources=(), rows=rows, steps=5, batch_size=4)
    messages = [record["message"] for record in metrics(result.folder, "warning")]
    told = [message for message in messages if "belong together are equal" in message]
    assert len(told) == bool(warned)
    for message in told:
        assert message.startswith(warned)
        assert f"such as {sentences[0]!r:.60};" in message


@pytest.mark.parametrize(
    ("numbers", "warned"), [(9, ""), (10, "rows: 50% of the texts are numbers")]
)
def test_texts_that_are_numbers_are_warned_about(
    train: Train, sentences: list[str], numbers: int, warned: str
) -> None:
    rows = [f"{number + 0.5}" for number in range(numbers)] + sentences[numbers:20]
    result = train(sources=(), rows=rows, steps=5, batch_size=4)
    messages = [record["message"] for record in metrics(result.folder, "warning")]
    told = [message for message in messages if "are numbers" in message]
    assert len(told) == bool(warned)
    for message in told:
        assert message.startswith(f"{warned}, such as '0.5'; if another column")
        assert "--columns sentence=COLUMN " in message


def test_the_log_has_the_scores_of_the_start_and_of_the_kept_encoder(
    train: Train, pairs: Path
) -> None:
    result = train(steps=2)
    before = 100 * result.evaluation.before.scores()[str(pairs)]
    after = 100 * result.evaluation.after.scores()[str(pairs)]
    log = (result.folder / "train.log").read_text()
    assert f"{pairs}: {before:.2f} -> {after:.2f} (" in log
    (control,) = result.evaluation.after.controls
    assert f"{pairs}: common words {100 * control.scores()[str(pairs)]:.2f}; the kept" in log


BAD: list[tuple[dict[str, Any], str]] = [
    ({"batch_size": 61}, "batch size 61 is larger than the data"),
    ({"prompt": "\udcff"}, "a prompt, name or file name has bytes that are not UTF-8"),
    ({"temprature": 1}, "unknown option 'temprature': did you mean 'temperature'"),
    ({"as_released": {"dev_layers": (-20,)}}, "layer -20"),
    ({"sources": (), "rows": ["a dog"]}, "one sentence only"),
    ({"method": "flow", "model_dropout": 0.1}, "leave model_dropout at 0, or .*cached false"),
    (
        {"method": "flow", "attention_dropout": 0.1},
        "leave attention_dropout at 0, or .*cached false",
    ),
    (
        {"sources": (), "rows": [f"{chr(0x4E00 + i)} {chr(0x4F00 + i)}" for i in range(20)]},
        "rows: 20 rows, all of the same tokens",
    ),
    ({"sources": (), "rows": ["a dog"] * 20}, "20 sentences, all of them the same"),
    (
        {
            **{"sources": (), "method": "pairs", "batch_size": 2},
            "rows": [{"question": text, "answer": text} for text in ("cat", "dog", "ball")],
        },
        "rows: in each of 3 rows the two texts that belong together are equal, such as 'cat'",
    ),
    ({"rows": ["a dog"]}, "sources and rows are both given"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_input_is_refused_in_one_line(
    train: Train, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        train(**options)
    assert not (tmp_path / "run").exists()


MISSING = {"method": "simcse", "data": ["missing.txt"]}
SIMCSE_STAGE = {"method": "simcse"}
SCORES = {"method": "finetune-pair", "classes": [], "metrics": ["spearman"]}


@pytest.mark.parametrize(
    ("stages", "options", "message"),
    [
        ([SIMCSE_STAGE, MISSING], {}, "^missing.txt: no such file$"),
        ([MISSING], {}, "every stage names the data it reads, so give no other sources"),
        (
            [MISSING],
            {"sources": None, "rows": ["a dog", "a cat"]},
            "every stage names the data it reads",
        ),
        ([SIMCSE_STAGE, {"method": "mlm"}], {"sources": "-"}, "this run needs it 2 times"),
        (
            [{"method": "whitening"}],
            {
                **dict.fromkeys(("sources", "steps", "eval_every", "learning_rate", "batch_size")),
                "rows": ["a", "b", "c"],
            },
            "3 sentences, and more of them than dimensions are needed",
        ),
    ],
)
def test_the_data_of_all_stages_are_tried_before_the_first_trains(
    train: Train,
    stages: Sequence[Mapping[str, Any]],
    options: dict[str, Any],
    message: str,
    tmp_path: Path,
) -> None:
    with pytest.raises(InputError, match=message):
        train(stages=stages, **options)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("stage", "options", "message"),
    [
        (
            {**SCORES, "data": ["pairs.tsv"], "dev_data": ["pairs.tsv", "missing.tsv"]},
            {},
            "^missing.tsv: no such file$",
        ),
        ({**SCORES, "data": ["text.txt"]}, {}, "it has sentences only"),
        ({"method": "multitask", "sentiment_data": ["missing.tsv"]}, {}, "missing.tsv"),
        (SIMCSE_STAGE, {"min_words": 99}, "no Sentence in it with at least 99 words"),
        (
            {"method": "whitening", "dimensions": 99},
            {},
            "dimensions 99.*the encoder's vectors have 32; keep that many or fewer",
        ),
        ({"method": "sncse", "parser": "words"}, {"max_length": 5}, "leaves no room"),
        ({"method": "back-translation", "translate": ["nobody", "nobody"]}, {}, "nobody"),
    ],
)
@pytest.mark.usefixtures("pairs")
def test_a_later_stage_is_tried_before_the_first_trains(
    train: Train,
    stage: Mapping[str, Any],
    options: dict[str, Any],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        train(stages=[SIMCSE_STAGE, stage], **options)
    assert not (tmp_path / "run").exists()


def test_a_run_drops_attention_weights_at_the_rate_that_is_given(train: Train) -> None:
    plain, asked = (
        train(name, **rate) for name, rate in (("a", {}), ("b", {"attention_dropout": 0}))
    )
    losses = [[record["loss"] for record in metrics(run.folder, "train")] for run in (plain, asked)]
    assert losses[0] != losses[1]


@pytest.mark.parametrize("as_rows", [list, pd.DataFrame])
def test_rows_from_python_leave_a_stage_its_own_data(
    train: Train, text: Path, as_rows: Any
) -> None:
    stages = [{"method": "simcse"}, {"method": "simcse", "data": [str(text)]}]
    rows = as_rows([{"text": sentence} for sentence in ("a dog", "a cat", "the ball")])
    result = train(stages=stages, sources=None, rows=rows, batch_size=3, steps=2)
    found = json.loads((result.folder / "data.json").read_text())
    assert [found[f"stage {number}"]["rows"] for number in (1, 2)] == [3, 6]
    assert found["stage 2"]["sources"] == [str(text)]


def test_a_finished_run_that_a_launcher_starts_again_stays_as_it_is(
    train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process may be killed at its very end, after the first has finished the run."""
    result = train()
    before = {path: path.read_bytes() for path in result.folder.rglob("*") if path.is_file()}
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert train() == result
    assert {
        path: path.read_bytes() for path in result.folder.rglob("*") if path.is_file()
    } == before


def refused(message: str, folder: Path, **options: Any) -> None:
    """Checks that a run is not resumed."""
    with pytest.raises(InputError, match=message):
        resume(folder, **options)


@pytest.fixture
def stopped(train: Train) -> Path:
    """The folder of a run that was stopped in its fifth step."""
    with stopped_at(4):
        return train().folder


def test_resume_needs_a_run(tmp_path: Path) -> None:
    refused("no run to resume", tmp_path / "missing")


def test_resume_takes_nothing_else(stopped: Path, sentences: list[str]) -> None:
    refused("leave out the sources and all options", stopped, learning_rate=1e-5)
    refused("started with sources; leave out the rows", stopped, rows=sentences)


def test_a_run_whose_text_has_changed_is_not_resumed(stopped: Path, text: Path) -> None:
    text.write_text(text.read_text() + "another sentence\n")
    refused("the data has changed since the run was started", stopped)
    assert (stopped / "encoder").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "data.json: it can't be read as JSON"),
        ("[]", "data.json: it is damaged"),
        ("3", "data.json: it is damaged"),
        ('{"stage 1": 3}', "data.json: it is damaged"),
        ('{"stage 1": {"sources": []}}', "data.json: it is damaged"),
    ],
)
def test_a_run_whose_record_of_the_data_is_damaged_is_not_resumed(
    stopped: Path, content: str, message: str
) -> None:
    (stopped / "data.json").write_text(content)
    refused(message, stopped)


def test_a_checkpoint_of_another_version_is_not_resumed(stopped: Path) -> None:
    save_file({"x": torch.zeros(1)}, stopped / "last.safetensors")
    refused("another version of isotune wrote", stopped)


def test_a_run_whose_recipe_has_changed_is_not_resumed(stopped: Path) -> None:
    recipe = stopped / "recipe.toml"
    environment = stopped / "environment.json"
    sha256 = hashlib.sha256(recipe.read_bytes()).hexdigest()
    recipe.write_text(recipe.read_text().replace("max_length", "longest"))
    refused("recipe.toml: it has changed since the run was started", stopped)
    other = hashlib.sha256(recipe.read_bytes()).hexdigest()
    environment.write_text(environment.read_text().replace(sha256, other))
    refused("recipe.toml: another version of isotune wrote it, with other options", stopped)


TWO_STAGES: dict[str, Any] = {
    "stages": [
        {"method": "simcse", "steps": 6, "eval_every": 2, "learning_rate": 1e-3},
        {"method": "consert", "steps": 7, "eval_every": 3, "patience": 3, "learning_rate": 1e-3},
    ],
    **dict.fromkeys(("steps", "eval_every", "learning_rate")),
}


@pytest.mark.parametrize("writes", [(0, 6, 11), pytest.param(range(14), marks=pytest.mark.slow)])
def test_a_run_killed_at_any_write_of_a_checkpoint_goes_on_bit_for_bit(
    train: Train, monkeypatch: pytest.MonkeyPatch, writes: Sequence[int]
) -> None:
    monkeypatch.setattr(
        checkpoints, "SHARE_OF_TIME", math.inf
    )  # after each evaluation, on a slow disk too
    whole, save_tensors = train("whole", **TWO_STAGES), run_folder.save_tensors
    for write in writes:
        count = iter(range(1000))

        def killed(*arguments: Any, count: Iterator[int] = count, write: int = write) -> None:
            if next(count) == write:
                raise Killed
            save_tensors(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(checkpoints, "save_tensors", killed)
            with pytest.raises(Killed):
                train(f"killed-{write}", **TWO_STAGES)
        resumed = resume(whole.folder.with_name(f"killed-{write}"))
        assert_same_end(whole.folder, resumed.folder)
        assert resumed.evaluation.selected_step == whole.evaluation.selected_step


def test_checkpoints_take_little_of_the_time(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = train("whole", steps=8, eval_every=1)
    monkeypatch.setattr(checkpoints, "SHARE_OF_TIME", 0.0)  # none after the first, until the end
    save_tensors, names = run_folder.save_tensors, []

    def saved(path: Path, *arguments: Any) -> None:
        names.append(path.name)
        assert (
            len(list(path.parent.glob("best-*.safetensors"))) <= 2
        )  # the kept step's, and the checkpoint's
        if len(names) == 6:
            raise Killed
        save_tensors(path, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "save_tensors", saved)
        with pytest.raises(Killed):
            train("killed", steps=8, eval_every=1)
    assert names.count("last.safetensors") == 1
    assert_same_end(whole.folder, resume(whole.folder.with_name("killed")).folder)


def test_a_stage_that_gets_no_better_keeps_what_it_started_from(train: Train) -> None:
    result = train(**{**TWO_STAGES, "learning_rate": 1e-12, "model_dropout": 0.0})
    assert result.evaluation.selected_step == 0
    assert any(
        "no step scored better" in record["message"] for record in metrics(result.folder, "warning")
    )


def test_a_run_on_rows_from_python_needs_them_again(train: Train, sentences: list[str]) -> None:
    result = train(sources=None, rows=sentences)
    assert "data = []" in (result.folder / "recipe.toml").read_text()
    unfinish(result.folder)
    with pytest.raises(InputError, match="started with rows from Python; give the same rows again"):
        resume(result.folder)
    assert resume(result.folder, rows=sentences).stopped is None


@pytest.mark.parametrize("kind", ["train", "dev", "space"])
def test_an_error_of_who_watches_ends_the_run_as_it_is_and_the_run_goes_on(
    train: Train, tmp_path: Path, kind: str
) -> None:
    def watch(record: dict[str, Any]) -> None:
        if record["kind"] == kind and record["step"] > 4:
            raise InputError("enough")

    with pytest.raises(InputError, match=r"^enough$"):
        train(watch=watch, steps=12, eval_every=4)
    resumed = resume(tmp_path / "run")
    assert_same_end(train(out=tmp_path / "whole", steps=12, eval_every=4).folder, resumed.folder)


def test_a_run_goes_on_from_another_folder_and_after_it_was_moved(
    train: Train,
    text: Path,
    pairs: Path,
    tiny_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stop(record: dict[str, Any]) -> None:
        if record.get("step") == 4:
            raise Killed

    monkeypatch.chdir(tmp_path)
    for name, path in (("notes.txt", text), ("dev.tsv", pairs)):
        shutil.copy(path, name)
    shutil.copytree(tiny_model, "model")
    options: dict[str, Any] = {"dev": "dev.tsv", "tasks": ("dev.tsv",), "steps": 8, "eval_every": 4}
    for number, model in enumerate(("model", Encoder.load("model"))):
        with pytest.raises(Killed):
            train(sources="notes.txt", model=model, out=f"run-{number}", watch=stop, **options)
        whole = train(sources="notes.txt", model=model, out=f"whole-{number}", **options)
        elsewhere = tmp_path / f"elsewhere-{number}"
        elsewhere.mkdir()
        shutil.move(f"run-{number}", elsewhere / "moved")
        with monkeypatch.context() as there:
            there.chdir(elsewhere)
            resumed = resume(Path("moved"))
            assert_same_end(tmp_path / whole.folder, resumed.folder)
