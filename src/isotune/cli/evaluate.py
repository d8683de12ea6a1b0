"""`isotune evaluate`: the scores of encoders, side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from isotune.cli.parameters import ENCODER, FORMAT, JSON, PRECISION, Name, labels, within
from isotune.errors import InputError, counted
from isotune.kernels import Precision

if TYPE_CHECKING:
    from isotune.encoder.calibration import Calibration
    from isotune.encoder.encoder import Encoder
    from isotune.evaluation import Comparison, Format, ResampledScores, Task
    from isotune.evaluation.results import Aggregation, Metric

TASKS = (
    "What to evaluate on: named tasks such as stsb; groups of tasks (sts, senteval-sts, sts17, "
    "stsb-multi, transfer, senteval, senteval-50); scored pairs, such as pairs.csv with the "
    "columns sentence1, sentence2 and score; classification:DATA, texts with labels; "
    "retrieval:DATA, pairs where each first text has to find its second among all seconds of DATA "
    "(with ,among=FILE behind the columns, also among those texts), or a folder in "
    "BEIR's layout (corpus.jsonl, queries.jsonl, qrels/test.tsv); geometry or geometry:DATA, the "
    "distribution of the vectors. Columns with other names stand behind the file: "
    "pairs.csv,first,second,grade or retrieval:notes.jsonl,title,body or "
    "classification:reviews.csv,text,stars. Unset: the seven STS tasks (semantic textual "
    "similarity) if $ISOTUNE_DATA has them, otherwise the bundled test pairs."
)
AGGREGATION = (
    "How to score an STS task that has subsets. all: one correlation over all pairs together, as "
    "the papers do. mean: the mean of the subsets' correlations. wmean: their mean, weighted by "
    "the size of the subsets."
)
METRIC = "The correlation that the table shows."
CALIBRATE = (
    "Fit the probability that two sentences mean the same to the scored pairs of the one task, "
    "and keep it in the encoder's folder."
)
SCALE = (
    "With --calibrate: the score of two sentences that mean the same. Unset: the dataset's, or 5, "
    "as isotune label writes it; where no score is above 1, it has to be given."
)
NO_CONTROLS = (
    "Leave out the controls: the share of common words for scored pairs, the largest class and a "
    "bag of words for labels, BM25 for retrieval."
)

HYBRID = (
    "In retrieval tasks, also score each encoder's ranking joined with a ranking by words (BM25), "
    "as isotune search --hybrid does: in a row below, with the difference from the vectors alone."
)
DIMENSIONS = (
    "Evaluate each encoder with this many features of a vector, the first ones; with several "
    "numbers, with each of them. Unset: as many as the encoder's folder says (truncate_dim), or "
    "else all."
)
COST = (
    "Measure what each encoder costs, beside its scores: the sentences that one thread encodes a "
    "second on this machine, the MB of its weights, and the bytes of a vector."
)
FIGURE = "With --cost: draw the first score against the speed, into this new PNG file."

Scale = Annotated[float | None, Parameter(help=SCALE, group="Calibration"), within(1e-9, 1e9)]


def evaluate(
    *encoder: Annotated[Name, ENCODER, Parameter(required=True)],
    tasks: Annotated[
        tuple[Name, ...], Parameter(help=TASKS, metavar="NAME...", consume_multiple=1)
    ] = (),
    aggregation: Annotated[
        Literal["all", "mean", "wmean"], Parameter(help=AGGREGATION, group="Scores")
    ] = "all",
    metric: Annotated[
        Literal["spearman", "pearson"], Parameter(help=METRIC, group="Scores")
    ] = "spearman",
    no_controls: Annotated[bool, Parameter(help=NO_CONTROLS, group="Scores")] = False,
    hybrid: Annotated[bool, Parameter(help=HYBRID, group="Scores", negative="")] = False,
    dimensions: Annotated[
        tuple[int, ...],
        Parameter(help=DIMENSIONS, metavar="NUMBER...", consume_multiple=1, group="Computing"),
    ] = (),
    precision: Annotated[Precision | None, PRECISION] = None,
    cost: Annotated[bool, Parameter(help=COST, group="Cost")] = False,
    figure: Annotated[Path | None, Parameter(help=FIGURE, metavar="FILE", group="Cost")] = None,
    calibrate: Annotated[bool, Parameter(help=CALIBRATE, group="Calibration")] = False,
    scale: Scale = None,
    form: Annotated[Literal["csv", "latex", "markdown"] | None, FORMAT] = None,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Of two or more encoders, a second table has the difference of each from the first. An
    interval tells how far it may be chance: "tied" means that these tasks can't tell which encoder
    is better. An encoder's rank is 1, and 1 more for each encoder that is better by more than
    chance.

    Controls stand below the encoders. They know only the words of the texts, and say what a score
    is worth: an encoder that is not better than its control by more than chance is named.

    Four kinds of task answer four questions. Similarity: does the cosine of two vectors agree with
    people's scores? Retrieval: are a query's answers nearer to it than all other documents?
    Classification, also of the named transfer tasks: can a simple classifier find the labels of new
    texts by their vectors? Geometry: how are the vectors distributed?
    """
    from isotune.evaluation import tell_trained_rows

    paths = list(dict.fromkeys(encoder))
    if calibrate:
        _check_calibration(paths, tasks, dimensions)
    elif scale is not None:
        raise InputError("--scale is for --calibrate")
    if figure is not None:
        _check_figure(figure, cost)
    if form and (calibrate or as_json):
        raise InputError("--format prints the table alone; leave --calibrate and --json out")
    # All tasks and encoders are loaded before the first is evaluated: a wrong name costs no time.
    loaded_tasks = _load(tasks, calibrate, hybrid)
    encoders, shown = _load_encoders(paths, dimensions, precision)
    score = partial(_scores, loaded_tasks, aggregation, metric, hybrid)
    control_scores = _control_scores(loaded_tasks, aggregation, metric, no_controls)
    comparison = _compare(encoders, score, control_scores)
    if cost:
        comparison = _with_costs(comparison, encoders)
    if form:
        _print_for_paper(comparison, shown, form)
    elif not as_json:
        _print_tables(comparison, aggregation, metric, shown)
    for path in paths:
        tell_trained_rows(path, loaded_tasks)
    if calibrate:
        calibrations = _calibrate_all(paths, encoders, tasks[0], scale, quiet=as_json)
        comparison = comparison.model_copy(update={"calibrations": calibrations})
    if as_json:
        print(comparison.model_dump_json(indent=2))
    # The scores are printed already, so a figure that can't be drawn loses none of them.
    if figure is not None:
        _draw(comparison, figure, shown)


