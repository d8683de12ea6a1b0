"""The late import: what is imported when it is first used, by its name in isotune."""

from pkgutil import resolve_name
from typing import Any


def load(name: str) -> Any:
    """A module of isotune, or what a module has: "methods.flow:BERTFlow"."""
    return resolve_name(f"isotune.{name}")
