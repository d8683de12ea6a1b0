"""How good a sentence encoder is: similarity, transfer and geometry, with their conventions named."""

from isotune.evaluation.evaluate import evaluate, evaluate_on
from isotune.evaluation.intervals import CorrelatedPairs, Floats, interval, resampled_scores
from isotune.evaluation.results import MEASURES, Evaluation, GeometryResult, RunEvaluation, STSResult, TransferResult
from isotune.evaluation.sts import STSTask, correlations, cosine_similarities, score
from isotune.evaluation.tables import AGGREGATIONS, comparison_tables
from isotune.evaluation.tasks import GROUPS, Task, load_tasks, named_tasks, source_of, task_title
from isotune.evaluation.transfer import TransferTask
from isotune.evaluation.vectors import SentenceEncoder, sentence_vectors
from isotune.evaluation.words import SharedWords

__all__ = [
    "AGGREGATIONS",
    "GROUPS",
    "MEASURES",
    "CorrelatedPairs",
    "Evaluation",
    "Floats",
    "GeometryResult",
    "RunEvaluation",
    "STSResult",
    "STSTask",
    "SentenceEncoder",
    "SharedWords",
    "Task",
    "TransferResult",
    "TransferTask",
    "comparison_tables",
    "correlations",
    "cosine_similarities",
    "evaluate",
    "evaluate_on",
    "interval",
    "load_tasks",
    "named_tasks",
    "resampled_scores",
    "score",
    "sentence_vectors",
    "source_of",
    "task_title",
]
