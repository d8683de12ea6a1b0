"""What a run is told: recipes, their stages, and the options of a stage. No torch here.

A recipe is one TOML table: what is read, which model it starts from, and a list of stages. A stage is one flat table:
its method, the method's options and the training options. The same names are the flags of the command line and the
keyword arguments of `isotune.train`, and `override` lays those over a recipe.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, ValidationError, field_validator, model_validator

from isotune.encoder.options import EncoderOptions, Scratch
from isotune.errors import InputError, unknown
from isotune.methods import METHODS
from isotune.methods.options.base import MethodOptions
from isotune.recipes.training import TrainingOptions


class Inputs(NamedTuple):
    """The data and models that a stage reads, besides the encoder that it trains.

    Attributes:
        data: sources that it trains on.
        dev: labelled sources that it is scored on; empty if the recipe's dev pairs choose the best step.
        models: extra models that it loads, such as translation models.
    """

    data: tuple[str, ...]
    dev: tuple[str, ...]
    models: tuple[str, ...]


class Stage(BaseModel):
    """One method, trained once.

    Attributes:
        method: a name of `isotune.methods.METHODS`.
        options: that method's.
        training: see `TrainingOptions`.
        data: what it reads; the recipe's if empty.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    method: str
    options: SerializeAsAny[MethodOptions]
    training: TrainingOptions
    data: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _from_table(cls, table: Mapping[str, Any]) -> dict[str, Any]:
        """Sorts the keys of the flat table into the models they belong to."""
        if not isinstance(table, Mapping):
            raise InputError("a stage is a table")
        method = str(table.get("method", ""))
        known = {*_stage_keys(method), "data"}
        for key in table:
            if key not in known | {"method"}:
                raise unknown(f"option of method {method}", key, known)
        options = METHODS[method].options
        return {
            "method": method,
            "data": table.get("data", ()),
            "options": options.model_validate(_only(table, options)),
            "training": TrainingOptions.model_validate(_only(table, TrainingOptions)),
        }

    @property
    def named_sources(self) -> tuple[str, ...]:
        """The sources that the stage itself names to train on; empty if it trains on the recipe's data."""
        return self.options.training_sources() or self.data

    def table(self) -> dict[str, Any]:
        """The flat table, defaults written out."""
        data = {"data": self.data} if self.data else {}
        options = {**self.options.model_dump(exclude_none=True), **self.training.model_dump(exclude_none=True)}
        return {"method": self.method, **data, **options}


class Recipe(BaseModel):
    """A whole run.

    Attributes:
        title: what it is, in a line.
        paper: whose method it is, in a word.
        source: where its values are from.
        published: the score its source reports.
        cost: what a run took, and where.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    title: str = ""
    paper: str = ""
    source: str = ""
    published: str = ""
    cost: str = ""
    data: tuple[str, ...] = ()
    columns: dict[str, str] = {}
    """Which column holds which field, where the names aren't the usual ones, e.g. sentence=body."""

    model: Annotated[str, Field(min_length=1)] | None = None
    """The pretrained model: a name on the Hugging Face hub, a local folder, or mini. Unset: mini, the bundled one."""

    scratch: Scratch | None = None
    """A new model of this size in place of a pretrained one; its vocabulary is made from the first stage's text."""

    dev: str = "stsb-open:dev"
    """Scored pairs that choose the encoder that is kept: a named dataset or a file; or unlabelled (a criterion on
    training sentences chooses), or none (the last is kept)."""

    tasks: tuple[str, ...] = ()
    """What the start and the result are evaluated on: names or files. Unset: the seven STS tasks where
    $ISOTUNE_DATA has them, or else the bundled test pairs."""

    seed: Annotated[int, Field(ge=0)] = 0
    """Every random number of the run follows from it."""

    encoder: EncoderOptions = EncoderOptions()
    stages: tuple[Stage, ...]

    @field_validator("stages")
    @classmethod
    def _some_stage(cls, stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
        # Not as a min_length of the field: that counts the valid ones, and complains of every other mistake too.
        if not stages:
            raise ValueError("a recipe has at least one stage")
        return stages

    @model_validator(mode="after")
    def _one_start(self) -> Recipe:
        if self.model is not None and self.scratch is not None:
            raise ValueError(
                f"model {self.model} and scratch are both given; a recipe with scratch makes its own model"
            )
        return self

    @property
    def dev_pairs(self) -> str | None:
        """The scored pairs that choose, if any do."""
        return None if self.dev in ("unlabelled", "none") else self.dev

    def inputs(self, stage: Stage) -> Inputs:
        """The data and models that one of the recipe's stages reads."""
        options = stage.options
        return Inputs(stage.named_sources or self.data, options.dev_sources(), options.extra_models())

    @classmethod
    def from_table(cls, table: Mapping[str, Any], name: str = "recipe") -> Recipe:
        """Validates a recipe's table.

        Raises:
            InputError: a key is unknown, or a value not allowed; in one line.
        """
        try:
            return cls.model_validate(table)
        except ValidationError as error:
            problems = []
            for problem in error.errors(include_url=False):
                loc = problem["loc"]
                loc = loc[2:] if loc[:1] == ("stages",) and len(loc) > 1 else loc
                key = "".join(f"{part}: " for part in loc if isinstance(part, str))
                got = "" if isinstance(problem["input"], Mapping) else f" (got {problem['input']!r})"
                problems.append(f"{key}{problem['msg'].removeprefix('Value error, ')}{got}")
            raise InputError(f"{name}: {'; '.join(problems)}") from error

    def table(self) -> dict[str, Any]:
        """The recipe's table, defaults written out; `from_table` takes it back."""
        table = self.model_dump(exclude={"stages", "encoder"}, exclude_none=True)
        encoder = {"encoder": self.encoder.model_dump(exclude_none=True)}
        return {**table, **encoder, "stages": [stage.table() for stage in self.stages]}


RUN_OPTIONS = ("data", "columns", "model", "dev", "tasks", "seed")


def override(table: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The table of a recipe (one that `Recipe.from_table` takes) with single options changed.

    An option of a stage is changed in every stage that has it; giving steps takes a recipe's epochs away, and the
    other way round.

    Raises:
        InputError: no part of the recipe has an option of that name.
    """
    result = {**table, "encoder": dict(table.get("encoder", {})), "stages": [dict(s) for s in table["stages"]]}
    for key, value in options.items():
        if key in RUN_OPTIONS:
            result[key] = value
            continue
        if key in EncoderOptions.model_fields:
            result["encoder"][key] = value
            continue
        stages = [stage for stage in result["stages"] if key in _stage_keys(stage["method"])]
        if not stages:
            known = {key for stage in result["stages"] for key in _stage_keys(stage["method"])}
            raise unknown("option", key, {*RUN_OPTIONS, *EncoderOptions.model_fields, *known})
        for stage in stages:
            stage[key] = value
            other = {"steps": "epochs", "epochs": "steps"}.get(key)
            if other and other not in options:
                stage.pop(other, None)
    return result


def _stage_keys(method: str) -> set[str]:
    if method not in METHODS:
        raise unknown("method", method, METHODS)
    return {*METHODS[method].options.model_fields, *TrainingOptions.model_fields}


def _only(table: Mapping[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key in model.model_fields}
