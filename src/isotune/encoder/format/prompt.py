"""Prompts: text put before a sentence, or around it.

SNCSE's prompt is `This sentence : " {sentence} " means {mask} .` The part before the sentence is put in front of the
text. The part after the sentence, the suffix, becomes a part of the tokenizer, like its special tokens: its ids are
added after truncation, so a long sentence is cut and the prompt is not. In addition, the tokenizer appends " ." to a
sentence that doesn't end in punctuation, as SNCSE does. So transformers and sentence-transformers make the same ids
from a saved encoder, without code of isotune.
"""

import copy
import json
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

from tokenizers import Encoding, Regex, Tokenizer, normalizers
from transformers import PreTrainedTokenizerBase

from isotune.data.rows import is_unicode
from isotune.errors import InputError
from isotune.files import rust_writes

LONGEST_PROMPT = 20_000  # characters; the tokens of a prompt are counted, which takes time
SENTENCE = "{sentence}"
MASK = "{mask}"

# Appends " ." to a text that doesn't end in punctuation.
_FULL_STOP = normalizers.Replace(Regex(r"(?<![\p{P}\s])\s*\z"), " .")


Prepared: TypeAlias = tuple[str, int, Callable[[Sequence[Any]], Sequence[Any]]]
"""The text before a sentence; the tokens of a prompt and special tokens; and a function from texts, or pairs of texts,
to objects with `ids` and `type_ids`, cut to the maximum length."""


class Prompts:
    """Prepares prompts for a tokenizer, each once for each maximum length.

    transformers switches truncation of a fast tokenizer at every call, also while another thread uses it. So a prompt
    has a tokenizer to itself, which nothing changes afterwards; a slow tokenizer has nothing to switch.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, lowercase: bool) -> None:
        self.tokenizer = tokenizer
        self.lowercase = lowercase
        self.prepared = cache(self._prepare)

    def __reduce__(self) -> tuple[object, ...]:
        return Prompts, (self.tokenizer, self.lowercase)  # a copy prepares its prompts again

    def _prepare(self, prompt: str, max_length: int) -> Prepared:
        """Prepares a prompt for texts of up to `max_length` tokens."""
        if not is_unicode(prompt):
            raise InputError(
                f"prompt {prompt[:50]!r} has half a surrogate pair, which is no character; leave it out"
            )
        if len(prompt) > LONGEST_PROMPT:
            raise InputError(
                f"prompt {prompt[:50]!r} has {len(prompt):,} characters; give {LONGEST_PROMPT:,} or fewer"
            )
        before, after = split_prompt(prompt, self.lowercase)
        before = fill_mask(before, self.tokenizer)
        tokenizer = with_suffix(self.tokenizer, after) if after else self.tokenizer
        encode: Callable[[Sequence[Any]], Sequence[Any]]
        if tokenizer.is_fast:
            tokens = len(
                _copy(self.tokenizer, self.lowercase).encode(before, add_special_tokens=False).ids
            )
            backend = _copy(tokenizer, self.lowercase)
            backend.enable_truncation(max_length, direction=tokenizer.truncation_side)
            encode = backend.encode_batch_fast
        else:
            tokens = len(tokenizer(before, add_special_tokens=False)["input_ids"])
            encode = partial(_encode_slowly, tokenizer, max_length)
        tokens += tokenizer.num_special_tokens_to_add()
        if tokens >= max_length:
            raise InputError(
                f"prompt {prompt!r}: it is {tokens} tokens long and is never cut, so a max_length of {max_length} "
                "leaves no room for the sentence; give a shorter prompt or a larger max_length"
            )
        return before, tokens, encode


def _copy(tokenizer: PreTrainedTokenizerBase, lowercase: bool) -> Tokenizer:
    """A tokenizer with the parts of a fast one, which are shared, and without truncation and padding."""
    backend: Tokenizer = tokenizer.backend_tokenizer
    copied = Tokenizer(backend.model)
    copied.add_tokens([token for _, token in sorted(backend.get_added_tokens_decoder().items())])
    steps = [normalizers.Lowercase() if lowercase else None, backend.normalizer]
    copied.normalizer = normalizers.Sequence([step for step in steps if step])
    copied.pre_tokenizer, copied.post_processor = backend.pre_tokenizer, backend.post_processor
    copied.encode_special_tokens = tokenizer.split_special_tokens
    return copied


def _encode_slowly(
    tokenizer: PreTrainedTokenizerBase, max_length: int, texts: Sequence[Any]
) -> list[SimpleNamespace]:
    encoded = tokenizer(
        list(texts), truncation=True, max_length=max_length, return_token_type_ids=True
    )
    columns = encoded["input_ids"], encoded["token_type_ids"]
    return [SimpleNamespace(ids=ids, type_ids=types) for ids, types in zip(*columns, strict=True)]


def split_prompt(prompt: str, lowercase: bool = False) -> tuple[str, str]:
    """Splits a prompt into the text before the sentence and the text after it, in lower case if `lowercase`."""
    prompt = prompt.lower() if lowercase else prompt
    before, _, after = prompt.partition(SENTENCE)
    if SENTENCE in after:
        raise InputError(f"prompt {prompt!r}: it has {SENTENCE} twice; write it once")
    if after and MASK in before:  # a tokenizer's rules see only the text between two special tokens
        raise InputError(
            f"prompt {prompt!r}: put {MASK} after {SENTENCE}, or leave out the text after {SENTENCE}"
        )
    return before, after


def fill_mask(text: str, tokenizer: PreTrainedTokenizerBase) -> str:
    """Replaces {mask} in a part of a prompt by the tokenizer's mask token."""
    if MASK not in text:
        return text
    if tokenizer.mask_token is None:
        raise InputError(
            f"prompt {text!r}: this model's tokenizer has no mask token; leave {MASK} out"
        )
    return text.replace(MASK, tokenizer.mask_token)


