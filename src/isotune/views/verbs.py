"""English verbs without a parser: which words look like finite verbs, and what their base forms are.

It uses spelling rules and the most frequent irregular verbs of encyclopaedic text. It misses rare verbs and takes some
participles for finite verbs. This is good enough for soft negatives, and for nothing else.
"""

from __future__ import annotations

import re

_IRREGULAR = dict(
    pair.split(":")
    for pair in """
    arose:arise ate:eat became:become began:begin bought:buy bound:bind brought:bring broke:break built:build
    came:come caught:catch chose:choose dealt:deal drew:draw drove:drive fell:fall felt:feel fled:flee flew:fly
    forbade:forbid fought:fight found:find froze:freeze gave:give got:get grew:grow held:hold heard:hear
    kept:keep knew:know laid:lay lay:lie led:lead left:leave lent:lend lost:lose made:make meant:mean met:meet
    oversaw:oversee overtook:overtake paid:pay ran:run rang:ring rode:ride rose:rise said:say sang:sing sank:sink
    sat:sit saw:see sent:send shook:shake shot:shoot slept:sleep sold:sell sought:seek spent:spend spoke:speak
    spun:spin stole:steal stood:stand stuck:stick swam:swim swept:sweep swore:swear swung:swing taught:teach
    thought:think threw:throw told:tell took:take tore:tear undertook:undertake understood:understand went:go
    withdrew:withdraw withstood:withstand woke:wake won:win wore:wear wove:weave wrote:write
""".split()  # noqa: SIM905 (a list would be no easier to read)
)
# Words in -ed that are no past tense.
_NO_PAST = frozenset(
    """
    bed bleed breed deed embed exceed feed greed hatred heed hundred indeed kindred naked need proceed red reed sacred
    seed shed speed steed succeed tweed united wed weed wicked
""".split()  # noqa: SIM905 (a list would be no easier to read)
)
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

# Third persons singular that are hardly ever nouns.
_THIRD_PERSONS = frozenset(
    """
    allows appears attends becomes begins belongs brings comes comprises consists contains continues depicts derives
    describes encompasses ends exists explains follows gets gives goes happens has includes involves keeps lies makes
    occurs operates originates performs possesses produces provides reaches receives refers remains represents
    requires resides says seems serves sits specializes stands stars takes tells tends wants
""".split()  # noqa: SIM905 (a list would be no easier to read)
)


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
