"""The papers' tables and figures as commands: made as published or otherwise, and what came of it.

A paper's study is run as published, or on another model and with other options where the user says so; then it says of
itself what isn't as published.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from isotune.errors import InputError, unknown
from isotune.lab.studies import Published, Study, paper_names, read_study
from isotune.lab.studies.run import Outcome, run_study
from isotune.lab.studies.statistics import Summary
from isotune.lab.studies.table import Results, lines, of_analysis
from isotune.lab.studies.words import in_words, printed


def changed(study: Study, model: str, seeds: Sequence[int], options: Mapping[str, Any]) -> Study:
    """A study with other seeds, and with options laid over all arms that have them, over the arms' own too.

    With a model, arms that differ by their model alone are one: the first of them stays.

    Raises:
        InputError: an option is one that the study varies.
    """
    for key in options:
        for place, grid in (("it", study.grid), *((f"arm {arm.name}", arm.grid or {}) for arm in study.arms)):
            if any(_same_option(key, axis) for axis in grid):
                raise InputError(f"option {key} can't be given: {place} is run at several values of it")

    def others(own: Mapping[str, Any]) -> dict[str, Any]:
        """Options that aren't given, nor elements of one that is."""
        return {key: own[key] for key in own if not {key, key.partition(".")[0]} & options.keys()}

    kept: dict[str, str] = {}  # what an arm does -> the name of the first that does it
    names: dict[str, str] = {}  # of the arms that go -> of the one that stays
    arms = []
    for arm in study.arms:
        arm = arm.model_copy(update={"options": others(arm.options), "start": names.get(arm.start, arm.start)})
        what = repr(arm.model_copy(update={"name": "", "model": "" if model else arm.model}))
        names[arm.name] = kept.setdefault(what, arm.name)
        arms += [arm] if names[arm.name] == arm.name else []
    laid = {**others(study.options), **options}
    return study.model_copy(update={"arms": tuple(arms), "seeds": tuple(seeds) or study.seeds, "options": laid})


def departures(study: Study, published: Study, model: str, options: Mapping[str, Any]) -> list[str]:
    """What isn't as it was published, in sentences."""
    said = []
    if model and set(published.models) - {model}:
        said.append(f"The model is {model}, not the published {' or '.join(published.models)}.")
    if options:
        given = ", ".join(f"{key} = {value}" for key, value in options.items())
        said.append(f"Options other than the published ones: {given}.")
    if study.seeds != published.seeds:
        said.append(f"Seeds {', '.join(map(str, study.seeds))}, not {', '.join(map(str, published.seeds))}.")
    if gone := [arm.name for arm in published.arms if arm.name not in {kept.name for kept in study.arms}]:
        said.append(f"The same as another line so, and left out: {'; '.join(gone)}.")
    return said


def reproduce(
    name: str,
    out: str | Path,
    *,
    model: str = "",
    seeds: Sequence[int] = (),
    options: Mapping[str, Any] | None = None,
    **running: Any,
) -> Outcome:
    """Makes the runs of a paper's table or figure, and the page that has them beside what is printed.

    Args:
        name: of the study, such as "consert/table4".
        out: a folder for all of them: the study is in OUT/NAME, and runs, which studies share, in OUT/runs.
        model: in place of the published models.
        seeds: in place of the published ones.
        options: laid over the recipes, and over what the study's arms have of their own.
        running: budget, processes, threads and quiet, as of `run_study`.

    Raises:
        InputError: there is no such study, or an option can't be given.
    """
    if name not in paper_names():
        raise unknown("table or figure", name, paper_names())
    published, options, out = read_study(name), options or {}, Path(out)
    study = changed(published, model, seeds, options)
    said = departures(study, published, model, options)
    study = study.model_copy(update={"note": " ".join(filter(None, [*said, study.note]))})
    return run_study(name, out / name, study=study, runs=out / "runs", model=model, **running)


def beside(results: Results) -> Iterator[list[str]]:
    """The table of a study as rows of text: of each line what was measured, below it what is printed."""
    study = results.study
    for line in lines(study, results.runs, results.statistics):
        found = [(score, line.summary(score)) for score in study.scores]
        if line.values:
            yield [line.title, *(_measured(study, score, one) for score, one in found)]
        elif line.problems or line.waiting:
            yield [f"{line.title}: {line.problems[0] if line.problems else 'not made'}"]
        if line.published:
            made = line.values or line.problems or line.waiting
            yield ["  published" if made else f"{line.title}, published", *_printed(study, line.published)]


def of_analyses(results: Results, folder: Path) -> Iterator[str]:
    """What the paper prints that an analysis finds, beside what it found."""
    for name in results.analyses:
        table = json.loads((folder / "analyses" / f"{name}.json").read_text("utf-8"))["table"]
        for published, values in of_analysis(results.study, name, table):
            for score, value in published.scores.items():
                found = f"{values[score]:.4g}" if score in values else "not there"
                yield f"{name}, {in_words(published.arm, published.at)}: {score} {found}, published {value:g}"


def _same_option(one: str, other: str) -> bool:
    """Whether both are of the same values: "augmentations.0" and "augmentations" are, but not and "augmentations.1"."""
    return one == other or one == other.partition(".")[0] or other == one.partition(".")[0]


def _measured(study: Study, score: str, found: Summary | None) -> str:
    if found is None:
        return ""
    spread = "" if found.deviation is None else f"±{printed(study, score, found.deviation)}"
    return printed(study, score, found.mean) + spread


def _printed(study: Study, published: Published) -> Iterator[str]:
    for score in study.scores:
        value, spread = (part.get(score) for part in (published.scores, published.deviation))
        text = "" if value is None else printed(study, score, value, published=True)
        yield text + ("" if spread is None else f"±{printed(study, score, spread, published=True)}")
