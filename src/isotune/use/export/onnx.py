"""Exports an encoder as an ONNX folder: the whole graph, the tokenizer, and an example.

    model.onnx      token ids and mask -> sentence vectors: model, pooling and heads; and a second
                    output, the classifier's, if the encoder has one
    classifier.json the labels of the classifier, and its temperature
    tokenizer.json  for the tokenizers library; it cuts to the encoder's length, and pads to the
                    longest of a batch
    encode.py       the example, complete with the encoder's prompt, which needs no torch
    README.md       the model card

fastembed and transformers.js (and text-embeddings-inference, by its source) want to know the kind
of model, the special tokens and the encoder's length before they open model.onnx. config.json,
tokenizer_config.json and sentence_bert_config.json say so.

The folder appears only after the example, run from it, has given the vectors of `Encoder.encode`,
and the outputs of the classifier.
"""

import logging
import runpy
import warnings
from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from operator import add
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor, nn

from isotune.data import read_scored_pairs
from isotune.encoder.classifier import Classifier, classifiers_of
from isotune.encoder.classifier_head import SETTINGS
from isotune.encoder.encoder import Encoder
from isotune.encoder.format.modules import FLAGS, TRANSFORMER_CONFIG, write_json
from isotune.encoder.format.pretrained import local_folder
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
# The name of transformers' models for the outputs of a classifier.
LOGITS = "logits"


def export_onnx(model: str | Path, out: str | Path) -> float:
    """Writes a new ONNX folder, and checks it on the bundled test pairs.

    Returns the largest distance between a row of vectors or of a classifier's outputs and that of
    isotune, as a share of the rows' mean length.
    """
    require_extra("onnx", "onnx", "onnxscript", "onnxruntime")
    with atomic_write(Path(out), new=True) as folder:
        encoder = Encoder.load(model, precision="float32", device="cpu")
        classifier = _classifier_of(encoder, model)
        pairs = read_scored_pairs(TEST_PAIRS)
        sentences = list(dict.fromkeys(pairs.sentence1 + pairs.sentence2))
        expected = {"encode": encoder.encode(sentences)}
        if classifier is not None:
            expected["outputs"] = classifier.all_outputs(sentences)
        folder.mkdir()
        _write_tokenizer(encoder, folder)
        _write_example(encoder, classifier, folder / "encode.py")
        _write_graph(encoder, classifier, folder / "model.onnx")
        _write_configs(encoder, folder)
        if classifier is not None:
            write_json(folder / SETTINGS, classifier.head.settings.model_dump())
        differences = _differences(folder, sentences, expected)
        # NaN is no difference that is allowed.
        if not max(differences) <= TOLERANCE:
            raise InputError(
                f"model {model}: the exported graph gives other vectors than the encoder (off by "
                f"{max(differences):.0e} of their length, allowed is {TOLERANCE:.0e}); nothing is "
                "exported"
            )
        (folder / CARD).write_text(model_card(encoder, model, onnx=True), "utf-8", newline="\n")
    return max(differences)


def _classifier_of(encoder: Encoder, model: str | Path) -> Classifier | None:
    """The classifier in the encoder's folder; None if there is none."""
    found = list(classifiers_of(encoder, local_folder(model)).values())
    for classifier in found:
        if classifier.head.settings.pairs:
            raise InputError(
                f"model {model}: its classifier reads pairs, and a graph takes single texts; "
                "isotune predict and isotune serve classify pairs; to export the vectors alone, "
                "save the encoder by isotune.Encoder.load(MODEL).save(FOLDER), and export that"
            )
    if len(found) > 1:
        tasks = ", ".join(classifier.task for classifier in found)
        raise InputError(
            f"model {model}: it has classifiers for {tasks}, and a graph has one; save one of "
            "them by isotune.Classifier.load(MODEL, task=TASK).save(FOLDER), and export that"
        )
    if found:
        return found[0]
    return None


