"""English verbs without a parser: which words look like finite verbs, and what their base forms are.

It uses spelling rules and the word lists of `words.toml`. It misses rare verbs and takes some
participles for finite verbs. This is good enough for soft negatives, and for nothing else.
"""

from __future__ import annotations

import re
import tomllib
from importlib import resources

WORDS = tomllib.loads((resources.files(__package__) / "words.toml").read_text("utf-8"))
_IRREGULAR: dict[str, str] = WORDS["irregular"]
_NO_PAST = frozenset(WORDS["no_past"])
_THIRD_PERSONS = frozenset(WORDS["third_persons"])
# The stem of a past tense whose base form ends in -e, as "mov" of "moved".
_LACKS_E = re.compile(
    r"""(?:
        [cuvz] | (?<!on)(?<!g)g | (?<!s)(?<!focu)s                    # produc-, continu-, chang-, releas-
      | (?<![eo])at | creat | [cnv]it | [lp]et | (?<![lo])ot | (?<![bo])ut | ibut
      | (?<![ao])id | (?<![eo])ad | (?<!o)[ou]d | (?<!e)ed
      | [bcdfgkptz]l | (?<![aeo])il | (?<![ao])ul | yl              # settl-, compil-, rul-, styl-
      | (?<![aeiou])[aiou]k | (?<![aeiou])[aiu]m | (?<![aeiou])in | (?<![aeo])un | ven | pon
      | (?<![aeou])[ai]p | yp | hop | rib
      | (?<![aeo])ir | (?<!o)ur | (?<![eo])ar | (?:pl|sc|st|gn|d)or
    )$""",
    re.VERBOSE,
)
_DOUBLED = re.compile(r"([bdgmnprt])\1$|.(?:[bcpv]e|tro)ll$")


def is_past(word: str) -> bool:
    """Whether a lowercase word looks like a past tense.

    >>> [word for word in ("moved", "need", "wrote", "agreed", "runs") if is_past(word)]
    ['moved', 'wrote', 'agreed']
    """
    return word in _IRREGULAR or (len(word) > 3 and word.endswith("ed") and word.isalpha() and word not in _NO_PAST)


def base_of_past(word: str) -> str:
    """The base form of a past tense.

    >>> [base_of_past(word) for word in ("moved", "visited", "stopped", "married", "wrote")]
    ['move', 'visit', 'stop', 'marry', 'write']
    """
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word.endswith("eed") or word in ("died", "lied", "tied"):
        return word[:-1]
    if word.endswith("ied"):
        return f"{word[:-3]}y"
    stem = word[:-2]
    if stem != "add" and _DOUBLED.search(stem):
        return stem[:-1]
    return f"{stem}e" if _LACKS_E.search(stem) else stem


def base_of_third_person(word: str, after_pronoun: bool) -> str:
    """The base form of a third person singular; empty if the word does not look like a third person.

    >>> [base_of_third_person("plays", after_pronoun) for after_pronoun in (True, False)]
    ['play', '']
    """
    ends_like_verb = word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3
    if word not in _THIRD_PERSONS and not (after_pronoun and ends_like_verb):
        return ""
    if word in ("has", "lies", "dies", "ties"):
        return {"has": "have"}.get(word, word[:-1])
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    return word[:-2] if word.endswith(("ches", "oes", "shes", "sses", "xes", "zzes")) else word[:-1]
