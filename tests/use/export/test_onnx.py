"""ONNX folders: the vectors of `encode` without torch, for every pooling, head and prompt."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import nn

from isotune import Classifier, ClassifierHead, HeadSettings
from isotune.data import read_scored_pairs
from isotune.encoder.encoder import Encoder
from isotune.encoder.heads import Dense, Head, Normalize, NormalizingFlow
from isotune.encoder.pooling import Pooling
from isotune.errors import InputError
from isotune.methods.whitening import whitening
from isotune.use.export import onnx as onnx_export
from isotune.use.export.onnx import PaddedEncoder, export_onnx
from tests.encoder.test_backbone import ARCHITECTURES, make

TOLERANCE = 1e-5
# Runs the example as somebody without torch, transformers and isotune.
WITHOUT_TORCH = """
import json, runpy, sys
sys.modules.update(dict.fromkeys(["torch", "transformers", "isotune"]))
print(json.dumps(runpy.run_path(sys.argv[1])["encode"](json.load(sys.stdin)).tolist()))
"""


def encode_without_torch(
    folder: Path, sentences: Sequence[str], python: str = sys.executable
) -> np.ndarray:
    command = [python, "-c", WITHOUT_TORCH, str(folder / "encode.py")]
    done = subprocess.run(command, input=json.dumps(sentences), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return np.array(json.loads(done.stdout), np.float32)


def encode_padded(graph: PaddedEncoder, encoder: Encoder, sentences: Sequence[str]) -> np.ndarray:
    """The vectors of the graph in torch; the padding has ids that must not matter."""
    ids = encoder.tokenize(sentences)
    longest = max(map(len, ids))
    padded = torch.tensor([[*tokens, *[7] * (longest - len(tokens))] for tokens in ids])
    mask = torch.tensor([[1] * len(tokens) + [0] * (longest - len(tokens)) for tokens in ids])
    with torch.no_grad():
        return np.asarray(graph.eval()(padded, mask))


def random_flow() -> NormalizingFlow:
    flow = NormalizingFlow(32, mixing="lu", levels=2)
    for parameter in flow.parameters():
        nn.init.normal_(parameter, std=0.1)
    return flow


@pytest.fixture
def load(tiny_model: Path) -> Callable[..., Encoder]:
    def load(*heads: Head, **options: Any) -> Encoder:
        encoder = Encoder.load(tiny_model, **options)
        encoder.heads.extend(heads)
        return encoder.eval()

    return load


@pytest.mark.parametrize(
    "pooling",
    [
        *(Pooling(mode) for mode in ("cls", "lasttoken", "mean", "weightedmean")),
        *(Pooling("max", (1,)), Pooling("mean", (0, 2, -1)), Pooling("mean", (0, -1), (1.0, 3.0))),
    ],
    ids=str,
)
def test_every_pooling(
    load: Callable[..., Encoder], sentences: list[str], pooling: Pooling
) -> None:
    encoder = load(prompt="a {sentence} is {mask}")
    encoder.pooling = pooling
    expected = encoder.encode(sentences)
    np.testing.assert_allclose(
        encode_padded(PaddedEncoder(encoder), encoder, sentences), expected, atol=TOLERANCE
    )


@pytest.fixture(scope="module")
def exported(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the export of an encoder with all that can go wrong, which lies beside it."""
    folder = tmp_path_factory.mktemp("export")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = Encoder.load(
            tiny_model, pooling="mask", layers=[1, -1], prompt='Ball, "Big" {sentence} is {mask} .'
        )
        vectors = torch.randn(200, 32) @ torch.randn(32, 32)
        encoder.heads.extend([Dense(32, 32), random_flow(), whitening(vectors, 20), Normalize()])
    encoder.lowercase = True
    encoder.tokenizer.backend_tokenizer.enable_padding(
        length=30
    )  # as in the published all-MiniLM-L6-v2
    encoder.save(folder / "encoder")
    assert export_onnx(folder / "encoder", folder / "onnx") < TOLERANCE
    return folder / "onnx"


def test_a_process_without_torch_gives_the_same_vectors(
    exported: Path, sentences: list[str]
) -> None:
    texts = [*sentences, "A DOG", "", "big " * 100, "café 犬 \n ball"]
    vectors = encode_without_torch(exported, texts)
    assert vectors.shape == (64, 20)
    expected = Encoder.load(exported.with_name("encoder")).encode(texts)
    np.testing.assert_allclose(vectors, expected, atol=TOLERANCE)


SETTINGS = {"config.json", "sentence_bert_config.json", "tokenizer_config.json"}


def read_json(exported: Path, name: str) -> dict[str, Any]:
    settings: dict[str, Any] = json.loads((exported / name).read_text("utf-8"))
    return settings


def test_the_files_of_an_export(exported: Path) -> None:
    files = {"README.md", "encode.py", "model.onnx", "tokenizer.json"}
    assert {path.name for path in exported.iterdir()} == SETTINGS | files


def test_an_export_has_what_servers_ask_for_before_they_open_the_graph(exported: Path) -> None:
    """text-embeddings-inference and fastembed do."""
    config = read_json(exported, "config.json")
    assert (config["model_type"], config["architectures"]) == ("bert", ["BertModel"])
    assert config["max_position_embeddings"] == 32
    assert read_json(exported, "sentence_bert_config.json")["max_seq_length"] == 32
    special = read_json(exported, "tokenizer_config.json")
    assert (special["model_max_length"], special["pad_token"]) == (32, "[PAD]")


def test_an_exported_tokenizer_cuts_and_pads(exported: Path) -> None:
    tokenizer = read_json(exported, "tokenizer.json")
    assert tokenizer["padding"]["strategy"] == "BatchLongest"
    assert tokenizer["truncation"]["max_length"] == 32


