"""Analyses: the papers' figures that look at finished encoders and train nothing.

Importing this loads no torch.

Each analysis is a module of its own with three functions. `compute(encoders, tasks, **options)`
makes a table, which is a list of rows. `findings(table)` makes sentences of the table, and
`draw(table)` a figure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any, NamedTuple

from isotune.errors import InputError, unknown

if TYPE_CHECKING:
    from isotune.data import ScoredPairs
    from isotune.evaluation import SentenceEncoder
    from isotune.lab.analyses.analysis import Analysis, Table


class AnalysisEntry(NamedTuple):
    """What is known of an analysis without loading its module."""

    title: str
    """What it shows."""

    source: str
    """Where the figure was published."""

    tasks: tuple[str, ...]
    """The scored pairs of the published figure."""

    columns: tuple[str, ...]
    """The columns of its table."""

    together: bool = False
    """Whether it takes several tasks at once."""

    seeded: bool = False
    """Whether it draws something by the option `seed`."""


class _Analyses(dict[str, AnalysisEntry]):
    """The entries by name. A name that isn't there raises `InputError`."""

    def __missing__(self, name: str) -> AnalysisEntry:
        raise unknown("analysis", name, self)


ANALYSES: Mapping[str, AnalysisEntry] = _Analyses(
    {
        "cosines": AnalysisEntry(
            title="Cosine against gold score",
            source="ConSERT, Figure 1",
            tasks=("stsb",),
            columns=("encoder", "sentence1", "sentence2", "gold", "cosine"),
        ),
        "frequent-tokens": AnalysisEntry(
            title="STS without the most frequent tokens",
            source="ConSERT, Figure 4",
            tasks=("sts",),
            columns=("encoder", "removed", "token", "count", "empty", "spearman", "tasks"),
            together=True,
        ),
        "layers": AnalysisEntry(
            title="STS by layer and pooling",
            source="self-guided, Figure 1",
            tasks=("stsb",),
            columns=("encoder", "pooling", "layer", "spearman", "tasks"),
            together=True,
            seeded=True,
        ),
        "tsne": AnalysisEntry(
            title="Most and least similar pairs in the plane",
            source="self-guided, Figures 5 and 6",
            tasks=("stsb:dev",),
            columns=("encoder", "kind", "pair", "sentence", "gold", "cosine", "x", "y"),
            seeded=True,
        ),
        "histogram": AnalysisEntry(
            title="Cosines by gold score",
            source="BERT-CF, Figures 2 and 3",
            tasks=("sts13",),
            columns=("encoder", "from", "to", "pairs", "mean", "edges", "counts"),
        ),
    }
)
"""What is known of the analyses, by name. An analysis is the module of its name."""


def analyse(
    name: str, encoders: Mapping[str, SentenceEncoder], tasks: Sequence[str] = (), **options: Any
) -> Analysis:
    """Analyses encoders side by side.

    Args:
        name: a key of `ANALYSES`.
        encoders: each encoder by its name in the figure.
        tasks: scored pairs: datasets (their test split, or the one named, as in "stsb:dev"), the
            group "sts", or files. Unset: those of the published figure if they are on this machine,
            else "stsb-open".
        options: of the analysis, such as `seed`; see its `compute`.

    Raises:
        InputError: there is no such analysis or option, the tasks can't be read or are too many, or
            the analysis can't use an encoder.
    """
    from isotune.lab.analyses.analysis import Analysis

    entry = ANALYSES[name]
    module = import_module(f"{__name__}.{name.replace('-', '_')}")
    _check_options(name, module.compute, options)
    pairs = read_pairs(name, tasks)
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


def read_pairs(name: str, tasks: Sequence[str] = ()) -> list[ScoredPairs]:
    """Reads the scored pairs that an analysis looks at; raises `InputError` as `analyse` does."""
    from isotune.data import read_scored_pairs

    entry = ANALYSES[name]
    sources = _sources(tasks, entry.tasks)
    if len(sources) > 1 and not entry.together:
        raise InputError(f"{name} looks at one task at a time; got {', '.join(sources)}")
    return [read_scored_pairs(source, "test") for source in sources]


def _sources(tasks: Sequence[str], published: Sequence[str]) -> list[str]:
    """The names of the pairs to read: those of `tasks`, or of the published figure."""
    from isotune.data import available
    from isotune.evaluation import named_tasks

    if tasks:
        return [str(task) for task in named_tasks(tasks)]
    sources = [str(task) for task in named_tasks(published)]
    if all(available(source.partition(":")[0]) for source in sources):
        return sources
    # The bundled pairs stand in for the published ones, in the same split.
    _, colon, split = sources[0].partition(":")
    return [f"stsb-open{colon}{split}"]


def _check_options(name: str, compute: Callable[..., Table], options: Mapping[str, Any]) -> None:
    parameters = signature(compute).parameters.values()
    allowed = [option.name for option in parameters if option.kind is option.KEYWORD_ONLY]
    for option in options:
        if option not in allowed:
            raise unknown(f"option of {name}", option, allowed or ["none"])
