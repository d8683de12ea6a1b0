"""Exports an encoder as an ONNX folder: the whole graph, the tokenizer, and an example.

    model.onnx      token ids and mask -> sentence vectors: model, pooling and heads
    tokenizer.json  for the tokenizers library; it cuts to the encoder's length, and pads to the
                    longest of a batch
    encode.py       the example, complete with the encoder's prompt, which needs no torch
    README.md       the model card

fastembed and transformers.js (and text-embeddings-inference, by its source) want to know the kind
of model, the special tokens and the encoder's length before they open model.onnx. config.json,
tokenizer_config.json and sentence_bert_config.json say so.

The folder appears only after the example, run from it, has given the vectors of `Encoder.encode`.
"""

import logging
import runpy
import warnings
from collections.abc import Sequence
from functools import reduce
from operator import add
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor, nn

from isotune.data import read_scored_pairs
from isotune.encoder.encoder import Encoder
from isotune.encoder.format.modules import FLAGS, TRANSFORMER_CONFIG, write_json
from isotune.encoder.format.prompt import fill_mask, save_tokenizer, split_prompt, with_suffix
from isotune.encoder.pooling import LEAST_WEIGHT
from isotune.errors import InputError, require_extra
from isotune.files import atomic_write, rust_writes
from isotune.report.card import CARD, model_card
from isotune.report.templates import template

# The bundled pairs that an export is checked on.
TEST_PAIRS = "stsb-open:test"
# The largest difference from the vectors of `encode`, as a share of a vector's length.
TOLERANCE = 1e-4
# The check encodes so many sentences at once.
BATCH = 32
INPUTS = ("input_ids", "attention_mask")
# sentence-transformers' name of the vectors.
OUTPUT = "sentence_embedding"


def export_onnx(model: str | Path, out: str | Path) -> float:
    """Writes a new ONNX folder, and checks it on the bundled test pairs.

    Returns the largest distance between a vector and that of `Encoder.encode`, as a share of its
    length.
    """
    require_extra("onnx", "onnx", "onnxscript", "onnxruntime")
    with atomic_write(Path(out), new=True) as folder:
        encoder = Encoder.load(model, precision="float32", device="cpu")
        pairs = read_scored_pairs(TEST_PAIRS)
        sentences = list(dict.fromkeys(pairs.sentence1 + pairs.sentence2))
        expected = encoder.encode(sentences)
        folder.mkdir()
        _write_tokenizer(encoder, folder)
        _write_example(encoder, folder / "encode.py")
        _write_graph(encoder, folder / "model.onnx")
        _write_configs(encoder, folder)
        vectors = _run_example(folder, sentences)
        distances = np.linalg.norm(vectors - expected, axis=1)  # [N]
        difference = float((distances / np.linalg.norm(expected, axis=1)).max())
        # NaN is no difference that is allowed.
        if not difference <= TOLERANCE:
            raise InputError(
                f"model {model}: the exported graph gives other vectors than the encoder (off by "
                f"{difference:.0e} of their length, allowed is {TOLERANCE:.0e}); nothing is "
                "exported"
            )
        (folder / CARD).write_text(model_card(encoder, model, onnx=True), "utf-8")
    return difference


def _write_example(encoder: Encoder, path: Path) -> None:
    """Writes the example, with what of the prompt is before the sentence."""
    before, _ = split_prompt(encoder.prompt, encoder.lowercase)
    prompt = ""
    if before:
        prompt = repr(fill_mask(before, encoder.tokenizer))
    example = template("encode.py.j2", "use/export").render(
        prompt=prompt,
        lowercase=encoder.lowercase,
        max_length=encoder.max_length,
        dimension=encoder.dimension,
    )
    path.write_text(example, "utf-8")


def _write_configs(encoder: Encoder, folder: Path) -> None:
    """Writes the kind of model and the length, for servers that ask for them."""
    model_config = encoder.language_model.config
    model_config.architectures = [type(encoder.language_model).__name__]
    model_config.save_pretrained(folder)
    write_json(folder / TRANSFORMER_CONFIG, {"max_seq_length": encoder.max_length})


def _write_tokenizer(encoder: Encoder, folder: Path) -> None:
    """Writes the tokenizer with the text after the sentence.

    Published tokenizers may pad to one length; none cuts.
    """
    if not encoder.tokenizer.is_fast:
        raise InputError(
            f"export: {type(encoder.tokenizer).__name__} can't be written as a tokenizer.json"
        )
    _, after = split_prompt(encoder.prompt, encoder.lowercase)
    source = encoder.tokenizer
    if after:
        source = with_suffix(source, after)
    source.model_max_length = encoder.max_length
    # This writes a tokenizer.json that neither cuts nor pads, so another takes its place.
    save_tokenizer(source, folder)
    tokenizer: Tokenizer = Tokenizer.from_str(source.backend_tokenizer.to_str())
    tokenizer.enable_truncation(encoder.max_length)
    tokenizer.enable_padding(pad_id=source.pad_token_id or 0, pad_token=source.pad_token or "")
    with rust_writes():
        tokenizer.save(str(folder / "tokenizer.json"))