def test_an_exported_graph_names_its_inputs_and_output_and_no_path(exported: Path) -> None:
    graph = onnx.load(exported / "model.onnx").graph
    assert [value.name for value in graph.input] == ["input_ids", "attention_mask"]
    assert [value.name for value in graph.output] == ["sentence_embedding"]
    # Paths of this machine would be in the metadata.
    assert not any(node.metadata_props for node in graph.node)


def test_the_code_of_an_export_is_short(exported: Path) -> None:
    assert len((exported / "encode.py").read_text("utf-8").splitlines()) < 30


def test_what_is_refused_leaves_nothing(
    exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = exported.with_name("encoder")
    graph = exported / "model.onnx"
    monkeypatch.setattr(
        onnx_export, "_write_graph", lambda encoder, classifier, path: shutil.copy(graph, path)
    )
    (tmp_path / "there").mkdir()
    with pytest.raises(InputError, match="there: it exists already; give another name"):
        export_onnx(tmp_path / "missing", tmp_path / "there")
    monkeypatch.setattr("isotune.use.export.onnx.TOLERANCE", 1e-12)
    with pytest.raises(
        InputError, match=r"gives other vectors than the encoder \(off by .*; nothing is exported"
    ):
        export_onnx(encoder, tmp_path / "new")
    monkeypatch.setattr("isotune.errors.find_spec", lambda name: None)
    with pytest.raises(
        InputError, match=r"not installed: onnx, onnxscript, .*; pip install 'isotune\[onnx\]'"
    ):
        export_onnx(encoder, tmp_path / "new")
    assert {path.name for path in tmp_path.iterdir()} == {"there"}


PREDICT_WITHOUT_TORCH = """
import json, runpy, sys
sys.modules.update(dict.fromkeys(["torch", "transformers", "isotune"]))
example = runpy.run_path(sys.argv[1])
texts = json.load(sys.stdin)
proba = example["predict_proba"](texts).tolist() if "predict_proba" in example else None
print(json.dumps([example["encode"](texts).tolist(), example["predict"](texts), proba]))
"""


@pytest.mark.parametrize("kind", ["single", "multi", "score"])
def test_a_process_without_torch_predicts_what_the_classifier_predicts(
    kind: str, load: Callable[..., Encoder], sentences: list[str], tmp_path: Path
) -> None:
    encoder = load(Dense(32, 8), prompt="a {sentence} is {mask}", pooling="mean")
    labels = () if kind == "score" else ("bad", "good", "so so")
    settings = HeadSettings(
        kind=kind, labels=labels, temperature=2.0, pooling="cls", heads=False, max_length=9
    )
    generator = np.random.default_rng(3)
    weights = generator.normal(size=(settings.width, 32)).astype(np.float32)
    head = ClassifierHead(settings, weights, np.ones(settings.width, np.float32))
    Classifier(encoder, head).save(tmp_path / "encoder")
    assert export_onnx(tmp_path / "encoder", tmp_path / "onnx") < TOLERANCE
    command = [sys.executable, "-c", PREDICT_WITHOUT_TORCH, str(tmp_path / "onnx" / "encode.py")]
    done = subprocess.run(command, input=json.dumps(sentences), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    vectors, predicted, proba = json.loads(done.stdout)
    classifier = Classifier.load(tmp_path / "encoder")
    np.testing.assert_allclose(vectors, encoder.encode(sentences), atol=TOLERANCE)
    expected = classifier.predict(sentences)
    if kind == "score":
        np.testing.assert_allclose(predicted, expected, atol=TOLERANCE)
        return
    np.testing.assert_allclose(proba, classifier.predict_proba(sentences), atol=TOLERANCE)
    if kind == "multi":
        expected = list(map(list, expected))
    assert predicted == expected


def test_a_score_of_zero_is_exported(load: Callable[..., Encoder], tmp_path: Path) -> None:
    encoder = load(pooling="mean")
    sentence = read_scored_pairs(onnx_export.TEST_PAIRS).sentence1[0]
    weights = np.random.default_rng(0).normal(size=(1, encoder.dimension)).astype(np.float32)
    bias = -(encoder.encode([sentence]) @ weights.T)[0]
    head = ClassifierHead(HeadSettings(kind="score"), weights, bias)
    Classifier(encoder, head).save(tmp_path / "encoder")
    assert export_onnx(tmp_path / "encoder", tmp_path / "onnx") < TOLERANCE


def test_a_classifier_of_pairs_is_refused_and_its_encoder_can_be_exported(
    load: Callable[..., Encoder], tmp_path: Path
) -> None:
    encoder = load()
    settings = HeadSettings(kind="score", pairs=True)
    head = ClassifierHead(settings, np.ones((1, 32), np.float32), np.ones(1, np.float32))
    Classifier(encoder, head).save(tmp_path / "encoder")
    with pytest.raises(InputError, match="its classifier reads pairs, and a graph takes single"):
        export_onnx(tmp_path / "encoder", tmp_path / "onnx")
    assert not (tmp_path / "onnx").exists()
    Encoder.load(tmp_path / "encoder").save(tmp_path / "alone")
    export_onnx(tmp_path / "alone", tmp_path / "onnx")
    assert not (tmp_path / "onnx" / "classifier.json").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:`torch.jit.script`:DeprecationWarning"
)  # inside transformers' DeBERTa
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_type_of_model(name: str, tiny_model: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_model, tmp_path / "model")
    make(name).save_pretrained(tmp_path / "model")
    assert export_onnx(tmp_path / "model", tmp_path / "onnx") < TOLERANCE
