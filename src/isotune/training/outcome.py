"""The end of a run: the kept encoder is saved, read back from disk, and compared with the start.

The comparison uses the encoder as users get it: from the folder, not from memory.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isotune.data import ScoredPairs
from isotune.encoder.classifier import Classifier
from isotune.encoder.classifier_head import ClassifierHead, tasks_of
from isotune.encoder.encoder import Encoder
from isotune.encoder.finished import is_finished_encoder
from isotune.encoder.options import EncoderOptions
from isotune.errors import counted
from isotune.evaluation import (
    DevTask,
    Floats,
    ResampledScores,
    RetrievalResult,
    RetrievalTask,
    STSTask,
    Task,
    differences,
    resampled_controls,
    resampled_scores,
    resampled_with_words,
    sentence_vectors,
    unbeaten_lines,
    with_controls,
)
from isotune.evaluation.agreement import HeldOut, InIndex, encode_held_out
from isotune.evaluation.examples import (
    EXAMPLES,
    Examples,
    PairExamples,
    answer_examples,
    neighbours,
    pair_examples,
)
from isotune.evaluation.intervals import interval
from isotune.evaluation.label_examples import label_examples
from isotune.evaluation.labelled import LabelsApart
from isotune.evaluation.labelling.choose import chosen_agreement
from isotune.evaluation.labelling.needed import USUAL_COUNT
from isotune.evaluation.results import Difference, Evaluation, printed
from isotune.evaluation.run_results import (
    DevGain,
    RunEvaluation,
    Verdict,
    WithWords,
    speed_words,
    teacher_words,
)
from isotune.evaluation.text_changes import CHANGES, FEWEST_SENTENCES, compare_text
from isotune.evaluation.vectors import SentenceEncoder, unit_length
from isotune.files import remove, sync, write_arrays, write_text
from isotune.recipes import Recipe
from isotune.training.judges import CandidateJudges, Judges, find_judges, trained_rows
from isotune.training.labels import NAME
from isotune.training.recorder import Recorder, RunContext
from isotune.training.run_data import read_entries
from isotune.training.run_folder import Progress
from isotune.training.taught import (
    MeasuredTeachers,
    agreement_with,
    beside_teachers,
    measure_teachers,
    teacher_of_space,
    tell_time_of_teachers,
)
from isotune.training.teachers import KeptTeacher


@dataclass(frozen=True, repr=False)
class Result:
    """The result of a run. It prints in five lines.

    Attributes:
        folder: the run folder. The kept encoder is in its folder `encoder`, in
            sentence-transformers' form.
        report: the report page; None if a signal stopped the run, as for `evaluation`.
        evaluation: the scores of the start (`before`) and of the kept encoder (`after`) on the same
            tasks; correlations in [-1, 1], accuracies in [0, 1].
        stopped: the name of the signal that stopped the run early, such as "SIGINT"; None if the
            run is finished.
    """

    folder: Path
    report: Path | None
    evaluation: RunEvaluation | None
    stopped: str | None

    @cached_property
    def encoder(self) -> Encoder:
        """The kept encoder, loaded when it is first asked for."""
        return Encoder.load(self.folder / "encoder")

    @cached_property
    def classifier(self) -> Classifier:
        """The kept encoder with its classifier, loaded when it is first asked for.

        Raises:
            InputError: the method trains no classifier, or several.
        """
        return Classifier.load(self.folder / "encoder")

    @property
    def verdict(self) -> Verdict | None:
        """Which encoder to use: the `word` NEW, KEEP (the start) or CAN'T TELL, and `why`.

        None if a signal came.
        """
        if self.evaluation is None:
            return None
        return self.evaluation.verdict

    def __repr__(self) -> str:
        verdict: object = self.verdict or f"none, {self.stopped} stopped the run"
        changes: Sequence[str] = ()
        if self.evaluation and (self.evaluation.selected_step or self.evaluation.classified):
            changes = self.evaluation.all_changes
        return (
            f"run:     {self.folder}\n"
            f"verdict: {verdict}\n"
            f"change:  {'; '.join(changes) or 'none'}\n"
            f"encoder: {self.folder / 'encoder'}\n"
            f"report:  {self.report or 'none'}"
        )

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"


@dataclass(frozen=True)
class ComparedOn:
    """What the start and the kept encoder are compared on."""

    tasks: Sequence[Task]

    dev: DevTask | None
    """The dev data; None without them, or if labelled rows chose the step."""

    dev_chooses: bool
    """Whether the dev data, if there are any, chose the step of a stage."""

    by_rows: bool
    """Whether labelled rows chose the step."""

    sentences: Sequence[str]
    """Sentences of the text that was trained on; empty if it can't be read again."""

    teachers: Sequence[str]
    """The names of the encoders that the run learns from."""

    held_out: Sequence[str]
    """Sentences on which the encoders are compared with the teachers; empty if there are none."""

    pooled: str
    """How the start is pooled, if not as its folder says."""

    tunes: bool
    """Whether a stage tunes the encoder."""

    reshaped: bool
    """Whether a stage replaces prompt, pooling or heads, so that its step 0 is another encoder."""

    @cached_property
    def controls(self) -> Sequence[ResampledScores]:
        """The scores of the controls on the tasks, which are computed once."""
        return resampled_controls(self.tasks)

    @property
    def drawn(self) -> ScoredPairs | None:
        """The pairs of the report's figure: STS-B (ConSERT's Figure 1), or the first task's."""
        scored = [task.pairs for task in self.tasks if isinstance(task, STSTask)]
        for pairs in scored:
            if pairs.name == "stsb":
                return pairs
        if scored:
            return scored[0]
        return None


