"""Scores encoders on tasks, and says whether one scores higher than another, or only seems to.

Encoders that are compared are scored on the same resampled rows.
"""

import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import get_args

import numpy as np

from isotune.errors import InputError
from isotune.evaluation.controls import CONTROLS, rankings_by_words
from isotune.evaluation.intervals import interval
from isotune.evaluation.results import (
    Aggregation,
    AverageAccuracy,
    Comparison,
    ControlResult,
    Correlations,
    Difference,
    Evaluation,
    Metric,
    STSResult,
    TaskResult,
    TransferResult,
    check_way,
)
from isotune.evaluation.retrieval import DEPTH, RetrievalTask, fused
from isotune.evaluation.tasks import GROUPS, Task, TaskSource, load_tasks
from isotune.evaluation.trained_rows import tell_trained_rows
from isotune.evaluation.vectors import Floats, SentenceEncoder


def evaluate(
    encoder: SentenceEncoder | str | Path,
    tasks: TaskSource | Sequence[TaskSource] | None = None,
    *,
    name: str | None = None,
    controls: bool = True,
) -> Evaluation:
    """Scores an encoder on tasks.

    Args:
        encoder: anything with a method `encode`; or a folder or hub name to load.
        tasks: names, files or `TaskRows`, as `isotune.evaluation.load_tasks` takes them. If None,
            the seven STS tasks (the group "sts") if this machine has their data, and "stsb-open"
            otherwise.
        name: the encoder's name in the result. If None, it is the folder or hub name, or else the
            encoder's class.
        controls: whether controls are scored too, rules that know only the words of the texts
            (`isotune.evaluation.controls`).

    Returns:
        The result of each task, the averages of complete groups, and the controls. Correlations
        are in [-1, 1] and accuracies in [0, 1]; tables print both x 100. `scores()` has them by
        name.

    Raises:
        InputError: the encoder cannot be loaded, a task cannot be read, or the encoder's space has
            collapsed.
    """
    if not name:
        name = str(encoder) if isinstance(encoder, str | Path) else type(encoder).__name__
    read_tasks = load_tasks(tasks)
    loaded = _loaded(encoder)
    if isinstance(encoder, str | Path):
        tell_trained_rows(encoder, read_tasks)
    if not controls:
        return evaluation_of([task.score(loaded)[0] for task in read_tasks], name)
    scores = resampled_scores(read_tasks, loaded, name)
    return with_controls(scores, resampled_controls(read_tasks)).evaluation


def _loaded(encoder: SentenceEncoder | str | Path) -> SentenceEncoder:
    """The encoder, which is loaded if a folder or a name is given."""
    from isotune.encoder.encoder import Encoder

    if isinstance(encoder, str | Path):
        return Encoder.load(encoder)
    if not hasattr(encoder, "encode"):
        raise InputError(
            f"{type(encoder).__name__}: an encoder, or its folder or hub name, is needed"
        )
    return encoder


def compare(
    encoders: Mapping[str, SentenceEncoder | str | Path] | Sequence[str | Path],
    tasks: TaskSource | Sequence[TaskSource] | None = None,
    *,
    aggregation: Aggregation = "all",
    metric: Metric = "spearman",
    controls: bool = True,
) -> Comparison:
    """Scores encoders on the same tasks, and says which differences are more than chance.

    Args:
        encoders: folders or hub names; or encoders by name, each of them as `evaluate` takes it.
        tasks: as `evaluate` takes them.
        aggregation: how a correlation puts a task's subsets together; see `Evaluation.scores`.
        metric: which correlation.
        controls: whether controls are scored too, as by `evaluate`.

    Returns:
        The evaluation of each encoder, and the differences between every two of them.

    Raises:
        InputError: an encoder can't be loaded, a task can't be read, or an encoder's space has
            collapsed.
    """
    named = _named_encoders(encoders)
    check_way(aggregation, metric)
    read_tasks = load_tasks(tasks)
    of_controls: Sequence[ResampledScores] = ()
    if controls:
        of_controls = resampled_controls(read_tasks, aggregation, metric)
    all_scores = []
    for name, encoder in named.items():
        scores = resampled_scores(read_tasks, _loaded(encoder), name, aggregation, metric)
        all_scores.append(with_controls(scores, of_controls))
        if isinstance(encoder, str | Path):
            tell_trained_rows(encoder, read_tasks)
    return compare_resampled(all_scores)


