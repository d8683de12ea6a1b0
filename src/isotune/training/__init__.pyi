from .outcome import Result as Result
from .run import train as train
from .run_folder import check_tensors as check_tensors
from .run_folder import is_finished as is_finished
from .run_folder import remove_checkpoints as remove_checkpoints
from .selection import PREDICTIONS as PREDICTIONS
from .stage import TrainingFailed as TrainingFailed
