"""Plugins: Python code from outside that adds methods, tasks and more to isotune's registries.

A plugin is a Python file that the user names, or an installed package with an entry point of the
group `isotune.plugins`. Files are never searched for. Runs and encoders remember the files by path
and SHA-256.
"""

import hashlib
import sys
import traceback
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from isotune.errors import InputError, as_input_error
from isotune.registry import Registry


class Plugin(NamedTuple):
    """A plugin's file."""

    path: str
    """The path, as the user named it."""

    sha256: str
    """The hash of the file's bytes."""


_LOADED: dict[str, Plugin] = {}
"""The plugins by the names of their modules."""


def load_plugin(path: str | Path) -> Plugin:
    """Runs a Python file, which adds to isotune's registries.

    A file that has not changed since runs only once.

    Raises:
        InputError: the file can't be read, or fails; the message has the line.
    """
    # A circle of links is a RuntimeError, and a NUL byte in the name a ValueError.
    kinds = (OSError, RuntimeError, ValueError)
    with as_input_error(kinds, f"plugin {path}: it can't be read", "; give a Python file"):
        file = Path(path).resolve()
        code = file.read_bytes()
    plugin = Plugin(str(path), hashlib.sha256(code).hexdigest())
    name = f"isotune_plugin_{file.stem}_{hashlib.sha256(str(file).encode()).hexdigest()[:8]}"
    if name in _LOADED and _LOADED[name].sha256 == plugin.sha256:
        return _LOADED[name]
    module = ModuleType(name)
    module.__file__ = str(file)
    # dataclasses and pydantic look there for the names in annotations.
    sys.modules[name] = module
    try:
        exec(compile(code, file, "exec"), module.__dict__)
    except Exception as error:
        del sys.modules[name]
        reason = f"{type(error).__name__}: {error}"
        if isinstance(error, InputError):
            reason = str(error)
        raise InputError(f"plugin {path}:{_line_of(error, file)}: {reason}") from error
    _LOADED[name] = plugin
    return plugin


def _line_of(error: Exception, file: Path) -> int:
    """The last line of the file on the way to an error, or the line that can't be compiled."""
    line = getattr(error, "lineno", None) or 1
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == str(file) and frame.lineno:
            line = frame.lineno
    return line


def loaded_plugins() -> tuple[Plugin, ...]:
    """The files that `load_plugin` has run, in order."""
    return tuple(_LOADED.values())


def plugin_words() -> list[str]:
    """The words that name the loaded files on the command line."""
    words = []
    for plugin in loaded_plugins():
        words += ["--plugin", plugin.path]
    return words


def plugins_of(code: Iterable[Any]) -> dict[str, str]:
    """{path: SHA-256} of the plugins that these functions and classes are from."""
    modules = {part.__module__ for part in code}
    return {plugin.path: plugin.sha256 for name, plugin in _LOADED.items() if name in modules}


def plugins_behind(names: Collection[str]) -> list[Plugin]:
    """The loaded files that have added one of these names, or no name at all.

    What a file without a name does, a result may depend on.
    """
    behind = []
    for module, plugin in _LOADED.items():
        added = Registry.names_added.get(module, set())
        if not added or added.intersection(names):
            behind.append(plugin)
    return behind


def require_plugins(stored: Mapping[str, str], what: str) -> list[str]:
    """Checks that the plugins {path: SHA-256} are loaded.

    Gives the paths of those whose file has changed since.
    """
    hashes = {plugin.sha256 for plugin in loaded_plugins()}
    names = {Path(plugin.path).name for plugin in loaded_plugins()}
    changed = [path for path, sha256 in stored.items() if sha256 not in hashes]
    for path in changed:
        if Path(path).name not in names:
            raise InputError(
                f"{what} was made with the plugin {path}; give --plugin {path}, or in Python call "
                "isotune.load_plugin"
            )
    return changed


@cache
def load_installed() -> None:
    """Imports the plugins of installed packages, once."""
    # The module is slow to import.
    from importlib.metadata import entry_points

    for entry in entry_points(group="isotune.plugins"):
        try:
            entry.load()
        except Exception as error:
            package = entry.dist.name if entry.dist else entry.value
            raise InputError(
                f"plugin {entry.name} of the package {package}: {type(error).__name__}: {error}; "
                f"update the package, or remove it (pip uninstall {package})"
            ) from error


Registry.add_more = load_installed