def _run_example(folder: Path, sentences: Sequence[str]) -> NDArray[np.float32]:
    """The vectors that the example gives, [N, d]."""
    encode = runpy.run_path(str(folder / "encode.py"))["encode"]
    batches = [sentences[start : start + BATCH] for start in range(0, len(sentences), BATCH)]
    return np.concatenate([encode(batch) for batch in batches])


def _write_graph(encoder: Encoder, path: Path) -> None:
    """Writes the graph, which changes the encoder's attention."""
    from onnx_ir.passes.common import ClearMetadataAndDocStringPass

    graph = PaddedEncoder(encoder).eval()
    # torch takes these sizes for no constants.
    ids = torch.full((2, 3), encoder.tokenizer.pad_token_id or 0)
    # Else torch tells of each step.
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings(action="ignore"), torch.no_grad():
        program = torch.onnx.export(
            graph,
            (ids, torch.ones_like(ids)),
            dynamo=True,
            verbose=False,
            input_names=INPUTS,
            output_names=[OUTPUT],
            dynamic_shapes={name: {0: "sentences", 1: "tokens"} for name in INPUTS},
        )
    # It is None without `dynamo` only.
    assert program is not None
    # The metadata has paths of this machine.
    ClearMetadataAndDocStringPass()(program.model)
    program.save(str(path))


class PaddedEncoder(nn.Module):
    """Token ids and their mask -> sentence vectors [N, d], float32.

    Ids and mask are int64 [N, L], padded on the right. This is the whole path: model, with
    transformers' own attention and a mask, pooling and heads. The vectors equal those of
    `Encoder.encode` up to rounding, whatever ids the padding has.
    """

    def __init__(self, encoder: Encoder) -> None:
        """Takes over the parts of an encoder.

        The encoder's model gets transformers' attention, for good.
        """
        super().__init__()
        # In ONNX there are no QR decompositions, which wk needs.
        if encoder.pooling.mode not in FLAGS:
            allowed = ", ".join(FLAGS)
            raise InputError(
                f"pooling {encoder.pooling.mode}: not made for ONNX; export one of {allowed}"
            )
        backbone = encoder.backbone
        backbone.pad()
        self.backbone = backbone
        self.heads = encoder.heads
        self.pooling = encoder.pooling
        self.layers = encoder.pooling.resolve(backbone.layers)
        self.token_weights: Tensor | None
        self.register_buffer("token_weights", encoder.token_weights)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Encodes a padded batch."""
        first = self.backbone.first_position
        places = torch.arange(input_ids.shape[1], device=input_ids.device) + first
        positions = places.expand_as(input_ids)  # [N, L]
        if first:
            # `Backbone._positions` says why.
            counted = (input_ids != first - 1).long()
            positions = counted.cumsum(1) * counted + first - 1
        inputs = {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "position_ids": positions,
        }
        states = self.backbone.run_model(inputs, self.layers)
        shares = [share * states[layer] for layer, share in self.layers.items()]
        average = reduce(add, shares)  # [N, L, d]
        return self.heads(self._pool(average, input_ids, attention_mask))

    def _pool(self, states: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        """Pools the averaged hidden states [N, L, d] of a padded batch to [N, d].

        This is `Pooling` without packing.
        """
        pooling = self.pooling
        match pooling.mode:
            case "cls":
                return states[:, 0]
            case "max":
                return states.masked_fill(mask[:, :, None] == 0, -torch.inf).amax(1)
            case "mask":
                masks = (ids == pooling.mask_id) * mask  # [N, L]
                before = masks.cumsum(1)  # [N, L]
                chosen: int | Tensor = before[:, -1:]
                if pooling.mask_first:
                    chosen = 1
                weights = masks * (before == chosen)
            case "weightedmean":
                weights = mask.cumsum(1) * mask
            case _:
                # This is the mean: `__init__` refuses what is not in `FLAGS`.
                weights = mask
                if self.token_weights is not None:
                    weights = self.token_weights[ids] * mask
        weights = weights[:, :, None].to(states.dtype)  # [N, L, 1]
        return (states * weights).sum(1) / weights.sum(1).clamp(min=LEAST_WEIGHT)
