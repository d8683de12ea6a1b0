"""The files of a tiny model, in each form that published models have."""

import io
import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save

Files = dict[str, bytes]


def with_safetensors(folder: Path) -> Files:
    """A model folder as it is."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def with_shards(folder: Path) -> Files:
    """Its weights in two files, and the index that says which weight is where."""
    files = with_safetensors(folder)
    del files["model.safetensors"]
    weights = load_file(folder / "model.safetensors")
    names = sorted(weights)
    halves = names[: len(names) // 2], names[len(names) // 2 :]
    index: dict[str, str] = {}
    for number, half in enumerate(halves, 1):
        name = f"model-{number:05d}-of-00002.safetensors"
        files[name] = save({key: weights[key] for key in half}, metadata={"format": "pt"})
        index |= dict.fromkeys(half, name)
    size = sum(weight.numel() * weight.element_size() for weight in weights.values())
    files["model.safetensors.index.json"] = json.dumps(
        {"metadata": {"total_size": size}, "weight_map": index}
    ).encode()
    return files


def with_pickle(folder: Path) -> Files:
    """Its weights as the small BERTs of 2020 have them: a pickle, and no zip file.

    Such repositories have a checkpoint of TensorFlow beside it, a vocabulary for a tokenizer, and
    no more.
    """
    config = json.loads((folder / "config.json").read_text("utf-8"))
    for key in ("architectures", "dtype", "transformers_version"):
        config.pop(key, None)
    vocabulary = json.loads((folder / "tokenizer.json").read_text("utf-8"))["model"]["vocab"]
    file = io.BytesIO()
    weights = {
        f"bert.{name}": weight for name, weight in load_file(folder / "model.safetensors").items()
    }
    torch.save(weights, file, _use_new_zipfile_serialization=False)
    return {
        "config.json": json.dumps(config).encode(),
        "pytorch_model.bin": file.getvalue(),
        "vocab.txt": "".join(
            f"{word}\n" for word in sorted(vocabulary, key=vocabulary.__getitem__)
        ).encode(),
        "bert_model.ckpt.index": b"not read",
    }
