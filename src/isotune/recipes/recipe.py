"""Recipes: the configuration of a run. No torch here.

A recipe is one TOML table: the data, the model to start from, and a list of stages. A stage is one
flat table: its method, the options of the method, and the training options. The keys are also the
flags of `isotune train` and the keyword arguments of `isotune.train`; `Recipe.with_options` sets
them in a recipe.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Annotated, Any, NamedTuple

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_serializer,
    model_validator,
)

from isotune.data.rows import is_unicode
from isotune.encoder.options import EncoderOptions
from isotune.errors import InputError, counted, invalid, unknown
from isotune.methods import OPTIONS
from isotune.methods.options import MethodOptions, Names, Positive, Use
from isotune.recipes.training import AsReleased, TrainingOptions

RIVALS = {"steps": "epochs", "epochs": "steps", "learning_rate": "rate_width"}
"""An option, and the option whose place it takes."""

SYNONYMS = {
    "bs": "batch_size",
    "lr": "learning_rate",
    "wd": "weight_decay",
    "max-seq-length": "max_length",
    "max-steps": "steps",
    "num-train-epochs": "epochs",
}
"""The option that a name of other tools stands for."""

RUN_OPTIONS = (
    "data",
    "shares",
    "model",
    "dev",
    "tasks",
    "columns",
    "seed",
    "time_limit",
    "keep_checkpoints",
)
"""The options of a run that are not options of its encoder or of a stage.

The first two are given by the sources.
"""

MINUTES = {"": 1, "s": 1 / 60, "m": 1, "h": 60}
"""The minutes of each unit of time."""


def _minutes(value: float | str) -> float:
    time = re.fullmatch(r"(\d+\.?\d*)([smh]?)", str(value))
    if time is None or float(time[1]) == 0:
        raise ValueError("give a time such as 90s, 30m or 2h, or a number of minutes")
    return float(time[1]) * MINUTES[time[2]]


class Inputs(NamedTuple):
    """The data and models that a stage reads, besides the encoder that it trains."""

    data: tuple[str, ...]
    """The sources that the stage trains on."""

    dev: tuple[str, ...]
    """Labelled sources that the stage is scored on; empty if the recipe's dev data choose."""

    models: tuple[str, ...]
    """Extra models that the stage loads, such as translation models."""


class Stage(BaseModel):
    """A part of a run that trains with one method."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    method: str
    """A name in `isotune.methods.METHODS`."""

    options: MethodOptions
    training: TrainingOptions

    data: Names = ()
    """The sources that the stage trains on; if empty, the recipe's data."""

    @model_validator(mode="before")
    @classmethod
    def _from_table(cls, table: Mapping[str, Any]) -> dict[str, Any]:
        """Splits the flat table into the fields of a stage."""
        if not isinstance(table, Mapping):
            raise InputError("a stage is a table")
        method = str(table.get("method", ""))
        keys = {*_stage_keys(method), "data"}
        for key in table:
            if key != "method" and key not in keys:
                raise _unknown(f"option of method {method}", key, keys)
        model = OPTIONS[method]
        options = model.model_validate(_only(table, model))
        data = table.get("data", ())
        own_sources = model.fields_for(Use.TRAIN)
        if data and own_sources:
            instead = ", ".join(own_sources)
            raise InputError(f"data: method {method} reads {instead}; give these instead")
        training = TrainingOptions.model_validate(_only(table, TrainingOptions))
        return {"method": method, "data": data, "options": options, "training": training}

    @property
    def named_sources(self) -> tuple[str, ...]:
        """The sources that the stage itself names; empty if it trains on the recipe's data."""
        return self.options.named(Use.TRAIN) or self.data

    @model_serializer
    def _to_table(self) -> dict[str, Any]:
        """Joins the fields of a stage to the flat table."""
        table: dict[str, Any] = {"method": self.method}
        if self.data:
            table["data"] = self.data
        table |= self.options.model_dump(exclude_none=True)
        table |= self.training.model_dump(exclude_none=True)
        return table


