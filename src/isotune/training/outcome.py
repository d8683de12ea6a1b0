"""The end of a run: the kept encoder is saved, read back from disk, and compared with the start.

The comparison uses the encoder as users get it: from the folder, not from memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isotune.data import ScoredPairs
from isotune.encoder.encoder import Encoder
from isotune.encoder.options import EncoderOptions
from isotune.evaluation import (
    GROUPS,
    DevTask,
    Measured,
    STSTask,
    Task,
    differences,
    measure,
    sentence_vectors,
)
from isotune.evaluation.intervals import interval
from isotune.evaluation.results import DevGain, RunEvaluation, Verdict, printed
from isotune.evaluation.tasks import GENERAL_TASK
from isotune.evaluation.text_changes import CHANGES, FEWEST_SENTENCES, compare_text
from isotune.files import read_json, remove, sync, write_arrays, write_text
from isotune.recipes import Recipe
from isotune.training.corpora import MUCH_OVERLAP
from isotune.training.recorder import RunContext
from isotune.training.run_folder import Progress


@dataclass(frozen=True, repr=False)
class Result:
    """The result of a run. It prints in five lines.

    Attributes:
        folder: the run folder. The kept encoder is in its folder `encoder`, in sentence-transformers' form.
        report: the report page; None if a signal stopped the run, as for `evaluation`.
        evaluation: the scores of the start (`before`) and of the kept encoder (`after`) on the same tasks; correlations
            in [-1, 1], accuracies in [0, 1].
        stopped: the name of the signal that stopped the run early, such as "SIGINT"; None if the run is finished.
    """

    folder: Path
    report: Path | None
    evaluation: RunEvaluation | None
    stopped: str | None

    @cached_property
    def encoder(self) -> Encoder:
        """The kept encoder, loaded when it is first asked for."""
        return Encoder.load(self.folder / "encoder")

    @property
    def verdict(self) -> Verdict | None:
        """Which encoder to use: the `word` NEW, KEEP (the start) or CAN'T TELL, and `why`; None if a signal came."""
        return self.evaluation.verdict if self.evaluation else None

    def __repr__(self) -> str:
        changes = (
            self.evaluation.changes if self.evaluation and self.evaluation.selected_step else ()
        )
        return (
            f"run:     {self.folder}\n"
            f"verdict: {self.verdict or f'none, {self.stopped} stopped the run'}\n"
            f"change:  {'; '.join(changes) or 'none'}\n"
            f"encoder: {self.folder / 'encoder'}\n"
            f"report:  {self.report or 'none'}"
        )

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"


def save_kept(encoder: Encoder, folder: Path) -> Path:
    """Saves the kept encoder in the run folder. An encoder that lies there already stays until the new one is whole."""
    new, kept, old = (folder / name for name in ("encoder.new", "encoder", "encoder.old"))
    for leftover in (new, old):
        remove(leftover)
    encoder.save(new)
    if kept.exists():
        kept.rename(old)
    new.rename(kept)
    sync(folder)
    remove(old)
    return kept


def compare_with_start(
    run: RunContext,
    plan: Recipe,
    start: Callable[[], Measures],
    kept: Path,
    scored_on: Scored,
    progress: Progress,
) -> RunEvaluation:
    """Measures the start and the kept encoder, and writes the evaluation, the cosines and the changes in text."""
    recorder = run.recorder
    names = ", ".join(task.name for task in scored_on.tasks)
    recorder.say(
        f"encoder: {kept}, from step {progress.best_step}; evaluating this encoder and the start: {names}"
    )
    if progress.best_step == 0 and progress.best_score is not None:
        recorder.warn(
            0, "no step scored better on the dev data than the start, so the start was kept"
        )
    recorder.start("evaluation", 0, 2)
    before = start()
    recorder.advance()
    if progress.best_step or scored_on.reshaped:
        after = run.workers.by_leader(partial(measurements, kept, EncoderOptions(), scored_on))
    else:  # the start itself
        evaluation = before.scored.evaluation.model_copy(
            update={"encoder": str(kept), "created": datetime.now(UTC)}
        )
        after = before._replace(scored=replace(before.scored, evaluation=evaluation))
    recorder.advance()
    dev = scored_on.dev and _dev_gain(scored_on.dev, before, after)
    gains = differences(before.scored, after.scored)
    labels = None
    if scored_on.by_rows and progress.first_score is not None and progress.best_score is not None:
        labels = progress.first_score, progress.best_score
    data = read_json(run.folder / "data.json").values()
    shared = [counts for feed in data for counts in feed.get("overlap", {}).items()]
    trained = {
        name
        for name, n in shared
        if n.get("rows", 0) > MUCH_OVERLAP * (n["of_pairs"] or n["of_sentences"])
    }
    judges = {task.name: task.pairs.source for task in scored_on.tasks if isinstance(task, DevTask)}
    trained_on = trained & {
        *judges.values(),
        *([scored_on.dev.pairs.source] if scored_on.dev else []),
    }
    own_text = any(
        _is_general(source) for stage in plan.stages for source in plan.inputs(stage).data
    )
    general = own_text and GENERAL_TASK in plan.tasks  # whether the general pairs judge too
    mute = {
        name
        for name, source in judges.items()
        if source in trained or (_is_general(name) and not general)
    }
    named = {
        *after.scored.evaluation.averages,
        *(task.name for task in scored_on.tasks),
    }  # no other measures of a task
    own = {name for name in named if not mute & {name, *GROUPS.get(name, ())}}
    comparison = RunEvaluation(
        before=before.scored.evaluation,
        after=after.scored.evaluation,
        selected_step=progress.best_step,
        differences=tuple(gains),
        dev=dev,
        dev_is_general=_is_general(plan.dev) and not own_text,
        own_tasks=tuple(gain.score for gain in gains if plan.tasks and gain.score in own),
        trained_on=tuple(sorted(trained_on)),
        labels=labels,
        ends=tuple(progress.ends),
        pooled=scored_on.pooled,
    )
    recorder.say(
        "the start -> the kept encoder, with the 95 % interval of the difference; correlations, accuracies and "
        "measures of rankings are multiplied by 100"
    )
    intervals = {gain.score: f" ({gain.words})" for gain in gains}
    for name, score_after in after.scored.scores.items():
        score_before = before.scored.scores[name]
        recorder.say(
            f"{name}: {printed(name, score_before)} -> {printed(name, score_after)}{intervals.get(name, '')}"
        )
    run.workers.by_leader(partial(_write, run, comparison, scored_on, before, after))
    return comparison


