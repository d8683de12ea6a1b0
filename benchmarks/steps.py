"""Single training steps, as a run makes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isotune.training.loop import Loop


@contextmanager
def training_loop(
    model: str | Path, method: str, options: Mapping[str, Any], training: Mapping[str, Any], texts: Sequence[str]
) -> Iterator[Loop]:
    """The training loop of a run on sentences; `Loop.step(number)` makes one step.

    Args:
        model: a folder, or "mini".
        method: the method's name.
        options: the method's options.
        training: the training options.
        texts: the sentences to train on.
    """
    from isotune.data.rows import Sentence
    from isotune.data.tokens import Tokenized, TokenStore
    from isotune.encoder.encoder import Encoder
    from isotune.kernels.float32 import fast_float32
    from isotune.methods import METHODS, method_class
    from isotune.recipes import TrainingOptions
    from isotune.training.checkpoint import Progress
    from isotune.training.loop import Loop
    from isotune.training.recorder import Recorder

    encoder = Encoder.load(model, device="cpu")
    plan = TrainingOptions.model_validate({"steps": 100, **training})
    made = method_class(method)(METHODS[method].options(**options), encoder)
    store = TokenStore.build(
        map(Sentence, texts),
        Sentence,
        lambda columns: Tokenized([encoder.tokenize(columns[0], plan.max_length)]),
        encoder.max_length,
    )
    with TemporaryDirectory() as name, Recorder(Path(name), quiet=True) as recorder, fast_float32():
        yield Loop(encoder, made, {"": store}, None, {}, plan, 0, Progress(), Path(name), recorder)
