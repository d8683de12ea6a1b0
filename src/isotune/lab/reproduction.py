"""The papers' tables and figures made again: what `isotune reproduce` does.

A paper's table or figure is a study in `studies/papers/`. It is made as published, or on another model and with other
options if the user says so. The page then says what is not as published.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from isotune.errors import InputError, unknown
from isotune.lab.studies import Study, paper_names, read_study
from isotune.lab.studies.lines import beside_analysis
from isotune.lab.studies.results import Results
from isotune.lab.studies.run_study import StudyOutcome, run_study
from isotune.lab.studies.wording import line_title


def reproduce(
    name: str,
    out: str | Path,
    *,
    model: str = "",
    seeds: Sequence[int] = (),
    options: Mapping[str, Any] | None = None,
    **running: Any,
) -> StudyOutcome:
    """Makes the runs of a paper's table or figure, and a page with measured and published numbers.

    Args:
        name: the study, such as "consert/table4".
        out: a folder for all reproduced studies: this one is in OUT/NAME, and the runs, which they share, in OUT/runs.
        model: replaces every published model.
        seeds: replace the published ones.
        options: replace the options of the recipes and of the study's arms.
        running: minutes, stand_ins, processes, threads and quiet, as of `run_study`.

    Raises:
        InputError: there is no such table or figure, or an option can't be given.
    """
    if name not in paper_names():
        raise unknown("table or figure", name, paper_names())
    published, options, out = read_study(name), options or {}, Path(out)
    study = changed_study(published, seeds, options)
    note = " ".join(filter(None, [*departures(study, published, model, options), study.note]))
    study = study.model_copy(update={"note": note})
    return run_study(name, out / name, study=study, runs=out / "runs", model=model, **running)


def changed_study(study: Study, seeds: Sequence[int], options: Mapping[str, Any]) -> Study:
    """A study with other seeds, and with options that replace those of the study and of its arms.

    Raises:
        InputError: the study runs one of the options at several values.
    """
    for key in options:
        for place, grid in (("the study", study.grid), *((f"arm {arm.name}", arm.grid or {}) for arm in study.arms)):
            if any(_overlap(key, axis) for axis in grid):
                raise InputError(f"option {key} can't be given: {place} runs it at several values")

    def not_given(kept: Mapping[str, Any]) -> dict[str, Any]:
        return {key: kept[key] for key in kept if not {key, key.partition(".")[0]} & options.keys()}

    arms = tuple(arm.model_copy(update={"options": not_given(arm.options)}) for arm in study.arms)
    shared = {**not_given(study.options), **options}
    return study.model_copy(update={"arms": arms, "seeds": tuple(seeds) or study.seeds, "options": shared})


def departures(study: Study, published: Study, model: str, options: Mapping[str, Any]) -> list[str]:
    """What is not as published, in sentences."""
    sentences = []
    if model and set(published.models) - {model}:
        sentences.append(f"The model is {model}, not the published {' or '.join(published.models)}.")
    if options:
        given = ", ".join(f"{key} = {value}" for key, value in options.items())
        sentences.append(f"Options that differ from the published ones: {given}.")
    if study.seeds != published.seeds:
        sentences.append(f"Seeds {', '.join(map(str, study.seeds))}, not {', '.join(map(str, published.seeds))}.")
    return sentences


def _overlap(option: str, other: str) -> bool:
    """Whether two options set the same value: "augmentations" overlaps "augmentations.0", which overlaps no ".1"."""
    return option == other or option == other.partition(".")[0] or other == option.partition(".")[0]


def table_rows(results: Results) -> Iterator[list[str]]:
    """A study's table as rows of text: each line's measured scores, and below them the published ones."""
    study = results.study
    for line in results.lines:
        if line.values:
            yield [line.title, *(line.measured(study, score) for score in study.scores)]
        elif line.problems or line.waiting:
            yield [f"{line.title}: {line.problems[0] if line.problems else 'not made'}"]
        if line.published:
            expected = line.values or line.problems or line.waiting
            title = "  published" if expected else f"{line.title}, published"
            yield [title, *(line.printed(study, score) for score in study.scores)]


def analysis_sentences(results: Results, folder: Path) -> Iterator[str]:
    """Each number that the paper prints of an analysis, with the measured one, from the study's folder."""
    for name in results.analyses:
        table = json.loads((folder / "analyses" / f"{name}.json").read_text("utf-8"))["table"]
        for published, values in beside_analysis(results.study, name, table):
            for score, value in published.scores.items():
                measured = f"{values[score]:.4g}" if score in values else "not measured"
                yield f"{name}, {line_title(published.arm, published.at)}: {score} {measured}, published {value:g}"
