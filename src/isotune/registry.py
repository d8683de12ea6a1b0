"""Registries: names that a user can choose, and the code behind each name.

An entry of isotune that loads torch is written as "module:name" and imported when it is first used,
so that a registry can be listed without torch; the others stand in the registry themselves. A
decorator adds an entry from outside.
"""

from collections.abc import Callable, Iterator, Mapping
from pkgutil import resolve_name
from typing import Any, ClassVar, Generic, TypeVar

from isotune.errors import InputError, unknown

T = TypeVar("T")
C = TypeVar("C", bound=Callable[..., Any])


class Registry(Mapping[str, T], Generic[T]):
    """The entries of one kind by name.

    A name that nobody has registered raises the `InputError` of `unknown`.
    """

    names_added: ClassVar[dict[str, set[str]]] = {}
    """By the name of a module outside of isotune, the names that its decorators have added."""

    add_more: ClassVar[Callable[[], object]] = tuple
    """Called when a registry is listed or lacks a name.

    `isotune.plugins` puts its loader of installed plugins here.
    """

    def __init__(self, kind: str, own: Mapping[str, T | str]) -> None:
        """Makes a registry of isotune's `own` entries.

        Each is an entry, or "module:name" of an entry in `isotune`.
        """
        self.kind = kind
        self._entries: dict[str, T | str] = dict(own)
        self._origins = dict.fromkeys(own, "isotune")

    def __getitem__(self, name: str) -> T:
        entry = self._entries[self.check(name)]
        if isinstance(entry, str):
            entry = resolve_name(f"isotune.{entry}")
            self._entries[name] = entry
        return entry

    def __contains__(self, name: object) -> bool:
        if name not in self._entries:
            Registry.add_more()
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        Registry.add_more()
        return iter(tuple(self._entries))

    def __len__(self) -> int:
        Registry.add_more()
        return len(self._entries)

    def check(self, name: str) -> str:
        """Gives a known name back, to validate options; raises `InputError` for another."""
        if name not in self:
            raise unknown(self.kind, name, self)
        return name

    def add(self, name: str, entry: T, origin: str) -> None:
        """Adds an entry; `origin` says which code or file it is from.

        The same code may come again. It then replaces the entry.
        """
        if name in self._entries and self._origins[name] != origin:
            raise InputError(
                f"{self.kind} {name!r} exists already, from {self._origins[name]}; choose another "
                "name"
            )
        self._entries[name] = entry
        self._origins[name] = origin

    def adding(self, name: str, make: Callable[[Any], T] = lambda code: code) -> Callable[[C], C]:
        """A decorator that adds what `make` makes of a function or a class.

        It returns that function or class.
        """

        def add(code: C) -> C:
            self.add(name, make(code), f"{code.__module__}.{code.__qualname__}")
            Registry.names_added.setdefault(code.__module__, set()).add(name)
            return code

        return add
