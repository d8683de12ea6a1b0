"""A new BERT: a vocabulary made from text, and random weights.

It is written as an ordinary Hugging Face folder, and from then on it is a model like any other. The weights follow
from torch's global generator. The vocabulary follows from the text, but for a few of its rarest pieces: where several
are equally frequent, tokenizers' trainer takes any of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from transformers import BertConfig, BertForMaskedLM, BertTokenizer

from isotune.encoder.format.pretrained import quiet
from isotune.encoder.options import Scratch
from isotune.errors import InputError

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ALPHABET = 1000  # characters that are kept apart, the most frequent ones: the default of tokenizers' own BERT


def make_model(folder: Path, scratch: Scratch, texts: Iterable[str]) -> None:
    """Writes a model that knows nothing yet, with its masked-LM head.

    Args:
        folder: is made.
        scratch: the size of the model and of its vocabulary.
        texts: what the vocabulary is made from.

    Raises:
        InputError: no vocabulary of that size can be made from the texts.
    """
    tokenizer = make_tokenizer(texts, scratch.vocabulary, scratch.positions)
    config = BertConfig(
        vocab_size=scratch.vocabulary,
        hidden_size=scratch.hidden,
        num_hidden_layers=scratch.layers,
        num_attention_heads=scratch.heads,
        intermediate_size=scratch.intermediate,
        max_position_embeddings=scratch.positions,
        pad_token_id=tokenizer.pad_token_id,
    )
    with quiet():
        BertForMaskedLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def make_tokenizer(texts: Iterable[str], size: int, max_length: int) -> BertTokenizer:
    """BERT's uncased WordPiece tokenizer, its vocabulary made from the texts.

    Args:
        texts: are read once.
        size: pieces, BERT's five special ones among them.
        max_length: tokens of the longest input.

    Raises:
        InputError: the texts have too few different pieces, or too many letters.
    """
    empty = BertTokenizer(model_max_length=max_length)
    trained = empty.train_new_from_iterator(texts, size, limit_alphabet=ALPHABET, show_progress=False)
    if len(trained) != size:
        raise InputError(
            f"vocabulary {size}: the text makes one of {len(trained)} pieces, its letters among them; "
            "ask for that many, or give other text"
        )
    # Numbered anew: the trainer numbers the letters in no fixed order.
    pieces = [*SPECIAL, *sorted(trained.get_vocab().keys() - set(SPECIAL))]
    return BertTokenizer({piece: number for number, piece in enumerate(pieces)}, model_max_length=max_length)
