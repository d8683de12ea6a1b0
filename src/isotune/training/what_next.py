"""The commands that the end of a run suggests. They agree with the verdict.

A command that uses an encoder names the new one only after NEW, and else what the user had: the
start, or the teacher of a student whose start is a language model. A student that finds less than
its teacher and than words alone is suggested for no search. An encoder that was tuned to predict
labels is not for search; its classifier predicts new texts. An encoder that has learned the vectors
of a teacher is for queries: the teacher makes the index, whatever the verdict. Of pairs, the second
texts are searched, each once.
"""

import json
import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from isotune.bundled import BUNDLED_MODEL
from isotune.data.derived import RowQuery
from isotune.data.records import Opened
from isotune.data.rows import Record, Sentence, normalized, text_value
from isotune.data.sources import read_records
from isotune.encoder.classifier_head import tasks_of
from isotune.errors import InputError
from isotune.evaluation import RunEvaluation
from isotune.evaluation.labelling.needed import DO_NOT_LABEL, forecast_lines
from isotune.evaluation.run_results import LIKE_TEACHERS, TAUGHT, UNJUDGED, WithWords
from isotune.evaluation.tasks import GENERAL_PAIRS, GENERAL_TASK
from isotune.evaluation.text_changes import CHANGES, TextChanges
from isotune.files import atomic_write, write_text
from isotune.kernels.device import DEVICE
from isotune.plugins import plugin_words
from isotune.recipes import Recipe
from isotune.recipes.doors import FINISHED
from isotune.report.stages import NEXT
from isotune.training.apart_file import ApartFile
from isotune.training.run_data import STDIN
from isotune.training.run_folder import RECIPE

TEXT = "TEXT"
"""What stands in commands for the user's sentences, where no command can read those of the run."""

ANSWER_FIELDS = ("sentence2", "positive")
"""The second texts of pairs, such as the answers to questions."""

PREDICTED_FIELDS = ("sentence", "sentence1", "sentence2")
"""The texts that a classifier reads."""

ANSWERS = "answers.jsonl"
"""The file, in the run folder, of the first row of each answer, where answers have copies."""


@dataclass(frozen=True)
class EndedRun:
    """A run that is finished."""

    folder: Path
    """The run folder."""

    model: str
    """The start."""

    kept: Path
    """The folder of the kept encoder."""

    recipe: Recipe

    comparison: RunEvaluation
    """The comparison of the kept encoder with the start."""

    predicts: bool
    """Whether the encoder was tuned to predict labels or scores of rows."""

    apart: ApartFile | None
    """The file of the rows set apart; None without such a file."""

    @property
    def advised(self) -> str:
        """The encoder that the verdict advises."""
        if self.comparison.verdict.word == "NEW":
            return str(self.kept)
        return self.had

    @property
    def searches(self) -> str:
        """The encoder to search by: the advised one, unless words and the teacher find more."""
        finds_little = any(each.is_search and each.teachers for each in self.comparison.shortfalls)
        if self.comparison.is_student and finds_little:
            return self.had
        return self.advised

    @property
    def had(self) -> str:
        """The encoder that the user had: the start, or the first teacher of a student."""
        if self.comparison.is_student:
            return self.recipe.teachers[0]
        return self.model

    @property
    def index_of(self) -> str:
        """The teacher in whose index the new encoder asks; empty if the verdict advises against it.

        It is empty, too, if the new encoder gives vectors of its own.
        """
        if self.comparison.verdict.word == "KEEP":
            return ""
        return self.comparison.index_of

    @property
    def words_that_pay(self) -> Sequence[WithWords]:
        """Where words beside the vectors of the encoder to search by find more.

        There are none for a teacher, because its vectors are not joined with words.
        """
        if self.comparison.is_student and self.searches == self.had:
            return []
        return self.comparison.words_that_pay


def sources_of(recipe: Recipe) -> Sequence[str]:
    """The sources of the first stage that other commands can read.

    There are none for rows from Python or a stream.
    """
    data = recipe.inputs(recipe.stages[0]).data
    if STDIN in data:
        return ()
    return data


def text_column(recipe: Recipe) -> str:
    """The column of the text that is searched, where the user has named columns; else empty."""
    if not sources_of(recipe):
        return ""
    for field in ("sentence", *ANSWER_FIELDS):
        if field in recipe.columns:
            return recipe.columns[field]
    return ""


def write_what_next(run: EndedRun) -> list[str]:
    """Writes, for the report, what the user can do after a run; returns the lines of the log."""
    lines = list(what_next(run))
    write_text(run.folder / NEXT, json.dumps(lines, ensure_ascii=False, indent=2) + "\n")
    return lines


