"""Folders of sentence-transformers with a model of every kind.

They give the vectors of that library, of texts alone and in a batch of many lengths. A run of 20
steps is resumed bit for bit, and its encoder opens in that library.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules
from tokenizers import processors
from transformers import AutoTokenizer

from isotune import Result
from isotune.encoder.encoder import Encoder
from isotune.encoder.kinds import KINDS
from tests.encoder.test_backbone import ARCHITECTURES, make
from tests.training.conftest import assert_same_end, stop_and_resume

PROMPTS = {"query": "the big cat : ", "document": ""}
# Far above the float32 noise of vectors of length 1.
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Folder:
    """What the folders of a kind have around the model."""

    pooling: str = "mean"
    template: str = "[CLS] $A [SEP]"
    padding_side: str = "right"
    dense: bool = False
    """Whether two layers follow the pooling, and the vectors have length 1."""


# The folders as they are published; encoders without a row have the tokens of BERT and a mean.
FOLDERS = {
    "modernbert": Folder("cls"),
    "gte": Folder("cls"),
    "eurobert": Folder(template="[CLS] $A"),
    "qwen3": Folder("lasttoken", "$A [SEP]", "left"),
    "qwen3, with a window": Folder("lasttoken", "$A [SEP]"),
    "qwen3, bidirectional": Folder(template="$A [SEP]", padding_side="left"),
    "gemma3_text": Folder("lasttoken", "[CLS] $A [SEP]", "left"),
    "gemma3_text, bidirectional": Folder(dense=True),
    "embedding_gemma2_text": Folder(dense=True),
}
# The kinds whose runs are tested here: others train in many tests. Two runs are quick tests.
QUICK = ("nomic_bert", "qwen3")
TRAINED = [
    pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow])
    for name, (cls, _) in ARCHITECTURES.items()
    if KINDS[cls.config_class.model_type].positions == "rotary"
]


@pytest.fixture
def folder(request: pytest.FixtureRequest, tiny_model: Path, tmp_path: Path) -> Path:
    """A folder that sentence-transformers has saved, with a small random model of a kind."""
    name = request.param
    parts = FOLDERS.get(name, Folder())
    model = make(name)
    model.save_pretrained(tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(tiny_model, padding_side=parts.padding_side)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=parts.template, special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save_pretrained(tmp_path / "model")
    transformer = modules.Transformer(str(tmp_path / "model"))
    features = model.config.to_dict().get("embedding_dim", model.config.hidden_size)
    layers: list[torch.nn.Module] = [transformer, modules.Pooling(features, parts.pooling)]
    if parts.dense:
        layers += [
            modules.Dense(features, 40, bias=False, activation_function=torch.nn.Identity()),
            modules.Dense(40, features, bias=False, activation_function=torch.nn.Identity()),
            modules.Normalize(),
        ]
    theirs = SentenceTransformer(modules=layers, prompts=PROMPTS, device="cpu")
    theirs.save(str(tmp_path / "folder"))
    return tmp_path / "folder"


def assert_equal_vectors(ours: np.ndarray, theirs: np.ndarray) -> None:
    """The vectors are equal as shares of their length."""
    length = np.linalg.norm(theirs, axis=1).max()
    np.testing.assert_allclose(ours / length, theirs / length, atol=TOLERANCE, rtol=0)


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")
@pytest.mark.parametrize("folder", ARCHITECTURES, indirect=True)
def test_vectors_equal_those_of_sentence_transformers(folder: Path, sentences: list[str]) -> None:
    theirs = SentenceTransformer(str(folder), device="cpu")
    ours = Encoder.load(folder)
    assert ours.tokenizer.padding_side == theirs.tokenizer.padding_side
    assert_equal_vectors(ours.encode(sentences), theirs.encode(sentences))
    for sentence in (*sentences[:3], "a"):
        assert_equal_vectors(ours.encode([sentence]), theirs.encode([sentence]))
    assert_equal_vectors(ours.encode_query(sentences[:9]), theirs.encode_query(sentences[:9]))
    assert_equal_vectors(ours.encode_document(sentences[:9]), theirs.encode_document(sentences[:9]))


@pytest.mark.parametrize("folder", TRAINED, indirect=True)
def test_a_run_resumes_bit_for_bit_and_its_encoder_opens_elsewhere(
    folder: Path, train: Callable[..., Result], sentences: list[str]
) -> None:
    options = {"model": str(folder), "steps": 20, "eval_every": 10, "model_dropout": 0.1}
    whole = train("whole", **options)
    assert_same_end(whole.folder, stop_and_resume(train, 13, **options).folder)
    theirs = SentenceTransformer(str(whole.folder / "encoder"), device="cpu")
    start = SentenceTransformer(str(folder), device="cpu")
    assert theirs.tokenizer.padding_side == start.tokenizer.padding_side
    assert theirs.prompts == start.prompts
    assert_equal_vectors(whole.encoder.encode(sentences), theirs.encode(sentences))
