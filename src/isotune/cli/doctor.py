"""`isotune doctor`: what this machine has, and whether the encoder computes correctly on it."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated

from isotune.cli.parameters import ENCODER, JSON, Name

# The vectors of two ways to compute them may differ by so much.
TOLERANCE = 1e-4
Fact = tuple[str, str]
"""The name of a fact, and the fact."""


def doctor(
    encoder: Annotated[Name | None, ENCODER] = None, /, *, as_json: Annotated[bool, JSON] = False
) -> int:
    """Prints the versions, the processor, the free disk space and the datasets, and tests that
    isotune's packed encoder gives the same vectors as the padded model of transformers. An ENCODER
    that isotune saved has to give the vectors that it gave when it was saved. Without ENCODER, the
    bundled model is tested.
    """
    from isotune.bundled import MODEL_FOLDER
    from isotune.cli.tables import print_json

    facts = {}
    problems: list[str] = []
    for name, value in chain(_machine(), _test_encoder(encoder or MODEL_FOLDER, problems)):
        facts[name] = value
        if not as_json:
            print(f"{name:<22}{value}")
    if as_json:
        print_json(facts)
    return int(bool(problems))


def _machine() -> Iterator[Fact]:
    """What is installed, and what this machine has."""
    import os
    import platform
    import shutil
    from importlib.metadata import PackageNotFoundError, version

    import torch

    from isotune.data import DATASETS, available
    from isotune.kernels.device import gpu_name

    yield "python", platform.python_version()
    for package in ("isotune", "torch", "transformers", "tokenizers", "sentence-transformers"):
        try:
            yield package, version(package)
        except PackageNotFoundError:
            yield package, "not installed"
    cores = f"cores: {os.cpu_count()}, threads: {torch.get_num_threads()}"
    yield "processor", f"{platform.machine()}, {cores}"
    yield "gpu", gpu_name()
    yield "free disk", f"{shutil.disk_usage('.').free / 1e9:.0f} GB here"
    yield "ISOTUNE_DATA", os.environ.get("ISOTUNE_DATA", "not set")
    yield "datasets here", ", ".join(filter(available, DATASETS))


def _test_encoder(folder: str | Path, problems: list[str]) -> Iterator[Fact]:
    """Tests an encoder, and adds the names of the facts that are wrong to the problems."""
    from isotune.encoder.encoder import Encoder

    sentences = ["Short.", "A longer sentence, packed in the same batch as the short one."]
    model = Encoder.load(folder, precision="float32")
    changed = model.changed(vectors=True)
    packed = model.encode(sentences)
    # Encode again with the same weights, padded and with the attention of transformers.
    model.backbone.pad()
    error = abs(packed - model.encode(sentences)).max()
    verdict = "right"
    if not error < TOLERANCE:
        # This holds for a vector with NaN, too.
        verdict = "WRONG"
        problems.append("packed encoder")
    yield "packed encoder", f"{verdict}: off by {error:.1e} from the padded encoder"
    if changed:
        problems.append("saved encoder")
        yield "saved encoder", f"WRONG: {changed}"
    elif changed is not None:
        yield "saved encoder", "right: it has the tokens and vectors of its saving"
