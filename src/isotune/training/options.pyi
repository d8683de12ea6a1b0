"""The options of `isotune.train`; made by `python -m tests.training.test_options`."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Optional, TypedDict, Union

from isotune.evaluation import TaskRows

class Options(TypedDict, total=False):
    """Values that differ from the recipe's. Not every method has every option."""

    model: Any
    dev: str | TaskRows
    tasks: Sequence[str | TaskRows]
    columns: Mapping[str, str]
    seed: int
    time_limit: Union[float, str, None]
    keep_checkpoints: bool
    pooling: Optional[str]
    layers: Optional[Sequence[int]]
    prompt: str | None
    batch_size: int
    chunk_size: Optional[int]
    epochs: Optional[float]
    steps: Optional[int]
    max_length: int
    learning_rate: float
    rate_width: Optional[int]
    schedule: Literal["linear", "cosine", "constant"]
    warmup: float | str
    weight_decay: float
    betas: Sequence[float]
    epsilon: float
    max_gradient_norm: float
    model_dropout: Optional[float]
    attention_dropout: Optional[float]
    frozen_blocks: int
    matryoshka: Optional[Sequence[int]]
    mlm_weight: float
    precision: Literal["auto", "float32", "bfloat16"]
    eval_every: int
    patience: Optional[int]
    most_forgotten: Optional[float]
    interpolations: Optional[Sequence[float]]
    confidence: float
    sample: Optional[int]
    min_words: Optional[int]
    min_score: Optional[float]
    positive: str | None
    as_released: Mapping[str, Any]
    augmentations: Sequence[str]
    temperature: float
    projection: bool | int
    regularizer: float
    translate: Sequence[str] | None
    beams: int
    spans: Literal["characters", "tokens"]
    span_length: int
    span_rate: float
    symmetric: bool
    mixing: Literal["reversal", "lu"]
    levels: int
    depth: int
    width: int
    contrastive_weight: float
    train_encoder: bool
    classes: Sequence[str]
    test_share: Optional[float]
    test_data: Sequence[str]
    kind: Literal["single", "multi", "score"]
    separator: str
    class_weights: Optional[Literal["balanced"]]
    soft_targets: Optional[float]
    max_square: bool
    alpha: float
    adversarial_norm: float
    scale: float
    teachers: Sequence[str]
    match: Literal["similarities", "vectors"]
    metrics: Sequence[Literal["accuracy", "f1", "macro_f1", "matthews", "pearson", "spearman"]]
    dropout: float
    heads: bool
    dev_share: float
    dev_data: Sequence[str]
    cached: bool
    masking_rate: float
    sentiment_data: Sequence[str]
    paraphrase_data: Sequence[str]
    similarity_data: Sequence[str]
    sentiment_dev: Sequence[str]
    paraphrase_dev: Sequence[str]
    similarity_dev: Sequence[str]
    sentiment_test: Sequence[str]
    paraphrase_test: Sequence[str]
    similarity_test: Sequence[str]
    sentiment_classes: Sequence[str]
    sentiment_batch_size: int
    paraphrase_batch_size: int
    similarity_batch_size: int
    sentiment_weight: float
    paraphrase_weight: float
    similarity_weight: float
    paraphrase_hinge: float
    similarity_hinge: float
    sentiment_dropout: float
    similarity_dropout: float
    negatives: bool
    dimensions: Optional[int]
    objective: Literal["base", "opt1", "opt2", "opt3"]
    view_pooling: Literal["max", "mean", "cls"]
    view_layers: Sequence[int]
    frozen_dropout: bool
    smoothing: float
    keep_projection: bool
    margin_weight: float
    beta: float
    pure_negatives: bool
    prompts: bool
    parser: str
