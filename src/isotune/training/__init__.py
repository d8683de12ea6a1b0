"""Training: a run and its stages, steps, checkpoints and folder. `run.py` tells the story of a run."""

from isotune.training.outcome import Result
from isotune.training.run import train
from isotune.training.step import TrainingFailed

__all__ = ["Result", "TrainingFailed", "train"]