def _load_encoders(
    paths: Sequence[str], dimensions: Sequence[int], precision: Precision | None
) -> tuple[dict[str, Encoder], dict[str, str]]:
    """Encoders by their names, and the short labels by which the tables name them.

    Each encoder is there once for each number of features. The labels have also those of the
    encoders with words.
    """
    from isotune.encoder.encoder import Encoder
    from isotune.evaluation import with_words

    suffix = f", {precision}" if precision else ""
    encoders = {}
    shown = {}
    for path, label in zip(paths, labels(paths), strict=True):
        whole = Encoder.load(path, precision=precision)
        if not dimensions:
            encoders[path + suffix] = whole
            shown[path + suffix] = label + suffix
        for kept in dimensions:
            ending = f", {counted(kept, 'feature')}{suffix}"
            encoders[path + ending] = whole.cut_to(kept)
            shown[path + ending] = label + ending
    shown |= {with_words(name): with_words(label) for name, label in shown.items()}
    return encoders, shown


def _with_costs(comparison: Comparison, encoders: Mapping[str, Encoder]) -> Comparison:
    """The comparison with what each encoder costs."""
    from isotune.evaluation import measure_cost

    costs = {name: measure_cost(encoder) for name, encoder in encoders.items()}
    return comparison.model_copy(update={"costs": costs})


def _print_for_paper(comparison: Comparison, shown: Mapping[str, str], form: Format) -> None:
    """Prints all scores as a table for a paper, and nothing else."""
    from isotune.evaluation import score_table

    print(score_table(comparison, shown).text(form), end="")


def _check_figure(path: Path, cost: bool) -> None:
    """Refuses a figure without costs, or in the place of another file."""
    if not cost:
        raise InputError("--figure is for --cost; add that")
    if path.suffix != ".png" or path.exists():
        raise InputError(f"--figure {path}: give the name of a new file that ends in .png")


def _draw(comparison: Comparison, path: Path, shown: Mapping[str, str]) -> None:
    """Draws the first score of the encoders against their speed."""
    from isotune.evaluation.tasks import task_title
    from isotune.report import save_png
    from isotune.report.figures import scores_by_speed

    main_scores = comparison.main_scores()
    if not main_scores:
        raise InputError("--figure: none of these tasks has a score; name one, such as stsb-open")
    score, values = next(iter(main_scores.items()))
    scores = {shown[name]: values[name] for name in comparison.costs}
    speeds = {shown[name]: cost.sentences_per_second for name, cost in comparison.costs.items()}
    save_png(scores_by_speed(scores, speeds, task_title(score)), path)


def _check_calibration(
    paths: Sequence[str], tasks: Sequence[str], dimensions: Sequence[int]
) -> None:
    """Refuses what no calibration can be learnt from or kept in, before anything is loaded."""
    from isotune.encoder.finished import MODULES

    if dimensions:
        raise InputError(
            "--calibrate: leave --dimensions out, because a folder keeps one calibration; save the "
            "cut encoder by Encoder.load(FOLDER, dimensions=...).save(NEW), and calibrate that"
        )
    if len(tasks) != 1:
        raise InputError(
            "--calibrate: name one file or dataset of scored pairs, such as --tasks pairs.tsv"
        )
    for path in paths:
        if not (Path(path) / MODULES).exists():
            raise InputError(
                f"--calibrate: {path} is no folder of an encoder, which could keep the calibration"
            )


