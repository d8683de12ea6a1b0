"""The teachers of a run at its end: what they score on its tasks, and how near the student is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from isotune.encoder.encoder import Encoder
from isotune.encoder.shared_space import SHARED_SPACE
from isotune.evaluation import (
    ResampledScores,
    Task,
    differences,
    resampled_scores,
    seconds_of_encoding,
)
from isotune.evaluation.agreement import (
    HeldOut,
    Together,
    compare_agreement,
    encode_held_out,
    pair_cosines,
    taught_examples,
)
from isotune.evaluation.examples import PairExamples
from isotune.evaluation.run_results import Agreement, BesideTeachers, teacher_words
from isotune.methods.options import Use
from isotune.recipes import Recipe
from isotune.training.recorder import Recorder
from isotune.training.teachers import KeptTeacher

TIMED = 32
"""By about so many texts of the tasks, a teacher is timed beforehand."""

FLOAT32_BYTES = 4


class MeasuredTeachers(NamedTuple):
    """What the student of a run is compared with. Several teachers are one encoder."""

    names: tuple[str, ...]
    on_tasks: ResampledScores

    held_out: HeldOut | None
    """What the teachers make of the held-out sentences; None if there are none."""


class Taught(NamedTuple):
    """How the start and the kept encoder agree with the teachers; None if it is not measured."""

    agreement: Agreement | None
    examples: PairExamples | None


def tell_time_of_teachers(names: Sequence[str], tasks: Sequence[Task], recorder: Recorder) -> None:
    """Says how long the teachers will take for the texts of the tasks, at the end of the run."""
    seconds = 0.0
    size = 0
    teachers = [KeptTeacher(Encoder.load(name), recorder) for name in names]
    for teacher in teachers:
        missing: list[str] = []
        for task in tasks:
            for role, texts in task.texts().items():
                if not teacher.keeps(role, texts):
                    missing += texts
        if missing:
            # Neighbours may be alike, so the texts are taken from all places.
            sample = missing[:: max(1, len(missing) // TIMED)]
            seconds += len(missing) * seconds_of_encoding(teacher.encoder, sample) / len(sample)
            size += len(missing) * teacher.encoder.dimension * FLOAT32_BYTES
    who = teacher_words(names)
    if seconds:
        rest = timedelta(seconds=round(seconds))
        recorder.say(
            f"tasks: at the end, {who} needs about {rest} for their texts (--tasks chooses "
            f"others); their vectors, {size / 1e6:,.1f} MB, are kept in {teachers[0].folder} for "
            "other runs"
        )
    else:
        recorder.say(f"tasks: {who} has no new text of theirs to encode")


def measure_teachers(
    names: Sequence[str], tasks: Sequence[Task], held_out: Sequence[str], recorder: Recorder
) -> MeasuredTeachers | None:
    """Loads the teachers, and measures them together; None in a run without teachers."""
    if not names:
        return None
    teachers = [Encoder.load(name) for name in names]
    together = Together([KeptTeacher(teacher, recorder) for teacher in teachers])
    scores = resampled_scores(tasks, together, ", ".join(names))
    encoded = None
    if held_out:
        encoded = encode_held_out(teachers, held_out)
    return MeasuredTeachers(tuple(names), scores, encoded)


def beside_teachers(
    teachers: MeasuredTeachers | None, student: ResampledScores
) -> BesideTeachers | None:
    """The kept encoder beside the teachers on the tasks; None in a run without teachers."""
    if teachers is None:
        return None
    return BesideTeachers(
        names=teachers.names,
        evaluation=teachers.on_tasks.evaluation,
        differences=tuple(differences(teachers.on_tasks, student)),
    )


def agreement_with(
    teachers: MeasuredTeachers | None,
    before: HeldOut | None,
    after: HeldOut | None,
    sentences: Sequence[str],
    index_of: str,
) -> Taught:
    """Compares the start and the kept encoder with the teachers, on the held-out sentences.

    With `index_of`, the kept encoder asks in the index of the teacher of this name.
    """
    if teachers is None or teachers.held_out is None or before is None or after is None:
        return Taught(None, None)
    taught = teachers.held_out
    cosines = pair_cosines(taught, before, after, in_index=bool(index_of))
    return Taught(compare_agreement(cosines, taught, after), taught_examples(cosines, sentences))


def teacher_of_space(recipe: Recipe, kept: Path, selected_step: int) -> str:
    """The teacher in whose index the kept encoder asks; empty if it gives vectors of its own."""
    taught = recipe.stages[-1].options.named(Use.TEACH)
    if taught and selected_step and (kept / SHARED_SPACE).exists():
        return taught[0]
    return ""