class Recipe(BaseModel):
    """The configuration of a whole run."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    title: str = ""
    """What the recipe does, in one line."""

    paper: str = ""
    """The paper of the method, in a word."""

    source: str = ""
    """Where the values of the recipe are from."""

    published: str = ""
    """The score that the source reports."""

    published_on: Names = ()
    """The tasks of that score, Spearman's correlation over all pairs of a task.

    A run is evaluated on them, unless it is given tasks or their data can't be read.
    """

    cost: str = ""
    """How long a run took, and on what machine."""

    gained: str = ""
    """What runs of the recipe gained where that was measured."""

    usual_gain: Positive | None = None
    """The median of these gains, in points of Spearman's correlation x 100 on scored pairs."""

    data: Names = ()
    """The sources that stages train on: files, patterns, named datasets, hub:owner/name, or - for
    standard input."""

    columns: dict[str, str] = {}
    """The columns of the data, where they have unusual names, such as sentence=body."""

    shares: tuple[Positive, ...] = ()
    """How the rows are shared among the sources, in their order: with 1 and 2, two rows of the
    second source for each row of the first. As many rows as possible are drawn with the seed, and
    no row is repeated. Unset: all rows of all sources."""

    model: Annotated[str, Field(min_length=1)] | None = None
    """The pretrained model to start from: a name on the Hugging Face hub, a local folder, or
    bert-tiny. Unset: bert-tiny, the bundled model."""

    dev: str = "stsb-open:dev"
    """Which step is kept: the one that scores highest on these scored pairs (a named dataset or a
    file), in this retrieval, such as retrieval:faq.tsv, or in this classification, such as
    classification:reviews.csv,text,stars (a file and its columns). With none, the last step is
    kept, or with most_forgotten the last that loses no more than that."""

    tasks: Names = ()
    """The tasks on which the start and the result are evaluated: names, files of scored pairs,
    retrieval:DATA or classification:DATA. A file's columns may stand behind its name, as in
    pairs.csv,first,second,grade. Unset: those of the recipe's published score, or else the seven
    STS tasks; if their data can't be read, the bundled test pairs."""

    seed: Annotated[int, Field(ge=0)] = 0
    """The seed of every random number of the run."""

    time_limit: Annotated[float | str, AfterValidator(_minutes)] | None = None
    """The longest that the run may take: 90s, 30m, 2h, or a number of minutes. It ends the training
    in time for scoring the result, and the best step so far is kept. Stages with steps share the
    time. Unset: there is no limit."""

    keep_checkpoints: bool = False
    """Keep the checkpoints in the folder of the finished run. Else they are deleted: only --resume
    needs them."""

    encoder: EncoderOptions = EncoderOptions()
    """How sentence vectors are made from the model."""

    stages: tuple[Stage, ...]
    """The stages, in order. Each starts from the encoder that the stage before has kept."""

    @model_validator(mode="after")
    def _some_stage(self) -> Recipe:
        # A min_length of the field would count valid stages only, and so add a second error to one
        # invalid stage.
        if not self.stages:
            raise ValueError("stages: a recipe has at least one stage")
        return self

    @model_validator(mode="after")
    def _a_share_for_each_source(self) -> Recipe:
        if self.shares and len(self.shares) != len(self.data):
            raise InputError(
                f"shares: got {counted(len(self.shares), 'share')} and "
                f"{counted(len(self.data), 'source')}; give one share for each source"
            )
        return self

    @property
    def dev_task(self) -> str | None:
        """The data that choose the step; None if `dev` is "none"."""
        if self.dev == "none":
            return None
        return self.dev

    @property
    def teachers(self) -> tuple[str, ...]:
        """The encoders that some stage learns from, by their names."""
        names: list[str] = []
        for stage in self.stages:
            names += stage.options.named(Use.TEACH)
        return tuple(dict.fromkeys(names))

    def inputs(self, stage: Stage) -> Inputs:
        """The data and models that one of the recipe's stages reads."""
        return Inputs(
            data=stage.named_sources or self.data,
            dev=stage.options.named(Use.SCORE),
            models=stage.options.named(Use.LOAD),
        )

    @classmethod
    def from_table(cls, table: Mapping[str, Any], name: str = "recipe") -> Recipe:
        """The recipe that a table describes; `name` is for error messages."""
        try:
            recipe = cls.model_validate(table)
        except ValidationError as error:
            # Errors name the options of a stage, and not the number of the stage.
            raise invalid(name, error, unnamed="stages") from error
        if not is_unicode(json.dumps(recipe.table(), ensure_ascii=False)):
            raise InputError(
                f"{name}: a prompt, name or file name has bytes that are not UTF-8; write it in "
                "UTF-8"
            )
        return recipe

    def table(self) -> dict[str, Any]:
        """The table of the recipe, with every default written out; `from_table` reads it."""
        return self.model_dump(exclude_none=True)

    def with_options(self, options: Mapping[str, Any], name: str = "recipe") -> Recipe:
        """This recipe with other values of some options; `name` is for error messages.

        An option of a stage is set in every stage that has it, but `matryoshka`, `mlm_weight` and
        `interpolations` only in stages with steps. An option takes the place of its rival
        (`RIVALS`). Options of `as_released` that are not given stay as they are.
        """
        table = self.table()
        owners = _owners(table)
        for key, value in options.items():
            if key not in owners:
                raise _unknown("option", key, owners)
            for part in owners[key]:
                _set(part, key, value)
        for key in RIVALS.keys() & options.keys():
            rival = RIVALS[key]
            if rival not in options:
                for part in owners[key]:
                    part.pop(rival, None)
        return Recipe.from_table(table, name)

    def with_precision(self, precision: str) -> Recipe:
        """This recipe with a precision in place of each "auto"."""
        table = self.table()
        for stage in table["stages"]:
            if stage["precision"] == "auto":
                stage["precision"] = precision
        return Recipe.from_table(table)

    def with_sources(self, change: Callable[[str], Iterable[str]]) -> Recipe:
        """This recipe with what `change` makes of each source of its data, its stages and `dev`.

        Of several sources for `dev`, the first is taken.
        """
        table = self.table()
        table["dev"] = next(iter(change(self.dev)))
        _change_sources(table, ["data"], change)
        for stage in table["stages"]:
            own_sources = OPTIONS[stage["method"]].fields_for(Use.TRAIN, Use.SCORE, Use.TEST)
            _change_sources(stage, ["data", *own_sources], change)
        return Recipe.from_table(table)


