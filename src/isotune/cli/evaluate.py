"""`isotune evaluate`: the scores of encoders, side by side."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from isotune.cli.parameters import ENCODER, JSON, PRECISION, Name, labels, within
from isotune.kernels import Precision

TASKS = (
    "What to evaluate on: named tasks such as stsb; groups of tasks (sts, sts17, stsb-multi, transfer, senteval, "
    "senteval-50); scored pairs, such as pairs.csv with the columns sentence1, sentence2 and score; "
    "classification:DATA, texts with labels; retrieval:DATA, pairs where each first text has to find its second among "
    "all, or a folder in BEIR's layout (corpus.jsonl, queries.jsonl, qrels/test.tsv); geometry or geometry:DATA, the "
    "distribution of the vectors. Columns with other names stand behind the file: pairs.csv,first,second,grade or "
    "retrieval:notes.jsonl,title,body or classification:reviews.csv,text,stars. Unset: the seven STS tasks (semantic "
    "textual similarity) if $ISOTUNE_DATA has them, otherwise the bundled test pairs."
)
AGGREGATION = (
    "How to score an STS task that has subsets. all: one correlation over all pairs together, as the papers do. mean: "
    "the mean of the subsets' correlations. wmean: their mean, weighted by the size of the subsets."
)
METRIC = "The correlation that the table shows."
CALIBRATE = (
    "Fit the probability that two sentences mean the same to the scored pairs of the one task, and keep it in the "
    "encoder's folder."
)
SCALE = (
    "With --calibrate: the score of two sentences that mean the same. Unset: the dataset's, or 5, as isotune label "
    "writes it; where no score is above 1, it has to be given."
)


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
    precision: Annotated[Precision | None, PRECISION] = None,
    calibrate: Annotated[bool, Parameter(help=CALIBRATE, group="Calibration")] = False,
    scale: Annotated[
        float | None, Parameter(help=SCALE, group="Calibration"), within(1e-9, 1e9)
    ] = None,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Of two or more encoders, a second table has the difference of each from the first. An interval tells how far it
    may be chance: "tied" means that these tasks can't tell which encoder is better. An encoder's rank is 1, and 1 more
    for each encoder that is better by more than chance.

    Four kinds of task answer four questions. Similarity: does the cosine of two vectors agree with people's scores?
    Retrieval: are a query's answers nearer to it than all other documents? Classification, also of the named transfer
    tasks: can a simple classifier find the labels of new texts by their vectors? Geometry: how are the vectors
    distributed?
    """
    from rich.progress import track

    from isotune.cli.tables import print_whole
    from isotune.console import PlainConsole
    from isotune.encoder.encoder import Encoder
    from isotune.encoder.finished import MODULES
    from isotune.errors import InputError
    from isotune.evaluation import (
        STSTask,
        compare_measured,
        comparison_tables,
        difference_table,
        load_tasks,
        measure,
    )
    from isotune.evaluation.calibration import calibrate as fit
    from isotune.evaluation.tasks import source_of

    paths = list(dict.fromkeys(encoder))
    suffix = f", {precision}" if precision else ""
    names = [path + suffix for path in paths]
    shown = {name: label + suffix for name, label in zip(names, labels(paths), strict=True)}
    if scale is not None and not calibrate:
        raise InputError("--scale is for --calibrate")
    if calibrate and len(tasks) != 1:
        raise InputError(
            "--calibrate: name one file or dataset of scored pairs, such as --tasks pairs.tsv"
        )
    if calibrate and (others := [path for path in paths if not (Path(path) / MODULES).exists()]):
        raise InputError(
            f"--calibrate: {others[0]} is no folder of an encoder, which could keep the calibration"
        )
    # All tasks and encoders are loaded before the first is evaluated, so that a wrong name costs no time.
    loaded_tasks = load_tasks(tasks)
    if calibrate and not (len(loaded_tasks) == 1 and isinstance(loaded_tasks[0], STSTask)):
        raise InputError(
            f"--calibrate: {tasks[0]} is no file or dataset of scored pairs; name one, such as stsb:dev"
        )
    scored = source_of(tasks[0]) if calibrate else ""
    pairs = tasks[0] if calibrate and "," in tasks[0] else scored  # with the columns that it names
    encoders = [Encoder.load(each, precision=precision) for each in paths]
    console = PlainConsole(stderr=True)
    progress = track(
        encoders, "evaluating", console=console, transient=True, disable=not console.is_terminal
    )
    comparison = compare_measured(
        measure(loaded_tasks, model, name, aggregation, metric)
        for name, model in zip(names, progress, strict=True)
    )
    if not as_json:
        for table in comparison_tables(comparison.evaluations, aggregation, metric, shown):
            print_whole(table)
        if comparison.differences:
            print_whole(difference_table(comparison, shown))
    calibrations = {}
    for folder, name, model in zip(paths, names, encoders, strict=True) if calibrate else ():
        calibrations[name] = fitted = fit(model, pairs, scale=scale)
        fitted.save(folder)
        if not as_json:
            print(
                f"{folder}: two sentences mean the same with probability 0.5 at the cosine {fitted.threshold:.4f} "
                f"(95 % interval {fitted.low:.4f} to {fitted.high:.4f}, {fitted.pairs:,} pairs of {scored}); "
                f"the highest probability, at the cosine 1, is {fitted.probability(1.0):.4f}"
            )
    if as_json:
        print(
            comparison.model_copy(update={"calibrations": calibrations}).model_dump_json(indent=2)
        )