def _named_encoders(
    encoders: Mapping[str, SentenceEncoder | str | Path] | Sequence[str | Path],
) -> dict[str, SentenceEncoder | str | Path]:
    """The encoders by their names; refuses a single encoder, and those without a name."""
    is_several = isinstance(encoders, Iterable) and not isinstance(encoders, str | Path)
    if not is_several or not encoders:
        raise InputError(f"encoders {encoders!r:.100}: a list of at least two encoders is needed")
    if not isinstance(encoders, Mapping):
        encoders = {encoder: encoder for encoder in encoders}  # type: ignore[misc]
    if not all(isinstance(name, str | Path) for name in encoders):
        raise InputError(
            "encoders without a name; give each one: compare({'before': encoder, 'after': other})"
        )
    return {str(name): encoder for name, encoder in encoders.items()}


@dataclass(frozen=True, eq=False)
class ResampledScores:
    """An encoder's scores, and what they are on resampled rows."""

    evaluation: Evaluation

    scores: Mapping[str, float]
    """The scores by the names of `Evaluation.scores`."""

    samples: Mapping[str, Floats]
    """The scores [resamples] on samples, of each task with rows and of each group of such tasks."""

    values: Mapping[str, Floats]
    """Of each task, the values of its rows that its `score` gives."""

    aggregation: Aggregation
    metric: Metric


def resampled_scores(
    tasks: Sequence[Task],
    encoder: SentenceEncoder,
    name: str,
    aggregation: Aggregation = "all",
    metric: Metric = "spearman",
) -> ResampledScores:
    """Scores an encoder on tasks that `load_tasks` has read.

    Geometry and the tasks of plugins are not resampled.
    """
    outcomes = [task.score(encoder) for task in tasks]
    return _resampled_outcomes(tasks, outcomes, name, aggregation, metric)


def check_rankings(tasks: Sequence[Task]) -> None:
    """Raises an InputError if none of the tasks is one of retrieval."""
    if not any(isinstance(task, RetrievalTask) for task in tasks):
        raise InputError(
            "no task has rankings, which words could join; name one, such as retrieval:faq.csv"
        )


def resampled_with_words(
    tasks: Sequence[Task],
    encoder: SentenceEncoder,
    name: str,
    aggregation: Aggregation = "all",
    metric: Metric = "spearman",
) -> tuple[ResampledScores, ResampledScores]:
    """An encoder's scores, and on retrieval tasks those of its ranking joined with BM25's.

    The joined ranking is that of `isotune search --hybrid`; its name is `with_words` of the
    encoder's.

    Raises:
        InputError: none of the tasks is one of retrieval.
    """
    check_rankings(tasks)
    alone = []
    joined: list[tuple[TaskResult, Floats] | None] = []
    for task in tasks:
        if not isinstance(task, RetrievalTask):
            alone.append(task.score(encoder))
            joined.append(None)
            continue
        by_vectors = task.rankings(encoder)
        alone.append(task.result_of(by_vectors))
        both = zip(by_vectors.tolist(), rankings_by_words(task), strict=True)
        rankings = [np.array(fused(vectors, words.tolist())[:DEPTH]) for vectors, words in both]
        joined.append(task.result_of(rankings))
    ways = (aggregation, metric)
    return (
        _resampled_outcomes(tasks, alone, name, *ways),
        _resampled_outcomes(tasks, joined, with_words(name), *ways),
    )


def with_words(name: str) -> str:
    """The name of an encoder whose rankings are joined with those by words."""
    return f"{name}, with words"


def resampled_controls(
    tasks: Sequence[Task], aggregation: Aggregation = "all", metric: Metric = "spearman"
) -> list[ResampledScores]:
    """Scores each control on the tasks that it knows.

    The samples are those that `resampled_scores` draws of the same tasks.
    """
    scores = []
    for control in CONTROLS:
        outcomes = [control.score_if_known(task) for task in tasks]
        if any(outcomes):
            resampled_outcomes = _resampled_outcomes(
                tasks, outcomes, control.name, aggregation, metric
            )
            scores.append(resampled_outcomes)
    return scores