def _owners(table: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The parts of a recipe's table in which each option can be set, by the option's name."""
    owners = {key: [table] for key in RUN_OPTIONS}
    for key in EncoderOptions.model_fields:
        owners.setdefault(key, []).append(table["encoder"])
    for stage in table["stages"]:
        for key in _settable(stage["method"]):
            owners.setdefault(key, []).append(stage)
    return owners


def _set(table: dict[str, Any], key: str, value: Any) -> None:
    """Sets an option. Of `as_released`, options that are not given stay as they are."""
    if key == "as_released" and isinstance(value, Mapping):
        value = {**table[key], **value}
    table[key] = value


def _change_sources(
    table: dict[str, Any], keys: Iterable[str], change: Callable[[str], Iterable[str]]
) -> None:
    """Changes the sources that a table has under these keys."""
    for key in keys:
        if key in table:
            table[key] = tuple(chain.from_iterable(map(change, table[key])))


def _settable(method: str) -> set[str]:
    """The options that can be set in a stage. Some have a meaning only beside steps."""
    if OPTIONS[method].takes_steps:
        return _stage_keys(method)
    return _stage_keys(method) - {"matryoshka", "mlm_weight", "interpolations"}


def _stage_keys(method: str) -> set[str]:
    return {*OPTIONS[method].model_fields, *TrainingOptions.model_fields}


def _unknown(kind: str, key: str, keys: Iterable[str]) -> InputError:
    """The error for an option that does not exist, or that stands in the table `as_released`."""
    if key in AsReleased.model_fields:
        keys = [f"as_released.{key}"]
    return unknown(kind, key, keys, synonyms=SYNONYMS)


def _only(table: Mapping[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """The entries of a table that are fields of a model."""
    return {key: value for key, value in table.items() if key in model.model_fields}
