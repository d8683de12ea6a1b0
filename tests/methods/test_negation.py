"""Negated sentences: the rules on parses made by hand, and on those that word lists guess."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotune.errors import InputError
from isotune.methods import negation
from isotune.methods.negation import Word, guess, negate, negator
from isotune.methods.verbs import base_of_past, base_of_third_person, is_past


def parse(text: str) -> list[Word]:
    """Words of "text/dep/tag/lemma text ..."; the last three may be left out, and "_" is no space after a word."""
    words = []
    for part in text.split():
        word, dep, tag, lemma = (*part.rstrip("_").split("/"), "", "", "")[:4]
        words.append(Word(word, "" if part.endswith("_") else " ", dep, tag, lemma))
    return [*words[:-1], words[-1]._replace(space="")]


@pytest.mark.parametrize(
    ("sentence", "negated", "rule"),
    [
        ("He is/aux not going/ROOT home_ .", "He is going home.", "removed"),
        ("not all , not none", "all , not none", "removed"),
        ("I/ do/aux_ n't know/ROOT", "I do know", "removed"),
        ("I ca/aux_ n\u2019t know/ROOT/VB/know", "I can know", "removed"),
        ("I can/aux_ not know/ROOT", "I can know", "removed"),
        ("I think/ROOT/VBP/think not_ .", "I think.", "removed"),
        ("A man is/aux playing/ROOT/VBG/play a flute", "A man is not playing a flute", "auxiliary"),
        ("It was/auxpass being/auxpass built/ROOT", "It was not being built", "auxiliary"),
        ("We_ 'll/aux go/ROOT", "We'll not go", "auxiliary"),
        ("To/aux win/advcl he ran/ROOT/VBD/run", "To not win he ran", "auxiliary"),
        ("Snow IS/ROOT/VBZ/be white", "Snow IS not white", "verb"),
        ("I like/ROOT/VBP/like tea", "I do not like tea", "verb"),
        ("She wrote/ROOT/VBD/write that I am/aux late", "She did not write that I am late", "verb"),
        ("It rains/ROOT/VBZ/rain_ .", "It does not rain.", "verb"),
        ("Go/ROOT/VB/go where you can/aux sleep", "Not Go where you can sleep", "prefix"),
        ("The red dog/ROOT/NN/dog", "Not The red dog", "prefix"),
        ("Not", "Not Not", "prefix"),
    ],
)
def test_the_released_rules(sentence: str, negated: str, rule: str) -> None:
    assert negate(parse(sentence)) == (negated, rule)


def test_spacy_gives_the_words_their_labels() -> None:
    spacy = pytest.importorskip("spacy")
    from isotune.methods.negation import parsed

    document = spacy.tokens.Doc(
        spacy.blank("en").vocab,
        words=["A", "man", "wo", "n't", "sing", ",", "it", "seems", "."],
        spaces=[True, True, False, True, False, True, True, False, False],
        deps=["det", "nsubj", "aux", "neg", "ccomp", "punct", "nsubj", "ROOT", "punct"],
        heads=[1, 4, 4, 4, 7, 7, 7, 7, 7],
        tags=["DT", "NN", "MD", "RB", "VB", ",", "PRP", "VBZ", "."],
        lemmas=["a", "man", "will", "not", "sing", ",", "it", "seem", "."],
    )
    words = parsed(document)
    assert "".join(word.text + word.space for word in words) == document.text
    assert negate(words) == ("A man will sing, it seems.", "removed")
    assert negate(words[6:]) == ("it does not seem.", "verb")


def test_a_spacy_model_is_run_on_many_sentences() -> None:
    spacy = pytest.importorskip("spacy")
    from isotune.methods.negation import spacy_negator

    language = spacy.blank("en")
    for name in "tagger", "parser", "lemmatizer":
        spacy.Language.component(f"fixed_{name}", func=label)
        language.add_pipe(f"fixed_{name}", name=name)
    negate_all = spacy_negator(language)
    assert negate_all.name.startswith("spaCy's en_pipeline")
    assert [text for text, _ in negate_all(["It rains.", "Don't go"])] == ["It does not rain.", "Do go"]


def label(document):  # type: ignore[no-untyped-def]
    """Makes the second word a root verb in -s."""
    document[1].dep_, document[1].tag_, document[1].lemma_ = "ROOT", "VBZ", document[1].text[:-1]
    return document


@pytest.mark.parametrize(
    ("sentence", "negated", "rule"),
    [
        ("A plane is taking off.", "A plane is not taking off.", "auxiliary"),
        ("In May he will run", "In May he will not run", "auxiliary"),
        ("It's raining on Tom's house", "It's not raining on Tom's house", "auxiliary"),
        ("Tom's dog barked, and they're here", "Tom's dog barked, and they're not here", "auxiliary"),
        ("He doesn't know", "He does know", "removed"),
        ("They can\u2019t see", "They can see", "removed"),
        ("She cannot see", "She can see", "removed"),
        ("He won't go", "He will go", "removed"),
        ("It has also been seen", "It has not also been seen", "auxiliary"),
        ("She had two dogs", "She did not have two dogs", "verb"),
        ("They have a house", "They do not have a house", "verb"),
        ("The newly formed band moved to Rome in 1990.", "The newly formed band did not move to Rome in 1990.", "verb"),
        ("He wrote  it -- (twice)", "He did not write  it -- (twice)", "verb"),
        ("The book contains poems", "The book does not contain poems", "verb"),
        ("He plays plays", "He does not play plays", "verb"),
        ("They play football", "They do not play football", "verb"),
        ("Football plays of Old Mohammed", "Not Football plays of Old Mohammed", "prefix"),
    ],
)
def test_word_lists_find_the_verb(sentence: str, negated: str, rule: str) -> None:
    assert negate(guess(sentence)) == (negated, rule)


@given(st.text().map(str.strip).filter(bool))
def test_nothing_but_the_verb_is_changed(sentence: str) -> None:
    words = guess(sentence)
    assert "".join(word.text + word.space for word in words) == sentence
    negated = negate(words)
    assert negated.text.strip()
    assert negated.text != sentence


VERBS = """
    moved:move created:create treated:treat visited:visit invited:invite completed:complete targeted:target voted:vote
    piloted:pilot contributed:contribute debuted:debut provided:provide avoided:avoid traded:trade headed:head
    exploded:explode included:include clouded:cloud preceded:precede needed:need settled:settle compiled:compile
    sailed:sail ruled:rule styled:style liked:like looked:look attacked:attack named:name claimed:claim defined:define
    joined:join opened:open happened:happen convened:convene shaped:shape developed:develop typed:type hoped:hope
    required:require repaired:repair featured:feature toured:tour shared:share appeared:appear explored:explore
    authored:author entered:enter described:describe announced:announce continued:continue issued:issue focused:focus
    released:release accused:accuse passed:pass changed:change belonged:belong managed:manage merged:merge
    stopped:stop planned:plan called:call controlled:control expelled:expel added:add married:marry died:die
    agreed:agree played:play developed:develop wrote:write became:become won:win
"""


def test_base_forms() -> None:
    for verb in VERBS.split():
        past, base = verb.split(":")
        assert is_past(past)
        assert base_of_past(past) == base
    assert not any(is_past(word) for word in ("need", "hundred", "united", "red", "run", "3ed"))
    assert [base_of_third_person(word, True) for word in ("goes", "flies", "lies", "watches", "has", "uses")] == [
        *("go", "fly", "lie", "watch", "have", "use")
    ]
    assert [base_of_third_person(word, True) for word in ("this", "bus", "glass", "is", "run")] == [""] * 5


def test_parsers_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert negator("words").name == "word lists"
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(InputError, match=re.escape("pip install 'isotune[negation]'")):
        negator("en_core_web_md")
    monkeypatch.setattr(negation, "DEFAULT_MODEL", "en_core_web_xx")
    assert negator("auto").name == "word lists, as spaCy's en_core_web_xx is not installed"


def test_models_that_do_not_parse(tmp_path: Path) -> None:
    spacy = pytest.importorskip("spacy")
    with pytest.raises(InputError, match=re.escape("parser en_core_web_xx: spaCy has no such model")):
        negator("en_core_web_xx")
    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(InputError, match="this spaCy model has no parser"):
        negator(str(tmp_path / "blank"))