def _resampled_outcomes(
    tasks: Sequence[Task],
    outcomes: Sequence[tuple[TaskResult, Floats] | None],
    name: str,
    aggregation: Aggregation,
    metric: Metric,
) -> ResampledScores:
    """The scores of an encoder or control by its outcome on each task; None is no score."""
    results: list[TaskResult] = []
    samples: dict[str, Floats] = {}
    values: dict[str, Floats] = {}
    for place, (task, outcome) in enumerate(zip(tasks, outcomes, strict=True)):
        if outcome is None:
            continue
        result, values[task.name] = outcome
        results.append(result)
        samples |= task.resampled(values[task.name], aggregation, metric, seed=place)
    for group, members in GROUPS.items():
        if samples.keys() >= set(members):
            samples[group] = np.mean([samples[member] for member in members], axis=0)
    evaluation = evaluation_of(results, name)
    scores = evaluation.scores(aggregation, metric)
    return ResampledScores(evaluation, scores, samples, values, aggregation, metric)


def compare_resampled(encoders: Iterable[ResampledScores]) -> Comparison:
    """The differences between encoders that were scored alike.

    All were scored on the same tasks, by the same aggregation and metric.
    """
    scores = list(encoders)
    all_differences: list[Difference] = []
    for one, other in combinations(scores, 2):
        all_differences += differences(one, other)
    # All encoders were scored by the same correlation.
    first = scores[0]
    return Comparison(
        evaluations=tuple(each.evaluation for each in scores),
        differences=tuple(all_differences),
        aggregation=first.aggregation,
        metric=first.metric,
    )


def with_controls(encoder: ResampledScores, controls: Sequence[ResampledScores]) -> ResampledScores:
    """An encoder's scores, with the controls in its evaluation."""
    results = []
    for control in controls:
        result = ControlResult(
            name=control.evaluation.encoder,
            tasks=control.evaluation.tasks,
            averages=control.evaluation.averages,
            differences=tuple(differences(control, encoder)),
        )
        results.append(result)
    evaluation = encoder.evaluation.model_copy(update={"controls": tuple(results)})
    return replace(encoder, evaluation=evaluation)


def differences(first: ResampledScores, second: ResampledScores) -> list[Difference]:
    """How much higher the second encoder scores than the first, which may be a control.

    There is a difference for each task and group that was resampled for both.
    """
    result = []
    for name, samples in second.samples.items():
        if name not in first.samples:
            continue
        low, high = interval(samples - first.samples[name])
        difference = Difference(
            encoder=second.evaluation.encoder,
            against=first.evaluation.encoder,
            score=name,
            difference=second.scores[name] - first.scores[name],
            low=low,
            high=high,
        )
        result.append(difference)
    return result


def evaluation_of(results: Sequence[TaskResult], name: str) -> Evaluation:
    """The evaluation that the results of an encoder are, with the averages of complete groups."""
    by_name = {result.name: result for result in results}
    averages = {}
    for group, members in GROUPS.items():
        if by_name.keys() >= set(members):
            averages[group] = _average([by_name[task] for task in members])
    return Evaluation(
        encoder=name,
        tasks=tuple(results),
        averages=averages,
        versions={**versions(), "python": platform.python_version()},
        created=datetime.now(UTC).replace(microsecond=0),
    )


def versions() -> dict[str, str]:
    """The versions of the packages that numbers depend on."""
    return {package: version(package) for package in ("isotune", "torch", "transformers")}


def _average(results: Sequence[TaskResult]) -> Correlations | AverageAccuracy:
    """The mean accuracy over classifications, or else each mean correlation over STS tasks."""
    accuracies = [result.accuracy for result in results if isinstance(result, TransferResult)]
    if accuracies:
        return AverageAccuracy(accuracy=fmean(accuracies))
    similarity = [result for result in results if isinstance(result, STSResult)]
    means: dict[str, dict[str, float]] = {}
    for metric in get_args(Metric):
        means[metric] = {}
        for way in get_args(Aggregation):
            means[metric][way] = fmean(result.correlation(way, metric) for result in similarity)
    return Correlations.model_validate(means)
