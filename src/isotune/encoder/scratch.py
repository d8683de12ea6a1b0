"""A new BERT: a vocabulary made from text, and random weights.

The model is written as an ordinary Hugging Face folder, and can be loaded like any other. Its weights are drawn from
torch's global generator. Its vocabulary is determined by the text, except for a few of the rarest pieces: among equally
frequent pieces, the trainer of the tokenizers library takes any.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from transformers import BertConfig, BertForMaskedLM, BertTokenizer

from isotune.encoder.format.checksums import write_checksums
from isotune.encoder.format.pretrained import quiet
from isotune.encoder.options import Scratch
from isotune.errors import InputError

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ALPHABET = 1000  # the most frequent characters, which are pieces; the default of the tokenizers library for BERT


def make_model(folder: Path, scratch: Scratch, texts: Iterable[str]) -> None:
    """Writes a new folder with a model of random weights and a masked-LM head, and its tokenizer.

    Raises:
        InputError: as `make_tokenizer`.
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
    write_checksums(folder)


def make_tokenizer(texts: Iterable[str], size: int, max_length: int) -> BertTokenizer:
    """Makes BERT's uncased WordPiece tokenizer; its vocabulary has `size` pieces, special tokens included.

    Raises:
        InputError: the texts have too few different pieces, or more letters than `size`.
    """
    empty = BertTokenizer(model_max_length=max_length)
    trained = empty.train_new_from_iterator(texts, size, limit_alphabet=ALPHABET, show_progress=False)
    if len(trained) != size:
        raise InputError(
            f"vocabulary {size}: the text makes a vocabulary of {len(trained)} pieces, letters included; "
            "ask for that many, or give other text"
        )
    # The trainer numbers the letters in no fixed order, so the pieces are numbered again.
    pieces = [*SPECIAL, *sorted(trained.get_vocab().keys() - set(SPECIAL))]
    return BertTokenizer({piece: number for number, piece in enumerate(pieces)}, model_max_length=max_length)
