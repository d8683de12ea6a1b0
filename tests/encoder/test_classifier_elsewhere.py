"""A classifier opens without isotune, by sentence-transformers, as docs/classifiers.md says."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from isotune import Classifier, ClassifierHead, Encoder, HeadSettings

LABELS = ("bad", "good", "so so")
# Whoever runs this has no isotune.
READ = """
import json, sys
sys.modules["isotune"] = None
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Pooling, Transformer

folder, texts = sys.argv[1], json.load(sys.stdin)

def probabilities(outputs, settings):
    return torch.softmax(outputs / settings["temperature"], dim=1).tolist()

def read(task):
    settings = json.load(open(f"{folder}/classifier-{task}/classifier.json"))
    return settings, Dense.load(f"{folder}/classifier-{task}").eval()

with torch.no_grad():
    vectors = SentenceTransformer(folder, device="cpu").encode(texts, convert_to_tensor=True)
    settings, dense = read("frozen")
    outputs = dense({"sentence_embedding": vectors})["sentence_embedding"]
    frozen = probabilities(outputs, settings)
    settings, dense = read("tuned")
    transformer = Transformer.load(folder)
    transformer.max_seq_length = settings["max_length"]
    pooling = Pooling(transformer.get_embedding_dimension(), settings["pooling"])
    model = torch.nn.Sequential(transformer, pooling, dense).eval()
    outputs = model(transformer.tokenize(texts))["sentence_embedding"]
    tuned = probabilities(outputs, settings)
print(json.dumps([vectors.tolist(), frozen, tuned]))
"""


def drawn_head(seed: int, dimension: int, **read: object) -> ClassifierHead:
    settings = HeadSettings.model_validate(
        {"kind": "single", "labels": LABELS, "temperature": 1.5, **read}
    )
    generator = np.random.default_rng(seed)
    weights = generator.normal(size=(3, dimension)).astype(np.float32)
    return ClassifierHead(settings, weights, np.ones(3, np.float32))


@pytest.mark.slow
def test_classifiers_open_without_isotune(
    tiny_model: Path, sentences: list[str], tmp_path: Path
) -> None:
    """One reads the encoder's own vectors, and one reads what fine-tuning trains."""
    encoder = Encoder.load(tiny_model)
    heads = {
        "frozen": drawn_head(0, encoder.dimension),
        "tuned": drawn_head(1, encoder.dimension, pooling="cls", heads=False, max_length=9),
    }
    encoder.save(tmp_path / "encoder", heads)
    command = [sys.executable, "-W", "ignore", "-c", READ, str(tmp_path / "encoder")]
    done = subprocess.run(command, input=json.dumps(sentences), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    vectors, *found = json.loads(done.stdout.splitlines()[-1])
    np.testing.assert_allclose(vectors, encoder.encode(sentences), atol=1e-5)
    for head, probabilities in zip(heads.values(), found, strict=True):
        expected = Classifier(encoder, head).predict_proba(sentences)
        np.testing.assert_allclose(probabilities, expected, atol=1e-5)