def _load(tasks: Sequence[str], calibrate: bool, hybrid: bool) -> Sequence[Task]:
    """Loads the tasks. To calibrate, there is to be one, of scored pairs.

    A `hybrid` evaluation needs a task of retrieval.
    """
    from isotune.evaluation import STSTask, check_rankings, load_tasks

    loaded = load_tasks(tasks)
    if hybrid:
        check_rankings(loaded)
    if not calibrate or (len(loaded) == 1 and isinstance(loaded[0], STSTask)):
        return loaded
    raise InputError(
        f"--calibrate: {tasks[0]} is no file or dataset of scored pairs; name one, such as stsb:dev"
    )


def _control_scores(
    tasks: Sequence[Task], aggregation: Aggregation, metric: Metric, no_controls: bool
) -> Sequence[ResampledScores]:
    """The scores of the controls; none if they are left out."""
    from isotune.evaluation import resampled_controls

    if no_controls:
        return ()
    return resampled_controls(tasks, aggregation, metric)


def _scores(
    tasks: Sequence[Task],
    aggregation: Aggregation,
    metric: Metric,
    hybrid: bool,
    encoder: Encoder,
    name: str,
) -> Sequence[ResampledScores]:
    """The scores of an encoder; a `hybrid` evaluation has those with words behind them."""
    from isotune.evaluation import resampled_scores, resampled_with_words

    if hybrid:
        return resampled_with_words(tasks, encoder, name, aggregation, metric)
    return [resampled_scores(tasks, encoder, name, aggregation, metric)]


def _compare(
    encoders: Mapping[str, Encoder],
    score: Callable[[Encoder, str], Sequence[ResampledScores]],
    controls: Sequence[ResampledScores],
) -> Comparison:
    """Evaluates the encoders one after another, each with the controls.

    A terminal shows how far it is; elsewhere a line says now and then which encoder's turn it is.
    """
    from rich.progress import track

    from isotune.console import PlainConsole, repeating
    from isotune.evaluation import compare_resampled, with_controls

    console = PlainConsole(stderr=True)
    is_hidden = not console.is_terminal
    progress = track(
        encoders.items(), "evaluating", console=console, transient=True, disable=is_hidden
    )
    all_scores = []
    for name, encoder in progress:
        with repeating(console, f"evaluating {name}"):
            scores = score(encoder, name)
        all_scores += [with_controls(each, controls) for each in scores]
    return compare_resampled(all_scores)


def _print_tables(
    comparison: Comparison, aggregation: Aggregation, metric: Metric, shown: Mapping[str, str]
) -> None:
    from isotune.cli.tables import print_whole
    from isotune.evaluation import (
        comparison_tables,
        control_table,
        cost_table,
        difference_table,
        unbeaten_lines,
    )
    from isotune.evaluation.tasks import task_title

    for table in comparison_tables(comparison.evaluations, aggregation, metric, shown):
        print_whole(table)
    if comparison.differences:
        print_whole(difference_table(comparison, shown))
    if comparison.costs:
        print_whole(cost_table(comparison, shown))
    if any(evaluation.controls for evaluation in comparison.evaluations):
        print_whole(control_table(comparison.evaluations, shown))
    for evaluation in comparison.evaluations:
        for line in unbeaten_lines(evaluation, shown[evaluation.encoder], task_title):
            print(line)


def _calibrate_all(
    folders: Sequence[str],
    encoders: Mapping[str, Encoder],
    task: str,
    scale: float | None,
    quiet: bool,
) -> dict[str, Calibration]:
    calibrations = {}
    for folder, (name, encoder) in zip(folders, encoders.items(), strict=True):
        calibrations[name] = _calibrate(folder, encoder, task, scale, quiet)
    return calibrations


def _calibrate(
    folder: str, encoder: Encoder, task: str, scale: float | None, quiet: bool
) -> Calibration:
    """Calibrates an encoder by the pairs of the task, and keeps the calibration in its folder."""
    from isotune.evaluation.calibration import calibrate
    from isotune.evaluation.tasks import source_of

    source = source_of(task)
    # A task names its columns, if at all, as the pairs do.
    pairs = task if "," in task else source
    fitted = calibrate(encoder, pairs, scale=scale)
    fitted.save(folder)
    if not quiet:
        print(
            f"{folder}: two sentences mean the same with probability 0.5 at the cosine "
            f"{fitted.threshold:.4f} (95 % interval {fitted.low:.4f} to {fitted.high:.4f}, "
            f"{fitted.pairs:,} pairs of {source}); the highest probability, at the cosine 1, is "
            f"{fitted.probability(1.0):.4f}"
        )
    return fitted
