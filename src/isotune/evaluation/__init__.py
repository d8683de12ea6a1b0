"""How good a sentence encoder is: similarity, transfer and geometry, with their conventions named."""

from isotune.evaluation.evaluate import evaluate, evaluate_on
from isotune.evaluation.results import Evaluation, GeometryResult, RunEvaluation, STSResult, TransferResult
from isotune.evaluation.sts import STSTask, correlations, cosine_similarities, score
from isotune.evaluation.tables import comparison_tables
from isotune.evaluation.tasks import GROUPS, Task, load_tasks
from isotune.evaluation.vectors import SentenceEncoder, sentence_vectors

__all__ = [
    "GROUPS",
    "Evaluation",
    "GeometryResult",
    "RunEvaluation",
    "STSResult",
    "STSTask",
    "SentenceEncoder",
    "Task",
    "TransferResult",
    "comparison_tables",
    "correlations",
    "cosine_similarities",
    "evaluate",
    "evaluate_on",
    "load_tasks",
    "score",
    "sentence_vectors",
]
