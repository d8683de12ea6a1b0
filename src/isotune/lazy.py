"""The late import: what is imported when it is first used, by its name in isotune."""

import sys
from collections.abc import Callable, Mapping
from pkgutil import resolve_name
from typing import Any


def load(name: str) -> Any:
    """A module of isotune, or what a module has: "methods.flow:BERTFlow"."""
    return resolve_name(f"isotune.{name}")


def lazy(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Makes the `__getattr__` of a package from name -> the module of isotune that has it."""

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = load(f"{modules[name]}:{name}")
        setattr(sys.modules[package], name, value)  # the next use finds the name without this function
        return value

    return get