def what_next(run: EndedRun) -> Iterator[str]:
    """What the log says that the user can do after a run, line by line.

    A line with a command begins with two spaces.
    """
    unjudged = run.comparison.verdict.why in (UNJUDGED, TAUGHT, LIKE_TEACHERS)
    if not sources_of(run.recipe) and (unjudged or not run.predicts):
        yield "in these commands, TEXT stands for a file of your sentences, one a line:"
    if unjudged:
        yield from _label(run)
    if run.apart:
        yield from _evaluate_apart(run, run.apart)
    if run.comparison.index_of:
        yield from _ask_to_judge_search(run)
    elif run.comparison.is_student:
        yield from _compare_with_teachers(run)
    elif run.model == BUNDLED_MODEL:
        yield from _name_finished(run)
    if not run.predicts:
        yield from _search(run)
    if tasks_of(run.kept):
        yield from _predict(run)


def _label(run: EndedRun) -> Iterator[str]:
    """How pairs that the user scores tell which encoder is better."""
    compared = [*run.recipe.teachers, str(run.kept)]
    if not run.comparison.is_student:
        compared.insert(0, run.model)
    encoders = _encoder_words(*compared)
    pairs = shlex.quote(f"{run.folder}-pairs.tsv")
    yield "which encoder is better for this text? Pairs that you score can tell:"
    told = list(_what_labels_show(run))
    yield from told
    if any(line.startswith(DO_NOT_LABEL) for line in told):
        yield "if you expect a larger gain, these commands ask for scores, and compare by them:"
    if sources_of(run.recipe):
        yield f"  isotune label {_encoder_words(str(run.folder))} --out {pairs}"
    else:
        yield f"  isotune label {TEXT} --encoders {encoders} --out {pairs}"
    yield f"  isotune evaluate {encoders} --tasks {pairs}"


def _what_labels_show(run: EndedRun) -> Iterator[str]:
    """How many scored pairs tell a gain, and what gains there were elsewhere."""
    changes = run.folder / CHANGES
    # There is no such file if the text can't be read again.
    if changes.exists():
        found = TextChanges.read(changes)
        agreement = found.label_agreement
        if agreement is None:
            agreement = found.agreement
        yield from forecast_lines(agreement, run.recipe.usual_gain)
    if run.recipe.gained:
        yield f"what runs of this recipe gained: {run.recipe.gained}"


def _evaluate_apart(run: EndedRun, apart: ApartFile) -> Iterator[str]:
    """How other encoders are scored on the rows set apart."""
    if not apart.task:
        yield f"{apart.path} has the rows set apart"
        return
    compared = [run.model]
    if run.comparison.verdict.word != "KEEP":
        compared.append(str(run.kept))
    encoders = _encoder_words(*compared)
    yield f"{apart.path} has the rows set apart; to judge other encoders too, name these beside:"
    yield f"  isotune evaluate {encoders} --tasks {shlex.quote(apart.task)}"


def _name_finished(run: EndedRun) -> Iterator[str]:
    """An encoder that is ready, and how a run of the bundled model compares with that."""
    if run.predicts:
        yield f"the bundled model is for trying: --model {FINISHED} starts from a finished encoder"
        return
    encoder = str(run.kept)
    whose = "yours"
    if run.comparison.verdict.word == "KEEP":
        encoder = run.model
        whose = "the start"
    yield (
        f"the bundled model is for trying: {FINISHED}, untouched, has 85.8 on stsb-open. A run can "
        f"start from that encoder, and this command compares it with {whose}:"
    )
    tasks = shlex.join(_tasks(run))
    yield f"  isotune evaluate {_encoder_words(encoder)} {FINISHED} --tasks {tasks}"


def _ask_to_judge_search(run: EndedRun) -> Iterator[str]:
    """How a query encoder is judged, where the run was given no task of search."""
    if run.comparison.searches or not sources_of(run.recipe):
        return
    again = shlex.join(["isotune", "train", "--recipe", str(run.folder / RECIPE)])
    yield (
        "how well does it search in the teacher's index? The same run with your questions and "
        "answers tells:"
    )
    yield f"  {again} --tasks retrieval:FILE,QUESTION,ANSWER"


def _compare_with_teachers(run: EndedRun) -> Iterator[str]:
    """How a student, if it learned anything, is compared with its teachers on other tasks."""
    if run.comparison.verdict.word == "KEEP":
        return
    encoders = _encoder_words(*run.recipe.teachers, str(run.kept))
    yield "compare the student with its teacher; other tasks can stand behind --tasks:"
    yield f"  isotune evaluate {encoders} --tasks {shlex.join(_tasks(run))} --cost"


def _tasks(run: EndedRun) -> Sequence[str]:
    """The tasks that the run was judged by, or else the general pairs."""
    if run.apart and run.apart.task:
        return (run.apart.task,)
    if run.recipe.tasks:
        return run.recipe.tasks
    if run.recipe.dev not in ("none", GENERAL_PAIRS):
        return (run.recipe.dev,)
    return (GENERAL_TASK,)


