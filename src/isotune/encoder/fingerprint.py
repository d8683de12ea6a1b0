"""The fingerprint of an encoder: a hash of everything that decides its vectors.

A copy of a folder, the same encoder saved again, and any precision (int8 too) have the same fingerprint. Other weights,
another tokenizer, pooling, prompt or head give another fingerprint.
"""

import hashlib
import json
from typing import Any

from transformers import PreTrainedTokenizerBase

from isotune.encoder.model import SentenceModel
from isotune.kernels.cpu.int8 import Int8Linear, digest

DIGITS = 20  # hexadecimal


def fingerprint(encoder: SentenceModel) -> str:
    """The fingerprint of an encoder: 20 hexadecimal digits. Every weight is read, so it is not for a loop."""
    backbone = encoder.backbone
    return short_hash(
        {
            "model": backbone.model.config.model_type,
            "weights": _weights(encoder),
            "pooling": [encoder.pooling.mode, sorted(encoder.pooling.resolve(backbone.layers).items())],
            "heads": [[head.type_name, head.config()] for head in encoder.heads],
            "tokenizer": _tokenizer(encoder.tokenizer),
            "max_length": encoder.max_length,
            "lowercase": encoder.lowercase,
            "prompt": encoder.prompt,
            **encoder.roles,
        }
    )


def short_hash(content: Any) -> str:
    """A hash of anything that JSON can express: 20 hexadecimal digits."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:DIGITS]


def _weights(encoder: SentenceModel) -> dict[str, str]:
    """{name: digest} of the weights of the backbone and the heads. A language head changes no sentence vector."""
    weights = encoder.token_weights if encoder.pooling.mode == "mean" else None  # as they are saved
    digests = {} if weights is None else {"token_weights": digest(weights)}
    for part, module in (("backbone", encoder.backbone), ("heads", encoder.heads)):
        digests |= {f"{part}.{name}": digest(tensor) for name, tensor in module.state_dict().items()}
        for name, layer in module.named_modules():
            if isinstance(layer, Int8Linear):
                digests |= {f"{part}.{name}.{key}": value for key, value in layer.digests.items()}
    return digests


def _tokenizer(tokenizer: PreTrainedTokenizerBase) -> Any:
    if not tokenizer.is_fast:
        return [type(tokenizer).__name__, tokenizer.get_vocab()]
    state: dict[str, Any] = json.loads(tokenizer.backend_tokenizer.to_str())
    return {key: value for key, value in state.items() if key not in ("truncation", "padding")}