class MeasuredEncoder(NamedTuple):
    """What an encoder is compared by."""

    on_tasks: ResampledScores

    on_dev: ResampledScores | None
    """The measures of the dev task alone."""

    text: NDArray[np.floating[Any]]
    """[n, d] vectors of the sentences."""

    words: Sequence[WithWords]
    """What words beside the vectors find in the retrieval tasks, or else in the dev data."""

    held_out: HeldOut | None
    """What the encoder makes of the held-out sentences; None if there are none."""

    seconds: float
    """How long it took to load the encoder and to measure it."""


class Yardsticks:
    """What the kept encoder is compared with: the start, and the teachers if there are any.

    Each is measured once, when it is first asked for, by the first process for all.
    """

    def __init__(
        self, model: str, options: EncoderOptions, compared_on: ComparedOn, run: RunContext
    ) -> None:
        self.model = model
        self.compared_on = compared_on
        self._options = options
        self._run = run

    @cached_property
    def start(self) -> MeasuredEncoder:
        """What the start is compared by."""
        return self._run.workers.on_rank_zero(
            measure_encoder, self.model, self._options, self.compared_on
        )

    @cached_property
    def teachers(self) -> MeasuredTeachers | None:
        """What the teachers are compared by; None in a run without teachers."""
        on = self.compared_on
        return self._run.workers.on_rank_zero(
            measure_teachers, on.teachers, on.tasks, on.held_out, self._run.recorder
        )

    def tell_time_of_teachers(self) -> None:
        """Says how long the teachers will take for the tasks, if there are teachers."""
        on = self.compared_on
        if on.teachers:
            self._run.workers.on_rank_zero(
                tell_time_of_teachers, on.teachers, on.tasks, self._run.recorder
            )

    def seconds(self) -> float:
        """Measures both; gives the seconds that the start took, as the kept encoder will."""
        _ = self.teachers
        return self.start.seconds


def save_kept(encoder: Encoder, folder: Path, heads: Mapping[str, ClassifierHead]) -> Path:
    """Saves the kept encoder in the run folder, with the classifiers of its tasks.

    An encoder that lies there stays until the new one is whole.
    """
    new = folder / "encoder.new"
    kept = folder / "encoder"
    old = folder / "encoder.old"
    for leftover in (new, old):
        remove(leftover)
    encoder.save(new, heads)
    if kept.exists():
        kept.rename(old)
    new.rename(kept)
    sync(folder)
    remove(old)
    return kept


