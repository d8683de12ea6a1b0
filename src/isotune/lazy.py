"""Names that a package gives and imports from its modules when they are first used."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Makes the `__getattr__` of a package.

    Args:
        package: the package's `__name__`.
        modules: name -> the module that has it.
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)  # the next use finds the name without this function
        return value

    return get
