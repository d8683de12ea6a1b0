"""What every test can have: a tiny model and tokenizer made here, and the real ones."""

from tests.hub.environment import HUB

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
import tomli_w
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

import isotune
from isotune.data.draws import split_seeds
from isotune.data.packed import Packed, pack
from isotune.encoder.encoder import Encoder
from isotune.engine.forward import Adversary, StepEncoding, backpropagate
from isotune.engine.workers import Workers
from isotune.methods.method import Method, VectorView, View
from isotune.training import Result
from tests.hub.server import LocalHub

# A list would be no easier to read.
WORDS = """
    a the man woman dog cat is was plays eats sees red blue small big and with in on at ball house .
""".split()  # noqa: SIM905


def pytest_configure() -> None:
    """Lets the tests hear Ctrl-C, which a shell makes its background processes ignore."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Names bytes by their argument: gzip writes the time, and workers collect at different times.

    Workers stop when they find different names of tests.
    """
    return argname if isinstance(val, bytes) else None


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """Two workers share two cores, and a sum has the same order every time."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _seed() -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


@pytest.fixture(autouse=True)
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves the figures of reports empty: drawing them takes half of a short run's time."""
    monkeypatch.setattr("isotune.report.figures.svg", lambda *_: "<svg></svg>")
    monkeypatch.setattr("isotune.report.share.save_png", lambda *_: None)


M = TypeVar("M", bound=Method)


def attached(method: M, encoder: Encoder) -> M:
    """The method, after the encoder has got what the method adds, as the trainer does it."""
    method.adds.attach(encoder)
    return method


def trained(method: Method, encoder: Encoder) -> list[torch.nn.Parameter]:
    """The encoder's parameters that are trained, once the method is attached."""
    return [*method.trained(encoder), *method.adds.parameters()]


def seeded(tokens: Packed, seed: int = 0, view: int = 0) -> Packed:
    """The sentences with the seeds that they have in this view of a step."""
    return replace(tokens, seeds=split_seeds(split_seeds(torch.tensor([seed]), view), tokens.order))


def encode_views(
    encoder: Encoder,
    views: Sequence[View | VectorView],
    adversary: Adversary | None = None,
    seed: int = 0,
) -> list[torch.Tensor]:
    """The vectors of each view. A gradient that reaches them goes on to the weights."""
    encoding = StepEncoding(encoder, Workers(), seed)
    vectors = encoding.encode(views, adversary)
    weights = encoding.parameters()
    for group in encoding.groups:
        group.representations.register_post_accumulate_grad_hook(
            lambda _, group=group: backpropagate([group], weights, Workers())
        )
    return vectors


def reopened(
    encoder: Encoder, folder: Path, sentences: Sequence[str], atol: float = 1e-5, **options: object
) -> Encoder:
    """The encoder, saved and loaded again.

    Its vectors are the same, in sentence-transformers too.
    """
    from sentence_transformers import SentenceTransformer

    vectors = encoder.encode(sentences)
    encoder.save(folder)
    loaded = Encoder.load(folder)
    assert np.array_equal(loaded.encode(sentences), vectors)
    theirs = SentenceTransformer(str(folder), device="cpu", **options).encode(sentences)
    np.testing.assert_allclose(theirs, vectors, atol=atol)
    return loaded


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    """Waits for a condition, no longer than some seconds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def hear_interrupts() -> None:
    """Lets a new process hear Ctrl-C: a process that descends from a shell's "&" does not."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def unfinish(folder: Path) -> None:
    """Takes back that a run is finished: as if it had been killed while its report was made."""
    path = folder / "environment.json"
    environment = json.loads(path.read_text("utf-8"))
    del environment["finished"]
    path.write_text(json.dumps(environment), "utf-8")
    (folder / "SHA256SUMS").unlink()


@pytest.fixture
def local_hub() -> Iterator[LocalHub]:
    """An empty hub on this machine, which every library asks in place of the real one."""
    HUB.start()
    yield HUB
    HUB.stop()
    HUB.clear()


@pytest.fixture
def nothing_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache of what was fetched from the hub and the web."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The datasets in $ISOTUNE_DATA."""
    return _folder("ISOTUNE_DATA")