def measure_encoder(
    model: str | Path,
    options: EncoderOptions,
    compared_on: ComparedOn,
    index_by: KeptTeacher | None = None,
) -> MeasuredEncoder:
    """Loads an encoder, and measures it.

    In tasks of search it has an index of its own, or asks in that by `index_by`.
    """
    began = time.monotonic()
    encoder = Encoder.load(model, **options.model_dump(), precision="float32")
    searching: SentenceEncoder = encoder
    if index_by:
        searching = InIndex(encoder, index_by)
    dev = None
    words_in_dev: Sequence[WithWords] = ()
    if compared_on.dev:
        dev, words_in_dev = _scores([compared_on.dev], searching, str(model))
    text: NDArray[np.floating[Any]] = np.empty((0, 0))
    if compared_on.sentences:
        text = sentence_vectors(encoder.encode, compared_on.sentences, "the text")
    held_out = None
    if compared_on.held_out:
        held_out = encode_held_out([encoder], compared_on.held_out)
    scores, words = _scores(compared_on.tasks, searching, str(model))
    scored = with_controls(scores, compared_on.controls)
    seconds = time.monotonic() - began
    return MeasuredEncoder(scored, dev, text, words or words_in_dev, held_out, seconds)


def _scores(
    tasks: Sequence[Task], encoder: SentenceEncoder, name: str
) -> tuple[ResampledScores, Sequence[WithWords]]:
    """The scores of an encoder, and what words beside its vectors find in retrieval tasks."""
    searched = {task.name for task in tasks if isinstance(task, RetrievalTask)}
    if not searched:
        return resampled_scores(tasks, encoder, name), ()
    alone, joined = resampled_with_words(tasks, encoder, name)
    words = []
    for gain in differences(alone, joined):
        if gain.score in searched:
            words.append(WithWords(score=joined.scores[gain.score], gain=gain))
    return alone, words


def compare_with_start(
    run: RunContext,
    recipe: Recipe,
    yardsticks: Yardsticks,
    kept: Path,
    progress: Progress,
) -> RunEvaluation:
    """Measures the kept encoder, the start and the teachers, and writes what differs."""
    recorder = run.recorder
    on_rank_zero = run.workers.on_rank_zero
    compared_on = yardsticks.compared_on
    evaluated = ["this encoder", "the start"]
    if compared_on.teachers:
        evaluated.append(teacher_words(compared_on.teachers))
    _tell_what_is_evaluated(recorder, evaluated, compared_on.tasks, kept, progress)
    if progress.best_step == 0 and progress.best_score is not None:
        recorder.warn(0, _why_the_start(recipe))
    recorder.start("evaluation", 0, len(evaluated))
    before = yardsticks.start
    recorder.advance()
    teachers = yardsticks.teachers
    if teachers:
        recorder.advance()
    index_of = teacher_of_space(recipe, kept, progress.best_step)
    if progress.best_step or compared_on.reshaped:
        after = on_rank_zero(_measure_kept, kept, compared_on, index_of, recorder)
    else:
        after = on_rank_zero(_of_copy, before, kept, compared_on)
    recorder.advance()
    taught = on_rank_zero(
        agreement_with,
        teachers,
        before.held_out,
        after.held_out,
        compared_on.held_out,
        index_of,
    )
    comparison = _comparison(run, recipe, compared_on, progress, before, after)
    added = {
        "agreement": taught.agreement,
        "beside_teachers": beside_teachers(teachers, after.on_tasks),
        "index_of": index_of,
        "start_is_encoder": is_finished_encoder(yardsticks.model),
        "classified": _classified(kept, compared_on.tasks),
    }
    comparison = comparison.model_copy(update=added)
    _tell(recorder, comparison, after)
    on_rank_zero(_write, run, comparison, yardsticks, after, taught.examples)
    return comparison


def _tell_what_is_evaluated(
    recorder: Recorder,
    encoders: Sequence[str],
    tasks: Sequence[Task],
    kept: Path,
    progress: Progress,
) -> None:
    *others, last = encoders
    names = ", ".join(task.name for task in tasks)
    recorder.say(
        f"encoder: {kept}, from {progress.place_of_best}; evaluating {', '.join(others)} and "
        f"{last}: {names}"
    )


