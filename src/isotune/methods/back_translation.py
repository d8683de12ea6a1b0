"""Contrastive learning from back-translations, alone and with self-guidance (Kim et al., 2021).

Alone, this is the baseline Contrastive (BT) of the self-guided paper (appendix A.2). It differs
from SG only in its views: a sentence and its back-translation, both encoded by the tuned model and
compared by NT-Xent. With self-guidance (section 6, Table 7), the tuned model encodes the sentence
and the fixed copy encodes the back-translation.

The paraphrases are the second texts of the corpus, or two sequence-to-sequence models of
transformers make them and a cache keeps them. Beam search draws no random numbers: the same models
and beam width make the same paraphrase.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
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

BATCH = 256
"""Sentences between two writes to the cache."""

BEAMS = 512
"""Beams that are decoded at once: a step of decoding holds a score of every word for each beam."""


class Paraphrased(Method):
    """A method on pairs of a sentence and its paraphrase, which are read or made."""

    rows: type[Row] = Pair

    def __init__(self, options: ParaphraseOptions, encoder: Encoder) -> None:
        super().__init__(options, encoder)
        self.translator: BackTranslator | None = None
        if options.translate:
            self.translator = BackTranslator(options.translate, options.beams)
            self.reads = Sentence

    def prepare(
        self, rows: Iterable[Row], cache: Path | None, say: Callable[[str], None]
    ) -> Iterator[Row]:
        """The pairs as they are, or each sentence with its back-translation.

        A sentence whose translation is blank is left out.
        """
        if self.translator is None:
            yield from rows
            return
        translate = self.translator
        count = 0

        def make(texts: list[str]) -> list[str]:
            nonlocal count
            paraphrases = translate(texts)
            count += len(texts)
            say(f"back-translation: {count:,} made")
            return paraphrases

        path = cache and cache / "back-translation.sqlite"
        say(f"back-translation: by {' and '.join(translate.models)}, kept in {path or 'memory'}")
        sentences = map(itemgetter(0), rows)
        for text, paraphrase in derived_texts(path, translate.settings, sentences, make, BATCH):
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

    models: Sequence[str]
    """Two folders or names on the Hugging Face hub: into another language, and back."""

    beams: int
    """The width of the beam search."""

    @property
    def settings(self) -> dict[str, object]:
        """Everything but the sentence that a paraphrase depends on: the cache's key."""
        models = []
        for name in self.models:
            folder = Path(name)
            models.append(str(folder.resolve()) if folder.is_dir() else name)
        return {"models": models, "beams": self.beams}

    def __call__(self, texts: Sequence[str]) -> list[str]:
        """A paraphrase of each text; blank where the models generate nothing."""
        texts = list(texts)
        for tokenizer, model in self._loaded:
            texts = self._translate(texts, tokenizer, model)
        return texts

    @torch.no_grad()
    def _translate(self, texts: list[str], tokenizer: Any, model: Any) -> list[str]:
        """The translation of each text. Texts of about one length are decoded together."""
        order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
        size = max(1, BEAMS // self.beams)
        translated = [""] * len(texts)
        for start in range(0, len(order), size):
            numbers = order[start : start + size]
            inputs = tokenizer(
                [texts[number] for number in numbers],
                return_tensors="pt",
                padding=True,
                truncation=True,
            )
            generated = model.generate(
                **inputs.to(model.device), num_beams=self.beams, do_sample=False
            )
            decoded = tokenizer.batch_decode(generated, skip_special_tokens=True)
            for number, text in zip(numbers, decoded, strict=True):
                translated[number] = text.strip()
        return translated

    @cached_property
    def _loaded(self) -> list[tuple[Any, Any]]:
        return [_load(name) for name in self.models]


def _load(name: str) -> tuple[Any, Any]:
    """The tokenizer and the model of this name."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    try:
        folder = local_folder(name)
        with quiet(), load_errors(folder):
            tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        model, info = load_weights(AutoModelForSeq2SeqLM, folder, torch.float32)
        lost = _lost_weights(model, info)
        if lost:
            raise InputError(f"model {name}: its weights lack {', '.join(lost[:3])}")
    except InputError as error:
        advice = ""
        if isinstance(error.__cause__, ImportError):
            advice = "; pip install 'isotune[translation]'"
        raise InputError(f"translation {error}{advice}") from error
    return tokenizer, model.to(default_device()).eval()


def _lost_weights(model: Any, info: dict[str, Any]) -> list[str]:
    """The keys of weights that the files of a model lack, or have in another shape."""
    keys = [*info["missing_keys"], *(key for key, *_ in info["mismatched_keys"])]
    lost = []
    for key in keys:
        layer = model.get_submodule(key.rpartition(".")[0])
        # Position embeddings that are computed, not learned, are not in the files of old models.
        if "Sinusoidal" not in type(layer).__name__:
            lost.append(key)
    return lost
