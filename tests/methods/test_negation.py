"""Negated sentences: the rules on parses made by hand, and on those that a word list guesses."""

import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotune.errors import InputError
from isotune.methods import negation
from isotune.methods.negation import Word, find_parser, guess, negate


def parse(text: str) -> list[Word]:
    """Words of "text/dep/tag/lemma text ..."; "_" is no space after a word.

    The last three parts may be left out.
    """
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


def test_a_spacy_model_labels_the_words(monkeypatch: pytest.MonkeyPatch) -> None:
    spacy = pytest.importorskip("spacy")
    language = spacy.blank("en")
    for name in "tagger", "parser", "lemmatizer":
        spacy.Language.component(f"fixed_{name}", func=label)
        language.add_pipe(f"fixed_{name}", name=name)
    monkeypatch.setattr(spacy, "load", lambda *_, **__: language)
    parser = find_parser("en_pipeline")
    assert parser.name.startswith("spaCy's en_pipeline")
    texts = ["It rains.", "Don't go", "He will see"]
    assert [text for text, _ in map(negate, parser.parse(texts))] == [
        "It does not rain.",
        "Do go",
        "He will not see",
    ]


def label(document):  # type: ignore[no-untyped-def]
    """Makes the second word an auxiliary if it is "will", and else a root verb in -s."""
    word = document[1]
    word.dep_, word.tag_, word.lemma_ = (
        "aux" if word.text == "will" else "ROOT",
        "VBZ",
        word.text[:-1],
    )
    return document


@pytest.mark.parametrize(
    ("sentence", "negated", "rule"),
    [
        ("A plane is taking off.", "A plane is not taking off.", "auxiliary"),
        ("In May he will run", "In May he will not run", "auxiliary"),
        ("It's raining on Tom's house", "It's not raining on Tom's house", "auxiliary"),
        (
            "Tom's dog barked, and they're here",
            "Tom's dog barked, and they're not here",
            "auxiliary",
        ),
        ("He doesn't know", "He does know", "removed"),
        ("They can\u2019t see", "They can see", "removed"),
        ("She cannot see", "She can see", "removed"),
        ("He won't go", "He will go", "removed"),
        ("It has also been seen", "It has not also been seen", "auxiliary"),
        ("The book  contains poems", "Not The book  contains poems", "prefix"),
    ],
)
def test_a_word_list_finds_auxiliaries(sentence: str, negated: str, rule: str) -> None:
    assert negate(guess(sentence)) == (negated, rule)


@given(st.text().map(str.strip).filter(bool))
def test_nothing_but_the_verb_is_changed(sentence: str) -> None:
    words = guess(sentence)
    assert "".join(word.text + word.space for word in words) == sentence
    negated, _ = negate(words)
    assert negated.strip()
    assert negated != sentence


def test_parsers_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_parser("words").name == "a word list"
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(InputError, match=re.escape("pip install 'isotune[negation]'")):
        find_parser("en_core_web_md")
    monkeypatch.setattr(negation, "DEFAULT_MODEL", "en_core_web_xx")
    assert find_parser("auto").name == "a word list, as spaCy's en_core_web_xx is not installed"


def test_models_that_do_not_parse(tmp_path: Path) -> None:
    spacy = pytest.importorskip("spacy")
    with pytest.raises(InputError, match=r"parser en_core_web_xx: .* not installed"):
        find_parser("en_core_web_xx")
    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(InputError, match="this spaCy model has no parser"):
        find_parser(str(tmp_path / "blank"))
