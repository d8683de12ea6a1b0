"""How good a sentence encoder is: similarity, retrieval, transfer and geometry, with their conventions named."""

from isotune.evaluation.calibration import calibrate
from isotune.evaluation.comparison import (
    Measured,
    compare,
    compare_measured,
    differences,
    evaluate,
    evaluation_of,
    measure,
)
from isotune.evaluation.intervals import correlated_pairs, interval, resampled_correlations
from isotune.evaluation.results import (
    MEASURES,
    Comparison,
    Evaluation,
    GeometryResult,
    RetrievalResult,
    RunEvaluation,
    STSResult,
    TaskResult,
    TransferResult,
)
from isotune.evaluation.retrieval import RetrievalTask
from isotune.evaluation.sts import STSTask, correlations, cosine_similarities, score
from isotune.evaluation.tables import AGGREGATIONS, comparison_tables, difference_table
from isotune.evaluation.tasks import (
    GROUPS,
    DevTask,
    RowTask,
    Task,
    load_dev,
    load_tasks,
    named_tasks,
    source_of,
    task_title,
    with_whole_path,
)
from isotune.evaluation.transfer import TransferTask
from isotune.evaluation.vectors import Floats, SentenceEncoder, SharedWords, sentence_vectors
