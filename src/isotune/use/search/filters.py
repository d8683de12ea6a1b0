"""Filters: conditions on the columns of an index, read part by part and written anew as SQL for LanceDB.

LanceDB takes any expression of SQL, and some functions take all memory of the process. So LanceDB never gets the text
of a filter. What it gets has what this grammar has, and nothing else:

    condition = all {OR all}
    all       = part {AND part}
    part      = NOT part | "(" condition ")" | column | operand (= | != | <> | < | <= | > | >=) operand
              | column [NOT] IN "(" literal {"," literal} ")" | column [NOT] LIKE text | column IS [NOT] NULL
    operand   = column | literal
    literal   = number | text | TRUE | FALSE | DATE text | TIMESTAMP text
"""

import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from math import isinf
from typing import NoReturn

import pyarrow as pa

from isotune.errors import InputError

LONGEST = 1000  # characters
DEEPEST = 20  # parentheses and NOTs, one inside the other; LanceDB and the parser below call themselves for each
# The signs _ in all patterns of a filter: the time of LIKE may double with each. A text of 100 kB takes 4 ms with 10 of
# them, 120 ms with 15, a second with 400. With hundreds of % alone it takes 1 ms.
MOST_BLANKS = 10
TOKEN = re.compile(
    r"""\s*(?:
    (?P<time>(?:date|timestamp)\s*'[^']*')
    | '(?P<text>(?:[^']|'')*)'
    | `(?P<quoted>[^`]+)`
    | (?P<number>-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?)(?![\w.])
    | (?P<key>(?:and|or|not|in|like|is|null|true|false)\b|<>|!=|<=|>=|[=<>(),])
    | (?P<name>(?:[^\W\d]|[^\s\0-\x7f])(?:\w|[^\s\0-\x7f])*)  # scripts have signs beside their letters
    )""",
    re.VERBOSE | re.IGNORECASE,
)
NAMES = ("name", "quoted")  # the kinds of tokens that are columns
COMPARISONS = ("=", "!=", "<>", "<", "<=", ">", ">=")
BIGINT = 2**63  # of LanceDB's whole numbers, the first that is too large
ALLOWED = (
    "a filter compares columns with numbers, 'text', true or false by = != < <= > >= IN (...) LIKE or IS NULL, and "
    "joins by AND OR NOT (); text stands in single quotes, an unusual name in backticks"
)


def parse(where: str, columns: pa.Schema) -> str:
    """Reads a filter on these columns, and writes what was read as SQL."""
    if len(where) > LONGEST:
        raise InputError(f"filter {where[:30]!r}...: {len(where):,} characters; give at most {LONGEST:,}")
    return _Parser(where, columns).parse()


def refusal(where: str, reason: str, columns: pa.Schema) -> InputError:
    """The error about a filter, in one line."""
    return InputError(f"filter {where[:200]!r}: {reason}. Its columns are {', '.join(columns.names)}; {ALLOWED}")