def _search(run: EndedRun) -> Iterator[str]:
    """How to search in the text of the run."""
    sources = sources_of(run.recipe) or (TEXT,)
    column = text_column(run.recipe)
    answers = _answers_file(run, column)
    if answers:
        yield f"{answers} has the rows with different texts in the column {column}"
        sources = (str(answers),)
    text = shlex.join(sources)
    indexer = asker = run.searches
    options = ""
    if run.index_of:
        indexer = run.index_of
        asker = str(run.kept)
        options = f" --encoder {shlex.quote(asker)}"
        yield (
            f"the new encoder is for queries: {indexer} makes the index, and the new encoder asks "
            "in it"
        )
    else:
        yield from _doubts_about_search(run)
        if run.words_that_pay:
            options = " --hybrid"
            yield from _words_that_pay(run)
    index = shlex.quote(f"{run.folder}-index")
    columns = _columns_words(column)
    device = "".join(f" {word}" for word in _device_words())
    yield f"search in this text by meaning; to search in other files, name them in place of {text}:"
    yield f"  isotune index {_encoder_words(indexer)} {text}{columns} --out {index}"
    yield f'  isotune search {index} "YOUR QUESTION"{options}{device}'
    yield f"  isotune serve {_encoder_words(asker)} --index {index}"


def _doubts_about_search(run: EndedRun) -> Iterator[str]:
    """What to know of the encoder to search by."""
    if run.searches != run.advised:
        yield "the student finds less than words alone do, so these commands search by the teacher:"
    if run.comparison.pooled and run.searches == run.model:
        yield (
            "the next commands don't pool the start as the run did, so its scores don't hold for "
            f"them: {run.comparison.pooled}"
        )


def _words_that_pay(run: EndedRun) -> Iterator[str]:
    """What words beside the vectors of the encoder to search by find."""
    for found in run.words_that_pay:
        yield (
            f"words beside the vectors find more: {found.words}; isotune search --hybrid joins "
            'both, and so does the box "Search by words, too" on the page of isotune serve'
        )


def _predict(run: EndedRun) -> Iterator[str]:
    """How to predict new texts by the classifiers that lie beside the kept encoder."""
    tasks = tasks_of(run.kept)
    task = ""
    if len(tasks) > 1:
        task = f" --task {shlex.quote(tasks[0])}"
    named = [run.recipe.columns[field] for field in PREDICTED_FIELDS if field in run.recipe.columns]
    where = ""
    if named:
        where = f", whose text is in {' and '.join(named)}; --columns names others"
    out = shlex.quote(f"{run.folder}-predicted.csv")
    yield f"predict new texts by the classifier; FILE stands for a file of them{where}:"
    yield f"  isotune predict {_encoder_words(str(run.kept))} FILE{task} --out {out}"


def _encoder_words(*encoders: str) -> str:
    """The words that name encoders, or a run folder, with the plugins and the device of the run."""
    return shlex.join([*encoders, *plugin_words(), *_device_words()])


def _device_words() -> list[str]:
    device = os.environ.get(DEVICE)
    if device:
        return [f"--device={device}"]
    return []


def _columns_words(column: str) -> str:
    if not column:
        return ""
    return f" --columns {shlex.quote(f'sentence={column}')}"


def _answers_file(run: EndedRun, column: str) -> Path | None:
    """Writes the first row of each answer into a file; gives None where answers have no copies."""
    of_pairs = any(run.recipe.columns.get(field) == column for field in ANSWER_FIELDS)
    if not column or not of_pairs:
        return None
    # Where the text can't be read again, or the disk is full, the text is suggested as it is.
    with suppress(InputError, OSError):
        if any(is_copy for _, is_copy in _rows(run, column)):
            return _write_answers(run, column)
    return None


def _write_answers(run: EndedRun, column: str) -> Path:
    path = run.folder / ANSWERS
    with atomic_write(path) as part, part.open("w", encoding="utf-8", newline="\n") as file:
        for record, is_copy in _rows(run, column):
            if not is_copy:
                file.write(json.dumps(record, ensure_ascii=False, default=str) + "\n")
    return path


def _rows(run: EndedRun, column: str) -> Iterator[tuple[Record, bool]]:
    """The rows that have a text in a column, each with whether the text stood in a row before."""
    files: list[Opened] = []
    for source in sources_of(run.recipe):
        files += read_records(source, RowQuery(Sentence))
    digests: set[bytes] = set()
    for file in files:
        for number, record in file.records:
            text = text_value(record.get(column), column, f"{file.place}:{number}")
            if text:
                digest = blake2b(normalized(text), digest_size=16).digest()
                yield record, digest in digests
                digests.add(digest)
