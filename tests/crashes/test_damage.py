"""A bit of a file that isotune wrote is flipped, or the file is cut: one line names the file, and
nothing uses it.

The short test damages some places of each file; the slow test damages every byte of small files and
many of large ones.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from isotune.data.cache import derived_texts
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.files import read_arrays, verify_checksums
from isotune.recipes import Recipe
from isotune.report.stages import read_records, sealed
from isotune.training.recorder import Recorder
from isotune.training.run_folder import (
    create,
    is_finished,
    last_checkpoint,
    locked,
    mark_finished,
    save_tensors,
    started_recipe,
)

METRICS = "".join(
    sealed({"kind": "dev", "step": step, "score": step / 7}) + "\n" for step in range(4)
)
TEXTS = [f"sentence {number}" for number in range(40)]


def write_checkpoint(folder: Path, _: Path) -> None:
    tensors = {
        "a": torch.randn(9, 4),
        "half": torch.randn(5).bfloat16(),
        "step": torch.tensor(7),
        "z": torch.zeros(0),
    }
    save_tensors(
        folder / "last.safetensors",
        tensors,
        {"step": 20, "best_file": "best-1-16.safetensors", "stale": 1},
    )


def read_checkpoint(folder: Path) -> object:
    tensors, progress = last_checkpoint(folder)
    return {name: (tensor.dtype, tensor.tolist()) for name, tensor in tensors.items()}, progress


def write_recipe(folder: Path, _: Path) -> None:
    plan = Recipe.from_table({"data": ["text.txt"], "stages": [{"method": "simcse", "steps": 12}]})
    with locked(folder, new=True):
        create(folder, plan)


def write_encoder(folder: Path, tiny_model: Path) -> None:
    folder.rmdir()
    Encoder.load(tiny_model).save(folder)


def read_encoder(folder: Path) -> object:
    verify_checksums(folder)
    return {
        path.name: path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "SHA256SUMS"
    }


def upper(texts: list[str]) -> list[str]:
    return [text.upper() for text in texts]


def read_cache(folder: Path) -> object:
    return list(derived_texts(folder / "cache.sqlite", {"kind": "upper"}, TEXTS, upper, 10))


def read_metrics(folder: Path) -> object:
    with Recorder(folder, len(METRICS), quiet=True):  # as a resumed run does
        (folder / "train.log").unlink()
        return read_records(folder / "metrics.jsonl")


def write_records(folder: Path, tiny_model: Path) -> None:
    write_recipe(folder, tiny_model)
    np.savez_compressed(folder / "cosines.npz", gold=np.arange(50.0), before=np.linspace(0, 1, 50))
    mark_finished(folder)


def read_records_of_run(folder: Path) -> object:
    verify_checksums(folder)
    arrays = read_arrays(folder / "cosines.npz")
    return (
        {name: array.tolist() for name, array in arrays.items()},
        started_recipe(folder),
        is_finished(folder),
    )


KINDS: dict[str, tuple[Callable[[Path, Path], object], Callable[[Path], object]]] = {
    "checkpoint": (write_checkpoint, read_checkpoint),
    "recipe": (write_recipe, started_recipe),
    "encoder": (write_encoder, read_encoder),
    "metrics": (lambda folder, _: (folder / "metrics.jsonl").write_text(METRICS), read_metrics),
    "records of a run": (write_records, read_records_of_run),
    "cache": (lambda folder, _: read_cache(folder), read_cache),
}


def damages(content: bytes, chance: random.Random, thorough: bool) -> Iterator[bytes]:
    """The content with one bit flipped, at many places; and the content cut, at many places."""
    if not (size := len(content)):
        return
    edges = [place for place in (*range(24), *range(size - 24, size)) if 0 <= place < size]
    inside = (
        range(size)
        if thorough and size < 10_000
        else chance.choices(range(size), k=2000 if thorough else 40)
    )
    for place in {*edges, *inside}:
        yield (
            content[:place]
            + bytes([content[place] ^ 1 << chance.randrange(8)])
            + content[place + 1 :]
        )
    for place in {
        0,
        1,
        8,
        size // 2,
        size - 1,
        *chance.choices(range(size), k=100 if thorough else 5),
    }:
        yield content[:place]


@pytest.mark.parametrize("thorough", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_damaged_is_named_and_not_used(
    kind: str, thorough: bool, tiny_model: Path, tmp_path: Path
) -> None:
    write, read = KINDS[kind]
    folder = tmp_path / kind
    folder.mkdir()
    write(folder, tiny_model)
    expected = read(folder)
    chance = random.Random(0)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content, count, lines = path.read_bytes(), 0, []
        for damaged in damages(content, chance, thorough):
            path.write_bytes(damaged)
            count += 1
            try:
                assert read(folder) == expected, f"{path.name}: other content was read"
            except InputError as error:
                lines.append(str(error))
        path.write_bytes(content)
        print(
            f"{kind}, {path.name}: {count} damages, {len(lines)} of them refused, "
            "the others without effect"
        )
        assert lines
        assert all(str(folder) in line and "\n" not in line for line in lines)
        assert read(folder) == expected


def test_a_damaged_encoder_is_not_loaded(tiny_model: Path, tmp_path: Path) -> None:
    Encoder.load(tiny_model).save(tmp_path / "encoder")
    weights = tmp_path / "encoder" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-3] ^= 1  # changes a weight by less than bfloat16 can tell
    weights.write_bytes(content)
    with pytest.raises(
        InputError, match=r"encoder: model\.safetensors is damaged: .* remove SHA256SUMS$"
    ):
        Encoder.load(tmp_path / "encoder")
    (tmp_path / "encoder" / "SHA256SUMS").unlink()  # as the message advises those who meant it
    Encoder.load(tmp_path / "encoder")
