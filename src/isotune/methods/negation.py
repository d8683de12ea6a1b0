"""Negated sentences, the soft negatives of SNCSE (Wang et al., 2022): nearly the same words, another meaning.

The rules are those of the authors' released code. The first that applies is used:

1. the first "not" of the sentence is removed;
2. "not" is put after the first auxiliary before the root verb;
3. "not" is put after the root verb, if that is a form of be or a modal; another root verb becomes "do not", "does not"
   or "did not" and its lemma;
4. "Not" is put before the sentence.

The rules need a dependency parse. It is made by spaCy if an English model is installed; otherwise `guess` knows the
auxiliaries alone, so that rule 4 takes the place of rule 3. Two things differ from the authors' code: "n't" counts as
"not", and a sentence keeps its spacing (theirs puts a space around every token).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Literal, NamedTuple, get_args

from isotune.errors import InputError

DEFAULT_MODEL = "en_core_web_sm"  # the spaCy model that the authors use

Rule = Literal["removed", "auxiliary", "verb", "prefix"]
RULES: tuple[Rule, ...] = get_args(Rule)

_NOT = frozenset(["not", "n't"])
_BEFORE_NOT = {"ca": "can", "wo": "will", "sha": "shall"}  # "ca" of "can't" -> "can"
_BE = frozenset(["am", "is", "was", "are", "were"])
_MODALS = frozenset(["can", "could", "will", "would", "shall", "should", "may", "must", "might"])
_DO = {"VBP": "do not", "VBZ": "does not", "VBD": "did not"}


class Word(NamedTuple):
    """A token of a parsed sentence."""

    text: str
    space: str  # the text between this token and the next
    dep: str = ""  # spaCy's dependency label; only "aux", "auxpass" and "ROOT" matter
    tag: str = ""  # the Penn Treebank tag; only VBP, VBZ and VBD of the root matter
    lemma: str = ""  # the base form of the verb, if the token is the root


def negate(words: Sequence[Word]) -> tuple[str, Rule]:
    """The negation of a parsed sentence, and the rule that was used.

    >>> negate([Word("It", " "), Word("ca", ""), Word("n't", " "), Word("rain", "")])
    ('It can rain', 'removed')
    """
    for i, word in enumerate(words):
        if _lower(word.text) in _NOT and len(words) > 1:
            before = list(words[:i])
            if before:
                last = before[-1].text
                text = last if _lower(word.text) == "not" else _BEFORE_NOT.get(last.lower(), last)
                before[-1] = before[-1]._replace(text=text, space=word.space)
            return _join([*before, *words[i + 1 :]]), "removed"
    for i, word in enumerate(words):
        if word.dep in ("aux", "auxpass"):
            return _replaced(words, i, f"{word.text} not", "auxiliary")
        if word.dep == "ROOT":
            if word.text.lower() in _BE | _MODALS:
                return _replaced(words, i, f"{word.text} not", "verb")
            if word.tag in _DO:
                return _replaced(words, i, f"{_DO[word.tag]} {word.lemma}", "verb")
            break
    return f"Not {_join(words)}", "prefix"


def _lower(text: str) -> str:
    return text.lower().replace("\u2019", "'")


def _replaced(words: Sequence[Word], place: int, text: str, rule: Rule) -> tuple[str, Rule]:
    return _join([*words[:place], words[place]._replace(text=text), *words[place + 1 :]]), rule


def _join(words: Iterable[Word]) -> str:
    return "".join(word.text + word.space for word in words)


class Parser(NamedTuple):
    """Finds the words of sentences and their roles, in order."""

    name: str  # how the verb is looked for, for the log
    key: str  # everything besides the sentence that the words depend on
    parse: Callable[[Iterable[str]], Iterator[list[Word]]]


def find_parser(parser: str) -> Parser:
    """The parser that an option of SNCSE names (`SNCSEOptions.parser`)."""
    by_words = Parser(
        "a word list", "words 2", partial(map, guess)
    )  # the number changes with the words
    if parser == "words":
        return by_words
    if parser == "auto":
        if find_spec(DEFAULT_MODEL) is None:
            return by_words._replace(
                name=f"a word list, as spaCy's {DEFAULT_MODEL} is not installed"
            )
        parser = DEFAULT_MODEL
    try:
        import spacy

        language = spacy.load(parser, exclude=["ner"])
    except (ImportError, OSError, ValueError) as error:
        raise InputError(
            f"parser {parser}: spaCy or this model of spaCy is not installed; pip install 'isotune[negation]', then "
            f"python -m spacy download {DEFAULT_MODEL}, or take words, which needs nothing"
        ) from error
    for component in "parser", "tagger", "lemmatizer":
        if component not in language.pipe_names:
            raise InputError(
                f"parser {parser}: this spaCy model has no {component}; {DEFAULT_MODEL} has all it takes"
            )
    name = f"spaCy's {language.meta['lang']}_{language.meta['name']} {language.meta['version']}"

    def parse(sentences: Iterable[str]) -> Iterator[list[Word]]:
        for document in language.pipe(sentences):
            yield [
                Word(token.text, token.whitespace_, token.dep_, token.tag_, token.lemma_)
                for token in document
            ]

    return Parser(name, name, parse)


# Words as spaCy splits them: do|n't, ca|n't, can|not, it|'s.
_WORD = re.compile(
    r"\w+?(?=n['\u2019]t\b)|n['\u2019]t\b|can(?=not\b)|['\u2019](?:re|ve|ll|m|d|s)\b|\w+(?:-\w+)*|\S",
    re.IGNORECASE,
)
_AUXILIARIES = (
    _BE | _MODALS | {"do", "does", "did", "have", "has", "had", "'m", "'re", "'ll", "'d", "'ve"}
)
_BEFORE_IS = frozenset(
    ["he", "she", "it", "who", "which", "that", "there", "what"]
)  # after others, 's is a genitive


def guess(sentence: str) -> list[Word]:
    """The words of a sentence; the first modal or form of be, have or do is labelled as an auxiliary."""
    matches = list(_WORD.finditer(sentence))
    ends = [match.start() for match in matches[1:]] + [len(sentence)]
    words = [
        Word(match[0], sentence[match.end() : end])
        for match, end in zip(matches, ends, strict=True)
    ]
    lower = [_lower(word.text) for word in words]
    for i, text in enumerate(lower):
        known = text in _AUXILIARIES or (text == "'s" and lower[i - 1] in _BEFORE_IS)
        if known and (i == 0 or words[i].text.islower()):  # and not May or Will
            words[i] = words[i]._replace(dep="aux")
            break
    return words
