"""Which rows of a task are copies of each other.

What was learned from a row is not tested on its copy.

Two texts are copies if their letters and digits are equal, case folded. Texts without a letter or
digit are copies if they are equal.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isotune.data.rows import copy_key
from isotune.errors import counted

logger = logging.getLogger(__name__)

Groups = NDArray[np.int64]
"""A number for each of N rows, [N], from 0 in the order of the rows.

Copies of a row have the row's number.
"""


def distinct_texts(texts: Iterable[str]) -> list[str]:
    """The texts without the copies of earlier ones, in their order."""
    first: dict[bytes, str] = {}
    for text in texts:
        first.setdefault(copy_key(text), text)
    return list(first.values())


def groups_of_copies(first: Sequence[str], second: Sequence[str] | None = None) -> Groups | None:
    """The groups of N texts, or of N pairs of texts in any order.

    It is None if no row is a copy of another.
    """
    keys: list[Any] = [copy_key(text) for text in first]
    if second is not None:
        pairs = zip(keys, map(copy_key, second), strict=True)
        keys = [tuple(sorted(pair)) for pair in pairs]
    numbers: dict[Any, int] = {}
    for key in keys:
        numbers.setdefault(key, len(numbers))
    if len(numbers) == len(keys):
        return None
    return np.array([numbers[key] for key in keys])


def number_of_copies(groups: Groups | None) -> int:
    """How many rows are copies of earlier ones."""
    if groups is None:
        return 0
    return len(groups) - int(groups.max()) - 1


def tell_copies(name: str, groups: Groups | None, unit: str, consequence: str) -> None:
    """Warns of the copies among the rows of a task, and says what follows from them."""
    if groups is None:
        return
    logger.warning(
        "%s: %s of %s are copies of others (letters and digits are compared); %s",
        name,
        f"{number_of_copies(groups):,}",
        counted(len(groups), unit),
        consequence,
    )
