"""The contenders of the encoding benchmark: functions that load a model for isotune or a peer.

Each loader returns a function that encodes sentences. sentence-transformers runs with its defaults
and a batch size of 32. The runtimes (ONNX Runtime, OpenVINO, CTranslate2) cannot encode sentences
by themselves. They get a good loop around them: sentences sorted by their number of tokens, a batch
size of 32, and the mean of the last layer. Their models are converted once, into a cache.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

BATCH = 32
MAX_LENGTH = 128

Vectors: TypeAlias = NDArray[np.float32]
Encode: TypeAlias = Callable[[Sequence[str]], Vectors]
Run: TypeAlias = Callable[[NDArray[np.int64], NDArray[np.int64]], Vectors]
"""A runtime's forward pass.

It maps token ids and mask [n, tokens] to the last hidden states [n, tokens, d].
"""


def isotune(
    model: Path,
    precision: str,
    threads: int,
    cache: Path,
    batch_bytes: int | None = None,
    device: str = "cpu",
) -> Encode:
    """Loads isotune.

    `batch_bytes` are those of one hidden state of a batch's tokens, if not the encoder's own.
    """
    import torch

    from isotune import Encoder, tune_process
    from isotune.encoder import model as module

    tune_process()
    encoder = Encoder.load(model, precision=precision, device=device)
    batch_bytes = batch_bytes or module.BATCH_BYTES[device]

    def encode(texts: Sequence[str]) -> Vectors:
        torch.set_num_threads(threads)
        module.BATCH_BYTES[device] = batch_bytes
        return encoder.encode(texts)

    return encode


def sentence_transformers(
    model: Path,
    precision: str,
    threads: int,
    cache: Path,
    device: str = "cpu",
    attention: str | None = None,
    batch: int = BATCH,
) -> Encode:
    """Loads sentence-transformers with its defaults, or with another attention of transformers."""
    import torch
    from sentence_transformers import SentenceTransformer

    kwargs = {"dtype": precision, **({"attn_implementation": attention} if attention else {})}
    encoder = SentenceTransformer(str(model), device=device, model_kwargs=kwargs)

    def encode(texts: Sequence[str]) -> Vectors:
        torch.set_num_threads(threads)
        return (
            encoder.encode(
                list(texts), batch_size=batch, show_progress_bar=False, convert_to_tensor=True
            )
            .float()
            .cpu()
            .numpy()
        )

    return encode


def onnx_runtime(model: Path, precision: str, threads: int, cache: Path) -> Encode:
    """Loads ONNX Runtime with its own fused layers.

    int8 is dynamic, with one scale for each output feature.
    """
    import onnx
    import onnxruntime as ort
    from onnxruntime.quantization import QuantType, quantize_dynamic

    graph = _fused(model, cache)
    if precision == "int8":
        quantised = cache / "int8.onnx"
        if not quantised.exists():
            # The quantiser cannot infer the type of the fused layers' outputs.
            known = {"DefaultTensorType": onnx.TensorProto.FLOAT}
            quantize_dynamic(
                graph, quantised, per_channel=True, weight_type=QuantType.QInt8, extra_options=known
            )
        graph = quantised
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    return _loop(
        model, lambda ids, mask: session.run(None, {"input_ids": ids, "attention_mask": mask})[0]
    )


def openvino(model: Path, precision: str, threads: int, cache: Path) -> Encode:
    """Loads OpenVINO."""
    import openvino as ov

    hints = {"float32": "f32", "bfloat16": "bf16"}
    settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": hints[precision]}
    compiled = ov.Core().compile_model(ov.convert_model(_exported(model, cache)), "CPU", settings)
    return _loop(model, lambda ids, mask: compiled({"input_ids": ids, "attention_mask": mask})[0])


def ctranslate2(model: Path, precision: str, threads: int, cache: Path) -> Encode:
    """Loads CTranslate2."""
    import ctranslate2 as ct2
    from ctranslate2.converters import TransformersConverter
    from transformers import BertConfig

    converted = cache / "ctranslate2"
    if not converted.exists():
        # The converter reads this; transformers no longer sets it.
        BertConfig.position_embedding_type = "absolute"
        TransformersConverter(str(model)).convert(str(converted))
    encoder = ct2.Encoder(
        str(converted), device="cpu", compute_type=precision, intra_threads=threads
    )

    def run(ids: NDArray[np.int64], mask: NDArray[np.int64]) -> Vectors:
        tokens = ct2.StorageView.from_array(ids.astype(np.int32))
        lengths = ct2.StorageView.from_array(mask.sum(1).astype(np.int32))
        return np.array(encoder.forward_batch(tokens, lengths).last_hidden_state)

    return _loop(model, run)


CONTENDERS: dict[str, tuple[Callable[[Path, str, int, Path], Encode], Sequence[str]]] = {
    "sentence-transformers": (sentence_transformers, ["float32", "bfloat16"]),
    "isotune": (isotune, ["float32", "bfloat16"]),
    "ONNX Runtime": (onnx_runtime, ["float32", "int8"]),
    "OpenVINO": (openvino, ["float32", "bfloat16"]),
    "CTranslate2": (ctranslate2, ["float32", "int8"]),
}
"""Each contender's loader and precisions."""