def _measure_kept(
    kept: Path, compared_on: ComparedOn, index_of: str, recorder: Recorder
) -> MeasuredEncoder:
    """Measures the kept encoder; with `index_of`, in the index of the teacher of this name."""
    teacher = None
    if index_of:
        teacher = KeptTeacher(Encoder.load(index_of), recorder)
    return measure_encoder(kept, EncoderOptions(), compared_on, teacher)


def _classified(kept: Path, tasks: Sequence[Task]) -> str:
    """The task of labels set apart, where the kept encoder has a classifier; else empty."""
    if NAME in [task.name for task in tasks] and tasks_of(kept):
        return NAME
    return ""


def _why_the_start(recipe: Recipe) -> str:
    """What the log says where dev data choose and the start was kept."""
    step = "step"
    better = "scored better on the dev data than the start"
    trainings = [stage.training for stage in recipe.stages]
    if any(training.most_forgotten is not None for training in trainings):
        step = "step that loses no more than most_forgotten"
    if any(training.interpolations and training.confidence for training in trainings):
        better += " by more than chance"
    return f"no {step} {better}, so the start was kept"


def _of_copy(measured: MeasuredEncoder, folder: Path, compared_on: ComparedOn) -> MeasuredEncoder:
    """The same measures under the name of the copy in a folder.

    Step 0 was kept, so nothing has to be measured again.
    """
    evaluation = measured.on_tasks.evaluation.model_copy(
        update={"encoder": str(folder), "created": datetime.now(UTC)}
    )
    scores = replace(measured.on_tasks, evaluation=evaluation)
    return measured._replace(on_tasks=with_controls(scores, compared_on.controls))


def _comparison(
    run: RunContext,
    recipe: Recipe,
    compared_on: ComparedOn,
    progress: Progress,
    before: MeasuredEncoder,
    after: MeasuredEncoder,
) -> RunEvaluation:
    found = differences(before.on_tasks, after.on_tasks)
    dev = None
    if compared_on.dev:
        dev = _dev_gain(compared_on.dev, before, after, compared_on.dev_chooses)
    labels = None
    if compared_on.by_rows and progress.first_score is not None and progress.best_score is not None:
        labels = (progress.first_score, progress.best_score)
    trained = trained_rows(read_entries(run.folder).values())
    judges = find_judges(recipe, _candidates(compared_on, after), trained)
    return RunEvaluation(
        before=before.on_tasks.evaluation,
        after=after.on_tasks.evaluation,
        selected_step=progress.best_step,
        selected_share=progress.best_share,
        differences=tuple(found),
        dev=dev,
        dev_is_general=judges.dev_is_general,
        own_tasks=_own_tasks(found, judges),
        words_before=tuple(before.words),
        words_after=tuple(after.words),
        trained_on=tuple(sorted(judges.trained_on)),
        general_losses_count=judges.general_losses_count,
        labels=labels,
        tunes=compared_on.tunes,
        ends=tuple(progress.ends),
        pooled=compared_on.pooled,
    )


def _candidates(compared_on: ComparedOn, after: MeasuredEncoder) -> CandidateJudges:
    """The tasks, groups and dev data that could judge.

    Of a task with several measures, the first could.
    """
    sources = {}
    others = set(after.on_tasks.evaluation.averages)
    for task in compared_on.tasks:
        if isinstance(task, DevTask):
            sources[task.name] = task.pairs.source
        else:
            others.add(task.name)
    dev = ""
    if compared_on.dev:
        dev = compared_on.dev.pairs.source
    return CandidateJudges(sources, others, dev)


def _own_tasks(found: Sequence[Difference], judges: Judges) -> tuple[str, ...]:
    return tuple(change.score for change in found if change.score in judges.tasks)


def _dev_gain(
    task: DevTask, before: MeasuredEncoder, after: MeasuredEncoder, chose_step: bool
) -> DevGain:
    old = before.on_dev
    new = after.on_dev
    assert old is not None
    assert new is not None
    low, high = interval(new.samples[task.name] - old.samples[task.name])
    return DevGain(
        name=task.pairs.source,
        unit=task.unit,
        rows=len(old.values[task.name]),
        before=old.scores[task.name],
        after=new.scores[task.name],
        low=low,
        high=high,
        chose_step=chose_step,
    )


