"""Prompts around a sentence.

They give the same ids as the whole text has, and the same vectors in every library.
"""

import os
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors, trainers
from tokenizers.processors import TemplateProcessing
from transformers import (
    AutoModel,
    AutoTokenizer,
    ByT5Tokenizer,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from isotune.encoder.encoder import Encoder
from isotune.encoder.format.prompt import (
    Prompts,
    save_tokenizer,
    split_prompt,
    take_suffix,
    with_suffix,
)
from isotune.errors import InputError
from tests.conftest import reopened

PROMPT = "the man sees {sentence} with {mask} ."


def wordpiece(tiny_model: Path) -> PreTrainedTokenizerBase:
    return cast(PreTrainedTokenizerBase, AutoTokenizer.from_pretrained(tiny_model))


def byte_pairs(_: Path) -> PreTrainedTokenizerBase:
    """A tokenizer like RoBERTa's, without a normaliser.

    A space belongs to the next word, and a pair has two separators.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer = trainers.BpeTrainer(
        special_tokens=special, initial_alphabet=alphabet, vocab_size=300, show_progress=False
    )
    tokenizer.train_from_iterator(["the man sees a big dog with a red ball"], trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    names = {
        "bos_token": "<s>",
        "cls_token": "<s>",
        "eos_token": "</s>",
        "sep_token": "</s>",
        "pad_token": "<pad>",
    }
    mask = AddedToken("<mask>", lstrip=True, special=True)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, mask_token=mask, **names)


def slow(_: Path) -> PreTrainedTokenizerBase:
    return ByT5Tokenizer()


def real(name: str) -> Callable[[Path], PreTrainedTokenizerBase]:
    """A tokenizer of a published model."""

    def load(_: Path) -> PreTrainedTokenizerBase:
        folder = Path(os.environ.get("ISOTUNE_MODELS", "none"), name)
        if not folder.exists():
            pytest.skip(f"{name} is not among the models")
        return cast(PreTrainedTokenizerBase, AutoTokenizer.from_pretrained(folder))

    return load


both = pytest.mark.parametrize("make", [wordpiece, byte_pairs])
PIECES = [
    "the",
    "big",
    "dog",
    "[MASK]",
    "[PAD]",
    "[SEP]",
    "<mask>",
    "<pad>",
    "</s>",
    "[UNK]",
    "na\u00efve",
    "\u65e5",
]
PIECES += ["\x00", ".", ",", "\n", "", "with"]


@pytest.mark.filterwarnings("ignore:This sequence already has")
@pytest.mark.parametrize(
    "make", [wordpiece, byte_pairs, slow, *map(real, ("all-minilm", "all-mpnet"))]
)
@pytest.mark.parametrize(("side", "split"), [("right", False), ("left", False), ("right", True)])
def test_ids_are_those_of_transformers_in_every_thread(
    make: Any, side: str, split: bool, tiny_model: Path
) -> None:
    """Whatever special tokens stand in a text, wherever it is cut, and whoever else tokenises."""
    draw = random.Random(0)
    ours, theirs = make(tiny_model), make(tiny_model)
    for tokenizer in ours, theirs:
        tokenizer.truncation_side, tokenizer.split_special_tokens = side, split
    prompts, state = Prompts(ours, lowercase=False), state_of(ours)
    cases = []
    for _ in range(100):
        texts = [" ".join(draw.choices(PIECES, k=draw.randrange(20))) for _ in range(4)]
        length = draw.choice([4, 5, 6, 9, 33])
        alone, both = ({"text": texts, "return_token_type_ids": True} for _ in range(2))
        both["text_pair"] = texts[::-1]
        wanted = [theirs(**given, truncation=True, max_length=length) for given in (alone, both)]
        cases.append(
            (
                texts,
                length,
                [list(zip(w["input_ids"], w["token_type_ids"], strict=True)) for w in wanted],
            )
        )

    def wrong(case: tuple[list[str], int, list[list[Any]]]) -> bool:
        texts, length, wanted = case
        _, _, encode = prompts.prepared("", length)
        given = texts, list(zip(texts, texts[::-1], strict=True))
        return [[(made.ids, made.type_ids) for made in encode(part)] for part in given] != wanted

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(wrong, cases * 3)) == 0
    assert state_of(ours) == state


def state_of(tokenizer: PreTrainedTokenizerBase) -> str:
    return str(tokenizer.backend_tokenizer.to_str()) if tokenizer.is_fast else ""


@both
@pytest.mark.parametrize("sentence", ["a big dog.", "A dog? ", "a big dog", 'a "dog"'])
def test_a_prompt_gives_the_ids_of_the_whole_text(
    make: Any, sentence: str, tiny_model: Path
) -> None:
    tokenizer = make(tiny_model)
    before, after = split_prompt(PROMPT)
    stop = " ." if sentence == "a big dog" else ""
    whole = before + sentence.rstrip() + stop + after.replace("{mask}", tokenizer.mask_token)
    ids = with_suffix(tokenizer, after)(before + sentence.rstrip())["input_ids"]
    assert ids == tokenizer(whole)["input_ids"]


@both
def test_truncation_cuts_the_sentence_alone(make: Any, tiny_model: Path) -> None:
    tokenizer = with_suffix(make(tiny_model), " with {mask} .")
    whole = tokenizer("a big dog " * 20)["input_ids"]
    for length in range(20, 25):
        ids = tokenizer("a big dog " * 20, truncation=True, max_length=length)["input_ids"]
        assert len(ids) == length
        assert ids[-4:] == whole[-4:]  # with [MASK] . [SEP]
        assert ids[:5] == whole[:5]


@both
def test_saving_keeps_the_suffix_and_take_suffix_restores_the_tokenizer(
    make: Any, tiny_model: Path, tmp_path: Path
) -> None:
    plain = make(tiny_model)
    changed = with_suffix(plain, " with {mask} .")
    save_tokenizer(changed, tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    text = "a big dog is on the ball"
    assert loaded(text)["input_ids"] == changed(text)["input_ids"] != plain(text)["input_ids"]
    assert loaded.special_tokens_map == plain.special_tokens_map
    assert take_suffix(loaded) == " with {mask} ."
    assert take_suffix(loaded) == take_suffix(plain) == ""
    for texts in (text,), (text, "the red cat"):
        assert dict(loaded(*texts)) == dict(plain(*texts))
    of_another_library = TemplateProcessing(
        single="[A] $A [B]", special_tokens=[("[A]", 10**6), ("[B]", 10**6 + 1)]
    )
    loaded.backend_tokenizer.post_processor = of_another_library
    assert take_suffix(loaded) == ""


@pytest.mark.parametrize(
    "options", [{}, {"layers": (0, -1)}, {"prompt": "{sentence} is {mask}"}], ids=str
)
def test_a_saved_encoder_gives_the_same_vectors_in_plain_sentence_transformers(
    options: dict[str, Any], tiny_model: Path, sentences: list[str], tmp_path: Path
) -> None:
    encoder = Encoder.load(tiny_model, **{"pooling": "mask", "prompt": PROMPT, **options})
    loaded = reopened(encoder, tmp_path / "saved", sentences)  # several of them are cut
    assert (loaded.prompt, loaded.pooling.mode) == (encoder.prompt, "mask")
    reopened(loaded, tmp_path / "again", sentences)
    plain = {"pooling": "mean", "layers": options.get("layers", (-1,)), "prompt": ""}
    expected = Encoder.load(tiny_model, **plain).encode(sentences)
    assert np.array_equal(Encoder.load(tmp_path / "saved", **plain).encode(sentences), expected)


@pytest.mark.parametrize("prompt", ["THE CAT SEES {sentence} with {mask} .", "THE {mask} SEES "])
def test_lowercasing_keeps_the_mask_token(
    prompt: str, tiny_model: Path, sentences: list[str], tmp_path: Path
) -> None:
    parts = Encoder.load(tiny_model)
    kept = (parts.backbone, parts.pooling, [], parts.tokenizer, 32)
    encoder = Encoder(*kept, lowercase=True, prompt=prompt).eval()
    assert encoder.tokenize(["A"])[0].count(encoder.tokenizer.mask_token_id) == 1
    reopened(encoder, tmp_path / "saved", [sentence.upper() for sentence in sentences])


def test_impossible_prompts_are_refused(tiny_model: Path) -> None:
    encoder = Encoder.load(tiny_model, pooling="mask")
    with pytest.raises(InputError, match="has no mask token"):
        encoder.encode("a dog")
    with pytest.raises(InputError, match="twice"):
        encoder.tokenize(["a dog"], prompt="{sentence} and {sentence}")
    with pytest.raises(InputError, match=r"it is 8 tokens long .* max_length of 8 leaves no room"):
        encoder.tokenize(["a dog"], 8, prompt=PROMPT)
    with pytest.raises(InputError, match=r"put \{mask\} after \{sentence\}"):
        encoder.tokenize(["a dog"], prompt="{mask} is {sentence} .")
    encoder.tokenizer.mask_token = None
    for prompt in "{mask} {sentence}", "{sentence} {mask}":
        with pytest.raises(InputError, match=r"no mask token; leave \{mask\} out"):
            encoder.tokenize(["a dog"], prompt=prompt)
    with pytest.raises(InputError, match="choose another pooling"):
        Encoder(encoder.backbone, encoder.pooling, [], encoder.tokenizer, 32)
    with pytest.raises(InputError, match="can't put text after a sentence"):
        with_suffix(cast(PreTrainedTokenizerBase, SimpleNamespace(is_fast=False)), " .")


@pytest.mark.parametrize(
    "prompt", ["{} ", "{} {{sentence}}", "{} {{sentence}} with", "a {{sentence}} {}"]
)
def test_a_prompt_of_any_form_leaves_room_for_the_sentence_or_is_refused(
    prompt: str, tiny_model: Path
) -> None:
    """Two sentences get different ids, whatever the prompt's length."""
    encoder, refused = Encoder.load(tiny_model), 0
    for words in range(1, 12):
        text = prompt.format(" ".join(["the"] * words))
        try:
            one, other = encoder.tokenize(["dog", "cat"], 9, text)
        except InputError:  # it leaves no room
            refused += 1
        else:
            assert one != other
    assert 0 < refused < 11


@pytest.mark.parametrize("prompt", [PROMPT, "the {mask} sees "])
@pytest.mark.parametrize(
    "text", ["a [MASK] dog", "[MASK]", "[MASK] cat [MASK]", "a [PAD] [SEP] [CLS] [UNK] ball"]
)
def test_a_special_token_in_a_text_is_text(prompt: str, text: str, tiny_model: Path) -> None:
    """Pooling mask takes the prompt's token, and the other texts of a batch don't notice."""
    encoder = Encoder.load(tiny_model, pooling="mask", prompt=prompt)
    plain, special = encoder.encode("a cat"), encoder.encode(text)
    np.testing.assert_allclose(
        encoder.encode(["a cat", text, "a cat"]), [plain, special, plain], atol=1e-5
    )
    (ids,) = encoder.tokenize([text])
    masks = [place for place, token in enumerate(ids) if token == encoder.tokenizer.mask_token_id]
    model, inputs = AutoModel.from_pretrained(tiny_model), {"input_ids": torch.tensor([ids])}
    with torch.no_grad():
        states = model(**inputs).last_hidden_state[0]
    np.testing.assert_allclose(
        special, states[masks[-1 if "{sentence}" in prompt else 0]], atol=1e-5
    )
