"""`isotune doctor`: what this machine has, whether an encoder computes correctly on it, and what is
read from the encoder's folder.
"""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from isotune.cli.parameters import ENCODER, JSON, Name

if TYPE_CHECKING:
    from isotune.encoder.encoder import Encoder

# The vectors of two ways to compute them may differ by so much.
TOLERANCE = 1e-4
NO_WEIGHTS = Parameter(
    help="Print what is read from the folder of ENCODER alone; load no weights, and test nothing.",
    negative="",
)
Fact = tuple[str, str]
"""The name of a fact, and the fact."""


def doctor(
    encoder: Annotated[Name | None, ENCODER] = None,
    /,
    *,
    no_weights: Annotated[bool, NO_WEIGHTS] = False,
    as_json: Annotated[bool, JSON] = False,
) -> int:
    """Prints the versions, the processor, the free disk space and the datasets, and tests that
    isotune's packed encoder gives the same vectors as the padded model of transformers. An ENCODER
    that isotune saved has to give the vectors that it gave when it was saved. Without ENCODER, the
    bundled model is tested.

    Of an ENCODER, also what is read from its folder is printed: the kind of model, pooling,
    prompts, lengths. With --no-weights that is all, and a large model is neither fetched nor
    loaded.
    """
    from isotune.bundled import MODEL_FOLDER
    from isotune.cli.tables import print_json

    folder = encoder or MODEL_FOLDER
    facts = {}
    problems: list[str] = []
    told: list[Iterator[Fact]] = []
    if not no_weights:
        told.append(_machine())
    if encoder or no_weights:
        told.append(_folder(folder))
    if not no_weights:
        told.append(_test_encoder(folder, problems))
    for name, value in chain.from_iterable(told):
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


def _folder(model: str | Path) -> Iterator[Fact]:
    """What is read from an encoder's folder."""
    from isotune.encoder.encoder import Encoder

    encoder = Encoder.outline(model)
    backbone = encoder.backbone
    yield "model type", backbone.model.config.model_type
    runs = "packed"
    if backbone.padded:
        runs = "padded, which is slower"
    sees = "all others"
    if backbone.causal:
        sees = "those before it"
    yield "runs", f"{runs}; a token sees {sees}"
    yield "blocks", f"{backbone.layers} of {backbone.model.config.hidden_size:,} features"
    pooling = encoder.pooling
    layers = " ".join(map(str, pooling.layers))
    yield "pooling", f"{pooling.mode} of layers {layers} (-1 is the last)"
    heads = [type(head).__name__ for head in encoder.heads]
    yield "layers after it", ", ".join(heads) or "none"
    yield "vectors", f"{encoder.dimension:,} features"
    yield "maximum length", f"{encoder.max_length:,} tokens"
    tokenizer = encoder.tokenizer
    yield "tokens of a text", _tokens_of_a_text(encoder)
    sides = f"pads {tokenizer.padding_side}, cuts {tokenizer.truncation_side}"
    yield "tokenizer", f"{type(tokenizer).__name__}, {len(tokenizer):,} tokens, {sides}"
    yield "prompt of all texts", repr(encoder.prompt)
    for role, prompt in encoder.roles.items():
        yield f"prompt of a {role}", repr(prompt)


def _tokens_of_a_text(encoder: "Encoder") -> str:
    """The special tokens that the tokenizer puts around a text."""
    (ids,) = encoder.tokenize(["a"], prompt="")
    special = encoder.tokenizer.all_special_tokens
    shown: list[str] = []
    for token in encoder.tokenizer.convert_ids_to_tokens(ids):
        if token in special:
            shown.append(token)
        elif "text" not in shown:
            shown.append("text")
    return " ".join(shown)


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
