"""What of the source would fail on Windows or macOS, found by reading it.

A use that is found is mended, or stands in `OTHER_WAY` with the test of what happens there.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.windows.stubs import missing

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src" / "isotune").rglob("*.py"))
TOOLS = sorted((ROOT / "tools").glob("*.py"))

COMMANDS = "test_commands_as_on_windows"

# The test of what happens where a platform lacks what a file uses, or does something else.
OTHER_WAY = {
    ("data/kept_vectors.py", "np.load(mmap_mode)"): COMMANDS,
    ("data/tokens.py", "np.memmap"): COMMANDS,
    ("encoder/format/modules.py", "load_file"): COMMANDS,
    ("encoder/format/pretrained.py", "safe_open"): COMMANDS,
    ("encoder/saving.py", "weights_file.chmod"): COMMANDS,
    ("engine/loader.py", "np.memmap"): COMMANDS,
    ("engine/loader.py", "os.posix_fallocate"): "test_flow_leaves_the_model_as_it_is",
    ("files.py", "os.link"): "test_a_new_file_takes_no_taken_name_on_windows",
    ("files.py", "part.rename"): COMMANDS,
    ("kernels/cpu/float32.py", "/proc/cpuinfo"): "test_no_file_tells_the_processor_on_windows",
    ("kernels/cpu/memory.py", "/sys/fs/cgroup"): "test_memory_without_a_control_group",
    ("kernels/cpu/memory.py", "ctypes.CDLL"): "test_a_c_library_without_a_name_is_left_alone",
    ("kernels/cpu/memory.py", "resource.RUSAGE_SELF"): "test_peak_memory_of_each_system",
    ("kernels/cpu/memory.py", "resource.getrusage"): "test_peak_memory_of_each_system",
    ("kernels/threads.py", "os.register_at_fork"): "test_locks_where_nothing_forks",
    ("lab/studies/job.py", "path.rename"): "test_a_folder_is_dropped_as_on_windows",
    ("training/outcome.py", "kept.rename"): COMMANDS,
    ("training/outcome.py", "new.rename"): COMMANDS,
    ("report/facts.py", "safe_open"): COMMANDS,
    ("training/run_folder.py", "safe_open"): "test_a_checkpoint_that_was_read_can_be_replaced",
    (
        "use/serve/protocol.py",
        "resource.RLIMIT_NOFILE",
    ): "test_connections_without_a_limit_of_files",
    (
        "use/serve/protocol.py",
        "resource.RLIM_INFINITY",
    ): "test_connections_without_a_limit_of_files",
    ("use/serve/protocol.py", "resource.getrlimit"): "test_connections_without_a_limit_of_files",
}

# Windows renames to no taken name, and has modes and links for few.
DIFFERENT = {"chmod", "hardlink_to", "link", "lchmod", "rename", "renames", "symlink", "symlink_to"}
# A file that they have mapped into memory can't be replaced or removed on Windows.
MAPPING = {"load_file", "memmap", "mmap", "safe_open"}
# What else can be opened.
NOT_FILES = {"Image", "Index", "folder", "os", "tarfile"}
FOLDERS_OF_UNIX = ("/dev/", "/etc/", "/proc/", "/sys/", "/tmp/", "/usr/", "/var/")


def found(tree: ast.AST) -> Iterator[str]:
    """What a file uses that differs between the systems."""
    modules = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=module), attr=name) if module in modules:
                if name in missing(module, "win32") | missing(module, "darwin"):
                    yield f"{module}.{name}"
            case ast.ImportFrom(module=str(module), names=names):
                for name in {alias.name for alias in names}:
                    if name in missing(module, "win32") | missing(module, "darwin"):
                        yield f"{module}.{name}"
            case ast.Constant(value=str(text)) if text.startswith(FOLDERS_OF_UNIX):
                yield text
        if isinstance(node, ast.Call):
            yield from _found_in_call(node)


def _found_in_call(call: ast.Call) -> Iterator[str]:
    function = ast.unparse(call.func)
    name = function.rpartition(".")[2]
    if name in DIFFERENT | MAPPING or function == "ctypes.CDLL":
        yield function
    if any(keyword.arg == "mmap_mode" for keyword in call.keywords):
        yield f"{function}(mmap_mode)"
    for argument in call.args:
        # "%-d" is a day without a zero in C libraries of Unix alone.
        if name == "strftime" and "%-" in ast.unparse(argument):
            yield f"{function} of %-"


def test_what_a_system_lacks_has_another_way_that_is_tested() -> None:
    uses = set()
    for path in SOURCES:
        name = path.relative_to(ROOT / "src" / "isotune").as_posix()
        uses |= {(name, use) for use in found(ast.parse(path.read_text("utf-8")))}
    assert uses == set(OTHER_WAY)
    tests = "".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    for test in OTHER_WAY.values():
        assert f"def {test}(" in tests


@pytest.mark.parametrize(
    ("code", "use"),
    [
        ("import os; os.fork()", "os.fork"),
        ("import signal; signal.SIGKILL", "signal.SIGKILL"),
        ("from os import getuid", "os.getuid"),
        ("import fcntl; fcntl.flock(0, 1)", "fcntl.flock"),
        ("import time; time.tzset()", "time.tzset"),
        ("import os; os.O_DIRECTORY", "os.O_DIRECTORY"),
        ("import os; os.posix_fadvise", "os.posix_fadvise"),
        ("import ctypes; ctypes.CDLL('libc.so.6')", "ctypes.CDLL"),
        ("open('/dev/null')", "/dev/null"),
        ("now.strftime('%-d')", "now.strftime of %-"),
        ("path.symlink_to(other)", "path.symlink_to"),
        ("np.load(path, mmap_mode='r')", "np.load(mmap_mode)"),
    ],
)
def test_such_uses_are_found(code: str, use: str) -> None:
    assert use in set(found(ast.parse(code)))


def texts_of_the_machine(tree: ast.AST) -> Iterator[str]:
    """Calls whose text would be of the machine's code page, or get the machine's ends of lines."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        *owner, name = ast.unparse(node.func).split(".")
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        texts = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
        mode = next((text for text in texts if _is_mode(text)), "r")
        match name:
            case "open" if NOT_FILES.isdisjoint(owner):
                opens_text = "b" not in mode
                writes = "r" not in mode
                place = 3
            case "read_text":
                opens_text = True
                writes = False
                place = 0
            case "write_text" if owner and owner[-1] != "files":
                opens_text = True
                writes = True
                place = 1
            case _:
                continue
        has_encoding = "encoding" in given or len(node.args) > place
        has_ends = not writes or "newline" in given
        if opens_text and not (has_encoding and has_ends):
            yield f"line {node.lineno}: {ast.unparse(node)}"


def _is_mode(text: object) -> bool:
    return isinstance(text, str) and 0 < len(text) < 4 and set(text) <= set("rwaxbt+")


@pytest.mark.parametrize("path", SOURCES + TOOLS, ids=lambda path: path.stem)
def test_texts_are_utf_8_and_have_the_same_ends_of_lines_everywhere(path: Path) -> None:
    assert list(texts_of_the_machine(ast.parse(path.read_text("utf-8")))) == []


@pytest.mark.parametrize(
    "code",
    [
        "open(name)",
        "path.open('w')",
        "path.open('w', encoding='utf-8')",
        "Path(name).read_text()",
        "path.write_text(text)",
        "path.write_text(text, 'utf-8')",
    ],
)
def test_such_texts_are_found(code: str) -> None:
    assert len(list(texts_of_the_machine(ast.parse(code)))) == 1
