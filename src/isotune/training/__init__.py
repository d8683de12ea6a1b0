"""The training run: loop, checkpoints, run folder."""

from isotune.training.run import Result, train

__all__ = ["Result", "train"]
