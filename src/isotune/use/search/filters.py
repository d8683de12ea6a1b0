"""Filters: conditions on the columns of an index, read word by word and written anew as SQL for LanceDB.

LanceDB takes any expression of SQL, and some functions take all memory of the process. So LanceDB never gets the text
of a filter. What it gets has what this grammar has, and nothing else:

    condition = test | "(" condition ")" | NOT condition | condition (AND | OR) condition
    test      = column | value (= | != | <> | < | <= | > | >=) value | column [NOT] IN "(" literal {"," literal} ")"
              | column [NOT] LIKE text | column IS [NOT] NULL
    value     = column | literal
    literal   = number | text | TRUE | FALSE | DATE text | TIMESTAMP text
"""

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from itertools import pairwise
from math import isinf

import pyarrow as pa

from isotune.errors import InputError

LONGEST = 1000  # characters
DEEPEST = 20  # parentheses and NOTs, one inside the other; LanceDB's parser calls itself for each
# The signs _ in all patterns of a filter: the time of LIKE may double with each. A text of 100 kB takes 4 ms with 10 of
# them, 120 ms with 15, a second with 400. With hundreds of % alone it takes 1 ms.
MOST_BLANKS = 10
WORD = re.compile(
    r"""\s*(?:
    (?P<time>(?:date|timestamp)\s*'[^']*')
    | (?P<text>'(?:[^']|'')*')
    | `(?P<quoted>[^`]+)`
    | (?P<number>-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?)(?![\w.])
    | (?P<key>(?:and|or|true|false|(?:not\s+)?(?:in|like)|not|is\s+(?:not\s+)?null)\b|<>|!=|<=|>=|[=<>(),])
    | (?P<name>(?:[^\W\d]|[^\s\0-\x7f])(?:\w|[^\s\0-\x7f])*)  # scripts have signs beside their letters
    )""",
    re.VERBOSE | re.IGNORECASE,
)
COMPARISONS = ("=", "!=", "<>", "<", "<=", ">", ">=")
# The grammar is checked on a letter for each word: c is a column, t a text, v another literal.
LETTERS = {
    **dict.fromkeys(COMPARISONS, "s"),
    **{
        "AND": "j",
        "OR": "j",
        "NOT": "n",
        "TRUE": "v",
        "FALSE": "v",
        "IS NULL": "0",
        "IS NOT NULL": "0",
    },
    **{"IN": "i", "NOT IN": "i", "LIKE": "l", "NOT LIKE": "l", "(": "(", ")": ")", ",": ","},
}
TEST = re.compile(r"[ctv]s[ctv]|ci\([tv](?:,[tv])*\)|clt|c0|c")
NESTED = re.compile(r"nx|\(x(?:jx)*\)")  # x is a condition
BIGINT = 2**63  # of LanceDB's whole numbers, the first that is too large
ALLOWED = (
    "a filter compares columns with numbers, 'text', true or false by = != < <= > >= IN (...) LIKE or IS NULL, and "
    "joins by AND OR NOT (); text stands in single quotes, an unusual name in backticks"
)


def parse(where: str, columns: pa.Schema) -> str:
    """Reads a filter on these columns, and writes what was read as SQL."""
    if len(where) > LONGEST:
        raise InputError(
            f"filter {where[:30]!r}...: {len(where):,} characters; give at most {LONGEST:,}"
        )
    place = ""
    try:
        letters, end = "", 0
        words: list[str] = []
        while place := where[end:].strip():
            if not (found := WORD.match(where, end)):
                raise ValueError("nothing in the grammar of filters begins so")
            letter, word = _read(str(found.lastgroup), found[str(found.lastgroup)], columns.names)
            letters, words, end = letters + letter, [*words, word], found.end()
        conditions = TEST.sub("x", letters)
        for _ in range(DEEPEST):
            conditions = NESTED.sub("x", conditions)
        if not re.fullmatch("x(jx)*", conditions):
            raise ValueError(
                f"no condition, or more than {DEEPEST} parentheses and NOTs, one inside the other"
            )
        if (
            sum(pattern.count("_") for key, pattern in pairwise(words) if key.endswith("LIKE"))
            > MOST_BLANKS
        ):
            raise ValueError(f"more than {MOST_BLANKS} signs _ in patterns; % is free")
        types = {f"`{field.name}`": field.type for field in columns}
        for test in TEST.finditer(letters):
            part = slice(*test.span())
            words[part] = _comparable(words[part], types)
    except ValueError as error:
        raise refusal(
            where, f"at {place[:30]!r}: {error}" if place else str(error), columns
        ) from None
    return " ".join(words)


def refusal(where: str, reason: str, columns: pa.Schema) -> InputError:
    """The error about a filter, in one line."""
    return InputError(
        f"filter {where[:200]!r}: {reason}. Its columns are {', '.join(columns.names)}; {ALLOWED}"
    )


def _read(kind: str, word: str, columns: Sequence[str]) -> tuple[str, str]:
    """The letter of a word, and its SQL."""
    if kind == "text":
        return "t", word
    if kind == "key":
        key = " ".join(word.upper().split())
        return LETTERS.get(key, "?"), key  # the sign of the kelvin, say, is a k for patterns
    if kind == "number":
        if isinf(float(word)):
            raise ValueError("a number is too large")
        return "v", word
    if kind == "time":
        name, quoted, _ = word.split("'")
        name = "date" if name.strip().lower() == "date" else "timestamp"
        try:
            return "v", f"{name} '{(date if name == 'date' else datetime).fromisoformat(quoted)}'"
        except ValueError:
            raise ValueError(
                "no date or time such as date '2024-12-31' or timestamp '2024-12-31 23:59:59'"
            ) from None
    alike = [column for column in columns if kind == "name" and column.lower() == word.lower()]
    if len(found := [word] if word in columns else alike) != 1:
        raise ValueError(
            f"no column {word!r}" + "; NULL only follows IS" * (word.upper() == "NULL")
        )
    return "c", f"`{found[0]}`"


def _number(word: str) -> str:
    value = int(word) if word.lstrip("-").isdigit() else float(word)
    return str(int(value) if value == value // 1 and abs(value) < BIGINT else float(value))


def _comparable(test: list[str], types: Mapping[str, pa.DataType]) -> list[str]:
    """A test that compares whole numbers with others as numbers, and a number with a text as a text."""
    numbers = [word for word in test if word[0] in "-.0123456789"]
    if numbers and any(types.get(word) == pa.string() for word in test):
        if test[1] in ("<", "<=", ">", ">="):
            raise ValueError(f"a text is not compared with a number; write '{numbers[0]}'")
        return [f"'{word}'" if word in numbers else word for word in test]
    values = {word: _number(word) for word in numbers}
    test = [values.get(word, word) for word in test]
    if all(value.lstrip("-").isdigit() for value in values.values()):
        return test
    whole = (
        name
        for name, type_ in types.items()
        if pa.types.is_integer(type_) or pa.types.is_decimal(type_)
    )
    casts = {name: f"CAST({name} AS DOUBLE)" for name in whole}
    return [casts.get(word, word) for word in test]
