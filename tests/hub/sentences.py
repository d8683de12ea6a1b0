"""Sentences and scored pairs of the words in `tests/conftest.py`, which the tokenizer knows."""

SIZES = {"train": 24, "validation": 12, "dev": 12, "test": 12}  # rows of a split
_SUBJECTS = ("the man", "a woman", "the big dog", "a small cat", "the red ball", "a blue house")
_VERBS = ("sees", "eats", "plays with", "is in", "was on", "is at")


def sentence(number: int) -> str:
    """One of 180 different sentences."""
    subject, rest = divmod(number % 180, 30)
    verb, other = divmod(rest, 5)
    return f"{_SUBJECTS[subject]} {_VERBS[verb]} {_SUBJECTS[(subject + other + 1) % 6]} ."


def scored(count: int, start: int = 0) -> list[tuple[str, str, float]]:
    """Pairs with scores from 0 to 5; the higher one is, the nearer are the sentences."""
    return [
        (sentence(start + n), sentence(start + n + 5 - n % 6), float(n % 6)) for n in range(count)
    ]
