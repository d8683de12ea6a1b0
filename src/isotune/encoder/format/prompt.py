"""Prompts: text put before a sentence, or around it.

SNCSE's prompt is `This sentence : " {sentence} " means {mask} .` The part before the sentence is
put in front of the text. The part after the sentence, the suffix, becomes a part of the tokenizer,
like its special tokens: its ids are added after truncation, so a long sentence is cut and the
prompt is not. In addition, the tokenizer appends " ." to a sentence that doesn't end in
punctuation, as SNCSE does. So transformers and sentence-transformers make the same ids from a saved
encoder, without code of isotune.
"""

import copy
import json
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from tokenizers import Encoding, Regex, Tokenizer, normalizers
from transformers import PreTrainedTokenizerBase

from isotune.data.rows import is_unicode
from isotune.errors import InputError
from isotune.files import rust_writes

# The most characters of a prompt: its tokens are counted, which takes time.
LONGEST_PROMPT = 20_000
SENTENCE = "{sentence}"
MASK = "{mask}"

# Appends " ." to a text that doesn't end in punctuation.
_FULL_STOP = normalizers.Replace(Regex(r"(?<![\p{P}\s])\s*\z"), " .")


class Prepared(NamedTuple):
    """A prompt that is prepared for a tokenizer and a maximum length."""

    before: str
    """The text before a sentence."""
    tokens: int
    """The number of the prompt's tokens and of special tokens."""
    encode: Callable[[Sequence[Any]], Sequence[Any]]
    """A function from texts, or pairs of texts, to objects with `ids` and `type_ids`.

    The ids are cut to the maximum length.
    """


