"""Prompts that stand around a sentence.

SNCSE's is `This sentence : " {sentence} " means {mask} .` What stands before the sentence is text like any other
prompt. What stands after it becomes a part of the tokenizer, beside its special tokens: its ids are added after
truncation, so that a long sentence is cut and the template is not. A sentence that doesn't end in punctuation gets
" ." first, as in SNCSE, by a rule of the tokenizer too. So a saved encoder needs no code of ours: transformers and
sentence-transformers make the same ids.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from tokenizers import Encoding, Regex, Tokenizer, normalizers
from transformers import PreTrainedTokenizerBase

from isotune.errors import InputError

SENTENCE = "{sentence}"
MASK = "{mask}"

# The end of a text whose last character is no punctuation.
_FULL_STOP = normalizers.Replace(Regex(r"(?<![\p{P}\s])\s*\z"), " .")


class Prompts:
    """A tokenizer under every prompt that it is used with."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, lowercase: bool) -> None:
        self.tokenizer = tokenizer
        self.lowercase = lowercase
        self._with_suffix = {"": tokenizer}

    def __call__(self, prompt: str, max_length: int) -> tuple[str, PreTrainedTokenizerBase]:
        """The text to put before a sentence, and the tokenizer that puts the rest after it.

        Raises:
            InputError: sentences are cut to `max_length`, and the prompt leaves no room for one.
        """
        before, after = split_prompt(prompt.lower() if self.lowercase else prompt)
        before = fill_mask(before, self.tokenizer)
        if after not in self._with_suffix:
            self._with_suffix[after] = with_suffix(self.tokenizer, after)
        tokenizer = self._with_suffix[after]
        length = len(self.tokenizer(before, add_special_tokens=False)["input_ids"])
        length += tokenizer.num_special_tokens_to_add()
        if after and length >= max_length:
            raise InputError(
                f"prompt {prompt!r}: it is {length} tokens long and all of it is kept, so a max_length of "
                f"{max_length} leaves no room for the sentence"
            )
        return before, tokenizer


def mask_id(tokenizer: PreTrainedTokenizerBase) -> int:
    """The mask token's id.

    Raises:
        InputError: there is none.
    """
    if tokenizer.mask_token_id is None:
        raise InputError("pooling mask: this model's tokenizer has no mask token; choose another pooling")
    return int(tokenizer.mask_token_id)


def split_prompt(prompt: str) -> tuple[str, str]:
    """What a prompt puts before a sentence and after it.

    Raises:
        InputError: it has the sentence twice, or the mask before it and text after it.
    """
    before, _, after = prompt.partition(SENTENCE)
    if SENTENCE in after:
        raise InputError(f"prompt {prompt!r}: it has {SENTENCE} twice; once is what it takes")
    if after and MASK in before:  # a tokenizer's rules see the text between two special tokens only
        raise InputError(f"prompt {prompt!r}: {MASK} has to stand after {SENTENCE}, or nothing else after it")
    return before, after


def fill_mask(text: str, tokenizer: PreTrainedTokenizerBase) -> str:
    """A part of a prompt with the tokenizer's mask token for {mask}.

    Raises:
        InputError: the tokenizer has none.
    """
    if MASK not in text:
        return text
    if tokenizer.mask_token is None:
        raise InputError(f"prompt {text!r}: this model's tokenizer has no mask token; leave {MASK} out")
    return text.replace(MASK, tokenizer.mask_token)


def with_suffix(tokenizer: PreTrainedTokenizerBase, suffix: str) -> PreTrainedTokenizerBase:
    """A copy of a tokenizer that puts a text after every sentence, out of the reach of truncation.

    Raises:
        InputError: the tokenizer is none of the tokenizers library, or has no mask token for {mask}.
    """
    if not tokenizer.is_fast:
        raise InputError(f"prompt: {type(tokenizer).__name__} can't put text after a sentence; leave that part out")
    copied = copy.deepcopy(tokenizer)
    backend: Tokenizer = copied.backend_tokenizer
    backend.no_truncation()
    single, pair = (_pieces(backend.encode(*texts)) for texts in (("a",), ("a", "b")))
    special = {token: [backend.token_to_id(token)] for piece in single + pair for token in _special(piece)}
    added = backend.encode(fill_mask(suffix, tokenizer), add_special_tokens=False)
    sentence = next(i for i, piece in enumerate(single) if "Sequence" in piece)
    single.insert(sentence + 1, {"SpecialToken": {"id": suffix, "type_id": 0}})
    state = json.loads(backend.to_str())
    state["post_processor"] = {
        "type": "TemplateProcessing",
        "single": single,
        "pair": pair,
        "special_tokens": {
            **{token: {"id": token, "ids": ids, "tokens": [token]} for token, ids in special.items()},
            suffix: {"id": suffix, "ids": added.ids, "tokens": added.tokens},
        },
    }
    backend.post_processor = Tokenizer.from_str(json.dumps(state)).post_processor
    own = [] if backend.normalizer is None else [backend.normalizer]
    backend.normalizer = normalizers.Sequence([_FULL_STOP, *own])
    return copied


def take_suffix(tokenizer: PreTrainedTokenizerBase) -> str:
    """The text that `with_suffix` made a tokenizer put after every sentence, which it then no longer does."""
    if not tokenizer.is_fast:
        return ""
    backend: Tokenizer = tokenizer.backend_tokenizer
    state = json.loads(backend.to_str())
    processor = state["post_processor"] or {}
    if processor.get("type") != "TemplateProcessing":
        return ""
    # Every other piece is a token of the vocabulary.
    found = [text for piece in processor["single"] for text in _special(piece) if backend.token_to_id(text) is None]
    if not found:
        return ""
    (suffix,) = found
    processor["single"] = [piece for piece in processor["single"] if _special(piece) != [suffix]]
    del processor["special_tokens"][suffix]
    own = state["normalizer"]["normalizers"][1:]
    state["normalizer"] = own[0] if own else None
    plain = Tokenizer.from_str(json.dumps(state))
    backend.post_processor, backend.normalizer = plain.post_processor, plain.normalizer
    return str(suffix)


def save_with_suffix(tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Saves what `with_suffix` made under a class that takes tokenizer.json as it is; others rebuild parts of it."""
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    names = {"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": tokenizer.model_input_names}
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | names, indent=2) + "\n", "utf-8")


def _pieces(encoding: Encoding) -> list[dict[str, Any]]:
    """The template of a post-processor, read off the one or two short texts it was given."""
    pieces: list[dict[str, Any]] = []
    for token, kind, sequence in zip(encoding.tokens, encoding.type_ids, encoding.sequence_ids, strict=True):
        if sequence is None:
            pieces.append({"SpecialToken": {"id": token, "type_id": kind}})
        elif (piece := {"Sequence": {"id": "AB"[sequence], "type_id": kind}}) not in pieces:
            pieces.append(piece)
    return pieces


def _special(piece: dict[str, Any]) -> list[str]:
    """The special token that a piece is, if it is one."""
    return [piece["SpecialToken"]["id"]] if "SpecialToken" in piece else []
