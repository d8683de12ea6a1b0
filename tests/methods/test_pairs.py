"""Pairs and passages: which rows belong together, and which passages are drawn."""

from itertools import pairwise

import pytest
import torch

from isotune.data import Triplet
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.methods.method import Batch
from isotune.methods.options import CropsOptions, PairsOptions
from isotune.methods.pairs import Crops, Pairs, groups
from isotune.views.crops import sentences_of, two_passages


def related(batch: Batch) -> list[tuple[int, int]]:
    rows = [set(row) for row in groups(batch).tolist()]
    return [(i, j) for i, a in enumerate(rows) for j, b in enumerate(rows) if i < j and a & b]


def test_rows_that_share_a_text_belong_together() -> None:
    titles, bodies = ["a", "A!", "b", "c", "d"], ["1", "2", "3", "3", "a"]
    assert related(Batch(sentences=(titles, bodies))) == [(0, 1), (0, 4), (1, 4), (2, 3)]


def test_each_text_is_read_under_the_prompt_of_its_role(encoder: Encoder) -> None:
    encoder.settings = {"prompts": {"query": "a dog ", "document": "a cat "}}
    columns = Pairs(PairsOptions(), encoder).tokenize(encoder, [["a man"], ["a woman"]], 16).columns
    texts = (("a dog ", "a man"), ("a cat ", "a woman"))
    assert list(columns) == [encoder.tokenize([text], prompt=prompt) for prompt, text in texts]


def test_a_hard_negative_that_another_row_answers_with_is_none_of_that_row(
    encoder: Encoder,
) -> None:
    method = Pairs(PairsOptions(negatives=True), encoder)
    assert method.feeds()["rows"].rows is Triplet
    assert len(method.tokenize(encoder, [["a man"], ["a woman"], ["a dog"]], 16).columns) == 3
    batch = Batch(sentences=(["a", "b"], ["1", "2"], ["2!", "3"]))
    assert related(batch) == [(1, 2)]


def test_crops_are_two_passages_without_a_common_sentence(encoder: Encoder) -> None:
    order = ["A man.", "A woman.", "A dog.", "A cat.", "A bird."]
    text = " ".join(order)
    generator = torch.Generator().manual_seed(0)
    seen = set(zip(*two_passages([text] * 300, generator), strict=True))
    two = [" ".join(pair) for pair in pairwise(order)]
    assert seen == {(two[0], two[2]), (two[0], two[3]), (two[1], two[3])} | {
        *((order[0], passage) for passage in two[1:]),
        *((passage, order[-1]) for passage in two[:-1]),
    }
    assert two_passages(["One."], generator) == (["One."], ["One."])

    encoder.settings = {"prompts": {"document": "a cat "}}
    crops = Crops(CropsOptions(), encoder)
    batch = crops.draw(Batch(sentences=([text, text],), max_length=6, generator=generator))
    assert [packed.lengths.tolist() for packed in batch.texts] == [[6, 6], [6, 6]]
    assert (
        crops.tokenize(encoder, [[text]], 16).columns[0][0][1:3]
        == encoder.tokenize(["a cat"])[0][1:3]
    )


def test_rows_that_all_share_a_text_are_refused() -> None:
    with pytest.raises(InputError, match="all rows of a step share a text"):
        groups(Batch(sentences=(["a", "b"], ["c", "c"])))


def test_a_text_is_cut_into_its_sentences() -> None:
    text = "Dr. J. Smith came. He left at 3.5 p.m. on foot!\nThen?\n\n"
    assert sentences_of(text) == ["Dr. J. Smith came.", "He left at 3.5 p.m. on foot!", "Then?"]
