"""`isotune evaluate`: the scores of encoders, side by side."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from isotune.cli.parameters import ENCODER, PRECISION, labels
from isotune.encoder import Precision

TASKS = (
    "What to evaluate on: named tasks such as stsb; groups of tasks (sts, sts17, stsb-multi, transfer, senteval, "
    "senteval-50); the distribution of the vectors (geometry, geometry-qqp or geometry:DATA); or files with the "
    "columns sentence1, sentence2 and score. Unset: the seven STS tasks (semantic textual similarity) if $ISOTUNE_DATA "
    "has them, otherwise the bundled test pairs."
)
AGGREGATION = (
    "How to score an STS task that has subsets. all: one correlation over all pairs together, as the papers do. mean: "
    "the mean of the subsets' correlations. wmean: their mean, weighted by the size of the subsets."
)
METRIC = "The correlation that the table shows."
JSON = "Write all results, with every aggregation and metric, and the differences, to this new file."


def evaluate(
    *encoder: Annotated[str, ENCODER],
    tasks: Annotated[tuple[str, ...], Parameter(help=TASKS, metavar="NAME...", consume_multiple=1)] = (),
    aggregation: Annotated[Literal["all", "mean", "wmean"], Parameter(help=AGGREGATION)] = "all",
    metric: Annotated[Literal["spearman", "pearson"], Parameter(help=METRIC)] = "spearman",
    precision: Annotated[Precision | None, PRECISION] = None,
    json: Annotated[Path | None, Parameter(help=JSON, metavar="FILE")] = None,
) -> None:
    """Score sentence encoders side by side.

    Of two or more encoders, a second table has the difference of each from the first. An interval tells how far it may
    be chance: "tied" means that these tasks can't tell which encoder is better. An encoder's rank is 1, and 1 more for
    each encoder that is better by more than chance.

    Three kinds of task answer three questions. Similarity: does the cosine of two vectors agree with people's scores?
    Transfer: can a simple classifier work with the vectors? Geometry: how are the vectors distributed?
    """
    import rich
    from rich.console import Console
    from rich.progress import track

    from isotune.encoder.encoder import Encoder
    from isotune.evaluation import compare_measured, comparison_tables, difference_table, load_tasks, measure
    from isotune.files import new_path

    paths = list(dict.fromkeys(encoder))
    suffix = f", {precision}" if precision else ""
    names = [path + suffix for path in paths]
    shown = {name: label + suffix for name, label in zip(names, labels(paths), strict=True)}
    with new_path(json) if json else nullcontext() as path:
        # All tasks and encoders are loaded before the first is evaluated, so that a wrong name costs no time.
        loaded_tasks = load_tasks(tasks)
        encoders = [Encoder.load(each, precision=precision) for each in paths]
        console = Console(stderr=True)
        hidden = not console.is_terminal
        progress = track(encoders, "evaluating", console=console, transient=True, disable=hidden)
        comparison = compare_measured(
            measure(loaded_tasks, model, name, aggregation, metric) for name, model in zip(names, progress, strict=True)
        )
        if path:
            path.write_text(comparison.model_dump_json(indent=2) + "\n", "utf-8")
    for table in comparison_tables(comparison.evaluations, aggregation, metric, shown):
        rich.print(table)
    if comparison.differences:
        rich.print(difference_table(comparison, shown))