@pytest.fixture(scope="session")
def real_models() -> Path:
    """The checkpoints in $ISOTUNE_MODELS."""
    return _folder("ISOTUNE_MODELS")


def _folder(variable: str) -> Path:
    if variable not in os.environ:
        pytest.skip(f"${variable} is not set")
    return Path(os.environ[variable])


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny model, see `make_tiny_model`."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    make_tiny_model(folder)
    return folder


def make_tiny_model(folder: Path) -> None:
    """Writes a BERT of 3 blocks x 32 with random weights and a few words, as a model's folder."""
    vocabulary = {
        word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])
    }
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    special = {
        f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")
    }
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=32, **special
    ).save_pretrained(folder)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = BertConfig(
            vocab_size=len(vocabulary),
            hidden_size=32,
            num_hidden_layers=3,
            num_attention_heads=4,
            intermediate_size=64,
            max_position_embeddings=32,
        )
        BertModel(config, add_pooling_layer=False).save_pretrained(folder)


@pytest.fixture
def with_pooler(tiny_model: Path, tmp_path: Path) -> Path:
    """The tiny model's tokenizer, and a new model with a pooler, as published BERTs have."""
    folder = Path(shutil.copytree(tiny_model, tmp_path / "with-pooler"))
    BertModel(BertConfig.from_pretrained(folder)).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def sentences() -> list[str]:
    """Sixty different sentences of the tiny vocabulary, of many lengths."""
    generator = torch.Generator().manual_seed(1)
    lengths = torch.randint(1, 25, (60,), generator=generator).tolist()
    return [
        " ".join(WORDS[i] for i in torch.randint(0, len(WORDS), (length,), generator=generator))
        + f" {WORDS[k % 20]}"
        for k, length in enumerate(lengths)
    ]


@pytest.fixture
def encoder(tiny_model: Path) -> Encoder:
    """The tiny model as an encoder."""
    return Encoder.load(tiny_model)


@pytest.fixture
def tokens(encoder: Encoder, sentences: list[str]) -> Packed:
    """Nine of the sentences."""
    return pack(encoder.tokenize(sentences[:9]))


@pytest.fixture
def text(sentences: list[str], tmp_path: Path) -> Path:
    """The sentences in a file."""
    path = tmp_path / "text.txt"
    path.write_text("\n".join(sentences) + "\n")
    return path


@pytest.fixture
def pairs(sentences: list[str], tmp_path: Path) -> Path:
    """Scored pairs: two sentences with the same first words, more of them for a higher score."""
    lines = ["sentence1\tsentence2\tscore"]
    for i, sentence in enumerate(sentences[:30]):
        words = sentence.split()
        score = i % 6
        shared = words[: len(words) * score // 5]
        rest = sentences[i + 30].split()[: 1 + len(words) * (5 - score) // 5]
        other = shared + rest
        lines.append(f"{sentence}\t{' '.join(other)}\t{score}")
    path = tmp_path / "pairs.tsv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def short(tiny_model: Path, text: Path, pairs: Path) -> dict[str, Any]:
    """Keyword arguments of a run of 12 steps, in float32 on every machine."""
    return {
        "sources": text,
        "model": str(tiny_model),
        "method": "simcse",
        "dev": str(pairs),
        "tasks": [str(pairs)],
        "batch_size": 8,
        "steps": 12,
        "eval_every": 4,
        "learning_rate": 1e-3,
        "precision": "float32",
        # Tests compare the checkpoints.
        "keep_checkpoints": True,
        "quiet": True,
    }


@pytest.fixture
def train(short: dict[str, Any], tmp_path: Path) -> Callable[..., Result]:
    """Runs `isotune.train` with these, and with what is given over them; None takes one away.

    Stages make a recipe, in place of the method.
    """

    def run(name: str = "run", stages: Sequence[Mapping[str, Any]] = (), **options: Any) -> Result:
        if stages:
            recipe = tmp_path / "stages.toml"
            recipe.write_text(tomli_w.dumps({"stages": stages}))
            options = {"recipe": recipe, "method": None, **options}
        given = {**short, "out": tmp_path / name, **options}
        return isotune.train(**{key: value for key, value in given.items() if value is not None})

    return run
