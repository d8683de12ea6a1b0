"""The rows of a run, divided into those to train on and those set apart (`test_share`).

The rows set apart say what the result is worth. Rows with a common text stand on one side: an
answer that was trained on is found more easily, whatever the question is. `labels.py` divides the
rows of methods that keep a classifier on the encoder's vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from isotune.data import (
    LabelledPair,
    LabelledSentence,
    Pair,
    Row,
    ScoredPair,
    ScoredPairs,
    Triplet,
    read,
)
from isotune.data.draws import derive_seed
from isotune.data.rows import copy_key, text_fields
from isotune.data.sources import FromPython
from isotune.errors import InputError, counted
from isotune.evaluation import STSTask, Task, TransferTask
from isotune.evaluation.classifiers import Logistic
from isotune.evaluation.copies import groups_of_copies
from isotune.evaluation.labelled import LabelsApart
from isotune.evaluation.retrieval import task_of_pairs
from isotune.evaluation.transfer import parts_of
from isotune.methods.options import (
    ApartOptions,
    FinetunePairOptions,
    FinetuneSentenceOptions,
    PairsOptions,
)
from isotune.recipes import Recipe, Stage
from isotune.training.labels import sources_or_rows

NAME = "rows set apart"
"""The name of the task that the rows set apart are."""

FEWEST = 2
"""A ranking, and a correlation, need as many rows."""


@dataclass(frozen=True)
class SetApart:
    """The rows of a run."""

    row_type: type[Row]

    train: Sequence[Row]
    """The rows that are trained on."""

    test: Sequence[Row]
    """The rows that say what the result is worth."""

    commits: Mapping[str, str]
    """For each place on the hub, the commit that was read."""

    dev: Sequence[Row] = ()
    """The rows that choose the step, where the method needs such rows and was given none."""

    def task(self) -> Task:
        """The task that the rows set apart are."""
        if self.row_type is ScoredPair:
            return self._similarity()
        if self.is_searched:
            pairs = []
            for row in self.test:
                first, second = map(str, row[:2])
                pairs.append(Pair(first, second))
            return task_of_pairs(NAME, pairs, self._searched())
        return self._classification()

    def lines(self) -> Iterator[str]:
        """What the log says of the rows."""
        rows = f"{counted(len(self.train), 'row')} to train on"
        if self.dev:
            rows += f", {len(self.dev):,} to choose the step"
        yield f"{rows}, {len(self.test):,} set apart; rows with a common text stand on one side"
        if self.is_searched:
            yield (
                f"first texts set apart search among {counted(len(self._searched()), 'text')}: all "
                "second texts of the data"
            )

    @property
    def is_searched(self) -> bool:
        """Whether first texts search for their second one."""
        return self.row_type in (Pair, Triplet)

    def _searched(self) -> list[str]:
        """All texts that are no first text, each once."""
        texts: list[str] = []
        for row in (*self.test, *self.train):
            texts += map(str, row[1:])
        return list(dict.fromkeys(texts))

    def _similarity(self) -> STSTask:
        first, second, scores = map(list, zip(*self.test, strict=True))
        if len(set(scores)) < 2:
            raise InputError("the rows set apart have one score; give more rows")
        pairs = ScoredPairs(
            name=NAME,
            split="",
            sentence1=first,
            sentence2=second,
            scores=np.array(scores, np.float64),
            subsets=[NAME] * len(scores),
        )
        return STSTask(pairs, groups_of_copies(first, second))

    def _classification(self) -> TransferTask:
        """A classifier on the vectors of the rows to train on, tested on the rows set apart."""
        names = sorted({str(row[-1]) for row in (*self.train, *self.test)})
        parts = parts_of({"train": self.train, "test": self.test}, names)
        texts, _ = parts["test"]
        groups = groups_of_copies(*texts)
        if len(texts) == 1:
            return LabelsApart(NAME, Logistic(), parts, groups=groups, labels=names)
        return TransferTask(NAME, Logistic(), parts, groups=groups)


def read_set_apart(recipe: Recipe, rows: Iterable[FromPython] | None) -> SetApart | None:
    """Reads and divides the rows of a run; None if no stage sets rows apart.

    `rows` are rows from Python, in place of the recipe's sources.

    Raises:
        InputError: another stage would train on the rows, or no row can be set apart.
    """
    stages = [stage for stage in recipe.stages if sets_apart(stage)]
    if not stages:
        return None
    if len(recipe.stages) > 1:
        raise InputError(
            f"test_share: the run has {len(recipe.stages)} stages, of which another may train on "
            "the rows; give a recipe with one stage"
        )
    if recipe.shares:
        raise InputError("test_share: the sources have shares; leave these or test_share out")
    (stage,) = stages
    options = stage.options
    assert isinstance(options, ApartOptions)
    assert options.test_share is not None
    row_type = _row_type(options)
    sources = sources_or_rows(recipe.inputs(stage).data, rows)
    training = stage.training
    given = read(
        sources,
        row_type,
        recipe.columns,
        min_words=training.min_words,
        min_score=training.min_score,
        positive=training.positive,
        labels=_classes(options),
    )
    share = options.test_share
    train, test = divided(list(given), share, derive_seed(recipe.seed, "rows apart"))
    dev: Sequence[Row] = ()
    if isinstance(options, FinetuneSentenceOptions | FinetunePairOptions) and not options.dev_data:
        train, dev = divided(train, share, derive_seed(recipe.seed, "dev rows"))
    return SetApart(row_type, train, test, given.commits, dev)


def _row_type(options: ApartOptions) -> type[Row]:
    """The rows that a method with these options trains on."""
    match options:
        case PairsOptions():
            return Triplet if options.negatives else Pair
        case FinetuneSentenceOptions():
            return LabelledSentence
        case FinetunePairOptions() if options.classes:
            return LabelledPair
    return ScoredPair


def _classes(options: ApartOptions) -> Sequence[str]:
    """The labels that the rows can have; none where they can have any, or have none."""
    if isinstance(options, FinetuneSentenceOptions | FinetunePairOptions):
        return options.classes
    return ()


def sets_apart(stage: Stage) -> bool:
    """Whether a stage sets rows apart by `test_share`, and is none that `labels.py` divides."""
    return isinstance(stage.options, ApartOptions) and stage.options.test_share is not None


def divided(rows: Sequence[Row], share: float, seed: int) -> tuple[list[Row], list[Row]]:
    """The rows to train on and the rows set apart, each in their order.

    Rows that share a text, or are joined by a chain of such rows, are one group. Groups are drawn
    as long as they fit into the share; a row or more is left to train on.
    """
    groups = groups_of_common_texts(rows)  # [N]
    sizes = np.bincount(groups)  # [groups]
    if len(sizes) == 1 and len(rows) > 1:
        raise InputError(
            f"test_share: {counted(len(rows), 'row')}, all joined by common texts, so none can be "
            "set apart; give rows with other texts, or leave test_share out"
        )
    most = min(round(share * len(rows)), len(rows) - 1)
    is_apart = np.zeros(len(sizes), bool)
    count = 0
    for group in np.random.default_rng(seed).permutation(len(sizes)):
        if count + sizes[group] <= most:
            is_apart[group] = True
            count += int(sizes[group])
    if count < FEWEST:
        raise InputError(
            f"test_share: {counted(len(rows), 'row')}, of which too few can be set apart: the "
            f"largest group of rows with common texts has {sizes.max():,}; give more rows, or a "
            "larger test_share"
        )
    train = [row for row, group in zip(rows, groups, strict=True) if not is_apart[group]]
    test = [row for row, group in zip(rows, groups, strict=True) if is_apart[group]]
    return train, test


def groups_of_common_texts(rows: Sequence[Row]) -> NDArray[np.int64]:
    """The number of each row's group, [N]; rows of one group are joined by common texts.

    Two texts are the same if their letters and digits are.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    numbers: dict[bytes, int] = {}
    edges: list[tuple[int, int]] = []
    for place, row in enumerate(rows):
        for text in islice(row, len(text_fields(type(row)))):
            number = numbers.setdefault(copy_key(str(text)), len(numbers))
            edges.append((place, len(rows) + number))
    starts, ends = np.array(edges).T
    nodes = len(rows) + len(numbers)
    graph = coo_array((np.ones(len(edges), bool), (starts, ends)), shape=(nodes, nodes))
    _, groups = connected_components(graph, directed=False)
    _, of_rows = np.unique(groups[: len(rows)], return_inverse=True)
    return of_rows.astype(np.int64)
