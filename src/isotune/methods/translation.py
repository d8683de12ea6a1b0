"""Paraphrases by translation there and back, with any sequence-to-sequence models of transformers.

Beam search draws no random numbers: the same models and beam width always make the same paraphrase of a sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from isotune.encoder.format.pretrained import quiet
from isotune.errors import InputError

# Beams that are decoded at once. Each decoding step holds the scores of the whole vocabulary for each beam.
BEAMS = 512


@dataclass(frozen=True)
class BackTranslator:
    """Translates with two models in turn. The models are loaded when the first text comes.

    Attributes:
        models: two folders or names on the Hugging Face hub: into another language, and back.
        beams: the width of the beam search.
    """

    models: Sequence[str]
    beams: int

    @property
    def settings(self) -> dict[str, object]:
        """Everything but the sentence that a paraphrase depends on: the cache's key."""
        models = [str(Path(name).resolve()) if Path(name).is_dir() else name for name in self.models]
        return {"models": models, "beams": self.beams}

    def __call__(self, texts: Sequence[str]) -> list[str]:
        """A paraphrase of each text; blank where the models generate nothing.

        Raises:
            InputError: a model can't be loaded.
        """
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
            inputs = tokenizer([texts[i] for i in part], return_tensors="pt", padding=True, truncation=True)
            generated = model.generate(**inputs.to(model.device), num_beams=self.beams, do_sample=False)
            for i, text in zip(part, tokenizer.batch_decode(generated, skip_special_tokens=True), strict=True):
                translated[i] = text.strip()
        return translated

    @cached_property
    def _loaded(self) -> list[tuple[Any, Any]]:
        return [_load(name) for name in self.models]


def _load(name: str) -> tuple[Any, Any]:
    """The tokenizer and the model of a translation model."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    try:
        with quiet():
            tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
            model = AutoModelForSeq2SeqLM.from_pretrained(
                name, dtype=torch.float32, use_safetensors=True, trust_remote_code=False
            )
    except ImportError as error:
        raise InputError(
            f"translation model {name}: its tokenizer needs a package that isn't installed: "
            f"pip install 'isotune[translation]' ({_line(error)})"
        ) from error
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise InputError(
            f"translation model {name}: it can't be loaded; give a folder, or a hub name while online ({_line(error)})"
        ) from error
    return tokenizer, model.to("cuda" if torch.cuda.is_available() else "cpu").eval()


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
