"""Files and folders of this machine, and of object stores such as s3://bucket/texts.

They are reached by pyarrow's file systems.
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from pyarrow import ArrowException, fs

from isotune.data.rows import is_unicode
from isotune.errors import InputError, as_input_error
from isotune.files import atomic_write


class Place(NamedTuple):
    """A file or a folder. Another process gets the same place from its pickle."""

    name: str
    """The name for messages. A URI has no password here."""
    system: fs.FileSystem
    path: str
    """The path in the system."""

    @classmethod
    def of(cls, name: str | Path) -> "Place":
        """The place at a path or a URI."""
        if not is_unicode(str(name)):
            raise InputError(
                f"{name}: this name has signs that are no Unicode, which pyarrow can't open; give "
                "another name"
            )
        scheme, is_uri, _ = str(name).partition("://")
        if not is_uri:
            # pyarrow writes "/" between folders, also on Windows.
            path = Path(os.path.abspath(name)).as_posix()
            return cls(str(Path(name)), fs.LocalFileSystem(), path)
        try:
            system, path = fs.FileSystem.from_uri(str(name))
        except (ArrowException, OSError) as error:
            # The address may have a password.
            reason = str(error).replace(str(name), "the address")
            raise InputError(
                f"{scheme}://...: no place for files ({' '.join(reason.split())})"
            ) from None
        return cls(f"{scheme}://{path}", system, path)

    @property
    def is_local(self) -> bool:
        """Whether it is a place of this machine's file system."""
        return isinstance(self.system, fs.LocalFileSystem)

    def below(self, name: str) -> "Place":
        """The place of this name in the folder; of the name "", the place itself."""
        if not name:
            return self
        return Place(os.path.join(self.name, name), self.system, f"{self.path}/{name}")

    def files(self) -> dict[str, int]:
        """The files in the folder and in its folders: {name: time in nanoseconds}.

        If the place is a file itself, its name is "".
        """
        with reaching(self.name):
            infos = [self.system.get_file_info(self.path)]
            if not infos[0].is_file:
                infos = self.system.get_file_info(
                    fs.FileSelector(self.path, allow_not_found=True, recursive=True)
                )
        return {info.path[len(self.path) + 1 :]: info.mtime_ns for info in infos if info.is_file}

    @contextmanager
    def read(self) -> Iterator[Path]:
        """The file as a file of this machine, which may be a copy.

        An `InputError` in the block names the place.
        """
        with ExitStack() as stack:
            path = Path(self.path)
            if not self.is_local:
                folder = stack.enter_context(TemporaryDirectory())
                path = Path(folder, path.name)
                with reaching(self.name):
                    fs.copy_files(self.path, str(path), self.system)
            try:
                yield path
            except InputError as error:
                raise InputError(str(error).replace(str(path), self.name)) from error

    @contextmanager
    def atomic_write(self) -> Iterator[Path]:
        """A path to write at.

        What is there when the block ends becomes the file, which is whole or not there.
        """
        if self.is_local:
            with atomic_write(Path(self.path)) as path:
                yield path
            return
        with TemporaryDirectory() as folder:
            path = Path(folder, "file")
            yield path
            # An object gets its name when it is complete.
            with reaching(self.name):
                fs.copy_files(str(path), self.path, destination_filesystem=self.system)


def reaching(name: str) -> AbstractContextManager[None]:
    """Turns an error of a file system into one line."""
    return as_input_error((ArrowException, OSError), f"{name}: it can't be reached")