def precisions(contender: str) -> list[str]:
    """The precisions of a contender on this processor."""
    from isotune.kernels.precision import has_bfloat16

    return [name for name in CONTENDERS[contender][1] if name != "bfloat16" or has_bfloat16("cpu")]


def _loop(model: Path, run: Run) -> Encode:
    """Encodes sentences by a runtime's forward pass.

    It sorts them by their number of tokens and runs them in batches.
    """
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)

    def encode(texts: Sequence[str]) -> Vectors:
        ids = tokenizer(list(texts), truncation=True, max_length=MAX_LENGTH)["input_ids"]
        order = np.argsort([len(tokens) for tokens in ids], kind="stable")
        vectors: list[Vectors] = []
        for start in range(0, len(ids), BATCH):
            batch = [ids[i] for i in order[start : start + BATCH]]
            padded = np.zeros((len(batch), len(batch[-1])), np.int64)
            mask = np.zeros_like(padded)
            for i, tokens in enumerate(batch):
                padded[i, : len(tokens)], mask[i, : len(tokens)] = tokens, 1
            states = run(padded, mask) * mask[..., None]
            vectors.append((states.sum(1) / mask.sum(1, keepdims=True)).astype(np.float32))
        result = np.empty((len(ids), vectors[0].shape[1]), np.float32)
        result[order] = np.concatenate(vectors)
        return result

    return encode


def _exported(model: Path, cache: Path) -> Path:
    """The file of the model as an ONNX graph, which is made if it does not exist."""
    import torch
    from transformers import AutoModel

    path = cache / "plain.onnx"
    if path.exists():
        return path
    cache.mkdir(parents=True, exist_ok=True)
    base = AutoModel.from_pretrained(model, attn_implementation="eager", dtype=torch.float32).eval()

    class States(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.base = base

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            return self.base(input_ids, attention_mask=attention_mask).last_hidden_state

    example = torch.ones(2, 8, dtype=torch.long)
    names = ["input_ids", "attention_mask"]
    axes = {0: "sentences", 1: "tokens"}
    torch.onnx.export(
        States().eval(),
        (example, example),
        path,
        input_names=names,
        output_names=["states"],
        dynamo=False,
        dynamic_axes={name: axes for name in [*names, "states"]},
        opset_version=17,
    )
    return path


def _fused(model: Path, cache: Path) -> Path:
    """The file of the ONNX graph with ONNX Runtime's fused layers.

    The file is made if it does not exist.
    """
    from onnxruntime.transformers.optimizer import optimize_model
    from transformers import AutoConfig

    path = cache / "fused.onnx"
    if not path.exists():
        config = AutoConfig.from_pretrained(model)
        plain = _exported(model, cache)
        fused = optimize_model(
            str(plain), "bert", num_heads=config.num_attention_heads, hidden_size=config.hidden_size
        )
        fused.save_model_to_file(str(path))
    return path
