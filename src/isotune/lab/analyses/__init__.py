"""Analyses: the papers' figures that look at finished encoders and train nothing. Importing this loads no torch.

Each analysis is a module of its own with three functions. `compute(encoders, tasks, **options)` makes a table, which is
a list of rows. `findings(table)` makes sentences of the table, and `draw(table)` a figure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from isotune.errors import InputError
from isotune.registry import Registry

if TYPE_CHECKING:
    from isotune.data import ScoredPairs
    from isotune.evaluation import SentenceEncoder
    from isotune.lab.analyses.analysis import Analysis


class AnalysisEntry(NamedTuple):
    """What is known of an analysis without loading its module."""

    title: str  # what it shows
    source: str  # where the figure was published
    tasks: tuple[str, ...]  # the scored pairs of the published figure
    together: bool = False  # whether it takes several tasks at once
    seeded: bool = False  # whether it draws something by the option `seed`


ANALYSES: Registry[AnalysisEntry] = Registry(
    "analysis",
    {
        "cosines": AnalysisEntry("Cosine against gold score", "ConSERT, Figure 1", ("stsb",)),
        "frequent-tokens": AnalysisEntry(
            "STS without the most frequent tokens", "ConSERT, Figure 4", ("sts",), True
        ),
        "layers": AnalysisEntry(
            "STS by layer and pooling", "self-guided, Figure 1", ("stsb",), True, True
        ),
        "tsne": AnalysisEntry(
            "Most and least similar pairs in the plane",
            "self-guided, Figures 5 and 6",
            ("stsb:dev",),
            seeded=True,
        ),
        "histogram": AnalysisEntry("Cosines by gold score", "BERT-CF, Figures 2 and 3", ("sts13",)),
    },
)
"""What is known of the analyses, by name. An analysis is the module of its name."""


def analyse(
    name: str, encoders: Mapping[str, SentenceEncoder], tasks: Sequence[str] = (), **options: Any
) -> Analysis:
    """Analyses encoders side by side.

    Args:
        name: a key of `ANALYSES`.
        encoders: each encoder by its name in the figure.
        tasks: scored pairs: datasets (their test split, or the one named, as in "stsb:dev"), the group "sts", or files.
            Unset: those of the published figure if they are on this machine, else "stsb-open".
        options: of the analysis, such as `seed`; see its `compute`.

    Raises:
        InputError: there is no such analysis, the tasks can't be read or are too many, or the analysis can't use an
            encoder.
    """
    from isotune.lab.analyses.analysis import Analysis

    entry, module = ANALYSES[name], import_module(f"{__name__}.{name.replace('-', '_')}")
    pairs = _read_pairs(entry, name, tasks)
    table = module.compute(encoders, pairs, **options)
    return Analysis(
        name=name,
        title=f"{entry.title} ({entry.source})",
        tasks=[task.source for task in pairs],
        options=options,
        findings=module.findings(table),
        table=table,
        figure=module.draw(table),
    )


def _read_pairs(entry: AnalysisEntry, name: str, tasks: Sequence[str]) -> list[ScoredPairs]:
    from isotune.data import available, read_scored_pairs
    from isotune.evaluation import named_tasks

    names = [str(task) for task in named_tasks(tasks or entry.tasks)]
    if not tasks and not all(available(member.partition(":")[0]) for member in names):
        names = [
            ":".join(("stsb-open", *names[0].split(":")[1:]))
        ]  # the bundled pairs, of the same split
    if len(names) > 1 and not entry.together:
        raise InputError(f"{name} looks at one task at a time; got {', '.join(names)}")
    return [read_scored_pairs(member, "test") for member in names]
