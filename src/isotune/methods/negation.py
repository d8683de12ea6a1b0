"""Negated sentences: nearly the same words, another meaning.

They are the soft negatives of SNCSE (Wang et al., 2022). The rules are those of the authors'
released code. The first that applies is used:

1. the first "not" of the sentence is removed;
2. "not" is put after the first auxiliary before the root verb;
3. "not" is put after the root verb, if that is a form of be or a modal; another root verb becomes
   "do not", "does not" or "did not" and its lemma;
4. "Not" is put before the sentence.

The rules need a dependency parse. It is made by spaCy if an English model is installed; otherwise
`guess` knows the auxiliaries alone, so that rule 4 takes the place of rule 3. Two things differ
from the authors' code: "n't" counts as "not", and a sentence keeps its spacing (theirs puts a space
around every token).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Literal, NamedTuple, get_args

from isotune.errors import InputError

DEFAULT_MODEL = "en_core_web_sm"
"""The spaCy model that the authors use."""

Rule = Literal["removed", "auxiliary", "verb", "prefix"]
RULES: tuple[Rule, ...] = get_args(Rule)

_NOT = frozenset(["not", "n't"])
# The "ca" of "can't" becomes "can".
_BEFORE_NOT = {"ca": "can", "wo": "will", "sha": "shall"}
_BE = frozenset(["am", "is", "was", "are", "were"])
_MODALS = frozenset(["can", "could", "will", "would", "shall", "should", "may", "must", "might"])
_DO = {"VBP": "do not", "VBZ": "does not", "VBD": "did not"}


class Word(NamedTuple):
    """A token of a parsed sentence."""

    text: str

    space: str
    """The text between this token and the next."""

    dep: str = ""
    """spaCy's dependency label; only "aux", "auxpass" and "ROOT" matter."""

    tag: str = ""
    """The Penn Treebank tag; only VBP, VBZ and VBD of the root matter."""

    lemma: str = ""
    """The base form of the verb, if the token is the root."""


def negate(words: Sequence[Word]) -> tuple[str, Rule]:
    """The negation of a parsed sentence, and the rule that was used.

    >>> negate([Word("It", " "), Word("ca", ""), Word("n't", " "), Word("rain", "")])
    ('It can rain', 'removed')
    """
    for place, word in enumerate(words):
        if _lower(word.text) in _NOT and len(words) > 1:
            return _without_not(words, place), "removed"
    for place, word in enumerate(words):
        if word.dep in ("aux", "auxpass"):
            return _replaced(words, place, f"{word.text} not"), "auxiliary"
        if word.dep == "ROOT":
            verb = _negated_verb(word)
            if verb is not None:
                return _replaced(words, place, verb), "verb"
            break
    return f"Not {_join(words)}", "prefix"


def _without_not(words: Sequence[Word], place: int) -> str:
    """The sentence without the word at a place, which is "not" or "n't"."""
    before = list(words[:place])
    if before:
        last = before[-1]
        text = last.text
        if _lower(words[place].text) != "not":
            text = _BEFORE_NOT.get(text.lower(), text)
        before[-1] = last._replace(text=text, space=words[place].space)
    return _join([*before, *words[place + 1 :]])


def _negated_verb(root: Word) -> str | None:
    """The root verb with "not"; None for a root that is no such verb."""
    if root.text.lower() in _BE | _MODALS:
        return f"{root.text} not"
    if root.tag in _DO:
        return f"{_DO[root.tag]} {root.lemma}"
    return None


def _lower(text: str) -> str:
    return text.lower().replace("\u2019", "'")


def _replaced(words: Sequence[Word], place: int, text: str) -> str:
    """The sentence with another text of the word at a place."""
    return _join([*words[:place], words[place]._replace(text=text), *words[place + 1 :]])


def _join(words: Iterable[Word]) -> str:
    return "".join(word.text + word.space for word in words)


class Parser(NamedTuple):
    """Finds the words of sentences and their roles, in order."""

    name: str
    """How the verb is looked for, for the log."""

    key: str
    """Everything besides the sentence that the words depend on."""

    parse: Callable[[Iterable[str]], Iterator[list[Word]]]


def find_parser(parser: str) -> Parser:
    """The parser that an option of SNCSE names (`SNCSEOptions.parser`)."""
    # The number of the key changes with the lists of words.
    by_words = Parser("a word list", "words 2", partial(map, guess))
    if parser == "words":
        return by_words
    if parser == "auto":
        if find_spec(DEFAULT_MODEL) is None:
            name = f"a word list, as spaCy's {DEFAULT_MODEL} is not installed"
            return by_words._replace(name=name)
        parser = DEFAULT_MODEL
    return _spacy_parser(parser)


def _spacy_parser(model: str) -> Parser:
    """The parser by a model of spaCy."""
    try:
        import spacy

        language = spacy.load(model, exclude=["ner"])
    except (ImportError, OSError, ValueError) as error:
        raise InputError(
            f"parser {model}: spaCy or this model of spaCy is not installed; pip install "
            f"'isotune[negation]', then python -m spacy download {DEFAULT_MODEL}, or take words, "
            "which needs nothing"
        ) from error
    for component in ("parser", "tagger", "lemmatizer"):
        if component not in language.pipe_names:
            raise InputError(
                f"parser {model}: this spaCy model has no {component}; {DEFAULT_MODEL} has all it "
                "takes"
            )
    meta = language.meta
    name = f"spaCy's {meta['lang']}_{meta['name']} {meta['version']}"

    def parse(sentences: Iterable[str]) -> Iterator[list[Word]]:
        for document in language.pipe(sentences):
            words = []
            for token in document:
                word = Word(token.text, token.whitespace_, token.dep_, token.tag_, token.lemma_)
                words.append(word)
            yield words

    return Parser(name, name, parse)


# Words as spaCy splits them: do|n't, ca|n't, can|not, it|'s.
_WORD = re.compile(
    r"\w+?(?=n['\u2019]t\b)|n['\u2019]t\b|can(?=not\b)|['\u2019](?:re|ve|ll|m|d|s)\b|\w+(?:-\w+)*|\S",
    re.IGNORECASE,
)
_AUXILIARIES = (
    _BE | _MODALS | {"do", "does", "did", "have", "has", "had", "'m", "'re", "'ll", "'d", "'ve"}
)
# After other words, 's is a genitive.
_BEFORE_IS = frozenset(["he", "she", "it", "who", "which", "that", "there", "what"])


def guess(sentence: str) -> list[Word]:
    """The words of a sentence.

    The first modal or form of be, have or do is labelled as an auxiliary.
    """
    matches = list(_WORD.finditer(sentence))
    ends = [match.start() for match in matches[1:]] + [len(sentence)]
    words = []
    for match, end in zip(matches, ends, strict=True):
        words.append(Word(match[0], sentence[match.end() : end]))
    for place, word in enumerate(words):
        before = words[place - 1]
        # A capital inside a sentence is that of a name: May, Will.
        is_name = place > 0 and not word.text.islower()
        if _is_auxiliary(word, before) and not is_name:
            words[place] = word._replace(dep="aux")
            break
    return words


def _is_auxiliary(word: Word, before: Word) -> bool:
    text = _lower(word.text)
    return text in _AUXILIARIES or (text == "'s" and _lower(before.text) in _BEFORE_IS)
