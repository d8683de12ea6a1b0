"""Filters: conditions on the columns of an index, read word by word and written anew as SQL.

LanceDB takes any expression of SQL, and some functions take all memory of the process. So LanceDB
never gets the text of a filter. What it gets has what this grammar has, and nothing else:

    condition = test | "(" condition ")" | NOT condition | condition (AND | OR) condition
    test      = column | value (= | != | <> | < | <= | > | >=) value | column [NOT] LIKE text
              | column [NOT] IN "(" literal {"," literal} ")" | column IS [NOT] NULL
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

# The most characters of a filter.
LONGEST = 1000
# So many parentheses and NOTs may stand one inside the other; LanceDB's parser calls itself for
# each.
DEEPEST = 20
# The most signs _ in all patterns of a filter, because the time of LIKE may double with
# each. A text of 100 kB takes 4 ms with 10 of them, 120 ms with 15, a second with 400. With
# hundreds of % alone it takes 1 ms.
MOST_BLANKS = 10
WORD = re.compile(
    r"""\s*(?:
    (?P<time>(?:date|timestamp)\s*'[^']*')
    | (?P<text>'(?:[^']|'')*')
    | `(?P<quoted>[^`]+)`
    | (?P<number>-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?)(?![\w.])
    | (?P<key>(?:and|or|true|false|(?:not\s+)?(?:in|like)|not|is\s+(?:not\s+)?null)\b
             |<>|!=|<=|>=|[=<>(),])
    # Scripts have signs beside their letters.
    | (?P<name>(?:[^\W\d]|[^\s\0-\x7f])(?:\w|[^\s\0-\x7f])*)
    )""",
    re.VERBOSE | re.IGNORECASE,
)
COMPARISONS = ("=", "!=", "<>", "<", "<=", ">", ">=")
# The grammar is checked on a letter for each word: c is a column, t a text, v another literal.
LETTERS = dict.fromkeys(COMPARISONS, "s") | {
    "AND": "j",
    "OR": "j",
    "NOT": "n",
    "TRUE": "v",
    "FALSE": "v",
    "IS NULL": "0",
    "IS NOT NULL": "0",
    "IN": "i",
    "NOT IN": "i",
    "LIKE": "l",
    "NOT LIKE": "l",
    "(": "(",
    ")": ")",
    ",": ",",
}
TEST = re.compile(r"[ctv]s[ctv]|ci\([tv](?:,[tv])*\)|clt|c0|c")
# x is a condition.
NESTED = re.compile(r"nx|\(x(?:jx)*\)")
# The first whole number that is too large for LanceDB.
BIGINT = 2**63
ALLOWED = (
    "a filter compares columns with numbers, 'text', true or false by = != < <= > >= IN (...) LIKE "
    "or IS NULL, and joins by AND OR NOT (); text stands in single quotes, an unusual name in "
    "backticks"
)


def parse(where: str, columns: pa.Schema) -> str:
    """Reads a filter on these columns, and writes what was read as SQL."""
    if len(where) > LONGEST:
        raise InputError(
            f"filter {where[:30]!r}...: {len(where):,} characters; give at most {LONGEST:,}"
        )
    letters = ""
    words: list[str] = []
    end = 0
    try:
        while where[end:].strip():
            match = WORD.match(where, end)
            if match is None:
                raise ValueError("nothing in the grammar of filters begins so")
            kind = str(match.lastgroup)
            letter, word = _read(kind, match[kind], columns.names)
            letters += letter
            words.append(word)
            end = match.end()
    except ValueError as error:
        place = where[end:].strip()[:30]
        raise refusal(where, f"at {place!r}: {error}", columns) from None
    try:
        _check(letters, words)
        return " ".join(_compared(letters, words, columns))
    except ValueError as error:
        raise refusal(where, str(error), columns) from None


def refusal(where: str, reason: str, columns: pa.Schema) -> InputError:
    """The error about a filter, in one line."""
    return InputError(
        f"filter {where[:200]!r}: {reason}. Its columns are {', '.join(columns.names)}; {ALLOWED}"
    )


def _check(letters: str, words: Sequence[str]) -> None:
    """Raises a ValueError if the words make no condition, or if their patterns take too long."""
    conditions = TEST.sub("x", letters)
    for _ in range(DEEPEST):
        conditions = NESTED.sub("x", conditions)
    if not words:
        raise ValueError("it is empty")
    if NESTED.search(conditions):
        raise ValueError(f"more than {DEEPEST} parentheses and NOTs, one inside the other")
    if not re.fullmatch("x(jx)*", conditions):
        raise ValueError("no condition")
    patterns = [word for before, word in pairwise(words) if before.endswith("LIKE")]
    if sum(pattern.count("_") for pattern in patterns) > MOST_BLANKS:
        raise ValueError(f"more than {MOST_BLANKS} signs _ in patterns; % is free")


def _compared(letters: str, words: Sequence[str], columns: pa.Schema) -> list[str]:
    """The words, with values of one type in each test."""
    types = {f"`{field.name}`": field.type for field in columns}
    words = list(words)
    for test in TEST.finditer(letters):
        part = slice(*test.span())
        words[part] = _comparable(words[part], types)
    return words


def _read(kind: str, word: str, columns: Sequence[str]) -> tuple[str, str]:
    """The letter of a word, and its SQL."""
    if kind == "text":
        return "t", word
    if kind == "key":
        key = " ".join(word.upper().split())
        # The sign of the kelvin, say, is a k for patterns.
        return LETTERS.get(key, "?"), key
    if kind == "number":
        if isinf(float(word)):
            raise ValueError("a number is too large")
        return "v", word
    if kind == "time":
        return "v", _time(word)
    return "c", f"`{_column(kind, word, columns)}`"


def _time(word: str) -> str:
    """A date or a time, written as LanceDB reads it."""
    name, text, _ = word.split("'")
    try:
        if name.strip().lower() == "date":
            return f"date '{date.fromisoformat(text)}'"
        return f"timestamp '{datetime.fromisoformat(text)}'"
    except ValueError:
        raise ValueError(
            "no date or time such as date '2024-12-31' or timestamp '2024-12-31 23:59:59'"
        ) from None


def _column(kind: str, word: str, columns: Sequence[str]) -> str:
    """The column that a word means; a name without backticks may be in another case."""
    if word in columns:
        return word
    alike = [column for column in columns if column.lower() == word.lower()]
    if kind == "name" and len(alike) == 1:
        return alike[0]
    if word.upper() == "NULL":
        raise ValueError(f"no column {word!r}; NULL only follows IS")
    raise ValueError(f"no column {word!r}")


def _number(word: str) -> str:
    """A number as LanceDB reads it: whole if it has no fraction and is small enough."""
    value: float = float(word)
    if word.lstrip("-").isdigit():
        value = int(word)
    if value == value // 1 and abs(value) < BIGINT:
        return str(int(value))
    return str(float(value))


def _comparable(test: list[str], types: Mapping[str, pa.DataType]) -> list[str]:
    """A test that compares numbers as numbers, and a number with a text as a text."""
    numbers = [word for word in test if word[0] in "-.0123456789"]
    if not numbers:
        return test
    if pa.string() in [types.get(word) for word in test]:
        if test[1] in ("<", "<=", ">", ">="):
            raise ValueError(f"a text is not compared with a number; write '{numbers[0]}'")
        written = {word: f"'{word}'" for word in numbers}
    else:
        written = _as_numbers(test, numbers, types)
    return [written.get(word, word) for word in test]


def _as_numbers(
    test: Sequence[str], numbers: Sequence[str], types: Mapping[str, pa.DataType]
) -> dict[str, str]:
    """How the numbers of a test are written, and its columns if one of the numbers is not whole."""
    written = {word: _number(word) for word in numbers}
    if re.fullmatch("[-0-9]+", "".join(written.values())):
        return written
    columns = [word for word in test if word in types]
    return written | {name: _as_double(name, types[name]) for name in columns}


def _as_double(name: str, type_: pa.DataType) -> str:
    """A column, of whole or decimal numbers as the nearest of 64 bits."""
    if pa.types.is_integer(type_) or pa.types.is_decimal(type_):
        return f"CAST({name} AS DOUBLE)"
    return name
