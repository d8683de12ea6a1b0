import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isotune.data.overlap import Shared
from isotune.errors import InputError
from isotune.evaluation import RunEvaluation
from isotune.evaluation.examples import AnswerExamples, Examples, FoundAnswer
from isotune.evaluation.results import MEASURES
from isotune.files import checksums
from isotune.report import write_report
from isotune.report.stages import sealed
from tests.report.conftest import Page, make_run, second_stage, set_examples, write_metrics


def report(run: Path) -> Page:
    path = write_report(run)
    assert path == run / "report.html"
    return Page(path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """The page of a finished run, with its figures."""
    return report(make_run(tmp_path_factory.mktemp("finished")))


def set_evaluation(
    run: Path,
    before: dict[str, float],
    after: dict[str, float],
    step: int,
    labels: tuple[float, float] | None = None,
) -> None:
    """Replace the run's evaluation by one with these values of Spearman "all"."""
    path = run / "evaluation.json"
    old = RunEvaluation.model_validate_json(path.read_text())

    def changed(values: dict[str, float]) -> dict[str, Any]:
        evaluation = old.before.model_dump(mode="json")
        tasks = [task for task in evaluation["tasks"] if task["name"] in values]
        for task in tasks:
            task["spearman"]["all"] = values[task["name"]]
        return {**evaluation, "tasks": tasks, "averages": {}}

    sides = {"before": changed(before), "after": changed(after)}
    path.write_text(json.dumps({**sides, "selected_step": step, "labels": labels}))


@pytest.mark.parametrize(
    ("after", "low", "high", "own", "words"),
    [
        (
            0.50,
            0.02,
            0.18,
            True,
            "Use the new encoder: the gain is more than chance. The score on STS-B "
            "rose from 40.00 to 50.00: +10.00 points, 95 % interval +2.00 to +18.00.",
        ),
        (
            0.41,
            -0.02,
            0.04,
            True,
            "leave open which encoder is better: the change may be chance. The score on STS-B "
            "rose from 40.00 to 41.00: +1.00 points, 95 % interval -2.00 to +4.00.",
        ),
        (
            0.30,
            -0.18,
            -0.02,
            False,
            "Keep what you had: it is worse by more than chance on STS-B. The score on STS-B "
            "fell from 40.00 to 30.00: -10.00 points",
        ),
    ],
)
def test_the_page_says_the_verdict_of_the_evaluation(
    run: Path, after: float, low: float, high: float, own: bool, words: str
) -> None:
    set_evaluation(run, {"stsb": 0.40}, {"stsb": after}, 150)
    path = run / "evaluation.json"
    difference = {"encoder": "new", "against": "old", "score": "stsb"}
    difference |= {"difference": after - 0.4, "low": low, "high": high}
    judged = {"differences": [difference], "own_tasks": ["stsb"] * own}
    path.write_text(json.dumps({**json.loads(path.read_text()), **judged}))
    page, verdict = report(run), RunEvaluation.model_validate_json(path.read_bytes()).verdict
    assert words in page.verdict
    assert verdict.why.replace("stsb", "STS-B") in page.verdict
    assert page.verdict.startswith("<strong>Warning.</strong>") == (verdict.word != "NEW")
    assert f"{100 * low:+.2f} to {100 * high:+.2f}" in page.text


def keep_metrics(run: Path, *kinds: str) -> None:
    path = run / "metrics.jsonl"
    lines = [line for line in path.read_text().splitlines() if json.loads(line)["kind"] in kinds]
    path.write_text("".join(line + "\n" for line in lines))


def test_a_finished_run(finished: Page) -> None:
    assert finished.headings == [
        "Warnings",
        "Before and after",
        "Examples",
        "Your sentences",
        "Costs",
        "Training",
        "Details",
        "What next?",
    ]
    assert finished.verdict == (
        "Use the new encoder: the gain is more than chance. The score on STS average "
        "rose from 40.86 to 51.29: +10.43 points, 95 % interval +9.00 to +12.00. "
        "Kept: step 150 of 300."
    )
    for text in (
        "STS12 1,500 pairs 31.00 44.00 +13.00",
        "STS average 40.86 51.29 +10.43 +9.00 to +12.00, better",
        "Model bert-tiny Data corpus/support-tickets.txt, corpus/manual.jsonl: 12,000 rows",
        "“Before” is the start pooled by max.",
        "Time 0:01:30 from the beginning to the last scores",
        "all steps were made, 300 of 300",
        "STS12 31.00 → 44.00 32.00 → 45.00 33.00 → 46.00",  # all, mean, wmean
        "STS12 36.00 → 49.00 37.00 → 50.00 38.00 → 51.00",  # Pearson
        "the dev score fell 3 times in a row (2 times, steps 250 to 275)",
        "kept: 51.20 at step 150",
        "a pair of sentences of stsb dev",
        'views = ["feature_cutoff", "shuffle"]',
        "Data: stage 1 sources corpus/support-tickets.txt, corpus/manual.jsonl rows 12,000",
        "gpu none cores 2",
        "consert-demo/encoder')",
    ):
        assert text in finished.text
    assert re.search(
        r"1 consert steps 0 to 300 dev Spearman 33\.20 → 51\.20 info_nce [\d.]+ → [\d.]+ margin",
        finished.text,
    )
    assert "Stage 1: consert" not in finished.text


def test_equal_ways_to_put_subsets_together_are_one_column(run: Path) -> None:
    path = run / "evaluation.json"
    table = json.loads(path.read_text())
    for side in ("before", "after"):
        results = [*table[side]["tasks"], *table[side]["averages"].values()]
        for result in results:
            for metric in {"spearman", "pearson"} & result.keys():
                value = result[metric]["all"]
                result[metric] = {"all": value, "mean": value, "wmean": value}
    path.write_text(json.dumps(table))
    page = report(run)
    assert "STS12 31.00 → 44.00 S" in page.text
    assert "wmean" not in page.text


def test_the_page_needs_no_other_file(finished: Page) -> None:
    assert len(finished.html) < 1_000_000
    for tag, attributes in finished.tags:
        assert tag not in ("link", "iframe")
        for name in ("src", "href", "xlink:href"):
            target = attributes.get(name) or "#"
            assert target.startswith(("#", "data:"))
    assert not re.search(r"@import|url\((?!#)", finished.html)


def test_the_page_and_its_tables_are_accessible(finished: Page) -> None:
    tags = finished.tags
    assert ("html", {"lang": "en"}) in tags
    assert all(
        attributes.get("scope") in ("col", "row", "rowgroup")
        for tag, attributes in tags
        if tag == "th"
    )


def test_the_figures_are_described(finished: Page) -> None:
    figures = [attributes for tag, attributes in finished.tags if tag == "svg"]
    assert len(figures) == 5
    assert all(
        attributes["role"] == "img" and len(attributes["aria-label"]) > 20 for attributes in figures
    )


def test_each_name_on_the_page_is_that_of_one_element(finished: Page) -> None:
    tags = finished.tags
    ids = [attributes["id"] for _, attributes in tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {
        attributes["aria-labelledby"] for _, attributes in tags if "aria-labelledby" in attributes
    } <= set(ids)
    assert set(re.findall(r'(?:url\(|href=")#([^")]+)', finished.html)) <= set(ids)


def add_stage(run: Path) -> None:
    """Add a second stage. The records of the first stage have no number, as in old runs."""
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for record in records:
        del record["crc32"]
    write_metrics(run, records + second_stage())
    with (run / "recipe.toml").open("a") as file:
        file.write('\n[[stages]]\nmethod = "multitask"\n')


def test_every_stage_is_shown(run: Path) -> None:
    add_stage(run)
    set_evaluation(run, {"stsb": 0.4}, {"stsb": 0.38}, step=400, labels=(0.3, 0.675))
    page = report(run)
    assert "1 consert steps 0 to 300" in page.text
    assert (
        "2 multitask steps 300 to 400 dev mean 30.00 → 67.50 sentiment 20.00 → 45.00 "
        "similarity 40.00 → 90.00" in page.text
    )
    assert "cross_entropy 1.5 → 1" in page.text
    assert page.verdict == (
        "Use the new encoder: the labelled dev rows are predicted better. "
        "The score on the labelled dev rows, by layers that start untrained, "
        "rose from 30.00 to 67.50: +37.50 points. "
        "Kept: step 400 of 400."
    )


def test_the_overlap_of_training_and_evaluation_data_is_shown(run: Path) -> None:
    path = run / "data.json"
    data = json.loads(path.read_text())
    counts = {"stsb:test": Shared(62, 2550, 9, 1379, 0), "reviews": Shared(3, 90, 0, 0, 0)}  # texts
    data["stage 1"]["overlap"] = {task: shared._asdict() for task, shared in counts.items()}
    path.write_text(json.dumps(data))
    told = "stsb:test stage 1 62 of 2,550 9 of 1,379 reviews stage 1 3 of 90"
    assert told in report(run).text


def test_the_data_that_stages_share_are_shown_once(run: Path) -> None:
    path = run / "data.json"
    (first,) = json.loads(path.read_text()).values()
    first["overlap"] = {"stsb:test": Shared(62, 2550, 9, 1379, 0)._asdict()}
    data = {"stage 1": first, "stage 2": first, "stage 3": {**first, "rows": 4000}}
    path.write_text(json.dumps(data))
    page = report(run)
    for text in (
        "Data: stage 1, 2 sources",
        "Data: stage 3 sources",
        "stsb:test stage 1, 2, 3 62 of 2,550",
        "manual.jsonl: 12,000 rows; corpus/support-tickets.txt, corpus/manual.jsonl: 4,000 rows",
    ):
        assert page.text.count(text) == 1


def test_the_start_that_was_kept_is_told(run: Path) -> None:
    set_evaluation(run, {"stsb": 0.409}, {"stsb": 0.409}, 0)
    page = report(run)
    assert page.verdict.endswith("Keep what you had: no step was better. Kept: the start.")
    # Nothing has changed that examples could show.
    assert "Examples" not in page.headings
    assert "Your sentences" not in page.headings


@pytest.mark.parametrize("alone", [False, True])
def test_accuracies_and_geometry_have_a_table(run: Path, alone: bool) -> None:
    path = run / "evaluation.json"
    both = json.loads(path.read_text())
    for part, value in ((both["before"], 0.7), (both["after"], 0.75)):
        transfer = {
            "kind": "transfer",
            "name": "mr",
            "classifier": "a",
            "protocol": "b",
            "rows": 10,
            "f1": None,
        }
        transfer |= {"accuracy": value, "dev_accuracy": None, "regularisation": [0.01]}
        if alone:
            transfer["largest_class"] = 0.6
        space = {
            "kind": "geometry",
            "name": "geometry",
            "data": "stsb:dev",
            "sentences": 9,
            "positives": 2,
        }
        space |= {"positive": "c", "normalisation": "d", **dict.fromkeys(MEASURES, value - 3)}
        part["tasks"] = [transfer, space] if alone else [*part["tasks"], transfer, space]
        part["averages"] = {} if alone else part["averages"]
    if alone:
        both |= {"differences": [], "own_tasks": []}
        (run / "cosines.npz").unlink()
    path.write_text(json.dumps(both))
    page = report(run)
    assert (
        "nobody has scored pairs of this text" if alone else "STS average rose from 40.86 to 51.29"
    ) in page.verdict
    assert ("STS average 40.86 51.29 +10.43" in page.text) != alone
    share = ", largest class 60.00" if alone else ""
    assert f"MR (accuracy) 10 rows{share} 70.00 75.00 +5.00" in page.text
    assert "uniformity -2.3000 -2.2500 +0.0500" in page.text


def test_what_the_scores_are_worth_is_told(run: Path) -> None:
    path = run / "evaluation.json"
    both = json.loads(path.read_text())
    assert "Control" not in report(run).text  # a file without controls can be read
    difference = {"encoder": "e", "against": "bag of words", "score": "mr", "difference": 0.01}
    both["after"]["controls"] = [
        {
            "name": "bag of words",
            "tasks": [
                {
                    "kind": "transfer",
                    "name": "mr",
                    "classifier": "a",
                    "protocol": "b",
                    "rows": 10,
                    "f1": None,
                    "accuracy": 0.7,
                    "dev_accuracy": None,
                    "regularisation": [10],
                }
            ],
            "averages": {},
            "differences": [{**difference, "low": -0.02, "high": 0.04}],
        }
    ]
    path.write_text(json.dumps(both))
    page = report(run)
    assert "bag of words MR 70.00 +1.00 -2.00 to +4.00, tied" in page.text
    told = "The encoder “after” is not better than bag of words by more than chance on MR."
    assert told in page.text


def test_a_run_without_a_dev_set(run: Path) -> None:
    keep_metrics(run, "train", "space")
    set_evaluation(run, {"stsb": 0.4}, {"stsb": 0.5}, step=300)
    page = report(run)
    assert page.verdict.endswith("nobody has scored pairs of this text. Kept: step 300 of 300.")
    assert "The run had no dev set" in page.text
    assert "Warnings" not in page.headings


def test_a_run_that_was_interrupted(run: Path) -> None:
    for name in ("evaluation.json", "cosines.npz"):
        (run / name).unlink()
    (run / "encoder").rmdir()
    path = run / "metrics.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:30]) + "\n" + lines[30][:20])
    page = report(run)
    assert page.verdict.startswith(
        "<strong>Warning.</strong> No verdict yet: the run has no final evaluation. Its last"
    )
    assert page.headings == ["Training", "Details", "What next?"]
    assert not (run / "share.png").exists()


def test_a_run_that_has_only_begun(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").touch()
    page = report(tmp_path)
    assert page.headings == ["Training"]
    assert "No training step was recorded." in page.text


def test_texts_from_outside_are_escaped(run: Path) -> None:
    evil = '<script>alert("1")</script> & $x'
    keep_metrics(run, "train", "dev", "space")
    with (run / "metrics.jsonl").open("a") as file:
        file.write(sealed({"kind": "warning", "step": 1, "message": evil}) + "\n")
    (run / "recipe.toml").write_text(f"note = '{evil}'")
    (run / "data.json").write_text(json.dumps({evil: {"sources": [evil], "rows": 1}}))
    set_examples(run, evil)
    (run / "next.json").write_text(json.dumps([evil, f"  {evil}"]))
    cosines = dict(np.load(run / "cosines.npz"))
    np.savez(run / "cosines.npz", **{**cosines, "task": np.array(evil)})
    page = report(run.rename(run.with_name("<b>run")))
    assert page.html.count("<script") == 2
    assert "<b>" not in page.html.replace("<b>1</b>", "")
    # In the warning, recipe, data, name of the scored pairs, examples and commands.
    assert page.text.count(evil) == 10
    assert json.loads(page.neighbours)["sentences"] == [evil, "b", "c"]


def test_only_the_last_line_of_the_metrics_may_be_broken(run: Path) -> None:
    path = run / "metrics.jsonl"
    good = path.read_text()
    path.write_bytes(good.encode() + '{"kind": "warning", "step": 3, "message": "ä'.encode()[:-1])
    assert report(run).html.count("3 times in a row") == 1
    path.write_text(good.replace('"kind"', "kind", 1))
    with pytest.raises(InputError, match=r"metrics.jsonl, line 1: not JSON"):
        write_report(run)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("evaluation.json", '{"before": 3}', "evaluation.json: .*before"),
        (
            "metrics.jsonl",
            '{"loss": 1}',
            "metrics.jsonl, line 1: not a record of a run: {.loss.: 1}",
        ),
        ("recipe.toml", "stages = [", "recipe.toml: it can't be read as TOML"),
        ("cosines.npz", "PK\3\4", "cosines.npz: not a file of arrays"),
    ],
)
def test_a_damaged_file_is_named(run: Path, name: str, content: str, message: str) -> None:
    (run / name).write_bytes(content.encode())
    with pytest.raises(InputError, match=message):
        write_report(run)


@pytest.mark.parametrize(
    ("name", "headings"),
    [
        ("evaluation.json", {"Before and after", "Examples", "Your sentences", "Costs"}),
        ("examples.json", {"Examples"}),
        ("text-changes.json", {"Your sentences"}),
        ("cosines.npz", set()),
        ("data.json", set()),
        ("environment.json", {"Costs"}),
        ("recipe.toml", set()),
        ("next.json", set()),
    ],
)
def test_the_section_of_a_missing_file_is_left_out(
    run: Path, finished: Page, name: str, headings: set[str]
) -> None:
    names = [path.name for path in run.iterdir() if path.is_file()]
    (run / "SHA256SUMS").write_text(checksums(run, names))
    (run / name).unlink()
    assert set(finished.headings) - set(report(run).headings) == headings
    (run / "metrics.jsonl").write_text("{}")
    with pytest.raises(InputError, match=r"metrics\.jsonl is damaged: it is not the file that SHA"):
        write_report(run)
    (run / "metrics.jsonl").unlink()
    with pytest.raises(InputError, match=r"metrics\.jsonl is missing, which SHA256SUMS names"):
        write_report(run)


@pytest.mark.parametrize(
    ("dev", "advice"),
    [
        (
            {"after": 0.44, "low": 0.01, "high": 0.07},
            "The pairs that choose the step show a little more gain than others would.",
        ),
        ({"after": 0.41, "low": -0.02, "high": 0.04}, "To be sure, score more pairs"),
    ],
)
def test_the_advice_tells_what_the_dev_data_say(
    run: Path, dev: dict[str, float], advice: str
) -> None:
    path = run / "evaluation.json"
    evaluation = json.loads(path.read_text())
    dev = {"name": "mine dev", "unit": "pairs", "rows": 50, "before": 0.4, **dev}
    path.write_text(json.dumps({**evaluation, "dev": dev, "own_tasks": []}))
    assert advice in report(run).text


def test_the_examples_show_gains_and_losses_by_the_judges(finished: Page) -> None:
    for text in (
        "Pairs of STS-B. People have said how alike two sentences are",
        "The clearest gains of 3 pairs",
        "a cat a tomcat 100 % 0 % 50 %",
        "The clearest losses of 3 pairs",
        "The nearest sentence is the same for 50 % of 3 different sentences",
    ):
        assert text in finished.text


def test_a_sentence_with_another_nearest_is_shown_first(finished: Page) -> None:
    near = json.loads(finished.neighbours)
    assert near["sentences"] == ["a cat", "b", "c"]
    assert near["first"] == 0
    assert "a cat 0.90 b 0.80 c" in finished.text


def test_the_questions_whose_answers_moved_are_shown(run: Path) -> None:
    found = [FoundAnswer(query="Where?", answer="There.", before=None, after=1)]
    answers = AnswerExamples(queries=9, gains=found, losses=())
    examples = Examples(answers=answers, answers_of="faq dev")
    (run / "examples.json").write_text(examples.model_dump_json())
    text = report(run).text
    assert "Questions of “faq dev”, and the place of the first right answer" in text
    assert "Where? There. beyond 10 1" in text


def test_a_run_from_before_has_the_examples_of_its_time(run: Path) -> None:
    (run / "examples.json").unlink()
    (run / "next.json").unlink()
    page = report(run)
    assert "The clearest changes first Sentence Nearest before Nearest after old b c" in page.text
    assert "<script" not in page.html


def test_the_next_commands_are_those_of_the_log(finished: Page) -> None:
    assert "Search in this text: isotune index e t isotune search i" in finished.text


def test_a_shared_link_has_words_and_a_picture(finished: Page) -> None:
    shared = {
        attributes["property"]: attributes["content"]
        for tag, attributes in finished.tags
        if tag == "meta" and "property" in attributes
    }
    assert shared["og:title"] == "Use the new encoder: the gain is more than chance"
    assert shared["og:image"] == "share.png"
    assert shared["og:description"].startswith("The score on STS average rose")