class Prompts:
    """Prepares prompts for a tokenizer, each once for each maximum length.

    transformers switches truncation of a fast tokenizer at every call, also while another thread
    uses it. So a prompt has a tokenizer to itself, which nothing changes afterwards; a slow
    tokenizer has nothing to switch.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, lowercase: bool) -> None:
        self.tokenizer = tokenizer
        self.lowercase = lowercase
        self.prepared = cache(self._prepare)

    def __reduce__(self) -> tuple[object, ...]:
        # A copy prepares its prompts again.
        return Prompts, (self.tokenizer, self.lowercase)

    def _prepare(self, prompt: str, max_length: int) -> Prepared:
        """Prepares a prompt for texts of up to `max_length` tokens."""
        if not is_unicode(prompt):
            raise InputError(
                f"prompt {prompt[:50]!r} has half a surrogate pair, which is no character; leave "
                "it out"
            )
        if len(prompt) > LONGEST_PROMPT:
            raise InputError(
                f"prompt {prompt[:50]!r} has {len(prompt):,} characters; give {LONGEST_PROMPT:,} "
                "or fewer"
            )
        before, after = split_prompt(prompt, self.lowercase)
        before = fill_mask(before, self.tokenizer)
        tokenizer = self.tokenizer
        if after:
            tokenizer = with_suffix(self.tokenizer, after)
        encode: Callable[[Sequence[Any]], Sequence[Any]]
        if tokenizer.is_fast:
            plain = _copy(self.tokenizer, self.lowercase)
            tokens = len(plain.encode(before, add_special_tokens=False).ids)
            backend = _copy(tokenizer, self.lowercase)
            backend.enable_truncation(max_length, direction=tokenizer.truncation_side)
            encode = backend.encode_batch_fast
        else:
            tokens = len(tokenizer(before, add_special_tokens=False)["input_ids"])
            encode = partial(_encode_slowly, tokenizer, max_length)
        tokens += tokenizer.num_special_tokens_to_add()
        if tokens >= max_length:
            raise InputError(
                f"prompt {prompt!r}: it is {tokens} tokens long and is never cut, so a max_length "
                f"of {max_length} leaves no room for the sentence; give a shorter prompt or a "
                "larger max_length"
            )
        return Prepared(before, tokens, encode)


def _copy(tokenizer: PreTrainedTokenizerBase, lowercase: bool) -> Tokenizer:
    """Makes a tokenizer of the parts of a fast one, without truncation and padding."""
    backend: Tokenizer = tokenizer.backend_tokenizer
    copied = Tokenizer(backend.model)
    copied.add_tokens([token for _, token in sorted(backend.get_added_tokens_decoder().items())])
    steps: list[Any] = []
    if lowercase:
        steps.append(normalizers.Lowercase())
    if backend.normalizer:
        steps.append(backend.normalizer)
    copied.normalizer = normalizers.Sequence(steps)
    copied.pre_tokenizer = backend.pre_tokenizer
    copied.post_processor = backend.post_processor
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
    """Splits a prompt into the text before the sentence and the text after it.

    Both are in lower case if `lowercase`.
    """
    if lowercase:
        prompt = prompt.lower()
    before, _, after = prompt.partition(SENTENCE)
    if SENTENCE in after:
        raise InputError(f"prompt {prompt!r}: it has {SENTENCE} twice; write it once")
    if after and MASK in before:
        # A tokenizer's rules see only the text between two special tokens.
        raise InputError(
            f"prompt {prompt!r}: put {MASK} after {SENTENCE}, or leave out the text after "
            f"{SENTENCE}"
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
            f"prompt: {type(tokenizer).__name__} can't put text after a sentence; leave that part "
            "out"
        )
    copied = copy.deepcopy(tokenizer)
    backend: Tokenizer = copied.backend_tokenizer
    backend.no_truncation()
    # Some published tokenizers pad every text to one length.
    backend.no_padding()
    single = _pieces(backend.encode("a"))
    pair = _pieces(backend.encode("a", "b"))
    special_tokens = {}
    for piece in single + pair:
        for token in _special(piece):
            ids = [backend.token_to_id(token)]
            special_tokens[token] = {"id": token, "ids": ids, "tokens": [token]}
    added = backend.encode(fill_mask(suffix, tokenizer), add_special_tokens=False)
    special_tokens[suffix] = {"id": suffix, "ids": added.ids, "tokens": added.tokens}
    single.insert(_place_of_sentence(single) + 1, {"SpecialToken": {"id": suffix, "type_id": 0}})
    state = json.loads(backend.to_str())
    state["post_processor"] = {
        "type": "TemplateProcessing",
        "single": single,
        "pair": pair,
        "special_tokens": special_tokens,
    }
    backend.post_processor = Tokenizer.from_str(json.dumps(state)).post_processor
    rules = [_FULL_STOP]
    if backend.normalizer is not None:
        rules.append(backend.normalizer)
    backend.normalizer = normalizers.Sequence(rules)
    return copied


def take_suffix(tokenizer: PreTrainedTokenizerBase) -> str:
    """Removes the suffix that `with_suffix` gave a tokenizer, in place, and returns it.

    It returns "" if there is none.
    """
    if not tokenizer.is_fast:
        return ""
    backend: Tokenizer = tokenizer.backend_tokenizer
    state = json.loads(backend.to_str())
    processor = state["post_processor"] or {}
    if processor.get("type") != "TemplateProcessing":
        return ""
    suffixes = _unknown_pieces(processor["single"], backend)
    rules = (state["normalizer"] or {}).get("normalizers") or [None]
    appends_full_stop = rules[0] == json.loads(_FULL_STOP.__getstate__())
    if len(suffixes) != 1 or not appends_full_stop:
        # The template is another library's.
        return ""
    suffix = suffixes[0]
    processor["single"] = [piece for piece in processor["single"] if _special(piece) != [suffix]]
    del processor["special_tokens"][suffix]
    state["normalizer"] = None
    if len(rules) > 1:
        state["normalizer"] = rules[1]
    plain = Tokenizer.from_str(json.dumps(state))
    backend.post_processor = plain.post_processor
    backend.normalizer = plain.normalizer
    return suffix


def _unknown_pieces(pieces: Iterable[dict[str, Any]], backend: Tokenizer) -> list[str]:
    """The pieces of a template that are no tokens of the vocabulary: a suffix is the only one."""
    unknown = []
    for piece in pieces:
        for text in _special(piece):
            if backend.token_to_id(text) is None:
                unknown.append(text)
    return unknown


def save_tokenizer(tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Saves a fast tokenizer as a PreTrainedTokenizerFast, which takes tokenizer.json as it is."""
    with rust_writes():
        tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text("utf-8"))
    config["tokenizer_class"] = "PreTrainedTokenizerFast"
    config["model_input_names"] = tokenizer.model_input_names
    path.write_text(json.dumps(config, indent=2) + "\n", "utf-8", newline="\n")


def _pieces(encoding: Encoding) -> list[dict[str, Any]]:
    """The template of an encoding: its special tokens, and one piece for each text."""
    pieces: list[dict[str, Any]] = []
    for token, kind, sequence in zip(
        encoding.tokens, encoding.type_ids, encoding.sequence_ids, strict=True
    ):
        if sequence is None:
            piece = {"SpecialToken": {"id": token, "type_id": kind}}
        else:
            piece = {"Sequence": {"id": "AB"[sequence], "type_id": kind}}
            if piece in pieces:
                # The other tokens of this text.
                continue
        pieces.append(piece)
    return pieces


def _place_of_sentence(pieces: Sequence[dict[str, Any]]) -> int:
    """The place of the text among the pieces of a template."""
    for place, piece in enumerate(pieces):
        if "Sequence" in piece:
            return place
    raise ValueError("the template has no place for a text")


def _special(piece: dict[str, Any]) -> list[str]:
    """The special token of a piece; an empty list for a text."""
    if "SpecialToken" not in piece:
        return []
    return [piece["SpecialToken"]["id"]]
