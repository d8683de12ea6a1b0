"""How good a sentence encoder is: STS with its conventions named."""

from isotune.evaluation.evaluate import AGGREGATIONS, GROUPS, TASKS, comparison_table, evaluate, evaluate_on, load_tasks
from isotune.evaluation.results import (
    Aggregates,
    Aggregation,
    Average,
    Evaluation,
    Metric,
    RunEvaluation,
    STSResult,
    SubsetResult,
)
from isotune.evaluation.sts import SentenceEncoder, correlations, cosine_similarities, score

__all__ = [
    "AGGREGATIONS",
    "GROUPS",
    "TASKS",
    "Aggregates",
    "Aggregation",
    "Average",
    "Evaluation",
    "Metric",
    "RunEvaluation",
    "STSResult",
    "SentenceEncoder",
    "SubsetResult",
    "comparison_table",
    "correlations",
    "cosine_similarities",
    "evaluate",
    "evaluate_on",
    "load_tasks",
    "score",
]
