"""`isotune evaluate`: encoders side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter


def evaluate(
    *encoders: str,
    tasks: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative=())] = (),
    aggregation: Literal["all", "mean", "wmean"] = "all",
    metric: Literal["spearman", "pearson"] = "spearman",
    json: Path | None = None,
) -> None:
    """Score sentence encoders on semantic textual similarity.

    Parameters
    ----------
    encoders
        Folders or hub names: encoders, or plain language models (mean of the last layer).
    tasks
        Named tasks, the group sts, or files with sentence1, sentence2 and score. Unset: the seven STS tasks where
        $ISOTUNE_DATA has them, or else the bundled test pairs.
    aggregation
        How a task's subsets are put together: all in one correlation (the papers' way), their mean, or their mean
        weighted by size.
    metric
        Which correlation the table shows.
    json
        Write all results, with every aggregation and metric, to this file.
    """
    import rich

    from isotune.encoder.encoder import Encoder
    from isotune.errors import InputError
    from isotune.evaluation import comparison_table
    from isotune.evaluation import evaluate as run

    if not encoders:
        raise InputError("no encoder: name at least one folder or hub name")
    results = [run(Encoder.load(name), tasks, name=name) for name in encoders]
    rich.print(comparison_table(results, aggregation, metric))
    if json:
        json.write_text("[" + ",\n".join(result.model_dump_json(indent=2) for result in results) + "]\n", "utf-8")
