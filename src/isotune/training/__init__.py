"""Training: a run and its stages, steps, checkpoints and folder. `run.py` tells the story of a run."""

from isotune.training.outcome import Result
from isotune.training.run import train
from isotune.training.run_folder import is_finished
from isotune.training.selection import PREDICTIONS
from isotune.training.step import TrainingFailed
