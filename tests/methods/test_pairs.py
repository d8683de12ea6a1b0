"""Pairs and neighbours: which rows belong together, and how paragraphs become neighbours."""

from itertools import pairwise
from pathlib import Path

import pytest
import torch

from isotune.data import NeighbourPair, Triplet, read
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.methods.method import Batch
from isotune.methods.options import NeighboursOptions, PairsOptions
from isotune.methods.pairs import Crops, Neighbours, Pairs, groups
from isotune.views.crops import two_passages


def related(batch: Batch) -> list[tuple[int, int]]:
    rows = [set(row) for row in groups(batch).tolist()]
    return [(i, j) for i, a in enumerate(rows) for j, b in enumerate(rows) if i < j and a & b]


def test_rows_that_share_a_text_or_a_paragraph_belong_together() -> None:
    titles, bodies = ["a", "A!", "b", "c", "d"], ["1", "2", "3", "3", "a"]
    assert related(Batch(sentences=(titles, bodies))) == [(0, 1), (0, 4), (1, 4), (2, 3)]
    numbers = torch.tensor([2**62, 5, 6, 2**62, 7])
    assert related(Batch(sentences=(list("abcde"), list("fghij")), targets=numbers)) == [(0, 3)]


def test_each_text_is_read_under_the_prompt_of_its_role(encoder: Encoder) -> None:
    encoder.settings = {"prompts": {"query": "a dog ", "document": "a cat "}}
    for method, prompts in ((Pairs, ("a dog ", "a cat ")), (Neighbours, ("a cat ", "a cat "))):
        columns = method(PairsOptions(), encoder).tokenize(encoder, [["a man"], ["a woman"]], 16).columns
        texts = zip(prompts, ("a man", "a woman"), strict=True)
        assert list(columns) == [encoder.tokenize([text], prompt=prompt) for prompt, text in texts]


def test_a_hard_negative_that_another_row_answers_with_is_none_of_that_row(encoder: Encoder) -> None:
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
    crops = Crops(NeighboursOptions(), encoder)
    batch = crops.draw(Batch(sentences=([text, text],), max_length=6, generator=generator))
    assert [packed.lengths.tolist() for packed in batch.texts] == [[6, 6], [6, 6]]
    assert crops.tokenize(encoder, [[text]], 16).columns[0][0][1:3] == encoder.tokenize(["a cat"])[0][1:3]


def test_rows_of_one_document_are_refused() -> None:
    with pytest.raises(InputError, match="blank lines separate"):
        groups(Batch(sentences=(["a", "b"], ["c", "d"]), targets=torch.tensor([7, 7])))


def test_blank_lines_separate_the_paragraphs_of_a_text(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("Dr. J. Smith came. He left at 3.5 p.m. on foot!\nThen?\n\nAlone.\n \nOne. Two.\n")
    rows = list(read(text, NeighbourPair))
    first, second, third = rows
    assert first[:2] == ("Dr. J. Smith came.", "He left at 3.5 p.m. on foot!")
    assert second[:2] == (first.sentence2, "Then?")
    assert third[:2] == ("One.", "Two.")
    assert first.paragraph == second.paragraph != third.paragraph


def test_a_text_without_neighbours_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "lines.txt"
    text.write_text("One.\n\nTwo.\n")
    with pytest.raises(InputError, match=r"lines.txt: no NeighbourPair in it with two sentences in a paragraph"):
        list(read(text, NeighbourPair))
