"""What a study is told: arms, a grid of options, seeds and tasks, with what a paper prints of it. No torch here.

A study file is one TOML table. Its arms are recipes, methods or models as they are; each is run at every cell of the
grid with every seed. The options that a study lays over its arms are those of `Recipe.with_options`, and one more
form: "augmentations.0" is the first value of an option that is a list. An arm takes those of them that it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from isotune.data.catalogue import DATASETS
from isotune.encoder.options import EncoderOptions
from isotune.errors import InputError, unknown
from isotune.lab.analyses import ANALYSES
from isotune.methods import METHODS
from isotune.recipes import read_recipe

Value = bool | int | float | str | tuple[bool | int | float | str, ...]
"""Of an option."""

Cell = Mapping[str, Value]
"""A place in the grid: each option and its value there."""

RUN_SCORES = ("dev", "kept_step", "steps", "seconds", "sentences_per_second")
"""What a study can tell of a run besides its evaluation: the best dev score, the step that has it, all steps, the
seconds that these took, and the sentences that the encoder kept takes in a second. Where the dev score is a mean,
"dev:" and the name of a part is that part."""

COSINE = "cosine"
"""Of the score "cosine:7", the cosine of pair 7."""

SPLITS = ("train", "dev", "test")
"""The sizes of a dataset that studies print, and "texts"."""

OWN = frozenset({"model", "seed", "tasks"})
"""Options of a run that are said elsewhere in a study."""

START = "start:"
"""Before the name of a score: that of the model that the run started from, as "start:sts"."""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Arm(_Table):
    """One of the things compared.

    Attributes:
        name: as the tables call it.
        recipe: of the package, or a TOML file.
        method: one with its own defaults, in place of a recipe; with neither the model is evaluated as it is.
        data: what is trained on, where the recipe doesn't say or it is to be another.
        model: the model published with; the study's if it isn't given.
        start: the arm before it whose encoder this one starts from, that of the same seed and cell.
        options: what differs from the recipe.
        grid: in place of the study's.
    """

    name: Annotated[str, Field(min_length=1)]
    recipe: str = ""
    method: str = ""
    data: tuple[str, ...] = ()
    model: str = ""
    start: str = ""
    options: dict[str, Any] = {}
    grid: dict[str, tuple[Value, ...]] | None = None

    @property
    def trained(self) -> bool:
        """Whether it is more than a model as it is."""
        return bool(self.recipe or self.method)

    @model_validator(mode="after")
    def _of_one_kind(self) -> Arm:
        if self.recipe and self.method:
            raise ValueError(f"arm {self.name}: recipe {self.recipe} and method {self.method} are both given")
        if self.start and self.model:
            raise ValueError(f"arm {self.name}: start {self.start} and model {self.model} are both given")
        if self.recipe:
            read_recipe(self.recipe)
        if self.method and self.method not in METHODS:
            raise unknown(f"method of arm {self.name}", self.method, METHODS)
        if not self.trained:
            given = [*(["data"] if self.data else []), *(["start"] if self.start else []), *self.options]
            if wrong := [key for key in given if key not in EncoderOptions.model_fields]:
                raise ValueError(f"arm {self.name}: {wrong[0]} is given, but it has no recipe or method to train by")
        return self


class Published(_Table):
    """What the paper prints at one place.

    Attributes:
        arm: an arm's name; or that of a line that no arm has, which stands in the table for reference.
        at: the cell of the grid, or the columns that say which row of an analysis's table.
        analysis: the analysis that it is of; the study's own table if it isn't given.
        scores: score -> value, as printed; of an analysis, columns of its table.
        deviation: score -> standard deviation, as printed.
        note: what a reader has to know of it.
    """

    arm: str
    at: dict[str, Value] = {}
    analysis: str = ""
    scores: dict[str, float]
    deviation: dict[str, float] = {}
    note: str = ""


class FigureSpec(_Table):
    """A figure, drawn from the study's table.

    Attributes:
        kind: curve (a line an arm over x), heatmap (one an arm), or bars (one an arm, side by side at each x).
        y: the score.
        x: the grid's option that runs along; bars may have none.
        log: whether the axis of x is logarithmic.
        rows: the grid's option that a heatmap has downwards.
        columns: and the one across.
    """

    kind: Literal["curve", "heatmap", "bars"]
    y: str
    x: str = ""
    log: bool = False
    rows: str = ""
    columns: str = ""

    @property
    def axes(self) -> tuple[str, ...]:
        """The options of the grid that it has."""
        return tuple(filter(None, (self.x, self.rows, self.columns)))

    @model_validator(mode="after")
    def _has_axes(self) -> FigureSpec:
        needs = {"curve": ("x",), "heatmap": ("rows", "columns"), "bars": ()}[self.kind]
        for name in needs:
            if not getattr(self, name):
                raise ValueError(f"a figure of kind {self.kind} needs {name}, an option of the grid")
        allowed = {"curve": ("x", "log"), "heatmap": ("rows", "columns"), "bars": ("x",)}[self.kind]
        if wrong := [name for name in ("x", "log", "rows", "columns") if getattr(self, name) and name not in allowed]:
            raise ValueError(f"a figure of kind {self.kind} has no {wrong[0]}")
        return self


class Study(_Table):
    """A comparison, or a table of a paper.

    Attributes:
        title: what it is, in a line.
        paper: the paper's short name; empty for a study of one's own.
        source: where its numbers are printed.
        model: the model published with, which all arms start from that don't name another.
        seeds: of the runs of each arm in each cell.
        tasks: evaluated on; names as in `isotune.evaluation.load_tasks`.
        scores: the columns: keys of `Evaluation.scores` or of `averages`, those of `RUN_SCORES`, "start:" and a key, or
            "cosine:" and the number, from 0, of a pair of the first task.
        aggregation: of a task's subsets.
        metric: the correlation.
        judge: the score by which arms are compared; the first of the scores if it isn't given.
        compare: whether every arm is compared with the first one, or with every other. With one arm it is its cells.
        averages: columns that are the mean of others, where a paper's average is of no group of tasks.
        scale: what correlations and accuracies are printed times: 100, or 1 where the paper has 0.760.
        cost: what it takes, and whether that is measured or estimated.
        note: what a reader has to know of it.
        options: laid over every arm that has them.
        grid: option -> values; an arm is run at each combination of those that it has.
        arms: what is compared.
        statistics: datasets whose sizes are lines of the table: train, dev and test (rows with a score or label), and
            texts.
        published: what the paper prints.
        figures: drawn from the table.
        analyses: run on every arm's encoder of the first seed; names of `isotune.lab.analyses.ANALYSES`.
        analysed: the scored pairs that they look at; those that each was published on if there are none.
    """

    title: str
    paper: str = ""
    source: str = ""
    model: str = "mini"
    seeds: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)] = (0,)
    tasks: tuple[str, ...] = ()
    scores: Annotated[tuple[str, ...], Field(min_length=1)]
    aggregation: Literal["all", "mean", "wmean"] = "all"
    metric: Literal["spearman", "pearson"] = "spearman"
    judge: str = ""
    compare: Literal["first", "all"] = "first"
    averages: dict[str, Annotated[tuple[str, ...], Field(min_length=1)]] = {}
    scale: Literal[1, 100] = 100
    cost: str = ""
    note: str = ""
    options: dict[str, Any] = {}
    grid: dict[str, Annotated[tuple[Value, ...], Field(min_length=1)]] = {}
    arms: tuple[Arm, ...] = ()
    statistics: tuple[str, ...] = ()
    published: tuple[Published, ...] = ()
    figures: tuple[FigureSpec, ...] = ()
    analyses: tuple[str, ...] = ()
    analysed: tuple[str, ...] = ()

    @classmethod
    def from_table(cls, table: Mapping[str, Any], name: str = "study") -> Study:
        """Validates a study's table.

        Raises:
            InputError: a key is unknown, or a value not allowed; in one line.
        """
        try:
            return cls.model_validate(table)
        except ValidationError as error:
            raise one_line(error, name) from error

    @property
    def judged(self) -> str:
        """The score by which arms are compared."""
        return self.judge or self.scores[0]

    @property
    def models(self) -> list[str]:
        """The models published with."""
        return list(dict.fromkeys(arm.model or self.model for arm in self.arms if not arm.start))

    @field_validator("arms")
    @classmethod
    def _names(cls, arms: tuple[Arm, ...]) -> tuple[Arm, ...]:
        names = [arm.name for arm in arms]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two arms are called {twice[0]}")
        before: list[str] = []
        for arm in arms:
            if arm.start and arm.start not in before:
                raise unknown(f"trained arm before {arm.name}", arm.start, before or ["none"])
            before += [arm.name] if arm.trained else []
        return arms

    @model_validator(mode="after")
    def _refers_to_what_is_there(self) -> Study:
        axes = {*self.grid, *(key for arm in self.arms for key in arm.grid or ())}
        given = {*axes, *self.options, *(key for arm in self.arms for key in arm.options)}
        if own := sorted(given & OWN):
            raise ValueError(f"{own[0]} isn't given as an option: a study and its arms have keys of their own for it")
        for name in self.analyses:
            if name not in ANALYSES:
                raise unknown("analysis", name, ANALYSES)
        for name in self.statistics:
            if name not in DATASETS:
                raise unknown("dataset", name, DATASETS)
        if self.judge and self.judge not in self.scores:
            raise unknown("score to judge by", self.judge, self.scores)
        for number, published in enumerate(self.published, 1):
            if published.analysis:
                if published.analysis not in self.analyses:
                    raise unknown(f"analysis in published {number}", published.analysis, self.analyses or ["none"])
                continue
            for key in published.at:
                if key not in axes:
                    raise unknown(f"option of the grid in published {number}", key, axes or ["none"])
            for key in (*published.scores, *published.deviation):
                if key not in self.scores:
                    raise unknown(f"score in published {number}", key, self.scores)
        for number, figure in enumerate(self.figures, 1):
            if figure.y not in self.scores:
                raise unknown(f"score of figure {number}", figure.y, self.scores)
            for key in figure.axes:
                if key not in axes:
                    raise unknown(f"option of the grid in figure {number}", key, axes or ["none"])
        return self


def one_line(error: ValidationError, name: str) -> InputError:
    """What is wrong with a table of this name, in one line."""
    problems = []
    for problem in error.errors(include_url=False):
        place = [str(part + 1 if isinstance(part, int) else part) for part in problem["loc"]]
        got = "" if isinstance(problem["input"], Mapping | list | tuple) else f" (got {problem['input']!r})"
        problems.append(": ".join([*place, problem["msg"].removeprefix("Value error, ") + got]))
    return InputError(f"{name}: {'; '.join(problems)}")
