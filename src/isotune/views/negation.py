"""Negated sentences, the soft negatives of SNCSE (Wang et al., 2022): nearly the same words, another meaning.

The rules are those of the authors' released code. The first that applies is used:

1. the first "not" of the sentence is removed;
2. "not" is put after the first auxiliary before the root verb;
3. "not" is put after the root verb, if that is a form of be or a modal; another root verb becomes "do not", "does not"
   or "did not" and its lemma;
4. "Not" is put before the sentence.

The rules need a dependency parse. It is made by spaCy if an English model is installed; otherwise `guess` finds the
verb by word lists and misses some verbs. Two things differ from the authors' code: "n't" counts as "not", and a
sentence keeps its spacing (theirs puts a space around every token).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, get_args

from isotune.errors import InputError
from isotune.views.verbs import base_of_past, base_of_third_person, is_past

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

DEFAULT_MODEL = "en_core_web_sm"  # the spaCy model that the authors use

Rule = Literal["removed", "auxiliary", "verb", "prefix"]
RULES: tuple[Rule, ...] = get_args(Rule)

_NOT = frozenset(["not", "n't"])
_BEFORE_NOT = {"ca": "can", "wo": "will", "sha": "shall"}  # "ca" of "can't" -> "can"
_BE = frozenset(["am", "is", "was", "are", "were"])
_MODALS = frozenset(["can", "could", "will", "would", "shall", "should", "may", "must", "might"])
_DO = {"VBP": "do not", "VBZ": "does not", "VBD": "did not"}


class Word(NamedTuple):
    """A token of a parsed sentence.

    Attributes:
        text: the token as it is written.
        space: the text between this token and the next.
        dep: spaCy's dependency label; only "aux", "auxpass" and "ROOT" matter.
        tag: the Penn Treebank tag; only VBP, VBZ and VBD of the root matter.
        lemma: the base form of the verb, if the token is the root.
    """

    text: str
    space: str
    dep: str = ""
    tag: str = ""
    lemma: str = ""


class Negated(NamedTuple):
    """A negated sentence, and the rule that was used."""

    text: str
    rule: Rule


def negate(words: Sequence[Word]) -> Negated:
    """The negation of a parsed sentence.

    >>> negate([Word("It", " "), Word("ca", ""), Word("n't", " "), Word("rain", "")])
    Negated(text='It can rain', rule='removed')
    """
    for i, word in enumerate(words):
        if _lower(word.text) in _NOT and len(words) > 1:
            before = list(words[:i])
            if before:
                last = before[-1].text
                text = last if _lower(word.text) == "not" else _BEFORE_NOT.get(last.lower(), last)
                before[-1] = before[-1]._replace(text=text, space=word.space)
            return Negated(_join([*before, *words[i + 1 :]]), "removed")
    for i, word in enumerate(words):
        if word.dep in ("aux", "auxpass"):
            return _replaced(words, i, f"{word.text} not", "auxiliary")
        if word.dep == "ROOT":
            if word.text.lower() in _BE | _MODALS:
                return _replaced(words, i, f"{word.text} not", "verb")
            if word.tag in _DO:
                return _replaced(words, i, f"{_DO[word.tag]} {word.lemma}", "verb")
            break
    return Negated(f"Not {_join(words)}", "prefix")


def _lower(text: str) -> str:
    return text.lower().replace("\u2019", "'")


def _replaced(words: Sequence[Word], place: int, text: str, rule: Rule) -> Negated:
    return Negated(_join([*words[:place], words[place]._replace(text=text), *words[place + 1 :]]), rule)


def _join(words: Iterable[Word]) -> str:
    return "".join(word.text + word.space for word in words)


class Negator(Protocol):
    """Negates sentences.

    Attributes:
        name: how it finds the verb, for the log.
        settings: everything besides the sentence that the negation depends on.
    """

    name: str
    settings: Mapping[str, object]

    def __call__(self, sentences: Iterable[str]) -> Iterator[Negated]:
        """The negation of each sentence, in order."""


def negator(parser: str) -> Negator:
    """Makes a negator.

    Args:
        parser: "auto" (spaCy if the model that the authors use is installed, otherwise word lists), "words" (word
            lists), or a spaCy model by name or folder.

    Raises:
        InputError: spaCy or the model is not installed, or the model doesn't parse.
    """
    if parser == "words":
        return Guessing()
    if parser == "auto":
        if find_spec(DEFAULT_MODEL) is None:
            return Guessing(f"spaCy's {DEFAULT_MODEL} is not installed")
        parser = DEFAULT_MODEL
    try:
        import spacy
    except ImportError as error:
        raise InputError(
            f"parser {parser}: spaCy is not installed; pip install 'isotune[negation]', then python -m spacy download "
            f"{parser}, or take words"
        ) from error
    try:
        language = spacy.load(parser, exclude=["ner"])
    except (OSError, ValueError) as error:
        raise InputError(
            f"parser {parser}: spaCy has no such model; python -m spacy download {DEFAULT_MODEL} gets the authors', "
            "and words needs none"
        ) from error
    for component in "parser", "tagger", "lemmatizer":
        if component not in language.pipe_names:
            raise InputError(f"parser {parser}: this spaCy model has no {component}; {DEFAULT_MODEL} has all it takes")
    return Parsing(language)


class Parsing:
    """Negates sentences that spaCy has parsed."""

    def __init__(self, language: Language) -> None:
        meta = language.meta
        self.name = f"spaCy's {meta['lang']}_{meta['name']} {meta['version']}"
        self.settings: Mapping[str, object] = {"parser": self.name}
        self._language = language

    def __call__(self, sentences: Iterable[str]) -> Iterator[Negated]:
        """The negation of each sentence, in order."""
        return (negate(parsed(document)) for document in self._language.pipe(sentences))


def parsed(document: Doc) -> list[Word]:
    """The words of a parsed spaCy document."""
    return [Word(token.text, token.whitespace_, token.dep_, token.tag_, token.lemma_) for token in document]


class Guessing:
    """Negates sentences by word lists, without a parser."""

    settings: Mapping[str, object] = {"parser": "words 1"}  # the number changes with the lists

    def __init__(self, reason: str = "") -> None:
        """`reason` says why no parser is used, if one was looked for."""
        self.name = f"word lists, as {reason}" if reason else "word lists"

    def __call__(self, sentences: Iterable[str]) -> Iterator[Negated]:
        """The negation of each sentence, in order."""
        return (negate(guess(sentence)) for sentence in sentences)


# Words as spaCy splits them: do|n't, ca|n't, can|not, it|'s.
_WORD = re.compile(
    r"\w+?(?=n['\u2019]t\b)|n['\u2019]t\b|can(?=not\b)|['\u2019](?:re|ve|ll|m|d|s)\b|\w+(?:-\w+)*|\S", re.IGNORECASE
)
_AUXILIARIES = _BE | _MODALS | {"do", "does", "did", "'m", "'re", "'ll", "'d"}
_HAVE = {"have": "VBP", "has": "VBZ", "had": "VBD", "'ve": "VBP"}
_HE = frozenset(["he", "she", "it", "who", "which"])
_THEY = frozenset(["i", "you", "we", "they"])
_BEFORE_IS = _HE | {"that", "there", "what"}  # after other words, 's is a genitive
_ADVERBS = frozenset(
    """
    also already always even ever just long never now often once only since sometimes still then yet
