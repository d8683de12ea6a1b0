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
JSON = "Write all results, with every aggregation and metric, to this new file."


def evaluate(
    *encoder: Annotated[str, ENCODER],
    tasks: Annotated[tuple[str, ...], Parameter(help=TASKS, metavar="NAME...", consume_multiple=1)] = (),
    aggregation: Annotated[Literal["all", "mean", "wmean"], Parameter(help=AGGREGATION)] = "all",
    metric: Annotated[Literal["spearman", "pearson"], Parameter(help=METRIC)] = "spearman",
    precision: Annotated[Precision | None, PRECISION] = None,
    json: Annotated[Path | None, Parameter(help=JSON, metavar="FILE")] = None,
) -> None:
    """Score sentence encoders side by side.

    Three kinds of task answer three questions. Similarity: does the cosine of two vectors agree with people's scores?
    Transfer: can a simple classifier work with the vectors? Geometry: how are the vectors distributed?
    """
    import rich
    from rich.console import Console
    from rich.progress import track

    from isotune.encoder.encoder import Encoder
    from isotune.evaluation import comparison_tables, evaluate_on, load_tasks
    from isotune.files import new_path

    names = list(dict.fromkeys(encoder))
    short = labels(names)
    with new_path(json) if json else nullcontext() as path:
        # All tasks and encoders are loaded before the first is evaluated, so that a wrong name costs no time.
        loaded_tasks = load_tasks(tasks)
        suffix = f", {precision}" if precision else ""
        encoders = [Encoder.load(name, precision=precision) for name in names]
        console = Console(stderr=True)
        hidden = not console.is_terminal
        progress = track(encoders, "evaluating", console=console, transient=True, disable=hidden)
        evaluations = [
            evaluate_on(loaded_tasks, model, name + suffix) for name, model in zip(names, progress, strict=True)
        ]
        if path:
            texts = ",\n".join(evaluation.model_dump_json(indent=2) for evaluation in evaluations)
            path.write_text(f"[{texts}]\n", "utf-8")
    labelled = [
        evaluation.model_copy(update={"encoder": label + suffix})
        for label, evaluation in zip(short, evaluations, strict=True)
    ]
    for table in comparison_tables(labelled, aggregation, metric):
        rich.print(table)
