"""The labelled rows of a run: read once, and divided into those to train on and those set apart.

All stages of a run whose methods learn from labels train on the same rows. The rows that are set
apart say what the result is worth. Copies of a text stand on one side.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import isfinite

import numpy as np

from isotune.data import LabelledSentence, read
from isotune.data.draws import derive_seed
from isotune.data.rows import LIST_SEPARATOR, copy_key
from isotune.data.sources import FromPython, Source
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError, counted, first_names, unknown
from isotune.evaluation import ResampledScores, differences, resampled_scores
from isotune.evaluation.labelled import RowsApart, rows_apart
from isotune.evaluation.results import Difference
from isotune.methods.options import ClassifierOptions, LabelOptions
from isotune.recipes import Recipe, Stage

NAME = "labels"
"""The name of the task that the rows set apart are."""

Labelled = Sequence[LabelledSentence]

JOINED = re.compile(r"\w\s*([|;,])\s*\w")
"""A cell that seems to hold several labels."""

MISSING = ("nan", "none", "null", "<na>")
"""What pandas, Python and databases write for a missing value, in small letters."""


@dataclass(frozen=True)
class LabelledData:
    """The labelled rows of a run."""

    options: ClassifierOptions
    """How labels are read and predicted, with the names of all classes."""

    train: Labelled
    """The rows that are trained on."""

    test: Labelled
    """The rows that say what the result is worth."""

    commits: Mapping[str, str]
    """For each place on the hub, the commit that was read."""

    row_type: type[LabelledSentence] = LabelledSentence

    def task(self) -> RowsApart:
        """The task of predicting the labels of the rows that are set apart."""
        return rows_apart(NAME, self.train, self.test, self.options)

    def lines(self) -> Iterator[str]:
        """What the log says of the rows."""
        rows = f"{counted(len(self.train), 'row')} to train on, {len(self.test):,} set apart"
        if self.options.kind == "score":
            yield f"labels: numbers; {rows}"
            return
        trained = self._rows_of_labels(self.train)
        tested = self._rows_of_labels(self.test)
        label, count = trained.most_common(1)[0]
        largest = f"{label!r} stands at {count / len(self.train):.0%} of these"
        yield f"labels: {counted(len(trained), 'label')}; {rows}; {largest}"
        single = [label for label, count in trained.items() if count == 1]
        for what, labels in (
            ("stand at one row alone", single),
            ("stand at rows set apart, and at no row to train on", tested.keys() - trained.keys()),
            ("stand at no row set apart", trained.keys() - tested.keys()),
            ("differ in capitals or in how a number is written alone", _alike(trained)),
            ("may stand for a missing value", [name for name in trained if _is_missing(name)]),
        ):
            if labels:
                yield f"labels that {what}: {first_names(sorted(labels))}"

    def _rows_of_labels(self, rows: Labelled) -> Counter[str]:
        counts: Counter[str] = Counter()
        for row in rows:
            counts.update(self.options.labels_of(row.label))
        return counts


def read_labelled(recipe: Recipe, rows: Iterable[FromPython] | None) -> LabelledData | None:
    """Reads the labelled rows of a run; None if no stage learns from the user's labels.

    `rows` are rows from Python, in place of the recipe's sources.

    Raises:
        InputError: nothing can be learned from the labels, or no row can be set apart.
    """
    stages = [stage for stage in recipe.stages if isinstance(stage.options, LabelOptions)]
    if not stages:
        return None
    stage = stages[-1]
    assert isinstance(stage.options, LabelOptions)
    options = _options_of(stage)
    if len(stages) > 1 and options.kind != "single":
        raise InputError(
            f"kind {options.kind}: method {stages[0].method} learns from one label a text; the "
            "method classifier alone predicts several labels, or numbers"
        )
    sources = sources_or_rows(recipe.inputs(stage).data, rows)
    given = read(sources, LabelledSentence, recipe.columns, min_words=stage.training.min_words)
    labelled = list(given)
    options = _with_classes(labelled, options, ", ".join(recipe.data) or "rows")
    train: Labelled = labelled
    test_data = options.test_data
    if test_data:
        test: Labelled = list(read(test_data, LabelledSentence, recipe.columns))
        _check_cells(test, options, ", ".join(test_data))
    else:
        train, test = divided(labelled, options, derive_seed(recipe.seed, "rows apart"))
    _check_texts(train)
    options = _without_untrained(options, train, stage.options)
    return LabelledData(options, train, test, given.commits)


def sources_or_rows(data: Sequence[str], rows: Iterable[FromPython] | None) -> Sequence[Source]:
    """The sources that a recipe names, or else the rows from Python.

    Raises:
        InputError: there are neither, because a resumed run was given no rows.
    """
    if data:
        return data
    if rows is None:
        raise InputError("this run was started with rows from Python; give the same rows again")
    return [rows]


def with_labels(recipe: Recipe, labelled: LabelledData) -> Recipe:
    """The recipe with the names of the classes, and with batches that the rows can fill."""
    table = recipe.table()
    rows = len(labelled.train)
    for stage, part in zip(recipe.stages, table["stages"], strict=True):
        if isinstance(stage.options, LabelOptions):
            part["classes"] = labelled.options.classes
            part["batch_size"] = min(stage.training.batch_size, rows)
    return Recipe.from_table(table)


def gain_of_tuning(task: RowsApart, start: ResampledScores, tuned: Encoder) -> Difference:
    """How much better the tuned encoder predicts the labels of the rows set apart than the start.

    `start` has the measures of the start on this task, the first of those that it was measured on.
    """
    found = differences(start, resampled_scores([task], tuned, "tuned"))
    return next(difference for difference in found if difference.score == task.name)


def divided(
    rows: Labelled, options: ClassifierOptions, seed: int
) -> tuple[list[LabelledSentence], list[LabelledSentence]]:
    """The rows to train on and the rows set apart: of each label, the share that the options name.

    Copies of a text stand where its first row stands. Several labels, and numbers, count as one
    label.
    """
    keys = [copy_key(row.sentence) for row in rows]
    label_of_text: dict[bytes, str] = {}
    for row, key in zip(rows, keys, strict=True):
        label = row.label if options.kind == "single" else ""
        label_of_text.setdefault(key, label)
    texts_of_label: defaultdict[str, list[bytes]] = defaultdict(list)
    for text, label in label_of_text.items():
        texts_of_label[label].append(text)
    generator = np.random.default_rng(seed)
    apart: set[bytes] = set()
    for _, texts in sorted(texts_of_label.items()):
        order = generator.permutation(len(texts))
        # A label with a single text is trained on.
        count = min(round(options.test_share * len(texts)), len(texts) - 1)
        apart.update(texts[place] for place in order[:count])
    train = [row for row, key in zip(rows, keys, strict=True) if key not in apart]
    test = [row for row, key in zip(rows, keys, strict=True) if key in apart]
    if not test:
        raise InputError(
            f"{counted(len(rows), 'row')}: too few to set {options.test_share:g} of each label "
            "apart; give more rows, a larger test_share, or rows to score on by test_data"
        )
    return train, test


def _options_of(stage: Stage) -> ClassifierOptions:
    """How the labels of a stage are read and predicted."""
    options = stage.options
    if isinstance(options, ClassifierOptions):
        return options
    assert isinstance(options, LabelOptions)
    return ClassifierOptions(**options.model_dump(include=set(LabelOptions.model_fields)))


def _with_classes(rows: Labelled, options: ClassifierOptions, source: str) -> ClassifierOptions:
    """The options with the names of all classes, those that are given or those of the rows."""
    _check_cells(rows, options, source)
    if options.kind == "score":
        return options
    if options.kind == "multi" and not options.separator and not options.classes:
        _refuse_joined_labels(rows, source)
    texts_of_label: defaultdict[str, set[bytes]] = defaultdict(set)
    for row in rows:
        for label in options.labels_of(row.label):
            texts_of_label[label].add(copy_key(row.sentence))
    _check_labels(texts_of_label, rows, options, source)
    classes = options.classes or tuple(_in_order(texts_of_label))
    return options.model_copy(update={"classes": classes})


def _check_labels(
    texts_of_label: Mapping[str, set[bytes]],
    rows: Labelled,
    options: ClassifierOptions,
    source: str,
) -> None:
    """Refuses labels that nobody has named, too few labels, and those that no two texts share."""
    for label in texts_of_label:
        if options.classes and label not in options.classes:
            raise InputError(f"{source}: {unknown('label', label, options.classes)}")
    if not texts_of_label:
        raise InputError(f"{source}: no text has a label; one label or more is needed")
    if options.kind == "single" and len(texts_of_label) < 2:
        raise InputError(f"{source}: all labels are {rows[0].label!r}; two or more are needed")
    if all(len(texts) == 1 for texts in texts_of_label.values()):
        advice = "give several texts of each label, or name the column of the labels by columns"
        if all(map(_is_number, texts_of_label)):
            advice += ", or predict numbers by the method classifier and kind score"
        raise InputError(
            f"{source}: {len(texts_of_label):,} different labels for {len(rows):,} texts, none for "
            f"two of them: {first_names(sorted(texts_of_label))}; {advice}"
        )


def _check_texts(train: Labelled) -> None:
    """Refuses rows to train on that are all copies of one text."""
    if len({copy_key(row.sentence) for row in train}) < 2:
        raise InputError(
            f"labels: {counted(len(train), 'row')} to train on, of one text; give more texts"
        )


def _without_untrained(
    options: ClassifierOptions, train: Labelled, given: LabelOptions
) -> ClassifierOptions:
    """The options without the classes that no row to train on has.

    Such a class is an error if the user has named it, or if too few are left.
    """
    trained: set[str] = set()
    for row in train:
        trained.update(options.labels_of(row.label))
    missing = [label for label in given.classes if label not in trained]
    if missing:
        raise InputError(f"classes: no row to train on has the label {first_names(missing)}")
    classes = tuple(label for label in options.classes if label in trained)
    fewest = {"single": 2, "multi": 1, "score": 0}[options.kind]
    if len(classes) < fewest:
        raise InputError(
            f"the rows to train on have {counted(len(classes), 'label')}, and kind {options.kind} "
            f"needs {fewest} or more; give more rows, or a smaller test_share"
        )
    return options.model_copy(update={"classes": classes})


def _check_cells(rows: Labelled, options: ClassifierOptions, source: str) -> None:
    """Refuses lists of labels where a text has one label, and text where numbers are predicted."""
    for row in rows:
        where = f"{source}: {row.sentence!r:.60}"
        if LIST_SEPARATOR in row.label and options.kind != "multi":
            labels = ", ".join(row.label.split(LIST_SEPARATOR))
            has = f"several labels ({labels:.60})"
            if row.label == LIST_SEPARATOR:
                has = "an empty list of labels"
            raise InputError(
                f"{where} has {has}; the method classifier predicts such labels, with kind multi"
            )
        if options.kind == "score" and not _is_number(row.label):
            raise InputError(
                f"{where} has the label {row.label!r:.60}, and kind score predicts numbers; "
                "give kind single, or another column"
            )


def _refuse_joined_labels(rows: Labelled, source: str) -> None:
    """Refuses cells that seem to hold several labels, where nobody has said what is between them.

    They would be read as a label each. Rows with lists of labels need no separator.
    """
    if any(LIST_SEPARATOR in row.label for row in rows):
        return
    for row in rows:
        if match := JOINED.search(row.label):
            sign = match[1]
            raise InputError(
                f"{source}: {row.label!r:.60} would be one label; if {sign!r} stands between "
                f"labels, give separator {sign!r}; if labels have {sign!r} in their names, name "
                "all labels by classes"
            )


def _alike(labels: Iterable[str]) -> set[str]:
    """The labels of which others are the same in small letters, or as numbers."""
    labels_of_form: defaultdict[str | Decimal, set[str]] = defaultdict(set)
    for label in labels:
        form: str | Decimal = label.casefold()
        if _is_number(label):
            # A float would be the same for long numbers that differ in the last digits.
            form = Decimal(label)
        labels_of_form[form].add(label)
    alike: set[str] = set()
    for same in labels_of_form.values():
        if len(same) > 1:
            alike |= same
    return alike


def _is_missing(label: str) -> bool:
    """Whether a program may have written this label where there was none."""
    return label.casefold() in MISSING


def _is_number(text: str) -> bool:
    try:
        return isfinite(float(text))
    except ValueError:
        return False


def _in_order(labels: Iterable[str]) -> list[str]:
    """The labels in the order of their numbers, or else of the alphabet."""
    names = sorted(labels)
    if all(_is_number(name) for name in names):
        names.sort(key=float)
    return names