""".split()  # noqa: SIM905 (a list would be no easier to read)
)
# Words that stand before a participle or a noun, not before a finite verb.
_NO_VERB_AFTER = frozenset(
    """
    a an the this these those his her its their my our your of in on at by for from with as to into and or newly most
    more very well no some many several two three other such than , ( -
""".split()  # noqa: SIM905 (a list would be no easier to read)
)


def guess(sentence: str) -> list[Word]:
    """The words of a sentence, with labels for the verb that is to be negated, as far as word lists tell.

    This is the first form of be, modal or form of do; otherwise the first form of have; otherwise the first word that
    looks like a finite verb.
    """
    matches = list(_WORD.finditer(sentence))
    ends = [match.start() for match in matches[1:]] + [len(sentence)]
    words = [Word(match[0], sentence[match.end() : end]) for match, end in zip(matches, ends, strict=True)]
    lower = [_lower(word.text) for word in words]
    for i, text in enumerate(lower):
        if i and not words[i].text.islower():  # May, Will
            continue
        if text in _AUXILIARIES or (text == "'s" and lower[i - 1] in _BEFORE_IS):
            words[i] = words[i]._replace(dep="aux")
            return words
    for i, text in enumerate(lower):
        if text in _HAVE:
            after = next((word for word in lower[i + 1 :] if word not in _ADVERBS and not word.endswith("ly")), "")
            participle = is_past(after) or after.endswith("en")
            words[i] = words[i]._replace(dep="aux" if participle else "ROOT", tag=_HAVE[text], lemma="have")
            return words
    for i, text in enumerate(lower[1:], 1):
        before = lower[i - 1]
        if before in _NO_VERB_AFTER or not words[i].text.islower():
            continue
        if is_past(text):
            words[i] = words[i]._replace(dep="ROOT", tag="VBD", lemma=base_of_past(text))
            return words
        base = base_of_third_person(text, after_pronoun=before in _HE)
        if base:
            words[i] = words[i]._replace(dep="ROOT", tag="VBZ", lemma=base)
            return words
        if before in _THEY:
            words[i] = words[i]._replace(dep="ROOT", tag="VBP", lemma=text)
            return words
    return words
