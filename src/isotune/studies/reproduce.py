"""The papers' tables and figures as commands: what each needs, whether it can be made here, and what came of it.

A paper's study is run as published, or on another model and with other options where the user says so; then it says of
itself what isn't as published.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isotune.errors import InputError, unknown
from isotune.studies import Published, Study, read_study, study_names
from isotune.studies.estimate import CPU, GPU, is_here, model_folder, models, reads, seconds
from isotune.studies.plan import expand
from isotune.studies.run import Outcome, run_study
from isotune.studies.statistics import Summary
from isotune.studies.table import Results, lines, of_analysis
from isotune.studies.words import in_words, printed


@dataclass(frozen=True)
class Needs:
    """What a study needs.

    Attributes:
        runs: how many.
        cpu: hours on a CPU, estimated.
        gpu: and on a GPU.
        models: by name, and whether each is here.
        data: the same of datasets and files.
    """

    runs: int
    cpu: float
    gpu: float
    models: Mapping[str, bool]
    data: Mapping[str, bool]

    @property
    def missing(self) -> list[str]:
        """What isn't on this machine."""
        return [name for name, here in (*self.models.items(), *self.data.items()) if not here]


def papers() -> list[str]:
    """The studies that are a paper's, by name."""
    return [name for name in study_names() if not name.startswith("own/")]


def needs(study: Study, model: str = "") -> Needs:
    """What a study needs; `model` takes the place of every model that it names. Nothing is asked of the hub."""
    # Seeds differ in nothing that counts here.
    runs = expand(study.model_copy(update={"seeds": study.seeds[:1]}), model or None)
    times = [1 if run.seed is None else len(study.seeds) for run in runs]
    cpu, gpu = (
        sum(n * seconds(run, study.tasks, machine) for run, n in zip(runs, times, strict=True)) / 3600
        for machine in (CPU, GPU)
    )
    return Needs(
        sum(times),
        cpu,
        gpu,
        {name: model_folder(name) is not None for run in runs for name in models(run)},
        {
            name: is_here(name)
            for name in (*study.statistics, *(name for run in runs for name in reads(run, study.tasks)))
        },
    )


def changed(study: Study, model: str, seeds: Sequence[int], options: Mapping[str, Any]) -> Study:
    """A study with other seeds, and with options laid over all arms that have them, over the arms' own too.

    With a model, arms that differ by their model alone are one: the first of them stays.

    Raises:
        InputError: an option is one that the study varies.
    """
    for key in options:
        for place, grid in (("it", study.grid), *((f"arm {arm.name}", arm.grid or {}) for arm in study.arms)):
            if any(key == axis.partition(".")[0] for axis in grid):
                raise InputError(f"option {key} can't be given: {place} is run at several values of it")
    kept: dict[str, str] = {}  # what an arm does -> the name of the first that does it
    names: dict[str, str] = {}  # of the arms that go -> of the one that stays
    arms = []
    for arm in study.arms:
        own = {key: value for key, value in arm.options.items() if key not in options}
        arm = arm.model_copy(update={"options": own, "start": names.get(arm.start, arm.start)})
        what = repr(arm.model_copy(update={"name": "", "model": "" if model else arm.model}))
        names[arm.name] = kept.setdefault(what, arm.name)
        arms += [arm] if names[arm.name] == arm.name else []
    return study.model_copy(
        update={"arms": tuple(arms), "seeds": tuple(seeds) or study.seeds, "options": {**study.options, **options}}
    )


def departures(study: Study, published: Study, model: str, options: Mapping[str, Any]) -> list[str]:
    """What isn't as it was published, in sentences."""
    said = []
    named = dict.fromkeys(arm.model or published.model for arm in published.arms if not arm.start)
    if model and named.keys() - {model}:
        said.append(f"The model is {model}, not the published {' or '.join(named)}.")
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
    budget: float | None = None,
    processes: int | None = None,
    threads: int | None = None,
    quiet: bool = False,
) -> Outcome:
    """Makes the runs of a paper's table or figure, and the page that has them beside what is printed.

    Args:
        name: of the study, such as "consert/table4".
        out: a folder for all of them: the study is in OUT/NAME, and runs, which studies share, in OUT/runs.
        model: in place of the published models.
        seeds: in place of the published ones.
        options: laid over the recipes, and over what the study's arms have of their own.
        budget: minutes in which to begin runs, those that will be over by then by their estimate.
        processes, threads, quiet: as of `run_study`.

    Raises:
        InputError: there is no such study, or an option can't be given.
    """
    published = _of_a_paper(name)
    options = options or {}
    study = changed(published, model, seeds, options)
    said = departures(study, published, model, options)
    study = study.model_copy(update={"note": " ".join(filter(None, [*said, study.note]))})
    out = Path(out)
    return run_study(
        name,
        out / name,
        study=study,
        runs=out / "runs",
        model=model,
        budget=budget,
        processes=processes,
        threads=threads,
        quiet=quiet,
    )


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


def _of_a_paper(name: str) -> Study:
    if name not in papers():
        raise unknown("table or figure", name, papers())
    return read_study(name)
