"""Makes a process on Linux refuse what Windows refuses.

`install` can't be taken back, so it is called in a process of its own, before isotune is imported.
Then:

- a file that is open or mapped into memory can't be removed, replaced or renamed, and neither can
  the folder that it is in
- a rename takes no name that is taken, and nothing replaces a folder
- a new name has none of Windows' reserved characters, is none of the reserved names, and differs
  from its neighbours in more than the case of its letters
- a temporary file has a name; a folder can't be opened
- functions and modules are missing that only Unix has
"""

import errno
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

IN_USE = "The process cannot access the file because it is being used by another process"
RESERVED_CHARACTERS = set('<>:"|?*\\') | {chr(number) for number in range(32)}
RESERVED_NAMES = {"CON", "PRN", "AUX", "NUL"} | {
    f"{device}{number}" for device in ("COM", "LPT") for number in range(1, 10)
}
MISSING = {
    os: "fork getuid killpg posix_fadvise posix_fallocate register_at_fork sched_getaffinity"
    " setsid sysconf uname",
    signal: "SIGALRM SIGHUP SIGKILL SIGPIPE SIGQUIT SIGUSR1 alarm pthread_kill pthread_sigmask"
    " setitimer",
}
MISSING_MODULES = ("fcntl", "grp", "pwd", "resource", "termios")
# Libraries that look for Windows when they are imported, so they come first.
KNOW_WINDOWS = "cyclopts datasets lancedb rich.console sentence_transformers uvicorn"

_rename = os.rename
_open = os.open


def install() -> None:
    """Changes this process for good."""
    for name in KNOW_WINDOWS.split():
        __import__(name)
    for module, names in MISSING.items():
        for name in names.split():
            delattr(module, name)
    for name in MISSING_MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    os.rename = _rename_to_free_name
    os.open = _open_no_folder
    # It would open folders.
    shutil._use_fd_functions = False
    tempfile.TemporaryFile = tempfile.NamedTemporaryFile
    sys.addaudithook(_refuse)


def _rename_to_free_name(source: Any, target: Any) -> None:
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, "Cannot create a file that already exists", str(target))
    _rename(source, target)


def _open_no_folder(path: Any, flags: int, *rest: Any, **named: Any) -> int:
    if os.path.isdir(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))
    return _open(path, flags, *rest, **named)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    """Hears what Python is about to do, and raises the error that Windows would give."""
    if event == "os.rename":
        source, target = arguments[:2]
        _check_free(source)
        _check_free(target)
        _check_name(target)
        if os.path.isdir(target):
            raise PermissionError(errno.EACCES, "Access is denied", str(target))
    elif event == "os.remove":
        # Windows itself removes a temporary file when the last handle of it is closed.
        if sys._getframe(1).f_code.co_filename != tempfile.__file__:
            _check_free(arguments[0])
    elif event == "os.rmdir":
        _check_free(arguments[0])
    elif event == "os.mkdir":
        _check_name(arguments[0])
    elif event == "open":
        path, _, flags = arguments
        if isinstance(path, str | bytes | os.PathLike) and flags & os.O_CREAT:
            _check_name(path)


def _check_free(path: Any) -> None:
    """Raises an error if this process has the file, or a file of the folder, open or mapped."""
    name = os.path.realpath(os.fsdecode(path))
    if name in _in_use() or any(used.startswith(f"{name}/") for used in _in_use()):
        raise PermissionError(errno.EACCES, IN_USE, name)


def _in_use() -> set[str]:
    """The files that this process has open or mapped, also those that were removed meanwhile."""
    names = set()
    for number in os.listdir("/proc/self/fd"):
        # The folder that is listed has a number too, which is closed by now.
        link = f"/proc/self/fd/{number}"
        if os.path.lexists(link):
            names.add(os.readlink(link))
    for line in Path("/proc/self/maps").read_text("utf-8").splitlines():
        _, _, path = line.partition("/")
        names.add(f"/{path}")
    return {name.removesuffix(" (deleted)") for name in names}


def _check_name(path: Any) -> None:
    """Raises an error if Windows doesn't allow a file of this name, or has it already."""
    folder, name = os.path.split(os.path.abspath(os.fsdecode(path)))
    stem = name.partition(".")[0].upper()
    if set(name) & RESERVED_CHARACTERS or stem in RESERVED_NAMES or name[-1:] in (".", " "):
        raise OSError(errno.EINVAL, "The filename, directory name is incorrect", name)
    if not os.path.isdir(folder):
        return
    for other in os.listdir(folder):
        if other != name and other.lower() == name.lower():
            raise FileExistsError(errno.EEXIST, "The same name in other letters is taken", other)
