"""Pairs and triplets made from labelled and scored pairs."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotune.data import LabelledPair, Pair, Row, ScoredPair, Sentence, Triplet, read
from isotune.data.derived import RowQuery, make_rows
from isotune.errors import InputError

NLI = [
    LabelledPair("p", "e1", "entailment"),
    LabelledPair("p", "c1", "contradiction"),
    LabelledPair("q", "n", "neutral"),
    LabelledPair("q", "c", "Contradiction"),
    LabelledPair("p", "c2", "contradiction"),
    LabelledPair("q", "e", "ENTAILMENT"),
    LabelledPair("r", "c", "contradiction"),
    LabelledPair("p", "e2", "entailment"),
    LabelledPair("p", "e3", "entailment"),
]


def made(records: Sequence[Mapping[str, object]], row: type[Row], **options: object) -> list[Row]:
    return list(make_rows("nli.tsv", enumerate(records, 2), RowQuery(row, **options)))  # type: ignore[arg-type]


def test_pairs_of_inference_are_the_entailed_ones_and_triplets_join_hypotheses_in_order() -> None:
    expected = [Pair("p", "e1"), Pair("q", "e"), Pair("p", "e2"), Pair("p", "e3")]
    assert list(read([NLI], Pair)) == expected
    assert (
        list(read([[LabelledPair("a", "b", "-"), *NLI]], Pair)) == expected
    )  # SNLI's label for no consensus
    assert list(read([NLI], Triplet)) == [
        Triplet("p", "e1", "c1"),
        Triplet("q", "e", "c"),
        Triplet("p", "e2", "c2"),
    ]


hypotheses = st.tuples(
    st.sampled_from("pq"),
    st.integers(0, 99).map(str),
    st.sampled_from(["entailment", "neutral", "contradiction"]),
)


@given(st.lists(hypotheses))
def test_triplets_equal_those_of_a_slow_reference(rows: list[tuple[str, str, str]]) -> None:
    by_premise: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for premise, hypothesis, label in rows:
        by_premise[premise][label].append(hypothesis)
    expected = Counter(
        Triplet(premise, entailed, contradicted)
        for premise, of_label in by_premise.items()
        for entailed, contradicted in zip(
            of_label["entailment"], of_label["contradiction"], strict=False
        )
    )
    whole = [LabelledPair(*row) for row in rows]
    if expected:
        assert Counter(read([whole], Triplet)) == expected
    else:
        with pytest.raises(InputError):
            list(read([whole], Triplet))


def test_a_triplet_does_not_wait_for_the_end() -> None:
    items: list[str | LabelledPair] = [*NLI[:2], "no row"]
    rows = read([iter(items)], Triplet)
    assert next(rows) == Triplet("p", "e1", "c1")


@pytest.mark.parametrize("labels", [("0", "1"), (1, 0), ("x", "y"), (0.25, 1.0)])
def test_pairs_with_other_labels_need_a_choice(labels: tuple[object, ...]) -> None:
    records = [{"sentence1": "a", "sentence2": str(label), "label": label} for label in labels]
    with pytest.raises(
        InputError, match=f"the first has the label '{labels[0]}', .* give min_score"
    ):
        made(records, Pair)


def test_a_positive_label_or_a_least_label_chooses_pairs() -> None:
    records = [{"sentence1": "a", "sentence2": str(label), "label": label} for label in (0, 1)]
    assert made(records, Pair, positive="1") == made(records, Pair, min_score=1) == [Pair("a", "1")]


def test_a_label_column_can_be_named() -> None:
    records = [{"a": "x", "b": "y", "verdict": verdict} for verdict in ("no", "entailment")]
    columns = {"sentence1": "a", "sentence2": "b", "label": "verdict"}
    assert made(records, Pair, columns=columns) == [Pair("x", "y")]
    records += [{"a": "x", "b": "z", "verdict": "contradiction"}]
    assert made(records, Triplet, columns=columns) == [Triplet("x", "y", "z")]


def test_pairs_of_scored_ones_have_at_least_the_score() -> None:
    scored = [ScoredPair(str(score), "b", score) for score in (3.9, 4.0, 5.0, -1.0)]
    assert list(read([scored], Pair, min_score=4)) == [Pair("4.0", "b"), Pair("5.0", "b")]
    assert list(read([scored], Pair, min_score=-1)) == list(read([scored], Pair))
    both = [
        {"sentence1": "a", "sentence2": score, "score": score, "label": "neutral"}
        for score in ("1", "2")
    ]
    assert made(both, Pair, min_score=2) == [Pair("a", "2")]  # the score decides


def test_min_words_counts_the_words_of_each_text() -> None:
    sentences = ["one", " one  two ", "one two\tthree", "one\u00a0two three four"]
    assert [row.sentence for row in read([sentences], Sentence, min_words=3)] == sentences[2:]
    assert len(list(read([sentences], Sentence, min_words=1))) == 4
    pairs = [Pair("a b", "c"), Pair("c", "a b"), Pair("a b", "c d")]
    assert list(read([pairs], Pair, min_words=2)) == [Pair("a b", "c d")]
    assert list(read([[LabelledPair("a b", "c d", "x")]], LabelledPair, min_words=2)) == [
        LabelledPair("a b", "c d", "x")
    ]
    assert list(read([[ScoredPair("a b", "c d", 1)]], Pair, min_words=2, min_score=1)) == [
        Pair("a b", "c d")
    ]


@pytest.mark.parametrize(
    ("items", "row", "options", "message"),
    [
        (NLI[2:5], Pair, {}, "<rows>: no Pair in it with the label entailment"),
        (
            NLI[2:5],
            Triplet,
            {},
            "<rows>: no Triplet in it with an entailed and a contradicted hypothesis",
        ),
        (
            [ScoredPair("a", "b", 3.0)],
            Pair,
            {"min_score": 3.5, "min_words": 2},
            "of at least 3.5 and at least 2 words",
        ),
        ([], Sentence, {"min_words": 3}, "<rows>: nothing in it but blank lines or a header"),
        (
            [Pair("a", "b")],
            Pair,
            {"min_score": 3},
            "can't tell which columns hold sentence1, sentence2, score",
        ),
        (["a"], Pair, {"min_score": 3}, "it has sentences only, and ScoredPair needs"),
        (NLI, Pair, {"min_score": 3}, "<rows>:1: label must be a finite number, not 'entailment'"),
        (["a"], Sentence, {"min_score": 3}, "min_score chooses pairs among scored ones"),
    ],
)
def test_rows_that_can_not_be_made_are_refused(
    items: list[object], row: type[Row], options: Mapping[str, float], message: str
) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        list(read([items], row, **options))  # type: ignore[list-item, arg-type]


def test_the_label_of_a_first_pair_that_is_whole_or_blank() -> None:
    whole = [{"sentence1": "a", "sentence2": "b", "label": 1.0}]
    assert made(whole, Pair, positive="1") == [Pair("a", "b")]
    with pytest.raises(InputError, match="the first has the label '1'"):
        made(whole, Pair)
    with pytest.raises(InputError, match=r"nli\.tsv:2: label is blank"):
        made([{"sentence1": "a", "sentence2": "b", "label": None}], Pair)


def test_similar_pairs_of_stsb_are_as_many_as_the_paper_has(real_data: Path) -> None:
    """CLSR, section 4.1: 1,406 pairs. So they are of the training split, and those with a score of 4 are in."""
    assert len(list(read("stsb:train", Pair, min_score=4))) == 1406
    assert sum(row.score > 4 for row in read("stsb:train", ScoredPair)) == 1052