def _is_general(source: str) -> bool:
    return source.partition(":")[0] == GENERAL_TASK


class Scored(NamedTuple):
    """What the start and the kept encoder are compared on."""

    tasks: Sequence[Task]
    dev: DevTask | None  # what chose the step
    by_rows: bool  # whether labelled rows chose the step
    sentences: Sequence[str]  # of the text that was trained on; empty if it can't be read again
    pooled: str  # how the start is pooled, if not as its folder says
    reshaped: bool  # whether a stage replaces prompt, pooling or heads, so that its step 0 is another encoder

    @property
    def drawn(self) -> ScoredPairs | None:
        """The pairs of the report's figure: STS-B, as in ConSERT's Figure 1, or else those of the first task."""
        scored = [task.pairs for task in self.tasks if isinstance(task, STSTask)]
        return next(
            (pairs for pairs in scored if pairs.name == "stsb"), scored[0] if scored else None
        )


class Measures(NamedTuple):
    """What an encoder is compared by."""

    scored: Measured
    dev: Measured | None  # by the dev task alone
    text: NDArray[np.floating[Any]]  # [n, d] vectors of the sentences
    seconds: float  # that it took to load the encoder and to measure it


def measurements(model: str | Path, options: EncoderOptions, scored_on: Scored) -> Measures:
    """Loads an encoder, and measures it."""
    began = time.monotonic()
    encoder = Encoder.load(model, **options.model_dump(), precision="float32")
    dev = measure([scored_on.dev], encoder, str(model)) if scored_on.dev else None
    sentences = scored_on.sentences
    text = (
        sentence_vectors(encoder.encode, sentences, "the text") if sentences else np.empty((0, 0))
    )
    scored = measure(scored_on.tasks, encoder, str(model))
    return Measures(scored, dev, text, time.monotonic() - began)


def _dev_gain(task: DevTask, before: Measures, after: Measures) -> DevGain:
    measured = [side.dev for side in (before, after) if side.dev]
    old, new = (each.samples[task.name] for each in measured)
    low, high = interval(new - old)
    return DevGain(
        name=task.pairs.source,
        unit=task.unit,
        rows=len(measured[0].values[task.name]),
        before=measured[0].scores[task.name],
        after=measured[1].scores[task.name],
        low=low,
        high=high,
    )


def _write(
    run: RunContext, found: RunEvaluation, scored_on: Scored, before: Measures, after: Measures
) -> None:
    folder = run.folder
    write_text(folder / "evaluation.json", found.model_dump_json(indent=2) + "\n")
    if scored_on.drawn is not None:
        name, gold = scored_on.drawn.name, scored_on.drawn.scores
        arrays = {
            "before": before.scored.values[name],
            "after": after.scored.values[name],
            "gold": gold,
        }
        arrays = {each: values.astype(np.float32) for each, values in arrays.items()}
        write_arrays(folder / "cosines.npz", {**arrays, "task": np.array(name)})
    if len(scored_on.sentences) >= FEWEST_SENTENCES:
        changes = compare_text(before.text, after.text, scored_on.sentences)
        write_text(folder / CHANGES, changes.model_dump_json(indent=2) + "\n")
        if other := round((1 - changes.same_nearest) * changes.sentences):
            run.recorder.say(
                f"{other:,} of {changes.sentences:,} sentences of the text have another nearest sentence than before; "
                "the report shows the clearest"
            )
