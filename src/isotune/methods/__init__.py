"""The papers' methods, one file each. Importing this package loads no torch; making a method does."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from isotune.errors import unknown
from isotune.methods.options import ConSERTOptions, MethodOptions, SimCSEOptions

if TYPE_CHECKING:
    from isotune.methods.method import Method


class MethodEntry(NamedTuple):
    """A method's options, and its class as "module:class", which is only imported when it is made."""

    options: type[MethodOptions]
    location: str


METHODS = {
    "consert": MethodEntry(ConSERTOptions, "isotune.methods.consert:ConSERT"),
    "simcse": MethodEntry(SimCSEOptions, "isotune.methods.simcse:SimCSE"),
}


def method_class(name: str) -> type[Method]:
    """The class of a method; it takes its options and the encoder it trains.

    Raises:
        InputError: there is no method of that name.
    """
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    module, _, attribute = METHODS[name].location.partition(":")
    found: type[Method] = getattr(import_module(module), attribute)
    return found