def _tell(recorder: Recorder, comparison: RunEvaluation, after: MeasuredEncoder) -> None:
    """Says in the log what the comparison found."""
    _tell_scores(recorder, comparison)
    _tell_labels(recorder, after.on_tasks)
    _tell_controls(recorder, comparison.after)
    _tell_words(recorder, comparison)


def _tell_scores(recorder: Recorder, comparison: RunEvaluation) -> None:
    recorder.say(
        "the start -> the kept encoder, with the 95 % interval of the difference; correlations, "
        "accuracies and measures of rankings are multiplied by 100"
    )
    intervals = {gain.score: f" ({gain.words})" for gain in comparison.differences}
    title = comparison.score_words
    before = comparison.before.scores()
    if comparison.index_of:
        recorder.say(
            "in search, the start has an index of its own, and the kept encoder asks in that of "
            f"{teacher_words([comparison.index_of])}"
        )
    for name, score in comparison.after.scores().items():
        change = f"{printed(name, before[name])} -> {printed(name, score)}"
        recorder.say(f"{title(name)}: {change}{intervals.get(name, '')}")
    for gain in comparison.gains:
        if gain.kind == "agreement":
            recorder.say(gain.words)
    for task in comparison.after.tasks:
        if isinstance(task, RetrievalResult):
            queries = counted(task.queries, "query")
            recorder.say(f"{task.name}: {queries}, each among {counted(task.documents, 'text')}")
    _tell_nearness(recorder, comparison)


def _tell_nearness(recorder: Recorder, comparison: RunEvaluation) -> None:
    """Says how near the kept encoder is to its teachers, and what both cost."""
    if comparison.beside_teachers is None:
        return
    recorder.say(f"the kept encoder beside {teacher_words(comparison.beside_teachers.names)}:")
    for each in comparison.nearness:
        recorder.say(each.words(each.score))
    told = comparison.agreement
    if told:
        millions = f"{told.student.weights / 1e6:.1f} of {told.teachers.weights / 1e6:.1f}"
        recorder.say(
            f"{speed_words(told)}, measured once on the held-out sentences; {millions} million "
            "weights"
        )


def _tell_labels(recorder: Recorder, after: ResampledScores) -> None:
    """Says how well the labels of the rows set apart are predicted, with 95 % intervals."""
    if NAME not in after.samples:
        return
    words = []
    for score, measure in ((NAME, "accuracy"), (f"{NAME}-macro-f1", "macro F1")):
        low, high = interval(after.samples[score])
        ends = f"{100 * low:.2f} to {100 * high:.2f}"
        words.append(f"{measure} {100 * after.scores[score]:.2f} (95 % interval {ends})")
    recorder.say(f"labels of the rows set apart, as the classifier predicts: {', '.join(words)}")


def _tell_controls(recorder: Recorder, after: Evaluation) -> None:
    """Says what the scores of the kept encoder are worth."""
    for control in after.controls:
        scores = control.scores()
        for each in control.main_differences:
            recorder.say(
                f"{each.score}: {control.name} {100 * scores[each.score]:.2f}; the kept encoder is "
                f"{100 * each.difference:+.2f} from it ({each.words})"
            )
    for line in unbeaten_lines(after, "the kept encoder"):
        recorder.say(line)


def _tell_words(recorder: Recorder, comparison: RunEvaluation) -> None:
    """Says what words beside the vectors find, before and after."""
    for old, new in zip(comparison.words_before, comparison.words_after, strict=True):
        recorder.say(
            f"{new.gain.score}, with words beside the vectors: {100 * old.score:.2f} -> "
            f"{100 * new.score:.2f}; against the vectors alone, the start {old.gain.words}, the "
            f"kept encoder {new.gain.words}"
        )


class Valued(NamedTuple):
    """A task with the values of its rows."""

    name: str
    task: Task
    before: Floats
    after: Floats