class _Parser:
    """Reads one filter, from its first token to the last: a function for each rule of the grammar, which gives SQL."""

    def __init__(self, where: str, columns: pa.Schema) -> None:
        self.where, self.columns = where, columns
        self.next = 0  # the place of the token
        self.depth = self.blanks = 0
        self.advance()

    def advance(self) -> None:
        self.start = self.next
        found = TOKEN.match(self.where, self.start)
        if found is None and self.where[self.start :].strip():
            self.refuse("nothing in the grammar of filters begins so")
        self.kind = (found and found.lastgroup) or ""
        self.value = found[self.kind] if found else ""
        self.next = found.end() if found else len(self.where)

    def refuse(self, reason: str) -> NoReturn:
        place = self.where[self.start :].strip()
        raise refusal(self.where, f"at {place[:30]!r}: {reason}" if place else f"at the end: {reason}", self.columns)

    def takes(self, *keys: str) -> str:
        """The token, if it is one of these words or signs, which is then left behind; else an empty text."""
        key = self.value.upper()
        if self.kind != "key" or key not in keys:
            return ""
        self.advance()
        return key

    def needs(self, key: str) -> None:
        if not self.takes(key):
            self.refuse(f"{key} is needed here")

    def parse(self) -> str:
        condition = self.condition()
        if self.kind:
            self.refuse("only AND or OR can follow here")
        return condition

    def condition(self) -> str:
        return self.joined("OR", self.all)

    def all(self) -> str:
        return self.joined("AND", self.part)

    def joined(self, word: str, read: Callable[[], str]) -> str:
        parts = [read()]
        while self.takes(word):
            parts.append(read())
        return f"({f' {word} '.join(parts)})" if len(parts) > 1 else parts[0]

    def part(self) -> str:
        if opening := self.takes("NOT", "("):
            self.depth += 1
            if self.depth > DEEPEST:
                self.refuse(f"more than {DEEPEST} parentheses and NOTs, one inside the other")
            inner = f"(NOT {self.part()})" if opening == "NOT" else self.condition()
            if opening == "(":
                self.needs(")")
            self.depth -= 1
            return inner
        is_column, left = self.kind in NAMES, self.operand()
        if comparison := self.takes(*COMPARISONS):
            left, right = self.compared(comparison, left, self.operand())
            return f"({left} {comparison} {right})"
        if not is_column:
            self.refuse("a comparison is needed after a value")
        return self.test(left)

    def test(self, column: str) -> str:
        """What follows a column that is not compared; nothing follows a column of booleans."""
        if self.takes("IS"):
            negated = self.takes("NOT")
            self.needs("NULL")
            test = f"({column} IS NULL)"
        else:
            negated = self.takes("NOT")
            if self.takes("IN"):
                column, *literals = self.compared("=", column, *self.literals())
                test = f"({column} IN ({', '.join(literals)}))"
            elif self.takes("LIKE"):
                test = f"({column} LIKE {self.pattern()})"
            elif negated:
                self.refuse("IN or LIKE is needed after NOT")
            else:
                return column
        return f"(NOT {test})" if negated else test

    def compared(self, comparison: str, *operands: str) -> list[str]:
        """Operands as they are compared: whole numbers with others as numbers, and a number with a text as a text."""
        types = {f"`{field.name}`": field.type for field in self.columns}
        numbers = [operand for operand in operands if operand[0] in "-0123456789"]
        if numbers and any(types.get(operand) == pa.string() for operand in operands):
            if comparison[0] in "<>" != comparison:
                self.refuse(f"a text is not compared with a number; write '{numbers[0]}'")
            return [f"'{operand}'" if operand in numbers else operand for operand in operands]
        if all(number.lstrip("-").isdigit() for number in numbers):
            return [*operands]
        whole = (name for name, type_ in types.items() if pa.types.is_integer(type_) or pa.types.is_decimal(type_))
        casts = {name: f"CAST({name} AS DOUBLE)" for name in whole}
        return [casts.get(operand, operand) for operand in operands]

    def literals(self) -> list[str]:
        self.needs("(")
        literals = [self.literal()]
        while self.takes(","):
            literals.append(self.literal())
        self.needs(")")
        return literals

    def pattern(self) -> str:
        if self.kind != "text":
            self.refuse("a pattern in single quotes is needed after LIKE")
        self.blanks += self.value.count("_")
        if self.blanks > MOST_BLANKS:
            self.refuse(f"more than {MOST_BLANKS} signs _ in patterns; % is free")
        return self.literal()

    def operand(self) -> str:
        if self.kind not in NAMES:
            return self.literal()
        name, unquoted = self.value, self.kind == "name"
        same = [column for column in self.columns.names if column == name]
        alike = [column for column in self.columns.names if unquoted and column.lower() == name.lower()]
        if len(found := same or alike) != 1:
            self.refuse(f"no column {name!r}")
        self.advance()
        return f"`{found[0]}`"

    def literal(self) -> str:
        kind, text = self.kind, self.value
        if kind == "text":
            literal = f"'{text}'"  # its quotes are doubled, as in SQL
        elif kind == "number":
            if isinf(float(text)):
                self.refuse("a number is too large")
            number = Decimal(text)
            literal = str(int(number) if number == int(number) and abs(number) < BIGINT else float(text))
        elif kind == "time":
            word, quoted, _ = text.split("'")
            try:
                word = "date" if word.strip().lower() == "date" else "timestamp"
                time = (date if word == "date" else datetime).fromisoformat(quoted)
            except ValueError:
                self.refuse("no date or time such as date '2024-12-31' or timestamp '2024-12-31 23:59:59'")
            literal = f"{word} '{time}'"
        elif kind == "key" and text.lower() in ("true", "false"):
            literal = text.lower()
        else:
            self.refuse("a column or a value is needed here; NULL only follows IS")
        self.advance()
        return literal
