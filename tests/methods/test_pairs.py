"""Pairs and passages: which rows belong together, and which passages are drawn."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from isotune.data import Pair, Sentence, Triplet
from isotune.data.packed import pack
from isotune.encoder import model
from isotune.encoder.encoder import Encoder
from isotune.encoder.format.prompt import Prepared
from isotune.errors import InputError
from isotune.methods.method import Batch
from isotune.methods.mirror import Mirror
from isotune.methods.options import CropsOptions, MirrorOptions, PairsOptions
from isotune.methods.pairs import Crops, Pairs, count_chained, groups
from isotune.views.crops import sentences_of, two_passages
from tests.conftest import WORDS


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


@pytest.mark.parametrize(
    "text",
    [
        "वह आया। वह गया।",
        "क्या वह आया है॥वह गया",
        "هل جاء؟ نعم",
        "وہ آیا\u06d4 وہ گیا\u06d4",
        "今日は晴れ。明日は雨",
        "今日は晴れ｡明日は雨",
        "Well… That is all",
    ],
)
def test_a_text_is_cut_at_the_final_marks_of_other_scripts(text: str) -> None:
    assert len(sentences_of(text)) == 2


@pytest.mark.parametrize(
    "text",
    [
        "the printer does not print",
        "two words",
        " ".join(f"word{i}" for i in range(1000)),
        "\u6211\u559c\u6b22\u8fd9\u4e2a\u6253\u5370\u673a",  # Chinese
        "\u0e40\u0e04\u0e23\u0e37\u0e48\u0e2d\u0e07\u0e1e\u0e34\u0e21\u0e1e\u0e4c",  # Thai
    ],
)
def test_passages_of_a_single_sentence_have_no_word_in_common(text: str) -> None:
    generator = torch.Generator().manual_seed(0)
    for first, second in zip(*two_passages([text] * 200, generator), strict=True):
        assert first
        assert second
        assert text.find(first) + len(first) <= text.rfind(second)
        between_words = " " in text
        if between_words:
            assert {*first.split(), *second.split()} <= {*text.split()}
        assert max(len(first), len(second)) < 220


def test_a_word_alone_is_both_passages() -> None:
    generator = torch.Generator().manual_seed(0)
    for word in ("unbelievable", "One."):
        assert two_passages([word], generator) == ([word], [word])


def test_rows_of_one_sentence_are_counted(encoder: Encoder) -> None:
    said: list[str] = []
    rows = [Sentence("a man and a dog"), Sentence("A man. A dog."), Sentence("a cat\n")]
    assert list(Crops(CropsOptions(), encoder).prepare(rows, None, said.append)) == rows
    (line,) = said
    assert "2 of 3 rows are one sentence" in line
    assert list(Crops(CropsOptions(), encoder).prepare(rows[1:2], None, said.append)) == rows[1:2]
    assert said == [line]


def test_rows_of_chains_are_counted(encoder: Encoder) -> None:
    said: list[str] = []
    rows = [Pair("a", "b"), Pair("B!", "c"), Pair("d", "e"), Pair("f", "f"), Pair("d", "g")]
    method = Pairs(PairsOptions(), encoder)
    assert list(method.prepare(rows, None, said.append)) == rows
    (line,) = said
    assert "2 of 5 rows form chains" in line
    assert list(method.prepare(rows[2:], None, said.append)) == rows[2:]
    assert said == [line]


@pytest.mark.parametrize(
    ("texts", "chained"),
    [("ab ba", 0), ("ab ba ab", 0), ("ab ba bc", 2), ("ab bc bc", 3), ("ab cb", 0), ("", 0)],
)
def test_a_row_and_its_mirror_form_no_chain(texts: str, chained: int) -> None:
    rows = texts.split()
    firsts = np.array([hash(row[0]) for row in rows], np.int64)
    seconds = np.array([hash(row[1]) for row in rows], np.int64)
    assert count_chained(firsts, seconds) == chained


@pytest.mark.parametrize("name", ["crops", "mirror"])
def test_a_step_tokenizes_no_more_of_a_long_text_than_it_uses(
    name: str, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = ". ".join(" ".join(WORDS[:20] * 500).capitalize() for _ in range(2))
    batch = Batch((), sentences=([long, "a man", "a dog"],), max_length=8)
    longest = 0
    ids_of = model._ids_of

    def watched(texts: Sequence[str], prepared: Prepared) -> list[list[int]]:
        nonlocal longest
        longest = max(longest, *map(len, texts))
        return ids_of(texts, prepared)

    monkeypatch.setattr(model, "_ids_of", watched)
    method: Crops | Mirror
    if name == "crops":
        method = Crops(CropsOptions(), encoder)
        drawn = method.draw(batch)
        method.tokenize(encoder, batch.sentences, 8)
    else:
        method = Mirror(MirrorOptions(), encoder)
        plain = pack(encoder.tokenize(["a man"] * 3, 8))
        longest = 0
        drawn = method.draw(replace(batch, texts=(plain,)))
    assert 0 < longest <= model.CHARACTERS_OF_TOKEN * 8
    assert drawn.texts[-1].lengths.max() == 8
