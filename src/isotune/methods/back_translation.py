"""Contrastive learning from back-translations, alone and with self-guidance (Kim et al., 2021).

Alone, this is the baseline Contrastive (BT) of the self-guided paper (appendix A.2). It differs from SG only in its
views: a sentence and its back-translation, both encoded by the tuned model and compared by NT-Xent. With self-guidance
(section 6, Table 7), the tuned model encodes the sentence and the fixed copy encodes the back-translation.

The paraphrases are the second texts of the corpus, or two sequence-to-sequence models of transformers make them and a
cache keeps them. Beam search draws no random numbers: the same models and beam width make the same paraphrase.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from isotune.data.cache import derived_texts
from isotune.data.rows import Pair, Row, Sentence
from isotune.encoder.encoder import Encoder
from isotune.encoder.format.pretrained import load_errors, load_weights, local_folder, quiet
from isotune.errors import InputError
from isotune.kernels.device import default_device
from isotune.losses import nt_xent
from isotune.methods.method import Batch, Method
from isotune.methods.options import ParaphraseOptions
from isotune.methods.self_guided import SelfGuided, Tethered

BATCH = 256  # sentences between two writes to the cache
BEAMS = 512  # decoded at once; each decoding step holds the scores of the whole vocabulary for each beam


class Paraphrased(Method):
    """A method on pairs of a sentence and its paraphrase, which are read or made."""

    rows: type[Row] = Pair

    def __init__(self, options: ParaphraseOptions, encoder: Encoder) -> None:
        super().__init__(options, encoder)
        self.translator = (
            BackTranslator(options.translate, options.beams) if options.translate else None
        )
        self.reads = Sentence if self.translator else None

    def prepare(
        self, rows: Iterable[Row], cache: Path | None, say: Callable[[str], None]
    ) -> Iterator[Row]:
        """Pairs unchanged; or each sentence with its back-translation, left out where the translation is blank."""
        if self.translator is None:
            yield from rows
            return
        translate, made = self.translator, 0

        def make(texts: list[str]) -> list[str]:
            nonlocal made
            paraphrases = translate(texts)
            made += len(texts)
            say(f"back-translation: {made:,} made")
            return paraphrases

        path = cache and cache / "back-translation.sqlite"
        say(f"back-translation: by {' and '.join(translate.models)}, kept in {path or 'memory'}")
        for text, paraphrase in derived_texts(
            path, translate.settings, (row[0] for row in rows), make, BATCH
        ):
            if paraphrase:
                yield Pair(text, paraphrase)


class BackTranslation(Paraphrased, Tethered):
    """A sentence and its paraphrase, both encoded by the tuned model and compared by NT-Xent."""

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """L^base of the projected vectors, where the paraphrase takes the place of h."""
        first, second = (self.projection(vectors) for vectors in encoded)
        return {"nt_xent": nt_xent(first, second, self.options.temperature)}


class SelfGuidedBackTranslation(Paraphrased, SelfGuided):
    """Self-guidance whose fixed copy encodes the paraphrase."""


@dataclass(frozen=True)
class BackTranslator:
    """Translates with two models in turn. The models are loaded when the first text comes."""

    models: Sequence[
        str
    ]  # two folders or names on the Hugging Face hub: into another language, and back
    beams: int  # the width of the beam search

    @property
    def settings(self) -> dict[str, object]:
        """Everything but the sentence that a paraphrase depends on: the cache's key."""
        models = [
            str(Path(name).resolve()) if Path(name).is_dir() else name for name in self.models
        ]
        return {"models": models, "beams": self.beams}

    def __call__(self, texts: Sequence[str]) -> list[str]:
        """A paraphrase of each text; blank where the models generate nothing."""
        texts = list(texts)
        for tokenizer, model in self._loaded:
            texts = self._translate(texts, tokenizer, model)
        return texts

    @torch.no_grad()
    def _translate(self, texts: list[str], tokenizer: Any, model: Any) -> list[str]:
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))  # little padding
        size = max(1, BEAMS // self.beams)
        translated = [""] * len(texts)
        for start in range(0, len(order), size):
            part = order[start : start + size]
            inputs = tokenizer(
                [texts[i] for i in part], return_tensors="pt", padding=True, truncation=True
            )
            generated = model.generate(
                **inputs.to(model.device), num_beams=self.beams, do_sample=False
            )
            for i, text in zip(
                part, tokenizer.batch_decode(generated, skip_special_tokens=True), strict=True
            ):
                translated[i] = text.strip()
        return translated

    @cached_property
    def _loaded(self) -> list[tuple[Any, Any]]:
        return [_load(name) for name in self.models]


def _load(name: str) -> tuple[Any, Any]:
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    try:
        folder = local_folder(name)
        with quiet(), load_errors(folder):
            tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        model, info = load_weights(AutoModelForSeq2SeqLM, folder, torch.float32)
        lost = [*info["missing_keys"], *(key for key, *_ in info["mismatched_keys"])]
        # Position embeddings that are computed, not learned, are not in the files of old models.
        lost = [
            key
            for key in lost
            if "Sinusoidal" not in type(model.get_submodule(key.rpartition(".")[0])).__name__
        ]
        if lost:
            raise InputError(f"model {name}: its weights lack {', '.join(lost[:3])}")
    except InputError as error:
        package = (
            "; pip install 'isotune[translation]'"
            if isinstance(error.__cause__, ImportError)
            else ""
        )
        raise InputError(f"translation {error}{package}") from error
    return tokenizer, model.to(default_device()).eval()
