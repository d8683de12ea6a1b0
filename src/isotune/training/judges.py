"""Who may judge a run: the scores that say whether the encoder is better for the user's text.

A task may not judge in two cases: the run was trained on its rows, or its pairs are the general
ones, which say nothing about another text. A task that may not judge still counts where the encoder
loses on it (`RunEvaluation.verdict`), but not in a run with teachers.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from isotune.evaluation import GROUPS
from isotune.evaluation.tasks import GENERAL_TASK
from isotune.recipes import Recipe
from isotune.training import apart, labels
from isotune.training.run_data import MUCH_OVERLAP


@dataclass(frozen=True)
class Judges:
    """Which scores speak for the user's text."""

    tasks: frozenset[str]
    """The tasks and groups that speak for it, of those that the run was given."""

    trained_on: frozenset[str]
    """The sources of tasks and of dev data whose rows were trained on, which judge nothing."""

    dev_is_general: bool
    """Whether the dev data are the general pairs, and the text that was trained on is another."""

    general_losses_count: bool
    """Whether a loss counts on a task that does not speak for the user's text.

    It does not in a run with teachers. The user has asked for their similarities, and whoever
    learns those of other text may lose on general pairs.
    """


@dataclass(frozen=True)
class CandidateJudges:
    """The tasks, groups and dev data that could judge a run."""

    sources: Mapping[str, str]
    """The source of the rows of each task that has rows, by the task's name."""

    others: Collection[str]
    """The names of the other tasks, and of the groups whose tasks were all scored."""

    dev: str
    """The source of the dev data; empty without dev data."""


def find_judges(recipe: Recipe, candidates: CandidateJudges, trained: Collection[str]) -> Judges:
    """Finds who may judge a run of this recipe, trained on rows of the sources `trained`."""
    text: list[str] = []
    for stage in recipe.stages:
        text += recipe.inputs(stage).data
    text_is_general = any(is_general(source) for source in text)
    # The general pairs speak for a run on their own text that was asked to be judged by them.
    general_pairs_may_judge = text_is_general and GENERAL_TASK in recipe.tasks
    mute = {name for name, source in candidates.sources.items() if source in trained}
    if not general_pairs_may_judge:
        mute |= set(filter(is_general, candidates.sources))
    # Tasks that the user did not name judge nothing: they are of other texts, unless they are the
    # user's rows that were set apart.
    named = {*candidates.sources, *candidates.others}
    has_apart = not named.isdisjoint({labels.NAME, apart.NAME})
    if not recipe.tasks and not has_apart:
        mute = named
    may_judge = {name for name in named if not _is_mute(name, mute)}
    judging = {*candidates.sources.values(), candidates.dev}
    return Judges(
        tasks=frozenset(may_judge),
        trained_on=frozenset(judging.intersection(trained)),
        dev_is_general=is_general(recipe.dev) and not text_is_general,
        general_losses_count=not recipe.teachers,
    )


def _is_mute(name: str, mute: Collection[str]) -> bool:
    """Whether a task is mute, or a task of a group."""
    members = {name, *GROUPS.get(name, ())}
    return not members.isdisjoint(mute)


def trained_rows(entries: Iterable[Mapping[str, Any]]) -> set[str]:
    """The sources of which a run was trained on many rows, by the entries of its data.json."""
    sources = set()
    for entry in entries:
        for source, counts in entry.get("overlap", {}).items():
            of = counts["of_pairs"] or counts["of_sentences"]
            if counts.get("rows", 0) > MUCH_OVERLAP * of:
                sources.add(source)
    return sources


def is_general(source: str) -> bool:
    """Whether a source or a task is that of the general pairs, whichever part of them."""
    return source.partition(":")[0] == GENERAL_TASK
