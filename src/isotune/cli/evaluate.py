"""`isotune evaluate`: encoders side by side."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from isotune.cli.parameters import ENCODER, PRECISION, labels, new_file
from isotune.encoder.options import Precision

TASKS = (
    "Named tasks; the groups sts, sts17, stsb-multi, transfer, senteval and senteval-50; geometry, geometry-qqp or "
    "geometry:DATA; or files with sentence1, sentence2 and score. Unset: the seven STS tasks where $ISOTUNE_DATA has "
    "them, or else the bundled test pairs."
)
AGGREGATION = (
    "How an STS task's subsets are put together: all in one correlation (the papers' way), their mean, or their mean "
    "weighted by size."
)
JSON = "Write all results, with every aggregation and metric, to this new file."


def evaluate(
    *encoder: Annotated[str, ENCODER],
    tasks: Annotated[tuple[str, ...], Parameter(help=TASKS, metavar="NAME...", consume_multiple=1)] = (),
    aggregation: Annotated[Literal["all", "mean", "wmean"], Parameter(help=AGGREGATION)] = "all",
    metric: Annotated[
        Literal["spearman", "pearson"], Parameter(help="Which correlation the table shows.")
    ] = "spearman",
    precision: Annotated[Precision | None, PRECISION] = None,
    json: Annotated[Path | None, Parameter(help=JSON, metavar="FILE")] = None,
) -> None:
    """Score sentence encoders side by side: similarity, transfer to classification, and geometry."""
    import rich
    from rich.console import Console
    from rich.progress import track

    from isotune.encoder.load import load_encoder
    from isotune.errors import InputError
    from isotune.evaluation import comparison_tables, evaluate_on, load_tasks

    if not encoder:
        raise InputError("no encoder: name at least one folder or hub name")
    with ExitStack() as stack:
        file = stack.enter_context(new_file(json)) if json else None
        # Before the first is evaluated, so that a wrong name costs nothing.
        loaded_tasks = load_tasks(tasks)
        named = f", {precision}" if precision else ""
        loaded = {name: load_encoder(name, precision) for name in encoder}
        console = Console(stderr=True)
        shown = track(loaded.items(), "evaluating", console=console, transient=True, disable=not console.is_terminal)
        results = [evaluate_on(loaded_tasks, one, name + named) for name, one in shown]
        short = [
            result.model_copy(update={"encoder": label + named})
            for label, result in zip(labels(list(loaded)), results, strict=True)
        ]
        for table in comparison_tables(short, aggregation, metric):
            rich.print(table)
        if file:
            written = ",\n".join(result.model_dump_json(indent=2) for result in results)
            file.write(f"[{written}]\n".encode())
