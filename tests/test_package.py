"""The installed package: its version, what importing it changes, and what its wheel holds."""

import doctest
import importlib
import os
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from textwrap import dedent
from zipfile import ZipFile

import pytest

import isotune
from isotune.kernels.cpu import memory

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src"


def test_the_version_is_that_of_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert isotune.__version__ == project["version"]
    assert f"\nversion: {project['version']}\n" in (ROOT / "CITATION.cff").read_text()


def test_importing_isotune_imports_next_to_nothing() -> None:
    code = (
        "import sys; before = set(sys.modules); import isotune; print(*(set(sys.modules) - before))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = {name.partition(".")[0] for name in run.stdout.split()}
    assert imported - sys.stdlib_module_names == {"isotune", "lazy_loader"}


USE_OF_AN_ENCODER = """
    import os, random, sys, threading, warnings

    import huggingface_hub.utils
    import numpy
    import torch
    import transformers

    # torch and transformers themselves change the process when they are first used.
    torch.nn.Linear(1, 1)
    transformers.AutoModel, transformers.BertModel, transformers.AttentionInterface

    def state():
        mkldnn, cuda, logging = torch.backends.mkldnn, torch.backends.cuda, transformers.logging
        in_a_new_thread = []
        thread = threading.Thread(target=lambda: in_a_new_thread.append(torch.get_num_threads()))
        thread.start()
        thread.join()
        return {
            "environment": dict(os.environ),
            "threads": (torch.get_num_threads(), *in_a_new_thread, torch.get_num_interop_threads()),
            "types": (torch.get_default_dtype(), str(torch.get_default_device())),
            "products": torch.get_float32_matmul_precision(),
            "precisions": [
                part.fp32_precision
                for part in (torch.backends, mkldnn, mkldnn.matmul, cuda.matmul)
            ],
            "denormal numbers": float(torch.tensor(1e-40) * 1),
            "deterministic": (torch.get_deterministic_debug_mode(), mkldnn.deterministic),
            "random": (torch.get_rng_state().tolist(), random.getstate()),
            "random of numpy": str(numpy.random.get_state()),
            "gradients": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
            "autocast": torch.is_autocast_enabled("cpu"),
            "logging": (logging.get_verbosity(), logging.is_progress_bar_enabled()),
            "progress bars": huggingface_hub.utils.are_progress_bars_disabled(),
            "warnings": list(map(str, warnings.filters)),
            "hooks": (sys.excepthook, threading.excepthook),
        }

    def check(step):
        for name, value in state().items():
            assert value == before[name], f"{step}: {name} was {before[name]}, is {value}"
        assert "mallopt" not in looked_up, step

    huggingface_hub.utils.disable_progress_bars()  # not transformers' own bars
    before, looked_up = state(), []

    import isotune
    from isotune.kernels.cpu import memory

    c_function = memory._c_function
    memory._c_function = lambda name: looked_up.append(name) or c_function(name)
    check("import isotune")
    encoder = isotune.Encoder.load(sys.argv[1])
    check("Encoder.load")

    from isotune.encoder import model as module, stream
    from isotune.kernels.cpu import float32

    float32.pays = lambda: True  # has a setting changed while sentences are encoded
    module.BATCH_BYTES["cpu"], stream.PART = 2**12, 200
    sentences = ["a dog eats", "the man sees a small cat"] * 500
    encoder.encode("a dog")
    encoder.encode(sentences, normalize=True)
    check("encode")
    parts = encoder.encode_parts(sentences)
    next(parts)
    check("encode_parts, half-way")
    del parts
    check("encode_parts, abandoned")
    try:
        encoder.encode([*sentences, 7])
    except isotune.InputError:
        check("encode, after an error")
        print("done", *sorted(set(looked_up)))
"""


def test_using_an_encoder_leaves_the_process_as_it_was(tiny_model: Path) -> None:
    environment = {
        name: value for name, value in os.environ.items() if name not in memory.PREPARED_VARIABLES
    }
    environment |= {"OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-c", dedent(USE_OF_AN_ENCODER), str(tiny_model)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["done", "malloc_trim"]


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(SOURCES.rglob("*.py")) if ">>>" in path.read_text()],
    ids=lambda path: path.stem,
)
def test_the_examples_in_the_docstrings_are_right(path: Path) -> None:
    name = ".".join(path.relative_to(SOURCES).with_suffix("").parts)
    results = doctest.testmod(importlib.import_module(name.removesuffix(".__init__")))
    assert results.attempted
    assert not results.failed


@pytest.mark.slow
def test_wheel_and_sdist_have_the_same_bytes_wherever_they_are_built(tmp_path: Path) -> None:
    def build(root: Path, place: str, **environment: str) -> dict[str, bytes]:
        command = [sys.executable, "-m", "hatchling", "build", "--directory", str(tmp_path / place)]
        given = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000", **environment}
        subprocess.run(command, cwd=root, env=given, check=True, capture_output=True)
        return {path.name: path.read_bytes() for path in (tmp_path / place).iterdir()}

    first = build(ROOT, "first")
    (sdist,) = (tmp_path / "first").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "elsewhere", filter="data")
    (elsewhere,) = (tmp_path / "elsewhere").iterdir()
    (elsewhere / "PKG-INFO").unlink()  # what the build itself adds
    for path in elsewhere.rglob("*"):
        path.chmod(path.stat().st_mode & 0o700)  # as a checkout under umask 077
    assert build(elsewhere, "second", TZ="Asia/Tokyo", LANG="C") == first
    assert len(first) == 2


def test_the_wheel_holds_every_file_of_the_package(tmp_path: Path) -> None:
    build = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "--target",
        "wheel",
        "--directory",
        str(tmp_path),
    ]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("isotune-*.whl")

    files = [
        path.relative_to(SOURCES) for path in (SOURCES / "isotune").rglob("*") if path.is_file()
    ]
    there = {path.as_posix() for path in files if "__pycache__" not in path.parts}
    with ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if name.startswith("isotune/")}
    assert held == there
    assert "isotune/py.typed" in held
    assert wheel.stat().st_size < 12e6
