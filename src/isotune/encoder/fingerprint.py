"""The fingerprint of an encoder: a hash of everything that decides its vectors.

A copy of a folder, the same encoder saved again, and any precision have the same fingerprint. Other
weights, another tokenizer, pooling, prompt or head give another fingerprint.
"""

import hashlib
import json
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from isotune.encoder.model import SentenceModel

# The number of hexadecimal digits.
DIGITS = 20


def fingerprint(encoder: SentenceModel) -> str:
    """The fingerprint of an encoder: 20 hexadecimal digits.

    Every weight is read, so this is not for a loop.
    """
    backbone = encoder.backbone
    return short_hash(
        {
            "model": backbone.model.config.model_type,
            "weights": _weights(encoder),
            "pooling": [
                encoder.pooling.mode,
                sorted(encoder.pooling.resolve(backbone.layers).items()),
            ],
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


def digest(tensor: Tensor) -> str:
    """Hashes a tensor's shape and its values, rounded to bfloat16 if they are floating.

    Returns 64 hexadecimal digits. Weights that are loaded in bfloat16 are rounded in the same way,
    so their digest is that of the float32 weights.
    """
    tensor = tensor.detach().cpu().contiguous()
    if tensor.is_floating_point():
        tensor = tensor.to(torch.bfloat16)
    content = hashlib.sha256(f"{list(tensor.shape)} ".encode())
    content.update(tensor.flatten().view(torch.uint8).numpy().data)
    return content.hexdigest()


def _weights(encoder: SentenceModel) -> dict[str, str]:
    """{name: digest} of the weights of the backbone and the heads.

    A language head changes no sentence vector.
    """
    digests = {}
    # Weights of tokens are saved for pooling mean alone.
    if encoder.pooling.mode == "mean" and encoder.token_weights is not None:
        digests["token_weights"] = digest(encoder.token_weights)
    for name, tensor in encoder.backbone.state_dict().items():
        digests[f"backbone.{name}"] = digest(tensor)
    for name, tensor in encoder.heads.state_dict().items():
        digests[f"heads.{name}"] = digest(tensor)
    return digests


def _tokenizer(tokenizer: PreTrainedTokenizerBase) -> Any:
    if not tokenizer.is_fast:
        return [type(tokenizer).__name__, tokenizer.get_vocab()]
    state: dict[str, Any] = json.loads(tokenizer.backend_tokenizer.to_str())
    # Both are of the last call.
    state.pop("truncation", None)
    state.pop("padding", None)
    return state