def _valued_tasks(
    compared_on: ComparedOn,
    comparison: RunEvaluation,
    before: MeasuredEncoder,
    after: MeasuredEncoder,
) -> list[Valued]:
    """The tasks whose rows have values; those that speak for the user's text come first."""
    own = []
    others = []
    for task in compared_on.tasks:
        valued = Valued(
            task.name, task, before.on_tasks.values[task.name], after.on_tasks.values[task.name]
        )
        if task.name in comparison.own_tasks:
            own.append(valued)
        else:
            others.append(valued)
    dev = compared_on.dev
    if dev and before.on_dev and after.on_dev and not comparison.dev_is_general:
        old = before.on_dev.values[dev.name]
        new = after.on_dev.values[dev.name]
        own.append(Valued(dev.pairs.source, dev, old, new))
    return own + others


def _examples(
    compared_on: ComparedOn,
    comparison: RunEvaluation,
    before: MeasuredEncoder,
    after: MeasuredEncoder,
    taught: PairExamples | None,
) -> Examples:
    """What the report shows of texts."""
    found: dict[str, Any] = {"teachers": taught}
    for name, task, old, new in _valued_tasks(compared_on, comparison, before, after):
        if isinstance(task, STSTask) and "people" not in found:
            texts = list(zip(task.pairs.sentence1, task.pairs.sentence2, strict=True))
            found["people"] = pair_examples(texts, task.pairs.scores, old, new)
            found["people_of"] = name
        if isinstance(task, LabelsApart) and "labels" not in found:
            found["labels"] = label_examples(task, old, new)
        if isinstance(task, RetrievalTask) and "answers" not in found:
            found["answers"] = answer_examples(task, old, new)
            found["answers_of"] = name
    if len(compared_on.sentences) >= FEWEST_SENTENCES:
        found["neighbours"] = neighbours(compared_on.sentences, before.text, after.text)
    return Examples(**found)


def _label_agreement(
    comparison: RunEvaluation, yardsticks: Yardsticks, after: MeasuredEncoder
) -> float:
    """How alike the encoders are that labels would compare, on pairs that a person would score.

    These are the start and the kept encoder; or a student and its teachers.
    """
    vectors = [unit_length(yardsticks.start.text), unit_length(after.text)]
    teachers = yardsticks.teachers
    if teachers and teachers.held_out and after.held_out and comparison.is_student:
        vectors = [teachers.held_out.vectors, after.held_out.vectors]
    return chosen_agreement(vectors, USUAL_COUNT)


def _write(
    run: RunContext,
    comparison: RunEvaluation,
    yardsticks: Yardsticks,
    after: MeasuredEncoder,
    taught: PairExamples | None,
) -> None:
    folder = run.folder
    compared_on = yardsticks.compared_on
    before = yardsticks.start
    examples = _examples(compared_on, comparison, before, after, taught)
    write_text(folder / "evaluation.json", comparison.model_dump_json(indent=2) + "\n")
    write_text(folder / EXAMPLES, examples.model_dump_json() + "\n")
    pairs = compared_on.drawn
    if pairs is not None:
        cosines = {
            "before": before.on_tasks.values[pairs.name],
            "after": after.on_tasks.values[pairs.name],
            "gold": pairs.scores,
        }
        arrays: dict[str, Any] = {}
        for name, values in cosines.items():
            arrays[name] = values.astype(np.float32)
        arrays["task"] = np.array(pairs.name)
        write_arrays(folder / "cosines.npz", arrays)
    if len(compared_on.sentences) < FEWEST_SENTENCES:
        return
    changes = compare_text(before.text, after.text, compared_on.sentences)
    alike = _label_agreement(comparison, yardsticks, after)
    changes = changes.model_copy(update={"label_agreement": alike})
    write_text(folder / CHANGES, changes.model_dump_json(indent=2) + "\n")
    other = round((1 - changes.same_nearest) * changes.sentences)
    if other:
        run.recorder.say(
            f"{other:,} of {changes.sentences:,} sentences of the text have another nearest "
            "sentence than before; the report shows the clearest"
        )