def _differences(
    folder: Path, sentences: Sequence[str], expected: Mapping[str, NDArray[np.float32]]
) -> list[float]:
    """How far the rows of each function of the example are from those that are expected.

    It is the largest distance of a row [N, d], as a share of the rows' mean length, for each
    function. A score near 0 has a length near 0, so a row's own length would tell nothing.
    """
    example = runpy.run_path(str(folder / "encode.py"))
    batches = [sentences[start : start + BATCH] for start in range(0, len(sentences), BATCH)]
    differences = []
    for function, rows in expected.items():
        found = np.concatenate([example[function](batch) for batch in batches])
        distances = np.linalg.norm(found - rows, axis=1)  # [N]
        mean_length = np.linalg.norm(rows, axis=1).mean()
        differences.append(float(distances.max() / mean_length))
    return differences


def _write_example(encoder: Encoder, classifier: Classifier | None, path: Path) -> None:
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
        classifier=classifier,
    )
    path.write_text(example, "utf-8", newline="\n")


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


def _write_graph(encoder: Encoder, classifier: Classifier | None, path: Path) -> None:
    """Writes the graph, which changes the encoder's attention."""
    from onnx_ir.passes.common import ClearMetadataAndDocStringPass

    graph: nn.Module = PaddedEncoder(encoder).eval()
    outputs = [OUTPUT]
    if classifier is not None:
        graph = PaddedClassifier(classifier).eval()
        outputs = [OUTPUT, LOGITS]
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
            output_names=outputs,
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
        states = self.states(input_ids, attention_mask, self.layers)
        return self.encode(states, input_ids, attention_mask)

    def states(
        self, input_ids: Tensor, attention_mask: Tensor, layers: Collection[int]
    ) -> dict[int, Tensor]:
        """The hidden states [N, L, d] of these layers."""
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
        return self.backbone.run_model(inputs, layers)

    def encode(self, states: Mapping[int, Tensor], ids: Tensor, mask: Tensor) -> Tensor:
        """The sentence vectors [N, d] of a padded batch, from its hidden states."""
        shares = [share * states[layer] for layer, share in self.layers.items()]
        average = reduce(add, shares)  # [N, L, d]
        return self.heads(self._pool(average, ids, mask))

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
            case "lasttoken":
                weights = mask * (mask.cumsum(1) == mask.sum(1, keepdim=True))
            case "weightedmean":
                weights = mask.cumsum(1) * mask
            case _:
                # This is the mean: `__init__` refuses what is not in `FLAGS`.
                weights = mask
                if self.token_weights is not None:
                    weights = self.token_weights[ids] * mask
        weights = weights[:, :, None].to(states.dtype)  # [N, L, 1]
        return (states * weights).sum(1) / weights.sum(1).clamp(min=LEAST_WEIGHT)


class PaddedClassifier(nn.Module):
    """Token ids and their mask -> sentence vectors [N, d], and outputs [N, classes], float32.

    The arguments are those of `PaddedEncoder`. The model is run once for both.
    """

    def __init__(self, classifier: Classifier) -> None:
        """Takes over the parts of a classifier, as `PaddedEncoder`."""
        super().__init__()
        self.encoder = PaddedEncoder(classifier.encoder)
        self.reader = PaddedEncoder(classifier.reader)
        head = classifier.head
        self.linear = nn.Linear(head.dimension, head.settings.width)
        self.linear.weight.data = torch.from_numpy(head.weights)
        self.linear.bias.data = torch.from_numpy(head.bias)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor]:
        """Encodes and classifies a padded batch."""
        layers = {*self.encoder.layers, *self.reader.layers}
        states = self.encoder.states(input_ids, attention_mask, layers)
        vectors = self.encoder.encode(states, input_ids, attention_mask)
        read = self.reader.encode(states, input_ids, attention_mask)
        return vectors, self.linear(read)