def with_suffix(tokenizer: PreTrainedTokenizerBase, suffix: str) -> PreTrainedTokenizerBase:
    """Copies a tokenizer; the copy adds a suffix to every sentence, which truncation never cuts."""
    if not tokenizer.is_fast:
        raise InputError(
            f"prompt: {type(tokenizer).__name__} can't put text after a sentence; leave that part out"
        )
    copied = copy.deepcopy(tokenizer)
    backend: Tokenizer = copied.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()  # some published tokenizers pad every text to one length
    single, pair = (_pieces(backend.encode(*texts)) for texts in (("a",), ("a", "b")))
    special = {
        token: [backend.token_to_id(token)] for piece in single + pair for token in _special(piece)
    }
    added = backend.encode(fill_mask(suffix, tokenizer), add_special_tokens=False)
    sentence = next(i for i, piece in enumerate(single) if "Sequence" in piece)
    single.insert(sentence + 1, {"SpecialToken": {"id": suffix, "type_id": 0}})
    state = json.loads(backend.to_str())
    state["post_processor"] = {
        "type": "TemplateProcessing",
        "single": single,
        "pair": pair,
        "special_tokens": {
            **{
                token: {"id": token, "ids": ids, "tokens": [token]}
                for token, ids in special.items()
            },
            suffix: {"id": suffix, "ids": added.ids, "tokens": added.tokens},
        },
    }
    backend.post_processor = Tokenizer.from_str(json.dumps(state)).post_processor
    plain = [] if backend.normalizer is None else [backend.normalizer]
    backend.normalizer = normalizers.Sequence([_FULL_STOP, *plain])
    return copied


def take_suffix(tokenizer: PreTrainedTokenizerBase) -> str:
    """Removes the suffix that `with_suffix` gave a tokenizer, in place, and returns it; "" if there is none."""
    if not tokenizer.is_fast:
        return ""
    backend: Tokenizer = tokenizer.backend_tokenizer
    state = json.loads(backend.to_str())
    processor = state["post_processor"] or {}
    if processor.get("type") != "TemplateProcessing":
        return ""
    # The suffix is the only piece that is no token of the vocabulary.
    suffixes = [
        text
        for piece in processor["single"]
        for text in _special(piece)
        if backend.token_to_id(text) is None
    ]
    rules = (state["normalizer"] or {}).get("normalizers") or [None]
    if len(suffixes) != 1 or rules[0] != json.loads(
        _FULL_STOP.__getstate__()
    ):  # another library's template
        return ""
    (suffix,) = suffixes
    processor["single"] = [piece for piece in processor["single"] if _special(piece) != [suffix]]
    del processor["special_tokens"][suffix]
    state["normalizer"] = rules[1] if rules[1:] else None
    plain = Tokenizer.from_str(json.dumps(state))
    backend.post_processor, backend.normalizer = plain.post_processor, plain.normalizer
    return str(suffix)


def save_tokenizer(tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Saves a fast tokenizer as a PreTrainedTokenizerFast, which takes tokenizer.json as it is."""
    with rust_writes():
        tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    names = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": tokenizer.model_input_names,
    }
    path.write_text(
        json.dumps(json.loads(path.read_text("utf-8")) | names, indent=2) + "\n", "utf-8"
    )


def _pieces(encoding: Encoding) -> list[dict[str, Any]]:
    pieces: list[dict[str, Any]] = []
    for token, kind, sequence in zip(
        encoding.tokens, encoding.type_ids, encoding.sequence_ids, strict=True
    ):
        if sequence is None:
            pieces.append({"SpecialToken": {"id": token, "type_id": kind}})
        elif (piece := {"Sequence": {"id": "AB"[sequence], "type_id": kind}}) not in pieces:
            pieces.append(piece)
    return pieces


def _special(piece: dict[str, Any]) -> list[str]:
    return [piece["SpecialToken"]["id"]] if "SpecialToken" in piece else []
